#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Options of tracefs that say how lines look: the same text as the kernel's own tracer makes of the same calls.
. /tests/lib/ktap.sh

only_texts

reload

# Times differ a little: by when the hook was called, and by when the buffer was cleared. And ftrace does not know
# the thread groups of tasks whose switches it has not recorded, counts entries and returns of calls, and shows the
# preemption depth of its own while it records these.
without_times() {
	sed -E -e 's/ +[0-9]+\.[0-9]{6}:/ TIME:/' -e 's/ +[0-9]+us[ +!#*@$]:/ TIME:/' \
		-e 's/^(.* )\[[0-9a-f]{8}\] [0-9]+\.[0-9]{3}ms \(\+[0-9.]+ms\):/\1TIME:/' \
		-e 's/ [^ ]{5} \| / FLAGS | /' -e 's/: 0 us, #[0-9]+\/[0-9]+,/:/' -e 's/ \([ 0-9-]{7}\) / (TGID) /' -e 's/[+!#*@$ ] +[0-9.]+ us +\|/ DURATION |/' -e 's/^ +[0-9]+\.[0-9]{6} \|/TIME |/'
}

# both_as TRACER OPTION...: both traces look alike with these options, and are not as without.
both_as() {
	local option f
	for option in "$@"; do
		echo "$option" >$T/trace_options
		echo "$option" >$R/trace_options
	done
	without_times <$T/trace >/tmp/stock.text
	without_times <$R/trace >/tmp/our.text
	if ! cmp -s /tmp/stock.text /tmp/our.text; then
		diff -U2 /tmp/stock.text /tmp/our.text | head -n 40
		return 1
	fi
	fails cmp -s /tmp/our.text /tmp/plain.text
	for option in "$@"; do
		case $option in
		no*) option=${option#no} ;;
		*) option=no$option ;;
		esac
		echo "$option" >$T/trace_options
		echo "$option" >$R/trace_options
	done
}

# record TRACER: the same calls with both.
record() {
	stock_off
	echo nop >$R/current_tracer
	echo 1 >$R/tracing_on
	mkdir -p /tmp/m
	echo 'path_mount vfs_get_tree' >$T/set_ftrace_filter
	echo 'path_mount vfs_get_tree' >$R/filter
	echo "$1" >$T/current_tracer
	echo "$1" >$R/current_tracer
	echo >$T/trace
	echo >$R/trace
	mount -t tmpfs none /tmp/m
	usleep 20000
	mount -t tmpfs none /tmp/m
	umount /tmp/m
	umount /tmp/m
	echo 0 >$T/tracing_on
	echo 0 >$R/tracing_on
	without_times <$T/trace >/tmp/stock.text
	without_times <$R/trace >/tmp/plain.text
	diff /tmp/stock.text /tmp/plain.text
}

function_lines() {
	# (an interrupt may ask for another task between the two hooks)
	tries 5 record function
	both_as noprint-parent
	both_as sym-offset
	both_as sym-addr
	both_as sym-offset sym-addr noprint-parent
	both_as noirq-info
	both_as nocontext-info
	both_as record-tgid
	both_as record-tgid noirq-info
	both_as verbose
	both_as latency-format
	both_as latency-format verbose
	both_as latency-format sym-addr
	echo record-tgid >$R/trace_options
	grep -qE '^ +mount-([0-9]+) +\( +\1\) \[' $R/trace
	echo norecord-tgid >$R/trace_options
	# The first call is marked as long before the next.
	echo latency-format >$R/trace_options
	grep -E '^ +mount-[0-9]+ +[0-9]+[^ ]{5} +[0-9]+us[+!#*@$]: vfs_get_tree <-' $R/trace
	# The pipe has the same columns.
	echo nolatency-format >$R/trace_options
	echo sym-addr >$R/trace_options
	grep -v '^#' $R/trace >/tmp/our.trace
	cat $R/trace_pipe >/tmp/our.pipe
	cmp /tmp/our.trace /tmp/our.pipe
}

stacks() {
	echo 1 >$T/options/func_stack_trace
	echo 1 >$R/options/func_stack_trace
	stock_off
	echo path_mount >$R/filter
	mkdir -p /tmp/m
	mount -t tmpfs none /tmp/m
	umount /tmp/m
	echo sym-offset >$R/trace_options
	echo noirq-info >$R/trace_options
	cat $R/trace
	grep -qE '^ => __x64_sys_mount\+0x[0-9a-f]+/0x[0-9a-f]+$' $R/trace
	grep -qE '^ +mount-[0-9]+ +\[[0-9]{3}\]  +[0-9.]+: <stack trace>$' $R/trace
}

graph_lines() {
	tries 5 record function_graph
	both_as nocontext-info
	both_as latency-format
	echo 1 >$T/options/funcgraph-proc
	echo 1 >$R/options/funcgraph-proc
	both_as latency-format
	echo 1 >$T/options/funcgraph-abstime
	echo 1 >$R/options/funcgraph-abstime
	both_as latency-format
	echo 0 >$T/options/funcgraph-proc
	echo 0 >$T/options/funcgraph-abstime
}

empty() {
	stock_off
	echo >$R/trace
	for option in latency-format nocontext-info record-tgid; do
		echo "$option" >$T/trace_options
		echo "$option" >$R/trace_options
		diff $T/trace $R/trace
		echo nolatency-format >$T/trace_options
		echo context-info >$T/trace_options
		echo norecord-tgid >$T/trace_options
		for word in nolatency-format context-info norecord-tgid; do echo $word >$R/trace_options; done
	done
}

# What clients write, and how it is at the start.
words() {
	local word
	for word in print-parent sym-offset sym-addr verbose trace_printk annotate context-info latency-format record-cmd \
		record-tgid irq-info markers event-fork stacktrace function-trace function-fork; do
		is "$word" "$(grep -xE "(no)?$word" $R/trace_options)" "$(grep -xE "(no)?$word" $T/trace_options)"
		echo "no$word" >$R/trace_options
		says "$R/options/$word" 0
		echo "$word" >$R/trace_options
		says "$R/options/$word" 1
	done
	for word in bin hex raw block; do
		gets 'write EINVAL' $R/trace_options "$word"
		[ ! -e "$R/options/$word" ]
	done
	says $R/timestamp_mode "$(cat $T/timestamp_mode)"
	echo nomarkers >$R/trace_options
	gets 'write EINVAL' $R/trace_marker 'not wanted'
	fails grep -q 'not wanted' $R/trace
}

t 'lines of functions' function_lines
t 'their stacks' stacks
t 'lines of calls' graph_lines
t 'nothing recorded' empty
t 'words of trace_options' words
finish
