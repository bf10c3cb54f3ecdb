// SPDX-License-Identifier: GPL-2.0
/*
 * Makes every system call, of 64 and of 32 bits, with odd arguments: each in a process of its own,
 * which has a tenth of a second.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CALLS64 = 600, CALLS32 = 500 };

/* The calls after which the machine would not go on; the numbers of x86-64, and of i386. */
static const int never64[] = { SYS_reboot, SYS_kexec_load, SYS_kexec_file_load, SYS_kill, SYS_tkill, SYS_tgkill,
	SYS_vhangup, SYS_pivot_root, SYS_chroot, SYS_umount2, SYS_pidfd_send_signal, SYS_rt_sigqueueinfo,
	SYS_rt_tgsigqueueinfo, SYS_sethostname, SYS_settimeofday, SYS_clock_settime, SYS_syslog, SYS_process_mrelease,
	SYS_rt_sigreturn };
static const int never32[] = { 88, 283, 37, 238, 270, 111, 217, 61, 22, 52, 424, 178, 335, 74, 79, 25, 264, 103, 404, 448,
	119, 173 };

static int is_in(int number, const int *list, unsigned long length)
{
	for (unsigned long i = 0; i < length; i++)
		if (list[i] == number)
			return 1;
	return 0;
}

static long call32(int number, long a, long b, long c)
{
	long result;

	asm volatile("int $0x80" : "=a"(result) : "a"((long)number), "b"(a), "c"(b), "d"(c), "S"(0L), "D"(0L) : "memory");
	return result;
}

static void make(int number, int bits, int kind)
{
	static char buffer[4096];
	long first = kind ? 0 : -1, second = kind ? (long)buffer : 0;
	pid_t pid = fork();

	if (pid == 0) {
		ualarm(100000, 0);
		if (bits == 64)
			syscall(number, first, second, (long)sizeof(buffer), 0, 0, 0);
		else
			call32(number, first, 0, 0);
		_exit(0);
	}
	if (pid > 0)
		waitpid(pid, NULL, 0);
}

int main(void)
{
	setpgid(0, 0);
	for (int kind = 0; kind < 2; kind++) {
		for (int i = 0; i < CALLS64; i++)
			if (!is_in(i, never64, sizeof(never64) / sizeof(*never64)))
				make(i, 64, kind);
		for (int i = 0; i < CALLS32; i++)
			if (!is_in(i, never32, sizeof(never32) / sizeof(*never32)))
				make(i, 32, kind);
	}
	puts("done");
	return 0;
}
