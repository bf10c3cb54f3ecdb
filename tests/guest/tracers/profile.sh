#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The profile: how often functions are called, and how long that takes.
. /tests/lib/ktap.sh

reload
# (no program here calls it by itself)
YIELD=$(sys sched_yield)
SLEEP=$(pick do_nanosleep)
# What calls that.
SLEEPER=$(pick hrtimer_nanosleep)

profile() {
	echo 1 >$R/function_profile_enabled
	says $R/function_profile_enabled 1
}
ended() {
	echo 0 >$R/function_profile_enabled
	says $R/function_profile_enabled 0
}
# of COLUMN FUNCTION [CPU]: hits, time, average or variance; 0 if it was not called. All CPUs: their sum.
of() {
	local column
	case $1 in
	hits) column=2 ;;
	time) column=3 ;;
	average) column=5 ;;
	variance) column=7 ;;
	esac
	if [ "$3" ]; then
		cat $R/trace_stat/function"$3"
	else
		cat $R/trace_stat/function[0-9]*
	fi | awk -v name="$2" -v column=$column '
		$1 == substr(name, 1, 30) { sum += $column }
		END { print sum + 0 }'
}
# (a call that returns on another CPU has its time there)
nap() {
	taskset 1 usleep "$1"
}

# Functions that come give each CPU another table.
never_less() {
	local name writer added=0 seen=0 back=''
	rm -f /tmp/added /tmp/seen
	echo "$YIELD" >$R/filter
	profile
	calls yields 1000 0
	(
		while [ ! -e /tmp/seen ] && read -r name; do
			echo "$name" >>$R/filter
			added=$((added + 1))
			[ $added -ne 30 ] || touch /tmp/added
		done
		touch /tmp/added
		[ $added -ge 30 ]
	) <<-EOF &
		$(grep '^\(bio\|blk\|sysfs\|kernfs\)_' /tmp/available)
	EOF
	writer=$!
	# (one of the two is the slower, on one kernel or another)
	until [ -e /tmp/added ] && [ $seen -ge 10 ] || [ "$back" ]; do
		[ "$(of hits "$YIELD" 0)" -ge 1000 ] || back=$seen
		seen=$((seen + 1))
	done
	touch /tmp/seen
	wait $writer
	[ ! "$back" ]
	ended
}

nothing_yet() {
	reload
	says $R/function_profile_enabled 0
	is 'files' "$(find $R/trace_stat -name 'function[0-9]*' | wc -l)" \
		"$(find $R/per_cpu -name stats | wc -l)"
	is 'lines' "$(grep -c . $R/trace_stat/function0)" 2
	is 'dashes' "$(sed -n 2p $R/trace_stat/function0 | tr -s ' ')" ' -------- --- ---- --- ---'
	is 'names' "$(sed -n 1p $R/trace_stat/function0 | tr -s ' ')" ' Function Hit Time Avg s^2'
	is 'profile' "$(status profile)" none
	gets 'write EINVAL' $R/function_profile_enabled x
	gets 'write EINVAL' $R/function_profile_enabled -1
	says $R/function_profile_enabled 0
}

exact_hits() {
	local hits
	echo "$YIELD" >$R/filter
	profile
	calls yields 5000 0
	calls yields 3000 1
	calls yields 20 1
	is 'on CPU 0' "$(of hits "$YIELD" 0)" 5000
	is 'on CPU 1' "$(of hits "$YIELD" 1)" 3020
	# Twice the same.
	cat $R/trace_stat/function1 >/tmp/once
	cat $R/trace_stat/function1 | cmp - /tmp/once
	# Byte by byte as well.
	dd if=$R/trace_stat/function1 bs=7 2>/dev/null | cmp - /tmp/once
	ended
	calls yields 100 0
	is 'on CPU 0' "$(of hits "$YIELD" 0)" 5000
	is 'hooked' "$(grep -c . $T/enabled_functions)" 1
	echo nop >$R/current_tracer
	is 'hooked' "$(grep -c . $T/enabled_functions)" 0
	# It begins from zero.
	profile
	is 'on CPU 0' "$(of hits "$YIELD" 0)" 0
	calls yields 7 0
	is 'on CPU 0' "$(of hits "$YIELD" 0)" 7
	is 'lost' "$(status 'profile lost')" 0
	is 'missed' "$(status 'profile missed')" 0
}

with_interrupts() {
	echo "$YIELD" >$R/filter
	echo '*signal*' >>$R/filter
	profile
	# (there is one every millisecond, which calls some of those)
	calls turns 10000 0 &
	calls alarms 100 0
	wait $!
	is 'hits' "$(of hits "$YIELD")" 10000
	[ "$(grep -c signal $R/trace_stat/function0)" -gt 2 ]
	is 'lost' "$(status 'profile lost')" 0
}

# The same calls, as two of our tracers time them. (a busy machine may stand still between the two)
as_function_graph() {
	tries 4 once_as_function_graph
}
once_as_function_graph() {
	echo 1 >$R/tracing_on
	echo "$SLEEP" >$R/filter
	echo function_graph >$R/current_tracer
	echo >$R/trace
	profile
	for time in 10000 20000 70000 15000; do nap $time; done
	ended
	echo 0 >$R/tracing_on
	grep "$SLEEP();" $R/trace | sed -nE 's/^ *[0-9]+\) [^0-9]*([0-9.]+) us .*/\1/p' >/tmp/durations
	is calls "$(grep -c . /tmp/durations)" 4
	is hits "$(of hits "$SLEEP" 0)" 4
	awk '{ sum += $1; squares += $1 * $1 }
		END {
			printf "%.3f %.3f\n", sum, (squares - sum * sum / NR) / (NR - 1)
		}' /tmp/durations >/tmp/wanted
	read -r sum variance </tmp/wanted
	time=$(of time "$SLEEP" 0)
	holds "$time > 0.95 * $sum && $time < 1.05 * $sum"
	average=$(of average "$SLEEP" 0)
	# (digits are cut off)
	holds "$average * 4 <= $time + 1 && $average * 4 > $time - 1"
	got=$(of variance "$SLEEP" 0)
	holds "$got > 0.9 * $variance && $got < 1.1 * $variance"
}

own_time() {
	echo "$SLEEP $SLEEPER" >$R/filter
	profile
	for _ in 1 2 3; do nap 20000; done
	is hits "$(of hits "$SLEEPER")" 3
	holds "$(of time "$SLEEPER") >= $(of time "$SLEEP")"
	holds "$(of time "$SLEEP") >= 60000"
	ended
	echo 0 >$R/options/graph-time
	profile
	for _ in 1 2 3; do nap 200000; done
	# What is not called from a function that is counted keeps all of its time.
	is hits "$(of hits "$SLEEPER")" 3
	is hits "$(of hits "$SLEEP")" 3
	holds "$(of time "$SLEEP") >= 600000"
	holds "$(of time "$SLEEPER") > 0"
	holds "$(of time "$SLEEPER") < $(of time "$SLEEP") / 4"
	ended
	# Without the time asleep there is not much of it, in either.
	echo 1 >$R/options/graph-time
	echo 0 >$R/options/sleep-time
	profile
	for _ in 1 2 3; do nap 200000; done
	is hits "$(of hits "$SLEEPER")" 3
	for function in $SLEEP $SLEEPER; do
		holds "$(of time "$function") > 0"
		holds "$(of time "$function") < 300000"
	done
	holds "$(of time "$SLEEPER") >= $(of time "$SLEEP")"
	# Changed while it is on.
	before=$(of time "$SLEEP")
	echo 1 >$R/options/sleep-time
	for _ in 1 2 3; do nap 20000; done
	is hits "$(of hits "$SLEEPER")" 6
	holds "$(of time "$SLEEP") >= $before + 60000"
}

lists() {
	echo "$YIELD" >$R/filter
	echo nop >$R/current_tracer
	profile
	calls turns 50 0
	is 'not asked for' "$(of hits "$PARENT")" 0
	is "of $YIELD" "$(of hits "$YIELD")" 50
	grep -qxE "$YIELD \(1\) +hits: 50" $R/enabled_functions
	hooked_as_said
	# Another is added, and counts from then on; what was counted stays.
	echo "$PARENT" >>$R/filter
	hooked_as_said
	before=$(of hits "$PARENT" 1)
	calls turns 60 1
	is "of $YIELD" "$(of hits "$YIELD")" 110
	is "of $YIELD on CPU 1" "$(of hits "$YIELD" 1)" 60
	[ "$(of hits "$PARENT" 1)" -ge $((before + 60)) ]
	# One goes.
	echo "$YIELD" >$R/notrace
	calls turns 10 0
	is "of $YIELD" "$(of hits "$YIELD")" 110
	hooked_as_said
	echo >$R/notrace
	calls turns 10 0
	is "of $YIELD" "$(of hits "$YIELD")" 120
	# A tracer of the same functions is another user of them.
	echo function >$R/current_tracer
	echo >$R/trace
	grep -qxE "$YIELD \(2\) +hits: 120" $R/enabled_functions
	is 'traced too' "$(calls yields 5 0; calls_of "$YIELD")" 5
	is "of $YIELD" "$(of hits "$YIELD")" 125
	ended
	grep -qx "$YIELD (1)" $R/enabled_functions
	hooked_as_said
}

memory() {
	echo "$YIELD" >$R/filter
	profile
	calls yields 10 0
	# (not while it is on)
	echo >$R/free_buffer
	is profile "$(status profile)" 'on, 1 functions'
	is "of $YIELD" "$(of hits "$YIELD")" 10
	ended
	is profile "$(status profile)" 'ended, 1 functions'
	is "of $YIELD" "$(of hits "$YIELD")" 10
	echo >$R/free_buffer
	is profile "$(status profile)" none
	is "of $YIELD" "$(of hits "$YIELD")" 0
}

thresh() {
	echo "$SLEEP $YIELD" >$R/filter
	profile
	nap 20000
	calls yields 10 0
	[ "$(of hits "$YIELD" 0)" -eq 10 ]
	# (in us)
	echo 10000 >$R/tracing_thresh
	is "of $SLEEP" "$(of hits "$SLEEP" 0)" 1
	is "of $YIELD" "$(of hits "$YIELD" 0)" 0
	echo 0 >$R/tracing_thresh
	is "of $YIELD" "$(of hits "$YIELD" 0)" 10
}

all_at_once() {
	profile
	calls yields 1000 0
	calls files 50 1
	calls forks 3 1
	nap 10000
	ended
	is "of $YIELD" "$(of hits "$YIELD" 0)" 1000
	for cpu in 0 1; do
		cat $R/trace_stat/function$cpu >/tmp/profile.$cpu
		[ "$(grep -c . /tmp/profile.$cpu)" -gt 300 ]
		# Most time first; eight columns each.
		sed 1,2d /tmp/profile.$cpu | awk '
			NF != 8 || $4 != "us" || $6 != "us" || $8 != "us" { print "not a line: " $0; exit 1 }
			NR > 1 && $3 + 0 > before { print "not sorted: " $0; exit 1 }
			{ before = $3 + 0 }'
	done
	is 'lost' "$(status 'profile lost')" 0
	status profile | grep -qE '^ended, [1-9][0-9]+ functions$'
	# Memory goes when asked for.
	before=$(status memory)
	echo >$R/free_buffer
	is profile "$(status profile)" none
	[ "$(status memory | sed 's/ .*//')" -lt "${before% *}" ]
	is 'lines' "$(grep -c . $R/trace_stat/function0)" 2
}

with_tracers() {
	local tracer
	echo "$YIELD" >$R/filter
	for tracer in function calltrace function_graph; do
		echo $tracer >$R/current_tracer
		echo >$R/trace
		profile
		calls yields 300 0
		is "of $YIELD with $tracer" "$(of hits "$YIELD")" 300
		cat $R/trace >/tmp/with.trace
		is "in the trace of $tracer" "$(grep -c "$YIELD" /tmp/with.trace)" 300
		ended
		calls yields 10 0
		cat $R/trace >/tmp/with.trace
		is "in the trace of $tracer" "$(grep -c "$YIELD" /tmp/with.trace)" 310
	done
}

open_calls() {
	# Those that are open when it begins anew are none of its.
	echo "$SLEEP" >$R/filter
	profile
	taskset 1 usleep 100000000 &
	# (until_true sleeps, too, on either CPU)
	until_true 10 grep -q '^State:.*S (' /proc/$!/status
	ended
	profile
	kill $!
	wait || :
	is hits "$(of hits "$SLEEP" 0)" 0
	is time "$(of time "$SLEEP" 0)" 0
	nap 1000
	is hits "$(of hits "$SLEEP" 0)" 1
}

under_load() {
	local left
	left=$(some 5)
	background churn 0
	background churn 1
	background calls signals 0 0
	echo 'vfs_*' >$R/filter
	while [ "$left" -gt 0 ]; do
		profile
		echo 'path_*' >>$R/filter
		echo $((left % 2)) >$R/options/graph-time
		echo $((left % 3 / 2)) >$R/options/sleep-time
		cat $R/trace_stat/function[0-9]* >/tmp/profile
		grep -q vfs_ /tmp/profile
		echo 'vfs_*' >$R/filter
		ended
		left=$((left - 1))
	done
	is 'lost' "$(status 'profile lost')" 0
}

goes_with_its_cpu() {
	CPU1=/sys/devices/system/cpu/cpu1/online
	echo "$YIELD" >$R/filter
	profile
	calls yields 30 1
	echo 0 >$CPU1
	is 'of CPU 1' "$(of hits "$YIELD" 1)" 30
	# (what comes to be counted meanwhile needs another table)
	echo "$PARENT" >>$R/filter
	calls yields 5 0
	echo 1 >$CPU1
	calls yields 12 1
	is 'of CPU 1' "$(of hits "$YIELD" 1)" 42
	is 'of CPU 0' "$(of hits "$YIELD" 0)" 5
	ended
	echo 0 >$CPU1
	profile
	echo 1 >$CPU1
	calls yields 9 1
	is 'of CPU 1' "$(of hits "$YIELD" 1)" 9
	is 'lost' "$(status 'profile lost')" 0
}

module_goes() {
	[ -e /sys/module/"$TARGET_MOD" ] || insmod "$MOD"
	echo "$YIELD :mod:$TARGET_MOD" >$R/filter
	profile
	until_true 10 sh -c "$TARGET_MOD_ACTION"
	ended_hits=$(of hits "$TARGET_MOD_FUNC")
	[ "$ended_hits" -gt 0 ]
	rmmod "$TARGET_MOD"
	# What was counted is there still, by its name.
	[ "$(of hits "$TARGET_MOD_FUNC")" -ge "$ended_hits" ]
	calls yields 10 0
	is "of $YIELD" "$(of hits "$YIELD")" 10
	hooked_as_said
	# It comes again, maybe to the same place.
	insmod "$MOD"
	echo "$TARGET_MOD_FUNC" >>$R/filter
	before=$(of hits "$TARGET_MOD_FUNC")
	until_true 10 sh -c "$TARGET_MOD_ACTION"
	[ "$(of hits "$TARGET_MOD_FUNC")" -gt "$before" ]
	hooked_as_said
	rmmod "$TARGET_MOD"
}

# However often it comes and goes: functions have their numbers again, or those of others that were not called.
module_comes_and_goes() {
	local functions
	[ ! -e /sys/module/"$TARGET_MOD" ] || rmmod "$TARGET_MOD"
	echo "$YIELD" >$R/filter
	profile
	for _ in 1 2 3; do
		echo "$YIELD :mod:$TARGET_MOD" >$R/filter
		insmod "$MOD"
		# (and one that only runs when it is loaded)
		functions=$(($(grep -c . $R/filter) + 1))
		until_true 10 sh -c "$TARGET_MOD_ACTION"
		rmmod "$TARGET_MOD"
		status profile | sed 's/on, \(.*\) functions/\1/' >/tmp/functions
		[ "$(cat /tmp/functions)" -le $functions ]
	done
	[ "$(of hits "$TARGET_MOD_FUNC")" -ge 3 ]
	[ "$(cat $R/trace_stat/function0 | grep -cw "$TARGET_MOD_FUNC")" -le 1 ]
}

unloaded_while_on() {
	local left
	left=$(some 2)
	while [ "$left" -gt 0 ]; do
		echo 'vfs_*' >$R/filter
		echo 0 >$R/options/sleep-time
		profile
		background churn 0
		calls files 20 1
		unload
		is hooked "$(grep -c . $T/enabled_functions)" 0
		load
		end_background
		left=$((left - 1))
	done
}

t 'nothing is counted before it is asked for' nothing_yet
t 'every call is counted, by each CPU for itself' exact_hits
t 'none is lost to interrupts' with_interrupts
t 'times are those of function_graph' as_function_graph
t 'graph-time and sleep-time say which time counts' own_time
t 'filter and notrace say which functions count, also while it is on' lists
t 'counts never go back while functions come' never_less
t 'what was counted stays until memory is given back' memory
t 'tracing_thresh hides what is fast' thresh
if [ "$SLOWER" -eq 1 ]; then
	t 'all functions at once, and memory that is given back' all_at_once
else
	skip 'all functions at once, and memory that is given back' 'hooking all takes minutes here'
fi
t 'beside every tracer' with_tracers
t 'calls that are open when it begins do not count' open_calls
stressed 'switched on and off, and changed, under load' under_load
if [ -e /sys/devices/system/cpu/cpu1/online ]; then
	t 'a CPU goes and comes' goes_with_its_cpu
else
	skip 'a CPU goes and comes' 'the kernel cannot take a CPU offline'
fi
if [ -n "$TARGET_MOD" ]; then
	MOD=/lib/modules/$RELEASE/$TARGET_MOD.ko
	t 'a module goes and comes' module_goes
	t 'its functions have their numbers again' module_comes_and_goes
else
	skip 'a module goes and comes' 'no module to trace'
	skip 'its functions have their numbers again' 'no module to trace'
fi
t 'the module is unloaded while it counts' unloaded_while_on
finish
