#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Ours and what else the kernel has for functions, on the same function at the same time: each sees every
# call, whichever comes and goes first.
. /tests/lib/ktap.sh

reload
COUNT=20

# --- the others, each in an instance of tracefs of its own: NAME_on, NAME_off, NAME_lines

function_on() {
	echo "$PARENT" >$T/instances/function/set_ftrace_filter
	echo function >$T/instances/function/current_tracer
}
function_off() {
	echo nop >$T/instances/function/current_tracer
}
graph_on() {
	echo "$PARENT" >$T/instances/graph/set_ftrace_filter
	echo 1 >$T/instances/graph/options/funcgraph-proc 2>/dev/null || :
	echo function_graph >$T/instances/graph/current_tracer
	echo 1 >$T/instances/graph/options/funcgraph-proc
}
graph_off() {
	echo nop >$T/instances/graph/current_tracer
}
kprobe_on() {
	echo "p:their_kprobe $PARENT" >>$T/kprobe_events
	echo 1 >$T/instances/kprobe/events/kprobes/their_kprobe/enable
}
kprobe_off() {
	echo 0 >$T/instances/kprobe/events/kprobes/their_kprobe/enable
	echo '-:their_kprobe' >>$T/kprobe_events
}
fprobe_on() {
	echo "f:their_fprobe $PARENT" >>$T/dynamic_events
	echo 1 >$T/instances/fprobe/events/fprobes/their_fprobe/enable
}
fprobe_off() {
	echo 0 >$T/instances/fprobe/events/fprobes/their_fprobe/enable
	echo '-:their_fprobe' >>$T/dynamic_events
}
ours_on() {
	echo "$PARENT" >$R/filter
	echo "$tracer" >$R/current_tracer
	echo 1 >$R/options/funcgraph-proc
}
ours_off() {
	echo nop >$R/current_tracer
}
tracer=function

# seen NAME: the number of calls of the program that it has seen since the last time. A task that moves
# to another CPU within a call has its return there, with the name again behind the brace.
seen() {
	local trace=$T/instances/$1/trace
	[ "$1" != ours ] || trace=$R/trace
	cat "$trace" >/tmp/seen
	echo >"$trace"
	grep -v '^#' /tmp/seen | grep -E "calls-[0-9]+ " | grep -v '} /\*' | grep -cE "$PARENT|their_" || :
}

# each_sees NAME...: these see all calls, and the others none
each_sees() {
	local who wanted
	calls getppid $COUNT
	for who in ours $OTHERS; do
		wanted=0
		case " $* " in *" $who "*) wanted=$COUNT ;; esac
		[ "$who" != ours ] || [ -e $R ] || continue
		is "calls that $who saw" "$(seen "$who")" $wanted
	done
}

OTHERS='function graph'
[ ! -e $T/kprobe_events ] || OTHERS="$OTHERS kprobe"
if [ -e $T/dynamic_events ] && grep -q 'f\[' $T/README; then OTHERS="$OTHERS fprobe"; fi
for other in $OTHERS; do
	mkdir $T/instances/"$other"
done

all_at_once() {
	local other
	for other in $OTHERS; do ${other}_on; done
	for tracer in function function_graph calltrace; do
		ours_on
		each_sees ours $OTHERS
		ours_off
		each_sees $OTHERS
	done
	for other in $OTHERS; do ${other}_off; done
	each_sees
}
in_any_order() {
	for tracer in function function_graph; do
		ours_on
		${other}_on
		each_sees ours $other
		ours_off
		each_sees $other
		ours_on
		each_sees ours $other
		${other}_off
		each_sees ours
		${other}_on
		each_sees ours $other
		${other}_off
		ours_off
	done
}
theirs_go_on() {
	local other
	for other in $OTHERS; do ${other}_on; done
	for tracer in function function_graph; do
		ours_on
		each_sees ours $OTHERS
		unload
		each_sees $OTHERS
		load
		each_sees $OTHERS
	done
	for other in $OTHERS; do ${other}_off; done
	each_sees
}
# Thousands of functions, of ours and of the kernel's tracer, while a program works.
many_functions() {
	local many='*sys* vfs_* *task* sched*'
	echo "$many" >$T/set_ftrace_filter
	echo 4096 >$T/buffer_size_kb
	echo 4096 >$R/buffer_size_kb
	for tracer in function function_graph; do
		echo "$many" >$R/filter
		[ "$(status 'armed functions')" -gt 1000 ]
		echo "$tracer" >$R/current_tracer
		echo 1 >$R/options/funcgraph-proc
		echo function >$T/current_tracer
		calls getppid $COUNT
		echo 0 >$T/tracing_on
		echo 0 >$R/tracing_on
		is 'calls, of the kernel'\''s' "$(grep -cE "^ *calls-[0-9]+ .*: $PARENT <-" $T/trace)" $COUNT
		cat $R/trace >/tmp/trace
		is 'calls, of ours' "$(grep -E 'calls-[0-9]+ ' /tmp/trace | grep -cE " $PARENT( <-|\(\))")" $COUNT
		echo nop >$T/current_tracer
		echo nop >$R/current_tracer
		echo >$T/trace
		echo 1 >$T/tracing_on
		echo 1 >$R/tracing_on
	done
}

t 'all of them at once' all_at_once
for other in $OTHERS; do texts "$other and ours, in any order" in_any_order; done
t 'they go on when ours is unloaded' theirs_go_on
t 'thousands of functions, of ours and of the kernel' many_functions

# --- a live patch, of the function that shows /proc/cmdline

PATCH=/lib/modules/livepatch-sample.ko
SHOWN=cmdline_proc_show
enabled=/sys/kernel/livepatch/livepatch_sample/enabled
patched() {
	[ "$(cat /proc/cmdline)" = 'this has been live patched' ]
}
# (it waits until no task is in the function any more)
patch_on() {
	insmod $PATCH
	until_true 60 patched
}
patch_off() {
	echo 0 >$enabled
	until_true 60 test ! -e $enabled
	rmmod livepatch_sample
	fails patched
}
# sees_it TIMES
sees_it() {
	echo >$R/trace
	cat /proc/cmdline /proc/cmdline >/tmp/shown
	cat $R/trace >/tmp/trace
	is 'calls of it' "$(grep -cE "$SHOWN( <-|\(\))" /tmp/trace)" 2
}
live_patch() {
	for tracer in function function_graph; do
		echo $SHOWN >$R/filter
		echo "$tracer" >$R/current_tracer
		sees_it
		patch_on
		sees_it
		is shown "$(sort -u /tmp/shown)" 'this has been live patched'
		echo nop >$R/current_tracer
		patched
		echo "$tracer" >$R/current_tracer
		sees_it
		patch_off
		sees_it
		echo nop >$R/current_tracer
		# and the other way round
		patch_on
		echo "$tracer" >$R/current_tracer
		sees_it
		unload
		patched
		load
		patch_off
	done
}
if [ -e $PATCH ] && grep -qx $SHOWN /tmp/available; then
	t 'a live patch' live_patch
else
	skip 'a live patch' 'this kernel has no live patching'
fi

for other in $OTHERS; do rmdir $T/instances/"$other"; done
finish
