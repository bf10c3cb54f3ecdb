#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The pid list: which tasks are traced, how it is edited, and that tracefs understands the same.
. /tests/lib/ktap.sh

reload

# in_list: what is in the list, in one line.
in_list() {
	tr '\n' ' ' <$R/pid | sed 's/ $//'
}

# pids_of FILE: whose events there are, in one line.
pids_of() {
	events "$1" | sed -E 's/^.{16}-([0-9]+) .*/\1/' | sort -n | uniq | tr '\n' ' ' | sed 's/ $//'
}

# all_traced IDS...: these are, whatever others are.
all_traced() {
	local pid
	echo >$R/trace
	for pid; do until_true $((20 * SLOWER)) grep -q -- "-$pid " $R/trace; done
}

# traced IDS...: of those that call getppid again and again, these are traced and no others.
traced() {
	local wanted
	wanted=$(echo "$@" | tr ' ' '\n' | sort -n | tr '\n' ' ' | sed 's/ $//')
	echo >$R/trace
	until_true $((20 * SLOWER)) all_seen "$wanted"
	echo 0 >$R/tracing_on
	cat $R/trace >/tmp/pid.trace
	echo 1 >$R/tracing_on
	is 'traced tasks' "$(pids_of /tmp/pid.trace)" "$wanted"
}
all_seen() {
	is 'tasks seen so far' "$(pids_of $R/trace)" "$1"
}

# worker ARG...: starts one that calls all the time; its ID is in $worker.
worker() {
	background "$@"
	worker=$!
}

empty() {
	says $R/pid 'no pid'
	is 'link' "$(readlink $R/set_ftrace_pid)" pid
	is 'in status' "$(status pid)" empty
	is 'as in tracefs' "$(cat $R/pid)" "$(cat $T/set_ftrace_pid)"
	# Then all tasks are traced.
	echo "$PARENT" >$R/filter
	calls getppid 5
	is calls "$(calls_of "$PARENT")" 5
}

edited() {
	echo 5 >$R/pid
	is replaced "$(in_list)" '5'
	is 'in status' "$(status pid)" '1 tasks'
	echo 7 >>$R/pid
	is added "$(in_list)" '5 7'
	printf '9 3\n\t 11 \n' >>$R/pid
	is 'several' "$(in_list)" '3 5 7 9 11'
	is 'in status' "$(status pid)" '5 tasks'
	echo '!5 !11' >>$R/pid
	is 'taken out' "$(in_list)" '3 7 9'
	echo '!5' >>$R/pid
	is 'taken out again' "$(in_list)" '3 7 9'
	echo '7 7 !7 8' >>$R/pid
	is 'in their order' "$(in_list)" '3 8 9'
	echo >>$R/pid
	is 'nothing added' "$(in_list)" '3 8 9'
	echo '!8' >$R/pid
	is 'replaced by nothing' "$(in_list)" 'no pid'
	echo '1 4194303 0' >$R/pid
	is 'the smallest and the largest' "$(in_list)" '0 1 4194303'
	echo '!0 !1 !4194303' >>$R/pid
	is 'the last one taken out' "$(in_list)" 'no pid'
	echo 6 >$R/pid
	: >$R/pid
	is 'emptied by opening' "$(in_list)" 'no pid'
	echo 6 >$R/pid
	echo >$R/pid
	is 'emptied by a new line' "$(in_list)" 'no pid'
}

words_in_parts() {
	gets ok $R/pid -t '12' '34 5' '6\n'
	is list "$(in_list)" '56 1234'
	gets ok $R/pid -a '!' '5' '6\n'
	is list "$(in_list)" 1234
	# Without an end, at the close.
	gets ok $R/pid -a '0x1' '0'
	is list "$(in_list)" '16 1234'
	gets ok $R/pid -t '7\0 8\0'
	is list "$(in_list)" '7 8'
	gets ok $R/pid -t '1 2' ' 3'
	is list "$(in_list)" '1 2 3'
}

# What tracefs takes, we take, and it means the same.
as_in_tracefs() {
	local value
	for value in 1 '1 2' '3\n2\n1\n' '' '\n' ' ' 0 '0 0' 0x10 010 +5 '+0x1F\n' '  12\t13  ' 1073741 \
		4194303 '5 5 5' foo -1 '!\n' 1,2 '1 foo' 1.5 '1-3' 08 '0x\n' 99999999999999999999 'no pid' '5 x 6'; do
		echo >$T/set_ftrace_pid
		echo >$R/pid
		is "end of '$value'" "$(fileio write $R/pid "$value")" \
			"$(fileio write $T/set_ftrace_pid "$value")"
		is "list after '$value'" "$(cat $R/pid)" "$(cat $T/set_ftrace_pid)"
	done
	echo >$T/set_ftrace_pid
}

# refused WORD TEXT: it is, nothing changes, and the log says which word it was.
# ($flags: those of fileio to do it with)
refused() {
	local word=$1 text=$2 flag before
	for flag in $flags; do
		echo >$R/error_log
		before=$(cat $R/pid)
		gets 'write EINVAL' $R/pid $flag "$text"
		is "list after '$text'" "$(cat $R/pid)" "$before"
		awk -v word="$word" '
			{ print }
			/^\[ *[0-9]+\.[0-9]+\] pid: error: [A-Z]/ { said = 1 }
			/^  Command: / { command = $0 }
			/^ *\^$/ { at = index($0, "^") }
			END { exit !said || !at || substr(command, at, length(word)) != word }' $R/error_log
	done
}

nonsense() {
	local list flags
	for list in '' '5 6 7'; do
		echo "$list" >$R/pid
		# (an empty list is the same, truncated or not)
		flags='-a -t'
		[ -n "$list" ] || flags=-a
		refused foo 'foo\n'
		refused foo foo
		refused foo '5 6 foo 8\n'
		refused -1 '-1\n'
		refused 1,2 '1,2\n'
		refused 5x '5x\n'
		refused '!' '!\n'
		refused '!!5' '!!5\n'
		refused '!foo' '!foo\n'
		refused 08 '08\n'
		refused 4194304 '4194304\n'
		refused 4194304 '1 4194304'
		refused '!4194304' '!4194304\n'
		refused 4294967297 '4294967297\n'
		refused 99999999999999999999 '1\n99999999999999999999\n2\n'
		refused 12x '1 12x'
	done
	# It is still in force.
	echo "$PARENT" >$R/filter
	calls getppid 5
	is calls "$(calls_of "$PARENT")" 0
	# What came before in the same opening stays, and a close does not clear.
	gets 'write EINVAL' $R/pid -t '8\n' 'foo\n'
	is list "$(in_list)" 8
}

only_these() {
	local a b c
	worker threads 0
	a=$worker
	worker threads 0
	b=$worker
	worker threads 0
	c=$worker
	echo "$PARENT" >$R/filter
	echo $a >$R/pid
	traced $a
	echo $b >>$R/pid
	traced $a $b
	echo $c >$R/pid
	traced $c
	echo "$a $b $c !$b" >$R/pid
	traced $a $c
	echo "!$a" >>$R/pid
	traced $c
	echo 4194303 >$R/pid
	echo >$R/trace
	calls getppid 1000
	is 'events for nobody' "$(status hits)" 0
	echo >$R/pid
	all_traced $a $b $c
}

# An ID is a thread's.
by_thread() {
	threads 3 >/tmp/threads &
	workers="$workers $!"
	until_true $((20 * SLOWER)) [ -s /tmp/threads ]
	read -r main one two three </tmp/threads
	echo "$PARENT" >$R/filter
	all_traced "$main" "$one" "$two" "$three"
	echo "$two" >$R/pid
	traced "$two"
	echo "$main" >$R/pid
	traced "$main"
	echo "$one $three" >$R/pid
	traced "$one" "$three"
}

# All that the idle tasks do, on each CPU, is theirs.
idle() {
	echo 64 >$R/buffer_size_kb
	echo 0 >$R/pid
	echo '*idle* *tick*' >$R/filter
	until_true $((20 * SLOWER)) on_both_cpus
	echo 0 >$R/tracing_on
	cat $R/trace >/tmp/pid.trace
	is 'traced tasks' "$(pids_of /tmp/pid.trace)" 0
}
on_both_cpus() {
	[ "$(stat_of 0 entries)" -gt 0 ] && [ "$(stat_of 1 entries)" -gt 0 ]
}

# An interrupt is the task's that it interrupts, as in tracefs.
interrupts() {
	worker calls getppid 0
	echo $worker >$R/pid
	echo "$(pick hrtimer_interrupt update_process_times)" >$R/filter
	until_true $((20 * SLOWER)) grep -q -- "-$worker " $R/trace
	echo 0 >$R/tracing_on
	cat $R/trace >/tmp/pid.trace
	is 'traced tasks' "$(pids_of /tmp/pid.trace)" $worker
	fails grep -vE '^#|\] ..[hH]' /tmp/pid.trace
}

thousands() {
	seq 1 3 60000 >/tmp/many
	# (in blocks of 4096 bytes, which cut words in two)
	cat /tmp/many >$R/pid
	cmp /tmp/many $R/pid
	is 'in status' "$(status pid)" "$(wc -l </tmp/many) tasks"
	seq 1 6 60000 | sed 's/^/!/' >>$R/pid
	seq 4 6 60000 >/tmp/half
	cmp /tmp/half $R/pid
	# In the middle of them, one that works; and then not.
	worker threads 0
	echo "$PARENT" >$R/filter
	echo $worker >>$R/pid
	traced $worker
	echo "!$worker" >>$R/pid
	echo >$R/trace
	calls getppid 1000
	# (neither is "calls" in it, unless its own ID is by chance)
	is 'events of the one taken out' "$(events $R/trace | grep -c -- "-$worker ")" 0
	cat /tmp/many >$R/pid
	cmp /tmp/many $R/pid
}

# The list changes all the time while two tasks run: one of them is always in it, and has all its
# events; the other never is.
under_load() {
	local in out i=0 count=$((20000 / SLOWER)) yield
	yield=$(sys sched_yield)
	echo "$yield" >$R/filter
	echo 16384 >$R/buffer_size_kb
	# The first one waits for its ID to be in the list.
	mkfifo /tmp/go
	sh -c "read -r go </tmp/go; exec calls yields $count 0" &
	in=$!
	sh -c "exec calls yields $count 1" &
	out=$!
	echo $in >$R/pid
	echo go >/tmp/go
	rm /tmp/go
	while kill -0 $in 2>/dev/null || kill -0 $out 2>/dev/null; do
		seq $((out + 1)) 1 $((out + 3000)) | sed "1i $in" >$R/pid
		echo "!$((out + 1)) $((out + 100000 + i))" >>$R/pid
		echo "$in 1" >$R/pid
		gets 'write EINVAL' $R/pid -t 'foo\n'
		i=$((i + 1))
	done
	wait $in
	wait $out
	[ $i -ge 1 ]
	is 'lost' "$(status 'events lost')" 0
	is 'events' "$(status 'events written')" $count
	cat $R/trace >/tmp/pid.trace
	is 'traced tasks' "$(pids_of /tmp/pid.trace)" $in
	accounts_agree
}

# With the other switches.
with_tracing_off() {
	worker threads 0
	echo "$PARENT" >$R/filter
	echo $worker >$R/pid
	echo 0 >$R/tracing_on
	echo >$R/trace
	calls getppid 1000
	is 'events while off' "$(status hits)" 0
	says $R/tracing_on 0
	echo 1 >$R/tracing_on
	traced $worker
	# By other clocks, by which events go another way.
	for clock in mono counter local; do
		echo $clock >$R/trace_clock
		traced $worker
	done
}

# of_task PID: how many events there are of it, and of these programs. (shells too call getppid)
of_task() {
	events /tmp/pid.trace | grep -cE "(tasks|calls)-$1 " || :
}

# Two tasks take turns on one CPU, so that each call comes right after a switch.
switched() {
	local kind=$1 tracer one other i count=$((2000 / SLOWER))
	echo "$PARENT" >$R/filter
	echo 1 >$R/options/funcgraph-proc
	mkfifo /tmp/begin
	for tracer in function calltrace function_graph; do
		for i in 1 2; do
			# shellcheck disable=SC2086 # a word, or none
			tasks turns $count $kind </tmp/begin >/tmp/both &
			exec 5>/tmp/begin
			until_true $((20 * SLOWER)) [ -s /tmp/both ]
			read -r one other </tmp/both
			[ $i -eq 1 ] || { i=$one one=$other other=$i; }
			echo $tracer >$R/current_tracer
			echo "$one" >$R/pid
			echo >$R/trace
			echo >&5
			wait $!
			exec 5>&-
			cat $R/trace >/tmp/pid.trace
			is "calls of the one in the list, by $tracer" "$(of_task "$one")" $count
			is "calls of the other, by $tracer" "$(of_task "$other")" 0
			: >/tmp/both
		done
	done
	rm /tmp/begin
}
processes_switched() { switched ''; }
threads_switched() { switched same; }

# From the end of a write on, nothing is as before: not on the CPU that wrote, nor on another.
at_once() {
	local tracer one other count=$((200 / SLOWER))
	echo "$PARENT" >$R/filter
	echo 1 >$R/options/funcgraph-proc
	for tracer in function function_graph; do
		echo $tracer >$R/current_tracer
		echo 1 >$R/pid
		echo >$R/trace
		tasks listed $count $R/pid >/tmp/both
		read -r one other </tmp/both
		cat $R/trace >/tmp/pid.trace
		is "calls of the one that writes, by $tracer" "$(of_task "$one")" $((3 * count))
		is "calls of the other, by $tracer" "$(of_task "$other")" $((3 * count))
		# The other way round.
		echo >$R/pid
		echo 1 >$R/notrace_pid
		echo >$R/trace
		tasks listed $count $R/notrace_pid >/tmp/both
		read -r one other </tmp/both
		cat $R/trace >/tmp/pid.trace
		is "calls of the one that writes, by $tracer" "$(of_task "$one")" $((3 * count))
		is "calls of the other, by $tracer" "$(of_task "$other")" $((3 * count))
		echo >$R/notrace_pid
	done
}

# An ID is in turn that of a task that is traced and of one that is not: one of them has it from the list, which follows
# forks.
same_id_again() {
	local id list count=$((30 / SLOWER + 3))
	echo "$PARENT" >$R/filter
	echo 1 >$R/options/function-fork
	for list in pid notrace_pid; do
		echo 1 >$R/$list
		echo >$R/trace
		tasks again $count $R/$list >/tmp/both
		read -r id </tmp/both
		cat $R/trace >/tmp/pid.trace
		is "calls of those that are traced, by $list" "$(of_task "$id")" $count
		echo >$R/$list
	done
}

# A thread that executes a program gets the ID of its process, without a switch.
executed() {
	local leader thread list
	echo "$PARENT" >$R/filter
	mkfifo /tmp/go
	for list in pid notrace_pid; do
		sh -c 'read -r go </tmp/go; exec tasks exec 5 calls getppid 7' >/tmp/both &
		leader=$!
		echo $leader >$R/$list
		echo >$R/trace
		echo go >/tmp/go
		wait $leader
		read -r thread leader </tmp/both
		cat $R/trace >/tmp/pid.trace
		case $list in
		pid)
			is 'calls before' "$(of_task "$thread")" 0
			is 'calls after' "$(of_task "$leader")" 7 ;;
		*)
			is 'calls before' "$(of_task "$thread")" 5
			is 'calls after' "$(of_task "$leader")" 0 ;;
		esac
		echo >$R/$list
	done
	rm /tmp/go
}

# On each CPU.
not_idle() {
	echo 64 >$R/buffer_size_kb
	echo 0 >$R/notrace_pid
	echo '*idle* *tick*' >$R/filter
	background calls turns 0 0
	background calls turns 0 1
	until_true $((20 * SLOWER)) on_both_cpus
	end_background
	usleep 100000
	echo 0 >$R/tracing_on
	cat $R/trace >/tmp/pid.trace
	fails grep -E '^ *<idle>-0 ' /tmp/pid.trace
}

t 'empty: no pid, and all are traced' empty
t '> replaces, >> adds, ! takes out' edited
t 'words that come in parts' words_in_parts
texts 'tracefs takes the same, and it means the same' as_in_tracefs
texts 'nonsense is refused, is named, and changes nothing' nonsense
t 'only the tasks in the list are traced' only_these
t 'threads are told apart' by_thread
t '0 is the idle tasks, of all CPUs' idle
t 'interrupts count as the task that they interrupt' interrupts
t 'thousands of tasks' thousands
t 'edited all the time under load: who stays has all its events' under_load
t 'two processes that take turns on one CPU' processes_switched
t 'two threads that do' threads_switched
t 'from the end of a write on it is so, on each CPU' at_once
t 'an ID that is given again' same_id_again
t 'a thread that gets another ID by an exec' executed
t 'the idle tasks can be left out' not_idle
t 'with tracing_on 0, and other clocks' with_tracing_off
finish
