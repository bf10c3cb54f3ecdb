#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# with-rftrace: programs that know tracefs find ours, and nobody else does.
. /tests/ktap.sh

reload

# (not every kernel has the second one)
PLACES=$(ls -d $T /sys/kernel/debug/tracing 2>/dev/null)
shown() {
	local place
	for place in $PLACES; do with-rftrace cat "$place/current_tracer"; done
}

found() {
	echo "$PARENT" >$R/filter
	is 'current_tracer there' "$(shown)" "$(for _ in $PLACES; do echo function; done)"
	is 'and here' "$(cat $T/current_tracer)" nop
	# What is written there is written to ours.
	with-rftrace sh -c 'echo vfs_read >/sys/kernel/tracing/set_ftrace_filter'
	says $R/filter vfs_read
	says $T/set_ftrace_filter '#### all functions enabled ####'
	with-rftrace sh -c 'echo "$TRACEFS_PATH"' >/tmp/path
	says /tmp/path $R
	# A program looks there whether a tracefs is mounted.
	with-rftrace cat /proc/mounts | grep -q ' /sys/kernel/tracing tracefs '
}

nothing_is_left() {
	cat /proc/mounts >/tmp/mounts.before
	with-rftrace true
	cmp /tmp/mounts.before /proc/mounts
}

ends_as_the_program() {
	local code
	for code in 0 1 77; do
		set +e
		with-rftrace sh -c "exit $code"
		got=$?
		set -e
		is 'exit code' $got $code
	done
}

# refused WORDS COMMAND...
refused() {
	local words=$1 got=0
	shift
	"$@" >/tmp/out 2>&1 || got=$?
	is 'exit code' $got 125
	grep -qF "$words" /tmp/out
}
says_why_not() {
	refused 'Usage: with-rftrace' with-rftrace
	with-rftrace --help >/dev/null
	unload
	refused 'the module is not loaded' with-rftrace true
	refused 'try: insmod rust_ftrace.ko' with-rftrace true
	load
}

t 'a program finds ours in the place of tracefs' found
t 'it leaves nothing behind' nothing_is_left
t 'it ends as the program does' ends_as_the_program
t 'it says why it cannot' says_why_not
finish
