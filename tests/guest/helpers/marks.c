// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: marks PATH
 * Writes marks to PATH, a trace_marker, until SIGTERM. At the end it prints the number of marks,
 * and the time of the slowest, in us.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t ended;

static void on_term(int signal)
{
	(void)signal;
	ended = 1;
}

static long long now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
	/* No SA_RESTART: a write that waits may be interrupted, if it can be. */
	struct sigaction action = { .sa_handler = on_term };
	long long slowest = 0, count = 0;
	int fd;

	if (argc < 2)
		return 2;
	fd = open(argv[1], O_WRONLY);
	if (fd < 0) {
		perror(argv[1]);
		return 1;
	}
	sigaction(SIGTERM, &action, NULL);
	while (!ended) {
		long long began = now_us(), took;

		if (write(fd, "mark", 4) != 4) {
			perror("write");
			return 1;
		}
		took = now_us() - began;
		if (took > slowest)
			slowest = took;
		count++;
		usleep(1000);
	}
	printf("%lld %lld\n", count, slowest);
	return 0;
}
