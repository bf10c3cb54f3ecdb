#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# options/func-depth, with the kernel's function_graph tracer as the oracle.
. /tests/lib/ktap.sh

only_texts

reload

column() {
	echo "$PARENT" >$R/filter
	calls getppid 2
	echo 0 >$R/tracing_on
	events $R/trace >/tmp/flat
	echo 1 >$R/options/func-depth
	says $R/options/func-depth 1
	grep -q '^#  *TASK-PID .* DEPTH FUNCTION$' $R/trace
	# The same lines, with the depth before the function.
	events $R/trace | grep -E ": +0 $PARENT <-" >/tmp/deep
	[ -s /tmp/deep ]
	sed -E 's/: +0 /: /' /tmp/deep | cmp - /tmp/flat
	echo 0 >$R/options/func-depth
	events $R/trace | cmp - /tmp/flat
}

wrong_values() {
	for value in 2 -1 x '' 1x; do gets 'write EINVAL' $R/options/func-depth "$value"; done
	says $R/options/func-depth 0
}

# Without what comes at any time: interrupts, as far as they are not left out anyhow.
prune() {
	awk -v any_time="^($ANY_TIME)\$" '
		hidden && $1 > at { next }
		{ at = $1; hidden = $2 ~ any_time }
		!hidden'
}

# All that is called below a root: then no function between is hidden. (of two roots at once, as it takes long to hook all
# functions)
ROOTS=$(sys getcwd)
if grep -qxF path_mount /tmp/available; then ROOTS="$ROOTS path_mount"; fi
# (on one CPU: a call that returns on another is two lines)
act() {
	taskset 1 busybox pwd >/dev/null
	taskset 1 mount -t tmpfs rftrace /mnt
	umount /mnt
}

nesting_of_both() {
	local root
	echo nop >$R/current_tracer
	# Interrupts are calls of the interrupted task there, and levels of their own here.
	echo 0 >$T/options/funcgraph-irqs
	echo "$ROOTS" >$T/set_graph_function
	echo 8192 >$T/buffer_size_kb
	echo function_graph >$T/current_tracer
	act
	echo 0 >$T/tracing_on
	graph_nesting <$T/trace >/tmp/graphs
	echo nop >$T/current_tracer
	echo >$T/set_graph_function
	echo 1 >$T/tracing_on
	# Ours, all functions at once, and the root's call cut out by its depth.
	echo 1 >$R/options/func-depth
	echo 16384 >$R/buffer_size_kb
	# (what hooking them all calls alone would be a million lines)
	echo 0 >$R/tracing_on
	echo function >$R/current_tracer
	echo 1 >$R/tracing_on
	act
	echo 0 >$R/tracing_on
	events $R/trace >/tmp/events
	for root in $ROOTS; do as_deep_below "$root"; done
}

as_deep_below() {
	local root=$1
	awk -v root="$root" '
		$1 == 0 { if (found) exit; found = $2 == root }
		found' /tmp/graphs | prune >/tmp/graph
	[ "$(wc -l </tmp/graph)" -ge 5 ]
	# (comm-pid of the first call of the root, its depth, and all task level lines till it returns)
	awk -v root="$root" '
		{
			state = $3
			for (i = 1; i <= NF; i++) if ($i ~ /:$/) break
			depth = $(i + 1); name = $(i + 2); task = $1
		}
		substr(state, 3, 1) != "." { next }
		!found && name == root { found = 1; me = task; base = depth; print 0, name; next }
		# (an interrupt that has not said yet, or says no more, that it is one; no task is like it)
		/<-(sysvec_|common_interrupt|irqentry_)/ { interrupt = 1 }
		substr(state, 1, 1) == "." { interrupt = 0 }
		found && task == me && !interrupt {
			# (what comes later need not be read)
			if (depth <= base) exit
			print depth - base, name
		}' /tmp/events | prune >/tmp/ours
	head -n 5 /tmp/graph /tmp/ours
	# What the two runs did may differ in a call or two (allocation, scheduling); the nesting of the
	# calls that both have may not.
	diff /tmp/graph /tmp/ours >/tmp/diff || :
	differ=$(grep -c '^[-+][0-9]' /tmp/diff) || :
	lines=$(wc -l </tmp/graph)
	echo "$differ of $lines differ"
	sed -n 1,20p /tmp/diff
	[ $((differ * 10)) -le "$lines" ]
}

# (what else the machine does can come between, in one run and not in the other)
nesting() { tries 5 nesting_of_both; }

# The least depth of the events of hardirqs in a part of what CPU 0 does. (it may begin in one)
least_in_interrupts() {
	echo >$R/trace
	echo 1 >$R/tracing_on
	calls getppid 100 0
	echo 0 >$R/tracing_on
	events $R/per_cpu/cpu0/trace |
		awk '
			$3 !~ /^..[hHzZ]/ { begun = 1 }
			begun && $3 ~ /^..[hH]/ {
				for (i = 1; i <= NF; i++) if ($i ~ /:$/) break
				print $(i + 1)
			}' |
		sort -n | head -n 1 >/tmp/low
	[ -s /tmp/low ]
}

irqs_begin_at_zero() {
	# (small, so that it is soon read; not so small that one interrupt fills it)
	echo 256 >$R/buffer_size_kb
	echo 1 >$R/options/func-depth
	echo '*irq* *tick* *timer*' >$R/filter
	background calls signals 0 0
	until_true 20 least_in_interrupts
	# The outermost function of a hardirq is at depth 0 on its own level.
	is 'the least depth in interrupts' "$(cat /tmp/low)" 0
}

t 'the column comes and goes, the rest stays' column
t 'wrong values' wrong_values
t 'nesting of getcwd and a mount as function_graph has it' nesting
t 'interrupts begin at depth 0' irqs_begin_at_zero
finish
