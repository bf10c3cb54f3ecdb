/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Names of functions, for helpers that print addresses: from a file of lines "ADDRESS NAME", in
 * ascending order.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct symbol {
	uint64_t address;
	char *name;
};

static struct symbol *symbols;
static size_t symbol_count;

static void load_symbols(const char *path)
{
	FILE *file = fopen(path, "r");
	char line[512], *name;
	uint64_t address;

	if (!file) {
		perror(path);
		exit(1);
	}
	while (fgets(line, sizeof(line), file)) {
		address = strtoull(line, &name, 16);
		name[strcspn(name, "\n")] = 0;
		if (!(symbol_count & (symbol_count + 1)))
			symbols = realloc(symbols, (symbol_count + 1) * 2 * sizeof(*symbols));
		symbols[symbol_count++] = (struct symbol){ address, strdup(name + 1) };
	}
	fclose(file);
}

/* The name of the function that address is in: the nearest below. Without symbols, the address. */
static const char *function(uint64_t address, char *room)
{
	size_t low = 0, high = symbol_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (symbols[middle].address <= address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low)
		return symbols[low - 1].name;
	sprintf(room, "%" PRIx64, address);
	return room;
}
