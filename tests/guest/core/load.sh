#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The module comes and goes, and leaves nothing behind.
. /tests/lib/ktap.sh

loads_idle() {
	reload
	is mode "$(stat -c %a $R)" 700
	says $R/current_tracer nop
	says $R/tracing_on 1
	says $R/filter '#### all functions enabled ####'
	says $R/notrace '#### no functions disabled ####'
	is 'armed' "$(status 'armed functions')" 0
	is 'hits' "$(status hits)" 0
	# (nothing is hooked: the kernel would say so)
	is 'hooked' "$(grep -c . $T/enabled_functions)" 0
	unload
	fails [ -e $R ]
	fails grep -q '\[rust_ftrace\]' /proc/kallsyms
}

second_is_refused() {
	reload
	fails load
	echo "$PARENT" >$R/filter
	is 'still works' "$(status 'armed functions')" 1
	unload
}

while_tracing() {
	reload
	echo "$PARENT" >$R/filter
	calls getppid 1000
	# (how many hooks there are, or M for modules' hooks, is up to the kernel)
	grep -q "^$PARENT " $T/enabled_functions
	unload
	is 'hooked' "$(grep -c . $T/enabled_functions)" 0
	fails [ -e $R ]
	calls getppid 1000
}

available_kb() {
	sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo
}

gives_memory_back() {
	# What the kernel itself keeps for the next time shows in the first rounds only.
	local i before after
	for i in 1 2; do
		reload buffer_size_kb=16384 "filter=$PARENT"
		unload
	done
	echo 3 >/proc/sys/vm/drop_caches
	before=$(available_kb)
	for i in 1 2 3 4; do
		load buffer_size_kb=16384 "filter=$PARENT"
		calls getppid 100 0
		calls getppid 100 1
		unload
	done
	echo 3 >/proc/sys/vm/drop_caches
	# Each round takes 32 MB for its buffers.
	after=$(available_kb)
	[ $((before - after)) -lt 24000 ]
}

t 'loads, traces nothing, and goes without a trace' loads_idle
t 'a second one is refused, the first goes on' second_is_refused
t 'goes while it traces a function' while_tracing
if [ -e /sys/kernel/debug/kmemleak ]; then
	skip 'gives its memory back' 'checkers keep much themselves; kmemleak looks for what was lost'
else
	t 'gives its memory back' gives_memory_back
fi
finish
