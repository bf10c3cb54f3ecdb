// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: threads COUNT
 * Prints the process ID and those of COUNT more threads, in one line; then each of them makes a
 * getppid system call every millisecond, until killed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_barrier_t all_named;
static long ids[64];

static void work(void)
{
	for (;;) {
		syscall(SYS_getppid);
		usleep(1000);
	}
}

static void *thread(void *id)
{
	*(long *)id = syscall(SYS_gettid);
	pthread_barrier_wait(&all_named);
	work();
	return NULL;
}

int main(int argc, char **argv)
{
	int count = argc > 1 ? atoi(argv[1]) : -1;
	pthread_t handle;

	if (count < 0 || count > 64 || pthread_barrier_init(&all_named, NULL, count + 1))
		return 2;
	for (int i = 0; i < count; i++)
		if (pthread_create(&handle, NULL, thread, &ids[i]))
			return 1;
	pthread_barrier_wait(&all_named);
	printf("%d", getpid());
	for (int i = 0; i < count; i++)
		printf(" %ld", ids[i]);
	putchar('\n');
	fflush(stdout);
	work();
}
