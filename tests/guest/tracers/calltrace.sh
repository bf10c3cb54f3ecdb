#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# calltrace: what function records, shown as a tree, with the kernel's function_graph as the oracle.
. /tests/lib/ktap.sh

only_texts

reload

# The same lines as function shows, but for the indentation.
same_as_function() {
	local cpu
	echo "$PARENT" >$R/filter
	echo calltrace >$R/current_tracer
	says $R/current_tracer calltrace
	is 'armed functions' "$(status 'armed functions')" 1
	calls getppid 20 0
	calls getppid 20 1
	echo 0 >$R/tracing_on
	cat $R/trace >/tmp/tree
	is header "$(head -n 1 /tmp/tree)" '# tracer: calltrace'
	sed 1d /tmp/tree | grep '^#' >/tmp/tree.header
	events /tmp/tree >/tmp/tree.lines
	[ "$(grep -c "^ *calls-.*: $PARENT <-" /tmp/tree.lines)" -eq 40 ]
	for cpu in 0 1; do
		events $R/per_cpu/cpu$cpu/trace >/tmp/tree.cpu
		grep -F "[00$cpu]" /tmp/tree.lines | cmp - /tmp/tree.cpu
	done
	# (with one function nothing is indented)
	echo 1 >$R/snapshot
	events $R/snapshot | cmp - /tmp/tree.lines
	echo nop >$R/current_tracer
	echo function >$R/current_tracer
	cat $R/trace | grep '^#' | sed 1d | sed 's/written: .*#P/written: 0 #P/' >/tmp/flat.header
	sed 's/written: .*#P/written: 0 #P/' /tmp/tree.header | cmp - /tmp/flat.header
}

# The indentation says the same as the column of func-depth.
indented() {
	echo 4096 >$R/buffer_size_kb
	echo calltrace >$R/current_tracer
	ls -l /proc/self >/dev/null
	echo 0 >$R/tracing_on
	events $R/trace >/tmp/tree
	echo 1 >$R/options/func-depth
	events $R/trace >/tmp/deep
	is header "$(grep -c 'TIMESTAMP  DEPTH FUNCTION$' $R/trace)" 1
	[ "$(wc -l </tmp/deep)" -ge 500 ]
	[ "$(sed -E 's/^.*[0-9]: +([0-9]+) .*/\1/' /tmp/deep | sort -n | tail -n 1)" -ge 5 ]
	# (as many pairs of blanks as the depth)
	awk '{
		match($0, /[0-9]: +[0-9]+ /)
		head = substr($0, 1, RSTART); rest = substr($0, RSTART + RLENGTH)
		depth = substr($0, RSTART + 2, RLENGTH - 2) + 0
		printf "%s: ", head
		print rest
		match(rest, /^ */)
		if (RLENGTH != 2 * depth) { print "not indented by " depth ": " $0 >"/dev/stderr"; exit 1 }
	}' /tmp/deep | cmp - /tmp/tree
}

# only COMMAND...: is run by a task that alone is traced, by both tracers.
only() {
	sh -c 'echo $$ >$0; echo $$ >$1; shift; exec "$@"' $R/pid $T/set_ftrace_pid "$@" >/dev/null
}

# both KIB COMMAND...: what both tracers record at the same time, into /tmp/graph.trace and /tmp/tree: all
# functions here, and below ROOTS there. KIB is the size of our buffers.
both() {
	local root
	echo 16384 >$T/buffer_size_kb
	echo "$1" >$R/buffer_size_kb
	shift
	# Interrupts have trees of their own here.
	echo 0 >$T/options/funcgraph-irqs
	echo >$T/set_graph_function
	for root in $ROOTS; do echo "$root" >>$T/set_graph_function; done
	# (what hooking the other's functions calls alone would fill the buffer)
	echo 0 >$R/tracing_on
	echo $$ >$R/pid
	echo calltrace >$R/current_tracer
	echo function_graph >$T/current_tracer
	echo 1 >$R/tracing_on
	"$@"
	echo 0 >$T/tracing_on
	echo 0 >$R/tracing_on
	cat $T/trace >/tmp/graph.trace
	echo nop >$T/current_tracer
	echo >$T/set_graph_function
	echo >$T/set_ftrace_pid
	echo 1 >$T/tracing_on
	cat $R/trace >/tmp/tree
}

# tree_nesting ROOT <TRACE: as graph_nesting, of what calltrace shows of all calls of ROOT. A line "irq" is
# there where an interrupt came: all until its end is left out.
tree_nesting() {
	awk -v root="$1" '
		# (most lines are of other calls)
		!inside && !index($0, " " root " <-") { next }
		{
			at = index($0, ": ") + 2
			text = substr($0, at)
			name = text
			sub(/^ */, "", name)
			depth = (length(text) - length(name)) / 2
			end = index(name, " ")
			parent = substr(name, end + 3)
			name = substr(name, 1, end - 1)
			off = substr($0, 32, 1); level = substr($0, 34, 1)
		}
		inside && (name == "irq_enter_rcu" || level != ".") {
			if (!irq) print "irq"
			irq = 1
		}
		irq && (level != "." || off == "d" && parent != "irqentry_exit") { next }
		{ irq = 0 }
		name == root && !inside { inside = 1; base = depth }
		!inside { next }
		depth < base || depth == base && name != root { inside = 0; next }
		{ print depth - base, name }'
}

# same_nesting ROOT COUNT [LEAST]: the last COUNT calls of it in which no interrupt came: LEAST, or 1, at least.
same_nesting() {
	graph_nesting </tmp/graph.trace | awk -v root="$1" '
		$1 == 0 { inside = $2 == root }
		inside' >/tmp/graph
	tree_nesting "$1" </tmp/tree >/tmp/ours
	awk -v root="$1" -v count="$2" -v least="${3:-1}" '
		BEGIN { irqs["irq_enter_rcu"]; irqs["irq_exit_rcu"]; irqs["handle_softirqs"]; irqs["__hrtimer_rearm_deferred"] }
		FNR == 1 { file++ }
		$0 == "0 " root { call[file]++; lines[file, call[file]] = 0 }
		!call[file] { next }
		$1 == "irq" || $2 in irqs { hit[file, call[file]] = 1 }
		$1 != "irq" { line[file, call[file], ++lines[file, call[file]]] = $0 }
		END {
			for (k = 0; k < count && k < call[1] && k < call[2]; k++) {
				a = call[1] - k; b = call[2] - k
				n = lines[1, a]; m = lines[2, b]
				if ((1, a) in hit || (2, b) in hit) {
					interrupted++
					continue
				}
				same++
				for (i = 1; i <= n || i <= m; i++) {
					# Whether what was called last has returned when the task is preempted, cannot be seen.
					if (line[1, a, i] ~ /rcu_note_context_switch/) {
						switched++
						break
					}
					if (line[1, a, i] == line[2, b, i]) continue
					# (since Linux 7.3 neither its caller can be traced nor what calls that: a guess, see docs/depth.md)
					if (line[1, a, i] ~ / __update_load_avg_cfs_rq$/ && line[2, b, i] ~ / __update_load_avg_cfs_rq$/) continue
					for (j = i - 4; j <= i + 8; j++) print "line " j ": " line[1, a, j] ", and ours: " line[2, b, j]
					bad++
					break
				}
				all += n
			}
			print root ": " call[1] " calls, of ours " call[2] "; " same " (" all " lines) are compared, " switched + 0 " of them up to a switch, " interrupted + 0 " were interrupted"
			exit bad || same < least || same && all < 20
		}' /tmp/graph /tmp/ours
}

# (calls of open that one of the two has not seen come first)
work() {
	local i
	for i in 1 2 3; do
		only mount -t tmpfs rftrace /mnt
		umount /mnt
	done
	# The second call moves the task from CPU 0 to CPU 1 while it is in it.
	for i in 1 2 3; do only taskset 1 calls getppid 1 1; done
	only cat /proc/self/stat /etc/guest.env /proc/self/stat /etc/guest.env
}

MOUNT=$(pick path_mount __x64_sys_mount)
OPEN=$(pick do_sys_openat2 do_sys_open)
MOVE=$(pick __sched_setaffinity sched_setaffinity)

# One recording for all, since hooking all functions twice takes long.
as_function_graph() {
	ROOTS="$MOUNT $OPEN $MOVE"
	both 8192 work
	# (it takes longer than the time between two ticks, where the host is busy)
	same_nesting "$MOUNT" 3 0
	same_nesting "$OPEN" 4
	same_nesting "$MOVE" 6
	# (so it moved)
	[ "$(grep -c '^ *calls-.*\[000\]' /tmp/tree)" -gt 0 ]
	[ "$(grep -c '^ *calls-.*\[001\]' /tmp/tree)" -gt 0 ]
}
as_function_graph_tries() { tries 4 as_function_graph; }

# The oldest events are gone: what follows is right all the same, and it is said which task has lost the begin.
overwritten() {
	ROOTS=$OPEN
	both 512 only calls files 100 1
	[ "$(stat_of 1 overrun)" -gt 0 ]
	same_nesting "$OPEN" 10
	grep '####' /tmp/tree
	grep -qE '^##### [a-z]+-[0-9]+: the entry of [^ ]+ is not in this trace ####$' /tmp/tree
}
overwritten_tries() { tries 3 overwritten; }

t 'what function shows, by the same hook' same_as_function
t 'as deep as func-depth says' indented
t 'nesting as function_graph has it, on two CPUs' as_function_graph_tries
# (all functions are hooked by both tracers: minutes)
if [ -z "$nesting" ]; then
	skip 'and after lost events' 'takes minutes: CMDLINE=nesting=1'
else
	t 'and after lost events' overwritten_tries
fi
finish
