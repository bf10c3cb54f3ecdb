// SPDX-License-Identifier: GPL-2.0
/*
 * Makes the kernel work, in known amounts.
 *
 *	calls getppid COUNT [CPU]	system calls, on that CPU only
 *	calls yields COUNT [CPU]	sched_yield, which no program here calls by itself
 *	calls turns COUNT [CPU]		getppid and sched_yield in turn
 *	calls together COUNT		turns on CPUs 0 and 1, eight times COUNT / 8, for which the
 *					two wait for each other; prints both pids
 *	calls files COUNT [CPU]		opens, stats, reads, pipes
 *	calls forks COUNT [CPU]		processes that exit at once
 *	calls signals COUNT [CPU]	getppid, while a timer's signal comes every millisecond
 *	calls alarms COUNT [CPU]	the same, until so many signals have come
 *	calls hold SECONDS PATH [MODE]	keeps PATH open (r, w or rw), says "open" when it is
 * COUNT 0: until SIGTERM, and then prints how many it was.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile sig_atomic_t alarms;

static void on_alarm(int signal)
{
	(void)signal;
	alarms++;
}

static volatile sig_atomic_t ended;

static void on_term(int signal)
{
	(void)signal;
	ended = 1;
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set)) {
		perror("sched_setaffinity");
		exit(1);
	}
}

static int together(unsigned long count)
{
	unsigned *arrived = mmap(NULL, sizeof(*arrived), PROT_READ | PROT_WRITE,
				 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	unsigned part;
	unsigned long i;
	pid_t other;
	int status = 1;

	if (arrived == MAP_FAILED)
		return 1;
	other = fork();
	if (other < 0)
		return 1;
	pin(!other);
	for (part = 1; part <= 8; part++) {
		__atomic_add_fetch(arrived, 1, __ATOMIC_SEQ_CST);
		while (__atomic_load_n(arrived, __ATOMIC_SEQ_CST) < 2 * part)
			;
		for (i = 0; i < count / 8; i++) {
			syscall(SYS_getppid);
			syscall(SYS_sched_yield);
		}
	}
	if (!other)
		_exit(0);
	printf("%d %d\n", getpid(), other);
	return waitpid(other, &status, 0) != other || status;
}

static void files(int pipes[2])
{
	char buffer[512];
	struct stat st;
	int fd = open("/proc/self/stat", O_RDONLY);

	if (fd < 0 || read(fd, buffer, sizeof(buffer)) <= 0 || fstat(fd, &st))
		exit(1);
	close(fd);
	if (stat("/etc/guest.env", &st) || stat("/nowhere/at/all", &st) != -1)
		exit(1);
	if (write(pipes[1], buffer, 100) != 100 || read(pipes[0], buffer, 100) != 100)
		exit(1);
}

static void forks(void)
{
	pid_t pid = fork();

	if (pid < 0)
		exit(1);
	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	struct itimerval every_ms = { { 0, 1000 }, { 0, 1000 } };
	unsigned long count, i;
	const char *mode;
	int is_alarms;
	int pipes[2];

	if (argc < 3)
		return 2;
	mode = argv[1];
	if (!strcmp(mode, "hold")) {
		const char *how = argc > 4 ? argv[4] : "r";

		if (open(argv[3], !strcmp(how, "r") ? O_RDONLY :
				  !strcmp(how, "w") ? O_WRONLY : O_RDWR) < 0) {
			perror(argv[3]);
			return 1;
		}
		puts("open");
		fflush(stdout);
		sleep(atoi(argv[2]));
		return 0;
	}
	count = strtoul(argv[2], NULL, 0);
	if (!strcmp(mode, "together"))
		return together(count);
	if (argc > 3)
		pin(atoi(argv[3]));
	if (pipe(pipes))
		return 1;
	is_alarms = !strcmp(mode, "alarms");
	if (is_alarms || !strcmp(mode, "signals")) {
		signal(SIGALRM, on_alarm);
		setitimer(ITIMER_REAL, &every_ms, NULL);
	}
	if (!count)
		signal(SIGTERM, on_term);
	for (i = 0; !ended && (!count || (is_alarms ? (unsigned long)alarms : i) < count); i++) {
		if (!strcmp(mode, "files"))
			files(pipes);
		else if (!strcmp(mode, "forks"))
			forks();
		else if (strcmp(mode, "yields"))
			syscall(SYS_getppid);
		if (!strcmp(mode, "turns") || !strcmp(mode, "yields"))
			syscall(SYS_sched_yield);
	}
	if (!count)
		printf("%lu\n", i);
	return 0;
}
