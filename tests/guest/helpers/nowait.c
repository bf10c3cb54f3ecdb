// SPDX-License-Identifier: GPL-2.0
/*
 * Readers that may not wait, beside others of the same open file.
 *
 *	nowait splice PATH	splices it with SPLICE_F_NONBLOCK; prints "ok" or what failed
 *	nowait race PATH	two processes splice it so until stdin is written to or ends; prints
 *				"ok" if they ended, too
 *	nowait fault PATH	reads it into memory that is not there; another process polls it,
 *				reads it with O_NONBLOCK and splices it meanwhile. Prints the result
 *				of each
 *
 * A process that does wait is killed, and has printed nothing.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Seconds after which something is taken to wait. */
#define LIMIT 20

static int says(const char *what, ssize_t result)
{
	printf("%s %s\n", what, result < 0 ? strerrorname_np(errno) : "ok");
	fflush(stdout);
	return result < 0;
}

static int do_splice(int fd)
{
	int pipes[2];

	if (pipe(pipes))
		return says("pipe", -1);
	alarm(LIMIT);
	return says("splice", splice(fd, NULL, pipes[1], NULL, 65536, SPLICE_F_NONBLOCK));
}

static int splice_on(int fd)
{
	static char buffer[65536];
	struct pollfd input = { .fd = 0, .events = POLLIN };
	int pipes[2];

	if (pipe(pipes))
		return says("pipe", -1);
	while (!poll(&input, 1, 0)) {
		ssize_t got = splice(fd, NULL, pipes[1], NULL, sizeof(buffer), SPLICE_F_NONBLOCK);

		if (got < 0 && errno != EAGAIN)
			return says("splice", got);
		if (got > 0 && read(pipes[0], buffer, got) != got)
			return says("read", -1);
		alarm(LIMIT);
	}
	return 0;
}

static int do_race(int fd)
{
	int i, status, bad = 0;

	for (i = 0; i < 2; i++) {
		if (!fork())
			_exit(splice_on(fd));
	}
	while (wait(&status) > 0)
		bad |= status;
	puts(bad ? "waits" : "ok");
	return !!bad;
}

static int do_fault(int fd)
{
	size_t size = sysconf(_SC_PAGESIZE);
	char *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int fault = syscall(SYS_userfaultfd, O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register region = {
		.range = { .start = (unsigned long)page, .len = size },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	struct uffdio_zeropage zero = { .range = region.range };
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	struct uffd_msg message;
	pid_t other, solver;
	int status, left;

	if (fault < 0 || ioctl(fault, UFFDIO_API, &api) || ioctl(fault, UFFDIO_REGISTER, &region))
		return says("userfaultfd", -1);
	solver = fork();
	if (!solver) {
		/* This process must end the fault: the page is its parent's. */
		if (read(fault, &message, sizeof(message)) != sizeof(message))
			_exit(says("fault", -1));
		other = fork();
		if (!other) {
			char byte;

			alarm(LIMIT);
			says("poll", poll(&poll_fd, 1, 0));
			fcntl(fd, F_SETFL, O_NONBLOCK);
			says("read", read(fd, &byte, 1));
			_exit(do_splice(fd));
		}
		/* It may wait so that no signal ends it. */
		for (left = (LIMIT + 5) * 100; left && !waitpid(other, &status, WNOHANG); left--)
			usleep(10000);
		fcntl(fd, F_SETFL, 0);
		ioctl(fault, UFFDIO_ZEROPAGE, &zero);
		_exit(0);
	}
	says("reader", read(fd, page, size));
	waitpid(solver, &status, 0);
	return 0;
}

int main(int argc, char **argv)
{
	int fd;

	if (argc < 3)
		return 2;
	fd = open(argv[2], O_RDONLY);
	if (fd < 0)
		return says("open", fd);
	if (!strcmp(argv[1], "splice"))
		return do_splice(fd);
	if (!strcmp(argv[1], "race"))
		return do_race(fd);
	if (!strcmp(argv[1], "fault"))
		return do_fault(fd);
	return 2;
}
