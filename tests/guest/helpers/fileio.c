// SPDX-License-Identifier: GPL-2.0
/*
 * Files as tests need them: what exactly an open, write or close ends with, and
 * reads of odd sizes.
 *
 *	fileio write PATH [-t|-a] [DATA...]
 *		opens for writing (-t with O_TRUNC, -a with O_APPEND), writes each DATA
 *		with one write() (\n, \0 and \\ in it), closes. Prints "ok", or what
 *		failed first: "write EINVAL" and so on.
 *	fileio try PATH DATA...
 *		for each DATA opens, writes it, closes, and prints "DATA: " and what write does, with
 *		" changed" behind it if PATH then says another thing than at first
 *	fileio same PATH
 *		reads it in many ways, and says which of them did not give the same text, if any
 *	fileio read PATH SIZE [SIZE...]	reads it all, with these sizes in turn
 *	fileio pread PATH SIZE		reads it all by pread()
 *	fileio stream PATH SIZE [SIZE...]	the same, what was read is put out at once
 *	fileio drain PATH SIZE [SIZE...]	the same with O_NONBLOCK; "EAGAIN" on stderr if that ends it
 *	fileio poll PATH		prints "wait" if there is nothing to read, and "ready" when there is
 *	fileio wake PATH		splices it; once that waits, ioctl(0), and prints what the splice ends with
 *	fileio again PATH COUNT		reads it all COUNT times through one descriptor, with lseek()
 *	fileio open PATH r|w|rw		opens and closes, prints as write does
 *	fileio seek PATH OFFSET SIZE	reads SIZE bytes from OFFSET on
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* Prints the error, but does not end the line. */
static int ends_with(const char *what)
{
	const char *name = strerrorname_np(errno);

	printf("%s %s", what, name ? name : "?");
	return 1;
}

static int failed(const char *what)
{
	ends_with(what);
	puts("");
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
		return ends_with("open");
	for (; i < argc; i++) {
		size_t size = unescape(argv[i]);
		ssize_t done = write(fd, argv[i], size);

		if (done < 0)
			return ends_with("write");
		if ((size_t)done != size) {
			printf("write %zd of %zu", done, size);
			return 1;
		}
	}
	if (close(fd))
		return ends_with("close");
	printf("ok");
	return 0;
}

/* Reads from where fd is to the end, with these sizes in turn; returns the bytes. */
static char *collect(int fd, const size_t *sizes, int count, int use_pread, size_t *length)
{
	size_t room = 1 << 20;
	char *text = malloc(room);
	int i = 0;

	*length = 0;
	for (;;) {
		size_t size = sizes[i++ % count];
		ssize_t got;

		if (room - *length < size)
			text = realloc(text, room *= 4);
		if (!text)
			exit(2);
		got = use_pread ? pread(fd, text + *length, size, *length) :
				  read(fd, text + *length, size);
		if (got < 0) {
			failed("read");
			exit(1);
		}
		if (!got)
			return text;
		*length += got;
	}
}

static int do_try(int argc, char **argv)
{
	static const size_t whole[] = { 4096 };
	size_t length = 0, later;
	char *text = NULL;
	int i;

	for (i = 0; i < argc; i++) {
		char *data[] = { argv[0], argv[i] };
		int fd = open(argv[0], O_RDONLY);
		char *now;

		if (i) {
			printf("%.40s: ", argv[i]);
			do_write(2, data);
		}
		now = collect(fd, whole, 1, 0, &later);
		close(fd);
		if (!i) {
			text = now;
			length = later;
			continue;
		}
		puts(later == length && !memcmp(now, text, length) ? "" : " changed");
		free(now);
	}
	return 0;
}

static int do_same(const char *path)
{
	static const size_t whole[] = { 1 << 20 }, ones[] = { 1 }, hundreds[] = { 100 },
			    odd[] = { 7, 4095, 1, 4097, 3 };
	size_t length, later;
	char *text, *other;
	int fd = open(path, O_RDONLY), wrong = 0;

	if (fd < 0)
		return failed("open");
	text = collect(fd, whole, 1, 0, &length);
#define SAME(what, from, sizes, use_pread)							\
	do {											\
		if (lseek(fd, from, SEEK_SET) != (off_t)(from))					\
			printf("%s: cannot seek\n", what), wrong = 1;				\
		other = collect(fd, sizes, sizeof(sizes) / sizeof(*sizes), use_pread, &later);	\
		if (later != length - (from) || memcmp(other, text + (from), later))		\
			printf("%s: not the same\n", what), wrong = 1;				\
		free(other);									\
	} while (0)
	SAME("from the beginning", 0, whole, 0);
	SAME("byte by byte", 0, ones, 0);
	SAME("odd sizes", 0, odd, 0);
	SAME("pread", 0, hundreds, 1);
	SAME("from the middle", length / 2, odd, 0);
	SAME("from the end", length, odd, 0);
#undef SAME
	/* Another one that never read to the end. */
	close(fd);
	fd = open(path, O_RDONLY);
	if (length >= 30) {
		char byte;
		int i;

		lseek(fd, 10, SEEK_SET);
		for (i = 10; i < 30; i++) {
			if (read(fd, &byte, 1) != 1 || byte != text[i])
				printf("a part, at %d: not the same\n", i), wrong = 1;
		}
	}
	if (lseek(fd, 100000000, SEEK_SET) != 100000000 || read(fd, text, 20) != 0)
		puts("behind the end: there is something"), wrong = 1;
	close(fd);
	return wrong;
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

static int sleeps(pid_t pid)
{
	char path[32], state = 0;
	FILE *stat;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	stat = fopen(path, "r");
	if (!stat || fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
		state = 0;
	if (stat)
		fclose(stat);
	return state == 'S';
}

static int do_wake(const char *path)
{
	int fd = open(path, O_RDONLY), status, left, pipes[2];
	pid_t child;

	if (fd < 0 || pipe(pipes))
		return failed("open");
	child = fork();
	if (!child) {
		ssize_t got = splice(fd, NULL, pipes[1], NULL, 65536, 0);

		if (got < 0)
			_exit(failed("splice"));
		printf("splice %zd\n", got);
		fflush(stdout);
		_exit(0);
	}
	for (left = 2000; !sleeps(child) && left; left--)
		usleep(10000);
	if (ioctl(fd, 0))
		return failed("ioctl");
	for (left = 1000; waitpid(child, &status, WNOHANG) != child; left--) {
		if (!left) {
			puts("goes on");
			fflush(stdout);
			kill(child, SIGKILL);
			waitpid(child, &status, 0);
			return 0;
		}
		usleep(10000);
	}
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	const char *mode;
	int fd, rc = 0;

	if (argc < 3)
		return 2;
	mode = argv[1];
	if (!strcmp(mode, "write")) {
		rc = do_write(argc - 2, argv + 2);
		puts("");
		return rc;
	}
	if (!strcmp(mode, "try"))
		return do_try(argc - 2, argv + 2);
	if (!strcmp(mode, "same"))
		return do_same(argv[2]);
	if (!strcmp(mode, "poll"))
		return do_poll(argv[2]);
	if (!strcmp(mode, "wake"))
		return do_wake(argv[2]);
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
