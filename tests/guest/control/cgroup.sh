#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The tasks of cgroups alone are traced: cgroup.
. /tests/lib/ktap.sh
reload

. /tests/lib/cgroups.sh

# seen TASK: it is in the trace, which was cleared before.
seen() { grep -q -- "-$1 " $R/trace; }
# only_seen PID OTHER: there are events of the one, and none of the other.
only_seen() {
	echo >$R/trace
	until_true 20 seen "$1"
	# (both do the same all the time: what is not there now does not come)
	echo >$R/trace
	until_true 20 seen "$1"
	fails seen "$2"
}
# two: two tasks, each on a CPU of its own.
two() {
	background calls getppid 0 0
	one=$!
	background calls getppid 0 1
	other=$!
}

words() {
	anew a a/b c
	says $R/cgroup 'no cgroup'
	is 'in status' "$(status cgroup)" empty
	echo /a >$R/cgroup
	says $R/cgroup /a
	is 'in status' "$(status cgroup)" '0 tasks in 1 cgroups'
	echo "/c/ $(id a/b)" >>$R/cgroup
	is list "$(tr '\n' ' ' <$R/cgroup)" '/a /c /a/b '
	# (once)
	echo "/a $(id c)" >>$R/cgroup
	is list "$(tr '\n' ' ' <$R/cgroup)" '/a /c /a/b '
	echo "!/a !$(id c)" >>$R/cgroup
	says $R/cgroup /a/b
	echo / >$R/cgroup
	says $R/cgroup /
	echo >$R/cgroup
	says $R/cgroup 'no cgroup'
	empty
}

refused() {
	local word
	anew a
	echo /a >$R/cgroup
	for word in /b /a/b a ../a 999999999 -1 '!' '!/b' '/a /b'; do
		echo >$R/error_log
		gets 'write EINVAL' $R/cgroup "$word\n"
		says $R/cgroup /a
		grep -q 'cgroup: error: ' $R/error_log
	done
	gets 'write EINVAL' $R/cgroup "/nope\n"
	grep -q "cgroup: error: No such cgroup; /proc/PID/cgroup has paths behind '0::'" $R/error_log
	gets 'write EINVAL' $R/cgroup "nope\n"
	grep -q "cgroup: error: Neither a path from '/' on nor the ID of a cgroup" $R/error_log
	echo >$R/cgroup
	empty
}

# By whatever tracer: $1. Those that were in it before, and that come and go later, in it or below it.
traced() {
	anew a a/b c
	echo "$PARENT" >$R/filter
	echo "$1" >$R/current_tracer
	echo 1 >$R/options/funcgraph-proc
	two
	echo $one >$C/a/cgroup.procs
	echo $other >$C/c/cgroup.procs
	echo /a >$R/cgroup
	only_seen $one $other
	echo $other >$C/a/b/cgroup.procs
	echo >$R/trace
	until_true 20 seen $other
	until_true 20 seen $one
	echo $one >$C/c/cgroup.procs
	only_seen $other $one
	echo $other >$C/cgroup.procs
	echo $one >$C/a/cgroup.procs
	only_seen $one $other
	# By the ID, and of several.
	id a/b >$R/cgroup
	echo $other >$C/a/b/cgroup.procs
	only_seen $other $one
	echo /a >>$R/cgroup
	echo >$R/trace
	until_true 20 seen $one
	until_true 20 seen $other
	echo >$R/cgroup
	echo $other >$C/c/cgroup.procs
	echo >$R/trace
	until_true 20 seen $one
	until_true 20 seen $other
	is 'not followed' "$(status 'children not followed')" 0
	end_background
	empty
}
by_function() { traced function; }
by_graph() { traced function_graph; }

children() {
	anew a
	echo "$PARENT" >$R/filter
	echo /a >$R/cgroup
	sh -c "echo \$\$ >$C/a/cgroup.procs; calls getppid 5; sh -c 'calls getppid 6; calls getppid 7'"
	calls getppid 100
	is 'of children' "$(calls_of "$PARENT")" 18
	# (what has ended is in it no more)
	until_true 20 sh -c "grep -q '^cgroup: 0 tasks' $R/status"
	echo >$R/cgroup
	empty
}

# there GROUP: how many tasks are in it and below, as the kernel says.
there() { find $C/"$1" -name cgroup.threads -exec cat {} + | grep -c .; }

# An ID that means another task already when the end of the one before is told.
reused() {
	anew a
	echo "$PARENT" >$R/filter
	echo /a >$R/cgroup
	sh -c "echo \$\$ >$C/a/cgroup.procs; exec tasks reused $(some 20)" >/tmp/id
	is 'of the ID' "$(events $R/trace | grep -c -- "-$(cat /tmp/id) ")" $((2 * $(some 20)))
	echo >$R/cgroup
	empty
}

# Threads that the kernel makes for a process are its, too.
kernels_threads() {
	anew a
	echo /a >$R/cgroup
	counting /tmp/ids sh -c "echo \$\$ >$C/a/cgroup.procs; exec tasks polled 3"
	until_true 20 test -s /tmp/ids
	is 'in status' "$(status cgroup)" '4 tasks in 1 cgroups'
	is 'there' "$(there a)" 4
	end_background
	echo >$R/cgroup
	empty
}

threads_too() {
	local ids first rest second
	anew a
	echo "$PARENT" >$R/filter
	echo /a >$R/cgroup
	counting /tmp/ids threads 3
	until_true 20 test -s /tmp/ids
	read -r first second rest </tmp/ids
	echo >$R/trace
	# The process, with all its threads.
	echo "$first" >$C/a/cgroup.procs
	for ids in $first $second $rest; do until_true 20 seen "$ids"; done
	is 'in status' "$(status cgroup)" '4 tasks in 1 cgroups'
	# One thread of it: the process stays.
	mkdir $C/a/t
	echo threaded >$C/a/t/cgroup.type
	echo "$second" >$C/a/t/cgroup.threads
	echo /a/t >$R/cgroup
	is 'in status' "$(status cgroup)" '1 tasks in 1 cgroups'
	only_seen "$second" "$first"
	echo "$first" >$C/a/t/cgroup.threads
	echo >$R/trace
	until_true 20 seen "$first"
	end_background
	echo >$R/cgroup
	until_true 20 rmdir $C/a/t
	empty
}

# A thread that is in another cgroup than its process executes a program, and has the process's ID from then on.
executes() {
	local thread leader
	anew a a/t
	echo threaded >$C/a/t/cgroup.type
	echo "$PARENT" >$R/filter
	echo /a/t >$R/cgroup
	touch /tmp/hold
	counting /tmp/ids sh -c "echo \$\$ >$C/a/cgroup.procs; exec tasks exec 5 calls getppid 5"
	until_true 20 test -s /tmp/ids
	read -r thread leader </tmp/ids
	echo "$thread" >$C/a/t/cgroup.threads
	until_true 20 grep -q -- "-$thread " $R/trace
	rm /tmp/hold
	until_true 60 sh -c "[ ! -e /proc/$leader ]"
	wait
	echo 0 >$R/tracing_on
	is 'before' "$(events $R/trace | grep -q -- "-$thread " && echo some)" some
	is 'after' "$(events $R/trace | grep -c -- "-$leader ")" 5
	echo 1 >$R/tracing_on
	echo >$R/cgroup
	until_true 20 rmdir $C/a/t
	empty
}

with_pid() {
	anew a
	echo "$PARENT" >$R/filter
	two
	echo $one >$C/a/cgroup.procs
	echo $other >$C/a/cgroup.procs
	echo /a >$R/cgroup
	echo $one >$R/pid
	says $R/pid $one
	only_seen $one $other
	# A task that pid names, and that is elsewhere.
	echo $one >$C/cgroup.procs
	echo >$R/trace
	calls getppid 100
	is 'events' "$(events $R/trace | grep -c .)" 0
	echo $other >>$R/pid
	only_seen $other $one
	echo >$R/pid
	only_seen $other $one
	# And that notrace_pid names.
	echo $one >$C/a/cgroup.procs
	echo $other >$R/notrace_pid
	only_seen $one $other
	echo >$R/notrace_pid
	echo $one >$R/pid
	echo >$R/cgroup
	only_seen $one $other
	end_background
	empty
}

several() {
	local i
	anew a c
	two
	echo $one >$C/a/cgroup.procs
	echo $other >$C/c/cgroup.procs
	mkdir $R/instances/a $R/instances/c
	for i in a c; do
		echo /$i >$R/instances/$i/cgroup
		echo "$PARENT" >$R/instances/$i/filter
	done
	until_true 20 grep -q -- "-$one " $R/instances/a/trace
	until_true 20 grep -q -- "-$other " $R/instances/c/trace
	fails grep -q -- "-$other " $R/instances/a/trace
	fails grep -q -- "-$one " $R/instances/c/trace
	rmdir $R/instances/a
	echo $other >$C/a/cgroup.procs
	echo $one >$C/c/cgroup.procs
	echo >$R/instances/c/trace
	until_true 20 grep -q -- "-$one " $R/instances/c/trace
	end_background
	rmdir $R/instances/c
	empty
}

removed() {
	anew a a/b
	echo "$PARENT" >$R/filter
	echo '/a/b /a' >$R/cgroup
	rmdir $C/a/b
	is list "$(cat $R/cgroup)" '/a/b (removed)
/a'
	# Another one of the same name is another one.
	groups a/b
	echo '!/a' >>$R/cgroup
	is list "$(cat $R/cgroup)" '/a/b (removed)'
	sh -c "echo \$\$ >$C/a/b/cgroup.procs; calls getppid 5"
	is 'none' "$(calls_of "$PARENT")" 0
	echo /a/b >>$R/cgroup
	sh -c "echo \$\$ >$C/a/b/cgroup.procs; calls getppid 5"
	is 'of the new one' "$(calls_of "$PARENT")" 5
	echo /a >$R/cgroup
	rmdir $C/a/b $C/a
	echo '!/a' >>$R/cgroup
	says $R/cgroup 'no cgroup'
	calls getppid 4
	is 'of all' "$(calls_of "$PARENT")" 9
	# A path means all that have, or had it.
	groups a
	echo /a >$R/cgroup
	rmdir $C/a
	groups a
	echo "/a 1" >>$R/cgroup
	is list "$(tr '\n' ' ' <$R/cgroup)" '/a (removed) /a / '
	echo '!/a' >>$R/cgroup
	says $R/cgroup /
	empty
}

# Interrupts are of the task that they interrupt.
interrupts() {
	anew a
	irq=$(pick irq_enter_rcu tick_sched_handle tick_nohz_handler hrtimer_interrupt)
	two
	echo $one >$C/a/cgroup.procs
	echo /a >$R/cgroup
	echo "$irq" >$R/filter
	until_true 20 seen $one
	echo 0 >$R/tracing_on
	is 'of others' "$(events $R/trace | grep -vc -- "-$one ")" 0
	echo 1 >$R/tracing_on
	# The root has all, idle tasks too.
	echo / >$R/cgroup
	until_true 20 seen $other
	end_background
	until_true 20 grep -q '<idle>-0 ' $R/trace
	echo >$R/cgroup
	empty
}

# Tasks come and go all the time, in many ways: none is traced that is outside, and the number is right in the end.
moving() {
	local i
	anew a a/b c
	echo "$PARENT" >$R/filter
	echo /a >$R/cgroup
	background churn 0
	two
	i=0
	while [ $i -lt "$(some 60)" ]; do
		echo $one >$C/a/b/cgroup.procs
		echo $other >$C/c/cgroup.procs
		echo '/a /a/b' >$R/cgroup
		sh -c "echo \$\$ >$C/a/cgroup.procs; calls forks 5" &
		echo $one >$C/c/cgroup.procs
		echo $other >$C/a/cgroup.procs
		echo /a/b >$R/cgroup
		echo /a >>$R/cgroup
		wait $!
		i=$((i + 1))
	done
	only_seen $other $one
	until_true 20 sh -c "grep -q '^cgroup: 1 tasks in 2 cgroups' $R/status"
	is 'there' "$(there a)" 1
	end_background
	until_true 20 sh -c "grep -q '^cgroup: 0 tasks' $R/status"
	is 'not followed' "$(status 'children not followed')" 0
	echo >$R/cgroup
	empty
}

# inside COMMAND...: in a task that is in the cgroup a.
inside() { sh -c 'echo $$ >'"$C/a/cgroup.procs"'; exec "$@"' sh "$@"; }
# column NUMBER FUNCTION: of the profile.
column() { awk -v name="$2" -v column="$1" '$1 == name { value = $column } END { print value + 0 }' $R/trace_stat/function; }

# The profile with all that it counts.
by_profile() {
	anew a
	SLEEP=$(pick do_nanosleep)
	echo "$PARENT $SLEEP" >$R/filter
	echo nop >$R/current_tracer
	echo /a >$R/cgroup
	echo 1 >$R/options/profile-contexts
	echo 1 >$R/options/profile-wait
	echo 1 >$R/options/folded-calls
	echo 1 >$R/function_profile_enabled
	inside calls getppid 7
	inside usleep 50000
	calls getppid 100
	usleep 200000
	echo 0 >$R/function_profile_enabled
	cat $R/trace_stat/function $R/trace_stat/function_folded
	is calls "$(column 3 "$PARENT")" 7
	is sleeps "$(column 3 "$SLEEP")" 1
	holds "$(column 11 "$SLEEP") >= 40000"
	holds "$(column 4 "$SLEEP") < 200000"
	is 'calls by contexts' "$(awk -v name="$PARENT" '$0 ~ name " [0-9]+$" { sum += $NF } END { print sum + 0 }' \
		$R/trace_stat/function_folded)" 7
	is 'sleeps by contexts' "$(awk -v name="$SLEEP" '$0 ~ name " [0-9]+$" { sum += $NF } END { print sum + 0 }' \
		$R/trace_stat/function_folded)" 1
	echo >$R/cgroup
	empty
}

by_waits() {
	anew a
	pick do_nanosleep >$R/filter
	echo /a >$R/cgroup
	echo 1 >$R/options/funcgraph-wait
	echo function_graph >$R/current_tracer
	usleep 20000
	inside usleep 50000
	usleep 20000
	echo 0 >$R/tracing_on
	cat $R/trace
	is hits "$(status hits)" 1
	is waits "$(grep -cE 'asleep [0-9.]+ us, queued' $R/trace)" 1
	echo >$R/cgroup
	empty
}

by_errors() {
	anew a
	echo "$(sys mount) path_mount" >$R/filter
	echo /a >$R/cgroup
	echo 1 >$R/tracing_errno
	echo function_graph >$R/current_tracer
	is errno "$(failing mount)" 19
	is 'events of others' "$(status 'events written')" 0
	is errno "$(inside failing mount)" 19
	cat $R/trace
	grep -q "$(sys mount).* ret=-19" $R/trace
	echo >$R/trace
	is errno "$(failing mount)" 19
	is 'events of others' "$(status 'events written')" 0
	echo >$R/cgroup
	empty
}

t 'cgroup takes paths and IDs' words
t 'a word that names no cgroup changes nothing' refused
t 'tasks in a cgroup, and below it, are traced: those that are there, come and go' by_function
t 'by function_graph too' by_graph
t 'by the profile, its contexts and waits' by_profile
t 'by function_graph with waits' by_waits
if [ -e /sys/kernel/btf/vmlinux ]; then
	t 'by function_graph with errors alone' by_errors
else
	skip 'by function_graph with errors alone' 'the kernel does not say what its functions return'
fi
t 'children are traced, and theirs' children
t 'an ID that is given again is followed' reused
if [ -e /proc/sys/kernel/io_uring_disabled ]; then
	t 'threads that the kernel makes for a process are traced' kernels_threads
else
	skip 'threads that the kernel makes for a process are traced' 'the kernel has no io_uring'
fi
t 'threads are, together or one by one' threads_too
t 'a thread that executes a program is where it was' executes
t 'with pid a task must be in both' with_pid
t 'each instance has cgroups of its own' several
t 'a cgroup that is removed is told' removed
t 'interrupts are left out with the task that they interrupt' interrupts
t 'under load' moving
umount $C
finish
