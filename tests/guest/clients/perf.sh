#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# perf ftrace of Debian's release, and of its backports: with ours it says what it says with the kernel's tracer.
. /tests/lib/clients.sh

reload

traces() {
	both "$perf" ftrace trace -t function -T "$PARENT" -- calls getppid $CALLS
	same functions called
	is 'calls' "$(grep -c "^$PARENT <-" /tmp/our.functions)" $CALLS
}
traces_but() {
	both "$perf" ftrace trace -t function -T "$PARENT" -T "$YIELD" -N "$YIELD" -- calls turns $CALLS
	same functions called
	is 'calls' "$(grep -c "^$PARENT <-" /tmp/our.functions)" $CALLS
	is 'others' "$(grep -c "^$YIELD <-" /tmp/our.functions)" 0
}
traces_graph() {
	# (an interrupt has calls of its own)
	tries 5 traces_graph_once
}
traces_graph_once() {
	both "$perf" ftrace trace -t function_graph -G "$PARENT" -T "$PARENT" -T "$BELOW" -D 2 -- calls getppid $CALLS
	same nesting nesting
	same headers headers
	is 'calls' "$(grep -cx "open 0 $PARENT() {" /tmp/our.nesting)" $CALLS
	is 'below' "$(grep -cx "timed 1 $BELOW();" /tmp/our.nesting)" $CALLS
}
# Its own number differs from run to run: all calls are in one of the rows, which are the same.
shows_latency() {
	local left=3 code=0
	# (perf waits for ever if what it runs ends between its look at that and its poll; timeout ends it then)
	while :; do
		code=0
		both "$perf" ftrace latency -T "$PARENT" -- calls getppid $CALLS || code=$?
		left=$((left - 1))
		case $code in
		124 | 137 | 143) [ $left -gt 0 ] || break ;;
		*) break ;;
		esac
	done
	[ $code -eq 0 ]
	same rows sed -nE 's/^ *([0-9]+ *- *[0-9.]+ *[a-z]+) *\|.*/\1/p'
	is 'calls' "$(awk -F '|' '!/^#/ && NF > 2 { sum += $2 } END { print sum }' /tmp/our.out)" $CALLS
}
profiles() {
	both "$perf" ftrace profile -T "$PARENT" -- calls getppid $CALLS
	same functions awk '!/^#/ { print $4, $5 }'
	says /tmp/our.functions "$CALLS $PARENT"
}
# No function has this name: only ours makes of it what the kernel calls it.
finds_ours() {
	ours "$perf" ftrace trace -t function -T __x64_sys_getppid -- calls getppid $CALLS
	is 'calls' "$(called </tmp/our.out | grep -c "^$PARENT <-")" $CALLS
}
lists() {
	both "$perf" ftrace -F
	same functions listed
}

for perf in perf $NEWER; do
	[ "$perf" = perf ] || [ -x "$perf" ] || continue
	version=$(with_their_tools "$perf" --version | sed 's/ version//')
	# (6.12 needs none)
	if [ "$perf" = $NEWER ] && [ ! -d $R/instances ]; then
		skip "$version" 'there are no instances'
		continue
	fi
	t "$version: trace" traces
	t "$version: trace -N" traces_but
	t "$version: trace of function_graph" traces_graph
	t "$version: latency" shows_latency
	t "$version: profile" profiles
	if [ "$PARENT" = __do_sys_getppid ]; then t "$version: it is ours that it finds" finds_ours; fi
	t "$version: -F" lists
done
finish
