#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Everything at once, and all is as it was: run by scripts/stress, which says what seed, seconds, only and without are.
. /tests/lib/ktap.sh
. /tests/lib/nmis.sh
MADE=/lib/modules/known_calls.ko
K=/sys/kernel/debug/known_calls

# kernel_kb: memory of the kernel's that is not to be had for the asking.
kernel_kb() {
	echo 3 >/proc/sys/vm/drop_caches
	awk '/^(SUnreclaim|Percpu|VmallocUsed|KernelStack|PageTables):/ { sum += $2 } END { print sum }' /proc/meminfo
}

# memory_parts: the parts of that, and what each cache has of it, in kB.
memory_parts() {
	awk '/^(SUnreclaim|Percpu|VmallocUsed|KernelStack|PageTables):/ { print $1, $2 }' /proc/meminfo
	awk 'NR > 2 { print $1, int($3 * $4 / 1024) }' /proc/slabinfo
}

# Moves all tasks into the root of cgroups, and removes the others. (A cgroup of threads does not say what processes it
# has; that a thread is named will do.)
no_cgroups_left() {
	local name thread
	for name in $(find /tmp/cgroups -mindepth 1 -type d); do
		# (one that ends meanwhile cannot be moved)
		for thread in $(cat "$name/cgroup.threads"); do echo "$thread" >/tmp/cgroups/cgroup.procs || :; done
	done
	# (one that has ended is there until it is gone)
	for name in $(find /tmp/cgroups -mindepth 1 -type d | sort -r); do
		until_true 10 rmdir "$name"
	done
}

# Puts back what all tasks use, and leaves nothing of the others.
back_to_normal() {
	local file name
	for file in /sys/devices/system/cpu/cpu*/online; do echo 1 >"$file"; done
	stock_off
	for file in kprobe_events dynamic_events; do
		[ -e $T/$file ] || continue
		for name in $T/events/stress_*/enable; do [ ! -e "$name" ] || echo 0 >"$name"; done
		echo >$T/$file
	done
	if [ -e /sys/kernel/livepatch/livepatch_sample ]; then
		echo 0 >/sys/kernel/livepatch/livepatch_sample/enabled
		until_true 60 [ ! -e /sys/kernel/livepatch/livepatch_sample ]
	fi
	for name in livepatch_sample known_calls cpuid msr dummy; do
		[ ! -e /sys/module/$name ] || rmmod $name
	done
	rm -f /tmp/stress.*
	no_cgroups_left
}

# fgraph numbers its users in turn, and tells number 0 of returns that it knows nothing of, of which fprobe warns
# (docs/upstream/fprobe-return-warning.md). Probes that come and go would get that number some time, so one stays all
# the time, with another number.
keep_a_probe() {
	[ -e $T/dynamic_events ] || return 0
	echo function_graph >$T/current_tracer
	echo 'f:stress_kept/kept path_mount%return' >>$T/dynamic_events
	echo 1 >$T/events/stress_kept/kept/enable
	echo nop >$T/current_tracer
}

mkdir -p /tmp/cgroups
mount -t cgroup2 none /tmp/cgroups || rmdir /tmp/cgroups

# What was there first: the second time memory is what it is while nothing is at work.
load
unload
before=$(kernel_kb)
memory_parts >/tmp/parts
load
keep_a_probe
code=0
nmis_of_cpus >/tmp/nmis_before
# (with all functions traced by several, a change of hooks takes a minute, and others wait for it)
patience=$((SLOWER > 1 ? 600 : 180))
[ ! -e /proc/sys/kernel/hung_task_timeout_secs ] || echo $patience >/proc/sys/kernel/hung_task_timeout_secs
stress --seed "${seed:-1}" --seconds "${seconds:-60}" --patience $patience --slower $((SLOWER > 1 ? 4 : 1)) \
	${only:+--only "$only"} ${without:+--without "$without"} 2>&1 || code=$?

ended() {
	is 'exit code of stress' $code 0
	is 'tasks that cannot be killed' "$(ps -o stat,pid,comm | grep '^D' || :)" ''
}

# One or two a second come to all CPUs; one that is away has none.
nmis_everywhere() {
	local file
	for file in /sys/devices/system/cpu/cpu*/online; do echo 1 >"$file"; done
	cat /proc/interrupts
	nmis_since /tmp/nmis_before $((1 + ${seconds:-60} / 20))
}

# Of each instance and CPU.
accounts() {
	local instance
	[ -e $R ] || load
	for instance in $R $R/instances/*; do
		[ -d "$instance" ] || continue
		echo 0 >"$instance/tracing_on"
		# (what was on its way has arrived)
		R=$instance until_true 10 accounts_agree
	done
}

# There were some NMIs since there were $nmis, and on each CPU.
some_nmis() {
	[ $(($(cat $K/nmis) - nmis)) -ge 3 ] && nmis_since /tmp/nmis 1
}

# known TRACER COUNT: that many calls are recorded, to the last.
known() {
	local nmis context
	reset
	echo 'known_*' >$R/filter
	echo "$1" >$R/current_tracer
	echo 20000 >$R/buffer_size_kb
	echo "$2" >$K/flat
	echo "$2" >$K/pairs
	echo 100 >$K/deep_irq
	echo "$2" >$K/contexts
	nmis=0
	if [ "${nmi:-0}" -ne 0 ]; then
		nmis=$(cat $K/nmis)
		nmis_of_cpus >/tmp/nmis
		echo 1 >$K/nmis
		until_true 60 some_nmis
		echo 0 >$K/nmis
		nmis=$(($(cat $K/nmis) - nmis))
	fi
	echo 0 >$R/tracing_on
	# (the end of a call within which others came may name it, too)
	sed '/^#/d; s|/\*.*\*/||' $R/trace >/tmp/known
	is 'flat calls' "$(grep -c known_flat /tmp/known)" "$2"
	is 'inner calls' "$(grep -c known_inner /tmp/known)" "$2"
	for context in task softirq hardirq; do
		is "calls in $context" "$(grep -c "known_in_$context" /tmp/known)" $(($2 * $(grep -c ^processor /proc/cpuinfo)))
	done
	is 'calls in NMIs' "$(grep -c known_in_nmi /tmp/known)" $nmis
	is 'lost' "$(status 'events lost')" 0
	accounts_agree
	echo 1 >$R/tracing_on
}
still_right() {
	local tracer
	back_to_normal
	reload
	insmod $MADE
	for tracer in $(cat $R/available_tracers); do
		[ "$tracer" = nop ] || known "$tracer" $((10000 / SLOWER))
	done
}

# Events go with the buffers that they are in, and are counted still.
counted() {
	local kb
	reset
	echo 'known_*' >$R/filter
	echo function >$R/current_tracer
	for kb in 500 1000 200; do
		echo 1000 >$K/flat
		echo $kb >$R/buffer_size_kb
	done
	echo 1000 >$K/flat
	is 'hits' "$(status hits)" 4000
	accounts_agree
	rmmod known_calls
}

as_before() {
	local after
	after=$(kernel_kb)
	echo "$before kB before, $after kB after"
	[ $((after - before)) -lt 6000 ]
}
memory() {
	back_to_normal
	unload
	# (what RCU frees takes its time)
	until_true 1 as_before && return
	echo "parts that grew by more than 100 kB:"
	memory_parts | awk 'NR == FNR { before[$1] = $2; next } $2 - before[$1] > 100 { print $1, before[$1], $2 }' /tmp/parts -
	return 1
}

t 'every task ends' ended
if [ "${nmi:-0}" -ne 0 ]; then
	t 'NMIs come to every CPU' nmis_everywhere
else
	skip 'NMIs come to every CPU' 'there are none'
fi
t 'accounts add up, of each instance and CPU' accounts
t 'known calls are traced to the last' still_right
t 'known calls are counted, those of buffers that were replaced included' counted
if [ -e /sys/kernel/debug/kmemleak ]; then
	skip 'the kernel has its memory back' 'checkers keep much themselves; kmemleak looks for what was lost'
else
	t 'the kernel has its memory back' memory
fi
finish
