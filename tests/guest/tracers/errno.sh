#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# tracing_errno: where an error began. Where it is looked for, all functions are hooked, so that no call is left out.
. /tests/lib/ktap.sh

reload

if [ ! -e /sys/kernel/btf/vmlinux ]; then
	refused() {
		gets 'write EOPNOTSUPP' $R/tracing_errno "1\n"
		grep -q 'does not say what its functions return' $R/error_log
		says $R/tracing_errno 0
	}
	t 'refused without types' refused
	finish
fi

# To hook all functions takes minutes on a kernel with checkers: there it is those that mount calls, and that alone fails.
MOUNTING='*mount* get_fs_type* *_sys_* strndup_user* memdup_user* __kmalloc*'
ROWS=100 FUNCTIONS=
[ "$SLOWER" = 1 ] || {
	ROWS=1
	FUNCTIONS=$MOUNTING
}

# The program, the system call, its error, the function in which that began, and the last that it called with what
# that returned: regular expressions.
table() {
	cat <<'END'
mount mount 19 path_mount|do_new_mount get_fs_type=0x0
mmap mmap 9 ksys_mmap_pgoff fget=0x0
keyctl keyctl 126 key_lookup none
shmget shmget 2 ipcget|ipcget_public none
futex futex 11 futex_wait_setup get_futex_key=0x0
timer_gettime timer_gettime 22 do_timer_gettime lock_timer=0x0
sched_getscheduler sched_getscheduler 3 .*sched_getscheduler find_task_by_vpid=0x0
ptrace ptrace 3 .*_ptrace find_get_task_by_vpid=0x0
epoll_ctl epoll_ctl 1 do_epoll_ctl|do_epoll_ctl_file .*
openat openat 2 step_into|step_into_slowpath .*
unlinkat unlinkat 2 lookup_one_qstr_excl simple_lookup=0x0
ioctl ioctl 25 .*_sys_ioctl|vfs_ioctl do_vfs_ioctl=-515
finit_module finit_module 8 load_module|elf_validity_.* .*
bpf bpf 7 bpf_check_uarg_tail_zero none
kill kill 3 kill_pid_info|kill_pid_info_type (pid_task|find_vpid)=0x0
socket socket 94 [a-z0-9_]*_create (none|ns_capable=0x1)
sethostname sethostname 1 .*_sys_sethostname ns_capable=0x0
END
}

# begin ROOT...: function_graph, of the system calls of these names.
begin() {
	local name
	echo nop >$R/current_tracer
	for name; do sys "$name"; done | sort -u >/tmp/roots
	cat /tmp/roots >$R/graph_function
	echo "$FUNCTIONS" >$R/filter
	echo function_graph >$R/current_tracer
}

# failing_as ARGUMENT...: what the program says, of whose calls alone there are events.
failing_as() {
	sh -c 'echo $$ >'$R'/pid; exec failing "$@"' sh "$@"
}

# record ARGUMENT...: /tmp/trace has what is shown of the program, which says $number.
record() {
	echo >$R/trace
	echo 1 >$R/tracing_on
	number=$(failing_as "$@")
	echo 0 >$R/tracing_on
	cat $R/trace >/tmp/trace
	cat /tmp/trace
}

# chains <TRACE: "ORIGIN LAST ROOT RESULT" of each that is shown: the function in which the error began, which is the
# innermost that returned the same as the outermost; the last that it called with its result; and the outermost. Behind
# it, those that functions of the chain have called after the one that failed.
chains() {
	grep -v '^#' | sed -nE 's/^[^|]*\|  ( *)(.*)$/\1\2/p' | sed -E 's/ \[([a-z0-9_]*)\]/[\1]/g' | awk '
		function result(text) { match(text, /ret=[-0-9a-fx]+/); return substr(text, RSTART + 4, RLENGTH - 4) }
		function add(called, value) { n++; name[n] = called; depths[n] = depth; returned[n] = value; return n }
		function show(   i, origin, last, after) {
			for (i = 1; i <= n; i++) if (returned[i] == returned[1] && depths[i] >= depths[origin]) origin = i
			last = "none"
			for (i = 2; i <= n; i++) {
				if (i == origin || returned[i] == returned[1]) continue
				if (i > origin && depths[i] == depths[origin] + 1) last = name[i] "=" returned[i]
				else after = after " then " name[i] "=" returned[i]
			}
			print name[origin], last, name[1], returned[1] after
			n = 0
		}
		{ match($0, /^ */); depth = RLENGTH / 2; text = substr($0, RLENGTH + 1) }
		text ~ /\{$/ { open[depth] = add(substr(text, 1, index(text, "(") - 1), "none"); next }
		text ~ /^\}/ { returned[open[depth]] = result(text); if (depth == 0) show(); next }
		{ add(substr(text, 1, index(text, "(") - 1), result(text)); if (depth == 0) show() }'
}

# began NAME CALL ERRNO FUNCTION LAST: a row of the table is so.
began() {
	record "$1"
	chains </tmp/trace >/tmp/chains
	cat /tmp/chains
	is errno "$number" "$3"
	is chains "$(grep -c . /tmp/chains)" 1
	grep -qE "^($4) ($5) [a-z0-9_]+ -$3( then .*)?\$" /tmp/chains
}

# has_calls NAME...: the kernel has these system calls.
has_calls() {
	local name
	for name; do sys "$name" >/dev/null 2>&1 || return 1; done
}

of_subsystems() {
	local name call errno function last
	: >/tmp/not.so
	: >/tmp/table
	table | head -n $ROWS | while read -r name call errno function last; do
		if has_calls "$call"; then
			echo "$name $call $errno $function $last" >>/tmp/table
		else
			echo "$name: not on this kernel" >>/tmp/all.chains
		fi
	done
	[ "$ROWS" = 1 ] || [ "$(grep -c . /tmp/table)" -ge 14 ]
	grep -q '^mount ' /tmp/table
	echo 1 >$R/tracing_errno
	# (they have a name, no blanks)
	begin $(cut -d ' ' -f 2 /tmp/table)
	while read -r name call errno function last; do
		if (set -e; began "$name" "$call" "$errno" "$function" "$last") </dev/null >/tmp/one 2>&1; then
			echo "$name: $(cat /tmp/chains)" >>/tmp/all.chains
		else
			{ echo "$name: not so"; tail -n 20 /tmp/one | grep -v '^+'; } >>/tmp/not.so
		fi
	done </tmp/table
	accounts_agree
	is 'chains cut' "$(status 'chains cut')" 0
	set +x
	[ ! -s /tmp/not.so ] || { cat /tmp/not.so; return 1; }
}

values() {
	says $R/tracing_errno 0
	gets 'write EINVAL' $R/tracing_errno "EINVAL,ENOSUCH\n"
	grep -A 3 'tracing_errno: error: There is no error of this name' $R/error_log >/tmp/said
	cat /tmp/said
	# (the place of the word)
	is caret "$(tail -n 1 /tmp/said)" "$(sed -n 's/Command: .*/Command:/p' /tmp/said | sed 's/./ /g')        ^"
	for value in 2 -22 einval EINVAL, 'EINVAL EIO' 0,EIO; do
		gets 'write EINVAL' $R/tracing_errno "$value\n"
	done
	says $R/tracing_errno 0
	for value in 1 EINVAL EINVAL,ENOTSUPP 0; do
		echo "$value" >$R/tracing_errno
		says $R/tracing_errno "$value"
	done
	echo ENOTSUP,EWOULDBLOCK >$R/tracing_errno
	gets 'write EINVAL' $R/tracing_errno "EIO,EI\n"
	says $R/tracing_errno EAGAIN,EOPNOTSUPP
	# It is each instance's own.
	mkdir $R/instances/a
	says $R/instances/a/tracing_errno 0
	echo EIO >$R/instances/a/tracing_errno
	says $R/tracing_errno EAGAIN,EOPNOTSUPP
	rmdir $R/instances/a
}

# Of the errors those that are asked for, of roots that take so long, and no deeper than max_depth.
others() {
	local FUNCTIONS=$MOUNTING
	echo EINVAL,ENOMEM >$R/tracing_errno
	begin mount
	record mount
	is errno "$number" 19
	is events "$(status 'events written')" 0
	echo ENODEV >$R/tracing_errno
	record mount
	chains </tmp/trace >/tmp/chains
	cat /tmp/chains
	grep -qE '^(path_mount|do_new_mount) get_fs_type=0x0 ' /tmp/chains
	accounts_agree
	echo 60000000 >$R/tracing_thresh
	record mount
	is 'events with a threshold' "$(status 'events written')" 0
	echo 1 >$R/tracing_thresh
	record mount
	grep -q 'ret=-19' /tmp/trace
	echo 0 >$R/tracing_thresh
	echo 1 >$R/max_depth
	record mount
	is 'with one depth' "$(chains </tmp/trace)" "$(sys mount) none $(sys mount) -19"
	echo 0 >$R/max_depth
	# All calls are shown again.
	echo 0 >$R/tracing_errno
	record mount
	grep -qE '\|  +(strndup_user|copy_mount_string|__kmalloc[a-z_]*|memdup_user[a-z_]*)\(' /tmp/trace
	accounts_agree
}

# What the kernel handles itself is shown on request only, and then with what it was in.
handled() {
	echo ENOENT,EAGAIN >$R/tracing_errno
	begin sendto recvmmsg
	record handled 5
	is events "$(status 'events written')" 0
	echo 1 >$R/options/funcgraph-handled
	record handled 3
	for shown in 'ctrl_getfamily\(\); /\* ret=-2 \*/|\} /\* ctrl_getfamily ret=-2 \*/' "} /\\* $(sys sendto) ret=0x1c \\*/" \
		"} /\\* $(sys recvmmsg) ret=0x1 \\*/"; do
		is "$shown" "$(grep -cE "$shown" /tmp/trace)" 3
	done
	grep -q 'ret=-11' /tmp/trace
	# Each call that was entered has returned.
	is calls "$(grep -c '{$' /tmp/trace)" "$(grep -c '} /\*' /tmp/trace)"
	echo 0 >$R/options/funcgraph-handled
	record handled 5
	is 'events afterwards' "$(status 'events written')" 0
	accounts_agree
}

# Two instances, with the same functions: one shows errors, one all calls, and neither disturbs the other.
# The words of its calls leave no room for those of others: a function is for one of them.
with_another() {
	local FUNCTIONS=$MOUNTING
	local I=$R/instances/a before
	mkdir $I
	echo path_mount >$R/filter
	echo function_graph >$R/current_tracer
	sys mount >$I/graph_function
	echo "$FUNCTIONS" >$I/filter
	echo ENODEV >$I/tracing_errno
	before=$(cat $I/current_tracer)
	fails sh -c "echo function_graph >$I/current_tracer"
	is 'tracer of the other' "$(cat $I/current_tracer)" "$before"
	grep -q 'Too many tracers and profiles' $I/error_log
	grep -q 'Command: path_mount' $I/error_log
	echo path_mount >$I/notrace
	echo function_graph >$I/current_tracer
	is errno "$(failing mount)" 19
	echo 0 >$R/tracing_on
	echo 0 >$I/tracing_on
	cat $R/trace $I/trace
	is 'calls of the one' "$(grep -cE '\|  +(path_mount\(\);|\} /\* path_mount \*/)$' $R/trace)" 1
	# What is not hooked is a part of its caller.
	chains <$I/trace | grep -qE "^(do_new_mount|$(sys mount)) get_fs_type=0x0 $(sys mount) -19$"
	# Nor does the one come in between later.
	fails sh -c "echo get_fs_type >>$R/filter"
	is 'calls hooked' "$(grep -c . $R/filter)" 1
	echo nop >$I/current_tracer
	echo get_fs_type >>$R/filter
	rmdir $I
}

# The program that counts its events is not the one that makes them: with the clock that others read, too.
clocks() {
	local FUNCTIONS=$MOUNTING
	echo ENODEV >$R/tracing_errno
	echo mono >$R/trace_clock
	begin mount
	record mount
	chains </tmp/trace >/tmp/chains
	grep -qE '^(path_mount|do_new_mount) get_fs_type=0x0 ' /tmp/chains
	# A call takes no longer than the one that it is in.
	awk '$2 != "us" && $3 != "us" { next } { us = $2 == "us" ? $1 : $2 } us > 10000000 { exit 1 }' /tmp/trace
}

# In a file system that has no room for another file: its function calls others after that.
in_module() {
	local FUNCTIONS='*_sys_* *mkdir* *:mod:ext4'
	modprobe ext4
	dd if=/dev/zero of=/tmp/image bs=1k count=256
	mke2fs -F /tmp/image
	mkdir -p /tmp/mnt
	[ -e /dev/loop0 ] || modprobe loop
	losetup /dev/loop0 /tmp/image
	mount -t ext4 /dev/loop0 /tmp/mnt
	set +x
	number=0
	while (: >/tmp/mnt/$number) 2>/dev/null; do number=$((number + 1)); done
	set -x
	echo 1 >$R/tracing_errno
	begin mkdir
	record mkdir
	is errno "$number" 28
	chains </tmp/trace >/tmp/chains
	cat /tmp/chains
	cat /tmp/chains >>/tmp/all.chains
	umount /tmp/mnt
	losetup -d /dev/loop0
	grep -qE '^__ext4_new_inode\[ext4\] .* -28( then |$)' /tmp/chains
	grep -qE ' then [a-z0-9_]+\[ext4\]=0x0$' /tmp/chains
}

t 'values, and what is none' values
t 'errors of all subsystems' of_subsystems
t 'errors that are not asked for, and not deep or slow enough' others
if failing handled 1 >/dev/null 2>&1; then
	t 'errors that callers have handled' handled
else
	skip 'errors that callers have handled' 'this kernel has no netlink'
fi
t 'beside another instance' with_another
t 'with another clock' clocks
if [ -e /lib/modules/"$RELEASE"/ext4.ko ]; then
	t 'in a module' in_module
else
	skip 'in a module' 'ext4 is not a module of this kernel'
fi
sed 's/^/# /' /tmp/all.chains
finish
