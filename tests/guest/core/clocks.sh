#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The clocks: tracefs's, with the same values; none goes back within a CPU; and what local is made of.
. /tests/lib/ktap.sh

reload
CLOCKS=$(tr -d '[]' <$T/trace_clock)
CLOCKSOURCE=/sys/devices/system/clocksource/clocksource0

# both CLOCK: for both tracers.
both() {
	echo "$1" >$T/trace_clock
	echo "$1" >$R/trace_clock
}

# stamps FILE: the times of a trace's events, as whole numbers: microseconds, or what a clock counts.
stamps() {
	events "$1" | sed -E 's/^.*\] .{5} +([0-9.]+): .*/\1/; s/\.//'
}

# mark TEXT [CPU]: into the kernel's own trace, which then has the time of its clock.
mark() {
	taskset $((1 << ${2:-0})) sh -c "echo $1 >$T/trace_marker"
}
# marked TEXT: that time.
marked() {
	grep ": tracing_mark_write: $1\$" $T/trace >/tmp/marked
	stamps /tmp/marked
}

# ours FILE: the events of the program calls in our trace.
ours() {
	cat $R/trace >/tmp/clock.trace
	grep -E "^ *calls-[0-9]+ " /tmp/clock.trace >"$1"
}

# never_back: in what is recorded, on any CPU.
never_back() {
	local cpu
	for cpu in $R/per_cpu/cpu*; do
		cat "$cpu/trace" >/tmp/back.trace
		stamps /tmp/back.trace >/tmp/back.stamps
		awk -v cpu="${cpu##*/}" '
			NR > 1 && $1 < last { print cpu ": " last " and then " $1; bad = 1 }
			{ last = $1 }
			END { exit bad }' /tmp/back.stamps
	done
}

same_names() {
	local clock
	is 'line' "$(cat $R/trace_clock)" "$(cat $T/trace_clock)"
	for clock in $CLOCKS; do
		both "$clock"
		is 'line' "$(cat $R/trace_clock)" "$(cat $T/trace_clock)"
		is 'in status' "$(status clock | sed 's/ .*//')" "$clock"
	done
	# White space does not matter.
	gets ok $R/trace_clock '  mono \n'
	grep -qF '[mono]' $R/trace_clock
}

# Our stamps lie between those that tracefs has, by the same clock, from before and after.
same_time() {
	local clock before after slack
	echo "$PARENT" >$R/filter
	for clock in $CLOCKS; do
		both "$clock"
		mark before 0
		calls getppid 10 1
		calls getppid 10 0
		mark after 1
		ours /tmp/clock.ours
		is "events by $clock" "$(wc -l </tmp/clock.ours)" 20
		stamps /tmp/clock.ours >/tmp/clock.stamps
		before=$(marked before) after=$(marked after)
		case $clock in
		# (each tracer counts for itself: each event is one more)
		counter) before=1 after=100000 slack=0 ;;
		# (what is converted, and rounded, may be one off)
		local) slack=1 ;;
		*) slack=0 ;;
		esac
		awk -v before="$before" -v after="$after" -v slack=$slack -v clock="$clock" '
			$1 < before - slack || $1 > after + slack || (clock == "counter" && $1 == last) {
				print clock ": " $1 " is not between " before " and " after
				bad = 1
			}
			{ last = $1 }
			END { exit bad }' /tmp/clock.stamps
		# And they look alike: the column of times ends at the same place.
		awk -v clock="$clock" '
			{ match($0, / +[0-9.]+: /); ends[RSTART + RLENGTH] }
			END { for (end in ends) count++; exit clock !~ /tsc/ && count != 1 }' \
			/tmp/marked /tmp/clock.ours
	done
}

clears() {
	local clock
	echo "$PARENT" >$R/filter
	for clock in mono mono local local x86-tsc; do
		calls getppid 5
		echo 1 >$R/snapshot
		calls getppid 5
		is "calls before $clock" "$(calls_of "$PARENT")" 5
		[ "$(grep -c "^ *calls-.*: $PARENT <-" $R/snapshot)" -ge 5 ]
		echo $clock >$R/trace_clock
		is "calls after $clock" "$(calls_of "$PARENT")" 0
		is "snapshot after $clock" "$(events $R/snapshot | wc -l)" 0
		calls getppid 3
		is "later calls" "$(calls_of "$PARENT")" 3
	done
}

refused() {
	local clock
	echo "$PARENT" >$R/filter
	echo boot >$R/trace_clock
	calls getppid 5
	for clock in nonsense LOCAL '[local]' 'local global' 'mono_' 'x86_tsc' ''; do
		echo >$R/error_log
		gets 'write EINVAL' $R/trace_clock "$clock\n"
		grep -qF '[boot]' $R/trace_clock
		is 'calls' "$(calls_of "$PARENT")" 5
		grep -q 'trace_clock: error: [A-Z]' $R/error_log
		grep -qxF "  Command: $clock" $R/error_log
	done
}

stats_lines() {
	local clock file
	echo "$PARENT" >$R/filter
	for clock in $CLOCKS; do
		both "$clock"
		mark something 0
		calls getppid 5 0
		for file in $T $R; do
			grep ' ts: ' $file/per_cpu/cpu0/stats | sed -E 's/: +/: /; s/[0-9]+/N/g' >/tmp/form
			if [ $file = $T ]; then mv /tmp/form /tmp/form.stock; fi
		done
		cmp /tmp/form.stock /tmp/form
		cat $R/per_cpu/cpu0/trace >/tmp/clock.trace
		stamps /tmp/clock.trace >/tmp/clock.stamps
		is "oldest by $clock" "$(stat_of 0 'oldest event ts' | tr -d ' .')" "$(head -n 1 /tmp/clock.stamps)"
		[ "$(stat_of 0 'now ts' | tr -d ' .')" -ge "$(tail -n 1 /tmp/clock.stamps)" ]
	done
	# Looking at a counter does not count.
	echo counter >$R/trace_clock
	calls getppid 5 0
	echo 0 >$R/tracing_on
	is 'now' "$(stat_of 0 'now ts')" "$(stat_of 0 'now ts')"
}

# What interrupts call, and what they interrupt.
busy_filter() {
	# (no patterns: for those status looks at all symbols)
	echo "$PARENT vfs_read vfs_write vfs_open" >$R/filter
	# (some kernels have these, and some others)
	for f in hrtimer_interrupt update_process_times __hrtimer_run_queues sched_tick; do
		if grep -qxF $f /tmp/available; then echo $f >>$R/filter; fi
	done
}

# Chosen while both CPUs write, and looked at when they have.
under_load() {
	local clock
	echo 4 >$R/buffer_subbuf_size_kb
	echo 16 >$R/buffer_size_kb
	busy_filter
	background calls getppid 0 0
	background calls files 0 1
	: >/tmp/all.traces
	for clock in $CLOCKS local; do
		echo "$clock" >$R/trace_clock
		grep -qF "[$clock]" $R/trace_clock
		until_true $((60 * SLOWER)) wrapped
		echo 0 >$R/tracing_on
		never_back
		accounts_agree
		cat $R/trace >>/tmp/all.traces
		echo 1 >$R/tracing_on
	done
	# There were interrupts among them.
	grep -q '\] ..[hH]' /tmp/all.traces
}
wrapped() {
	[ "$(stat_of 0 overrun)" -gt 0 ] && [ "$(stat_of 1 overrun)" -gt 0 ]
}

# The time is set back by an hour: CLOCK_TAI goes with it.
set_back() {
	local now
	now=$(date +%s)
	echo tai >$R/trace_clock
	echo "$PARENT" >$R/filter
	calls getppid 5 0
	date -s "@$((now - 3600))"
	[ "$(date +%s)" -lt "$now" ]
	calls getppid 6 0
	date -s "@$((now + 3600))"
	calls getppid 7 0
	date -s "@$now"
	ours /tmp/clock.ours
	stamps /tmp/clock.ours >/tmp/clock.stamps
	is stamps "$(wc -l </tmp/clock.stamps)" 18
	never_back
	# They stand still until the clock has caught up.
	is 'standing still' "$(sed -n '6,11p' /tmp/clock.stamps | sort -u | wc -l)" 1
	[ "$(sed -n 12p /tmp/clock.stamps)" -gt "$(sed -n 11p /tmp/clock.stamps)" ]
	# Another clock is not held up by that.
	both mono
	mark before
	calls getppid 5 0
	ours /tmp/clock.ours
	stamps /tmp/clock.ours >/tmp/clock.stamps
	is stamps "$(wc -l </tmp/clock.stamps)" 5
	[ "$(head -n 1 /tmp/clock.stamps)" -lt $(($(marked before) + 60000000 * SLOWER)) ]
}

# A clocksource whose function is traced: mono and the like end in it.
SLOW_SOURCE=
for source in hpet acpi_pm; do
	if [ -z "$SLOW_SOURCE" ] && grep -qw $source $CLOCKSOURCE/available_clocksource; then SLOW_SOURCE=$source; fi
done
traced_clocksource() {
	local before clock f
	before=$(cat $CLOCKSOURCE/current_clocksource)
	echo $SLOW_SOURCE >$CLOCKSOURCE/current_clocksource
	says $CLOCKSOURCE/current_clocksource $SLOW_SOURCE
	echo "$PARENT" >$R/filter
	for f in $(grep -xE 'read_hpet|acpi_pm_read' /tmp/available); do echo $f >>$R/filter; done
	[ "$(status 'armed functions')" -ge 2 ]
	for clock in mono mono_raw boot tai; do
		echo $clock >$R/trace_clock
		calls getppid 100 0
		calls getppid 100 1
		echo 0 >$R/tracing_on
		is "calls by $clock" "$(calls_of "$PARENT")" 200
		# Each stamp called it.
		[ "$(status 'lost while the clock was read')" -ge 200 ]
		[ "$(status 'lost while the clock was read')" -le "$(status 'events lost')" ]
		never_back
		accounts_agree
		echo 1 >$R/tracing_on
	done
	echo local >$R/trace_clock
	is 'lost, by another clock' "$(status 'lost while the clock was read')" 0
	# With everything else that is called meanwhile.
	echo boot >$R/trace_clock
	echo >$R/filter
	echo function >$R/current_tracer
	calls getppid 10 0
	echo 0 >$R/tracing_on
	is "calls among all" "$(calls_of "$PARENT")" 10
	echo "$before" >$CLOCKSOURCE/current_clocksource
}

made_of() {
	local error
	case $(status clock) in
	'local (time stamp counter, converted to within '*' ns)')
		error=$(status clock | sed 's/.*within //; s/ ns.*//')
		[ "$error" -le 1000 ]
		;;
	"local (the kernel's own)")
		# That is so only where the counter is not to be relied on.
		fails grep -qx tsc $CLOCKSOURCE/current_clocksource
		;;
	*) return 1 ;;
	esac
	echo mono >$R/trace_clock
	is clock "$(status clock)" mono
}

# pairs: the same calls by both; prints theirs minus ours of each, in ns, smallest first.
CALLS=3000
pairs() {
	# (a shell calls getppid when it begins)
	sh -c "echo \$\$ >$R/pid; echo \$\$ >$T/set_ftrace_pid
		echo >$R/trace; echo >$T/trace
		exec calls getppid $CALLS 0"
	ftracestamps $T/per_cpu/cpu0/trace_pipe_raw >/tmp/stock.stamps
	rawdump --nonblock --stamps $R/per_cpu/cpu0/raw >/tmp/our.stamps
	for f in stock our; do is "calls of $f" "$(wc -l </tmp/$f.stamps)" $CALLS; done
	echo nop >$T/current_tracer
	echo nop >$R/current_tracer
	paste /tmp/stock.stamps /tmp/our.stamps | awk '{ print $1 - $2 }' | sort -n
}

# The tracer that hooks later is called first. So the kernel's stamp is later than ours in one order, by
# what lies between the hooks, and earlier in the other: our error is not beyond the least of either.
same_calls() {
	local f
	both local
	stock_off
	echo "$PARENT" >$T/set_ftrace_filter
	echo function >$T/current_tracer
	echo "$PARENT" >$R/filter
	echo function >$R/current_tracer
	pairs >/tmp/ours_first
	echo function >$R/current_tracer
	echo function >$T/current_tracer
	pairs | sed 's/^-/+/; s/^[0-9]/-&/; s/^+//' | sort -n >/tmp/theirs_first
	echo >$T/set_ftrace_pid
	for f in ours_first theirs_first; do
		echo "# $f: the other is later by $(head -n 1 /tmp/$f) ns or more, half the time $(
			sed -n $((CALLS / 2))p /tmp/$f) or more"
	done >/tmp/found
	cat /tmp/found
	for f in ours_first theirs_first; do
		# (not earlier, but for the error of the conversion)
		[ "$(head -n 1 /tmp/$f)" -ge -1000 ]
		[ "$(head -n 1 /tmp/$f)" -le $((1000 * SLOWER)) ]
	done
}

t "tracefs's clocks, in its order" same_names
texts 'our stamps lie between stamps of the same clock in tracefs' same_time
t 'choosing a clock clears buffers and snapshots' clears
t 'no such clock: refused, named, nothing changed' refused
texts "the times in stats are in tracefs's form" stats_lines
stressed 'no clock goes back within a CPU, chosen under load' under_load
t 'nor when the time is set back by an hour' set_back
if [ -n "$SLOW_SOURCE" ]; then
	t 'functions that the clock calls can be traced' traced_clocksource
else
	skip 'functions that the clock calls can be traced' 'no clocksource has any'
fi
t 'status says what local is made of' made_of
texts "the same calls as ftrace's local clock has them, to within 1 us" same_calls
if [ -e /tmp/found ]; then cat /tmp/found; fi
finish
