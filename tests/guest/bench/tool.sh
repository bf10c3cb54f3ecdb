#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# Usage: tool.sh [short|full]
# What rftrace costs that records and looks at recordings, against trace-cmd and uftrace, which get recordings of their
# own of the same work, all in this one boot. Run by scripts/bench.
#
# A call is what is counted: we have one event for one that calls nothing that is traced, and two for another; they have
# two for each. What a program costs whatever it records or reads (arming, symbols, formats of events) is found by
# one that records or reads nearly nothing, and taken off where it is said so.
. /tests/bench/lib.sh
R=/sys/kernel/debug/rftrace
T=/sys/kernel/tracing
export PATH=/recorders/bin:$PATH

# Reads and writes of dd, with so many calls for each. Symbols are those only: their number is no matter of recording.
functions='__x64_sys_read ksys_read vfs_read read_zero __x64_sys_write ksys_write vfs_write write_null'
per_turn=8
turns=20000 runs=1
[ "$1" != full ] || turns=65000 runs=5
buffer_kb=1408

few_symbols() {
	grep -E " [tT] ($(echo "$functions" | tr ' ' '|'))$" /proc/kallsyms >/tmp/kallsyms
	[ "$(wc -l </tmp/kallsyms)" -ge $per_turn ] || fail "this kernel has not all of $functions"
	mount --bind /tmp/kallsyms /proc/kallsyms
}

# options LETTER SUFFIX: each function as an option of that letter.
options() {
	local function
	for function in $functions; do printf ' -%s %s' "$1" "$function$2"; done
}

# work TURNS: its CPU time is in /tmp/worked.
work() { [ "$1" = 0 ] || bench spent /tmp/worked dd if=/dev/zero of=/dev/null bs=16 count="$1" 2>/dev/null; }

# spent: CPU time of the last "bench spent".
spent() { cat /tmp/spent; }

# recorded READY TURNS COMMAND...: records that many turns.
recorded() {
	local ready=$1 turns=$2 recorder
	shift 2
	echo 0 >$T/tracing_on
	: >/tmp/said
	bench spent /tmp/spent "$@" >/tmp/said 2>&1 &
	recorder=$!
	until_true 120 "$ready" || fail "$1 does not begin: $(tail -n 1 /tmp/said)"
	work "$turns"
	kill -INT $recorder
	wait $recorder || fail "$1: $(tail -n 1 /tmp/said)"
}
ours_is_ready() { [ "$(cat $R/instances/rftrace.*/tracing_on 2>/dev/null)" = 1 ]; }
# (the last thing that it does)
theirs_is_ready() { [ "$(cat $T/current_tracer) $(cat $T/tracing_on)" = 'function_graph 1' ]; }

# shellcheck disable=SC2046 # words
record_ours() {
	recorded ours_is_ready "$1" rftrace record -o /mnt/ours -b ${buffer_kb}K --force -a $(options l '')
}
# shellcheck disable=SC2046 # words
record_theirs() {
	recorded theirs_is_ready "$1" trace-cmd record -o /mnt/theirs -b $buffer_kb -p function_graph $(options l '')
	echo nop >$T/current_tracer
}

# Percent of the events that were made and not recorded, in hundredths.
lost_ours() {
	local lost all
	lost=$(rftrace info /mnt/ours | sed -n 's/^lost  *\([0-9]*\).*/\1/p')
	all=$(rftrace info /mnt/ours | sed -n 's/^events  *\([0-9]*\).*/\1/p')
	echo $((lost * 10000 / (all + lost)))
}
lost_theirs() {
	local lost
	lost=$(awk '/^(overrun|dropped events):/ { sum += $NF } / lost/ { sum += $2 } END { print sum + 0 }' /tmp/said)
	echo $((lost * 10000 / (made * 2)))
}

# note_run NAME: appends to /tmp/NAME.VALUE what the last recording came to.
note_run() {
	spent >>/tmp/"$1".cpu
	stat -c %s "/mnt/$1" >>/tmp/"$1".size
	"lost_$1" >>/tmp/"$1".lost
}
median() { sort -n "$1" | awk '{ value[NR] = $1 } END { print value[int((NR + 1) / 2)] }'; }

# each_call NAME VALUE FACTOR: the median of what NAME's runs came to, without what is fixed, for a call.
each_call() { echo $((($(median "/tmp/$1.$2") - $(cat "/tmp/$1.$2.fixed")) * $3 / made)); }

measure_record() {
	local run who
	for who in ours theirs; do
		now "recording: $who, next to nothing"
		record_$who 0
		spent >/tmp/$who.cpu.fixed
		stat -c %s /mnt/$who >/tmp/$who.size.fixed
	done
	for run in $(seq "$runs"); do
		for who in ours theirs; do
			now "recording: $who, $run of $runs"
			record_$who "$turns"
			note_run $who
		done
	done
	peer="trace-cmd record"
	row record_cpu "$(each_call ours cpu 1)" cost "$(each_call theirs cpu 1)" "$peer"
	row record_cpu_all $(($(median /tmp/ours.cpu) / made)) cost $(($(median /tmp/theirs.cpu) / made)) "$peer"
	row record_lost "$(median /tmp/ours.lost)" % "$(median /tmp/theirs.lost)" "$peer"
	row record_bytes "$(each_call ours size 100)" bytes "$(each_call theirs size 100)" "$peer"
	row record_bytes_all $(($(median /tmp/ours.size) * 100 / made)) bytes \
		$(($(median /tmp/theirs.size) * 100 / made)) "$peer"
}

# cost_of CALLS COMMAND...: what it costs for each of so many.
cost_of() {
	local calls=$1
	shift
	bench spent /tmp/spent "$@" >/dev/null 2>/tmp/said || fail "$*: $(tail -n 1 /tmp/said)"
	echo $(($(spent) / calls))
}

# shellcheck disable=SC2046 # words
measure_analysis() {
	local calls
	now "looking at it"
	peer=$(cost_of $made trace-cmd report -i /mnt/theirs)
	row replay_call "$(cost_of $made rftrace replay /mnt/ours)" cost "$peer" "trace-cmd report"
	now "recording: uftrace"
	rm -f /mnt/theirs
	if ! timeout 60 uftrace record -d /mnt/uftrace -k -K 30 --force $(options P @kernel) \
		/recorders/bin/dd if=/dev/zero of=/dev/null bs=16 count="$turns" >/tmp/said 2>&1; then
		missing report_call "uftrace record fails: $(tail -n 1 /tmp/said)"
		return
	fi
	now "looking at it"
	# What it counts is what was done. (dd's calls of its library are among it)
	uftrace report -d /mnt/uftrace -f call >/tmp/uftrace 2>/dev/null
	calls=$(awk '$2 == "vfs_read" { print $1 }' /tmp/uftrace)
	if [ "${calls:-0}" -lt $((turns * 9 / 10)) ]; then
		missing report_call "uftrace has ${calls:-no} calls of vfs_read in its recording, of $turns"
		return
	fi
	calls=$(awk '$1 + 0 { sum += $1 } END { print sum }' /tmp/uftrace)
	peer=$(cost_of "$calls" uftrace report -d /mnt/uftrace)
	row report_call "$(cost_of $made rftrace report /mnt/ours)" cost "$peer" "uftrace report"
}

# outside OPTION...: CPU time of work outside of path_mount, while that and what it calls is recorded.
outside() {
	recorded ours_is_ready "$turns" rftrace record -o /mnt/closure --force -a -g path_mount "$@"
	cat /tmp/worked
}

measure_closure() {
	local all free
	now "cost outside of the function that is looked at"
	# (all symbols)
	umount /proc/kallsyms
	work "$turns"
	free=$(cat /tmp/worked)
	all=$(outside)
	row closure_outside $((($(outside --closure) - free) / turns)) cost $(((all - free) / turns)) "without --closure"
}

: >/tmp/rows
made=$((turns * per_turn))
if [ ! -x /recorders/bin/trace-cmd ]; then
	for name in record_cpu record_lost record_bytes replay_call report_call; do
		missing $name "there is no trace-cmd and uftrace here"
	done
	show_rows
	exit
fi
mount -t tmpfs -o size=1g none /mnt
few_symbols
insmod /rust_ftrace.ko || fail "the module does not load"
measure_record
measure_analysis
# (the kernel's text is looked through: it takes a while)
[ "$1" != full ] || measure_closure
show_rows
