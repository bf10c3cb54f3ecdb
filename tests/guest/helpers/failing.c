// SPDX-License-Identifier: GPL-2.0
// failing NAME: makes a system call that fails, and prints the error.
// failing handled COUNT: has errors that the kernel handles itself (handled.h), COUNT times each.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/ptrace.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "handled.h"

/* No thread has this ID, and no key. */
#define NONE 4000000

static int file(void)
{
	int fd = open("/init", O_RDONLY);

	if (fd < 0)
		perror("/init");
	return fd;
}

static long fails(const char *name)
{
	if (!strcmp(name, "mount"))
		return mount("none", "/", "nope", 0, NULL);
	if (!strcmp(name, "mmap"))
		return (long)mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, 999, 0);
	if (!strcmp(name, "socket"))
		return socket(44, SOCK_STREAM, 0);
	if (!strcmp(name, "kill"))
		return kill(NONE, 0);
	if (!strcmp(name, "keyctl"))
		return syscall(SYS_keyctl, 11, NONE, NULL, 0);
	if (!strcmp(name, "shmget"))
		return shmget(0x12345, 4096, 0);
	if (!strcmp(name, "futex")) {
		int word = 1;

		return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 2, NULL);
	}
	if (!strcmp(name, "timer_gettime")) {
		char buf[64];

		return syscall(SYS_timer_gettime, 12345, buf);
	}
	if (!strcmp(name, "sched_getscheduler"))
		return syscall(SYS_sched_getscheduler, NONE);
	if (!strcmp(name, "ptrace"))
		return ptrace(PTRACE_ATTACH, NONE, 0, 0);
	if (!strcmp(name, "epoll_ctl")) {
		struct epoll_event event = { 0 };
		int fd = file(), epoll = epoll_create1(0);

		return epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
	}
	if (!strcmp(name, "setns"))
		return syscall(SYS_setns, file(), 0);
	if (!strcmp(name, "finit_module"))
		return syscall(SYS_finit_module, file(), "", 0);
	if (!strcmp(name, "ioctl"))
		return ioctl(file(), 0x7fff);
	if (!strcmp(name, "openat"))
		return openat(AT_FDCWD, "/tmp/none/file", O_RDONLY);
	if (!strcmp(name, "unlinkat"))
		return unlinkat(AT_FDCWD, "/nonexistent", 0);
	if (!strcmp(name, "mkdir"))
		return mkdir("/tmp/mnt/one-more", 0700);
	if (!strcmp(name, "sethostname")) {
		/* Another user's. */
		if (setuid(65534))
			return 0;
		return sethostname("none", 4);
	}
	if (!strcmp(name, "bpf"))
		return syscall(SYS_bpf, 0, NULL, 0xffffff);
	fprintf(stderr, "no such call: %s\n", name);
	exit(2);
}

static int handled(long count)
{
	int fd = handled_socket();

	if (fd < 0)
		return 1;
	while (count-- > 0) {
		if (have_errors_handled(fd))
			return 1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "handled"))
		return handled(atol(argv[2]));
	if (argc != 2) {
		fprintf(stderr, "usage: failing NAME | failing handled COUNT\n");
		return 2;
	}
	errno = 0;
	if (fails(argv[1]) != -1)
		return 1;
	printf("%d\n", errno);
	return 0;
}
