#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Lists of tasks that follow forks: options/function-fork.
. /tests/lib/ktap.sh

reload

# in_list FILE: its tasks in one line.
in_list() {
	tr '\n' ' ' <$R/"$1" | sed 's/ $//'
}

# A task of its own whose children are looked at: says its pid, and does what it is told.
family() {
	rm -f /tmp/told
	mkfifo /tmp/told
	sh -c 'while read -r command; do $command; echo done >/tmp/did; done' <>/tmp/told 2>/dev/null &
	family=$!
	workers="$workers $family"
}
# tell COMMAND: has it do that, and waits until it is done.
tell() {
	rm -f /tmp/did
	echo "$1" >/tmp/told
	until_true 20 test -s /tmp/did
}

followed() {
	local family
	family
	echo "$PARENT" >$R/filter
	echo $family >$R/pid
	tell 'calls getppid 7'
	is 'of children' "$(calls_of "$PARENT")" 0
	echo 1 >$R/options/function-fork
	tell 'calls getppid 7'
	is 'of children' "$(calls_of "$PARENT")" 7
	# And of theirs.
	echo >$R/trace
	tell 'sh -c calls${IFS}getppid${IFS}5;calls${IFS}getppid${IFS}6'
	is 'of theirs' "$(calls_of "$PARENT")" 11
	# Whose parents are not in the list is not, either.
	calls getppid 10
	is 'of others' "$(calls_of "$PARENT")" 11
	# A task that has ended goes out of it.
	until_true 10 sh -c "[ \"\$(cat $R/pid)\" = $family ]"
	is 'not followed' "$(status 'children not followed')" 0
	# The graph tracer asks the same list.
	echo function_graph >$R/current_tracer
	echo 1 >$R/options/funcgraph-proc
	tell 'calls getppid 7'
	cat $R/trace >/tmp/graph.trace
	is 'of children' "$(grep -cE "calls-[0-9]+ .* $PARENT\(\)" /tmp/graph.trace)" 7
	echo nofunction-fork >$R/trace_options
	echo >$R/trace
	tell 'calls getppid 7'
	cat $R/trace >/tmp/graph.trace
	is 'of children' "$(grep -cE "calls-[0-9]+ .* $PARENT\(\)" /tmp/graph.trace)" 0
}

not_traced() {
	local family
	family
	echo "$PARENT" >$R/filter
	echo $family >$R/notrace_pid
	echo function-fork >$R/trace_options
	tell 'calls getppid 7'
	is 'of children' "$(calls_of "$PARENT")" 0
	calls getppid 7
	is 'of others' "$(calls_of "$PARENT")" 7
	until_true 10 sh -c "[ \"\$(cat $R/notrace_pid)\" = $family ]"
	# A task that is in both is not traced.
	echo $family >$R/pid
	tell 'calls getppid 7'
	is 'of children' "$(calls_of "$PARENT")" 7
}

# A list of tasks that have all ended is not one of all tasks.
nobody_left() {
	local family
	family
	echo "$PARENT" >$R/filter
	echo 1 >$R/options/function-fork
	echo $family >$R/pid
	kill $family
	wait $family || :
	until_true 10 sh -c "! grep -q . $R/pid"
	calls getppid 7
	is 'of others' "$(calls_of "$PARENT")" 0
	echo >$R/pid
	says $R/pid 'no pid'
	calls getppid 7
	is 'of others' "$(calls_of "$PARENT")" 7
}

# Tasks come and go on both CPUs, and the list is edited at the same time: nothing of either is lost.
busy() {
	local i
	echo 1 >$R/options/function-fork
	background calls forks 0 0
	background calls forks 0 1
	# shellcheck disable=SC2086 # one line for each
	printf '%s\n' $workers >$R/pid
	for i in $(seq "$(some 100)"); do
		echo 4000000 >>$R/pid
		grep -q '^4000000$' $R/pid
		echo '!4000000' >>$R/pid
		fails grep -q '^4000000$' $R/pid
	done
	# shellcheck disable=SC2086
	printf '%s\n' $workers | sort >/tmp/wanted
	for i in $workers; do grep -qx "$i" $R/pid; done
	end_background
	until_true 10 sh -c "! grep -q . $R/pid"
	is 'not followed' "$(status 'children not followed')" 0
}

t 'children of tasks in pid, and theirs' followed
t 'children of tasks in notrace_pid' not_traced
t 'when all have ended' nobody_left
t 'edits and forks at the same time' busy
finish
