// SPDX-License-Identifier: GPL-2.0
/*
 * Functions that are called as often, and as deep, as is written to files in
 * /sys/kernel/debug/known_calls. Writing 150 to
 *
 *	deep		makes known_deep() call itself until it is 150 deep
 *	flat		calls known_flat() 150 times
 *	spin		calls known_spin(150), with interrupts off: 300 instructions in a loop
 *	around		calls known_around(150), with interrupts off: 300 instructions in a loop,
 *			known_spin(150), and another 300
 *	busy		does the same with interrupts on, and for as long as is wanted
 *	pairs		calls known_outer() 150 times, which calls known_inner()
 *	tree		calls known_left(150) and known_right(150), each of which calls both
 *			with one less, down to 1
 *	wait		calls known_waiting(), which calls known_flat() as soon as so many have been
 *			written to wake, and known_inner() before
 *	wake		wakes those that wait for so many
 *	deep_irq	does the same as deep, in an interrupt of each other CPU
 *	contexts	calls, on each CPU, known_in_task(), known_in_softirq() (a timer) and
 *			known_in_hardirq() (another's interrupt) 150 times each
 *	nmis		makes each NMI that has no other handler call known_in_nmi(), until 0 is
 *			written; reading tells how often it was called
 *
 * The task that writes makes the calls, unless stated otherwise; it gets EINVAL for less than 1,
 * and for too deep. Nothing else calls them.
 */
#include <linux/completion.h>
#include <linux/cpu.h>
#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/timer.h>
#include <linux/wait.h>
#include <linux/workqueue.h>
#include <asm/nmi.h>

/* The stack has room for these. */
#define DEEPEST 200

static struct dentry *dir;

/* Attributes without which compilers may leave the call out. */
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
	/* Keep it from becoming a jump. */
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

/* More would take as many calls as 2 to this. */
#define MOST_BRANCHES 20

int known_left(int depth);
int known_right(int depth);

static __always_inline int both(int depth)
{
	int below = 1;

	if (depth > 1) {
		below += known_left(depth - 1);
		below += known_right(depth - 1);
	}
	/* Keep it from becoming a loop. */
	barrier();
	return below;
}

KNOWN int known_left(int depth)
{
	return both(depth);
}

KNOWN int known_right(int depth)
{
	return both(depth);
}

static int tree_set(void *data, u64 depth)
{
	if (depth < 1 || depth > MOST_BRANCHES)
		return -EINVAL;
	known_left(depth);
	known_right(depth);
	return 0;
}

static u64 woken;
static DECLARE_WAIT_QUEUE_HEAD(waiters);

KNOWN int known_waiting(u64 count)
{
	int result;

	known_inner(0);
	result = wait_event_interruptible(waiters, READ_ONCE(woken) >= count);
	known_flat(0);
	return result;
}

static int wait_set(void *data, u64 count)
{
	return known_waiting(count);
}

static int wake_set(void *data, u64 count)
{
	WRITE_ONCE(woken, count);
	wake_up_all(&waiters);
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

/* Takes two instructions a round. */
static __always_inline void spin(u64 rounds)
{
	asm volatile("1: dec %0\n\tjnz 1b" : "+r"(rounds) : : "cc");
}

KNOWN void known_spin(u64 rounds)
{
	spin(rounds);
}

KNOWN void known_around(u64 rounds)
{
	spin(rounds);
	known_spin(rounds);
	spin(rounds);
}

/* Some milliseconds on a machine of our days. */
#define MOST_ROUNDS 10000000
/* Some tenths of a second. */
#define MOST_BUSY_ROUNDS 1000000000

static int with_irqs_off(void (*call)(u64 rounds), u64 rounds)
{
	unsigned long flags;

	if (rounds < 1 || rounds > MOST_ROUNDS)
		return -EINVAL;
	local_irq_save(flags);
	call(rounds);
	local_irq_restore(flags);
	return 0;
}

static int spin_set(void *data, u64 rounds)
{
	return with_irqs_off(known_spin, rounds);
}

static int around_set(void *data, u64 rounds)
{
	return with_irqs_off(known_around, rounds);
}

static int busy_set(void *data, u64 rounds)
{
	if (rounds < 1 || rounds > MOST_BUSY_ROUNDS)
		return -EINVAL;
	known_around(rounds);
	return 0;
}

KNOWN void known_in_task(void)
{
	barrier();
}

KNOWN void known_in_softirq(void)
{
	barrier();
}

KNOWN void known_in_hardirq(void)
{
	barrier();
}

KNOWN void known_in_nmi(void)
{
	barrier();
}

/* A timer on each CPU, and the number of its calls that are left there. */
struct ticker {
	struct timer_list timer;
	u64 left;
	struct completion over;
};
static DEFINE_PER_CPU(struct ticker, tickers);

static void tick(struct timer_list *timer)
{
	struct ticker *ticker = container_of(timer, struct ticker, timer);
	int calls;

	/* A few at a time: it has to wait for the next jiffy. */
	for (calls = 0; calls < 50 && ticker->left; calls++, ticker->left--)
		known_in_softirq();
	if (ticker->left)
		mod_timer(&ticker->timer, jiffies + 1);
	else
		complete(&ticker->over);
}

static long task_of_cpu(void *count)
{
	u64 left;

	for (left = *(u64 *)count; left; left--)
		known_in_task();
	return 0;
}

static void irq_of_cpu(void *count)
{
	u64 left;

	for (left = *(u64 *)count; left; left--)
		known_in_hardirq();
}

static int contexts_set(void *data, u64 count)
{
	int cpu;

	if (count < 1)
		return -EINVAL;
	cpus_read_lock();
	for_each_online_cpu(cpu) {
		struct ticker *ticker = per_cpu_ptr(&tickers, cpu);

		ticker->left = count;
		init_completion(&ticker->over);
		timer_setup(&ticker->timer, tick, TIMER_PINNED);
		ticker->timer.expires = jiffies + 1;
		add_timer_on(&ticker->timer, cpu);
		work_on_cpu(cpu, task_of_cpu, &count);
		smp_call_function_single(cpu, irq_of_cpu, &count, 1);
	}
	for_each_online_cpu(cpu) {
		struct ticker *ticker = per_cpu_ptr(&tickers, cpu);

		wait_for_completion(&ticker->over);
		timer_delete_sync(&ticker->timer);
	}
	cpus_read_unlock();
	return 0;
}

static atomic64_t nmis;
static bool nmis_on;

static int nmi(unsigned int type, struct pt_regs *regs)
{
	atomic64_inc(&nmis);
	known_in_nmi();
	return NMI_HANDLED;
}

static int nmis_set(void *data, u64 on)
{
	int error = 0;

	if (on && !nmis_on) {
		error = register_nmi_handler(NMI_UNKNOWN, nmi, 0, "known_calls");
		nmis_on = !error;
	} else if (!on && nmis_on) {
		unregister_nmi_handler(NMI_UNKNOWN, "known_calls");
		nmis_on = false;
	}
	return error;
}

static int nmis_get(void *data, u64 *count)
{
	*count = atomic64_read(&nmis);
	return 0;
}

DEFINE_DEBUGFS_ATTRIBUTE(contexts, NULL, contexts_set, "%llu\n");
DEFINE_DEBUGFS_ATTRIBUTE(nmis_file, nmis_get, nmis_set, "%llu\n");
DEFINE_DEBUGFS_ATTRIBUTE(deep, NULL, deep_set, "%llu\n");
DEFINE_DEBUGFS_ATTRIBUTE(deep_irq, NULL, deep_irq_set, "%llu\n");
DEFINE_DEBUGFS_ATTRIBUTE(flat, NULL, flat_set, "%llu\n");
DEFINE_DEBUGFS_ATTRIBUTE(tree, NULL, tree_set, "%llu\n");
DEFINE_DEBUGFS_ATTRIBUTE(wait_file, NULL, wait_set, "%llu\n");
DEFINE_DEBUGFS_ATTRIBUTE(wake, NULL, wake_set, "%llu\n");
DEFINE_DEBUGFS_ATTRIBUTE(pairs, NULL, pairs_set, "%llu\n");
DEFINE_DEBUGFS_ATTRIBUTE(spin_file, NULL, spin_set, "%llu\n");
DEFINE_DEBUGFS_ATTRIBUTE(around, NULL, around_set, "%llu\n");
DEFINE_DEBUGFS_ATTRIBUTE(busy, NULL, busy_set, "%llu\n");

static int __init known_calls_init(void)
{
	dir = debugfs_create_dir("known_calls", NULL);
	debugfs_create_file("deep", 0200, dir, NULL, &deep);
	debugfs_create_file("deep_irq", 0200, dir, NULL, &deep_irq);
	debugfs_create_file("flat", 0200, dir, NULL, &flat);
	debugfs_create_file("contexts", 0200, dir, NULL, &contexts);
	debugfs_create_file("nmis", 0600, dir, NULL, &nmis_file);
	debugfs_create_file("pairs", 0200, dir, NULL, &pairs);
	debugfs_create_file("spin", 0200, dir, NULL, &spin_file);
	debugfs_create_file("around", 0200, dir, NULL, &around);
	debugfs_create_file("busy", 0200, dir, NULL, &busy);
	debugfs_create_file("tree", 0200, dir, NULL, &tree);
	debugfs_create_file("wait", 0200, dir, NULL, &wait_file);
	debugfs_create_file("wake", 0200, dir, NULL, &wake);
	return 0;
}

static void __exit known_calls_exit(void)
{
	debugfs_remove(dir);
	nmis_set(NULL, 0);
}

module_init(known_calls_init);
module_exit(known_calls_exit);
MODULE_DESCRIPTION("Calls of known functions, for the tests of rust_ftrace");
MODULE_LICENSE("GPL");
