#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# How deep calls are seen, by what watches them: the table of README.md, which tests/host/call-depth.test.sh compares
# with the one here.
. /tests/lib/ktap.sh

insmod /lib/modules/known_calls.ko
K=/sys/kernel/debug/known_calls
DEEP=150

reload

# WAY DEPTH: each is a function below.
DEPTHS='
plain 61
tagged 54
long 44
waits 40
errno 37
profile 54
contexts 49
nested 44
below 44
nested_contexts 40
profile_waits 37
shared 37
'

traced() {
	echo known_deep >$R/filter
	echo function_graph >$R/current_tracer
}
plain() {
	traced
}
tagged() {
	echo known_deep >$R/graph_function
	traced
}
long() {
	echo 0 >$R/options/sleep-time
	traced
}
waits() {
	echo 1 >$R/options/funcgraph-wait
	traced
}
errno() {
	echo 1 >$R/tracing_errno
	traced
}
profile() {
	echo known_deep >$R/filter
	echo nop >$R/current_tracer
	echo 1 >$R/function_profile_enabled
}
nested() {
	echo 0 >$R/options/graph-time
	profile
}
below() {
	echo known_deep >$R/graph_function
	profile
}
contexts() {
	echo 1 >$R/options/profile-contexts
	profile
}
profile_waits() {
	echo 1 >$R/options/profile-wait
	profile
}
nested_contexts() {
	echo 0 >$R/options/graph-time
	contexts
}
shared() {
	mkdir $R/instances/other
	echo known_deep >$R/instances/other/filter
	echo function_graph >$R/instances/other/current_tracer
	traced
}
# the most that there can be: three tracers, and the profile
all_of_them() {
	shared
	mkdir $R/instances/third
	echo known_deep >$R/instances/third/filter
	echo function_graph >$R/instances/third/current_tracer
	echo 1 >$R/function_profile_enabled
}

# seen: the calls that were seen.
seen() {
	if [ "$(cat $R/current_tracer)" = function_graph ]; then
		status hits
	else
		cat $R/trace_stat/function[01] | awk '$1 == "known_deep" { hits += $2 } END { print hits + 0 }'
	fi
}
# unseen: those that were not, which are counted, as too deep or as missed; the latter since the module is there.
unseen() {
	local deep missed
	if [ "$(cat $R/current_tracer)" = function_graph ]; then
		deep='calls too deep' missed='missed returns'
	else
		deep='profile too deep' missed='profile missed'
	fi
	echo $(($(status "$deep" | cut -d ' ' -f 1) + $(status "$missed")))
}

as_deep_as_said() {
	local before
	$way
	before=$(unseen)
	echo $DEEP >$K/deep
	is unseen $(($(unseen) - before)) $((DEEP - depth))
	# (calls that are right are seen, and not shown)
	[ "$way" != errno ] || return 0
	is depth "$(seen)" "$depth"
	# The last one that is seen says that there are no more, and no other does.
	if [ "$(cat $R/current_tracer)" = function_graph ]; then
		is 'marks' "$(grep -cF '[too deep]' $R/trace)" 1
		grep -F '[too deep]' $R/trace | grep -qE "^[^|]*\|  {$((2 * depth - 1))}known_deep"
		# Calls that are not as deep have none.
		echo >$R/trace
		echo $((depth - 1)) >$K/deep
		is depth "$(seen)" $((depth - 1))
		fails grep -F '[too deep]' $R/trace
	fi
}
several() {
	all_of_them
	depth=$(echo "$DEPTHS" | sed -n 's/^shared //p')
	echo $DEEP >$K/deep
	is depth "$(status hits)" "$depth"
	is counted "$(cat $R/trace_stat/function[01] | awk '$1 == "known_deep" { hits += $2 } END { print hits + 0 }')" "$depth"
	for name in other third; do
		is "depth of $name" "$(sed -n 's/^hits: //p' $R/instances/$name/status)" "$depth"
	done
	# Which function is shared does not say how deep others are seen.
	echo known_flat >$R/filter
	rmdir $R/instances/third
	echo >$R/instances/other/trace
	echo $DEEP >$K/deep
	is 'depth alone' "$(sed -n 's/^hits: //p' $R/instances/other/status)" "$(echo "$DEPTHS" | sed -n 's/^plain //p')"
}

while read -r way depth; do
	[ -z "$way" ] || t "$way: $depth calls" as_deep_as_said
done <<EOT
$DEPTHS
EOT
t 'three tracers and the profile' several
unload
rmmod known_calls
finish
