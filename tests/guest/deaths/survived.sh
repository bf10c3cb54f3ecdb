#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# An oops of a task that the machine lives through: the trace is on the console, still there, and ends where the task died,
# before the kernel wrote of it. All goes on, and the next death is shown as well.
. /tests/lib/ktap.sh
reload
. /tests/lib/dies.sh
insmod /lib/modules/dies_by.ko || exit 1

oopses() {
	# (the command line says so for all guests)
	echo 0 >/proc/sys/kernel/panic_on_oops
	echo 1 >$R/dump_on_oops
	mkdir $R/instances/other
	echo "$F" >$R/instances/other/filter
	# (what waits for events is told that there will be none)
	counting /tmp/pipe cat $R/instances/other/trace_pipe
	echo 2 >$R/instances/other/dump_on_oops
	echo function >$R/current_tracer
	opens 3
	if by oops 1; then return 1; fi
	is 'tracing_on' "$(cat $R/tracing_on $R/instances/other/tracing_on)" "0
0"
	cat $R/trace >/tmp/trace
	grep -q ': dies_by_step ' /tmp/trace
	tail -n 1000 /tmp/trace | grep -E ': (oops_end|show_regs|__show_regs|vprintk_emit|serial8250_console_write) <-' >/tmp/late || :
	is 'what was called after' "$(cat /tmp/late)" ''
}
t 'after an oops recording is off, and has not recorded what the kernel said of it' oopses
events /tmp/trace >/tmp/events
echo '# dump -'
echo "# ~ \\($(($(grep -c . /tmp/events) - 1024)) older events are not shown\\)"
tail -n 1024 /tmp/events | sed 's/^/# = /'
# (nothing of this CPU)
: >/tmp/none
echo '# dump other'

goes_on() {
	rmmod rust_ftrace
	insmod /rust_ftrace.ko dump_on_oops=1
	echo "$F" >$R/filter
	opens 3 1
	is 'events' "$(events $R/trace | grep -c ": $F ")" 3
}
t 'the module is removed and loaded after that, and traces' goes_on
cat $R/trace >/tmp/top
expect - /tmp/top
echo '# says Oops: .*SMP'
echo '# says Kernel panic - not syncing: sysrq triggered crash'
dies sh -c 'echo c >/proc/sysrq-trigger'
