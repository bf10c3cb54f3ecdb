#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The directory: its files, their modes, their README, and what holds the module.
. /tests/lib/ktap.sh

reload
FILES=$(cd $R && find . -type f | one_of_each | sed 's|^\./||' | sort)

# There is nothing to be read of these.
write_only() {
	case $1 in
	free_buffer | trace_marker | trace_marker_raw) true ;;
	*) false ;;
	esac
}

modes() {
	local f mode
	is "$R" "$(stat -c '%a %u %g' $R)" '700 0 0'
	[ "$(echo "$FILES" | wc -l)" -ge 18 ]
	for f in $(cd $R && find . -type d | sort); do
		is "$f" "$(stat -c '%a %u %g' $R/"$f")" '700 0 0'
	done
	for f in $FILES; do
		mode=$(stat -c '%a %u %g' $R/"$f")
		case $mode in
		'400 0 0') is "opening $f to write" "$(fileio write $R/"$f" x)" 'write EINVAL' ;;
		'200 0 0') write_only "$f" ;;
		'600 0 0') fails write_only "$f" ;;
		*) is "$f" "$mode" '400, 600 or 200' ;;
		esac
	done
}

wanted_files() {
	local f
	for f in README available_tracers current_tracer filter notrace trace tracing_on buffer_size_kb \
		trace_clock enabled_functions available_filter_functions status error_log \
		options/func-depth per_cpu/cpu0/trace per_cpu/cpu0/stats; do
		[ -f $R/$f ]
	done
	# As many CPUs as the kernel could have.
	is cpus "$(ls $R/per_cpu | wc -l)" "$(ls $T/per_cpu | wc -l)"
}

symlinks() {
	local link
	is set_ftrace_filter "$(readlink $R/set_ftrace_filter)" filter
	is set_ftrace_notrace "$(readlink $R/set_ftrace_notrace)" notrace
	for link in $(find $R -type l); do
		[ -f "$link" ]
		# Only tracefs's own names.
		[ -e $T/"${link#"$R"/}" ]
	done
}

# README has each file in a line of its own, "cpuN" for any CPU, with its other name after a comma.
readme() {
	grep -E '^  [A-Za-z]' $R/README | grep -v '^  #' | sed 's/^  //' >/tmp/readme.lines
	grep -v '^instances/' /tmp/readme.lines | sed 's/, /\n/' | sort -u >/tmp/readme.names
	(cd $R && find . -type f -o -type l) | sed 's|^\./||; s|per_cpu/cpu[0-9]*/|per_cpu/cpuN/|; s|/function[0-9][0-9]*$|/functionN|' |
		sort -u >/tmp/present
	diff /tmp/readme.names /tmp/present
	# And says something of each.
	is 'help lines' "$(grep -c '^		[^ ]' $R/README)" "$(grep -c . /tmp/readme.lines)"
}

status_lines() {
	fails grep -vE '^[a-z][a-z_ ]*: [^ ].*$' $R/status
	is kernel "$(status kernel)" "$(uname -r)"
	is version "$(status version)" "$(modinfo -F version /rust_ftrace.ko | grep . || status version)"
}

# consuming FILE: what is read of it is gone, and reading on waits for more (in buffers/).
consuming() {
	case $1 in
	trace_pipe | */trace_pipe | */trace_pipe_raw | */raw) true ;;
	*) false ;;
	esac
}

read_in_any_size() {
	local f
	echo 'vfs_r*' >$R/filter
	cat $R/README >/dev/null
	echo 0 >$R/tracing_on
	for f in $FILES; do
		# (this one has the time in it)
		case $f in */stats) continue ;; available_filter_functions*) continue ;; esac
		if consuming "$f" || write_only "$f"; then continue; fi
		is "reading $f again" "$(fileio same $R/"$f")" ''
	done
	echo >$R/filter
	echo 1 >$R/tracing_on
}

# The kernel's tracer has the same files: what it refuses, and how, we do too, and nothing changes.
# (a value beyond what it can count does not fit there, but it wraps around first)
same_end() {
	local file=$1 theirs=$2
	shift 2
	fileio try $T/"$theirs" "$@" >/tmp/theirs
	fileio try $R/"$file" "$@" >/tmp/ours
	is values "$(wc -l </tmp/ours)" $#
	fails grep ' changed$' /tmp/ours
	diff /tmp/theirs /tmp/ours
}

bad_values() {
	local long
	long=$(head -c 200 /dev/zero | tr '\0' 1)
	echo 0 >$T/tracing_on
	same_end tracing_on tracing_on x '' '\n' ' ' -1 '1 1' 1x "1x$long"
	same_end options/func-depth options/irq-info x '' '\n' ' ' -1 2 '1 1' 1x 18446744073709551615
	same_end buffer_size_kb buffer_size_kb x '' '\n' ' ' -1 0 '64 64' 64x 0x "64x$long"
	same_end trace_clock trace_clock x '' '\n' '[local]' 'local x' LOCAL "$long"
	same_end current_tracer current_tracer x '' '\n' 'nop x' NOP "$long"
	says $R/tracing_on 1
}

odd_numbers() {
	echo 0 >$T/tracing_on
	same_end tracing_on tracing_on 0x0 ' 0' '0 ' 99999999999999999999999
	same_end options/func-depth options/irq-info 0x1 ' 1' '1 ' 99999999999999999999999
	same_end buffer_size_kb buffer_size_kb 0x40 ' 64' 99999999999999999999999
}

too_much() {
	local value
	same_end buffer_size_kb buffer_size_kb 4294967296 99999999999
	# (these wrap around in tracefs, to tiny buffers)
	for value in 18014398509481983 18014398509481984 18446744073709551615; do
		fails gets ok $R/buffer_size_kb $value
		says $R/buffer_size_kb $SIZE_KB
	done
	# It still works.
	echo "$PARENT" >$R/filter
	gets 'write ENOMEM' $R/buffer_size_kb 2000000
	calls getppid 3
	is hits "$(calls_of "$PARENT")" 3
	echo >$R/filter
}

good_values() {
	gets ok $R/tracing_on '0\n'
	says $R/tracing_on 0
	gets ok $R/tracing_on 1
	says $R/tracing_on 1
	gets ok $R/tracing_on 2
	says $R/tracing_on 1
	gets ok $R/options/func-depth 1
	says $R/options/func-depth 1
	gets ok $R/options/func-depth 0
	says $R/options/func-depth 0
	gets ok $R/current_tracer 'nop\n'
	gets ok $R/trace_clock 'local\n'
	grep -qE '(^| )\[local\]( |$)' $R/trace_clock
	echo 64 >$R/buffer_size_kb
	says $R/buffer_size_kb 64
	is tracers "$(tr ' ' '\n' <$R/available_tracers | sort | tr '\n' ' ')" 'calltrace function function_graph nop '
}

# Each file in turn, and all at once, keep the module; what was written keeps working.
held() {
	local f users
	for f in $FILES; do
		if write_only "$f"; then exec 3>$R/"$f"; else exec 3<$R/"$f"; fi
		fails rmmod rust_ftrace
		[ -e $R/"$f" ]
		read -r users </sys/module/rust_ftrace/refcnt
		is "refcount with $f" "$users" 1
		consuming "$f" || write_only "$f" || cat <&3 >/dev/null
		exec 3<&-
		read -r users </sys/module/rust_ftrace/refcnt
		is "refcount without $f" "$users" 0
	done
	rmmod rust_ftrace
	load
}

held_for_writing() {
	local f
	for f in $FILES; do
		if [ "$(stat -c %a $R/"$f")" = 400 ]; then continue; fi
		exec 3<>$R/"$f"
		fails rmmod rust_ftrace
		exec 3<&-
	done
	is refcount "$(cat /sys/module/rust_ftrace/refcnt)" 0
}

held_all_at_once() {
	local f count=0
	for f in $FILES; do
		background calls hold 1000 $R/"$f"
		count=$((count + 1))
	done
	until_true 20 grep -qx $count /sys/module/rust_ftrace/refcnt
	fails rmmod rust_ftrace
	echo "$PARENT" >$R/filter
	calls getppid 3
	is hits "$(calls_of "$PARENT")" 3
	end_background
	is refcount "$(cat /sys/module/rust_ftrace/refcnt)" 0
	rmmod rust_ftrace
	fails [ -e $R ]
	load
}

held_while_tracing() {
	echo "$PARENT" >$R/filter
	background calls getppid 0
	exec 3<$R/trace
	fails rmmod rust_ftrace
	head -n 5 <&3 >/dev/null
	exec 3<&-
	rmmod rust_ftrace
	is hooked "$(grep -c . $T/enabled_functions)" 0
	load
	end_background
}

# Patterns that take long to match against all symbols: of a name, all that comes before the end is tried.
slow_patterns() {
	local i
	for i in $(seq 16); do echo '*f*r*e*e*z*[a-z]*'; done >$R/filter
}
matching() {
	grep -q flush_work /proc/"$1"/stack
}
status_holds_nobody_up() {
	local pid
	mkdir $R/instances/one
	slow_patterns
	cat $R/status >/tmp/status &
	pid=$!
	until_true 10 matching $pid
	echo vfs_read >$R/instances/one/filter
	echo vfs_read >$R/notrace
	# It is still at it.
	matching $pid
	wait $pid
	is skipped "$(sed -n 's/^skipped matches: //p' /tmp/status)" "$(status 'skipped matches')"
	rmdir $R/instances/one
}
# A reader that watches status has all symbols read once.
# How often the kernel's list of symbols was read, as the kernel's tracer sees it.
lists_read() {
	grep -c 'kallsyms_open <-' $T/trace || :
}

status_is_cheap() {
	stock_off
	echo kallsyms_open >$T/set_ftrace_filter
	echo function >$T/current_tracer
	echo 'tty_* *_b*' >$R/filter
	status 'skipped matches'
	is 'at first' "$(lists_read)" 1
	for _ in 1 2 3 4 5; do cat $R/status >/dev/null; done
	is 'then' "$(lists_read)" 1
	echo 'vfs_* *_a*' >$R/filter
	cat $R/status >/dev/null
	is 'for other patterns' "$(lists_read)" 2
	stock_off
}

t 'the files of the issue are there, and all CPUs' wanted_files
texts 'directories are 0700, files 0400, 0600 or 0200, of root' modes
t "tracefs's names are links" symlinks
t 'README has every file, and nothing else' readme
t 'status is made of "key: value"' status_lines
texts 'reads of every size, and seeks, give the same text' read_in_any_size
t 'good values are taken and read back' good_values
t 'bad values end as in tracefs, and change nothing' bad_values
t 'odd numbers too' odd_numbers
t 'a buffer that no machine could hold is refused' too_much
t 'who reads status holds nobody up' status_holds_nobody_up
t 'what patterns skip is counted once' status_is_cheap
t 'every file that is open keeps the module' held
t 'every file that is open for writing too' held_for_writing
stressed 'all files at once' held_all_at_once
t 'an open trace of what goes on keeps it' held_while_tracing
finish
