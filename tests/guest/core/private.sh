#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# What is private to the kernel, and is not as it is known: docs/private.md.
. /tests/lib/ktap.sh

# The bits of parts, as rust_ftrace/sys/private/part.rs numbers them.
FUNCTIONS=1
STACKS=4
NUMBERS=8
DIRECTORIES=256
# All others, which are addresses: symbols, idle tasks, text, text of interrupts, marker, deaths.
ADDRESSES=$((2 + 16 + 32 + 64 + 128 + 512))

# without BITS: loads the module with these parts taken for unknown.
without() {
	unload
	insmod /rust_ftrace_faults.ko "not_as_known=$1"
}

all_is_known() {
	reload
	says_known nothing
	unload
}
says_known() {
	is 'not as known' "$(status 'not as known')" "$1"
}

no_list() {
	unload
	fails insmod /rust_ftrace_faults.ko not_as_known=$FUNCTIONS
	dmesg | grep -q 'available_filter_functions_addrs of tracefs is not as known: not loaded'
	fails [ -e $R ]
}

no_stacks() {
	without $STACKS
	says_known 'shadow stacks (no graph_function, graph_notrace, tracing_thresh, tracing_errno, sleep-time 0, graph-time 0, profile-contexts, funcgraph-wait, profile-wait)'
	echo "$PARENT" >$R/filter
	echo function_graph >$R/current_tracer
	calls getppid 100
	[ "$(status hits)" -ge 100 ]
	accounts_agree
	fails sh -c "echo 100 >$R/tracing_thresh"
	is 'tracing_thresh' "$(cat $R/tracing_thresh)" 0
	fails sh -c "echo 1 >$R/tracing_errno"
	is 'tracing_errno' "$(cat $R/tracing_errno)" 0
	fails sh -c "echo $PARENT >$R/graph_function"
	fails sh -c "echo 0 >$R/options/sleep-time"
	fails sh -c "echo 1 >$R/options/funcgraph-wait"
	is 'funcgraph-wait' "$(cat $R/options/funcgraph-wait)" 0
	calls getppid 100
	[ "$(status hits)" -ge 200 ]
	unload
}

no_numbers() {
	without $NUMBERS
	says_known "fgraph's numbers (the kernel may warn of function_graph)"
	echo "$PARENT" >$R/graph_function
	echo "$PARENT" >$R/filter
	echo function_graph >$R/current_tracer
	calls getppid 100
	[ "$(status hits)" -ge 100 ]
	unload
}

no_directories() {
	without $DIRECTORIES
	says_known 'directories of debugfs (no instances)'
	fails mkdir $R/instances/a
	echo "$PARENT" >$R/filter
	calls getppid 100
	[ "$(status hits)" -ge 100 ]
	unload
}

no_addresses() {
	without $ADDRESSES
	says_known "list of symbols (skipped matches are not counted), idle tasks (calls too deep may be more), kernel's text (fewer depths of calls are known), interrupts' text (interrupts are not marked as such), tracing_mark_write (marks have no function), functions that oopses and panics begin with (recording stops later then)"
	echo 1 >$R/dump_on_oops
	echo "$PARENT" >$R/filter
	calls getppid 100
	echo 'a mark' >$R/trace_marker
	echo "v*" >>$R/filter
	[ "$(status hits)" -ge 100 ]
	is 'skipped matches' "$(status 'skipped matches')" unknown
	grep -q 'a mark' $R/trace
	echo 0 >$R/dump_on_oops
	echo "$PARENT" >$R/graph_function
	echo function_graph >$R/current_tracer
	calls getppid 100
	grep -q "$PARENT" $R/trace
	accounts_agree
	unload
}

t 'all is as known' all_is_known
if [ -e /rust_ftrace_faults.ko ]; then
	t 'without the list of functions the module is not loaded' no_list
	t 'without shadow stacks what needs them is refused' no_stacks
	t "without fgraph's numbers all works" no_numbers
	t 'without directories there are no instances' no_directories
	t 'without all other addresses it works' no_addresses
else
	for name in functions stacks numbers directories addresses; do
		skip "without $name" 'no module that fails on purpose (it is not built for KDIR=)'
	done
fi
finish
