// SPDX-License-Identifier: GPL-2.0
/*
 * Files as tests need them: what exactly an open, write or close ends with, and
 * reads of odd sizes.
 *
 *	fileio write PATH [-t|-a] [DATA...]
 *		opens for writing (-t with O_TRUNC, -a with O_APPEND), writes each DATA
 *		with one write() (\n, \0 and \\ in it), closes. Prints "ok", or what
 *		failed first: "write EINVAL" and so on.
 *	fileio read PATH SIZE [SIZE...]	reads it all, with these sizes in turn
 *	fileio pread PATH SIZE		reads it all by pread()
 *	fileio stream PATH SIZE [SIZE...]	the same, what was read is put out at once
 *	fileio drain PATH SIZE [SIZE...]	the same with O_NONBLOCK; "EAGAIN" on stderr if that ends it
 *	fileio poll PATH		prints "wait" if there is nothing to read, and "ready" when there is
 *	fileio again PATH COUNT		reads it all COUNT times through one descriptor, with lseek()
 *	fileio open PATH r|w|rw		opens and closes, prints as write does
 *	fileio seek PATH OFFSET SIZE	reads SIZE bytes from OFFSET on
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int failed(const char *what)
{
	const char *name = strerrorname_np(errno);

	printf("%s %s\n", what, name ? name : "?");
	return 1;
}

static size_t unescape(char *text)
{
	char *from, *to = text;

	for (from = text; *from; from++) {
		if (*from == '\\' && from[1]) {
			from++;
			*to++ = *from == 'n' ? '\n' : *from == '0' ? 0 : *from;
		} else {
			*to++ = *from;
		}
	}
	return to - text;
}

static int do_write(int argc, char **argv)
{
	int flags = O_WRONLY, fd, i = 1;

	if (argc > 1 && !strcmp(argv[1], "-t"))
		flags |= O_TRUNC, i++;
	else if (argc > 1 && !strcmp(argv[1], "-a"))
		flags |= O_APPEND, i++;
	fd = open(argv[0], flags);
	if (fd < 0)
		return failed("open");
	for (; i < argc; i++) {
		size_t size = unescape(argv[i]);
		ssize_t done = write(fd, argv[i], size);

		if (done < 0)
			return failed("write");
		if ((size_t)done != size) {
			printf("write %zd of %zu\n", done, size);
			return 1;
		}
	}
	if (close(fd))
		return failed("close");
	puts("ok");
	return 0;
}

static int do_poll(const char *path)
{
	struct pollfd poll_fd = { .fd = open(path, O_RDONLY), .events = POLLIN };

	if (poll_fd.fd < 0)
		return failed("open");
	setvbuf(stdout, NULL, _IONBF, 0);
	if (!poll(&poll_fd, 1, 0))
		puts("wait");
	if (poll(&poll_fd, 1, -1) != 1 || poll_fd.revents != POLLIN)
		return failed("poll");
	puts("ready");
	return 0;
}

static int copy(int fd, char *const *sizes, int count, int use_pread)
{
	static char buffer[1 << 20];
	off_t offset = 0;
	int i = 0;

	for (;;) {
		size_t size = strtoul(sizes[i++ % count], NULL, 0);
		ssize_t got;

		if (size > sizeof(buffer))
			size = sizeof(buffer);
		got = use_pread ? pread(fd, buffer, size, offset) : read(fd, buffer, size);
		if (got < 0) {
			fprintf(stderr, "%s\n", strerrorname_np(errno));
			return 1;
		}
		if (!got)
			return 0;
		offset += got;
		if (fwrite(buffer, 1, got, stdout) != (size_t)got)
			return 1;
	}
}

int main(int argc, char **argv)
{
	const char *mode;
	int fd, rc = 0;

	if (argc < 3)
		return 2;
	mode = argv[1];
	if (!strcmp(mode, "write"))
		return do_write(argc - 2, argv + 2);
	if (!strcmp(mode, "poll"))
		return do_poll(argv[2]);
	if (argc < 4)
		return 2;
	if (!strcmp(mode, "open")) {
		fd = open(argv[2], !strcmp(argv[3], "r") ? O_RDONLY :
				   !strcmp(argv[3], "w") ? O_WRONLY : O_RDWR);
		if (fd < 0)
			return failed("open");
		if (close(fd))
			return failed("close");
		puts("ok");
		return 0;
	}
	fd = open(argv[2], strcmp(mode, "drain") ? O_RDONLY : O_RDONLY | O_NONBLOCK);
	if (fd < 0) {
		perror(argv[2]);
		return 1;
	}
	if (!strcmp(mode, "stream"))
		setvbuf(stdout, NULL, _IONBF, 0);
	if (!strcmp(mode, "read") || !strcmp(mode, "stream") || !strcmp(mode, "drain"))
		return copy(fd, argv + 3, argc - 3, 0);
	if (!strcmp(mode, "pread"))
		return copy(fd, argv + 3, 1, 1);
	if (!strcmp(mode, "again")) {
		char size[] = "65536", *sizes[] = { size };
		int i;

		for (i = 0; !rc && i < atoi(argv[3]); i++) {
			if (lseek(fd, 0, SEEK_SET) != 0)
				return failed("lseek");
			rc = copy(fd, sizes, 1, 0);
		}
		return rc;
	}
	if (!strcmp(mode, "seek") && argc == 5) {
		off_t offset = strtoul(argv[3], NULL, 0);
		size_t left = strtoul(argv[4], NULL, 0);
		char byte;

		if (lseek(fd, offset, SEEK_SET) != offset)
			return failed("lseek");
		while (left-- && read(fd, &byte, 1) == 1)
			putchar(byte);
		return 0;
	}
	return 2;
}
