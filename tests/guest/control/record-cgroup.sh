#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Tasks are recorded with their cgroup, and with their pid in their namespace: options/record-cgroup.
. /tests/lib/ktap.sh
reload
. /tests/lib/cgroups.sh

# shown TASK [FILE]: what lines of it have, each once.
shown() {
	cat "${2:-$R/trace}" >/tmp/shown.trace
	events /tmp/shown.trace | sed -nE "s/^.*-$1 +(\([^)]*\) +)?([0-9-]+:[0-9-]+) .*/\2/p" |
		sort -u | tr '\n' ' ' | sed 's/ $//'
}
# now_shown TASK: the same, of what comes from now on.
now_shown() {
	echo >$R/trace
	until_true 20 grep -q -- "-$1 " $R/trace
	echo 0 >$R/tracing_on
	shown "$1"
	echo 1 >$R/tracing_on
}
# small: buffers that are read soon.
small() {
	echo 4 >$R/buffer_subbuf_size_kb
	echo 16 >$R/buffer_size_kb
}

columns() {
	small
	anew a
	echo "$PARENT" >$R/filter
	background calls getppid 0 0
	one=$!
	echo $one >$C/a/cgroup.procs
	until_true 20 grep -q -- "-$one " $R/trace
	fails grep -q CGROUP $R/trace
	is 'not asked for' "$(shown $one)" ''
	echo record-cgroup >$R/trace_options
	says $R/options/record-cgroup 1
	# From now on, of all events.
	is 'in a' "$(now_shown $one)" "$(id a):$one"
	grep -q '^#  *TASK-PID  *CGROUP:PID  *CPU#' $R/trace
	echo 1 >$R/options/record-tgid
	echo 0 >$R/tracing_on
	is 'with tgid' "$(shown $one)" "$(id a):$one"
	timeout 5 cat $R/trace_pipe >/tmp/pipe || :
	is 'of trace_pipe' "$(shown $one /tmp/pipe)" "$(id a):$one"
	echo 1 >$R/tracing_on
	# Not recorded any more.
	echo norecord-cgroup >$R/trace_options
	echo >$R/trace
	until_true 20 grep -q -- "-$one " $R/trace
	echo 0 >$R/tracing_on
	echo record-cgroup >$R/trace_options
	is 'not recorded' "$(shown $one)" -:-
	echo 1 >$R/tracing_on
	end_background
	empty
}

by_graph() {
	anew a
	echo "$PARENT" >$R/filter
	echo function_graph >$R/current_tracer
	echo 1 >$R/options/record-cgroup
	sh -c "echo \$\$ >$C/a/cgroup.procs; exec calls getppid 5"
	cat $R/trace >/tmp/graph.trace
	grep -q '^# CPU  *CGROUP:PID  *DURATION' /tmp/graph.trace
	is calls "$(grep -cE "^ *[0-9]+\) +$(id a):[0-9]+ +\| .*\| +$PARENT\(\);" /tmp/graph.trace)" 5
	empty
}

# A task that runs all the time on its CPU is moved, and what it does behind that is shown so.
moved() {
	local i
	small
	anew a b
	echo "$PARENT" >$R/filter
	echo 1 >$R/options/record-cgroup
	background calls getppid 0 0
	one=$!
	i=0
	while [ $i -lt "$(some 10)" ]; do
		echo $one >$C/a/cgroup.procs
		is 'in a' "$(now_shown $one)" "$(id a):$one"
		[ $((i % 5)) -ne 0 ] || echo 1 >$R/snapshot
		echo $one >$C/b/cgroup.procs
		[ $((i % 5)) -ne 0 ] || echo 1 >$R/snapshot
		is 'in b' "$(now_shown $one)" "$(id b):$one"
		i=$((i + 1))
	done
	end_background
	empty
}

# teller: a task that stands for a shell, and makes system calls when it is told a name; $one is its ID.
teller() {
	rm -f /tmp/told
	mkfifo /tmp/told
	sh -c 'while read -r file; do [ ! -e "$file" ]; echo done >/tmp/did; done' <>/tmp/told 2>/dev/null &
	one=$!
	workers="$workers $one"
}
tell() {
	rm -f /tmp/did
	echo /tmp/none >/tmp/told
	until_true 20 test -s /tmp/did
}

# The only task that is traced: nothing but the move has it told again.
moved_alone() {
	local i wanted=
	anew a b
	teller
	echo $one >$C/a/cgroup.procs
	echo '/a /b' >$R/cgroup
	echo 1 >$R/options/record-cgroup
	pick vfs_statx vfs_fstatat vfs_getattr >$R/filter
	for i in a b a b a b; do
		echo $one >$C/$i/cgroup.procs
		tell
		wanted="$wanted $(id $i):$one"
	done
	cat $R/trace >/tmp/moved.trace
	# (it may look at more than one file)
	is 'one after the other' "$(events /tmp/moved.trace | sed -nE 's/^.* ([0-9-]+:[0-9-]+) .*/\1/p' |
		uniq | tr '\n' ' ' | sed 's/ $//')" "${wanted# }"
	end_background
	echo >$R/cgroup
	empty
}

# All that a task does in the one cgroup comes before all that it does in the other.
in_order() {
	anew a b
	echo "$PARENT" >$R/filter
	echo 1 >$R/options/record-cgroup
	sh -c "echo \$\$ >$C/a/cgroup.procs; calls getppid 50; echo \$\$ >$C/b/cgroup.procs; calls getppid 60"
	is 'in a' "$(events $R/trace | grep calls- | grep -c " $(id a):")" 50
	is 'in b' "$(events $R/trace | grep calls- | grep -c " $(id b):")" 60
	empty
}

# Seen from outside, and by itself.
namespaces() {
	local outside
	anew a
	echo "$PARENT" >$R/filter
	echo 1 >$R/options/record-cgroup
	sh -c "echo \$\$ >$C/a/cgroup.procs; exec tasks inside 20" >/tmp/id
	outside=$(cat /tmp/id)
	is 'the process' "$(shown "$outside")" "$(id a):1"
	is 'its calls' "$(events $R/trace | grep -c "tasks-$outside  *$(id a):1 ")" 20
	is "the thread's" "$(events $R/trace | grep -c " $(id a):2 ")" 20
	echo 0 >$R/tracing_on
	rawdump --nonblock --containers $R/per_cpu/cpu0/raw >/tmp/raw
	rawdump --nonblock --containers $R/per_cpu/cpu1/raw >>/tmp/raw
	is 'the process, raw' "$(grep -c "^$(id a):1:1 " /tmp/raw)" 20
	is 'the thread, raw' "$(grep -c "^$(id a):2:1 " /tmp/raw)" 20
	empty
}

# Records of raw that begin anywhere say the container all the same.
raw() {
	local i
	anew a
	teller
	echo $one >$C/a/cgroup.procs
	# No other task comes in between.
	echo /a >$R/cgroup
	echo 1 >$R/options/record-cgroup
	pick vfs_statx vfs_fstatat vfs_getattr >$R/filter
	: >/tmp/dumped
	for i in 1 2 3 4 5 6; do
		tell
		rawdump --nonblock --headers --containers $R/per_cpu/cpu0/raw >>/tmp/dumped
		rawdump --nonblock --headers --containers $R/per_cpu/cpu1/raw >>/tmp/dumped
	done
	is 'of all' "$(grep -E " (on|off)$" /tmp/dumped | sed 's/ .*//' | sort -u)" "$(id a):$one:$one"
	# (of the same sub-buffer there were several)
	sed -nE 's/^record (cpu .*) slots .* (subbuf [0-9]*) .*/\1 \2/p' /tmp/dumped | sort | uniq -d | grep -q .
	end_background
	echo >$R/cgroup
	empty
}

idle_tasks() {
	irq=$(pick irq_enter_rcu tick_sched_handle tick_nohz_handler hrtimer_interrupt)
	echo 1 >$R/options/record-cgroup
	echo "$irq" >$R/filter
	until_true 20 grep -q '<idle>-0 ' $R/trace
	is 'of idle tasks' "$(shown 0)" "$(id .):0"
}

# Each instance by itself; with the cgroups that are traced, or without.
several() {
	local i A=$R/instances/a
	anew a
	mkdir $A $R/instances/b
	echo 1 >$A/options/record-cgroup
	for i in a b; do echo "$PARENT" >$R/instances/$i/filter; done
	sh -c "echo \$\$ >$C/a/cgroup.procs; exec calls getppid 5"
	is 'in a' "$(events $A/trace | grep calls- | grep -c " $(id a):")" 5
	is 'in b' "$(events $R/instances/b/trace | grep calls- | grep -c " $(id a):")" 0
	is 'events in b' "$(events $R/instances/b/trace | grep -c calls-)" 5
	# What the cgroups that are traced need stays.
	echo /a >$A/cgroup
	echo 0 >$A/options/record-cgroup
	echo >$A/trace
	sh -c "echo \$\$ >$C/a/cgroup.procs; calls getppid 5; echo \$\$ >$C/cgroup.procs; calls getppid 7"
	is 'traced' "$(events $A/trace | grep -c calls-)" 5
	# And the other way.
	echo 1 >$A/options/record-cgroup
	echo >$A/cgroup
	echo >$A/trace
	sh -c "echo \$\$ >$C/a/cgroup.procs; calls getppid 5; echo \$\$ >$C/cgroup.procs; calls getppid 7"
	is 'in a' "$(events $A/trace | grep calls- | grep -c " $(id a):")" 5
	is 'in the root' "$(events $A/trace | grep calls- | grep -c " $(id .):")" 7
	rmdir $A $R/instances/b
	empty
}

t 'lines have the cgroup and the pid, if that is asked for' columns
t 'so have those of function_graph' by_graph
t 'a task that is moved is shown where it is' moved
t 'also if no other task is traced' moved_alone
t 'in the right order' in_order
t 'the pid is that in the namespace of the task' namespaces
t 'records of raw have it' raw
t 'idle tasks are in the root' idle_tasks
t 'each instance records what it is asked for' several
umount $C
finish
