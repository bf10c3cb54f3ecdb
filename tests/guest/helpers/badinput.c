// SPDX-License-Identifier: GPL-2.0
/*
 * What a file of a tracing directory makes of input that means nothing.
 *
 *	badinput abuse PATH	writes and reads it in all the ways below; a line for each: "what: result"
 *	badinput walk DIR	the path of each file below DIR, but for those that only closing would change
 *	badinput state DIR	the same, each with a hash of what it says, of those that say little
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (1 << 20)

static char *page;		/* with one behind it that cannot be read */

static void result(const char *what, ssize_t got, ssize_t wanted)
{
	if (got < 0)
		printf("%s: %s\n", what, strerrorname_np(errno));
	else if (got != wanted)
		/* The amount is of no interest. */
		printf("%s: some\n", what);
	else
		printf("%s: ok\n", what);
}

static void one_write(const char *path, const char *what, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_NONBLOCK);

	if (fd < 0) {
		result(what, -1, 0);
		return;
	}
	result(what, write(fd, data, size), size);
	close(fd);
}

static void writes(const char *path)
{
	static const char words[] = "no_such_thing\n", binary[] = "\xff\xfe\0\1\x7f\n";
	static const char *const texts[][2] = {
		{ "many words", "no_such_thing neither_this !nor_this\n" },
		{ "huge number", "99999999999999999999999\n" },
		{ "negative", "-12\n" },
		{ "broken number", "0x\n" },
		{ "open bracket", "[a-\n" },
		{ "command", "no_such_thing:no_such_command\n" },
		{ "count", "no_such_thing:traceoff:-3:4\n" },
		{ "empty command", ":::\n" },
		{ "format", "%s%n%p\n" },
	};
	char *much = malloc(MIB);
	size_t i;
	int fd;

	one_write(path, "words", words, strlen(words));
	one_write(path, "binary", binary, sizeof(binary) - 1);
	one_write(path, "nothing", words, 0);
	for (i = 0; i < sizeof(texts) / sizeof(*texts); i++)
		one_write(path, texts[i][0], texts[i][1], strlen(texts[i][1]));
	memset(much, 'z', MIB);
	one_write(path, "1 MiB, one word", much, MIB);
	for (i = 1; i < MIB; i += 2)
		much[i] = ' ';
	one_write(path, "1 MiB, many words", much, MIB);
	memset(much, 0, MIB);
	one_write(path, "1 MiB of NUL", much, MIB);
	free(much);
	one_write(path, "bad pointer", page + sysconf(_SC_PAGESIZE), 20);
	memset(page, 'z', sysconf(_SC_PAGESIZE));
	one_write(path, "pointer bad from the middle", page + sysconf(_SC_PAGESIZE) - 10, 20);

	fd = open(path, O_WRONLY | O_NONBLOCK);
	if (fd < 0)
		return;
	for (i = 0; words[i]; i++) {
		if (write(fd, words + i, 1) != 1)
			break;
	}
	result("byte by byte", words[i] ? -1 : 0, 0);
	close(fd);
	fd = open(path, O_WRONLY | O_NONBLOCK);
	result("at an offset", pwrite(fd, words, strlen(words), 4099), strlen(words));
	close(fd);
	/* Words that were begun when the file is closed. */
	one_write(path, "closed in a word", words, 7);
	one_write(path, "closed behind one", "!no_such_thing ", 15);
	fd = open(path, O_WRONLY | O_APPEND | O_NONBLOCK);
	result("appended", write(fd, words, strlen(words)), strlen(words));
	close(fd);
}

/* Only that it can be read matters here, not the text. */
static void reads(const char *path)
{
	static const off_t offsets[] = { 1, 7, 4095, 4097, 1L << 31, 1L << 40 };
	size_t i;
	char byte;
	int fd = open(path, O_RDONLY | O_NONBLOCK);
	ssize_t got;

	if (fd < 0) {
		result("open to read", -1, 0);
		return;
	}
	for (i = 0; i < sizeof(offsets) / sizeof(*offsets); i++) {
		got = pread(fd, &byte, 1, offsets[i]);
		if (got < 0 && errno != EAGAIN)
			result("read at an offset", got, 1);
	}
	got = read(fd, page, 0);
	if (got > 0)
		puts("read of nothing: something");
	got = read(fd, page + sysconf(_SC_PAGESIZE), 100);
	if (got > 0)
		puts("read to a bad pointer: ok");
	if (lseek(fd, -1, SEEK_SET) >= 0)
		puts("seek before the beginning: ok");
	close(fd);
}

/* Closing these changes the text of others, as it should. */
static int left_out(const char *name)
{
	return !strcmp(name, "free_buffer");
}

/* Recorded events and counts, which are no settings. */
static int says_much(const char *name)
{
	return !strncmp(name, "trace_pipe", 10) || !strcmp(name, "trace") || !strncmp(name, "raw", 3) ||
	       !strcmp(name, "snapshot_raw") || !strncmp(name, "available_filter", 16) ||
	       !strncmp(name, "saved_", 6) || !strcmp(name, "error_log") ||
	       !strcmp(name, "format") || !strcmp(name, "stats") || !strcmp(name, "status");
}

static uint64_t hash_of(const char *path)
{
	static char text[65536];
	uint64_t hash = 14695981039346656037u;
	int fd = open(path, O_RDONLY | O_NONBLOCK);
	ssize_t got, i;

	if (fd < 0)
		return errno;
	while ((got = read(fd, text, sizeof(text))) > 0) {
		for (i = 0; i < got; i++)
			hash = (hash ^ (unsigned char)text[i]) * 1099511628211u;
	}
	close(fd);
	return hash;
}

static void walk(const char *dir, int state)
{
	struct dirent **names;
	int i, count = scandir(dir, &names, NULL, alphasort);
	char path[4096];
	struct stat info;

	for (i = 0; i < count; i++) {
		const char *name = names[i]->d_name;

		snprintf(path, sizeof(path), "%s/%s", dir, name);
		if (!strcmp(name, ".") || !strcmp(name, "..") || lstat(path, &info))
			continue;
		if (S_ISDIR(info.st_mode)) {
			walk(path, state);
		} else if (!left_out(name) && !(state && (S_ISLNK(info.st_mode) || says_much(name)))) {
			if (state)
				printf("%s %016llx\n", path, (unsigned long long)hash_of(path));
			else
				puts(path);
		}
		free(names[i]);
	}
}

int main(int argc, char **argv)
{
	size_t size = sysconf(_SC_PAGESIZE);

	if (argc != 3)
		return 2;
	page = mmap(NULL, 2 * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (page == MAP_FAILED || mprotect(page + size, size, PROT_NONE))
		return 2;
	if (!strcmp(argv[1], "abuse")) {
		writes(argv[2]);
		reads(argv[2]);
	} else {
		walk(argv[2], !strcmp(argv[1], "state"));
	}
	return 0;
}
