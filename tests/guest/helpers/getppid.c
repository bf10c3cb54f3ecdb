// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: getppid CALLS
 * Prints the time of that many getppid system calls, in ns. Where a ns of the guest is an
 * instruction (ACCEL=icount) that is their cost in instructions.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static long long now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000ll + t.tv_nsec;
}

int main(int argc, char **argv)
{
	long calls = argc > 1 ? atol(argv[1]) : 100000;
	long long best = -1;

	/* The best of some runs: timer interrupts only ever add. */
	for (int run = 0; run < 20; run++) {
		long long start = now();

		for (long i = 0; i < calls; i++)
			syscall(SYS_getppid);
		start = now() - start;
		if (best < 0 || start < best)
			best = start;
	}
	printf("%lld\n", best);
	return 0;
}
