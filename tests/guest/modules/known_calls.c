// SPDX-License-Identifier: GPL-2.0
/*
 * Functions that are called as often, and as deep, as is written to files:
 *
 *	echo 150 >/sys/kernel/debug/known_calls/deep	known_deep() calls itself until it is 150 deep
 *	echo 150 >/sys/kernel/debug/known_calls/flat	known_flat() is called 150 times
 *	echo 150 >/sys/kernel/debug/known_calls/pairs	known_outer() is called 150 times, and calls known_inner()
 *
 *	echo 150 >/sys/kernel/debug/known_calls/deep_irq	the same as deep, in an interrupt of each other CPU
 *
 * By the task that writes, if nothing else is said; it gets EINVAL for less than 1, and for too deep. Nobody else
 * calls them.
 */
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/smp.h>

/* (the stack has room for these) */
#define DEEPEST 200

static struct dentry *dir;

/* What compilers cannot do without a call. */
#define KNOWN noinline __noclone __used

KNOWN int known_flat(int value)
{
	barrier();
	return value;
}

KNOWN int known_inner(int value)
{
	barrier();
	return value;
}

KNOWN int known_outer(int value)
{
	value = known_inner(value);
	/* (so that it is no jump) */
	barrier();
	return value;
}

KNOWN int known_deep(int depth)
{
	int below = depth > 1 ? known_deep(depth - 1) : 0;

	barrier();
	return below + 1;
}

static int deep_set(void *data, u64 depth)
{
	if (depth < 1 || depth > DEEPEST)
		return -EINVAL;
	return known_deep(depth) == depth ? 0 : -EIO;
}

static void go_deep(void *depth)
{
	known_deep(*(u64 *)depth);
}

static int deep_irq_set(void *data, u64 depth)
{
	if (depth < 1 || depth > DEEPEST)
		return -EINVAL;
	smp_call_function(go_deep, &depth, 1);
	return 0;
}

static int flat_set(void *data, u64 count)
{
	if (count < 1)
		return -EINVAL;
	while (count--)
		known_flat(0);
	return 0;
}

static int pairs_set(void *data, u64 count)
{
	if (count < 1)
		return -EINVAL;
	while (count--)
		known_outer(0);
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(deep, NULL, deep_set, "%llu\n");
DEFINE_DEBUGFS_ATTRIBUTE(deep_irq, NULL, deep_irq_set, "%llu\n");
DEFINE_DEBUGFS_ATTRIBUTE(flat, NULL, flat_set, "%llu\n");
DEFINE_DEBUGFS_ATTRIBUTE(pairs, NULL, pairs_set, "%llu\n");

static int __init known_calls_init(void)
{
	dir = debugfs_create_dir("known_calls", NULL);
	debugfs_create_file("deep", 0200, dir, NULL, &deep);
	debugfs_create_file("deep_irq", 0200, dir, NULL, &deep_irq);
	debugfs_create_file("flat", 0200, dir, NULL, &flat);
	debugfs_create_file("pairs", 0200, dir, NULL, &pairs);
	return 0;
}

static void __exit known_calls_exit(void)
{
	debugfs_remove(dir);
}

module_init(known_calls_init);
module_exit(known_calls_exit);
MODULE_DESCRIPTION("Calls of known functions, for the tests of rust_ftrace");
MODULE_LICENSE("GPL");
