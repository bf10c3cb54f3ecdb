#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The command rftrace: trace, record, replay, info.
. /tests/lib/ktap.sh

reload
F=/tmp/recorded

# An instance of the command is there.
instance() {
	ls -d $R/instances/rftrace.* 2>/dev/null
}
without_instance() {
	is 'instances left over' "$(instance)" ''
}

a_mount() {
	rftrace trace -g path_mount mount -t tmpfs none /mnt >/tmp/out 2>/tmp/said
	umount /mnt
	cat /tmp/said
	head -n 20 /tmp/out
	grep -q '^# tracer: function_graph' /tmp/out
	grep -q ')               |  path_mount() {' /tmp/out
	grep -q '|    security_sb_mount() {' /tmp/out
	grep -q 'events, none lost; .* s of CPU for it, in ' /tmp/said
	without_instance
}

# shown FILE: its lines of calls, from the column of functions on.
shown() { grep -v '^#' "$1" | grep '|  ' | sed 's/^[^|]*//'; }

# Only the calls by which an error came, as they are made and in a recording. (the program ends with 0)
an_error() {
	# (few functions, as to hook all takes long; on one CPU, as a call that moves to another is shown in two lines)
	set -- -l '*mount*' -l '*fs_type*' -g "$(sys mount)"
	taskset 1 rftrace trace --errno ENODEV "$@" failing mount >/tmp/out 2>/tmp/said
	cat /tmp/said /tmp/out
	grep -q '^19$' /tmp/out
	grep -q '|  *get_fs_type(); /\* ret=0x0 \*/$' /tmp/out
	grep -q "|  } /\* $(sys mount) ret=-19 \*/\$" /tmp/out
	shown /tmp/out
	is 'calls' "$(shown /tmp/out | grep -c .)" "$(($(grep -c '{$' /tmp/out) * 2 + 1))"
	taskset 1 rftrace record -q -o $F --errno any "$@" failing mount
	rftrace replay $F >/tmp/again
	is 'in a recording' "$(shown /tmp/again)" "$(shown /tmp/out)"
	fails rftrace trace --errno ENOSUCH true 2>/tmp/said
	cat /tmp/said
	grep -q 'tracing_errno' /tmp/said
	grep -q 'There is no error of this name' /tmp/said
	fails rftrace trace -p function --errno any true 2>/tmp/said
	grep -q -e '--errno takes the tracer function_graph' /tmp/said
	without_instance
}

# For how long a call slept, in a recording and as it is made.
waits() {
	local comment='do_nanosleep(); /\* asleep [0-9.]* us, queued [0-9.]* us, woken by \[hardirq\] \*/'
	rftrace record -q -o $F --wait -l do_nanosleep usleep 50000
	rftrace replay $F >/tmp/out
	cat /tmp/out
	grep -q "$comment" /tmp/out
	rftrace replay --json $F >/tmp/out
	cat /tmp/out
	grep -q '"asleep_ns":[45][0-9]\{7\},"queued_ns":[0-9]*,"woken_by":"hardirq"' /tmp/out
	rftrace trace --wait -l do_nanosleep usleep 50000 >/tmp/out 2>/tmp/said
	cat /tmp/out
	grep -q "${comment#*;}" /tmp/out || grep -q '} /\* do_nanosleep asleep [0-9.]* us, queued [0-9.]* us, woken by \[hardirq\] \*/' /tmp/out
	rftrace record -q -o $F -l do_nanosleep usleep 50000
	is 'without' "$(rftrace replay --json $F | grep -c asleep)" 0
	without_instance
}

# Of what the module's own trace shows nothing is missing in a recording.
recorded() {
	rftrace record -o $F -g path_mount -l '*mount*' -l '*sb*' mount -t tmpfs none /mnt 2>/tmp/said || { cat /tmp/said; return 1; }
	umount /mnt
	cat /tmp/said
	without_instance
	rftrace replay $F >/tmp/out 2>/tmp/errors
	is 'said' "$(cat /tmp/errors)" ''
	is 'begins' "$(grep -c ' path_mount() {' /tmp/out)" 1
	# Every call ends, and is as deep as it was when it began.
	grep -v '^#' /tmp/out | cut -d'|' -f2- >/tmp/calls
	is 'ends' "$(grep -c '^ *}$' /tmp/calls)" "$(grep -c '{$' /tmp/calls)"
	is 'last' "$(tail -n 1 /tmp/calls)" '  }'
	[ "$(grep -c ';$' /tmp/calls)" -gt 5 ]
	rftrace info $F >/tmp/info
	cat /tmp/info
	grep -q '^tracer  *function_graph$' /tmp/info
	grep -q '^lost  *0$' /tmp/info
	grep -q '^command  *ended with 0$' /tmp/info
	is 'events' "$(sed -n 's/^rftrace: .*, \([0-9]*\) events, .*/\1/p' /tmp/said)" \
		"$(sed -n 's/^events  *\([0-9]*\) in .*/\1/p' /tmp/info)"
	rftrace replay --json $F | grep -q '"event":"entry","function":"path_mount","caller":"__x64_sys_mount","depth":0'
	rftrace replay $F -D 1 | grep -v '^#' >/tmp/out
	is 'at depth 1' "$(sed 's/.*|  //' /tmp/out)" 'path_mount();'
}

exits() {
	is 'of a command' "$(rftrace record -q -o $F -l path_mount sh -c 'exit 7'; echo $?)" 7
	is 'by a signal' "$(rftrace record -q -o $F -l path_mount sh -c 'kill -9 $$'; echo $?)" 137
	is 'without a command' "$(rftrace record -q -o $F -l path_mount /no/such 2>/tmp/said; echo $?)" 127
	grep -q 'cannot run /no/such: No such file' /tmp/said
	without_instance
	is 'with a wrong name' "$(rftrace record -o $F -l no_such_function true 2>/tmp/said; echo $?)" 125
	cat /tmp/said
	grep -q 'filter does not take no_such_function: ' /tmp/said
	[ ! -e $F.no ]
	without_instance
	is 'with a wrong option' "$(rftrace record -Z 2>/tmp/said; echo $?)" 2
	is 'of no recording' "$(rftrace replay /bin/busybox 2>/tmp/said; echo $?)" 1
	grep -q 'cannot read /bin/busybox: it is not a recording of rftrace' /tmp/said
}

# Of its tasks only; the command, which is none of them, says how long.
C=/tmp/cgroups
of_a_cgroup() {
	local name
	mkdir "$C/a b"
	background calls getppid 0 0
	echo $! >"$C/a b/cgroup.procs"
	for name in "$C/a b" "$(stat -c %i "$C/a b")" "/"; do
		# (long enough for the task in it to run, too)
		rftrace record -q -o $F --cgroup "$name" -p function -l "$PARENT" sh -c 'calls getppid 50; usleep 60000'
		rftrace replay $F >/tmp/out
		grep -q -- "-$! " /tmp/out
		is "of the command, by $name" "$(grep -v -- "-$! " /tmp/out | grep -c ' calls-')" $([ "$name" = / ] && echo 50 || echo 0)
	done
	# The IDs are there, if they are asked for.
	rftrace replay -O record-cgroup $F >/tmp/out
	grep -q -- "-$! .* $(stat -c %i "$C/a b"):$! " /tmp/out
	rftrace replay --json $F | grep -q "\"cgroup\":$(stat -c %i "$C/a b"),\"ns_pid\":$!,\"ns_tgid\":$!,"
	is 'none such' "$(rftrace trace --cgroup /nope -l "$PARENT" true >/tmp/out 2>/tmp/said; echo $?)" 125
	cat /tmp/said
	grep -q "cgroup does not take /nope: No such cgroup; /proc/PID/cgroup has paths behind '0::'" /tmp/said
	without_instance
	end_background
	until_true 20 rmdir "$C/a b"
}

# armed PATH: functions that are armed by an instance.
armed() {
	sed -n 's/^armed functions: //p' "$1/status"
}

# The program that records may be killed.
killed() {
	rftrace record -o $F -a -l 'vfs_*' 2>/tmp/said &
	recorder=$!
	until_true 20 is_recording $recorder
	path=$R/instances/rftrace.$recorder
	[ "$(armed $path)" -gt 20 ]
	until_true 20 has_chunks
	kill -9 $recorder
	wait $recorder || true
	until_true 1 is 'armed' "$(armed $path)" 0
	grep '^memory' $path/status
	is 'enabled' "$(grep -c . $R/enabled_functions)" 0
	rftrace replay $F >/tmp/out 2>/tmp/said
	cat /tmp/said
	grep -q 'was broken off' /tmp/said
	grep -q 'vfs_read' /tmp/out
	# The next one cleans up.
	rftrace record -q -o $F -l path_mount true
	without_instance
}
# (a new instance is on, and has nothing to do)
is_recording() {
	[ "$(cat $R/instances/rftrace."$1"/current_tracer)" = function_graph ] &&
		[ "$(cat $R/instances/rftrace."$1"/tracing_on)" = 1 ]
}
# (events come by chunks of a megabyte, or half a buffer)
has_chunks() {
	head -c 20000000 /dev/zero | dd bs=64 of=/dev/null 2>/dev/null
	[ "$(rftrace info --json $F | sed 's/.*"events":\([0-9]*\),"file.*/\1/')" -gt 0 ]
}

interrupted() {
	rftrace record -o $F -a -l 'vfs_*' 2>/tmp/said &
	recorder=$!
	until_true 20 is_recording $recorder
	cat /proc/self/status >/dev/null
	kill -INT $recorder
	wait $recorder
	cat /tmp/said
	rftrace info $F | grep '^lost  *0$'
	rftrace replay $F | grep -q 'vfs_read'
	without_instance
}

full_disk() {
	# (with room for what is there in any case, symbols above all, and for some events)
	rftrace record -o $F -l vfs_read true 2>/tmp/said
	mount -t tmpfs -o size=$(($(stat -c %s $F) / 1024 + 400))k none /mnt
	code=0
	rftrace record -o /mnt/full -a --force -l 'vfs_*' dd if=/dev/zero of=/dev/null bs=16 count=200000 2>/tmp/said || code=$?
	cat /tmp/said
	is 'end' $code 1
	grep -q 'it was broken off: No space left on device' /tmp/said
	# Nothing is missing without being counted.
	grep -q ' lost (.*[1-9][0-9]* not written' /tmp/said
	rftrace replay /mnt/full >/tmp/out 2>/tmp/said
	umount /mnt
	grep -q 'was broken off' /tmp/said
	[ "$(grep -c vfs_ /tmp/out)" -gt 10000 ]
	without_instance
}

limits() {
	rftrace record -o $F -a -l 'vfs_*' --duration 1s 2>/tmp/said
	cat /tmp/said
	grep -q ' in 1\.[0-9]* s$' /tmp/said
	rftrace record -o $F -a --force -l 'vfs_*' --max-size 1M dd if=/dev/zero of=/dev/null bs=16 count=10000000 2>/tmp/said
	cat /tmp/said
	[ "$(stat -c %s $F)" -ge 1048576 ]
	[ "$(stat -c %s $F)" -lt 20000000 ]
	killall dd || true
}

# The newest events, with no recorder at work meanwhile.
newest() {
	rftrace record -o $F --overwrite 1M -l 'vfs_*' dd if=/dev/zero of=/dev/null bs=16 count=200000 2>/tmp/said
	cat /tmp/said
	grep -q ' lost (.* overwritten)' /tmp/said
	rftrace replay $F >/tmp/out 2>/tmp/said
	cat /tmp/said
	grep -q 'events were lost while it was recorded' /tmp/said
	[ "$(grep -c vfs_ /tmp/out)" -gt 20000 ]
	# (the last thing that it does)
	grep 'vfs_write' /tmp/out | tail -n 1
}

controlled() {
	rm -f /tmp/ctl /tmp/ack
	mkfifo /tmp/ctl /tmp/ack
	rftrace record -q -o $F -a -l path_mount --control fifo:/tmp/ctl,/tmp/ack &
	recorder=$!
	exec 5<>/tmp/ctl 6<>/tmp/ack
	read -r -t 20 word <&6
	is 'begins' "$word" ready
	mount -t tmpfs none /mnt && umount /mnt
	for word in disable; do
		echo $word >&5
		read -r -t 20 answer <&6
		is "$word" "$answer" ack
	done
	mount -t tmpfs none /mnt && umount /mnt
	echo stop >&5
	read -r -t 20 answer <&6
	is 'stop' "$answer" ack
	wait $recorder
	exec 5>&- 6>&-
	is 'mounts' "$(rftrace replay $F | grep -c path_mount)" 1
}

# Children of the command are traced, and no other task.
children() {
	rftrace record -o $F -p function -l 'vfs_*' sh -c 'sh -c "cat /proc/uptime; true"; true' 2>/tmp/said
	rftrace replay $F >/tmp/out
	grep -v '^#' /tmp/out | sed 's/^ *\(.*\)-[0-9]* *\[.*/\1/' | sort | uniq -c
	grep -q '^ *cat-' /tmp/out
	is 'others' "$(grep -v '^#' /tmp/out | grep -v -c -E '^ *(sh|cat|exe|rftrace)-')" 0
}

texts 'calls of a command, as they are made' a_mount
if [ -e /sys/kernel/btf/vmlinux ]; then
	texts 'calls by which an error came' an_error
else
	skip 'calls by which an error came' 'no BTF'
fi
texts 'what calls waited for' waits
t 'a recording has the calls, and says how it was made' recorded
texts 'exit codes, and what is said of wrong words' exits
t 'a recorder that is killed leaves nothing armed' killed
t 'a recorder that is interrupted ends well' interrupted
texts 'a disk that is full' full_disk
texts 'ends by time and by size' limits
t 'the newest events only' newest
t 'a control file' controlled
if mkdir -p $C && mount -t cgroup2 none $C 2>/dev/null; then
	texts 'the tasks of a cgroup' of_a_cgroup
	umount $C
else
	skip 'the tasks of a cgroup' 'the kernel has no cgroups'
fi
texts 'a command and its children' children
finish
