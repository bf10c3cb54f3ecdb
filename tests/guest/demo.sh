#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# What "make demo" shows: the main job, in a guest. With PICTURE, the flame graph comes in lines "# picture: BASE64", gzipped.
R=/sys/kernel/debug/rftrace
# (no pager, and no progress that overwrites itself: this is read in a log)
export TERM=dumb

note() {
	echo
	while [ $# -gt 0 ]; do echo "--- $1"; shift; done
}

run() {
	echo "# $*"
	eval "$*"
}

set -e
note "This is Linux $(uname -r) in a guest. Load the module:"
run insmod /rust_ftrace.ko

note "Name a function, and see who calls it:"
run "echo path_mount > $R/filter"
run mount -t tmpfs demo /mnt
run "cat $R/trace"
note "The mount program (with its pid), on the CPU in brackets, came to path_mount from" \
	"__x64_sys_mount, that many seconds after boot. The five dots: interrupts were on," \
	"no rescheduling was due, no interrupt ran, preemption and migration were allowed."

note "Functions under it, with a column that says how deep each call is. >> adds to the filter:"
for function in vfs_get_tree shmem_get_tree get_tree_nodev vfs_get_super sget_fc alloc_super \
	shmem_fill_super d_make_root d_alloc_anon vfs_create_mount alloc_vfsmnt do_add_mount; do
	if grep -qx "$function" $R/available_filter_functions; then
		functions="${functions:+$functions }$function"
	fi
done
run "echo $functions >> $R/filter"
run "echo 1 > $R/options/func-depth"
run "echo > $R/trace"
run umount /mnt
run mount -t tmpfs demo /mnt
run "cat $R/trace | tail -n +11"
note "0 is the outermost call; what is deeper was called, perhaps through other functions," \
	"by the last one above that is less deep."

note "A function can be armed and yet never hit:"
run umount /mnt
run "echo do_mount > $R/filter"
run "echo > $R/trace"
run mount -t tmpfs demo /mnt
run "grep -E '^(armed functions|hits)' $R/status"
note "The compiler copied do_mount into its only caller, so nothing ever enters it:" \
	"hits: 0 says so. Trace a function that it calls, like path_mount, instead."

run umount /mnt

note "The command rftrace does all that in one line, in an instance of its own, and leaves nothing" \
	"behind. Calls below path_mount, three levels deep, with how long they take:"
run rftrace trace --closure -g path_mount -D 3 mount -t tmpfs demo /mnt
run umount /mnt

note "Why was do_mount never hit?"
run rftrace why do_mount

note "Which functions take how long, with percentiles:"
run "rftrace profile -l 'vfs_*' -s total --limit 5 sh -c 'ls -lR /sys/bus >/dev/null'"

note "Recorded once, looked at in many ways:"
run rftrace record --closure -g path_mount mount -t tmpfs demo /mnt
run umount /mnt
run rftrace report --limit 5
run rftrace graph security_sb_mount
run rftrace flamegraph rftrace.data -o /tmp/mount.svg
# (for the script that started the guest)
[ -z "$PICTURE" ] || gzip -c /tmp/mount.svg | base64 | sed 's/^/# picture: /'

note "Unloading leaves nothing behind:"
run rmmod rust_ftrace
run "ls -d $R || true"
