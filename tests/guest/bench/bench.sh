#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# Usage: bench.sh [short|full]
# What tracing costs, ours against the kernel's own tracers, all in this one boot. Run by scripts/bench.
R=/sys/kernel/debug/rftrace
T=/sys/kernel/tracing
F=__do_sys_getppid
# More events than these do not make the figures any better, but take longer.
text_kb=512 drain_kb=4096 rest_kb=8192 turns=60000
[ "$1" = full ] || turns=20000

# Runs are short, so that most have no timer interrupt in them.
calls=400 runs=50

. /tests/bench/lib.sh

cost() { bench calls $calls $runs; }
# What a call costs more than without any tracer.
extra() { echo $(($(cost) - base)); }

# close A B: no more than 1 % apart.
close() {
	[ $(($1 * 100)) -le $(($2 * 101)) ] && [ $(($2 * 100)) -le $(($1 * 101)) ]
}

# The baseline, once it is the same for some time: booting goes on for a while, and costs.
settle() {
	local before steady=0 left=100
	base=$(cost)
	while [ $steady -lt 4 ]; do
		before=$base base=$(cost)
		if close "$before" "$base"; then steady=$((steady + 1)); else steady=0; fi
		left=$((left - 1))
		[ $left -gt 0 ] || fail "a call without a tracer never costs the same"
	done
}

# --- ours

# size DIRECTORY KIB
size() {
	[ "$(cat "$1/buffer_size_kb")" = "$2" ] || echo "$2" >"$1/buffer_size_kb"
}
# has DIRECTORY KEY: of the first CPU's buffer.
has() { sed -n "s/^$2: //p" "$1/per_cpu/cpu0/stats"; }

ours_on() {
	echo $F >$R/filter
	echo function >$R/current_tracer
}
ours_off() {
	echo nop >$R/current_tracer
	echo >$R/filter
	echo >$R/trace
}
# functions TRACER: of the kernel's
stock_on() {
	echo $F >$T/set_ftrace_filter
	echo "$1" >$T/current_tracer
}
stock_off() {
	echo nop >$T/current_tracer
	echo >$T/set_ftrace_filter
	echo >$T/trace
}

# fill KIB TRACE-DIRECTORY: the buffer, with calls of getppid, more than once over.
fill() {
	size "$2" "$1"
	echo >"$2/trace"
	bench calls $(($1 * 1024 / 16 * 5 / 4)) 1 >/dev/null
	echo 0 >"$2/tracing_on"
}
# per EVENTS TIME
per() { echo $(($2 / ($1 > 0 ? $1 : 1))); }

# text_cost DIRECTORY: of one line of its trace.
text_cost() {
	local took bytes lines
	fill $text_kb "$1"
	# (the first time, memory is found for it)
	bench read "$1/trace" 65536 >/tmp/read
	read -r took bytes lines <<-END
		$(bench read "$1/trace" 65536)
	END
	echo 1 >"$1/tracing_on"
	per "$lines" "$took"
}
# drain_cost DIRECTORY FILE SIZE: of one event, reading SIZE bytes at a time. (the kernel gives a sub-buffer at most)
drain_cost() {
	local took bytes lines before after
	fill $drain_kb "$1"
	before=$(has "$1" entries)
	read -r took bytes lines <<-END
		$(bench read "$1/per_cpu/cpu0/$2" "$3")
	END
	after=$(has "$1" entries)
	echo 1 >"$1/tracing_on"
	[ "$after" -lt $((before / 10)) ] || fail "$1/per_cpu/cpu0/$2 left $after of $before events"
	per $((before - after)) "$took"
}
# profile_cost FUNCTIONS: what a call costs that is counted and timed, and nothing else.
profile_cost() {
	echo "$1" >$R/filter
	echo nop >$R/current_tracer
	echo 1 >$R/function_profile_enabled
	extra
	echo 0 >$R/function_profile_enabled
	echo >$R/filter
}
# handled_cost FILE VALUE: what function_graph of all functions costs with that, where nothing is shown of it, per pair of
# errors that the kernel handles.
handled_cost() {
	local without
	without=$(bench handled 20 50)
	echo "$2" >"$R/$1"
	echo function_graph >$R/current_tracer
	echo $(($(bench handled 20 50) - without))
	echo nop >$R/current_tracer
	echo 0 >"$R/$1"
}
# available_cost DIRECTORY: of one line of the list of all functions, when it is read once more.
available_cost() {
	local took bytes lines
	bench read "$1/available_filter_functions" 65536 >/tmp/read
	read -r took bytes lines <<-END
		$(bench read "$1/available_filter_functions" 65536)
	END
	per "$lines" "$took"
}
# edits FILE WORD WORD N: what writing the first costs, where the second undoes it: the second least of N. One of some
# three removals waits for a grace period more, which is 100 ms, and one of some thirty edits for less of one.
edits() {
	for _ in $(seq "$4"); do
		bench edit "$1" "$2"
		bench edit "$1" "$3" >/tmp/read
	done | sort -n | sed -n 2p
}
# edit_cost FILE N: of putting a function into a list of all, where it is not.
edit_cost() {
	echo '*' >"$1"
	bench edit "$1" "!$F" >/tmp/read
	bench edit "$1" "$F" >/tmp/read
	bench edit "$1" "!$F" >/tmp/read
	edits "$1" "$F" "!$F" "$2"
}
# removal_cost FILE N: of taking a function out of a list of all.
removal_cost() {
	echo '*' >"$1"
	bench edit "$1" "!$F" >/tmp/read
	bench edit "$1" "$F" >/tmp/read
	edits "$1" "!$F" "$F" "$2"
}
# bytes DIRECTORY: per event, of a full buffer as it is.
bytes() {
	echo $(($(cat "$1/buffer_size_kb") * 102400 / $(has "$1" entries)))
}
# bytes_at_rest DIRECTORY, bytes_switching DIRECTORY: one task only, and a switch every 20 events.
bytes_at_rest() {
	fill $rest_kb "$1"
	bytes "$1"
	echo 1 >"$1/tracing_on"
}
bytes_switching() {
	# (so many that the buffer is full: 20 events take at least 320 bytes)
	size "$1" $((turns * 20 * 16 / 1024 / 4))
	echo >"$1/trace"
	bench turns $turns 20
	bytes "$1"
}

# bytes_of_calls DIRECTORY: per call, of all functions, of a buffer that is full of them.
bytes_of_calls() {
	local calls
	size "$1" 256
	echo >"$1/trace"
	echo function_graph >"$1/current_tracer"
	bench calls 4000 1 >/dev/null
	echo 0 >"$1/tracing_on"
	calls=$(grep -c '()\( {\|;\)$' "$1/per_cpu/cpu0/trace")
	echo 1 >"$1/tracing_on"
	echo $(($(cat "$1/buffer_size_kb") * 102400 / (calls > 0 ? calls : 1)))
	size "$1" 1408
	echo nop >"$1/current_tracer"
}

# --- all measurements, into /tmp/rows

measure_ours() {
	now "rust_ftrace"
	ours_idle=$(extra)
	ours_on
	ours_one=$(extra)
	echo calltrace >$R/current_tracer
	ours_calltrace=$(extra)
	echo function >$R/current_tracer
	echo function_graph >$R/current_tracer
	ours_graph=$(extra)
	echo 1 >$R/options/funcgraph-wait
	ours_wait=$(extra)
	echo 0 >$R/options/funcgraph-wait
	ours_graph_text=$(text_cost $R)
	ours_graph_bytes=$(bytes_at_rest $R)
	size $R 1408
	echo function >$R/current_tracer
	echo 1 >$R/options/func_stack_trace
	ours_stack=$(extra)
	echo 0 >$R/options/func_stack_trace
	echo 1 >$R/options/func-args
	ours_args=$(extra)
	echo 0 >$R/options/func-args
	echo 0 >$R/tracing_on
	ours_off_armed=$(extra)
	echo 1 >$R/tracing_on
	if [ -e $R/pid ]; then
		echo 1 >$R/pid
		ours_pid_out=$(extra)
		echo >$R/pid
	fi
	if [ -e $R/cgroup ] && mkdir -p /tmp/cgroups && mount -t cgroup2 none /tmp/cgroups; then
		mkdir /tmp/cgroups/none
		echo /none >$R/cgroup
		ours_cgroup_out=$(extra)
		echo >$R/cgroup
	fi
	ours_text=$(text_cost $R)
	[ ! -e $R/per_cpu/cpu0/raw ] || ours_drain=$(drain_cost $R raw 262144)
	[ ! -e $R/per_cpu/cpu0/trace_pipe_raw ] || ours_pages=$(drain_cost $R trace_pipe_raw 4096)
	ours_bytes=$(bytes_at_rest $R)
	ours_switching=$(bytes_switching $R)
	size $R 1408
	ours_off
	ours_profile=$(profile_cost $F)
	ours_profile_all=$(profile_cost '')
	echo 1 >$R/options/profile-contexts
	ours_contexts=$(profile_cost $F)
	ours_contexts_all=$(profile_cost '')
	echo 0 >$R/options/profile-contexts
	echo 1 >$R/options/profile-wait
	ours_profile_wait=$(profile_cost $F)
	echo 0 >$R/options/profile-wait
	echo 0 >$R/options/sleep-time
	ours_profile_running=$(profile_cost $F)
	echo 1 >$R/options/sleep-time
	echo $F >$R/graph_function
	ours_root=$(profile_cost $F)
	echo path_mount >$R/graph_function
	ours_outside=$(profile_cost $F)
	echo >$R/graph_function
	ours_available=$(available_cost $R)
	echo function >$R/current_tracer
	ours_all=$(extra)
	ours_edit=$(edit_cost $R/filter 7)
	ours_off
	echo function_graph >$R/current_tracer
	ours_graph_all=$(extra)
	ours_removal=$(removal_cost $R/filter 7)
	ours_off
	ours_calls_bytes=$(bytes_of_calls $R)
	ours_thresh=$(handled_cost tracing_thresh 10000000)
	if [ -e /sys/kernel/btf/vmlinux ]; then
		row errno_handled "$(handled_cost tracing_errno 1)" cost "$ours_thresh" "tracing_thresh of ours"
	else
		missing errno_handled "the kernel has no BTF"
	fi
}

measure_ftrace() {
	now "ftrace function"
	local name="ftrace function"
	stock_on function
	row function_one "$ours_one" cost "$(extra)" "$name"
	echo 0 >$T/tracing_on
	peer=$(extra)
	row off_armed "$ours_off_armed" cost "$peer" "$name"
	echo 1 >$T/tracing_on
	echo 1 >$T/set_ftrace_pid
	if [ -e $R/pid ]; then
		row pid_out "$ours_pid_out" cost "$(extra)" "$name"
	else
		missing pid_out "there is no $R/pid"
	fi
	echo >$T/set_ftrace_pid
	if [ "${ours_cgroup_out:-}" ]; then
		row cgroup_out "$ours_cgroup_out" cost "$ours_pid_out" "pid of ours"
	else
		missing cgroup_out "there is no $R/cgroup, or the kernel has no cgroups"
	fi
	row calltrace_one "$ours_calltrace" cost "$ours_one" "function of ours"
	echo 1 >$T/options/func_stack_trace
	row stack_one "$ours_stack" cost "$(extra)" "$name, func_stack_trace"
	echo 0 >$T/options/func_stack_trace
	if echo 1 2>/dev/null >$T/options/func-args; then
		row args_one "$ours_args" cost "$(extra)" "$name, func-args"
		echo 0 >$T/options/func-args
	else
		missing args_one "the kernel's own tracer does not record arguments"
	fi
	row available_line "$ours_available" cost "$(available_cost $T)" "tracefs"
	row idle "$ours_idle" cost - -
	row text_line "$ours_text" cost "$(text_cost $T)" "$name"
	if [ -e $R/per_cpu/cpu0/raw ]; then
		peer=$(drain_cost $T trace_pipe_raw 4096)
		row drain_event "$ours_drain" cost "$peer" "$name"
		row drain_pages "$ours_pages" cost "$peer" "$name"
	else
		missing drain_event "there is no $R/per_cpu/cpu0/raw"
		missing drain_pages "there is no $R/per_cpu/cpu0/raw"
	fi
	row bytes_per_event "$ours_bytes" bytes "$(bytes_at_rest $T)" "$name"
	row bytes_switching "$ours_switching" bytes "$(bytes_switching $T)" "$name"
	size $T 1408
	echo x86-tsc >$T/trace_clock
	[ "$1" != full ] || row function_one_tsc "$ours_one" cost "$(extra)" "ftrace function, x86-tsc"
	echo local >$T/trace_clock
	stock_off
	echo function >$T/current_tracer
	row function_all "$ours_all" cost "$(extra)" "$name"
	row edit_one "$ours_edit" cost "$(edit_cost $T/set_ftrace_filter 3)" "set_ftrace_filter"
	stock_off
}

measure_graph() {
	now "ftrace function_graph"
	local name="ftrace function_graph"
	stock_on function_graph
	peer=$(extra)
	row function_one_graph "$ours_one" cost "$peer" "$name"
	row graph_one "$ours_graph" cost "$peer" "$name"
	row wait_one "$ours_wait" cost "$ours_graph" "function_graph of ours"
	row profile_one "$ours_profile" cost "$peer" "$name"
	row profile_running "$ours_profile_running" cost "$peer" "$name"
	row profile_wait "$ours_profile_wait" cost "$peer" "$name"
	row profile_root "$ours_root" cost "$peer" "$name"
	row profile_outside "$ours_outside" cost "$peer" "$name"
	row contexts_one "$ours_contexts" cost "$peer" "$name"
	row graph_line "$ours_graph_text" cost "$(text_cost $T)" "$name"
	# (there, a call is two events)
	row bytes_graph "$ours_graph_bytes" bytes $((2 * $(bytes_at_rest $T))) "$name"
	size $T 1408
	stock_off
	echo function_graph >$T/current_tracer
	peer=$(extra)
	row graph_all "$ours_graph_all" cost "$peer" "$name"
	row remove_one "$ours_removal" cost "$(removal_cost $T/set_ftrace_filter 3)" "set_ftrace_filter"
	row profile_all "$ours_profile_all" cost "$peer" "$name"
	row contexts_all "$ours_contexts_all" cost "$peer" "$name"
	stock_off
	row bytes_graph_all "$ours_calls_bytes" bytes "$(bytes_of_calls $T)" "$name"
}

# event KIND LETTER: a dynamic event of that letter.
measure_event() {
	now "$1"
	if ! echo "$2:bench/getppid $F" >>$T/dynamic_events 2>/dev/null; then
		missing "function_one_${1%% *}" "no $1 here"
		return
	fi
	echo 1 >$T/events/bench/getppid/enable
	row "function_one_${1%% *}" "$ours_one" cost "$(extra)" "$1"
	echo 0 >$T/events/bench/getppid/enable
	echo "-:bench/getppid" >>$T/dynamic_events
	echo >$T/trace
}

# bpftrace_with PROBE NAME FILE: where FILE names the function once the probe is there.
measure_bpftrace() {
	now "bpftrace $1"
	bpftrace -e "$1:$F { @ = count(); }" >/tmp/bpftrace.log 2>&1 </dev/null &
	pid=$!
	attached() { grep -q $F "$2" || ! kill -0 $pid 2>/dev/null; }
	until_true 300 attached "$1" "$2"
	if kill -0 $pid 2>/dev/null && grep -q $F "$2"; then
		# (it goes on with something for a while)
		before=$(extra) peer=$(extra) left=50
		while ! close "$before" "$peer" && [ $left -gt 0 ]; do
			before=$peer peer=$(extra) left=$((left - 1))
		done
		row "function_one_bpftrace_$1" "$ours_one" cost "$peer" "bpftrace $1, count()"
	else
		missing "function_one_bpftrace_$1" "bpftrace does not run: $(tail -n 1 /tmp/bpftrace.log)"
	fi
	kill -INT $pid 2>/dev/null
	until_true 60 sh -c "! kill -0 $pid 2>/dev/null" || kill -KILL $pid
	wait $pid
}

measure() {
	: >/tmp/rows
	now "baseline"
	settle
	start=$base
	insmod /rust_ftrace.ko || fail "the module does not load"
	measure_ours
	measure_ftrace "$1"
	rmmod rust_ftrace
	measure_graph
	if [ "$1" = full ]; then
		measure_event "kprobe event" p
		measure_event "fprobe event" f
		if [ -x /usr/bin/bpftrace ]; then
			measure_bpftrace kprobe /sys/kernel/debug/kprobes/list
			measure_bpftrace fentry $T/enabled_functions
		else
			missing function_one_bpftrace "bpftrace is not here"
		fi
	fi
	now "baseline again"
	end=$(cost)
	row baseline "$start" cost "$end" "afterwards"
}

# Not while the clock's rate is still being found out.
calibrated() { ! grep -q early /sys/devices/system/clocksource/clocksource0/current_clocksource; }
until_true 20 calibrated

attempt=1
until measure "$1"; close "$start" "$end"; do
	now "a call without a tracer cost $(decimal "$start") before and $(decimal "$end") after: once more"
	attempt=$((attempt + 1))
	[ $attempt -le 3 ] || fail "the baseline differs by more than 1 % in each of 3 runs: no figures"
done
show_rows
