#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Commands in the filter: traceon, traceoff, snapshot, dump, cpudump (stacktrace: tracers/stacks.sh).
. /tests/lib/ktap.sh

reload

# What of the list is about commands.
commands() {
	grep -v '^#' $R/filter | tr '\n' ' ' | sed 's/ $//'
}

words() {
	local word other
	other=$(sys pivot_root)
	stock_off
	# (of functions that are not called meanwhile)
	listed_as_there sort 'path_umount:traceoff' 'path_mount:traceon:3' "$other:dump" 'path_mount:traceoff:7' 'path_mount'
	# (not every kernel has snapshots)
	if [ -e $T/snapshot ]; then listed_as_there sort 'path_umount:snapshot:0x10' '!path_umount:snapshot:0'; fi
	listed_as_there sort '!path_umount:traceoff' "!$other:dump:0" '!path_mount:traceon:3' '!path_mount:traceoff:0'
	is 'tracer' "$(cat $R/current_tracer)" function
	listed_as_there sort '!path_mount'
	is 'tracer' "$(cat $R/current_tracer)" nop
	stock_off
	for word in 'path_mount:traceoff:x' 'path_mount:traceof' 'no_such_function:snapshot' ':dump' \
		'path_mount:snapshot:1:2'; do
		gets 'write EINVAL' $R/filter "$word
"
	done
	gets 'write EINVAL' $R/notrace 'path_mount:traceoff
'
	says $R/filter '#### all functions enabled ####'
}

# As tools/testing/selftests/ftrace has it.
on_and_off() {
	echo 'vfs_*' >$R/filter
	echo "$PARENT:traceoff" >>$R/filter
	is 'tracing_on' "$(cat $R/tracing_on)" 1
	calls getppid 1
	is 'tracing_on' "$(cat $R/tracing_on)" 0
	cat $R/trace | md5sum >/tmp/sum1
	ls -lR /proc/self >/dev/null 2>&1
	cat $R/trace | md5sum >/tmp/sum2
	cmp /tmp/sum1 /tmp/sum2
	echo "!$PARENT:traceoff" >>$R/filter
	is 'commands' "$(commands | grep -c trace)" 0
	is 'tracing_on' "$(cat $R/tracing_on)" 0
	echo >$R/trace
	# Commands do not depend on anything that is traced.
	echo nop >$R/current_tracer
	echo >$R/filter
	echo 1 >$R/pid
	echo "$PARENT:traceon" >>$R/filter
	is 'tracer' "$(cat $R/current_tracer)" nop
	is 'armed' "$(status 'armed functions')" 1
	hooked_as_said
	calls getppid 1
	is 'tracing_on' "$(cat $R/tracing_on)" 1
	is 'present' "$(status 'events present')" 0
	echo "!$PARENT:traceon" >>$R/filter
	is 'armed' "$(status 'armed functions')" 0
}

counted() {
	echo "$PARENT:traceoff:3" >$R/filter
	for left in 2 1 0; do
		calls getppid 5
		is 'tracing_on' "$(cat $R/tracing_on)" 0
		is 'left' "$(commands)" "$PARENT:traceoff:count=$left"
		echo 1 >$R/tracing_on
	done
	calls getppid 5
	is 'tracing_on' "$(cat $R/tracing_on)" 1
	is 'left' "$(commands)" "$PARENT:traceoff:count=0"
	# The same again begins anew, and two commands of a function do not disturb each other.
	echo "$PARENT:traceoff:1" >>$R/filter
	echo "$PARENT:traceon:1" >>$R/filter
	calls getppid 1
	is 'left' "$(commands)" "$PARENT:traceon:count=1 $PARENT:traceoff:count=0"
	calls getppid 1
	is 'left' "$(commands)" "$PARENT:traceon:count=0 $PARENT:traceoff:count=0"
	is 'tracing_on' "$(cat $R/tracing_on)" 1
}

# Two CPUs at the same functions: each change of state is counted once, none twice.
exact() {
	local i count on
	count=$(some 2000)
	on=$(sys sched_yield)
	echo "$PARENT:traceoff:$((count + 7))" >$R/filter
	echo "$on:traceon:$count" >>$R/filter
	for i in 0 1; do
		background calls getppid 0 $i
		background calls yields 0 $i
	done
	until_true 60 grep -q "^$on:traceon:count=0$" $R/filter
	until_true 10 grep -qx 0 $R/tracing_on
	end_background
	commands
	# It is off after one change more than it was on.
	is 'left' "$(commands | tr ' ' '\n' | grep traceoff)" "$PARENT:traceoff:count=6"
}

readers_end() {
	echo 'path_mount' >$R/filter
	echo "$PARENT:traceoff" >>$R/filter
	cat $R/trace_pipe >/tmp/pipe &
	local pid=$!
	mkdir -p /tmp/m
	mount -t tmpfs none /tmp/m
	umount /tmp/m
	until_true 10 test -s /tmp/pipe
	calls getppid 1
	wait $pid
}

snapshots() {
	echo "$PARENT" >$R/filter
	echo 'path_mount:snapshot:2' >>$R/filter
	mkdir -p /tmp/m
	grep -q 'Snapshot is allocated' $R/snapshot
	calls getppid 50
	mount -t tmpfs none /tmp/m
	umount /tmp/m
	until_true 10 sh -c "grep -q calls- $R/snapshot"
	is 'kept' "$(grep -cE "^ *calls-.*: $PARENT <-" $R/snapshot)" 50
	is 'left' "$(grep -o 'path_mount:.*' $R/filter)" 'path_mount:snapshot:count=1'
	is 'in the buffer' "$(calls_of "$PARENT")" 0
	until_true 10 sh -c "[ \$(sed -n 's/^tracing_on: //p' $R/status) = 1 ]"
	calls getppid 20
	is 'in the buffer' "$(calls_of "$PARENT")" 20
	mount -t tmpfs none /tmp/m
	umount /tmp/m
	until_true 10 sh -c "[ \$(grep -c calls- $R/snapshot) -eq 20 ]"
	calls getppid 3
	mount -t tmpfs none /tmp/m
	umount /tmp/m
	is 'kept' "$(grep -c calls- $R/snapshot)" 20
	is 'in the buffer' "$(calls_of "$PARENT")" 3
	echo 0 >$R/tracing_on
	accounts_agree
}

# Snapshots one after the other, while both CPUs record: all that is not in a buffer is counted.
many_snapshots() {
	echo "$PARENT vfs_*" >$R/filter
	echo "$(sys sched_yield):snapshot:20" >>$R/filter
	counting /tmp/c1 calls getppid 0 0
	counting /tmp/c2 calls getppid 0 1
	background calls yields 0 1
	until_true 60 grep -q ":snapshot:count=0$" $R/filter
	calls getppid 5
	end_background
	echo 0 >$R/tracing_on
	status 'lost while a snapshot was taken'
	[ "$(status 'lost while a snapshot was taken')" -gt 0 ]
	[ "$(status 'events written')" -gt 0 ]
	accounts_agree
}

# ruled COUNT: the log has so many rules.
ruled() {
	dmesg >/tmp/log
	[ "$(grep -c ': ---------------------------------$' /tmp/log)" -ge "$1" ]
}

# What is in the log since the last dump began.
dumped() {
	awk '/Dumping the trace/ { text = "" } { text = text "\n" $0 } END { print text }' /tmp/log
}

dumps() {
	echo "$PARENT" >$R/filter
	calls getppid 30 0
	calls getppid 20 1
	echo 'path_mount:dump' >>$R/filter
	mkdir -p /tmp/m
	mount -t tmpfs none /tmp/m
	umount /tmp/m
	is 'tracing_on' "$(cat $R/tracing_on)" 0
	until_true 20 ruled 2
	is 'dumped' "$(dumped | grep -cE "calls-.*: $PARENT <-")" 50
	grep -q '^path_mount:dump:count=0$' $R/filter
	# Once.
	echo 1 >$R/tracing_on
	mount -t tmpfs none /tmp/m
	umount /tmp/m
	is 'tracing_on' "$(cat $R/tracing_on)" 1
	dmesg -c >/dev/null
	echo "$(sys sched_yield):cpudump" >>$R/filter
	calls yields 1 1
	is 'tracing_on' "$(cat $R/tracing_on)" 0
	until_true 20 ruled 2
	dumped | tail -n 30
	[ "$(dumped | grep -cE "calls-.*\[001\].*: $PARENT <-")" -ge 20 ]
	is 'of others' "$(dumped | grep -c '\[000\]')" 0
}

# A few thousand functions, as the kernel's own tests do.
many_functions() {
	cut -d' ' -f1 $T/available_filter_functions | grep lock | sort -u >/tmp/expected
	echo '*lock*:traceoff' >$R/filter
	actual() { grep -v '#' $R/filter | cut -d' ' -f1 | cut -d: -f1 | sort -u; }
	actual | cmp - /tmp/expected
	grep -v 'try.*lock$' /tmp/expected >/tmp/expected2
	echo '!*try*lock:traceoff' >>$R/filter
	actual | cmp - /tmp/expected2
	echo '!*:traceoff' >>$R/filter
	is 'left' "$(actual)" ''
	is 'tracing_on' "$(cat $R/tracing_on)" 0
}

# What asking calls has commands itself.
in_itself() {
	local name
	for name in $(grep -E '^(arch_irq_work_raise|queue_work_on|__queue_work|insert_work|irq_work_run)$' /tmp/available); do
		for word in traceoff traceon snapshot; do echo "$name:$word" >>$R/filter; done
	done
	cat $R/filter
	echo function >$R/current_tracer
	calls files 5
	ls -lR /proc/self >/dev/null 2>&1
	for word in traceoff traceon snapshot; do echo "!*:$word" >>$R/filter; done
	says $R/filter '#### all functions enabled ####'
	echo 0 >$R/tracing_on
	accounts_agree
}

t 'words are listed as in tracefs' words
t 'traceoff and traceon, whatever is traced' on_and_off
t 'counts' counted
t 'counts are exact on two CPUs' exact
t 'who waits is told that recording is off' readers_end
t 'snapshot' snapshots
t 'what is lost while a snapshot is taken is counted' many_snapshots
t 'dump and cpudump' dumps
t 'thousands of functions' many_functions
t 'functions that commands call' in_itself
finish
