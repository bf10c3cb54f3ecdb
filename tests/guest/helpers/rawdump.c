// SPDX-License-Identifier: GPL-2.0
/*
 * Decodes per_cpu/cpuN/raw as docs/raw-format.md says, and knows nothing else of it.
 *
 *	rawdump [OPTION...] FILE
 *		--size BYTES	of each read (default 65536)
 *		--poll		polls before each read; prints "wait" when there is nothing yet
 *		--splice	splices into a pipe, and reads that
 *		--torn		reads to where only the first 1000 bytes can be written
 *		--nonblock	opens with O_NONBLOCK, and ends at EAGAIN
 *		--copy PATH	keeps the bytes as they are there
 *		--headers	prints a line for each record, too
 *		--symbols PATH	prints names of functions; lines of PATH: ADDRESS NAME, in ascending order
 *		--stamps	prints only the time of each event
 *		--no-events	prints none
 *		--containers	prints CGROUP:PID:TGID of each event, "-" if it is not known, in front
 *
 * Prints a line for each event:
 *	CPU NS PID TGID COMM IP PARENT_IP on|off
 * and for calls: " entry|call|return DEPTH DURATION" (in units of the stamp) behind that,
 * and "lost N" where events were lost. The last line of all is "end", "EAGAIN" or what failed; the
 * exit code is 0 at an end or EAGAIN behind a whole record.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "symbols.h"

#define HEADER_BYTES	96
#define SLOT_BYTES	16
/* The upper bits of an address of the kernel's. */
#define ONES		(~(uint64_t)0x7fffffff)

struct task {
	uint32_t pid, tgid;
	char comm[17];
	/* In its container, if that is known. */
	int is_contained;
	uint64_t cgroup;
	uint32_t own_pid, own_tgid;
};

static int show_headers, only_stamps, no_events, show_containers;

static uint64_t number(const uint8_t *from, int bytes)
{
	uint64_t value = 0;

	while (bytes--)
		value = value << 8 | from[bytes];
	return value;
}

/* An event, in a slot of that kind (0 for an entry of a function). */
static void event(const uint8_t *header, uint64_t w0, uint64_t w1, uint64_t epoch, uint64_t parent,
		  const struct task *task, int kind, uint64_t duration)
{
	uint64_t stamp = epoch << 32 | w0 >> 32;
	unsigned __int128 product = (unsigned __int128)stamp * number(header + 56, 4);
	uint64_t time = (uint64_t)(product >> number(header + 60, 4)) + number(header + 64, 8);
	char ip_room[17], parent_room[17];

	if (no_events)
		return;
	if (show_containers && task->is_contained)
		printf("%" PRIu64 ":%u:%u ", task->cgroup, task->own_pid, task->own_tgid);
	else if (show_containers)
		printf("- ");
	if (only_stamps)
		printf("%" PRIu64 "\n", time);
	else
		printf("%u %" PRIu64 " %u %u %s %s %s %s", (unsigned)number(header + 8, 4), time,
		       task->pid, task->tgid, task->comm,
		       function((w0 & 0x7fffffff) | ONES, ip_room), function(parent, parent_room),
		       w1 >> (kind ? 17 : 41) & 1 ? "on" : "off");
	if (!only_stamps && kind)
		printf(" %s %u %" PRIu64, kind == 64 ? "entry" : kind == 65 ? "call" : "return",
		       (unsigned)(w1 & 0xff), duration);
	if (!only_stamps)
		putchar('\n');
}

/* Returns the fault of the record, or NULL. */
static const char *record(const uint8_t *header, const uint8_t *slots)
{
	uint64_t count = number(header + 12, 4), epoch = number(header + 48, 4), i, wide = 0, longer = 0;
	uint64_t events = 0;
	struct task task = { .pid = number(header + 72, 4), .tgid = number(header + 76, 4) };

	memcpy(task.comm, header + 80, 16);
	if (show_headers)
		printf("record cpu %u slots %" PRIu64 " subbuf %" PRIu64 " first %" PRIu64 " lost %" PRIu64
		       " events %u flags %u clock %u\n", (unsigned)number(header + 8, 4), count,
		       number(header + 16, 8), number(header + 24, 8), number(header + 32, 8),
		       (unsigned)number(header + 40, 4), (unsigned)number(header + 44, 4),
		       (unsigned)number(header + 52, 4));
	if (number(header + 32, 8) && !only_stamps)
		printf("lost %" PRIu64 "\n", number(header + 32, 8));
	for (i = 0; i < count; i++, slots += SLOT_BYTES) {
		uint64_t w0 = number(slots, 8), w1 = number(slots + 8, 8);

		if (w1 >> 31 & 1) {
			event(header, w0, w1, epoch, wide ? wide : (w1 & 0x7fffffff) | ONES, &task, 0, 0);
			wide = longer = 0;
			events++;
			continue;
		}
		switch (w1 >> 24 & 0x7f) {
		case 2:
			epoch = w1 >> 32;
			break;
		case 3:
			task.pid = w0 & 0xffffff;
			task.tgid = w1 & 0xffffff;
			task.is_contained = 0;
			memset(task.comm, 0, sizeof(task.comm));
			memcpy(task.comm, slots + 12, 4);
			memcpy(task.comm + 4, slots + 4, 4);
			break;
		case 4:
			memcpy(task.comm + 8, slots + 4, 4);
			memcpy(task.comm + 12, slots + 12, 4);
			break;
		case 13:
			task.is_contained = 1;
			task.cgroup = w0 >> 32 | (w1 & 0xffffffff00000000);
			task.own_pid = w0 & 0xffffff;
			task.own_tgid = w1 & 0xffffff;
			break;
		case 6:
			longer = w1 & 0xffffffff00000000;
			break;
		case 64:
			event(header, w0, w1, epoch, wide ? wide : (w1 >> 32 & 0x7fffffff) | ONES,
			      &task, 64, 0);
			wide = longer = 0;
			events++;
			break;
		case 65:
		case 66:
			event(header, w0, w1, epoch, wide, &task, w1 >> 24 & 0x7f, longer | w1 >> 32);
			wide = longer = 0;
			events++;
			break;
		case 67:
		case 68:
			if (!no_events && !only_stamps)
				printf("mark %u\n", (unsigned)(w1 >> 32));
			events++;
			break;
		case 5:
			wide = (w1 & 0xffffffff00000000) | w0 >> 32;
			break;
		}
	}
	return events == number(header + 40, 4) ? NULL : "the record has another number of events";
}

/* Decodes what is whole, and returns the number of its bytes. */
static size_t decode(const uint8_t *from, size_t length)
{
	size_t done = 0;

	while (length - done >= HEADER_BYTES) {
		const uint8_t *header = from + done;
		size_t header_bytes = number(header + 6, 2);
		size_t bytes = header_bytes + number(header + 12, 4) * SLOT_BYTES;
		const char *wrong;

		if (memcmp(header, "RFTR", 4) || number(header + 4, 2) != 3 ||
		    header_bytes < HEADER_BYTES) {
			puts("no header");
			exit(1);
		}
		if (length - done < bytes)
			break;
		wrong = record(header, header + header_bytes);
		if (wrong) {
			puts(wrong);
			exit(1);
		}
		done += bytes;
	}
	return done;
}

/* Returns so many bytes right before some that cannot be written. */
static uint8_t *torn_memory(size_t bytes)
{
	size_t page = sysconf(_SC_PAGESIZE);
	uint8_t *at = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || mprotect(at + page, page, PROT_NONE)) {
		perror("mmap");
		exit(1);
	}
	return at + page - bytes;
}

int main(int argc, char **argv)
{
	static uint8_t buffer[1 << 22];
	size_t length = 0, size = 65536;
	int polls = 0, splices = 0, flags = O_RDONLY, pipes[2], copy = -1, fd, i;
	const char *end = "end";
	uint8_t *torn = NULL;

	for (i = 1; i < argc - 1; i++) {
		if (!strcmp(argv[i], "--size"))
			size = strtoul(argv[++i], NULL, 0);
		else if (!strcmp(argv[i], "--poll"))
			polls = 1;
		else if (!strcmp(argv[i], "--splice"))
			splices = 1;
		else if (!strcmp(argv[i], "--torn"))
			torn = torn_memory(1000);
		else if (!strcmp(argv[i], "--nonblock"))
			flags |= O_NONBLOCK;
		else if (!strcmp(argv[i], "--headers"))
			show_headers = 1;
		else if (!strcmp(argv[i], "--stamps"))
			only_stamps = 1;
		else if (!strcmp(argv[i], "--no-events"))
			no_events = 1;
		else if (!strcmp(argv[i], "--containers"))
			show_containers = 1;
		else if (!strcmp(argv[i], "--symbols"))
			load_symbols(argv[++i]);
		else if (!strcmp(argv[i], "--copy"))
			copy = open(argv[++i], O_WRONLY | O_CREAT | O_TRUNC, 0600);
		else
			return 2;
	}
	if (i != argc - 1)
		return 2;
	setvbuf(stdout, NULL, _IOLBF, 1 << 16);
	fd = open(argv[i], flags);
	if (fd < 0 || pipe(pipes)) {
		perror(argv[i]);
		return 1;
	}
	for (;;) {
		struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
		size_t room = sizeof(buffer) - length;
		size_t want = size < room ? size : room;
		ssize_t got, done;

		if (polls && !poll(&poll_fd, 1, 0)) {
			puts("wait");
			if (poll(&poll_fd, 1, -1) != 1) {
				end = "poll failed";
				break;
			}
			puts("woken");
		}
		if (splices) {
			got = splice(fd, NULL, pipes[1], NULL, want, 0);
			if (got > 0)
				got = read(pipes[0], buffer + length, got);
		} else {
			got = read(fd, torn ? torn : buffer + length, want);
			if (torn && got > 0)
				memcpy(buffer + length, torn, got);
		}
		if (got < 0) {
			end = strerrorname_np(errno);
			break;
		}
		if (!got)
			break;
		if (copy >= 0 && write(copy, buffer + length, got) != got)
			return 1;
		length += got;
		done = decode(buffer, length);
		length -= done;
		memmove(buffer, buffer + done, length);
	}
	if (length)
		printf("%zu bytes of a record\n", length);
	if (!only_stamps)
		puts(end);
	return length || (strcmp(end, "end") && strcmp(end, "EAGAIN"));
}
