#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The command rftrace: profile, report, graph, and what it says when there is too much or too little.
. /tests/lib/ktap.sh

only_texts

reload
F=/tmp/recorded

# json FILE KEY: the values of KEY, a line each.
json() {
	sed -n 's/.*"'"$2"'":"\{0,1\}\([^",}]*\)[",}].*/\1/p' "$1"
}

# What all look at: it is recorded once.
recording() {
	[ ! -e $F.mount ] || return 0
	if [ -e /proc/kcore ]; then
		rftrace record -q -o $F.mount --closure -g path_mount mount -t tmpfs none /mnt
	else
		rftrace record -q -o $F.mount -l '*mount*' -l '*sb*' -g path_mount mount -t tmpfs none /mnt
	fi
	umount /mnt
}

# A table in which all that path_mount took is somewhere.
reported() {
	recording
	rftrace report $F.mount >/tmp/out
	head -n 12 /tmp/out
	rftrace report --json $F.mount >/tmp/json
	grep '"function":"path_mount"' /tmp/json >/tmp/root
	is 'calls' "$(json /tmp/root calls)" 1
	is 'percentile' "$(json /tmp/root p99_ns)" "$(json /tmp/root max_ns)"
	# All times are parts of the one call's, also those of interrupts, which are no calls of it.
	is 'all times together' "$(json /tmp/json self_ns | awk '{ sum += $1 } END { printf "%d", sum }')" \
		"$(json /tmp/root total_ns)"
	is 'of one function' "$(rftrace report $F.mount -l path_mount --json | grep -c '"function"')" 1
}

graphed() {
	recording
	rftrace graph security_sb_mount $F.mount >/tmp/out
	cat /tmp/out
	grep -q path_mount /tmp/out
	grep -q apparmor_sb_mount /tmp/out || grep -q hook_sb_mount /tmp/out
	is 'end' "$(rftrace graph path_muont $F.mount 2>/tmp/said; echo $?)" 1
	grep -q 'near it: path_mount' /tmp/said
}

# What other programs read has the same times.
exported() {
	recording
	for format in perfetto trace.dat folded pprof; do
		rftrace export $F.mount --to $format -o /tmp/$format
		[ -s /tmp/$format ]
	done
	rftrace report --json $F.mount >/tmp/json
	is 'times of stacks' "$(awk '{ sum += $NF } END { printf "%d", sum }' /tmp/folded)" \
		"$(json /tmp/json self_ns | awk '{ sum += $1 } END { printf "%d", sum }')"
	rftrace flamegraph $F.mount -o /tmp/x.svg
	grep -q '<title>path_mount ' /tmp/x.svg
	is 'end' "$(rftrace export $F.mount --to folded -o $F.mount 2>/tmp/said; echo $?)" 1
	cat /tmp/said
	rftrace info $F.mount | grep -q '^tracer'
}

profiled() {
	rftrace profile --json -l vfs_write -l vfs_read dd if=/dev/zero of=/dev/null bs=1 count=1000 >/tmp/out 2>/tmp/said
	cat /tmp/out /tmp/said
	grep '"function":"vfs_write"' /tmp/out >/tmp/row
	# (and what it says at its end)
	[ "$(json /tmp/row calls)" -ge 1000 ]
	[ "$(json /tmp/row calls)" -lt 1020 ]
	[ "$(json /tmp/row p50_ns)" -le "$(json /tmp/row p99_ns)" ]
	[ "$(json /tmp/row p99_ns)" -le "$(json /tmp/row max_ns)" ]
	rftrace profile -s calls --by comm -l 'vfs_*' sh -c 'cat /proc/uptime' >/tmp/out
	cat /tmp/out
	grep -q ' cat$' /tmp/out
}

# All that is hooked is what the root can reach.
closed() {
	rftrace trace --closure -g path_mount mount -t tmpfs none /mnt >/tmp/closed 2>/tmp/said
	umount /mnt
	cat /tmp/said
	grep -q '^rftrace: hooks the [0-9]* functions that path_mount can reach; not what' /tmp/said
	grep -v '^#' /tmp/closed | sed -n 's/.*|  *\([a-zA-Z0-9_.]*\)() *[{;].*/\1/p' | sort -u >/tmp/closed.names
	[ "$(grep -c . /tmp/closed.names)" -gt 30 ]
	is 'hooked' "$(($(sed -n 's/^rftrace: hooks the \([0-9]*\) .*/\1/p' /tmp/said) < 20000))" 1
	grep -q '^security_sb_mount$' /tmp/closed.names
}

runaway() {
	code=0
	rftrace record -o $F -a -l 'vfs_*' --max-rate 1k --duration 60s sh -c \
		'dd if=/dev/zero of=/dev/null bs=1 count=500000; true' 2>/tmp/said || code=$?
	cat /tmp/said
	is 'end' $code 1
	grep -q 'the module has stopped it: budget: .* calls/s, 1000 allowed' /tmp/said
	grep -q 'most calls were of vfs_\(read\|write\) ([0-9]* %)' /tmp/said
	grep -q 'try: -n vfs_' /tmp/said
	# Others go on.
	rftrace record -o $F -l 'vfs_*' --force dd if=/dev/zero of=/dev/null bs=1 count=50000 2>/tmp/said
	cat /tmp/said
	grep -q ' events, none lost' /tmp/said
}

nothing() {
	rftrace trace -l do_mount -l path_umount true >/tmp/out 2>/tmp/said
	cat /tmp/said
	grep -q '^rftrace: 0 events' /tmp/said
	grep -q '^rftrace: do_mount: .*path_mount' /tmp/said
	is 'of path_umount' "$(grep -c path_umount /tmp/said)" 0
}

t 'a report of a recording' reported
t 'a graph of a recording' graphed
t 'formats of other programs' exported
t 'a profile with percentiles, and by task' profiled
if [ -e /proc/kcore ]; then
	t 'only what a root can reach is hooked' closed
	t 'why nothing came' nothing
fi
t 'too many calls end it, and are named' runaway
finish
