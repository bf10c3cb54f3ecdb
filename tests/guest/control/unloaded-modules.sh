#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Words that mean functions of modules which are not loaded yet, as tracefs has them.
. /tests/lib/ktap.sh

reload
needs_module

gone() {
	[ ! -e /sys/module/"$TARGET_MOD" ] || rmmod "$TARGET_MOD"
}
action() {
	until_true 10 sh -c "$TARGET_MOD_ACTION"
}

# both FILE WORD...: writes to tracefs's file and to ours, and both read alike.
both() {
	local file=$1 word
	shift
	for word in "$@"; do
		echo "$word" >>$T/"$file"
		echo "$word" >>$R/"$file"
		alike "$file"
	done
}

alike() {
	cat $T/"$1" >/tmp/stock.list
	cat $R/"$1" >/tmp/our.list
	diff /tmp/stock.list /tmp/our.list
}

listed() {
	local file
	gone
	stock_off
	for file in set_ftrace_filter set_ftrace_notrace; do
		both $file 'no_such_function:mod:no_such_module' "*:mod:$TARGET_MOD" "f:mod:$TARGET_MOD" \
			'vfs_read' "!f:mod:$TARGET_MOD" '!vfs_read' '!*:mod:no_such_module'
		gets 'write EINVAL' $R/$file "!f:mod:$TARGET_MOD\n"
		gets 'write EINVAL' $R/$file '!*:mod:no_such_module\n'
		alike $file
	done
	# > begins anew.
	echo vfs_read >$T/set_ftrace_filter
	echo vfs_read >$R/filter
	alike set_ftrace_filter
	stock_off
}

# As ftrace/func_mod_trace.tc of the kernel's tests has it, and what is traced.
resolved() {
	gone
	echo "*:mod:$TARGET_MOD" >$R/filter
	says $R/filter "*:mod:$TARGET_MOD"
	is 'armed' "$(status 'armed functions')" 0
	insmod "$MOD"
	grep -F "[$TARGET_MOD]" $T/available_filter_functions >/tmp/wanted
	cmp /tmp/wanted $R/filter
	is 'armed' "$(status 'armed functions')" "$(grep -c . /tmp/wanted)"
	action
	[ "$(hits "$F [$TARGET_MOD]")" -gt 0 ]
	gone
	is 'lines' "$(wc -l <$R/filter)" 0
	# It is not "all functions" then.
	is 'armed' "$(status 'armed functions')" 0
	is 'tracer' "$(cat $R/current_tracer)" function
	insmod "$MOD"
	is 'armed' "$(status 'armed functions')" 0
	# Nothing to wait for any more.
	gets 'write EINVAL' $R/filter "no_such_function:mod:$TARGET_MOD\n"
	gone
}

# Its first function runs once, while the module is loaded, and goes then.
from_the_first_call() {
	local first
	gone
	echo ":mod:$TARGET_MOD" >$R/filter
	insmod "$MOD"
	cat $R/trace >/tmp/first.trace
	grep -E '<-do_one_initcall$' /tmp/first.trace
	echo 0 >$R/tracing_on
	hooked_as_said
	echo "$PARENT" >>$R/filter
	hooked_as_said
	gone
	says $R/filter "$PARENT"
}

others() {
	gone
	echo "$F:mod:$TARGET_MOD" >$R/filter
	echo "$F:mod:$TARGET_MOD" >$R/notrace
	insmod "$MOD"
	says $R/filter "$F [$TARGET_MOD]"
	says $R/notrace "$F [$TARGET_MOD]"
	is 'armed' "$(status 'armed functions')" 0
	gone
	echo >$R/filter
	echo "$F:mod:$TARGET_MOD" >$R/notrace
	insmod "$MOD"
	says $R/filter '#### all functions enabled ####'
	says $R/notrace "$F [$TARGET_MOD]"
	gone
	says $R/notrace '#### no functions disabled ####'
	# Patterns of modules, and the other tracer.
	echo "$F:mod:${TARGET_MOD%?}*" >$R/filter
	echo function_graph >$R/current_tracer
	insmod "$MOD"
	action
	cat $R/trace >/tmp/graph.trace
	grep -qF "$F [$TARGET_MOD]()" /tmp/graph.trace
	gone
	# Words of lists that tracefs has no such for do not wait.
	gets 'write EINVAL' $R/graph_function "$F:mod:$TARGET_MOD\n"
}

t 'listed as in tracefs' listed
t 'resolved when the module comes, gone when it goes' resolved
t 'from the first call on' from_the_first_call
t 'notrace, patterns, function_graph' others
gone
finish
