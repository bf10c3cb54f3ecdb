// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: ftracestamps FILE
 * Takes the function entries out of a CPU's trace_pipe_raw of ftrace, and prints the time of each
 * as it is: nanoseconds, or what the clock counts. rawdump --stamps does this for our own files.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t u32(const unsigned char *from)
{
	uint32_t value;

	memcpy(&value, from, sizeof(value));
	return value;
}

static uint64_t u64(const unsigned char *from)
{
	uint64_t value;

	memcpy(&value, from, sizeof(value));
	return value;
}

/* A page of ftrace's: include/linux/ring_buffer.h, and kernel/trace/trace_entries.h. */
static void print_stamps(const unsigned char *page, size_t length)
{
	enum { FUNCTION = 1, PADDING = 29, TIME_EXTEND = 30, TIME_STAMP = 31 };
	uint64_t time;
	size_t end, at = 16;

	if (length < 16)
		return;
	time = u64(page);
	end = 16 + (u64(page + 8) & 0xfffff);
	while (at + 4 <= end && end <= length) {
		uint32_t word = u32(page + at), kind = word & 31, delta = word >> 5, size;

		at += 4;
		if (kind == TIME_EXTEND || kind == TIME_STAMP) {
			uint64_t full = ((uint64_t)u32(page + at) << 27) + delta;

			time = kind == TIME_EXTEND ? time + full : (time & ~0ull << 59) | full;
			at += 4;
			continue;
		}
		time += delta;
		if (kind == PADDING && !delta)
			break;
		size = kind && kind != PADDING ? kind * 4 : u32(page + at);
		if (kind && kind != PADDING && (u32(page + at) & 0xffff) == FUNCTION)
			printf("%llu\n", (unsigned long long)time);
		at += size;
	}
}

int main(int argc, char **argv)
{
	static unsigned char page[4096];
	ssize_t got;
	int fd;

	if (argc != 2)
		return 2;
	fd = open(argv[1], O_RDONLY | O_NONBLOCK);
	if (fd < 0) {
		perror(argv[1]);
		return 1;
	}
	/* A read returns one page. */
	while ((got = read(fd, page, sizeof(page))) > 0)
		print_stamps(page, got);
	if (got < 0 && errno != EAGAIN) {
		perror(argv[1]);
		return 1;
	}
	return 0;
}
