#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Profiles of functions whose calls other instances watch, too: times without those of calls within are exact, whichever
# of the functions are shared, and while instances come and go.
. /tests/lib/ktap.sh

insmod /lib/modules/known_calls.ko
K=/sys/kernel/debug/known_calls
reload
I=$R/instances
SLEEP=$(pick do_nanosleep)
# (waiting for what comes to hold is no sleep that is seen)
usleep() {
	true
}

# graph NAME FUNCTION...: an instance of that name has function_graph on.
graph() {
	local name=$1
	shift
	[ -d "$I/$name" ] || mkdir "$I/$name"
	echo "$*" >"$I/$name/filter"
	echo function_graph >"$I/$name/current_tracer"
}
# count NAME FUNCTION...: an instance has a profile of these, from zero.
count() {
	local name=$1
	shift
	[ -d "$I/$name" ] || mkdir "$I/$name"
	echo "$*" >"$I/$name/filter"
	echo nop >"$I/$name/current_tracer"
	echo 0 >"$I/$name/function_profile_enabled"
	echo 1 >"$I/$name/function_profile_enabled"
}
none_left() {
	local name
	for name in "$I"/*/; do [ ! -d "$name" ] || rmdir "$name"; done
}
# of NAME COLUMN FUNCTION: of its line in an instance's profile, 0 if it has none.
of() {
	local column
	case $2 in
	calls) column=3 ;;
	total) column=4 ;;
	self) column=5 ;;
	max) column=10 ;;
	esac
	awk -v name="$3" -v column=$column '$1 == name { value = $column } END { print value ? value : 0 }' \
		"$I/$1/trace_stat/function"
}
# pairs_of NAME CALLS: so many pairs were counted, each with its own time. (digits are cut off)
pairs_of() {
	local sum
	is "outer of $1" "$(of "$1" calls known_outer)" "$2"
	is "inner of $1" "$(of "$1" calls known_inner)" "$2"
	is "own of $1" "$(of "$1" self known_inner)" "$(of "$1" total known_inner)"
	sum="$(of "$1" self known_outer) + $(of "$1" self known_inner)"
	holds "$sum <= $(of "$1" total known_outer) + 0.002 && $sum >= $(of "$1" total known_outer) - 0.002"
	holds "$(of "$1" self known_outer) > 0"
	is "lost of $1" "$(sed -n 's/^profile lost: //p' "$I/$1/status")" 0
	is "missed of $1" "$(sed -n 's/^profile missed: //p' "$I/$1/status")" 0
}
pairs() {
	taskset "${2:-1}" sh -c "echo $1 >$K/pairs"
}
is_done() {
	local worker
	for worker in $workers; do [ ! -d "/proc/$worker" ] || return 1; done
}
# is_past TIME: in hundredths of a second, as of read_time.
is_past() {
	local time
	read_time
	[ "$time" -ge "$1" ]
}
# open_in NAME COUNT: so many entries are in an instance's trace whose calls are open.
open_in() {
	[ "$(grep -cF "$SLEEP() {" "$I/$1/trace")" -eq "$2" ]
}

either_is_shared() {
	local shared
	for shared in known_inner known_outer 'known_inner known_outer'; do
		echo "# shared: $shared"
		graph tracer "$shared"
		count one known_outer known_inner
		pairs 3000
		pairs_of one 3000
		none_left
	done
}

# Each has its own view of what is within a call.
two_profiles() {
	graph tracer known_outer known_inner
	count one known_outer known_inner
	count two known_outer
	count three known_inner
	pairs 3000
	pairs_of one 3000
	is 'outer of two' "$(of two calls known_outer)" 3000
	is 'own of two' "$(of two self known_outer)" "$(of two total known_outer)"
	is 'inner of three' "$(of three calls known_inner)" 3000
	# As long for one as for the other, but for what they do themselves.
	holds "$(of two total known_outer) > $(of one self known_outer)"
	holds "$(of three total known_inner) < $(of one total known_outer)"
	is 'inner of two' "$(of two calls known_inner)" 0
	none_left
}

# A profile of other tasks counts nothing, and takes nothing from those that do.
bounds() {
	count one known_outer known_inner
	count two known_outer known_inner
	echo 1 >$I/two/pid
	pairs 2000
	pairs_of one 2000
	is 'outer of two' "$(of two calls known_outer)" 0
	echo >$I/two/pid
	pairs 1000
	pairs_of one 3000
	pairs_of two 1000
	none_left
}

options() {
	local option
	for option in graph-time sleep-time; do
		graph tracer known_outer known_inner
		mkdir $I/one
		echo 0 >$I/one/options/$option
		count one known_outer known_inner
		pairs 2000
		pairs_of one 2000
		if [ $option = graph-time ]; then
			# In the columns of ftrace it is without the calls within.
			cat $I/one/trace_stat/function0
			awk -v own="$(of one self known_outer)" '
				$1 == "known_outer" { found = 1; bad = $3 > own * 1.01 || $3 < own * 0.99 }
				END { exit !found || bad }' $I/one/trace_stat/function0
		fi
		none_left
	done
}

# Others come and go while calls are made: none is missed, and none has the time of another.
under_load() {
	local round cpu
	count one known_outer known_inner
	# (500 at a time, between which others run)
	for cpu in 1 2; do
		background taskset $cpu sh -c "
			made=0
			until [ -e /tmp/enough ]; do echo 500 >$K/pairs; made=\$((made + 500)); done
			echo \$made >/tmp/made$cpu"
	done
	for round in $(seq 0 "$(some 16)"); do
		case $((round % 4)) in
		0) graph two known_inner ;;
		1) echo known_outer >$I/two/filter ;;
		2) count three known_outer known_inner ;;
		3) rmdir $I/two $I/three ;;
		esac
	done
	touch /tmp/enough
	until_true 60 is_done
	pairs_of one $(($(cat /tmp/made1) + $(cat /tmp/made2)))
	none_left
}

# A call that is open when its function goes from one hook to another is timed, and told to the one around it.
open_calls() {
	local name time
	count one "$SLEEP" hrtimer_nanosleep
	graph two "$SLEEP"
	background taskset 1 usleep 100000000
	until_true 10 open_in two 1
	rmdir $I/two
	graph two "$SLEEP" hrtimer_nanosleep
	read_time
	until_true 10 is_past $((time + 50))
	end_background
	cat $I/one/trace_stat/function
	for name in "$SLEEP" hrtimer_nanosleep; do
		is "calls of $name" "$(of one calls $name)" 1
		holds "$(of one max $name) >= 400000"
	done
	# (the one within took almost all of it)
	holds "$(of one self hrtimer_nanosleep) < 200000"
	holds "$(of one self $SLEEP) >= 400000"
	none_left
}

t 'either function is shared, or both' either_is_shared
t 'several profiles' two_profiles
t 'tasks that are not counted' bounds
t 'options/graph-time and options/sleep-time' options
t 'others come and go under load' under_load
t 'calls that are open meanwhile' open_calls
unload
rmmod known_calls
finish
