#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Types of functions of modules: they come and go with the module. The kernel's own tracer is the oracle, where it
# shows arguments.
. /tests/lib/ktap.sh

insmod /lib/modules/known_calls.ko
K=/sys/kernel/debug/known_calls
any='0x[0-9a-f]+'

reload
needs_module

there() {
	[ -e /sys/module/"$TARGET_MOD" ] || insmod "$MOD"
}
gone() {
	[ ! -e /sys/module/"$TARGET_MOD" ] || rmmod "$TARGET_MOD"
}
action() {
	# (a call that moves to another CPU is shown in two lines)
	until_true 10 taskset 1 sh -c "$TARGET_MOD_ACTION"
}

# types_of WORD...: what status says of types, but for the KiB.
types_are() {
	is types "$(status types | sed 's/, [0-9]* KiB$//')" "$1"
}

# by_any <TRACE: the calls of all tasks: nothing else uses these functions.
by_any() {
	grep ': [a-z0-9_]*\( \[[a-z0-9_]*\]\)*(.*) <-'
}

# same FILTER COMMAND...: our lines of its calls are in /tmp/our.calls, and as those of the kernel's tracer, which does
# not name modules.
same() {
	local pid
	# (after another: each stops recording)
	reset
	if [ -e $T/options/func-args ]; then
		both_with func-args "$@"
		ordered $pid by_any
		[ -s /tmp/our.calls ]
		sed 's/ \[[a-z0-9_]*\]//g' /tmp/our.calls | diff /tmp/stock.calls -
		return
	fi
	echo "$1" >$R/filter
	echo 1 >$R/options/func-args
	shift
	"$@" &
	pid=$!
	wait $pid
	cat $R/trace >/tmp/our.trace
	by_any </tmp/our.trace >/tmp/our.calls
}

# shown NAME ARGUMENTS: the call is among them, with these.
shown() {
	grep -E "(^|[| ])$1( \[[a-z0-9_]+\])?\($2\)" /tmp/our.calls
}

# (no program of its own may fail)
failing() {
	! "$@" 2>/dev/null
}

# failed MODULE FUNCTION ERRNO COMMAND...: it fails, and so that function of the module; tracing_errno says as what.
failed() {
	local module=$1 function=$2 errno=$3
	shift 3
	reset
	echo "$function" >$R/filter
	echo 1 >$R/tracing_errno
	echo function_graph >$R/current_tracer
	failing "$@"
	cat $R/trace
	grep -qE "$function( \\[$module\\])?(\\(\\); /\\*)? ret=-$errno \\*/" $R/trace
}

ext4() {
	modprobe ext4
	dd if=/dev/zero of=/tmp/ext2 bs=1k count=1024
	mke2fs -F /tmp/ext2
	mkdir -p /tmp/ext4
	[ -e /dev/loop0 ] || modprobe loop
	losetup /dev/loop0 /tmp/ext2
	same 'ext4_init_fs_context ext4_fill_super ext4_get_tree' mount -t ext4 /dev/loop0 /tmp/ext4
	shown ext4_init_fs_context "fc=$any"
	shown ext4_fill_super "sb=$any, fc=$any"
	same 'ext4_create ext4_file_write_iter ext4_file_open ext4_rename2' sh -c 'echo 1 >/tmp/ext4/a; exec mv /tmp/ext4/a /tmp/ext4/b'
	cat /tmp/our.calls
	# (a regular file; the register may have more than the 16 bits of its mode)
	shown ext4_create "idmap=$any, dir=$any, dentry=$any, mode=0x[0-9a-f]*81[0-9a-f]{2}"
	shown ext4_file_write_iter "iocb=$any, from=$any"
	shown ext4_rename2 "idmap=$any, old_dir=$any, old_dentry=$any, new_dir=$any, new_dentry=$any, flags=0x0"
	umount /tmp/ext4
	losetup -d /dev/loop0
}

xfs() {
	modprobe xfs
	dd if=/dev/zero of=/tmp/none bs=1k count=1024
	mkdir -p /tmp/xfs
	[ -e /dev/loop0 ] || modprobe loop
	losetup /dev/loop0 /tmp/none
	same 'xfs_init_fs_context xfs_fs_get_tree xfs_fs_fill_super' failing mount -t xfs /dev/loop0 /tmp/xfs
	shown xfs_init_fs_context "fc=$any"
	shown xfs_fs_fill_super "sb=$any, fc=$any"
	failed xfs xfs_fs_fill_super 22 mount -t xfs /dev/loop0 /tmp/xfs
	losetup -d /dev/loop0
}

# The kernel proper has a function of this name, with other arguments, and the kernel's tracer shows those.
name_of_both() {
	local name
	modprobe xfs
	grep -qxF 'stats_show [xfs]' $T/available_filter_functions
	echo 'stats_show:mod:xfs' >$R/filter
	echo 1 >$R/options/func-args
	cat /sys/fs/xfs/stats/stats >/dev/null
	cat $R/trace >/tmp/our.calls
	cat /tmp/our.calls
	shown stats_show "kobject=$any, buf=$any"
}

overlay() {
	modprobe overlay
	mkdir -p /tmp/lower /tmp/overlay
	mount -t tmpfs none /tmp/lower
	mkdir /tmp/lower/a /tmp/lower/b /tmp/lower/work
	echo 1 >/tmp/lower/a/file
	same 'ovl_init_fs_context ovl_fill_super' \
		mount -t overlay -o lowerdir=/tmp/lower/a,upperdir=/tmp/lower/b,workdir=/tmp/lower/work none /tmp/overlay
	shown ovl_init_fs_context "fc=$any"
	shown ovl_fill_super "sb=$any, fc=$any"
	same 'ovl_open ovl_read_iter ovl_release' dd if=/tmp/overlay/file of=/dev/null
	shown ovl_open "inode=$any, file=$any"
	shown ovl_read_iter "iocb=$any, iter=$any"
	umount /tmp/overlay
	failed overlay ovl_fill_super 22 mount -t overlay -o lowerdir=/tmp/lower/a,upperdir=/tmp/lower/b none /tmp/overlay
	umount /tmp/lower
}

nf_conntrack() {
	modprobe nf_conntrack
	same nf_conntrack_pernet_init unshare -n true
	shown nf_conntrack_pernet_init "net=$any"
	failed nf_conntrack nf_conntrack_hash_sysctl 22 dd if=/dev/zero of=/proc/sys/net/netfilter/nf_conntrack_buckets bs=1 count=1
}

graph() {
	reload
	there
	echo "$F" >$R/filter
	echo function_graph >$R/current_tracer
	echo 1 >$R/options/funcgraph-args
	action
	echo 0 >$R/tracing_on
	cat $R/trace
	grep -qE "\|  $F \[$TARGET_MOD\]\(inode=$any, file=$any\);\$" $R/trace
	types_are 'the kernel, 1 modules'
}

# Types are read when they are needed, and those of a module that goes go with it.
come_and_go() {
	local round
	reload
	types_are none
	there
	echo 1 >$R/options/func-args
	for round in 1 2; do
		echo >$R/trace
		echo "$PARENT $F" >$R/filter
		calls getppid 1
		cat $R/trace >/dev/null
		# (nothing of the module was asked for)
		types_are 'the kernel, 0 modules'
		action
		cat $R/trace >/tmp/our.calls
		shown "$F" "inode=$any, file=$any"
		types_are 'the kernel, 1 modules'
		gone
		types_are 'the kernel, 0 modules'
		there
	done
}

# A reader that stays has those of the module that is there.
one_reader() {
	there
	echo 1 >$R/options/func-args
	echo "$F" >$R/filter
	cat $R/trace_pipe >/tmp/our.calls &
	workers="$workers $!"
	action
	until_true 10 shown "$F" "inode=$any, file=$any"
	gone
	there
	: >/tmp/our.calls
	echo "$F" >$R/filter
	action
	until_true 10 shown "$F" "inode=$any, file=$any"
}

# Readers, while the module comes and goes.
under_readers() {
	local round
	echo 1 >$R/options/func-args
	for round in 1 2; do
		background sh -c "while :; do cat $R/trace; done"
	done
	background cat $R/trace_pipe
	for round in $(seq "$(some 8)"); do
		there
		echo "$F" >$R/filter
		action
		gone
	done
	end_background
	types_are 'the kernel, 0 modules'
}

# A module without a description: registers, as before.
no_types() {
	[ ! -e /sys/kernel/btf/known_calls ]
	echo known_flat >$R/filter
	echo 1 >$R/options/func-args
	echo 3 >$K/flat
	cat $R/trace >/tmp/our.calls
	is calls "$(shown known_flat "$any, $any, $any, $any, $any, $any" | grep -c .)" 3
	types_are 'the kernel, 0 modules'
}

if [ ! -e /sys/kernel/btf/vmlinux ]; then
	skip 'types of modules' 'no BTF'
	finish
fi
for name in ext4 xfs overlay nf_conntrack; do
	if [ -e /lib/modules/"$RELEASE"/$name.ko ]; then
		texts "$name" $name
	else
		skip "$name" 'not a module of this kernel'
	fi
done
if [ -e /lib/modules/"$RELEASE"/xfs.ko ]; then
	texts 'a name of both: the type is the module'\''s' name_of_both
else
	skip 'a name of both' 'xfs is not a module of this kernel'
fi
there
if [ -e /sys/kernel/btf/"$TARGET_MOD" ]; then
	t 'calls' graph
	t 'types come and go with the module' come_and_go
	t 'and for a reader that stays' one_reader
	t 'under readers' under_readers
else
	skip 'types come and go with the module' 'modules have none'
fi
t 'a module without types' no_types
rmmod known_calls
# (what comes later is not to have thousands of functions more)
for name in xfs overlay nf_conntrack ext4; do
	[ ! -e /sys/module/$name ] || rmmod $name
done
finish
