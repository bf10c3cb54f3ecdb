#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Arguments of calls (options/func-args), with the kernel's own tracer as oracle.
. /tests/lib/ktap.sh

only_texts

reload

# compare FILTER COMMAND...: both tracers on the calls of a program. Of functions that the kernel knows no
# types of, its tracer shows nothing, ours the registers.
compare() {
	local pid
	both_with func-args "$@"
	ordered $pid
	paste -d '|' /tmp/stock.calls /tmp/our.calls | awk -F '|' '
		# fields: context call, and again
		$1 == $3 && $2 == $4 { if ($2 ~ /[a-z0-9_]=/) same++; next }
		{
			theirs = $2
			hex = "0x[0-9a-f]+"
			all = hex ", " hex ", " hex ", " hex ", " hex ", " hex
			ours = $4
			if ($1 == $3 && sub(/\(\)/, "", theirs) && sub("\\(" all "\\)", "", ours) && theirs == ours) { registers++; next }
			print $0
			other++
		}
		END {
			print same + 0 " the same, " registers + 0 " without types, " other + 0 " others"
			exit !(same >= 20 && other == 0)
		}'
}

mounting() {
	mkdir -p /tmp/m
	compare 'path_* vfs_* do_mount* *_sys_mount kmem_cache_free kfree' mount -t tmpfs none /tmp/m
	umount /tmp/m
	grep -qE '\|path_mount\(dev_name=0x[0-9a-f]+, path=0x[0-9a-f]+, type_page=0x[0-9a-f]+, flags=0x[0-9a-f]+, data_page=0x[0-9a-f]+\) <-__x64_sys_mount$' \
		/tmp/our.calls
}

file_operations() {
	compare 'vfs_* do_sys_openat2 ksys_* *_file_*' calls files 20
}

signals() {
	compare '*signal* do_setitimer' calls alarms 20
}

# As people type it, and with stacks, too.
typed() {
	mkdir -p /tmp/m
	echo path_mount >$R/filter
	echo 1 >$R/options/func-args
	echo 1 >$R/options/func_stack_trace
	mount -t tmpfs none /tmp/m
	umount /tmp/m
	echo nofunc-args >$R/trace_options
	echo nofunc_stack_trace >$R/trace_options
	mount -t tmpfs none /tmp/m
	umount /tmp/m
	echo 0 >$R/tracing_on
	cat $R/trace
	is 'with' "$(grep -cE ': path_mount\(.*flags=0x8000.*\) <-__x64_sys_mount$' $R/trace)" 1
	is 'without' "$(grep -c ': path_mount <-__x64_sys_mount$' $R/trace)" 1
	is 'stacks' "$(grep -c '^ => path_mount$' $R/trace)" 1
	grep -v '^#' $R/trace >/tmp/typed.trace
	cat $R/trace_pipe >/tmp/typed.pipe
	cmp /tmp/typed.trace /tmp/typed.pipe
}

# Where the kernel says nothing of its types.
registers() {
	mkdir -p /tmp/m
	echo path_mount >$R/filter
	echo 1 >$R/options/func-args
	mount -t tmpfs none /tmp/m
	umount /tmp/m
	cat $R/trace
	any='0x[0-9a-f]+'
	is 'calls' "$(grep -cE ": path_mount\($any, $any, $any, 0x8000, $any, $any\) <-__x64_sys_mount$" $R/trace)" 1
}

if [ -e $T/options/func-args ]; then
	t 'a mount: the same as the kernel shows' mounting
	t 'file operations: the same' file_operations
	t 'signals: the same' signals
else
	skip 'the same as the kernel shows' 'the kernel does not show arguments'
fi
if [ -e /sys/kernel/btf/vmlinux ]; then
	t 'as people type it' typed
else
	t 'as registers' registers
fi
finish
