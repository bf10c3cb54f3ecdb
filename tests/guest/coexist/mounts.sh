#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Lists of the kernel's are read without a trace: what is mounted stays as it is, whatever task asks.
. /tests/lib/ktap.sh

reload
PLAIN=$(pick vfs_read)

# The mounts, with their options, and the modes and owners of what is in there.
mounts() {
	grep -E ' (tracefs|proc|sysfs|debugfs) ' /proc/mounts
	stat -c '%n %a %u %g' $T $T/trace /proc /proc/kallsyms /sys /sys/kernel/debug
}

# All that is read: the functions, the symbols and the types.
read_all() {
	reload
	grep -qxF "$PLAIN" $R/available_filter_functions
	echo 'vfs_*' >$R/filter
	[ "$(status 'skipped matches')" -gt 0 ]
	[ -e /sys/kernel/btf/vmlinux ] || return 0
	echo 1 >$R/options/func-args
	echo "$PLAIN" >$R/filter
	cat $R/README >/dev/null
	echo 0 >$R/tracing_on
	cat $R/trace | grep -q "$PLAIN(file="
}

options_stay() {
	mount -o remount,mode=750,gid=5,uid=7 $T
	mount -o remount,hidepid=2,gid=6 /proc
	mounts >/tmp/mounts.before
	grep -q ' tracefs .*uid=7,gid=5,mode=750' /tmp/mounts.before
	read_all
	unload
	mounts >/tmp/mounts.after
	load
	mount -o remount,mode=700,gid=0,uid=0 $T
	mount -o remount,hidepid=0,gid=0 /proc
	diff /tmp/mounts.before /tmp/mounts.after
}

# A file system that stays has its number; one that comes then has the next.
next_number() {
	mount -t proc none /mnt
	stat -c %d /mnt
	umount /mnt
}
nothing_is_left() {
	local before
	next_number >/tmp/number.before
	mounts >/tmp/mounts.before
	read_all
	unload
	next_number >/tmp/number.after
	mounts >/tmp/mounts.after
	load
	diff /tmp/number.before /tmp/number.after
	diff /tmp/mounts.before /tmp/mounts.after
}

# as_nobody COMMAND: without rights outside of a namespace of its own, but with the files that are open.
as_nobody() {
	unshare -U sh -c "$1"
}

# A task that was given an open file needs no right to what we read for it.
for_anybody() {
	reload
	exec 4>$R/filter
	as_nobody "echo $PLAIN >&4"
	exec 4>&-
	says $R/filter "$PLAIN"
	is hooked "$(sed 's/ .*//' $T/enabled_functions)" "$PLAIN"
	reload
	exec 4<$R/available_filter_functions_addrs
	as_nobody 'cat <&4' >/tmp/our.list
	exec 4<&-
	sort /tmp/our.list >/tmp/our.sorted
	grep -v __ftrace_invalid_address__ $T/available_filter_functions_addrs | grep -vxE "$BEFORE_IDT" | sort | cmp - /tmp/our.sorted
	# Addresses are hidden from the task that counts what cannot be traced, and it is right all the same.
	echo 'vfs_*' >$R/filter
	skipped=$(status 'skipped matches')
	[ "$skipped" -gt 0 ]
	reload
	echo 1 >/proc/sys/kernel/kptr_restrict
	echo 'vfs_*' >$R/filter
	exec 4<$R/status
	as_nobody 'cat <&4' >/tmp/status
	exec 4<&-
	echo 2 >/proc/sys/kernel/kptr_restrict
	reload
	echo 'vfs_*' >$R/filter
	cat $R/status >/tmp/status.2
	echo 0 >/proc/sys/kernel/kptr_restrict
	is skipped "$(sed -n 's/^skipped matches: //p' /tmp/status)" "$skipped"
	is 'skipped, hidden' "$(sed -n 's/^skipped matches: //p' /tmp/status.2)" unknown
}

# What was written last counts when the file is closed, also by a process that is killed: it has no namespaces by then.
closed_by_its_end() {
	reload
	sh -c 'exec 4>"$1"; printf %s "$2" >&4; kill -9 $$' sh $R/filter "$PLAIN" || :
	until_true 10 is filter "$(cat $R/filter)" "$PLAIN"
}

# Nothing of what is mounted where the caller is matters: nothing is.
in_a_place_of_its_own() {
	reload
	exec 4>$R/filter 5<$R/status
	mkdir -p /tmp/root/bin
	cp /bin/busybox /tmp/root/bin/
	# (not all kernels have a network)
	net=
	[ ! -e /proc/self/ns/net ] || net=-n
	unshare -m -p $net -f sh -c 'chroot /tmp/root /bin/busybox sh -c "echo $1 >&4; /bin/busybox head -n 1 <&5"' sh "$PLAIN"
	exec 4>&- 5<&-
	says $R/filter "$PLAIN"
}

t 'options of what is mounted stay' options_stay
t 'nothing is left mounted' nothing_is_left
t 'a task that ends needs no namespaces' closed_by_its_end
if [ -e /proc/self/ns/user ]; then
	t 'whoever has an open file needs no other right' for_anybody
	t 'nor mounts' in_a_place_of_its_own
else
	skip 'whoever has an open file needs no other right' 'the kernel has no namespaces'
	skip 'nor mounts' 'the kernel has no namespaces'
fi
finish
