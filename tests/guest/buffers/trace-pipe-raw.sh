#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# per_cpu/cpuN/trace_pipe_raw and events/, by which programs decode it: as helpers/kpages.c does by the kernel's headers.
. /tests/lib/ktap.sh

reload
YIELD=$(sys sched_yield)

# The kernel's own functions, with their addresses in ascending order; of several names of one, the first,
# as the kernel has it.
awk '$2 ~ /^[tTwW]$/ && $4 == "" && $1 != last { print $1, $3; last = $1 }' /proc/kallsyms >/tmp/kernel.symbols

# pages CPU [OPTION...]: what its trace_pipe_raw has, in /tmp/pages.
pages() {
	local cpu=$1
	shift
	kpages --symbols /tmp/kernel.symbols "$@" $R/per_cpu/cpu"$cpu"/trace_pipe_raw >/tmp/pages
}

# same_texts FILE...: each is as in tracefs.
same_texts() {
	local file
	for file; do diff "$T/$file" "$R/$file"; done
}

formats() {
	same_texts events/header_page events/header_event events/enable
	for event in function funcgraph_entry funcgraph_exit kernel_stack print raw_data; do
		same_texts events/ftrace/$event/format
	done
	echo 1 >$R/options/funcgraph-retval
	is retval "$(grep -c 'unsigned long retval;	offset:16;	size:8;' $R/events/ftrace/funcgraph_exit/format)" 1
	echo 0 >$R/options/funcgraph-retval
	is enable "$(cat $R/events/enable)" 0
	gets ok $R/events/enable 0
	gets 'write EINVAL' $R/events/enable 1
	gets 'write EINVAL' $R/events/enable x
}

# Pages are of another size only once sub-buffers are.
no_memory() {
	local available
	grep -q 'char data;.*size:4080;' $R/events/header_page
	available=$(awk '/^MemAvailable/ { print $2 }' /proc/meminfo)
	echo "$PARENT" >$R/filter
	echo $((available * 6 / 10)) >$R/per_cpu/cpu1/buffer_size_kb
	gets 'write ENOMEM' $R/buffer_subbuf_size_kb 512
	says $R/buffer_subbuf_size_kb $SUBBUF_KB
	grep -q 'char data;.*size:4080;' $R/events/header_page
}

# of_trace CPU: a line "MICROSECONDS TYPE PID FUNCTION PARENT" for each line of trace.
of_trace() {
	events $R/per_cpu/cpu"$1"/trace |
		sed -E 's/^ *.*-([0-9]+) +\[[0-9]+\] [^ ]+ +([0-9]+)\.([0-9]+): ([^ (]+)[^<]*<-([^ ]*)$/\2\3 1 \1 \4 \5/'
}

# of_pages: the same from what kpages printed. (trace rounds)
of_pages() {
	awk '$2 == 1 { print int(($1 + 500) / 1000), $2, $3, $6, $7 }' /tmp/pages
}

# decoded_as_trace [OPTION...]: the pages have what trace had.
decoded_as_trace() {
	local cpu
	for cpu in 0 1; do
		of_trace $cpu >/tmp/want
		[ "$(wc -l </tmp/want)" -gt 100 ]
		pages $cpu "$@"
		is 'the end' "$(tail -n 1 /tmp/pages)" EAGAIN
		of_pages >/tmp/got
		is lines "$(wc -l </tmp/got)" "$(wc -l </tmp/want)"
		# (a conversion of the same stamp may be another ns)
		paste -d ' ' /tmp/want /tmp/got | awk '
			{ apart = $1 - $6 }
			apart < -1 || apart > 1 || $2 != $7 || $3 != $8 || $4 != $9 || $5 != $10 { print; bad = 1 }
			END { exit bad }'
		is read "$(stat_of $cpu 'read events')" "$(wc -l </tmp/want)"
		is 'left in trace' "$(events $R/per_cpu/cpu$cpu/trace | wc -l)" 0
	done
	accounts_agree
}

work() {
	echo "$YIELD $PARENT vfs_*" >$R/filter
	calls files "$1" 0
	calls turns "$1" 1
	calls files "$1" 1
	echo 0 >$R/tracing_on
}

like_trace() {
	work 20
	decoded_as_trace
}

small_reads() {
	work 20
	decoded_as_trace --size 1000
	reset
	work 20
	decoded_as_trace --size 5000
}

# As many on a page as the kernel has, and all pages whole.
whole_pages() {
	echo "$YIELD" >$R/filter
	calls yields 1000 1
	echo 0 >$R/tracing_on
	fileio drain $R/per_cpu/cpu1/trace_pipe_raw 65536 >/tmp/bytes 2>/tmp/err || :
	is end "$(cat /tmp/err)" EAGAIN
	is 'bytes of pages' $(($(wc -c </tmp/bytes) % 4096)) 0
	# (145 of 28 bytes on each)
	is pages $(($(wc -c </tmp/bytes) / 4096)) 7
}

# What was lost is said by the page behind it.
lost() {
	local lost
	echo 64 >$R/buffer_size_kb
	echo "$YIELD" >$R/filter
	calls yields 20000 1
	echo 0 >$R/tracing_on
	lost=$(stat_of 1 overrun)
	[ "$lost" -gt 1000 ]
	pages 1
	is 'pages that say so' "$(grep -c lost /tmp/pages)" 1
	is lost "$(awk '/lost/ { print $4 }' /tmp/pages)" "$lost"
	is 'events read' "$(grep -c '^[0-9]* 1 ' /tmp/pages)" $((20000 - lost))
}

# Calls: what they took is what trace says, and entries come before returns.
calls_in_pages() {
	local pid
	echo "$PARENT $YIELD ksys_read vfs_read" >$R/filter
	echo function_graph >$R/current_tracer
	calls files 20 1
	calls turns 20 1
	echo 0 >$R/tracing_on
	echo 1 >$R/options/funcgraph-tail
	echo 1 >$R/options/funcgraph-abstime
	grep -oE '[0-9.]+ us .*(\(\);|/\* [a-z_]+ \*/)' $R/per_cpu/cpu1/trace |
		sed -E 's/^([0-9.]+) us .*[ |]([a-z_0-9]+)(\(\);| \*\/)$/\1 \2/' >/tmp/want
	[ "$(wc -l </tmp/want)" -ge 60 ]
	pages 1
	awk '$2 == 10 { printf "%.3f %s\n", ($10 - $9) / 1000, $6 }' /tmp/pages >/tmp/got
	is calls "$(wc -l </tmp/got)" "$(wc -l </tmp/want)"
	paste -d ' ' /tmp/want /tmp/got | awk '
		# (the text has seven digits)
		{ apart = $1 - $3; room = $1 < 10000 ? 0.002 : $1 / 1000000 }
		apart < -room || apart > room || $2 != $4 { print; bad = 1 }
		END { exit bad }'
	# Each return closes the innermost entry of its task, at the same depth.
	grep -E '^[0-9]+ 1[01] ' /tmp/pages | awk '
		$2 == 11 { stack[$3] = stack[$3] " " $6 ":" $7; next }
		{
			n = split(stack[$3], open, " ")
			if (n && open[n] != $6 ":" $7) { print "returns from", $6, $7, "in", open[n]; bad = 1 }
			stack[$3] = ""
			for (i = 1; i < n; i++) stack[$3] = stack[$3] " " open[i]
		}
		END { exit bad }'
}

# A pid has its name in saved_cmdlines, whether its events are in the buffer or were taken.
task_names() {
	local name
	echo "$YIELD" >$R/filter
	for name in one two; do
		cp "$(which calls)" /tmp/$name
		/tmp/$name yields 10 1
		echo 0 >$R/tracing_on
		pages 1
		awk '$2 == 1 { print $3 }' /tmp/pages | sort -u >/tmp/$name.pid
		is pids "$(wc -l </tmp/$name.pid)" 1
		echo 1 >$R/tracing_on
	done
	/tmp/one yields 10 0 &
	wait
	for name in one two; do
		is "name of $name" "$(awk -v pid="$(cat /tmp/$name.pid)" '$1 == pid { print $2 }' $R/saved_cmdlines)" $name
		is "process of $name" "$(awk -v pid="$(cat /tmp/$name.pid)" '$1 == pid { print $2 }' $R/saved_tgids)" \
			"$(cat /tmp/$name.pid)"
	done
	is 'both of one' "$(grep -c ' one$' $R/saved_cmdlines)" 2
	is 'each once' "$(sort $R/saved_cmdlines | uniq -d)" ''
}

# Whichever CPU is read last, the last name counts. (A shell calls getppid when it begins.)
last_name() {
	local pid
	echo "$PARENT" >$R/filter
	taskset 2 sh -c 'exec calls getppid 10 0' &
	pid=$!
	wait $pid
	echo 0 >$R/tracing_on
	grep -qE "^ *sh-$pid +\[001\]" $R/trace
	grep -qE "^ *calls-$pid +\[000\]" $R/trace
	is 'name in the buffer' "$(awk -v pid=$pid '$1 == pid { print $2 }' $R/saved_cmdlines)" calls
	pages 0
	pages 1
	is 'name when taken' "$(awk -v pid=$pid '$1 == pid { print $2 }' $R/saved_cmdlines)" calls
}

# Stacks and arguments come with their entries.
beside() {
	echo "$YIELD" >$R/filter
	echo 1 >$R/options/func_stack_trace
	echo 1 >$R/options/func-args
	calls yields 50 1
	echo 0 >$R/tracing_on
	echo 0 >$R/options/func_stack_trace
	echo 0 >$R/options/func-args
	grep -A9 "$YIELD(" $R/per_cpu/cpu1/trace | grep '=>' | sed 's/ => //' | sort | uniq -c | sort >/tmp/want
	pages 1
	is entries "$(awk '$2 == 1 && NF == 13' /tmp/pages | wc -l)" 50
	awk '$2 == 4 { for (i = 7; i <= NF; i++) print $i }' /tmp/pages |
		sort | uniq -c | sort >/tmp/got
	cmp /tmp/want /tmp/got
}

t "events/ says what tracefs's says" formats
t "a size that there is no memory for changes nothing" no_memory
t "the pages have what trace has" like_trace
t "however small the reads are" small_reads
t "pages are full, and given out whole" whole_pages
t "what was lost is said" lost
t "calls, with how long they took" calls_in_pages
t "names of tasks are kept" task_names
t 'the last name of a task that was on several CPUs' last_name
t "stacks and arguments" beside
finish
