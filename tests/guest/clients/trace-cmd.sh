#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# trace-cmd, by rftrace exec: what it says is what it says with the kernel's own tracer.
. /tests/lib/clients.sh

reload
UMASK=$(sys umask)

# show OPTIONS OF START -- COMMAND...: what trace-cmd shows of it.
cat >/tmp/show <<'END'
set -e
options=
while [ "$1" != -- ]; do options="$options $1"; shift; done
shift
trace-cmd start $options >&2
"$@" >/dev/null
trace-cmd stop
trace-cmd show
trace-cmd reset
cat /sys/kernel/tracing/current_tracer
END
# The same of record and report.
cat >/tmp/record <<'END'
set -e
options=
while [ "$1" != -- ]; do options="$options $1"; shift; done
shift
rm -f /tmp/trace.dat
trace-cmd record -q -o /tmp/trace.dat $options recording trace-cmd "$@" >&2
trace-cmd report -q -i /tmp/trace.dat
END

# is_called_so_often FUNCTION COUNT: it says so of the program calls
is_called_so_often() {
	called </tmp/our.out >/tmp/our.functions
	is "calls of $1" "$(grep -cE "^$1\b" /tmp/our.functions)" "$2"
}

shows_function() {
	both sh /tmp/show -p function -l "$PARENT" -- calls getppid $CALLS
	same functions called
	same headers headers
	is_called_so_often "$PARENT" $CALLS
	is 'tracer after reset' "$(tail -n 1 /tmp/our.out)" nop
}
shows_graph() {
	# (an interrupt has calls of its own)
	tries 3 shows_graph_once
}
shows_graph_once() {
	both sh /tmp/show $GRAPH --max-graph-depth 2 -- calls getppid $CALLS
	same nesting nesting
	same headers headers
	is 'calls' "$(grep -cx "open 0 $PARENT() {" /tmp/our.nesting)" $CALLS
	is 'below' "$(grep -cx "timed 1 $BELOW();" /tmp/our.nesting)" $CALLS
}
shows_but() {
	both sh /tmp/show -p function -l "$PARENT" -l "$YIELD" -n "$YIELD" -- calls turns $CALLS
	same functions called
	is_called_so_often "$PARENT" $CALLS
	is_called_so_often "$YIELD" 0
}
# stat reads all events there are, which takes the kernel's 15 s here: once.
says_what_is_on() {
	with_their_tools rftrace exec trace-cmd start -p function_graph -g "$PARENT" -l "$YIELD" >/dev/null
	with_their_tools rftrace exec trace-cmd stat >/tmp/stat
	with_their_tools rftrace exec trace-cmd reset
	grep -q '^Tracer: function_graph$' /tmp/stat
	grep -A 1 '^Function Graph Filter:' /tmp/stat | grep -q "^ *$PARENT$"
	grep -A 1 '^Function Filter:' /tmp/stat | grep -q "^ *$YIELD$"
	grep -A 1 '^Buffer size in kilobytes' /tmp/stat | grep -q "^ *$SIZE_KB$"
	grep -q 'All disabled' /tmp/stat
}
lists() {
	both trace-cmd list -f
	same functions listed
}

t 'start, show, stop, reset: function' shows_function
t 'the same: function_graph' shows_graph
t 'notrace' shows_but
t 'stat' says_what_is_on
t 'list -f' lists

# --- record and report, from trace_pipe_raw

records_function() {
	both sh /tmp/record -p function -l "$PARENT" -- calls getppid $CALLS
	same functions called
	is_called_so_often "$PARENT" $CALLS
}
records_graph() {
	tries 3 records_graph_once
}
records_graph_once() {
	both sh /tmp/record $GRAPH --max-graph-depth 2 -- calls getppid $CALLS
	same nesting nesting
	is 'calls' "$(grep -c "$PARENT" /tmp/our.nesting)" $CALLS
}
# (others call the function too, but do not take all the time)
records_a_task() {
	background sh -c 'while :; do calls getppid 1; usleep 10000; done'
	ours sh /tmp/record -p function -l "$PARENT" -F -- calls getppid $CALLS
	is_called_so_often "$PARENT" $CALLS
	is 'all' "$(grep -c "$PARENT" /tmp/our.out)" $CALLS
}
# (a file of each says how often)
keep_calling() {
	background sh -c 'while :; do umask 22; echo >>/tmp/called.$$; usleep 10000; done'
}
cat >/tmp/until_it_calls <<'END'
calls() { wc -l <"/tmp/called.$1"; }
wanted=$(($(calls "$1") + 5))
until [ "$(calls "$1")" -ge $wanted ]; do usleep 10000; done
END
records_a_pid() {
	keep_calling
	keep_calling
	local pid=$!
	until_true 10 test -s /tmp/called.$pid
	ours sh /tmp/record -p function -l "$UMASK" -P $pid -- sh /tmp/until_it_calls $pid
	sed -nE 's/^ *sh-([0-9]+) .*function: .*/\1/p' /tmp/our.out | sort -u >/tmp/pids
	says /tmp/pids $pid
}
# Many pages of them: nothing is missing between two.
records_all() {
	ours sh /tmp/record -b 8192 -p function -l "$PARENT" -- calls getppid 20000
	is_called_so_often "$PARENT" 20000
	fails grep -qE '<\.\.\.>|EVENTS DROPPED' /tmp/our.out
}
# stream does not read all: as soon as there is nothing for a moment at the end, it only waits for its recorders,
# for ever if one has more to say than a pipe holds. With the kernel's tracer, too: so all that there can be at the
# end fits.
cat >/tmp/until_shown <<'END'
calls=0
until [ "$(grep -c "$1" /tmp/our.out)" -ge "$2" ]; do
	calls getppid 100
	calls=$((calls + 100))
	echo $calls >/tmp/calls
	usleep 10000
done
END
streams() {
	local shown
	ours trace-cmd stream -b 32 -p function -l "$PARENT" \
		recording trace-cmd sh /tmp/until_shown "$PARENT" 5000
	called </tmp/our.out >/tmp/our.functions
	shown=$(grep -c "$PARENT" /tmp/our.functions)
	[ "$shown" -ge 4900 ]
	# (the shell calls it once)
	[ "$shown" -le $(($(cat /tmp/calls) + 1)) ]
	is 'other functions' "$(grep -vc "$PARENT" /tmp/our.functions || :)" 0
}
t 'record, report: function' records_function
little_kallsyms
t 'the same: function_graph' records_graph
t 'record -F' records_a_task
t 'record -P' records_a_pid
t 'record twenty thousand events' records_all
t 'stream' streams

in_an_instance() {
	both sh -ec 'trace-cmd start -B mine -p function -l "$0" >&2
		calls getppid "$1"
		trace-cmd stop -B mine
		trace-cmd show -B mine
		trace-cmd reset -B mine' "$PARENT" $CALLS
	same functions called
	is_called_so_often "$PARENT" $CALLS
}
if [ -d $R/instances ]; then
	t '-B' in_an_instance
else
	skip '-B' 'there are no instances'
fi
umount /proc/kallsyms
finish
