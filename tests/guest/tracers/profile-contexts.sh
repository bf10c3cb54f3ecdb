#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The profile by contexts: what functions were called from, as lines that flame graphs are made of.
. /tests/lib/ktap.sh
. /tests/lib/nmis.sh
. /tests/lib/sleepers.sh

insmod /lib/modules/known_calls.ko
K=/sys/kernel/debug/known_calls
reload
YIELD=$(sys sched_yield)
FOLDED=$R/trace_stat/function_folded
SUMS=$R/trace_stat/function

profile() {
	echo 1 >$R/options/profile-contexts
	echo 1 >$R/function_profile_enabled
}
ended() { echo 0 >$R/function_profile_enabled; }
# by MEASURE: the lines, with that as their number: own, total, calls.
by() {
	local total=0 calls=0
	case $1 in
	own) ;;
	total) total=1 ;;
	calls) calls=1 ;;
	esac
	echo $total >$R/options/folded-total
	echo $calls >$R/options/folded-calls
	cat $FOLDED
}
# of MEASURE PATH: the number of its line, 0 if it has none.
of() {
	by "$1" | awk -v path="$2" '{ n = $NF; sub(/ [0-9]+$/, "") } $0 == path { value = n } END { print value + 0 }'
}
# lines_are <PATHS: "PATH CALLS" of each, in any order.
lines_are() {
	sort >/tmp/wanted
	by calls | sort | diff - /tmp/wanted
}
# sum <LINES: of their numbers.
sum() { awk '{ sum += $NF } END { printf "%.0f\n", sum }'; }
# calls_of_others: those that are said to have found no room.
calls_of_others() { by calls | grep -F '[other]' | sum; }
# What sleepers do when they were woken.
THEN="echo 5 >$K/flat"

nothing() {
	is lines "$(grep -c . $FOLDED)" 0
	echo known_flat >$R/filter
	echo 1 >$R/function_profile_enabled
	echo 10 >$K/flat
	is lines "$(grep -c . $FOLDED)" 0
	is contexts "$(status 'profile contexts')" ''
	is calls "$(awk '$1 == "known_flat" { print $3 }' $SUMS)" 10
	ended
}

paths() {
	echo 'known_*' >$R/filter
	profile
	echo 100 >$K/pairs
	echo 7 >$K/flat
	echo 4 >$K/deep
	echo 200 >$K/around
	by calls >/tmp/calls
	lines_are <<-END
		known_around 1
		known_around;known_spin 1
		known_deep 1
		known_deep;known_deep 1
		known_deep;known_deep;known_deep 1
		known_deep;known_deep;known_deep;known_deep 1
		known_flat 7
		known_outer 100
		known_outer;known_inner 100
	END
	# The largest first.
	by calls >/tmp/calls
	awk '{ print $NF }' /tmp/calls | sort -rnc
	by own | awk '{ print $NF }' | sort -rnc
	# The time of the whole is that of its parts.
	holds "$(of total known_outer) >= $(of own known_outer) + $(of own 'known_outer;known_inner') - 1"
	holds "$(of total known_outer) <= $(of own known_outer) + $(of own 'known_outer;known_inner') + 1"
	is leaf "$(of own known_flat)" "$(of total known_flat)"
	holds "$(of own known_flat) > 0"
	is contexts "$(status 'profile contexts')" '9 of 49152'
	is others "$(status 'profile other contexts')" 0
	ended
	# They stay as long as the profile.
	by calls | sort | diff - /tmp/wanted
	# The same in any pieces.
	dd if=$FOLDED bs=7 2>/dev/null | cmp - /tmp/calls
	echo >$SUMS
	is lines "$(by calls | grep -c .)" 0
	echo 1 >$R/function_profile_enabled
	is contexts "$(status 'profile contexts')" '0 of 49152'
	echo 3 >$K/flat
	is lines "$(by calls)" 'known_flat 3'
	ended
	echo >$R/free_buffer
	is lines "$(by calls | grep -c .)" 0
}

# sums_agree: calls and own time of all lines are those of the functions, once nothing is counted any more.
sums_agree() {
	local calls own lines
	is calls "$(by calls | sum)" "$(awk '$2 == "|" && $3 ~ /^[0-9]/ { sum += $3 } END { printf "%.0f\n", sum }' $SUMS)"
	# (of each number less than a ns is cut off)
	calls=$(awk '$2 == "|" && $5 ~ /^[0-9]/ { sum += $5 } END { printf "%.0f\n", sum * 1000 }' $SUMS)
	by own >/tmp/own
	own=$(sum </tmp/own)
	lines=$(grep -c . /tmp/own)
	holds "$own - $calls <= $(grep -c . $SUMS) && $calls - $own <= $lines"
}

# Every call of every function, or of some thousand, in whatever context.
everything() {
	local left=3
	if [ "$SLOWER" = 1 ]; then
		echo >$R/filter
	else
		# (to hook all takes minutes there)
		left=2
		echo "$YIELD *sched* *fork* *irq* *timer*" >$R/filter
	fi
	profile
	# These find room, whatever comes after them.
	calls yields 2000 1
	background churn 0
	background calls signals 0 0
	while [ "$left" -gt 0 ]; do
		calls yields 2000 1
		calls turns 500 0
		calls forks 20
		left=$((left - 1))
	done
	ended
	end_background
	sums_agree
	is lost "$(status 'profile lost')" 0
	by calls >/tmp/calls
	head -n 30 /tmp/calls
	# The system call's own function is a root: nothing is between user mode and it that can be traced, but perhaps
	# the dispatcher.
	grep -qE "^(x64_sys_call;)?$YIELD [0-9]+$" /tmp/calls
	grep -q '^\[hardirq\];' /tmp/calls
	grep -q '^\[softirq\];' /tmp/calls
	# A kernel thread's own function began long before, and is known to have where it is hooked.
	[ "$SLOWER" != 1 ] || grep -q '^\[before\];.*schedule' /tmp/calls
	# Whatever interrupts, it is not called by what it interrupts.
	is entries "$(grep 'irq_enter_rcu ' /tmp/calls | grep -cvE '^\[hardirq\];(\[before\];)?irq_enter_rcu ')" 0
	status 'profile contexts'
}

# interrupts_of FUNCTION ROOT COUNT: each call is below that.
interrupts_of() {
	is "outside of $2" "$(by calls | grep "$1 " | grep -cvE "^\\[$2\\];")" 0
	is "in $2" "$(by calls | grep "$1 " | sum)" "$3"
}
interrupts() {
	background calls yields 0 0
	background calls yields 0 1
	echo "known_* $YIELD" >$R/filter
	profile
	# (a CPU does not interrupt itself: there it is a call of the task)
	taskset 1 sh -c "echo 1000 >$K/contexts"
	interrupts_of known_in_softirq softirq 2000
	is 'of this CPU' "$(of calls known_in_hardirq)" 1000
	is 'of the other' "$(of calls '[hardirq];known_in_hardirq')" 1000
	is tasks "$(by calls | grep 'known_in_task ' | sum)" 2000
	is tasks "$(by calls | grep 'known_in_task ' | grep -c '\[.*irq')" 0
	echo 3 >$K/deep_irq
	is deep "$(of calls '[hardirq];known_deep;known_deep;known_deep')" 1
	ended
}

has_calls() { [ "$(of calls "$1")" -ge "$2" ]; }
nmis() {
	local i
	echo "$NMI_FUNCTION $YIELD" >$R/filter
	profile
	console_off
	background calls yields 0 1
	for i in 1 2 3 4 5 6; do
		nmi_on_cpu_1
		until_true 20 has_calls "[nmi];$NMI_FUNCTION" $i
	done
	ended
	is calls "$(of calls "[nmi];$NMI_FUNCTION")" 6
	is lines "$(by calls | grep -c "$NMI_FUNCTION")" 1
}

# A context that is there lives on, whatever is cleared meanwhile.
clears_with_sleeper() {
	echo 'known_*' >$R/filter
	profile
	sleeper "$THEN"
	is calls "$(of calls known_waiting)" 1
	is calls "$(of calls 'known_waiting;known_inner')" 1
	is time "$(of total known_waiting)" 0
	echo >$SUMS
	is lines "$(by calls | grep -c .)" 0
	echo 20 >$K/flat
	woken
	lines_are <<-END
		known_flat 25
		known_waiting;known_flat 1
	END
	# Its time is counted where it was entered, since then.
	holds "$(of total known_waiting) > 0"
	holds "$(of own known_waiting) > 0"
	holds "$(of own 'known_waiting;known_inner') == 0"
	ended
	sums_agree
}

# begun_before: the sleeper's call is not in the tree, and what it calls says so, until it has returned.
begun_before() {
	woken
	lines_are <<-END
		known_flat 5
		[before];known_flat 1
	END
	is time "$(of total known_waiting)" 0
}
began_before() {
	echo 'known_*' >$R/filter
	sleeper "$THEN"
	profile
	begun_before
	ended
	sums_agree
	# The same if the profile is of other functions than those that are open.
	echo 'known_flat' >$R/filter
	sleeper "$THEN"
	profile
	woken
	is lines "$(by calls)" 'known_flat 6'
	ended
	# Or if the one that is open comes in while the profile is on.
	echo 'known_flat' >$R/filter
	profile
	echo 1 >$K/flat
	sleeper "$THEN"
	echo 'known_waiting' >>$R/filter
	woken
	lines_are <<-END
		known_flat 6
		[before];known_flat 1
	END
	ended
}

# Off and on: calls of the profile before are not of this one.
another_generation() {
	echo 'known_*' >$R/filter
	profile
	sleeper "$THEN"
	is calls "$(of calls known_waiting)" 1
	ended
	is calls "$(of calls known_waiting)" 1
	echo 1 >$R/function_profile_enabled
	is lines "$(by calls | grep -c .)" 0
	begun_before
	ended
	sums_agree
}

# 254 contexts.
full() {
	reload profile_contexts=100
	echo 'known_*' >$R/filter
	profile
	is contexts "$(status 'profile contexts')" '0 of 100'
	echo 7 >$K/tree
	is contexts "$(status 'profile contexts')" '100 of 100'
	is calls "$(by calls | sum)" 254
	others=$(calls_of_others)
	is others "$(status 'profile other contexts')" "$others"
	is 'those that have room' "$(by calls | grep -vF '[other]' | sum)" 100
	is 'those that have none' "$others" 154
	is 'within others' "$(by calls | grep -cF '[other];')" 0
	# The time of what found no room is not counted twice.
	holds "$(by total | grep -E '^known_left(;[^;]*)? ' | awk '{ n[gsub(/;/, ";")] += $NF } END { print n[1] <= n[0] + 2 }')"
	ended
	sums_agree
	reload profile_contexts=0
	echo 'known_*' >$R/filter
	profile
	echo 3 >$K/tree
	is lines "$(by calls)" '[other] 14'
	is others "$(status 'profile other contexts')" 14
	ended
	sums_agree
	reload
}

# 65,534 contexts, of which 49,152 are remembered.
full_by_default() {
	echo 'known_*' >$R/filter
	profile
	echo 15 >$K/tree
	is contexts "$(status 'profile contexts')" '49152 of 49152'
	is calls "$(by calls | sum)" 65534
	is others "$(calls_of_others)" "$(status 'profile other contexts')"
	# What has no room has it not the next time either.
	echo 15 >$K/tree
	is calls "$(by calls | sum)" 131068
	is others "$(calls_of_others)" "$(status 'profile other contexts')"
	ended
	sums_agree
}

tasks() {
	echo 'known_*' >$R/filter
	echo 1 >$R/options/profile-tasks
	profile
	sh -c "echo 3 >$K/pairs"
	sh -c "printf 'odd; one' >/proc/\$\$/comm; echo 4 >$K/flat"
	sh -c "printf of-fifteen-byte >/proc/\$\$/comm; echo 2 >$K/flat"
	lines_are <<-END
		odd:_one;known_flat 4
		sh;known_outer 3
		sh;known_outer;known_inner 3
		of-fifteen-byte;known_flat 2
	END
	# What began before says so behind the name, and interrupts are of no task.
	ended
	sleeper "$THEN"
	profile
	woken
	is lines "$(by calls | grep before)" 'sh;[before];known_flat 1'
	echo 2 >$K/deep_irq
	is deep "$(of calls '[hardirq];known_deep;known_deep')" 1
	ended
	echo 0 >$R/options/profile-tasks
	profile
	sh -c "echo 3 >$K/pairs"
	lines_are <<-END
		known_outer 3
		known_outer;known_inner 3
	END
	ended
}

# Each instance has its own, also of functions that others watch, too.
instances() {
	local I=$R/instances/other
	mkdir $I
	echo 'known_outer known_inner' >$R/filter
	echo 'known_inner known_flat known_waiting' >$I/filter
	profile
	echo 1 >$I/options/profile-contexts
	echo 1 >$I/options/folded-calls
	echo 1 >$I/function_profile_enabled
	echo 50 >$K/pairs
	sh -c "echo 2 >$K/flat"
	sleeper "$THEN"
	woken
	is here "$(by calls | sort)" "$(printf 'known_inner 1\nknown_outer 50\nknown_outer;known_inner 50')"
	is there "$(sort $I/trace_stat/function_folded)" \
		"$(printf 'known_flat 7\nknown_inner 50\nknown_waiting 1\nknown_waiting;known_flat 1\nknown_waiting;known_inner 1')"
	rmdir $I
	echo 10 >$K/pairs
	is here "$(of calls 'known_outer;known_inner')" 60
	ended
	sums_agree
}

# With a tracer of the same functions; also without some of the time.
tracers() {
	echo 'known_outer known_inner' >$R/filter
	echo function_graph >$R/current_tracer
	profile
	echo 40 >$K/pairs
	echo 0 >$R/options/graph-time
	echo 10 >$K/pairs
	is calls "$(by calls | sort)" "$(printf 'known_outer 50\nknown_outer;known_inner 50')"
	holds "$(of own known_outer) > 0"
	is events "$(grep -c 'known_outer' $R/trace)" 50
	echo nop >$R/current_tracer
	echo 5 >$K/pairs
	is calls "$(by calls | sort)" "$(printf 'known_outer 55\nknown_outer;known_inner 55')"
	ended
	sums_agree
}

# By each kind of frames the same.
kinds() {
	local option
	echo 'known_*' >$R/filter
	for option in graph-time sleep-time; do
		echo 0 >$R/options/$option
		profile
		echo 30 >$K/pairs
		echo 3 >$K/deep
		sleeper "$THEN"
		woken
		lines_are <<-END
			known_deep 1
			known_deep;known_deep 1
			known_deep;known_deep;known_deep 1
			known_flat 5
			known_outer 30
			known_outer;known_inner 30
			known_waiting 1
			known_waiting;known_flat 1
			known_waiting;known_inner 1
		END
		ended
		sums_agree
		echo 1 >$R/options/$option
	done
	# Contexts may come and go while the profile is on.
	echo 0 >$R/options/profile-contexts
	echo 1 >$R/function_profile_enabled
	echo 5 >$K/flat
	is lines "$(by calls | grep -c .)" 0
	echo 1 >$R/options/profile-contexts
	echo 6 >$K/flat
	is lines "$(by calls)" 'known_flat 6'
	echo 0 >$R/options/profile-contexts
	echo 7 >$K/flat
	is lines "$(by calls)" 'known_flat 6'
	echo 1 >$R/options/profile-contexts
	echo 8 >$K/flat
	is lines "$(by calls)" 'known_flat 14'
	is calls "$(awk '$1 == "known_flat" { print $3 }' $SUMS)" 26
	ended
}

# Of tasks and CPUs that are not traced nothing is counted; a task that comes in is below what was not.
only_some() {
	echo 'known_*' >$R/filter
	profile
	sh -c "echo \$\$ >$R/pid; echo 3 >$K/flat"
	echo 1000 >$K/flat
	is lines "$(by calls)" 'known_flat 3'
	sleeper "$THEN"
	echo $sleeper >$R/pid
	woken
	is lines "$(by calls)" "$(printf 'known_flat 8\n[before];known_flat 1')"
	echo >$R/pid
	echo 1 >$R/tracing_cpumask
	taskset 1 sh -c "echo 2 >$K/pairs"
	taskset 2 sh -c "echo 100 >$K/pairs"
	is lines "$(of calls 'known_outer;known_inner')" 2
	echo "$ALL_CPUS" >$R/tracing_cpumask
	ended
	sums_agree
}

# They keep their names.
modules_go() {
	echo 'known_*' >$R/filter
	profile
	echo 30 >$K/pairs
	echo 2 >$K/tree
	by calls | sort >/tmp/before
	rmmod known_calls
	by calls | sort | diff - /tmp/before
	insmod /lib/modules/known_calls.ko
	echo 'known_*' >$R/filter
	echo 12 >$K/pairs
	is calls "$(of calls 'known_outer;known_inner')" 42
	rmmod known_calls
	ended
	is calls "$(of calls 'known_outer;known_inner')" 42
	insmod /lib/modules/known_calls.ko
}

memory() {
	local before during
	echo known_flat >$R/filter
	echo >$R/free_buffer
	before=$(status memory)
	profile
	echo 5 >$K/flat
	during=$(status memory)
	# 65,536 slots, of eight bytes, and 32 for each CPU.
	holds "${during% *} - ${before% *} >= 512 + 2 * 2048"
	echo >$SUMS
	ended
	echo >$R/free_buffer
	[ "$(status memory | sed 's/ .*//')" -le "${before% *}" ]
}

deep() {
	echo known_deep >$R/filter
	profile
	echo 49 >$K/deep
	is calls "$(by calls | sum)" 49
	is missed "$(status 'profile missed')" 0
	echo >$SUMS
	echo 120 >$K/deep
	is depth "$(by calls | sum)" 49
	is longest "$(by calls | awk '{ n = gsub(/;/, ";") } n > most { most = n } END { print most + 1 }')" 49
	ended
}

t 'there is nothing unless it is asked for' nothing
t 'paths have the calls that were made on them' paths
t 'all functions, in all contexts: sums are those of the functions' everything
t 'interrupts are roots' interrupts
t 'a call that is open while counts are cleared keeps its context' clears_with_sleeper
t 'what began before says so' began_before
t 'a call of another profile is not of this one' another_generation
t 'what finds no room is counted as other' full
stressed 'so it is with as many as there are by default' full_by_default
t 'tasks by their names' tasks
t 'each instance has its own' instances
t 'tracers of the same functions do not matter' tracers
t 'whatever part of the time counts' kinds
t 'only tasks and CPUs that are traced count' only_some
t 'functions of modules that go keep their names' modules_go
t 'memory is given back' memory
t 'calls that are too deep have no context' deep
complaints '^$'
t 'NMIs are roots' nmis
console_again
rmmod known_calls
finish
