#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Functions of modules, and modules that go while they are traced.
. /tests/lib/ktap.sh

reload
needs_module
# For names before the module, and a second one.
OTHER=${TARGET_MOD2:-}
OTHER_F=${TARGET_MOD2_FUNC:-}

there() {
	[ -e /sys/module/"$TARGET_MOD" ] || insmod "$MOD"
}
gone() {
	[ ! -e /sys/module/"$TARGET_MOD" ] || rmmod "$TARGET_MOD"
}
action() {
	until_true 10 sh -c "$TARGET_MOD_ACTION"
}

# The kernel's list changes with the module.
in_module() {
	grep -F "[$TARGET_MOD]" $T/available_filter_functions
}

by_name() {
	there
	echo "$F" >$R/filter
	says $R/filter "$F [$TARGET_MOD]"
	action
	cat $R/trace >/tmp/module.trace
	grep -qE ": $F \[$TARGET_MOD\] <-[a-z_0-9]+\$" /tmp/module.trace
	grep -q "^$F \[$TARGET_MOD\]" $R/enabled_functions
}

callers_module() {
	# A function of the kernel that the module calls shows the module as its parent.
	there
	stock_off
	echo ":mod:$TARGET_MOD" >$R/filter
	cat $R/filter >/tmp/our.filter
	in_module >/tmp/stock.module
	sort /tmp/our.filter >/tmp/our.sorted
	sort /tmp/stock.module | cmp - /tmp/our.sorted
	[ -s /tmp/our.sorted ]
	action
	[ "$(status hits)" -gt 0 ]
}

forms() {
	there
	echo "$F:mod:$TARGET_MOD" >$R/filter
	says $R/filter "$F [$TARGET_MOD]"
	echo "*:mod:$TARGET_MOD" >$R/filter
	is armed "$(status 'armed functions')" "$(in_module | wc -l)"
	echo "*open:mod:$TARGET_MOD" >$R/filter
	is armed "$(status 'armed functions')" "$(in_module | grep -c 'open ')"
	# The whole module but one.
	echo ":mod:$TARGET_MOD !$F:mod:$TARGET_MOD" >$R/filter
	is armed "$(status 'armed functions')" $(($(in_module | wc -l) - 1))
	fails grep -q "^$F " $R/filter
	# Functions of the kernel are not of the module.
	gets 'write EINVAL' $R/filter "vfs_read:mod:$TARGET_MOD\n"
	echo vfs_read ":mod:$TARGET_MOD" >$R/filter
	is armed "$(status 'armed functions')" $(($(in_module | wc -l) + 1))
	echo "!:mod:$TARGET_MOD" >>$R/filter
	says $R/filter vfs_read
}

removed_while_traced() {
	there
	echo "$F $PARENT" >$R/filter
	action
	is armed "$(status 'armed functions')" 2
	gone
	# Its functions are gone from the lists, the others go on.
	is armed "$(status 'armed functions')" 1
	says $R/filter "$PARENT"
	calls getppid 3
	is hits "$(calls_of "$PARENT")" 3
	# What was traced can still be read, by whatever name.
	cat $R/trace >/tmp/module.trace
	is events "$(events /tmp/module.trace | wc -l)" "$(status 'events present')"
	gets 'write EINVAL' $R/filter "$F\n"
	# It comes again, and is in no list: it is not armed by itself, but can be.
	there
	says $R/filter "$PARENT"
	echo "$F" >>$R/filter
	is armed "$(status 'armed functions')" 2
	action
	[ "$(status hits)" -gt 3 ]
}

all_of_it_removed() {
	there
	echo ":mod:$TARGET_MOD" >$R/filter
	action
	gone
	# Nothing is left to trace: not all functions, of all things.
	is armed "$(status 'armed functions')" 0
	is hooked "$(grep -c . $T/enabled_functions)" 0
	calls getppid 3
	is 'hits of others' "$(calls_of "$PARENT")" 0
	cat $R/filter $R/trace >/dev/null
	echo "$PARENT" >$R/filter
	calls getppid 3
	is hits "$(calls_of "$PARENT")" 3
}

notrace_of_a_module() {
	there
	echo "$F" >$R/notrace
	echo ":mod:$TARGET_MOD" >$R/filter
	is armed "$(status 'armed functions')" $(($(in_module | wc -l) - 1))
	gone
	is armed "$(status 'armed functions')" 0
	there
	echo ":mod:$TARGET_MOD" >$R/filter
	is armed "$(status 'armed functions')" "$(in_module | wc -l)"
}

comes_while_all_are_traced() {
	gone
	few
	echo 0 >$R/tracing_on
	echo function >$R/current_tracer
	there
	grep -q "^$F \[$TARGET_MOD\]" $R/enabled_functions
	echo 1 >$R/tracing_on
	action
	echo 0 >$R/tracing_on
	cat $R/trace | grep -qF ": $F [$TARGET_MOD] <-"
	gone
	there
	# The same with some functions excluded.
	echo vfs_read >>$R/notrace
	gone
	there
	grep -q "^$F \[$TARGET_MOD\]" $R/enabled_functions
	fails grep -q '^vfs_read ' $R/enabled_functions
}

calls_removed_while_traced() {
	there
	echo "$F $PARENT" >$R/filter
	echo function_graph >$R/current_tracer
	action
	calls getppid 3
	cat $R/trace >/tmp/module.trace
	gone
	is armed "$(status 'armed functions')" 1
	grep -qE "\|  $F \[$TARGET_MOD\]\(\)( \{|;)\$" /tmp/module.trace
	there
	echo "$F" >>$R/filter
	is hooked "$(grep -c . $T/enabled_functions)" 2
	action
	gone
	is hooked "$(grep -c . $T/enabled_functions)" 1
	says $R/filter "$PARENT"
}

# With no list that names them, they come and go by themselves, and leave nothing behind.
calls_of_all() {
	gone
	few
	echo 0 >$R/tracing_on
	echo function_graph >$R/current_tracer
	there
	grep -q "^$F \[$TARGET_MOD\]" $R/enabled_functions
	# What the module was loaded by is gone, and not hooked again.
	echo vfs_read >>$R/notrace
	grep -q "^$F \[$TARGET_MOD\]" $R/enabled_functions
	fails grep -q '^vfs_read ' $R/enabled_functions
	echo 1 >$R/tracing_on
	action
	echo 0 >$R/tracing_on
	cat $R/trace | grep -qE "\|  +$F \[$TARGET_MOD\]\(\)"
	gone
	fails grep -qF "[$TARGET_MOD]" $R/enabled_functions
	is armed "$(status 'armed functions')" $(($(sed 's/ .*//' $R/available_filter_functions | grep -cE '^(cpu|vfs)') - 1))
	echo "$PARENT" >$R/filter
	echo >$R/notrace
	is hooked "$(grep -c . $T/enabled_functions)" 1
	calls getppid 3
	there
	action
	gone
}

lists_follow() {
	gone
	cat $R/available_filter_functions >/tmp/our.available
	fails grep -qF "[$TARGET_MOD]" /tmp/our.available
	there
	cat $R/available_filter_functions >/tmp/our.available
	grep -F "[$TARGET_MOD]" /tmp/our.available | sort >/tmp/our.module
	in_module | sort | cmp - /tmp/our.module
}

two_modules() {
	there
	[ -e /sys/module/"$OTHER" ] || insmod /lib/modules/"$RELEASE"/"$OTHER".ko
	echo "$F $OTHER_F" >$R/filter
	grep -qxF "$F [$TARGET_MOD]" $R/filter
	grep -qxF "$OTHER_F [$OTHER]" $R/filter
	action
	until_true 10 sh -c "$TARGET_MOD2_ACTION"
	cat $R/trace >/tmp/module.trace
	grep -qF ": $F [$TARGET_MOD] <-" /tmp/module.trace
	grep -qF ": $OTHER_F [$OTHER] <-" /tmp/module.trace
	rmmod "$OTHER"
	says $R/filter "$F [$TARGET_MOD]"
	action
}

under_load() {
	local i
	background calls files 0 0
	background calls forks 0 1
	for i in 1 2 3; do
		there
		echo ":mod:$TARGET_MOD $PARENT" >$R/filter
		action
		gone
		is armed "$(status 'armed functions')" 1
	done
	end_background
	echo 0 >$R/tracing_on
	accounts_agree
}

t 'a function of a module, by name' by_name
t 'all functions of a module' callers_module
t 'all forms of :mod:' forms
t 'the lists follow modules that come and go' lists_follow
t 'a module is removed while traced' removed_while_traced
t 'nothing is traced when all that was has gone' all_of_it_removed
t 'notrace of a module that goes' notrace_of_a_module
t 'a module that comes while all functions but some are traced is traced' comes_while_all_are_traced
t 'calls of a module that is removed while traced' calls_removed_while_traced
t 'calls of a module that comes and goes while all but some are traced' calls_of_all
if [ -n "$OTHER" ]; then
	t 'two modules' two_modules
else
	skip 'two modules' 'there is only one'
fi
stressed 'modules come and go under load' under_load
gone
finish
