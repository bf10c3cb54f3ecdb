#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The tasks that are not traced, and the CPUs that are: notrace_pid and tracing_cpumask.
. /tests/lib/ktap.sh

only_texts

reload
SLEEP=$(pick do_nanosleep)

# same FILE STOCK VALUES...: what tracefs takes, we take, and show.
same() {
	local ours=$R/$1 stock=$T/$2 value before
	shift 2
	before=$(cat "$stock")
	is "at first" "$(cat "$ours")" "$before"
	for value; do
		is "end of '$value'" "$(fileio write "$ours" "$value")" "$(fileio write "$stock" "$value")"
		is "after '$value'" "$(cat "$ours")" "$(cat "$stock")"
	done
}

seen_task() { grep -q -- "-$1 " $R/trace; }

notrace_words() {
	is 'link' "$(readlink $R/set_ftrace_notrace_pid)" notrace_pid
	is 'in status' "$(status notrace_pid)" empty
	same notrace_pid set_ftrace_notrace_pid 1 '1 2' '' '\n' foo -1 '1,2' '5 x' 4194303 0
	echo >$R/notrace_pid
	echo >$T/set_ftrace_notrace_pid
	echo 7 >$R/notrace_pid
	echo 9 >>$R/notrace_pid
	is 'list' "$(tr '\n' ' ' <$R/notrace_pid)" '7 9 '
	is 'in status' "$(status notrace_pid)" '2 tasks'
	says $R/pid 'no pid'
	echo '!7 !9' >>$R/notrace_pid
	says $R/notrace_pid 'no pid'
}

# By whatever tracer: $1.
not_traced() {
	local one other
	echo "$PARENT" >$R/filter
	echo "$1" >$R/current_tracer
	echo 1 >$R/options/funcgraph-proc
	background calls getppid 0 0
	one=$!
	background calls getppid 0 1
	other=$!
	until_true 20 seen_task $one
	until_true 20 seen_task $other
	echo $one >$R/notrace_pid
	echo >$R/trace
	until_true 20 seen_task $other
	fails seen_task $one
	# It wins.
	echo "$one $other" >$R/pid
	echo >$R/trace
	until_true 20 seen_task $other
	fails seen_task $one
	echo >$R/notrace_pid
	until_true 20 seen_task $one
	echo >$R/pid
	echo 0 >$R/options/funcgraph-proc
	end_background
}
not_by_function() { not_traced function; }
not_by_graph() { not_traced function_graph; }

masks() {
	same tracing_cpumask tracing_cpumask 1 2 3 0 3 '1\n' '0x1' f ff 100 '1,00000001' ',1' '1,' zz '\n' ' 2 ' 123456789 ffffffff 3
}

on_cpus() {
	echo "$PARENT" >$R/filter
	echo "$1" >$R/current_tracer
	background calls getppid 0 0
	background calls getppid 0 1
	echo 2 >$R/tracing_cpumask
	echo >$R/trace
	until_true 20 seen_in "$2" 1
	fails seen_in "$2" 0
	echo 1 >$R/tracing_cpumask
	echo >$R/trace
	until_true 20 seen_in "$2" 0
	fails seen_in "$2" 1
	echo 3 >$R/tracing_cpumask
	until_true 20 seen_in "$2" 1
	end_background
	echo 0 >$R/tracing_on
	accounts_agree
}
# (as function shows the CPU, or as function_graph does)
seen_in() { grep -qE "$(printf "$1" "$2")" $R/trace; }
on_cpus_by_function() { on_cpus function '\\[00%s\\]'; }
on_cpus_by_graph() { on_cpus function_graph '^ %s\\) '; }

# The kernel's, too, records no return on a CPU that is not traced.
open_call() {
	local sleeper dir
	for dir in $T $R; do
		stock_off
		echo nop >$R/current_tracer
		echo "$SLEEP" >$dir/set_ftrace_filter
		echo function_graph >$dir/current_tracer
		taskset 1 usleep 1000000000 &
		sleeper=$!
		until_true 20 grep -q nanosleep /proc/$sleeper/stack
		# (so that its return is an event of its own)
		taskset 1 usleep 1000
		echo 2 >$dir/tracing_cpumask
		echo >$dir/trace
		kill $sleeper
		wait $sleeper || :
		cat $dir/trace >/tmp/open.trace
		fails grep '^ 0) ' /tmp/open.trace
		echo 3 >$dir/tracing_cpumask
		taskset 1 usleep 1000
		until_true 20 grep -q '^ 0) ' $dir/trace
	done
	accounts_agree
	stock_off
}

# With funcgraph-wait: the sleeps of one task, and on one CPU.
waits() {
	echo "$SLEEP" >$R/filter
	echo 1 >$R/options/funcgraph-wait
	echo function_graph >$R/current_tracer
	sh -c 'echo $$ >'$R'/pid; exec usleep 30000'
	usleep 1000
	is hits "$(status hits)" 1
	is waits "$(grep -cE 'asleep [0-9.]+ us, queued' $R/trace)" 1
	echo >$R/pid
	echo >$R/trace
	sh -c 'echo $$ >'$R'/notrace_pid; exec usleep 1000'
	is hits "$(status hits)" 0
	echo >$R/notrace_pid
	echo 2 >$R/tracing_cpumask
	taskset 1 usleep 1000
	is hits "$(status hits)" 0
	taskset 2 usleep 1000
	is hits "$(status hits)" 1
	is waits "$(grep -cE '^ 1\) .*asleep [0-9.]+ us, queued' $R/trace)" 1
}

# With tracing_errno: on one CPU, and not of one task.
errors() {
	echo "$(sys mount) path_mount" >$R/filter
	echo 1 >$R/tracing_errno
	echo function_graph >$R/current_tracer
	echo 2 >$R/tracing_cpumask
	is errno "$(taskset 1 failing mount)" 19
	is 'events on CPU 0' "$(status 'events written')" 0
	is errno "$(taskset 2 failing mount)" 19
	cat $R/trace
	grep -qE "^ 1\) .*$(sys mount).* ret=-19" $R/trace
	echo >$R/trace
	sh -c 'echo $$ >'$R'/notrace_pid; exec taskset 2 failing mount'
	is 'events of the task' "$(status 'events written')" 0
}

t 'notrace_pid takes and shows what tracefs does' notrace_words
t 'tasks that function does not trace' not_by_function
t 'tasks that function_graph does not trace' not_by_graph
t 'tracing_cpumask takes and shows what tracefs does' masks
t 'CPUs that function does not trace' on_cpus_by_function
t 'CPUs that function_graph does not trace' on_cpus_by_graph
t 'function_graph with waits: of tasks and on CPUs that are traced' waits
if [ -e /sys/kernel/btf/vmlinux ]; then
	t 'function_graph with errors alone, too' errors
else
	skip 'function_graph with errors alone, too' 'the kernel does not say what its functions return'
fi
t 'a call is open whose CPU is not traced any more' open_call
finish
