// SPDX-License-Identifier: GPL-2.0
/*
 * Spoils the ftrace location of a module's function, so that ftrace shuts itself down when that is
 * to be hooked:
 *
 *	insmod break_site.ko site=ADDRESS
 *
 * The function must not be called any more. There is no way back but another boot.
 */
#include <linux/kprobes.h>
#include <linux/module.h>

static unsigned long site;
module_param(site, ulong, 0);

/* Not exported: a kprobe finds it, whether or not it may be put there. */
static void *find(const char *name)
{
	struct kprobe probe = { .symbol_name = name, .flags = KPROBE_FLAG_DISABLED };

	if (!register_kprobe(&probe))
		unregister_kprobe(&probe);
	return probe.addr;
}

static int __init break_site_init(void)
{
	/* ud2: a call after all would be seen. */
	static const char spoilt[] = { 0x0f, 0x0b };
	void *(*copy)(void *to, const void *from, size_t length) = find("text_poke_copy");

	if (!site || !copy)
		return -EINVAL;
	return copy((void *)site, spoilt, sizeof(spoilt)) ? 0 : -EFAULT;
}
module_init(break_site_init);

static void __exit break_site_exit(void)
{
}
module_exit(break_site_exit);

MODULE_DESCRIPTION("Spoils an ftrace location");
MODULE_LICENSE("GPL");
