// SPDX-License-Identifier: GPL-2.0
/*
 * Tasks that change while they make getppid system calls.
 *
 *	tasks exec COUNT PROGRAM...	a thread that is not the leader makes so many calls, and more as
 *					long as there is a file /tmp/hold, and then executes the program;
 *					prints its ID and the leader's, which it has from then on
 *	tasks names COUNT		calls, each under another name: n0, n1, ...
 *	tasks short COUNT		so many tasks, one after the other, each with a name of its
 *					own (s0, s1, ...), which makes a call and ends; prints their
 *					IDs in that order
 *	tasks turns COUNT [same]	two tasks on CPU 0 take turns by pipes, with a call in each
 *					turn, once a line was read from stdin; prints the ID of both
 *					before. "same": the second is a thread
 *	tasks listed COUNT FILE		puts its own ID into a list of tasks, takes it out, and so on,
 *					with three calls after each; and with three of another task,
 *					on CPU 1, which is in the list when it is not. Prints both IDs
 *	tasks again COUNT FILE		two tasks make a child each, in turn, both of the same ID,
 *					which makes a call. The second one is in the list FILE, which
 *					follows its forks. Prints that ID
 *	tasks reused COUNT		so many children, one after the other, of the same ID, each
 *					of which makes two calls, and is still there when RCU tells
 *					of the end of the one before. Prints that ID
 *	tasks inside COUNT		a process in a PID namespace of its own, with a thread, makes
 *					so many calls in each of the two; prints the ID of the process
 *					outside
 *	tasks polled COUNT		has the kernel make so many threads, which poll io_uring, and
 *					waits to be killed
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <linux/membarrier.h>
#include <linux/sched.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static long count;
static char **program;

static void fail(const char *what)
{
	perror(what);
	exit(1);
}

static void pin(int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(cpu, &set);
	if (sched_setaffinity(0, sizeof(set), &set))
		fail("sched_setaffinity");
}

static void call(long times)
{
	while (times-- > 0)
		syscall(SYS_getppid);
}

static void rename_to(char letter, long number)
{
	char name[32];

	/* The kernel takes 15 bytes of it. */
	snprintf(name, sizeof(name), "%c%ld", letter, number);
	if (prctl(PR_SET_NAME, name))
		fail("prctl");
}

static void *executes(void *unused)
{
	(void)unused;
	printf("%ld %d\n", syscall(SYS_gettid), getpid());
	fflush(stdout);
	call(count);
	while (!access("/tmp/hold", F_OK))
		call(1);
	execvp(program[0], program);
	fail(program[0]);
	return NULL;
}

static void exec_by_thread(void)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, executes, NULL))
		fail("pthread_create");
	pthread_join(thread, NULL);
}

static void names(void)
{
	for (long i = 0; i < count; i++) {
		rename_to('n', i);
		call(1);
	}
}

static pid_t forked(void)
{
	pid_t pid = fork();

	if (pid < 0)
		fail("fork");
	return pid;
}

static void short_tasks(void)
{
	for (long i = 0; i < count; i++) {
		pid_t pid = forked();

		if (!pid) {
			rename_to('s', i);
			call(1);
			_exit(0);
		}
		printf("%d\n", pid);
		waitpid(pid, NULL, 0);
	}
}

static int there[2], back[2];
static pid_t first;

static void take_turns(int from, int to)
{
	char token = 0;

	for (long i = 0; i < count; i++) {
		if (read(from, &token, 1) != 1)
			fail("read");
		call(1);
		if (write(to, &token, 1) != 1)
			fail("write");
	}
}

static void print_both(void)
{
	char line[16];

	printf("%d %ld\n", first, syscall(SYS_gettid));
	fflush(stdout);
	if (read(0, line, sizeof(line)) < 1 || write(there[1], "", 1) != 1)
		fail("the beginning");
}

static void *second(void *unused)
{
	(void)unused;
	print_both();
	take_turns(there[0], back[1]);
	return NULL;
}

static void turns(int is_thread)
{
	pthread_t thread;
	pid_t pid = 0;

	first = getpid();
	pin(0);
	if (pipe(there) || pipe(back))
		fail("pipe");
	if (is_thread) {
		if (pthread_create(&thread, NULL, second, NULL))
			fail("pthread_create");
	} else {
		pid = forked();
		if (!pid) {
			second(NULL);
			_exit(0);
		}
	}
	take_turns(back[0], there[1]);
	if (is_thread)
		pthread_join(thread, NULL);
	else
		waitpid(pid, NULL, 0);
}

/* Returns words that two tasks share, each waiting for the other. */
static volatile unsigned *shared(void)
{
	void *memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		fail("mmap");
	return memory;
}

static void listed(const char *file)
{
	volatile unsigned *asked = shared(), *done = asked + 1;
	int fd = open(file, O_WRONLY | O_APPEND), length;
	pid_t self = getpid(), other;
	char words[64];

	if (fd < 0)
		fail(file);
	other = forked();
	pin(!other);
	if (!other) {
		for (unsigned turn = 1; turn <= 2 * count; turn++) {
			while (*asked < turn)
				;
			call(3);
			*done = turn;
		}
		_exit(0);
	}
	for (unsigned turn = 1; turn <= 2 * count; turn++) {
		length = snprintf(words, sizeof(words), "%d !%d\n", turn % 2 ? self : other, turn % 2 ? other : self);
		if (write(fd, words, length) != length)
			fail("write");
		/* One after the other: on both CPUs there is nothing but this. */
		*asked = turn;
		call(3);
		while (*done < turn)
			;
	}
	waitpid(other, NULL, 0);
	printf("%d %d\n", self, other);
}

static void child_of_id(pid_t id)
{
	struct clone_args args = { .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&id, .set_tid_size = 1 };
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid < 0)
		fail("clone3");
	if (!pid) {
		call(1);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

static int is_listed(const char *file, pid_t id)
{
	FILE *list = fopen(file, "r");
	int found = 0, one;

	if (!list)
		fail(file);
	while (fscanf(list, "%d", &one) == 1)
		found |= one == id;
	fclose(list);
	return found;
}

static void again(const char *file)
{
	const pid_t id = 32000;
	char token = 0, words[16];
	int fd = open(file, O_WRONLY | O_APPEND), length;
	pid_t pid;

	pin(0);
	if (fd < 0 || pipe(there) || pipe(back))
		fail(file);
	pid = forked();
	if (!pid) {
		for (long i = 0; i < count; i++) {
			if (read(there[0], &token, 1) != 1)
				fail("read");
			child_of_id(id);
			if (write(back[1], &token, 1) != 1)
				fail("write");
		}
		_exit(0);
	}
	length = snprintf(words, sizeof(words), "%d\n", pid);
	if (write(fd, words, length) != length)
		fail("write");
	for (long i = 0; i < count; i++) {
		/* This child is not in the list ... */
		child_of_id(id);
		/* RCU tells lists of its end: wait, so that no other task has that ID by then. */
		for (int grace = 0; grace < 2; grace++)
			if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
				fail("membarrier");
		/* ... and the next one is, until some time after its end. */
		if (write(there[1], &token, 1) != 1 || read(back[0], &token, 1) != 1)
			fail("the other");
		while (is_listed(file, id))
			usleep(1000);
	}
	waitpid(pid, NULL, 0);
	printf("%d\n", id);
}

static void reused(void)
{
	const pid_t id = 32000;
	struct clone_args args = { .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&id, .set_tid_size = 1 };

	for (long i = 0; i < count; i++) {
		long pid = syscall(SYS_clone3, &args, sizeof(args));

		if (pid < 0)
			fail("clone3");
		if (!pid) {
			call(1);
			for (int grace = 0; grace < 2; grace++)
				if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0))
					fail("membarrier");
			usleep(20000);
			call(1);
			_exit(0);
		}
		waitpid(pid, NULL, 0);
	}
	printf("%d\n", id);
}

static void *called(void *unused)
{
	(void)unused;
	call(count);
	return NULL;
}

static void inside(void)
{
	struct clone_args args = { .flags = CLONE_NEWPID, .exit_signal = SIGCHLD };
	long pid = syscall(SYS_clone3, &args, sizeof(args));
	pthread_t thread;

	if (pid < 0)
		fail("clone3");
	if (!pid) {
		call(count);
		if (pthread_create(&thread, NULL, called, NULL))
			fail("pthread_create");
		pthread_join(thread, NULL);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	printf("%ld\n", pid);
}

static void polled(void)
{
	for (long i = 0; i < count; i++) {
		/* struct io_uring_params, of which the third word has flags. */
		unsigned params[30] = { [2] = 1 << 1 /* IORING_SETUP_SQPOLL */ };

		if (syscall(SYS_io_uring_setup, 4, params) < 0)
			fail("io_uring_setup");
	}
	printf("%ld\n", count);
	fflush(stdout);
	pause();
}

int main(int argc, char **argv)
{
	const char *mode = argc > 2 ? argv[1] : "";

	count = argc > 2 ? atol(argv[2]) : 0;
	program = argv + 3;
	if (!strcmp(mode, "exec") && argc > 3)
		exec_by_thread();
	else if (!strcmp(mode, "names"))
		names();
	else if (!strcmp(mode, "short"))
		short_tasks();
	else if (!strcmp(mode, "turns"))
		turns(argc > 3);
	else if (!strcmp(mode, "listed") && argc > 3)
		listed(argv[3]);
	else if (!strcmp(mode, "again") && argc > 3)
		again(argv[3]);
	else if (!strcmp(mode, "reused"))
		reused();
	else if (!strcmp(mode, "inside"))
		inside();
	else if (!strcmp(mode, "polled"))
		polled();
	else
		return 2;
	return 0;
}
