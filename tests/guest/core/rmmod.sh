#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# rmmod at any moment: while tasks sleep in traced calls, readers wait, timers fire, and others use fgraph, too.
. /tests/lib/ktap.sh

# (a cycle takes some seconds: CMDLINE="cycles=500 cycles_all=20 file_limit=9000" for more)
case $KERNEL in
debug | kcsan) : "${cycles:=0}" "${cycles_all:=0}" ;;
*) : "${cycles:=2}" "${cycles_all:=0}" ;;
esac
FEW=100

# Functions that tasks sleep in for the whole time, that timers call, and that all tasks call: so many that there are
# $FEW.
functions() {
	{
		grep -xE 'do_nanosleep|hrtimer_nanosleep|common_nsleep|(anon_)?pipe_read|vfs_read|ksys_read|do_wait|kernel_wait4' \
			/tmp/available
		grep -xE '(hrtimer|tick|timer|process_timeout|it_real_fn|run_timer|scheduler_tick|sched_tick)[a-z_]*' /tmp/available
		grep -xE '(vfs|pipe|anon_pipe|do_sys|task|wake_up|fput|kmem_cache|security|path|filp)[a-z_0-9]*' /tmp/available
	} | awk '!seen[$0]++' | head -n $FEW | tr '\n' ' '
}
FUNCTIONS=$(functions)
SLEEP=$(pick do_nanosleep)

# kernel_kb: memory of the kernel's that is not to be had for the asking, each kind and all.
kernel_kb() {
	echo 3 >/proc/sys/vm/drop_caches
	awk '/^(SUnreclaim|Percpu|VmallocUsed|KernelStack|PageTables):/ { sum += $2; printf "%s%s ", $1, $2 }
		END { print "all:" sum }' /proc/meminfo
}

# Tasks that sleep in a call for as long as it takes, for short, and in reading what is never written.
sleepers() {
	background sleep 100000
	[ -p /tmp/silent ] || mkfifo /tmp/silent
	# (the reader's own end for writing keeps it from an end of file)
	background sh -c 'exec cat <>/tmp/silent'
	background sh -c 'while :; do usleep 3000; done'
	background calls signals 0 0
	background calls files 0 1
}

# Others that watch returns: the kernel's tracer in an instance of its own, and an event of fprobe.
foreign_on() {
	[ -d $T/instances/foreign ] || mkdir $T/instances/foreign
	echo "$SLEEP vfs_read" >$T/instances/foreign/set_ftrace_filter
	echo function_graph >$T/instances/foreign/current_tracer
	if [ -e $T/dynamic_events ]; then
		echo "f:rmmod_test/sleeps $SLEEP%return" >>$T/dynamic_events
		echo 1 >$T/events/rmmod_test/sleeps/enable
	fi
}
foreign_off() {
	if [ -d $T/instances/foreign ]; then
		echo nop >$T/instances/foreign/current_tracer
		rmdir $T/instances/foreign
	fi
	if [ -e $T/events/rmmod_test ]; then
		echo 0 >$T/events/rmmod_test/sleeps/enable
		echo '-:rmmod_test/sleeps' >>$T/dynamic_events
	fi
}

hit() {
	[ "$(status hits)" -ge 50 ]
}
gone() {
	[ ! -e $R ]
	fails [ -e /sys/module/rust_ftrace ]
}

# A reader waits: while it has its file open, the module stays.
waiting_readers() {
	cat $R/trace_pipe >/dev/null 2>&1 &
	reader=$!
	until_true 20 has_pipe $reader
	fails rmmod rust_ftrace 2>/tmp/refused
	grep -qiE 'busy|resource temporarily unavailable|in use' /tmp/refused || { cat /tmp/refused; return 1; }
	[ -e $R/trace_pipe ]
	kill $reader
	wait $reader 2>/dev/null || :
}

has_pipe() {
	ls -l /proc/"$1"/fd 2>/dev/null | grep -q trace_pipe
}

# cycle NUMBER: loaded, armed, called, unloaded; each is another of some kinds.
cycle() {
	load buffer_size_kb=64
	case $(($1 % 6)) in
	0) echo "$FUNCTIONS" >$R/filter ;;
	1)
		echo "$FUNCTIONS" >$R/filter
		echo function_graph >$R/current_tracer
		;;
	2)
		mkdir $R/instances/one
		echo "$FUNCTIONS" >$R/instances/one/filter
		echo function_graph >$R/instances/one/current_tracer
		echo "$FUNCTIONS" >$R/filter
		;;
	3)
		echo "$FUNCTIONS" >$R/filter
		echo 1 >$R/function_profile_enabled
		;;
	4)
		echo 1 >$R/options/func_stack_trace
		echo "$SLEEP:traceon" >$R/filter
		echo "$FUNCTIONS" >$R/filter
		;;
	5)
		echo "$FUNCTIONS" >$R/filter
		echo "$FUNCTIONS" >$R/graph_function
		echo function_graph >$R/current_tracer
		;;
	esac
	[ $(($1 % 3)) -ne 0 ] || foreign_on
	until_true 20 hit
	[ $(($1 % 5)) -ne 0 ] || waiting_readers
	# (others come, stay, or go meanwhile)
	if [ $(($1 % 3)) -eq 1 ]; then
		foreign_off &
		rmmod rust_ftrace
		wait $!
	else
		rmmod rust_ftrace
	fi
	gone
}

many() {
	local number=0 begun before after
	# (an open call knows the probe that waits for its return, whose memory stays then: some hundred bytes)
	unload
	is 'functions' "$(echo "$FUNCTIONS" | wc -w)" $FEW
	sleepers
	for number in 1 2 3 4 5 6; do cycle $number >/dev/null 2>&1; done
	foreign_off
	before=$(kernel_kb)
	begun=$(now)
	number=0
	while [ $number -lt "$cycles" ]; do
		number=$((number + 1))
		# (each is told by its last commands, if it fails)
		echo "cycle $number"
		cycle $number >/tmp/cycle.log 2>&1 || { code=$?; tail -n 40 /tmp/cycle.log; return $code; }
	done
	foreign_off
	echo "$cycles cycles in $((($(now) - begun) / 100)) s" >/tmp/figures
	until_true 10 little_more
	is hooked "$(grep -c . $T/enabled_functions)" 0
	end_background
	sleepers
	calls getppid 1000
	end_background
}
little_more() {
	after=$(kernel_kb)
	echo "kB before: $before; after: $after" >/tmp/memory
	[ $((${after##*:} - ${before##*:})) -lt 4000 ]
}

all() {
	local number=0 begun
	unload
	sleepers
	background churn 0
	begun=$(now)
	while [ $number -lt "$cycles_all" ]; do
		number=$((number + 1))
		load buffer_size_kb=512
		# (every other with what returns)
		[ $((number % 2)) -eq 0 ] || echo function_graph >$R/current_tracer
		[ $((number % 2)) -ne 0 ] || echo function >$R/current_tracer
		until_true 30 hit
		rmmod rust_ftrace
		gone
	done
	echo "all functions: $cycles_all cycles in $((($(now) - begun) / 100)) s" >/tmp/figures
	end_background
	is hooked "$(grep -c . $T/enabled_functions)" 0
}

# Readers of all that waits, and tasks that wait for events by poll: rmmod is refused, and they go on.
readers_go_on() {
	local name
	reload
	echo "$PARENT" >$R/filter
	for name in trace_pipe per_cpu/cpu0/raw per_cpu/cpu1/trace_pipe_raw per_cpu/cpu0/trace_pipe; do
		background dd if=$R/$name of=/dev/null bs=4096
	done
	until_true 20 hold_open
	fails rmmod rust_ftrace
	calls getppid 5000
	fails rmmod rust_ftrace
	hold_open
	[ -e $R/filter ]
	end_background
	rmmod rust_ftrace
	gone
}
hold_open() {
	local pid
	for pid in $workers; do
		ls -l /proc/$pid/fd 2>/dev/null | grep -q "$R/" || return 1
	done
}
figures() {
	sed 's/^/# /' "$@" 2>/dev/null
	rm -f "$@"
}

t 'readers that wait keep it from going, and go on' readers_go_on
if [ "$cycles" -gt 0 ]; then
	t "$cycles times loaded and unloaded, $FEW functions armed" many
	figures /tmp/figures /tmp/memory
else
	skip "loaded and unloaded, $FEW functions armed" 'takes minutes on a debug kernel (cycles=N)'
fi
if [ "$cycles_all" -gt 0 ]; then
	t "$cycles_all times loaded and unloaded, all functions armed" all
	figures /tmp/figures
else
	skip 'loaded and unloaded with all functions armed' 'to hook them takes a minute, and more on a debug kernel (cycles_all=N)'
fi
finish
