#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The trace: tracefs's header and lines to the letter, and how it reads.
. /tests/lib/ktap.sh

only_texts

reload

# What both tracers show of a few calls.
both_trace() {
	local dir
	stock_off
	for dir in $T $R; do
		echo "$PARENT" >$dir/set_ftrace_filter
		echo function >$dir/current_tracer
		calls getppid "$1" 0
		calls getppid "$1" 1
		echo 0 >$dir/tracing_on
	done
	cat $T/trace >/tmp/stock.trace
	cat $R/trace >/tmp/our.trace
	stock_off
}

header() {
	both_trace 10
	grep '^#' /tmp/stock.trace >/tmp/stock.header
	grep '^#' /tmp/our.trace >/tmp/our.header
	cat /tmp/our.header
	diff /tmp/stock.header /tmp/our.header
	grep -q '^# entries-in-buffer/entries-written: 20/20   #P:2$' /tmp/our.header
}

header_of_nop() {
	echo 0 >$T/tracing_on
	cat $T/trace >/tmp/stock.trace
	cat $R/trace >/tmp/our.trace
	cat /tmp/our.trace
	echo 1 >$T/tracing_on
	diff /tmp/stock.trace /tmp/our.trace
}

# What differs from call to call is blotted out; the widths stay.
same_lines() {
	both_trace 10
	for f in stock our; do
		grep -v '^#' /tmp/$f.trace |
			sed -E 's/(calls-)[0-9]+ ( *)/\1PID\2/; s/[0-9]+\.[0-9]{6}:/TIME:/; s/\] .{5} /] STATE /' >/tmp/$f.lines
	done
	head -n 3 /tmp/our.lines
	is lines "$(wc -l </tmp/our.lines)" 20
	# (the blanks before the time tell of its width)
	sed -i 's/ *TIME/ TIME/; s/PID */PID /' /tmp/stock.lines /tmp/our.lines
	diff /tmp/stock.lines /tmp/our.lines
	# Every colon of the time at the same place.
	is 'widths' "$(sed 's/: .*//' /tmp/our.trace | grep -v '^#' | awk '{ print length($0) }' | sort -u)" \
		"$(sed 's/: .*//' /tmp/stock.trace | grep -v '^#' | awk '{ print length($0) }' | sort -u)"
}

LINE='^ *[^ ].{0,15}-[0-9]+ +\[[0-9]{3}\] [.dbD][.NnpLlbB][.sShHzZ][.0-9a-f][.0-9a-f] +[0-9]+\.[0-9]{6}: [^ ]+( \[[^ ]+\])? <-[^ ]+( \[[^ ]+\])?$'

every_line() {
	# Much of everything, with interrupts, all kinds of tasks, and events that get lost.
	echo 96 >$R/buffer_size_kb
	echo function >$R/current_tracer
	background calls files 0 0
	background calls signals 0 1
	until_true 20 overwritten
	end_background
	echo 0 >$R/tracing_on
	cat $R/trace >/tmp/our.trace
	[ "$(events /tmp/our.trace | wc -l)" -gt 5000 ]
	events /tmp/our.trace | grep -vE "$LINE" >/tmp/odd || :
	head -n 5 /tmp/odd
	[ ! -s /tmp/odd ]
	# In the order of time, over both CPUs.
	in_order /tmp/our.trace
	grep -q '\[000\]' /tmp/our.trace
	grep -q '\[001\]' /tmp/our.trace
	# As many as the header says.
	is entries "$(events /tmp/our.trace | wc -l)" \
		"$(sed -n 's|^# entries-in-buffer/entries-written: \([0-9]*\)/.*|\1|p' /tmp/our.trace)"
	is written "$(status 'events written')" \
		"$(sed -n 's|^# entries-in-buffer/entries-written: [0-9]*/\([0-9]*\) .*|\1|p' /tmp/our.trace)"
	is present "$(status 'events present')" "$(events /tmp/our.trace | wc -l)"
	# No hex for a function without a name.
	fails grep -qE ': 0x[0-9a-f]+ <-' /tmp/our.trace
	# The second to begin is announced, as nothing before is known of it.
	is announced "$(grep -c '^##### CPU [01] buffer started ####$' /tmp/our.trace)" 1
}

overwritten() {
	[ "$(stat_of 0 overrun)" -gt 0 ] && [ "$(stat_of 1 overrun)" -gt 0 ]
}

# in_order TRACE: times never go back.
in_order() {
	events "$1" | sed -E 's/^.{16}-[0-9]+ +\[[0-9]+\] .{5} +([0-9]+\.[0-9]{6}): .*/\1/' |
		awk '$1 < last { print "goes back at event " NR ": " last " to " $1; bad = 1 } { last = $1 } END { exit bad }'
}

one_cpu() {
	both_trace 50
	local cpu
	for cpu in 0 1; do
		cat $R/per_cpu/cpu$cpu/trace >/tmp/cpu.trace
		grep -F "[00$cpu]" /tmp/our.trace >/tmp/wanted
		events /tmp/cpu.trace | cmp - /tmp/wanted
		is entries "$(stat_of $cpu entries)" "$(wc -l </tmp/wanted)"
		grep -q "^# entries-in-buffer/entries-written: 50/50   #P:2\$" /tmp/cpu.trace
	done
}

not_consumed() {
	echo "$PARENT" >$R/filter
	calls getppid 1000
	cat $R/trace >/tmp/first
	cat $R/trace | cmp - /tmp/first
	is lines "$(events /tmp/first | wc -l)" 1000
	accounts_agree
}

any_size() {
	echo "$PARENT" >$R/filter
	calls getppid 300 0
	calls getppid 300 1
	fileio read $R/trace 1000000 >/tmp/whole
	is lines "$(events /tmp/whole | wc -l)" 600
	fileio read $R/trace 1 >/tmp/parts
	cmp /tmp/whole /tmp/parts
	fileio read $R/trace 1 100 4096 3 65536 >/tmp/parts
	cmp /tmp/whole /tmp/parts
	fileio pread $R/trace 1000 >/tmp/parts
	cmp /tmp/whole /tmp/parts
	fileio again $R/trace 3 >/tmp/parts
	cat /tmp/whole /tmp/whole /tmp/whole | cmp - /tmp/parts
	fileio seek $R/trace 5000 100 >/tmp/parts
	dd if=/tmp/whole bs=1 skip=5000 count=100 2>/dev/null | cmp - /tmp/parts
}

# overtaken_read: reads the trace; true if both CPUs overwrote events meanwhile, and some were read.
overtaken_read() {
	local cpu0 cpu1
	cpu0=$(stat_of 0 overrun)
	cpu1=$(stat_of 1 overrun)
	cat $R/trace >/tmp/our.trace || return 1
	[ "$(stat_of 0 overrun)" -gt "$cpu0" ] && [ "$(stat_of 1 overrun)" -gt "$cpu1" ] &&
		[ "$(events /tmp/our.trace | wc -l)" -gt 0 ]
}

read_while_written() {
	local i
	echo 32 >$R/buffer_size_kb
	echo 'vfs_*' >$R/filter
	background calls files 0 0
	background calls files 0 1
	for i in 1 2 3; do
		until_true 20 overtaken_read
		events /tmp/our.trace | grep -vE "$LINE" >/tmp/odd || :
		head -n 5 /tmp/odd
		[ ! -s /tmp/odd ]
		in_order /tmp/our.trace
	done
	end_background
	echo 0 >$R/tracing_on
	accounts_agree
}

clearing() {
	echo "$PARENT" >$R/filter
	calls getppid 10 0
	calls getppid 20 1
	is lines "$(calls_of "$PARENT")" 30
	# One CPU's, then all.
	echo >$R/per_cpu/cpu0/trace
	is lines "$(calls_of "$PARENT")" 20
	is 'written' "$(status 'events written')" 20
	gets ok $R/trace
	is lines "$(calls_of "$PARENT")" 20
	gets ok $R/trace -t
	is lines "$(calls_of "$PARENT")" 0
	accounts_agree
	calls getppid 5
	is lines "$(calls_of "$PARENT")" 5
	gets ok $R/trace 0
	is lines "$(calls_of "$PARENT")" 0
	calls getppid 6
	is lines "$(calls_of "$PARENT")" 6
	says $R/current_tracer function
}

odd_names() {
	# A name with blanks, with a dash, of 15 bytes and with others than ASCII.
	local name
	echo "$PARENT" >$R/filter
	for name in 'a b' 'a-1' 'exactly15bytes_' 'x'; do
		cp /usr/bin/calls "/tmp/$name"
		"/tmp/$name" getppid 1
		rm "/tmp/$name"
		cat $R/trace | tail -n 1 | grep -qE "^ *$name-[0-9]+ +\[00[01]\]"
	done
	events $R/trace | grep -vE "$LINE" >/tmp/odd || :
	[ ! -s /tmp/odd ]
}

t "the header is tracefs's" header
t 'so is what nop shows' header_of_nop
t "lines are tracefs's" same_lines
t 'every line of a trace of all functions is well formed and in order' every_line
t "a CPU's trace has the lines of that CPU" one_cpu
t 'reading takes nothing out' not_consumed
t 'reads of every size, and seeks, give the same text' any_size
t 'what is read while it is overwritten is whole and in order' read_while_written
t 'writing clears' clearing
t 'odd names of tasks' odd_names
finish
