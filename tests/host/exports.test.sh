#!/bin/bash
# Does trace-cmd read what rftrace export makes of a recording: every event as it was put in, and what was lost? Are the weights of
# folded stacks those of the calls that were put in, and does nothing half stay where something goes wrong?
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/scripts/internal/lib.sh"
passed=0 failed=0

here() { "$top/scripts/toolchain" "$@"; }
if ! here sh -c 'command -v trace-cmd' >/dev/null && [[ -z $KDIR ]]; then
	take_lock programs
	add() { "$top/scripts/internal/in-root" --as-root sh -c 'apt-get update && apt-get install -y --no-install-recommends trace-cmd'; }
	step "installing trace-cmd in the toolchain root" "$cache/log/programs-trace-cmd.log" add
fi
mkdir -p "$cache/build"
dir=$(mktemp -d "$cache/build/exports-XXXXXX")
trap 'rm -rf "$dir"' EXIT
here sh -ec '
	cd tools
	cargo build --locked --quiet -p rftrace-cli --bins --examples
	cp "$CARGO_TARGET_DIR/debug/rftrace" "$CARGO_TARGET_DIR/debug/examples/sample-recording" "$0"' "$dir"
cd "$dir"
here sh -ec '
	for kind in graph function; do
		./sample-recording $kind.data $kind 20000 >$kind.put
		./rftrace export $kind.data --to trace.dat -o $kind.dat
		./rftrace export $kind.data --to folded --by calls -o $kind.folded
		trace-cmd report -t $kind.dat >$kind.report
	done
	trace-cmd report --stat graph.dat >graph.stat' 2>said

t() {
	local rc
	# (not as a condition: what fails in a function would count for nothing there)
	set +e
	(set -e; "${@:2}") >out 2>&1
	rc=$?
	set -e
	if ((rc == 0)); then
		echo "ok: $1"
		passed=$((passed + 1))
	else
		echo "not ok: $1"
		head -n 20 out | sed 's/^/# /'
		failed=$((failed + 1))
	fi
}

# What trace-cmd says, in the order of each CPU: a leaf is an entry and an exit.
shown() {
	awk '
	function depth(   text) { text = substr($0, index($0, "|") + 1); match(text, /[^ ]/); return (RSTART - 3) / 2 }
	function duration() { match($0, /[0-9.]+ us/); return substr($0, RSTART, RLENGTH - 3) }
	/^ .*\[[0-9]+\]/ {
		task = $1; cpu = substr($2, 2) + 0
		match($0, /[0-9]+\.[0-9]+: /); time = substr($0, RSTART, RLENGTH - 2)
		rest = substr($0, RSTART + RLENGTH)
		if (rest ~ /^function:/) { split(rest, word, " "); print cpu, time, "function", task, word[2] }
		if (rest ~ /^print:/) { sub(/^print: *[a-z_]*: /, "", rest); print cpu, time, "mark", task }
		if (rest ~ /^funcgraph_entry:/) {
			name = rest; sub(/^[^|]*\| */, "", name); sub(/\(.*/, "", name)
			print cpu, time, "entry", task, depth(), name
			if (rest ~ /\(\);/) print cpu, "exit", task, depth(), duration()
		}
		if (rest ~ /^funcgraph_exit:/) print cpu, "exit", task, depth(), duration()
	}' "$1" | sort -s -n -k 1,1
}
# The same of what was put in.
put() {
	awk '
	function us(ns) { return sprintf("%d.%03d", ns / 1000, ns % 1000) }
	{
		cpu = $1; time = sprintf("%d.%09d", $2 / 1e9, $2 % 1e9); task = $3 "-" $4
		if (task == "swapper/1-0") task = "<idle>-0"
		if ($6 == "function") print cpu, time, "function", task, $9
		if ($6 == "mark") print cpu, time, "mark", task
		if ($6 == "entry" || $6 == "call") print cpu, time, "entry", task, $7, $9
		if ($6 == "return" || $6 == "call") print cpu, "exit", task, $7, us($10)
	}' "$1" | sort -s -n -k 1,1
}
trace_cmd_shows() {
	shown "$1.report" >shown
	put "$1.put" >put
	(($(wc -l <put) > 15000))
	diff put shown
}
trace_cmd_says_what_was_lost() {
	awk '$11 { print "CPU:" $1 " [" $11 " EVENTS DROPPED]" }' graph.put | sort >put
	grep DROPPED graph.report | sort | diff put -
	(($(wc -l <put) > 5))
	# Also what no event tells of.
	grep -A 2 '^CPU: 0' graph.stat | grep -qx 'overrun: [1-9][0-9]*'
}
# Calls of a function: those that were seen to begin or to end.
folded_has_all_calls() {
	awk '
	$6 == "call" || $6 == "return" { calls[$9]++ }
	$6 == "entry" { open[$4 " " $7 " " $9 " " $2] = 1 }
	$6 == "return" { delete open[$4 " " $7 " " $9 " " sprintf("%.0f", $2 - $10)] }
	$6 == "function" { calls[$9]++ }
	END { for (key in open) { split(key, word, " "); calls[word[3]]++ }
		for (name in calls) print name, calls[name] }' "$1.put" | sort >put
	awk '{ weight = $NF; $NF = ""; sub(/ $/, ""); n = split($0, way, ";"); if (weight) calls[way[n]] += weight }
		END { for (name in calls) print name, calls[name] }' "$1.folded" | grep -v '^\[' | sort | diff put -
	grep -qx '\[[0-9]* events were lost\] 0' "$1.folded"
}
# refused WHAT-IS-SAID ARGUMENTS...: and the folder is as it was.
refused() {
	local rc=0 before after
	before=$(ls -A; sha256sum graph.*)
	here ./rftrace "${@:2}" 2>said || rc=$?
	after=$(ls -A; sha256sum graph.*)
	cat said
	((rc == 1)) && grep -qF "$1" said && [[ $before == "$after" ]]
}
stays_whole() {
	refused 'is the recording itself' export graph.data --to folded -o graph.data
	refused 'cannot write ' export graph.data --to folded -o no/such/folder
	refused 'cannot read nothing' export nothing --to perfetto -o x
	refused 'not a recording' export graph.put --to perfetto -o x
	refused 'there are no events' flamegraph graph.data -P 1 -o x
	refused 'try --by calls' flamegraph function.data -o x
}
# What cannot be written is not there, and what was there before still is.
disk_is_full() {
	here sh -c 'ulimit -f 8; trap "" XFSZ; ./rftrace export graph.data --to "$0" -o graph.dat' "$1" 2>said && return 1
	cat said
	grep -q 'cannot write .*graph.dat: ' said
	[[ $(find . -name '.*.part') == "" ]]
	here trace-cmd report -t graph.dat | cmp - graph.report
}

t 'trace-cmd: calls are as they were put in' trace_cmd_shows graph
t 'trace-cmd: functions are as they were put in' trace_cmd_shows function
t 'trace-cmd says what was lost, and where' trace_cmd_says_what_was_lost
t 'folded stacks have all calls' folded_has_all_calls graph
t 'folded stacks have all functions' folded_has_all_calls function
t 'what cannot be done changes nothing' stays_whole
t 'a full disk leaves nothing half: perfetto' disk_is_full perfetto
t 'a full disk leaves nothing half: trace.dat' disk_is_full trace.dat
t 'a full disk leaves nothing half: pprof' disk_is_full pprof

echo "$passed passed, $failed failed"
((failed == 0))
