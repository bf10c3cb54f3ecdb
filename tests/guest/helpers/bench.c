// SPDX-License-Identifier: GPL-2.0
/*
 * Measures, for tests/guest/bench/bench.sh. All times are in hundredths of a ns; where a ns of the
 * guest is an instruction (ACCEL=icount) that is hundredths of an instruction.
 *
 *	bench calls CALLS RUNS		a getppid system call: the best of some runs of so many
 *	bench handled COUNT RUNS	what the kernel does for each error of handled.h, in the same way
 *	bench cpus CPUS CALLS RUNS	the same on that many CPUs at once, each with its own task
 *	bench read PATH SIZE		reads all of the file, SIZE bytes at a time: prints the time
 *					that all read() calls took, the number of bytes, and of lines
 *	bench edit PATH TEXT		appends TEXT in one write, and closes the file: prints the
 *					time of both
 *	bench turns TURNS CALLS		two processes on one CPU take turns, with so many getppid
 *					calls in each
 *	bench spent FILE COMMAND...	runs it, with SIGINT passed on, and writes to FILE the CPU time
 *					(user and system) of it and of all children that it waited for
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "handled.h"

#define MAX_CPUS 64

static long calls, runs;

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void run_on(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static int errors_fd = -1;

static long long one_run(void)
{
	long long start = now();

	if (errors_fd < 0) {
		for (long i = 0; i < calls; i++)
			syscall(SYS_getppid);
	} else {
		for (long i = 0; i < calls; i++)
			if (have_errors_handled(errors_fd))
				fail("errors that the kernel is to handle");
	}
	return (now() - start) * 100 / calls;
}

/* The best of some runs: interrupts only ever add. */
static long long best_run(void)
{
	long long best = one_run();

	for (long run = 1; run < runs; run++) {
		long long this = one_run();

		if (this < best)
			best = this;
	}
	return best;
}

static pthread_barrier_t all_ready;

static void *on_cpu(void *result)
{
	run_on(*(long long *)result);
	one_run();
	pthread_barrier_wait(&all_ready);
	*(long long *)result = best_run();
	return NULL;
}

static void on_cpus(int cpus)
{
	pthread_t threads[MAX_CPUS];
	long long results[MAX_CPUS], sum = 0;

	pthread_barrier_init(&all_ready, NULL, cpus);
	for (int cpu = 0; cpu < cpus; cpu++) {
		results[cpu] = cpu;
		if (pthread_create(&threads[cpu], NULL, on_cpu, &results[cpu]))
			fail("pthread_create");
	}
	for (int cpu = 0; cpu < cpus; cpu++) {
		pthread_join(threads[cpu], NULL);
		sum += results[cpu];
	}
	printf("%lld\n", sum / cpus);
}

static void read_all(const char *path, size_t size)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK);
	char *buffer = malloc(size);
	long long took = 0, bytes = 0, lines = 0;

	if (fd < 0 || !buffer)
		fail(path);
	/* Fault its pages in before. */
	memset(buffer, 1, size);
	for (;;) {
		long long start = now();
		ssize_t got = read(fd, buffer, size);

		took += now() - start;
		if (!got || (got < 0 && errno == EAGAIN))
			break;
		if (got < 0)
			fail(path);
		bytes += got;
		for (char *at = buffer; (at = memchr(at, '\n', buffer + got - at)); at++)
			lines++;
	}
	printf("%lld %lld %lld\n", took * 100, bytes, lines);
}

static void edit(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_APPEND);
	long long start = now();

	if (fd < 0)
		fail(path);
	if (write(fd, text, strlen(text)) != (ssize_t)strlen(text))
		fail(path);
	/* tracefs acts on it then. */
	if (close(fd))
		fail(path);
	printf("%lld\n", (now() - start) * 100);
}

static void take_turns(long turns, int from, int to)
{
	char token = 0;

	while (turns--) {
		if (read(from, &token, 1) != 1)
			fail("read");
		for (long i = 0; i < calls; i++)
			syscall(SYS_getppid);
		if (write(to, &token, 1) != 1)
			fail("write");
	}
}

static void turns(long turns)
{
	int there[2], back[2];
	pid_t pid;

	run_on(0);
	if (pipe(there) || pipe(back) || write(there[1], "", 1) != 1)
		fail("pipe");
	pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		take_turns(turns / 2, there[0], back[1]);
		exit(0);
	}
	take_turns(turns / 2, back[0], there[1]);
	waitpid(pid, NULL, 0);
}

static pid_t command;

static void pass_on(int signal)
{
	kill(command, signal);
}

static int spent(const char *path, char **argv)
{
	struct sigaction action = { .sa_handler = pass_on, .sa_flags = SA_RESTART };
	struct rusage usage;
	FILE *file;
	int status;

	/* A shell ignores it in what runs in the background. */
	signal(SIGINT, SIG_DFL);
	command = fork();
	if (command < 0)
		fail("fork");
	if (!command) {
		execvp(argv[0], argv);
		perror(argv[0]);
		_exit(127);
	}
	sigaction(SIGINT, &action, NULL);
	if (wait4(command, &status, 0, &usage) != command)
		fail("wait4");
	file = fopen(path, "w");
	if (!file)
		fail(path);
	fprintf(file, "%lld\n", ((usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000ll +
				usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 100000);
	if (fclose(file))
		fail(path);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "calls") && argc == 4) {
		calls = atol(argv[2]);
		runs = atol(argv[3]);
		printf("%lld\n", best_run());
	} else if (!strcmp(mode, "handled") && argc == 4) {
		calls = atol(argv[2]);
		runs = atol(argv[3]);
		errors_fd = handled_socket();
		if (errors_fd < 0)
			fail("socket");
		printf("%lld\n", best_run());
	} else if (!strcmp(mode, "cpus") && argc == 5 && atoi(argv[2]) <= MAX_CPUS) {
		calls = atol(argv[3]);
		runs = atol(argv[4]);
		on_cpus(atoi(argv[2]));
	} else if (!strcmp(mode, "read") && argc == 4) {
		read_all(argv[2], atol(argv[3]));
	} else if (!strcmp(mode, "edit") && argc == 4) {
		edit(argv[2], argv[3]);
	} else if (!strcmp(mode, "turns") && argc == 4) {
		calls = atol(argv[3]);
		turns(atol(argv[2]));
	} else if (!strcmp(mode, "spent") && argc > 3) {
		return spent(argv[2], argv + 3);
	} else {
		return 2;
	}
	return 0;
}
