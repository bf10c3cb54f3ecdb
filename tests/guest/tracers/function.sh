#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The kernel's own function tracer as oracle: the same filter and the same work, both on, and the
# two traces agree call by call.
. /tests/lib/ktap.sh

only_texts

reload

# Lines "cpu|comm|pid|function|parent|state|time" of a trace, in its order.
normalise() {
	events "$1" | sed -E 's/^ *(.*[^ ]|)-([0-9]+) +\[([0-9]+)\] (.{5}) +([0-9.]+): (.*) <-(.*)$/\3|\1|\2|\6|\7|\4|\5/'
}

# The lines of each CPU, task, and kind of interrupt together, in order. An interrupt can come between the two tracers'
# looks at one call: it is before the call in one trace and behind it in the other. What is interrupted cannot be. (the
# end of an interrupt counts as the task's, but with interrupts off)
by_stack() {
	awk -F '|' '{
		kind = substr($6, 3, 1)
		gsub("H", "h", kind)
		gsub("Z", "z", kind)
		if ($6 ~ /^[dD]/) kind = kind "d"
		print $1 $3 kind "|" $0
	}' "$1" | sort -s -t '|' -k 1,1 | cut -d '|' -f 2-
}

# same_calls: whether what is in both windows is the same.
same_calls() {
	local f
	for f in stock our; do cut -d '|' -f 1,3,4,5 /tmp/$f.window >/tmp/$f.calls; done
	cmp -s /tmp/stock.calls /tmp/our.calls
}

# trim_windows: an interrupt that comes between the looks at a mark is in one of the windows only. It is left out, if it
# is of that time.
trim_windows() {
	awk -F '|' -v mark="$PARENT" '
		FNR == 1 { file++ }
		{
			kind = substr($6, 3, 1)
			gsub("H", "h", kind)
			gsub("Z", "z", kind)
			if ($6 ~ /^[dD]/) kind = kind "d"
			key = $1 " " $3 " " kind
			if (!(key in cpu)) { keys[++all] = key; cpu[key] = $1; is_task[key] = kind == "." }
			n = ++count[file, key]
			line[file, key, n] = $0
			call[file, key, n] = $1 "|" $3 "|" $4 "|" $5
			when[file, key, n] = $7 + 0
		}
		# (both stamps are rounded, and ours is converted)
		$4 == mark && (!($1 in begin) || file == 2 && !second[$1]++ && begin[$1] < $7 + 0.000005) { begin[$1] = $7 + 0.000005 }
		$4 == mark { last[file, $1] = $7 - 0.000005 }
		function end(cpu) { return last[1, cpu] < last[2, cpu] ? last[1, cpu] : last[2, cpu] }
		# Whether both agree without so many lines at the begin, and what one then has more of at the end.
		function agree(key, skip1, skip2, more, i, m) {
			more = (count[1, key] - skip1) - (count[2, key] - skip2)
			upto[1] = count[1, key] - (more > 0 ? more : 0)
			upto[2] = count[2, key] + (more < 0 ? more : 0)
			from[1] = skip1; from[2] = skip2
			if (upto[1] < skip1 || upto[2] < skip2) return 0
			for (m = 1; m <= 2; m++) {
				if (from[m] && when[m, key, from[m]] > begin[cpu[key]]) return 0
				if (upto[m] < count[m, key] && when[m, key, upto[m] + 1] < end(cpu[key])) return 0
			}
			for (i = 1; i <= upto[1] - skip1; i++)
				if (call[1, key, skip1 + i] != call[2, key, skip2 + i]) return 0
			return 1
		}
		function aligned(key, skip) {
			for (skip = 0; skip == 0 || skip <= count[1, key] && when[1, key, skip] <= begin[cpu[key]]; skip++)
				if (agree(key, skip, 0)) return 1
			for (skip = 1; skip <= count[2, key] && when[2, key, skip] <= begin[cpu[key]]; skip++)
				if (agree(key, 0, skip)) return 1
			return 0
		}
		END {
			printf "" >"/tmp/stock.window"
			printf "" >"/tmp/our.window"
			for (k = 1; k <= all; k++) {
				key = keys[k]
				if (is_task[key] || !aligned(key)) {
					from[1] = from[2] = 0
					upto[1] = count[1, key]; upto[2] = count[2, key]
				}
				for (i = from[1] + 1; i <= upto[1]; i++) print line[1, key, i] >"/tmp/stock.window"
				for (i = from[2] + 1; i <= upto[2]; i++) print line[2, key, i] >"/tmp/our.window"
				left_out += from[1] + from[2] + count[1, key] - upto[1] + count[2, key] - upto[2]
			}
			print left_out + 0 " lines of interrupts at the marks are left out"
			exit left_out > 200
		}' /tmp/stock.in_time /tmp/our.in_time
}

# compare FILTER WORK...: both tracers on, work, both off.
# The work begins and ends between two marks, calls of getppid by processes of their own, on each
# CPU: what is before or after them is one tracer's alone.
compare() {
	local filter=$1 cpu f
	shift
	stock_off
	echo 16384 >$T/buffer_size_kb
	echo 8192 >$R/buffer_size_kb
	echo "$filter $PARENT" >$T/set_ftrace_filter
	echo "$filter $PARENT" >$R/filter
	is 'functions' "$(status 'armed functions')" "$(grep -cv '^#' $T/set_ftrace_filter)"
	echo function >$T/current_tracer
	for cpu in 0 1; do taskset $((cpu + 1)) calls getppid 1 $cpu; done
	"$@"
	for cpu in 0 1; do taskset $((cpu + 1)) calls getppid 1 $cpu; done
	echo 0 >$R/tracing_on
	echo 0 >$T/tracing_on
	none_lost
	cat $T/trace >/tmp/stock.trace
	cat $R/trace >/tmp/our.trace
	stock_off
	for f in stock our; do
		normalise /tmp/$f.trace | awk -F '|' -v mark="$PARENT" '
			{ line[++n] = $0; cpu[n] = $1; is_mark[n] = $4 == mark }
			is_mark[n] && !($1 in first) { first[$1] = n }
			is_mark[n] { last[$1] = n }
			END {
				for (i = 1; i <= n; i++)
					if (i >= first[cpu[i]] && i <= last[cpu[i]]) print line[i]
			}' >/tmp/$f.in_time
		by_stack /tmp/$f.in_time >/tmp/$f.window
	done
	same_calls || trim_windows
	[ "$(wc -l </tmp/our.window)" -gt 100 ]
	if ! same_calls; then
		diff /tmp/stock.calls /tmp/our.calls | head -n 20
		return 1
	fi
	# All but those few are also where they were in each CPU's order of time.
	for f in stock our; do
		sort -s -t '|' -k 1,1 /tmp/$f.in_time | cut -d '|' -f 1,3,4,5 >/tmp/$f.calls
	done
	[ $(($(diff /tmp/stock.calls /tmp/our.calls | grep -c '^[-+][^-+]') * 5)) -le \
		"$(wc -l </tmp/our.calls)" ]
}

# The rest of the columns, of what compare left. The kernel's tracer, the later one to be switched on,
# looks first at a call, ours next, at a moment that an interrupt may have come before.
columns() {
	paste -d '|' /tmp/stock.window /tmp/our.window | awk -F '|' '
		function time(text, part) {
			split(text, part, ".")
			# (busybox takes digits behind a 0 for octal ones)
			return part[1] * 1000000 + ("1" part[2]) - 1000000
		}
		# The bits behind a letter of need-resched: itself, lazy, and in the preempt count.
		function bit(letter, which) { return index(which, letter) > 0 }
		# Nothing that was asked of the scheduler is taken back within a call.
		function kept(before, after) {
			return bit(before, "nNbB") <= bit(after, "nNbB") && \
				bit(before, "lLbB") <= bit(after, "lLbB") && \
				bit(before, "pNLB") <= bit(after, "pNLB")
		}
		# fields: cpu comm pid function parent state time, and again
		# The kernel knows a task by its last name, and not always: one that ours saw before its exec
		# was sh or taskset.
		$2 == $9 { names++ }
		$2 != $9 && ($2 == "<...>" || $9 == "sh" || $9 == "taskset") { other_names++ }
		substr($6, 1, 1) substr($6, 3) == substr($13, 1, 1) substr($13, 3) { states++ }
		substr($6, 2, 1) == substr($13, 2, 1) { same++ }
		kept(substr($6, 2, 1), substr($13, 2, 1)) { kept_bits++ }
		# Our look is between that of the kernel at this call and that at the next of the same task.
		# (2: both stamps are rounded, and ours is converted)
		{
			early += time($14) < time($7) - 2
			stack = $1 $3 substr($6, 3, 1)
			late += stack == last_stack && time($7) < last - 2
			last_stack = stack
			last = time($14)
		}
		END {
			print NR " calls: names " names + 0 ", earlier or unknown names " other_names + 0 \
				", states " states + 0 ", need-resched " same + 0 ", not lost " kept_bits + 0 \
				", early " early + 0 ", late " late + 0
			exit !(names + other_names >= 0.99 * NR && names > 0.5 * NR && states >= 0.99 * NR && \
				kept_bits >= 0.99 * NR && same > 0.75 * NR && early + late <= 0.02 * NR)
		}'
}

# on_both MODE COUNT: that work on each CPU at once.
on_both() {
	local pid count=$2
	calls "$1" "$count" 0 &
	pid=$!
	calls "$1" "$count" 1
	wait $pid
}

system_calls() {
	compare "$(sys sched_yield)" on_both turns 1000
	columns
}

file_operations() {
	compare "vfs_* $(pick path_openat do_filp_open) path_lookupat" on_both files 100
	columns
}

processes() {
	compare 'do_exit kernel_clone wake_up_new_task mmput' on_both forks 100
	columns
}

interrupts() {
	compare '*hrtimer* *softirq* *_signal*' on_both signals 1000
	grep -qE '\|..[hH]..\|' /tmp/our.window
	columns
}

much() {
	compare 'vfs_* *mutex_lock* *_file_*' on_both files 40
	columns
}

# Ours alone first, then the kernel's beside it: neither disturbs the other.
comes_and_goes() {
	echo "$PARENT" >$R/filter
	calls getppid 100
	echo "$PARENT" >$T/set_ftrace_filter
	echo function >$T/current_tracer
	calls getppid 100
	echo nop >$T/current_tracer
	calls getppid 100
	is ours "$(calls_of "$PARENT")" 300
	echo function >$T/current_tracer
	echo nop >$R/current_tracer
	calls getppid 100
	is theirs "$(grep -cF ": $PARENT <-" $T/trace)" 100
	stock_off
}

t 'system calls on both CPUs' system_calls
t 'file operations on both CPUs' file_operations
t 'processes that come and go' processes
t 'interrupts and signals' interrupts
t 'many functions, some called by most others' much
t 'either tracer comes and goes beside the other' comes_and_goes
finish
