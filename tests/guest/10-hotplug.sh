#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A CPU goes and comes while it traces.
. /tests/ktap.sh

CPU1=/sys/devices/system/cpu/cpu1/online
if [ ! -e $CPU1 ]; then
	echo "1..0 # SKIP the kernel cannot take a CPU offline"
	exit 0
fi
reload

set_cpu1() {
	echo "$1" >$CPU1
	says $CPU1 "$1"
}

keeps_its_events() {
	echo "$PARENT" >$R/filter
	calls getppid 10 0
	calls getppid 20 1
	set_cpu1 0
	calls getppid 30 0
	fails calls getppid 1 1
	is lines "$(calls_of "$PARENT")" 60
	# The header counts the CPUs that are there.
	grep -q '#P:1$' $R/trace
	is 'of CPU 1' "$(stat_of 1 entries)" 20
	set_cpu1 1
	grep -q '#P:2$' $R/trace
	calls getppid 5 1
	is lines "$(calls_of "$PARENT")" 65
	is 'of CPU 1' "$(stat_of 1 entries)" 25
	accounts_agree
}

started_without_it() {
	unload
	set_cpu1 0
	load
	echo "$PARENT" >$R/filter
	calls getppid 10 0
	set_cpu1 1
	# It comes to a tracer that runs, and is traced from the start.
	calls getppid 7 1
	is 'of CPU 1' "$(stat_of 1 'written events')" 7
	is lines "$(calls_of "$PARENT")" 17
	accounts_agree
}

changes_without_it() {
	# Size, clearing and tracer change while it is away.
	echo "$PARENT" >$R/filter
	calls getppid 10 1
	set_cpu1 0
	echo 64 >$R/buffer_size_kb
	echo >$R/trace
	echo nop >$R/current_tracer
	echo function >$R/current_tracer
	calls getppid 3 0
	is lines "$(calls_of "$PARENT")" 3
	set_cpu1 1
	calls getppid 4 1
	is lines "$(calls_of "$PARENT")" 7
	accounts_agree
}

under_load() {
	local i
	background calls getppid 0 0
	background calls files 0
	echo "$PARENT vfs_*" >$R/filter
	for i in 1 2 3; do
		set_cpu1 0
		cat $R/trace >/tmp/hotplug.trace
		set_cpu1 1
		calls getppid 50 1
		[ "$(stat_of 1 'written events')" -ge 50 ]
	done
	end_background
	echo 0 >$R/tracing_on
	accounts_agree
}

all_functions() {
	local i
	echo 256 >$R/buffer_size_kb
	echo function >$R/current_tracer
	for i in 1 2; do
		set_cpu1 0
		set_cpu1 1
	done
	echo 0 >$R/tracing_on
	cat $R/trace >/tmp/hotplug.trace
	grep -q '\[001\]' /tmp/hotplug.trace
	accounts_agree
}

unloaded_without_it() {
	echo "$PARENT" >$R/filter
	calls getppid 10 1
	set_cpu1 0
	unload
	set_cpu1 1
	calls getppid 10 1
	load
}

t 'a CPU that goes leaves its events, and goes on when it comes' keeps_its_events
t 'one that comes to a tracer that runs is traced' started_without_it
t 'size, clearing and tracer change while one is away' changes_without_it
t 'under load' under_load
t 'while all functions are traced' all_functions
t 'the module goes while one is away' unloaded_without_it
set_cpu1 1
finish
