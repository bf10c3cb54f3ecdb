// SPDX-License-Identifier: GPL-2.0
/*
 * Lets the kernel die, on the CPU that is told:
 *
 *	echo WAY CPU >/sys/module/dies_by/parameters/way
 *
 * where WAY is "null" (a NULL pointer in an interrupt), "oops" (one in a task), "spin" (a loop with
 * preemption off), or "nmi" (a panic in an NMI that interrupts a loop with interrupts off, as the
 * detector of hard lockups has it).
 */
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/nmi.h>
#include <linux/panic.h>
#include <linux/smp.h>
#include <asm/apic.h>
#include <asm/nmi.h>

static int *nowhere;

static int panics(unsigned int type, struct pt_regs *regs)
{
	nmi_panic(regs, "dies_by: an NMI");
	return NMI_HANDLED;
}

/* The kernel's own functions for it are not exported. */
static void send_nmi_here(void)
{
	if (x2apic_enabled()) {
		u64 id = native_apic_msr_read(APIC_ID);

		wrmsrq(APIC_BASE_MSR + (APIC_ICR >> 4), (id << 32) | APIC_DM_NMI);
		return;
	}
	native_apic_mem_write(APIC_ICR2, native_apic_mem_read(APIC_ID));
	native_apic_mem_write(APIC_ICR, APIC_DM_NMI);
}

/* The last function that is traced: it does not return. */
noinline void dies_by_step(const char *way);
noinline void dies_by_step(const char *way)
{
	if (!strcmp(way, "spin")) {
		preempt_disable();
		for (;;)
			cpu_relax();
	}
	if (!strcmp(way, "nmi")) {
		local_irq_disable();
		send_nmi_here();
		for (;;)
			cpu_relax();
	}
	WRITE_ONCE(*nowhere, 1);
}

static void die_here(void *way)
{
	dies_by_step(way);
}

static int set_way(const char *value, const struct kernel_param *param)
{
	static char way[8];
	unsigned int cpu;

	if (sscanf(value, "%7s %u", way, &cpu) != 2 || cpu >= nr_cpu_ids || !cpu_online(cpu))
		return -EINVAL;
	if (!strcmp(way, "null"))
		return smp_call_function_single(cpu, die_here, way, 1);
	die_here(way);
	return 0;
}

static const struct kernel_param_ops ways = { .set = set_way };
module_param_cb(way, &ways, NULL, 0200);

static int __init dies_by_init(void)
{
	return register_nmi_handler(NMI_LOCAL, panics, 0, "dies_by");
}
module_init(dies_by_init);

MODULE_DESCRIPTION("Lets the kernel die");
MODULE_LICENSE("GPL");
