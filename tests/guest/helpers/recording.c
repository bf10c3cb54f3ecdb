// SPDX-License-Identifier: GPL-2.0
/*
 * Usage: recording PROGRAM COMMAND...
 * Runs COMMAND as soon as PROGRAM has as many processes that wait for something to read as there
 * are CPUs. The recorders of trace-cmd read nothing if they are told to stop before they began.
 */
#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The first line of the process's file is in text then. */
static int first_line(const char *pid, const char *name, char *text, int size)
{
	char path[64];
	FILE *file;
	int ok;

	snprintf(path, sizeof(path), "/proc/%.16s/%s", pid, name);
	file = fopen(path, "r");
	if (!file)
		return 0;
	ok = fgets(text, size, file) != NULL;
	fclose(file);
	return ok;
}

static int waits(const char *pid, const char *program)
{
	char text[256];

	if (!first_line(pid, "comm", text, sizeof(text)))
		return 0;
	text[strcspn(text, "\n")] = 0;
	if (strcmp(text, program))
		return 0;
	/* Or "running". */
	if (!first_line(pid, "syscall", text, sizeof(text)) || !isdigit(text[0]))
		return 0;
	switch (atoi(text)) {
	case SYS_poll:
	case SYS_ppoll:
	case SYS_pselect6:
	case SYS_read:
	case SYS_select:
	case SYS_splice:
		return 1;
	}
	return 0;
}

static int count(const char *program)
{
	struct dirent *entry;
	int found = 0;
	DIR *proc = opendir("/proc");

	if (!proc)
		return 0;
	while ((entry = readdir(proc)))
		found += isdigit(entry->d_name[0]) && waits(entry->d_name, program);
	closedir(proc);
	return found;
}

int main(int argc, char **argv)
{
	int tries = 6000;

	if (argc < 3)
		return 2;
	while (count(argv[1]) < sysconf(_SC_NPROCESSORS_ONLN)) {
		if (!tries--) {
			fprintf(stderr, "recording: %s does not wait on each CPU\n", argv[1]);
			return 124;
		}
		usleep(10000);
	}
	execvp(argv[2], argv + 2);
	perror(argv[2]);
	return 127;
}
