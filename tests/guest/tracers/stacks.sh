#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Stacks: of all functions that are traced (options/func_stack_trace), and of some (func:stacktrace), with
# the kernel's own tracer as oracle.
. /tests/lib/ktap.sh

reload

# stacks PID <TRACE: the events of a thread, each with its stack in the same line. The kernel's own stacks begin with its
# trampolines. They are events of their own, so an interrupt with calls and stacks can come before one; and other CPUs'.
stacks() {
	awk -v pid="$1" '
		function show(at) {
			if (at in call) print call[at] ":" stack[at]
			delete call[at]
			stack[at] = ""
		}
		/^ => / {
			if (at == "") next
			name = substr($0, 5)
			if (name == function_name[at]) seen = 1
			if (seen) stack[at] = stack[at] " " name
			next
		}
		{ at = "" }
		/^#/ || !match($0, "-" pid " +\\[[0-9]+\\] ") { next }
		{
			state = substr($0, RSTART + RLENGTH, 5)
			context = substr($0, RSTART, RLENGTH) (state ~ /^[dD]/ ? "d" : "") tolower(substr(state, 3, 1))
		}
		/<stack trace>$/ { at = context; seen = 0; next }
		{
			show(context)
			call[context] = $0
			name = substr($0, 1, index($0, " <-") - 1)
			sub(/.*: /, "", name)
			function_name[context] = name
		}
		END { for (context in call) show(context) }'
}

# compare FILTER COMMAND...: both tracers, with the stack of each function; the command is a program, whose calls are
# compared. (a child of it has another pid)
compare() {
	local pid
	both_with func_stack_trace "$@"
	ordered $pid stacks $pid
	wc -l </tmp/our.calls
	[ "$(wc -l </tmp/our.calls)" -ge 3 ]
	if ! cmp -s /tmp/stock.calls /tmp/our.calls; then
		diff /tmp/stock.calls /tmp/our.calls | head -n 20
		return 1
	fi
}

mounting() {
	mkdir -p /tmp/m
	compare 'path_mount vfs_* *_tree*' mount -t tmpfs none /tmp/m
	umount /tmp/m
	grep -q '|path_mount <-__x64_sys_mount: path_mount __x64_sys_mount do_syscall_64 entry_SYSCALL' /tmp/our.calls
}

file_operations() {
	compare 'vfs_* path_lookupat *_alloc_file*' calls files $((40 / SLOWER + 4))
}

# A timer interrupts the task in system calls, so its functions have the stacks of both.
in_interrupts() {
	compare 'hrtimer_interrupt signal_wake_up_state' calls alarms 20
	grep -q 'hrtimer_interrupt .*asm_sysvec_apic_timer_interrupt' /tmp/our.calls
	grep 'asm_sysvec_apic_timer_interrupt .*do_syscall_64' /tmp/our.calls | head -n 3
}

# As people type it: first the callers, then by which way.
typed() {
	mkdir -p /tmp/m
	echo path_mount >$R/set_ftrace_filter
	echo function >$R/current_tracer
	mount -t tmpfs none /tmp/m
	umount /tmp/m
	is 'without' "$(grep -c ': path_mount <-__x64_sys_mount$' $R/trace)" 1
	fails grep -qF '<stack trace>' $R/trace
	echo >$R/trace
	echo 1 >$R/options/func_stack_trace
	mount -t tmpfs none /tmp/m
	umount /tmp/m
	echo nofunc_stack_trace >$R/trace_options
	mount -t tmpfs none /tmp/m
	umount /tmp/m
	cat $R/trace | tee /tmp/typed
	is 'events' "$(grep -c ': path_mount <-__x64_sys_mount$' /tmp/typed)" 2
	is 'stacks' "$(grep -cE '^ +mount-[0-9]+ +\[[0-9]{3}\] [^ ]{5} +[0-9.]+: <stack trace>$' /tmp/typed)" 1
	is 'stack' "$(grep '^ => ' /tmp/typed | head -n 3 | tr '\n' '|')" \
		' => path_mount| => __x64_sys_mount| => do_syscall_64|'
	# trace_pipe gives the same.
	grep -v '^#' /tmp/typed >/tmp/typed.trace
	echo 0 >$R/tracing_on
	cat $R/trace_pipe >/tmp/typed.pipe
	cmp /tmp/typed.trace /tmp/typed.pipe
}

words() {
	stock_off
	listed_as_there cat 'path_mount:stacktrace' 'path_umount:stacktrace:3' '!path_mount:stacktrace' \
		'!path_umount:stacktrace:0' 'path_mount:stacktrace:5' 'path_mount'
	is 'tracer' "$(cat $R/current_tracer)" function
	# > empties the list of names, as there, and leaves the rest.
	echo path_umount >$T/set_ftrace_filter
	echo path_umount >$R/filter
	cat $T/set_ftrace_filter >/tmp/stock.list
	diff /tmp/stock.list $R/filter
	listed_as_there cat '!path_umount' '!path_mount:stacktrace:0'
	is 'tracer' "$(cat $R/current_tracer)" nop
	stock_off
	fails sh -c "echo path_mount:stacktrace:some >$R/filter"
	fails sh -c "echo no_such_function:stacktrace >$R/filter"
	fails sh -c "echo path_mount:stacktrace >$R/notrace"
	is 'filter' "$(cat $R/filter)" '#### all functions enabled ####'
	grep -qF 'Not a count after the command' $R/error_log
}

of_some() {
	mkdir -p /tmp/m
	echo "$PARENT" >$R/filter
	echo 'path_mount:stacktrace:2' >>$R/filter
	is 'functions' "$(status 'armed functions')" 2
	for _ in 1 2 3; do
		mount -t tmpfs none /tmp/m
		umount /tmp/m
	done
	calls getppid 10
	# A function that is traced for its stacks only is so no more when all are there.
	is 'mounts' "$(hits path_mount)" 2
	is 'stacks' "$(grep -c '<stack trace>' $R/trace)" 2
	is 'callers' "$(grep -c ' => path_mount' $R/trace)" 2
	is 'calls' "$(calls_of "$PARENT")" 10
	grep -q '^path_mount:stacktrace:count=0$' $R/filter
	echo >$R/trace
	echo path_mount >>$R/filter
	mount -t tmpfs none /tmp/m
	umount /tmp/m
	is 'mounts' "$(hits path_mount)" 1
	# As in tracefs, > takes names out, but no commands.
	echo >$R/filter
	is 'filter' "$(cat $R/filter | tr '\n' '|')" \
		'#### all functions enabled ####|path_mount:stacktrace:count=0|'
	is 'tracer' "$(cat $R/current_tracer)" nop
	echo '!path_mount:stacktrace' >>$R/filter
	is 'filter' "$(cat $R/filter)" '#### all functions enabled ####'
	# Stacks are recorded without a tracer, too, and with the other one.
	echo 'path_mount:stacktrace' >>$R/filter
	is 'tracer' "$(cat $R/current_tracer)" nop
	echo >$R/trace
	mount -t tmpfs none /tmp/m
	umount /tmp/m
	is 'stacks' "$(grep -c ' => path_mount' $R/trace)" 1
	echo 'path_mount vfs_get_tree' >$R/filter
	echo function_graph >$R/current_tracer
	# (a call that moves to another CPU is shown in two lines)
	taskset 1 mount -t tmpfs none /tmp/m
	umount /tmp/m
	cat $R/trace
	is 'stacks' "$(grep -c ' => path_mount' $R/trace)" 1
	[ "$(grep -c 'vfs_get_tree();' $R/trace)" -ge 1 ]
}

# All functions, the unwinder's own, interrupts of interrupts; options come and go meanwhile.
# (some on a debug kernel, which would not get anywhere with all)
everything() {
	echo 4096 >$R/buffer_size_kb
	echo 1 >$R/options/func_stack_trace
	[ $SLOWER -eq 1 ] || echo 'vfs_* *_file_* *_mutex* __rcu_* *_timer*' >$R/filter
	echo function >$R/current_tracer
	calls files 1
	echo 1 >$R/options/func-args
	echo 0 >$R/options/func_stack_trace
	echo path_mount:stacktrace >>$R/filter
	calls files 1
	echo 1 >$R/options/func_stack_trace
	calls forks 1
	calls files 1
	echo 0 >$R/tracing_on
	(set +x; hooked_as_said)
	accounts_agree
	is 'lost' "$(status 'events lost')" 0
	[ $SLOWER -ne 1 ] || [ "$(status 'left out while a stack was unwound')" -gt 0 ]
	[ "$(grep -c '<stack trace>' $R/trace)" -gt 1000 ]
}

t 'a mount: the same stacks as the kernel shows' mounting
t 'file operations: the same' file_operations
t 'interrupts: the same, down to the task' in_interrupts
t 'as people type it' typed
t 'words of the filter are listed as in tracefs' words
t 'stacks of one function, and no more than wanted' of_some
t 'all functions' everything
finish
