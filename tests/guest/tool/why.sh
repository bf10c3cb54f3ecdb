#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The command rftrace: why, list, doctor.
. /tests/lib/ktap.sh

only_texts

reload

missing() {
	rftrace why path_muont >/tmp/why
	grep -q 'no function of that name' /tmp/why
	grep -q 'Near it: path_mount' /tmp/why
}

hidden() {
	cp /usr/bin/rftrace /tmp/
	chmod 755 /tmp/rftrace
	is 'end' "$(unshare -U /tmp/rftrace why do_mount 2>/tmp/why; echo $?)" 1
	grep -q 'only root may see them' /tmp/why
}

inlined() {
	rftrace why do_mount >/tmp/why
	cat /tmp/why
	grep -q 'Nothing can enter it' /tmp/why
	grep -q 'has put it into .*__x64_sys_mount' /tmp/why
	grep -q 'Trace path_mount instead' /tmp/why
	# (its first instruction is another while it is traced)
	echo do_mount >$R/filter
	rftrace why --json do_mount | grep -q '"answer":"never-entered".*"instead":"path_mount"'
}

not_traceable() {
	rftrace why exc_page_fault jiffies_64 load_current_idt >/tmp/why
	cat /tmp/why
	grep -q 'ftrace cannot trace it: it is left out: a starting CPU calls it' /tmp/why
	grep -q 'ftrace cannot trace it: it is noinstr' /tmp/why
	grep -q 'ftrace cannot trace it: it is data' /tmp/why
}

# By the kernel's text: the same as what a trace shows, and more.
static_graph() {
	rftrace graph --static path_mount >/tmp/why
	head -n 40 /tmp/why
	grep -q ' +-__x64_sys_mount  \[by pointers, too\]' /tmp/why
	grep -q " +-$(pick security_sb_mount reconfigure_super)" /tmp/why
	grep -q '^# Not followed: [0-9]* calls through pointers, in ' /tmp/why
	rftrace graph --static --json -D 6 path_mount | grep '"direction":"callees"' |
		sed 's/.*"function":"\([^"]*\)".*/\1/' >/tmp/callees
	# What a mount calls is said to be called. (Functions that are not traced may be in between. An interrupt does not
	# come at each of several mounts; the edge of one is recorded whatever funcgraph-irqs says.)
	echo 0 >$R/options/funcgraph-irqs
	echo path_mount >$R/graph_function
	echo 2 >$R/max_depth
	echo function_graph >$R/current_tracer
	for _ in 1 2 3 4 5 6; do
		echo >$R/trace
		mount -t tmpfs none /mnt
		umount /mnt
		# (at two blanks is path_mount, at four what it calls)
		sed -n 's/^.*|    \([a-z_][a-z0-9_.]*\)().*/\1/p' $R/trace | sort -u
	done | sort | uniq -c | sed -n 's/^ *6 //p' >/tmp/called
	cat /tmp/called
	[ "$(grep -c . /tmp/called)" -gt 3 ]
	is 'not said' "$(grep -vxF -f /tmp/callees /tmp/called)" ''
	is 'end' "$(rftrace graph --static path_muont 2>/tmp/why; echo $?)" 1
	grep -q 'no function path_muont; near it: path_mount' /tmp/why
}

prototypes() {
	rftrace list --proto 'path_mount' >/tmp/why
	cat /tmp/why
	grep -q '^int path_mount(const char \*dev_name, .*, void \*data_page)$' /tmp/why
	# What a compiler has made of a function has none; clang makes no such.
	if grep -q '\.constprop\.0$' /tmp/available; then
		rftrace list --proto '*.constprop.0' >/tmp/why
		grep -q '\[no prototype in BTF\]$' /tmp/why
	fi
}

# A function that is traced, and of which nothing is recorded.
filtered() {
	echo path_mount >$R/filter
	rftrace why path_mount >/tmp/why
	cat /tmp/why
	is 'hidden' "$(grep -c 'traces it, but' /tmp/why)" 0
	echo 1 >$R/pid
	rftrace why path_mount | grep -q 'rust_ftrace traces it, but pid: only calls of these tasks: 1\.'
	echo >$R/pid
	echo 0 >$R/tracing_on
	rftrace why path_mount | grep -q 'traces it, but tracing_on is 0'
	echo 1 >$R/tracing_on
	mkdir $R/instances/mine
	# (two functions are soon hooked)
	echo path_mount vfs_read >$R/instances/mine/filter
	echo vfs_read >$R/instances/mine/graph_function
	echo 1 >$R/instances/mine/max_depth
	echo function_graph >$R/instances/mine/current_tracer
	rftrace why --json path_mount >/tmp/why
	rmdir $R/instances/mine
	cat /tmp/why
	grep -q '"instance":"The instance mine","by":\["graph_function: only calls below vfs_read' /tmp/why
	grep -q 'max_depth is 1' /tmp/why
}

# Functions that nothing reaches are armed, and much is done that one may do on a machine.
never_hit() {
	rftrace list --unreachable | sort | uniq -u >/tmp/all
	# (of names that several functions have others may be meant)
	sort /tmp/available | uniq -d >/tmp/double
	grep -vxF -f /tmp/double /tmp/all >/tmp/unreachable
	[ "$(grep -c . /tmp/unreachable)" -gt 500 ]
	cat /tmp/unreachable >$R/filter
	# It is not that nothing is seen.
	echo path_mount >>$R/filter
	widely
	# (a name arms what the compiler has made of its function, too: NAME.part.0, which may be reached)
	grep -v '^#' $R/trace | sed 's/^.*: \([^ ]*\).*/\1/' | sort -u >/tmp/hit
	cat /tmp/hit
	grep -qx path_mount /tmp/hit
	is 'hit' "$(grep -xF -f /tmp/unreachable /tmp/hit)" ''
}
widely() {
	local file
	syscalls
	for file in /proc/sys /proc/self /proc/net/ /sys/block /sys/bus /sys/devices /sys/fs /sys/kernel/mm /sys/kernel/slab; do
		timeout 20 find $file -type f -exec head -c 4096 {} + >/dev/null 2>&1 || true
	done
	for file in cpuid msr; do
		modprobe $file 2>/dev/null || insmod /lib/modules/"$RELEASE"/$file.ko || true
		rmmod $file || true
	done
	for file in tmpfs proc sysfs ramfs; do
		mount -t $file none /mnt
		ls -lR /mnt >/dev/null 2>&1 || true
		umount /mnt
	done
	# (not all kernels have a network)
	ifconfig lo 127.0.0.1 up && ping -c 1 127.0.0.1 || true
	if [ -e /sys/devices/system/cpu/cpu1/online ]; then
		echo 0 >/sys/devices/system/cpu/cpu1/online
		echo 1 >/sys/devices/system/cpu/cpu1/online
	fi
	echo function >$T/current_tracer
	echo nop >$T/current_tracer
}

# Not all kernels show their memory: as on one of these.
without_kcore() {
	mkdir /tmp/proc
	cat >/tmp/hide <<-'END'
		mount --bind /proc /tmp/proc
		mount -t tmpfs none /proc
		for file in /tmp/proc/*; do
			case $file in */kcore) ;; *) ln -s "$file" /proc/ ;; esac
		done
		exec rftrace why path_mount
	END
	is 'end' "$(unshare -m sh -e /tmp/hide 2>/tmp/why; echo $?)" 1
	cat /tmp/why
	grep -q 'no /proc/kcore (CONFIG_PROC_KCORE): name its file by --vmlinux' /tmp/why
}

lists() {
	rftrace list 'vfs_*' | sort >/tmp/ours
	grep '^vfs_' /tmp/available | sort >/tmp/tracefs
	cmp /tmp/ours /tmp/tracefs
	is 'end' "$(rftrace list 'no_such_*' 2>/tmp/why; echo $?)" 1
	grep -q 'no function matches no_such_\*' /tmp/why
	# A reader of only a part is not told that the rest was lost.
	rftrace list 2>/tmp/why | head -n 1
	is 'said' "$(cat /tmp/why)" ''
}

doctor() {
	rftrace doctor >/tmp/why
	cat /tmp/why
	is 'bad' "$(grep -c BAD /tmp/why)" 0
	rmmod rust_ftrace
	rftrace doctor | grep -A 1 'module *BAD *not loaded' | grep -q 'type: insmod rust_ftrace.ko'
	umount /sys/kernel/debug
	rftrace doctor | grep -A 1 'debugfs *BAD *not mounted' | grep -q 'type: mount -t debugfs'
	mount -t debugfs none /sys/kernel/debug
	reload
}

if unshare -U true; then
	t 'who may not see addresses is told' hidden
else
	skip 'who may not see addresses is told' 'no namespaces of users'
fi
if [ -e /proc/kcore ]; then
	t 'a name that there is not, and those near it' missing
	t 'a function that is inlined everywhere' inlined
	t 'functions that ftrace cannot trace' not_traceable
	t 'what rftrace calls unreachable is never hit' never_hit
	t 'who could call a function, and what it could call' static_graph
	t 'which setting hides a function' filtered
else
	skip 'what the text of the kernel tells' 'it does not show its memory'
fi
t 'a kernel that does not show its memory' without_kcore
t 'list' lists
if [ -e /sys/kernel/btf/vmlinux ]; then
	t 'prototypes' prototypes
else
	skip 'prototypes' 'no BTF'
fi
t 'doctor' doctor
finish
