#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# perf-tools (functrace, funcgraph, funcslower, funccount), with ours and with the kernel's tracer.
. /tests/lib/clients.sh

reload

# during COMMAND... -- WORK...: does that once the command has set up all and sleeps, as all these do with -d.
cat >/tmp/during <<'END'
command=
while [ "$1" != -- ]; do command="$command $1"; shift; done
shift
$command &
until pidof sleep >/dev/null; do usleep 50000; done
"$@"
wait $!
END

traces() {
	both sh /tmp/during functrace-perf -d 2 "$PARENT" -- calls getppid $CALLS
	same functions called
	is 'calls' "$(grep -c "^$PARENT <-" /tmp/our.functions)" $CALLS
}
traces_a_task() {
	local pid
	background sh -c 'while :; do umask 22; usleep 10000; done'
	background sh -c 'while :; do umask 22; usleep 10000; done'
	pid=$!
	both sh /tmp/during functrace-perf -d 2 -p $pid "$UMASK" -- true
	same pids sed -nE 's/^ *sh-([0-9]+) .*/\1/p;T;q'
	says /tmp/our.pids $pid
	is 'others' "$(grep ": $UMASK <-" /tmp/our.out | grep -cv "sh-$pid ")" 0
}
# (it arms all functions)
shows_graph() {
	tries 2 shows_graph_once
}
shows_graph_once() {
	both sh /tmp/during funcgraph-perf -d 2 -m 2 -H "$PARENT" -- calls getppid $CALLS
	same nesting nesting
	same headers headers
	is 'calls' "$(grep -c " 0 $PARENT()" /tmp/our.nesting)" $CALLS
}
# (the sleep of funcslower is a third, and others sleep, too)
shows_slow() {
	both sh /tmp/during funcslower-perf -d 2 "$SLEEPS" 400000 -- sh -c 'sleep 0.5; sleep 0.6; calls getppid 10'
	# (there are as many as seconds pass)
	same functions sh -c "sed -nE 's/^.* us .*($SLEEPS).*/\1/p' | sort -u"
	[ "$(grep -c "$SLEEPS" /tmp/our.out)" -ge 3 ]
	[ "$(grep -c "$SLEEPS" /tmp/stock.out)" -ge 3 ]
	awk '/ us / { sub(/ us .*/, ""); if ($NF < 400000) { print "took only " $NF; exit 1 } }' /tmp/our.out
}
counts() {
	ours sh /tmp/during funccount-perf -d 2 "$PARENT" -- calls getppid 1000
	# (a shell may call it too)
	is 'functions' "$(grep -c "^$PARENT " /tmp/our.out)" 1
	[ "$(awk -v f="$PARENT" '$1 == f { print $2 }' /tmp/our.out)" -ge 1000 ]
}
UMASK=$(sys umask)
SLEEPS=$(pick hrtimer_nanosleep do_nanosleep)

t 'functrace' traces
t 'functrace -p' traces_a_task
t 'funcgraph' shows_graph
t 'funcslower' shows_slow
if [ -e $R/function_profile_enabled ]; then
	t 'funccount' counts
else
	skip 'funccount' 'there is no function_profile_enabled'
fi
finish
