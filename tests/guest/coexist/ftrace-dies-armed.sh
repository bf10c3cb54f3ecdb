#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Another user of ftrace has it die while we have functions hooked, and the module is removed.
. /tests/lib/ktap.sh
. /tests/lib/dying.sh
reload

is_asleep() {
	grep -q '^State:.I' /proc/"$1"/status
}

removed() {
	local pid
	echo 'vfs_*' >$R/filter
	echo "$PARENT" >>$R/filter
	echo "$PARENT:traceon" >>$R/filter
	mkdir $R/instances/graph
	echo 'vfs_*' >$R/instances/graph/filter
	echo function_graph >$R/instances/graph/current_tracer
	# (the first to be unhooked, with locks held)
	mkdir $R/instances/entries
	echo 'vfs_*' >$R/instances/entries/filter
	break_site
	echo "$F" >$T/set_ftrace_filter
	echo function >$T/current_tracer || :
	is_dead
	works

	background churn 0
	background churn 1
	rmmod rust_ftrace &
	pid=$!
	until_true 30 sh -c "dmesg | grep -q 'rust_ftrace: .*: rmmod sleeps for good'"
	until_true 30 is_asleep $pid
	is 'said' "$(dmesg | grep -c 'rust_ftrace: ftrace has shut itself down')" 1
	[ -e /sys/module/rust_ftrace ]
	# (no other task waits for it)
	rmmod "$TARGET_MOD2"
	insmod /lib/modules/"$RELEASE"/"$TARGET_MOD2".ko
	calls turns 5000 0
	calls turns 5000 1
	end_background
	is_dead
	is_asleep $pid
}

t 'the module is removed after ftrace died by somebody else, and does not go' removed
over
