#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A CPU goes and comes while it traces.
. /tests/lib/ktap.sh

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

# The last function that a CPU calls, or nearly so, when its interrupts are not served any more; and one that it
# calls before they are when it comes.
DYING=$(pick cpuhp_report_idle_dead)
STARTING=$(pick notify_cpu_starting)

# goes_on CPU...: what was recorded is in the snapshot, what these do now is recorded, and marks are.
goes_on() {
	local missed cpu count=0
	until_true 10 grep -q "$PARENT" $R/snapshot
	missed=$(status 'lost while a snapshot was taken')
	for cpu; do
		calls getppid 10 "$cpu"
		count=$((count + 10))
	done
	is lines "$(calls_of "$PARENT")" $count
	is 'lost while a snapshot was taken' "$(status 'lost while a snapshot was taken')" "$missed"
	background sh -c "echo marked >$R/trace_marker"
	until_true 10 grep -q marked $R/trace
}

snapshot_by_the_dying() {
	echo "$PARENT $DYING" >$R/filter
	echo "$DYING:snapshot" >>$R/filter
	calls getppid 1 0
	set_cpu1 0
	goes_on 0
	set_cpu1 1
	echo >$R/trace
	goes_on 0 1
	accounts_agree
}

snapshot_by_the_starting() {
	echo "$PARENT $STARTING" >$R/filter
	set_cpu1 0
	echo "$STARTING:snapshot" >>$R/filter
	calls getppid 1 0
	set_cpu1 1
	goes_on 0 1
	accounts_agree
}

is_waiting() {
	grep -q '^State:.S' /proc/"$1"/status
}

# A reader waits for what a CPU calls at its end, and afterwards; its last wake-up may not get lost, nor spoil others.
readers_of_the_dying() {
	local file reader
	echo "$PARENT $DYING $STARTING" >$R/filter
	for file in trace_pipe per_cpu/cpu1/trace_pipe; do
		cat $R/$file >/tmp/dying &
		reader=$!
		workers="$workers $reader"
		until_true 10 is_waiting $reader
		set_cpu1 0
		until_true 10 grep -q "\[001\].* $DYING <-" /tmp/dying
		until_true 10 is_waiting $reader
		set_cpu1 1
		until_true 10 grep -q "\[001\].* $STARTING <-" /tmp/dying
		until_true 10 is_waiting $reader
		calls getppid 1 1
		until_true 10 grep -q "\[001\].* $PARENT <-" /tmp/dying
		end_background
	done
	# (it waits for the end of what was asked for)
	unload
	load
}

# A CPU that is on its way while buffers are first made gets one, from whichever of the two.
buffers_while_it_comes() {
	local left
	left=$(some 20)
	while [ "$left" -gt 0 ]; do
		left=$((left - 1))
		set_cpu1 0
		mkdir $R/instances/coming
		echo 1 >$CPU1 &
		# (not always at the same moment)
		usleep $((left % 10 * 3000))
		case $((left % 3)) in
		0) echo "$PARENT" >$R/instances/coming/filter ;;
		1) echo 1 >$R/instances/coming/snapshot; echo "$PARENT" >$R/instances/coming/filter ;;
		2) echo "$PARENT:stacktrace" >$R/instances/coming/filter ;;
		esac
		wait $!
		calls getppid 3 1
		is "without buffer ($left)" "$(sed -n 's/^lost without buffer: //p' $R/instances/coming/status)" 0
		[ "$(sed -n 's/^written events: //p' $R/instances/coming/per_cpu/cpu1/stats)" -ge 3 ]
		rmdir $R/instances/coming
	done
}

# The same of what module parameters start.
loaded_while_it_comes() {
	local left
	left=$(some 10)
	while [ "$left" -gt 0 ]; do
		left=$((left - 1))
		unload
		set_cpu1 0
		echo 1 >$CPU1 &
		usleep $((left % 10 * 3000))
		load filter="$PARENT"
		wait $!
		calls getppid 3 1
		is "without buffer ($left)" "$(status 'lost without buffer')" 0
		[ "$(stat_of 1 'written events')" -ge 3 ]
	done
}

t 'a CPU that goes leaves its events, and goes on when it comes' keeps_its_events
t 'one that comes while buffers are first made has one' buffers_while_it_comes
t 'one that comes while the module is loaded, too' loaded_while_it_comes
t 'a snapshot that a dying CPU asks for is taken' snapshot_by_the_dying
t 'one that a starting CPU asks for, too' snapshot_by_the_starting
t 'readers are woken by what a dying CPU does' readers_of_the_dying
t 'one that comes to a tracer that runs is traced' started_without_it
t 'size, clearing and tracer change while one is away' changes_without_it
stressed 'under load' under_load
t 'while all functions are traced' all_functions
t 'the module goes while one is away' unloaded_without_it
set_cpu1 1
finish
