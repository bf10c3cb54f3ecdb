#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The profile below the functions of graph_function, and not below those of graph_notrace.
. /tests/lib/ktap.sh
. /tests/lib/sleepers.sh

insmod /lib/modules/known_calls.ko
K=/sys/kernel/debug/known_calls
reload

profile() { echo 1 >$R/function_profile_enabled; }
ended() { echo 0 >$R/function_profile_enabled; }
# counted DIR: the functions with their calls, in one line.
counted() {
	awk '$2 == "|" && $3 ~ /^[0-9]/ && $3 > 0 { print $1 "=" $3 }' "$1"/trace_stat/function | sort | tr '\n' ' '
}
counts() { is counts "$(counted $R)" "${1:+$1 }"; }
# column NUMBER FUNCTION: of trace_stat/function, without its bars.
column() { awk -v name="$2" -v at="$1" '{ gsub(/\|/, "") } $1 == name { print $at }' $R/trace_stat/function; }
TOTAL=3 SELF=4 MAX=9
# paths <LINES: "PATH CALLS" of each, in any order.
paths() {
	echo 1 >$R/options/folded-calls
	sort >/tmp/wanted
	sort $R/trace_stat/function_folded | diff - /tmp/wanted
}
all_calls() {
	echo 100 >$K/pairs
	echo 7 >$K/flat
	echo 3 >$K/tree
}

below_a_root() {
	echo 'known_*' >$R/filter
	echo known_outer >$R/graph_function
	profile
	all_calls
	counts 'known_inner=100 known_outer=100'
	# What it counts changes with the list, and what it has counted stays.
	echo known_right >$R/graph_function
	all_calls
	counts 'known_inner=100 known_left=4 known_outer=100 known_right=7'
	echo >$R/graph_function
	echo 2 >$K/flat
	counts 'known_flat=2 known_inner=100 known_left=4 known_outer=100 known_right=7'
	ended
	# A root is counted though filter does not have it, but not if notrace has it.
	echo known_inner >$R/filter
	echo known_outer >$R/graph_function
	profile
	all_calls
	counts 'known_inner=100 known_outer=100'
	echo known_outer >$R/notrace
	all_calls
	counts 'known_inner=100 known_outer=100'
}

not_below() {
	echo 'known_*' >$R/filter
	echo known_left >$R/graph_notrace
	profile
	all_calls
	counts 'known_flat=7 known_inner=100 known_outer=100 known_right=3'
	grep -q '^known_left ' $R/enabled_functions
	# Both lists.
	echo known_right >$R/graph_function
	all_calls
	counts 'known_flat=7 known_inner=100 known_outer=100 known_right=6'
	# Called from what is not counted, it is not.
	echo known_outer >$R/graph_notrace
	echo known_inner >$R/graph_function
	all_calls
	counts 'known_flat=7 known_inner=100 known_outer=100 known_right=6'
}

# Frames of each kind know it.
each_kind() {
	local option value
	echo 'known_*' >$R/filter
	echo known_right known_waiting >$R/graph_function
	echo known_left >$R/graph_notrace
	for option in graph-time=0 sleep-time=0 profile-wait=1 profile-contexts=1 graph-time=1 sleep-time=1; do
		value=${option#*=}
		option=${option%=*}
		echo "$value" >$R/options/$option
		echo "with $option $value"
		profile
		all_calls
		sleeper
		woken
		counts 'known_flat=1 known_inner=1 known_right=3 known_waiting=1'
		ended
	done
}

contexts() {
	echo 'known_*' >$R/filter
	echo 1 >$R/options/profile-contexts
	echo known_right >$R/graph_function
	profile
	all_calls
	paths <<-END
		known_right 3
		known_right;known_left 2
		known_right;known_left;known_left 1
		known_right;known_left;known_right 1
		known_right;known_right 2
		known_right;known_right;known_left 1
		known_right;known_right;known_right 1
	END
	ended
	# A root is the first of its path, whatever it was called from.
	echo known_flat >$R/graph_function
	sleeper
	profile
	woken
	paths <<-END
		known_flat 1
	END
	# Without roots, callers that are open and were not seen say so again.
	sleeper
	echo >$R/graph_function
	woken
	paths <<-END
		known_flat 1
		[before];known_flat 1
	END
	ended
	echo known_left >$R/graph_notrace
	profile
	echo 3 >$K/tree
	paths <<-END
		known_right 1
		known_right;known_right 1
		known_right;known_right;known_right 1
	END
}

# A call is what it was when it was entered.
open_calls() {
	echo 'known_*' >$R/filter
	echo known_waiting >$R/graph_function
	profile
	sleeper
	echo known_left >>$R/graph_function
	woken
	counts 'known_flat=1 known_inner=1 known_waiting=1'
	holds "$(column $TOTAL known_waiting) > 0"
	ended
	# Not one that was no root, as there were none.
	echo >$R/graph_function
	profile
	sleeper
	echo known_left >$R/graph_function
	woken
	counts 'known_inner=1 known_waiting=1'
	ended
	# Nor one that the profile has not seen.
	echo known_waiting >$R/graph_function
	sleeper
	profile
	woken
	counts ''
}

# interrupted: CPU 0 is in known_around, when another interrupts it to call known_deep, twice.
interrupted() {
	taskset 1 sh -c "echo 500000000 >$K/busy" &
	busy=$!
	until_true 20 is_busy
	taskset 2 sh -c "echo 2 >$K/deep_irq"
	kill -0 $busy
	wait $busy
}
is_busy() { [ "$(counted $R/instances/busy)" = 'known_around=1 ' ]; }

# What an interrupt calls is not below what it comes into, but below what it calls itself.
interrupts() {
	mkdir $R/instances/busy
	echo known_around >$R/instances/busy/filter
	echo 1 >$R/instances/busy/function_profile_enabled
	echo 'known_*' >$R/filter
	echo "$1" >"$R/$2"
	profile
	interrupted
	counts "$3"
	ended
	rmdir $R/instances/busy
}
interrupts_of_roots() { interrupts known_around graph_function 'known_around=1 known_spin=1'; }
interrupts_of_skipped() { interrupts known_around graph_notrace 'known_deep=2'; }
roots_in_interrupts() { interrupts known_deep graph_function 'known_deep=2'; }

# The time of what an interrupt called in a call that is not counted is not the caller's own, and that for which the
# task slept there is not its time.
time_in_skipped() {
	echo 'known_*' vfs_write >$R/filter
	echo known_waiting >$R/graph_notrace
	echo 0 >$R/options/sleep-time
	sleeper_of_calls
	echo $sleeper >$R/pid
	profile
	echo go >/tmp/go
	until_true 20 waits $sleeper
	usleep 300000
	woken
	cat $R/trace_stat/function
	is calls "$(column 2 vfs_write)" 1
	holds "$(column $MAX vfs_write) < 200000"
	ended
	rm /tmp/go
}
# sleeper_of_calls: a task that waits to be woken once there is /tmp/go, and writes nothing else.
sleeper_of_calls() {
	rm -f /tmp/go
	mkfifo /tmp/go
	sh -c "read -r _ </tmp/go; echo 1 >$K/wait" &
	sleeper=$!
}
own_time() {
	local within
	echo known_deep vfs_write >$R/filter
	echo known_around >>$R/filter
	echo known_around >$R/graph_notrace
	rm -f /tmp/go
	mkfifo /tmp/go
	mkdir $R/instances/busy
	echo known_around >$R/instances/busy/filter
	echo 1 >$R/instances/busy/function_profile_enabled
	taskset 1 sh -c "read -r _ </tmp/go; echo 500000000 >$K/busy" &
	busy=$!
	echo $busy >$R/pid
	profile
	echo go >/tmp/go
	until_true 20 is_busy
	taskset 2 sh -c "echo 20 >$K/deep_irq"
	wait $busy
	cat $R/trace_stat/function
	counts 'known_deep=20 vfs_write=1'
	# (a call that calls itself: the sum of its own times is the time of the whole)
	within=$(column $SELF known_deep)
	holds "$within > 0"
	# (each number is cut off behind the ns)
	holds "$(column $TOTAL vfs_write) - $(column $SELF vfs_write) - $within < 0.0025"
	holds "$(column $TOTAL vfs_write) - $(column $SELF vfs_write) - $within > -0.0025"
	ended
	rm /tmp/go
}

# With the tracer, of the same lists; and beside an instance that counts all.
with_tracers() {
	local option
	mkdir $R/instances/all
	echo 'known_*' >$R/instances/all/filter
	echo 'known_*' >$R/filter
	echo known_right >$R/graph_function
	echo known_left >$R/graph_notrace
	for option in graph-time sleep-time profile-contexts; do
		case $option in *time) echo 0 >$R/options/$option ;; *) echo 1 >$R/options/$option ;; esac
		echo "with $option"
		echo function_graph >$R/current_tracer
		profile
		all_calls
		counts known_right=3
		cat $R/trace >/tmp/trace
		is events "$(grep -c 'known_right ' /tmp/trace)" 3
		is others "$(grep -c 'known_[^rc]' /tmp/trace)" 0
		echo nop >$R/current_tracer
		# (with a tracer that has its time asleep there is no room for a third)
		echo 1 >$R/instances/all/function_profile_enabled
		all_calls
		counts known_right=6
		is all "$(counted $R/instances/all)" 'known_flat=7 known_inner=100 known_left=7 known_outer=100 known_right=7 '
		ended
		echo 0 >$R/instances/all/function_profile_enabled
		case $option in *time) echo 1 >$R/options/$option ;; *) echo 0 >$R/options/$option ;; esac
	done
}

t 'only what is below graph_function is counted' below_a_root
t 'and not what is below graph_notrace' not_below
t 'whatever else is wanted of calls' each_kind
t 'contexts begin with the root' contexts
t 'a call is what it was when it was entered' open_calls
t 'what interrupts call is not below a root' interrupts_of_roots
t 'nor below what is not counted' interrupts_of_skipped
t 'a root in an interrupt' roots_in_interrupts
t 'time asleep in a call that is not counted' time_in_skipped
t "own time with interrupts in a call that is not counted" own_time
t 'beside a tracer, and another profile' with_tracers
finish
