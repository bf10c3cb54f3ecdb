// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: kpages [--size BYTES] [--symbols PATH] FILE
 * Reads trace_pipe_raw until there is no more, and prints the contents of its pages, by
 * include/linux/ring_buffer.h:
 *
 *	page BYTES [lost N]
 *	NANOSECONDS TYPE PID FLAGS PREEMPT FIELD...
 *
 * The fields are those of types 1, 4, 5, 10, 11 and 19, with functions by name if there are
 * symbols. The last line is the error of the last read, or "end".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "symbols.h"

#define PAGE 4096

static uint64_t number(const uint8_t *from, int bytes)
{
	uint64_t value = 0;

	while (bytes--)
		value = value << 8 | from[bytes];
	return value;
}

static void print_function(uint64_t address)
{
	char room[17];

	printf(" %s", function(address, room));
}

static void payload(uint64_t time, const uint8_t *from, unsigned int length)
{
	unsigned int type = number(from, 2), i;

	printf("%" PRIu64 " %u %d %02x %02x", time, type, (int)number(from + 4, 4), from[2], from[3]);
	switch (type) {
	case 1:
	case 11:
		print_function(number(from + 8, 8));
		i = 16;
		if (type == 1) {
			print_function(number(from + i, 8));
			i += 8;
		}
		for (; i < length; i += 8)
			printf(" %" PRIx64, number(from + i, 8));
		break;
	case 4:
		printf(" %u", (unsigned int)number(from + 8, 4));
		for (i = 16; i < length; i += 8)
			print_function(number(from + i, 8));
		break;
	case 5:
		printf(" %" PRIx64 " %s", number(from + 8, 8), from + 16);
		return;
	case 10:
		print_function(number(from + 8, 8));
		i = 16;
		if (length == 48) {
			printf(" ret %" PRIx64, number(from + i, 8));
			i += 8;
		}
		printf(" %u %u %" PRIu64 " %" PRIu64, (unsigned int)number(from + i, 4),
		       (unsigned int)number(from + i + 4, 4), number(from + i + 8, 8), number(from + i + 16, 8));
		break;
	case 19:
		printf(" %x", (unsigned int)number(from + 8, 4));
		for (i = 12; i < length; i++)
			printf(" %02x", from[i]);
		break;
	}
	putchar('\n');
}

static void page(const uint8_t *from)
{
	uint64_t time = number(from, 8), commit = number(from + 8, 8);
	unsigned int end = 16 + (commit & 0xfffff), at = 16, length;

	printf("page %u", end - 16);
	if (commit >> 31 & 1)
		printf(" lost %" PRIu64, commit >> 30 & 1 ? number(from + end, 8) : 0);
	putchar('\n');
	while (at < end) {
		uint32_t first = number(from + at, 4), kind = first & 31;

		switch (kind) {
		case 30:
			time += (number(from + at + 4, 4) << 27) + (first >> 5);
			at += 8;
			continue;
		case 0:
			length = number(from + at + 4, 4) - 4;
			at += 8;
			break;
		case 29:
		case 31:
			printf("a record of kind %u\n", kind);
			exit(1);
		default:
			length = 4 * kind;
			at += 4;
		}
		time += first >> 5;
		payload(time, from + at, length);
		at += length;
	}
	if (at != end) {
		puts("a record behind the end");
		exit(1);
	}
}

int main(int argc, char **argv)
{
	static uint8_t buffer[1 << 20];
	size_t size = sizeof(buffer), have = 0;
	const char *end = "end";
	int fd, i;

	for (i = 1; i < argc - 2; i += 2) {
		if (!strcmp(argv[i], "--size"))
			size = strtoul(argv[i + 1], NULL, 0);
		else if (!strcmp(argv[i], "--symbols"))
			load_symbols(argv[i + 1]);
		else
			return 2;
	}
	if (i != argc - 1)
		return 2;
	fd = open(argv[i], O_RDONLY | O_NONBLOCK);
	if (fd < 0) {
		perror(argv[i]);
		return 1;
	}
	for (;;) {
		size_t room = sizeof(buffer) - have, done;
		ssize_t got = read(fd, buffer + have, size < room ? size : room);

		if (got < 0)
			end = strerrorname_np(errno);
		if (got <= 0)
			break;
		have += got;
		for (done = 0; have - done >= PAGE; done += PAGE)
			page(buffer + done);
		have -= done;
		memmove(buffer, buffer + done, have);
	}
	if (have)
		printf("%zu bytes of a page\n", have);
	puts(end);
	return !!have;
}
