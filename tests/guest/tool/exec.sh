#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# rftrace exec: programs that know tracefs find ours, and no other program does.
. /tests/lib/ktap.sh

only_texts

reload

# (not every kernel has the second one)
PLACES=$(ls -d $T /sys/kernel/debug/tracing 2>/dev/null)
shown() {
	local place
	for place in $PLACES; do rftrace exec cat "$place/current_tracer"; done
}

found() {
	echo "$PARENT" >$R/filter
	is 'current_tracer there' "$(shown)" "$(for _ in $PLACES; do echo function; done)"
	is 'and here' "$(cat $T/current_tracer)" nop
	# What is written there is written to ours.
	rftrace exec sh -c 'echo vfs_read >/sys/kernel/tracing/set_ftrace_filter'
	says $R/filter vfs_read
	says $T/set_ftrace_filter '#### all functions enabled ####'
	rftrace exec sh -c 'echo "$TRACEFS_PATH"' >/tmp/path
	says /tmp/path $R
	# A program looks there whether a tracefs is mounted.
	rftrace exec cat /proc/mounts | grep -q ' /sys/kernel/tracing tracefs '
}

# One that is mounted for the program is its own.
found_without_tracefs() {
	# (debugfs has mounted one of its own there)
	umount /sys/kernel/debug/tracing 2>/dev/null || :
	umount $T
	fails grep ' tracefs ' /proc/mounts
	echo "$PARENT" >$R/filter
	rftrace exec cat $T/current_tracer >/tmp/tracer
	grep ' tracefs ' /proc/mounts >/tmp/tracefs || :
	mount -t tracefs tracefs $T
	says /tmp/tracer function
	is 'mounted outside' "$(grep -v /sys/kernel/debug/tracing /tmp/tracefs)" ''
}

nothing_is_left() {
	cat /proc/mounts >/tmp/mounts.before
	rftrace exec true
	cmp /tmp/mounts.before /proc/mounts
	# Nor where what is mounted in one place is mounted in all others.
	mount --make-rshared /
	rftrace exec true
	cmp /tmp/mounts.before /proc/mounts
	mount --make-rprivate /
}

# ends CODE WORDS COMMAND...: with that code; it says the words, if there are any.
ends() {
	local code=$1 words=$2 got=0
	shift 2
	"$@" >/tmp/out 2>&1 || got=$?
	cat /tmp/out
	is 'exit code' $got "$code"
	[ -z "$words" ] || grep -qF "$words" /tmp/out
}

ends_as_the_program() {
	local code
	for code in 0 1 77; do
		ends $code '' rftrace exec sh -c "exit $code"
	done
	ends 143 '' rftrace exec sh -c 'kill $$'
	# Signals are as the program was to have them.
	ends 0 '' rftrace exec sh -c 'yes | head -n 1 >/dev/null'
	is 'ignored signals' "$(rftrace exec grep SigIgn /proc/self/status)" "$(grep SigIgn /proc/self/status)"
}

says_why_not() {
	ends 2 'Usage: rftrace exec' rftrace exec
	ends 127 'cannot run no-such-program: No such file' rftrace exec no-such-program
	ends 126 'cannot run /proc/mounts: Permission denied' rftrace exec /proc/mounts
	# (in a place of its own)
	ends 125 'the module rust_ftrace is loaded, but there is no /sys/kernel/debug/rftrace' unshare -m sh -c '
		mount -t tmpfs none /sys/kernel
		exec rftrace exec true'
	ends 125 "cannot mount a tracefs on $T: No such file" unshare -m sh -c '
		umount /sys/kernel/debug/tracing
		umount $0
		mount --move /sys/kernel/debug /mnt
		mount -t tmpfs none /sys/kernel
		exec rftrace exec true' $T
}

loads_the_module() {
	unload
	# It is nowhere that modprobe would find it.
	ends 125 'the module rust_ftrace is not loaded, and cannot be loaded' rftrace exec true
	ends 125 'try: insmod rust_ftrace.ko, or name that file: --module rust_ftrace.ko' rftrace exec true
	ends 125 'cannot open /no/module.ko: No such file' rftrace exec --module /no/module.ko true
	ends 125 'cannot load /tests/lib/ktap.sh, which is no module' rftrace exec --module /tests/lib/ktap.sh true
	fails test -e /sys/module/rust_ftrace
	ends 0 'rftrace: loaded /rust_ftrace.ko' rftrace exec --module /rust_ftrace.ko grep -x nop $T/current_tracer
	ends 0 'a module is loaded already: /no/module.ko is not looked at' rftrace exec --module /no/module.ko true
	unload
	# Where it is installed, its name is enough.
	mkdir -p /lib/modules/"$RELEASE"/updates
	cp /rust_ftrace.ko /lib/modules/"$RELEASE"/updates/
	depmod
	ends 0 'rftrace: loaded the module rust_ftrace (modprobe)' rftrace exec true
	rm /lib/modules/"$RELEASE"/updates/rust_ftrace.ko
	depmod
	unload
	umount /sys/kernel/debug
	ends 125 'debugfs is not mounted' rftrace exec --module /rust_ftrace.ko true
	mount -t debugfs none /sys/kernel/debug
	# Nothing was changed for nothing.
	fails test -e /sys/module/rust_ftrace
	load
}

who_may_not() {
	cp /usr/bin/rftrace /tmp/
	chmod 755 /tmp/rftrace
	ends 125 "try: sudo /tmp/rftrace exec echo 'a b'" unshare -U /tmp/rftrace exec echo 'a b'
}

completes() {
	local typed='env RFTRACE_COMPLETE=bash _CLAP_COMPLETE_INDEX=2 rftrace --'
	is 'functions' "$($typed rftrace why path_mou)" path_mount
	grep -x 'vfs_rea.*' /tmp/available | sort -u >/tmp/wanted
	$typed rftrace list vfs_rea | tr '\013' '\n' >/tmp/offered
	echo >>/tmp/offered
	diff /tmp/wanted /tmp/offered
}

t 'a program finds ours in the place of tracefs' found
t 'also where there is no tracefs' found_without_tracefs
t 'it leaves nothing behind' nothing_is_left
t 'it ends as the program does' ends_as_the_program
t 'it says why it cannot' says_why_not
t 'it loads the module, and says so' loads_the_module
if unshare -U true; then
	t 'who may not is told' who_may_not
else
	skip 'who may not is told' 'no namespaces of users'
fi
t 'functions are completed' completes
finish
