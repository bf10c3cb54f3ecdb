#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The main job: name a function, see its callers.
. /tests/lib/ktap.sh

only_texts

mount_and_umount() {
	mount -t tmpfs rftrace /mnt
	umount /mnt
}

# The caller of path_mount depends on what the compiler inlined: the kernel's tracer says it.
stock_line() {
	echo path_mount >$T/set_ftrace_filter
	echo function >$T/current_tracer
	mount_and_umount
	events $T/trace | sed 's/.*: //'
	stock_off
}

main_job() {
	local line wanted
	wanted=$(stock_line)
	reload
	echo path_mount >$R/filter
	says $R/current_tracer function
	says $R/filter path_mount
	mount_and_umount
	events $R/trace >/tmp/main
	cat /tmp/main
	is lines "$(wc -l </tmp/main)" 1
	is call "$(sed 's/.*: //' /tmp/main)" "$wanted"
	grep -qE '^ +mount-[0-9]+ +\[00[01]\] .{5} +[0-9]+\.[0-9]{6}: path_mount <-' /tmp/main
	is hits "$(status hits)" 1
	is armed "$(status 'armed functions')" 1
	# It can be read again, and one mount more is one line more.
	events $R/trace | cmp - /tmp/main
	mount_and_umount
	is lines "$(hits path_mount)" 2
}

names_the_caller_process() {
	local pid
	reload
	echo "$PARENT" >$R/filter
	calls getppid 1 1 &
	pid=$!
	wait $pid
	events $R/trace >/tmp/main
	cat /tmp/main
	grep -qE "^ +calls-$pid +\[001\] " /tmp/main
}

clearing_ends_it() {
	reload
	echo path_mount >$R/filter
	mount_and_umount
	echo >$R/filter
	says $R/current_tracer nop
	says $R/filter '#### all functions enabled ####'
	is armed "$(status 'armed functions')" 0
	is hooked "$(grep -c . $T/enabled_functions)" 0
	mount_and_umount
	# What was traced is still there.
	is lines "$(hits path_mount)" 1
}

inlined() {
	# The kernel's own tracer says whether the call is there at all.
	local calls
	grep -qxF do_mount /tmp/available
	echo do_mount >$T/set_ftrace_filter
	echo function >$T/current_tracer
	mount_and_umount
	calls=$(events $T/trace | grep -c .) || :
	stock_off
	reload
	echo do_mount >$R/filter
	says $R/filter do_mount
	mount_and_umount
	is armed "$(status 'armed functions')" 1
	is hits "$(status hits)" "$calls"
	is lines "$(hits do_mount)" "$calls"
}

alias() {
	reload
	echo __x64_sys_getppid >$R/filter
	says $R/filter "$PARENT"
	calls getppid 5
	is lines "$(calls_of "$PARENT")" 5
}

stop_and_go() {
	reload
	echo "$PARENT" >$R/filter
	echo 0 >$R/tracing_on
	calls getppid 5
	is 'while off' "$(calls_of "$PARENT")" 0
	is armed "$(status 'armed functions')" 1
	echo 1 >$R/tracing_on
	calls getppid 3
	is 'when on again' "$(calls_of "$PARENT")" 3
	echo nop >$R/current_tracer
	calls getppid 3
	is 'armed with nop' "$(status 'armed functions')" 0
	says $R/filter "$PARENT"
	echo function >$R/current_tracer
	calls getppid 2
	# (a tracer starts with an empty buffer, as in tracefs)
	is 'after the start' "$(calls_of "$PARENT")" 2
}

# What the process does at its end, and the shell that stops recording, comes after its calls. On a busy
# machine that can be more than the buffer holds.
last_ones_seen() {
	echo >$R/trace
	echo 1 >$R/tracing_on
	calls getppid 100
	echo 0 >$R/tracing_on
	[ "$(calls_of "$PARENT")" -ge 1 ]
}

all_functions() {
	reload
	echo 256 >$R/buffer_size_kb
	echo function >$R/current_tracer
	says $R/filter '#### all functions enabled ####'
	is armed "$(status 'armed functions')" "$(grep -c . /tmp/available)"
	tries 5 last_ones_seen
	# One that is called by name is not stopped by an empty filter.
	echo >$R/filter
	says $R/current_tracer function
}

if grep -qxF path_mount /tmp/available; then
	t 'a mount shows who calls path_mount' main_job
	t 'an emptied filter ends the tracing, what was traced stays' clearing_ends_it
else
	skip 'a mount shows who calls path_mount' 'path_mount cannot be traced here'
	skip 'an emptied filter ends the tracing' 'path_mount cannot be traced here'
fi
if grep -qxF do_mount /tmp/available; then
	t 'do_mount is armed, and hit as often as the kernel says' inlined
else
	skip 'do_mount is armed, and hit as often as the kernel says' 'it cannot be traced here'
fi
t 'a line names the process and the CPU' names_the_caller_process
if grep -q ' __x64_sys_getppid$' /proc/kallsyms; then
	t "another name of $PARENT arms it" alias
else
	skip 'another name arms a function' 'there is no __x64_sys_getppid'
fi
t 'recording stops and goes on; nop keeps the filter' stop_and_go
t 'the tracer started by name with an empty filter traces all' all_functions
finish
