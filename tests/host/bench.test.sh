#!/bin/bash
# Does scripts/internal/bench-report see promises that are not kept? Made-up figures, all good, then each bad.
set -euo pipefail
report=$(cd "$(dirname "$0")/../.." && pwd)/scripts/internal/bench-report
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0

good() {
	printf '%s\t' row function_one 100.00 cost 600.00; echo 'ftrace function'
	printf '%s\t' row off_armed 48.00 cost 200.00; echo 'ftrace function'
	printf '%s\t' row pid_out 44.00 cost 44.00; echo 'ftrace function'
	printf '%s\t' row cgroup_out 44.00 cost 44.00; echo 'pid of ours'
	printf '%s\t' row calltrace_one 105.00 cost 100.00; echo 'function of ours'
	printf '%s\t' row stack_one 4000.00 cost 5000.00; echo 'ftrace function'
	printf '%s\t' row graph_one 720.00 cost 1600.00; echo 'ftrace function_graph'
	printf '%s\t' row profile_one 688.00 cost 1600.00; echo 'ftrace function_graph'
	printf '%s\t' row contexts_one 768.00 cost 1600.00; echo 'ftrace function_graph'
	printf '%s\t' row contexts_all 4800.00 cost 10000.00; echo 'ftrace function_graph'
	printf '%s\t' row errno_handled 1100.00 cost 1000.00; echo 'tracing_thresh of ours'
	printf '%s\t' row available_line 370.00 cost 7400.00; echo 'tracefs'
	printf '%s\t' row graph_all 5000.00 cost 10000.00; echo 'ftrace function_graph'
	printf '%s\t' row bytes_graph 24.00 bytes 72.00; echo 'ftrace function_graph'
	printf '%s\t' row bytes_graph_all 24.00 bytes 72.00; echo 'ftrace function_graph'
	printf '%s\t' row idle 0.00 cost -; echo -
	printf '%s\t' row text_line 2400.00 cost 8000.00; echo 'ftrace function'
	printf '%s\t' row graph_line 1800.00 cost 6000.00; echo 'ftrace function_graph'
	printf '%s\t' row drain_event 24.00 cost 40.00; echo 'ftrace function'
	printf '%s\t' row drain_pages 120.00 cost 40.00; echo 'ftrace function'
	printf '%s\t' row bytes_per_event 16.10 bytes 28.10; echo 'ftrace function'
	printf '%s\t' row bytes_switching 18.00 bytes 28.10; echo 'ftrace function'
	printf '%s\t' row function_all 800.00 cost 4000.00; echo 'ftrace function'
	printf '%s\t' row edit_one 120.00 cost 200.00; echo 'set_ftrace_filter'
	printf '%s\t' row remove_one 80.00 cost 200.00; echo 'set_ftrace_filter'
	printf '%s\t' row record_cpu 500.00 cost 500.00; echo 'trace-cmd record'
	printf '%s\t' row record_lost 0.00 % 0.00; echo 'trace-cmd record'
	printf '%s\t' row record_bytes 4.00 bytes 8.00; echo 'trace-cmd record'
	printf '%s\t' row replay_call 1000.00 cost 5000.00; echo 'trace-cmd report'
	printf '%s\t' row report_call 1000.00 cost 5000.00; echo 'uftrace report'
	printf '%s\t' row baseline 350.00 cost 350.00; echo 'afterwards'
	printf 'kernel\t7.2.12-test\n'
}

# expect pass|fail NAME SED WORD [UNIT]: what the report makes of the figures so edited; WORD is in it.
expect() {
	local got=pass out
	out=$(good | sed -E "$3" | "$report" --check --json "$dir/json" "${5:-instructions}" 2>&1) || got=fail
	if [[ $got == "$1" && $out == *"$4"* ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf '%s\n' "FAIL: $2: wanted $1 and \"$4\", got $got:" "$out"
	fi
}
# becomes NAME FIELD VALUE WORD: a row with that field (2: ours, 4: the peer's) fails.
becomes() {
	if (($2 == 2)); then
		expect fail "$1 costs $3" "s/^(row\t$1\t)[^\t]*/\1$3/" "FAIL: $1: $4"
	else
		expect fail "$1's peer costs $3" "s/^(row\t$1\t[^\t]*\t[^\t]*\t)[^\t]*/\1$3/" "FAIL: $1: $4"
	fi
}

expect pass "all promises kept" '' "33 passed, 0 failed, 0 skipped"
becomes function_one 2 100.01 "instructions is 100.01"
becomes function_one 4 500.00 "ratio is 0.2,"
becomes function_all 2 801.00 "ratio is 0.20025"
becomes pid_out 2 44.01 "instructions is 44.01"
becomes cgroup_out 2 44.01 "instructions is 44.01"
becomes cgroup_out 4 43.99 "ratio is 1.0002"
becomes contexts_one 2 768.10 "ratio is 0.480063"
becomes contexts_all 2 4800.10 "ratio is 0.48001"
becomes errno_handled 2 1100.10 "ratio is 1.1001"
becomes remove_one 2 80.01 "ratio is 0.40005"
becomes off_armed 2 49.00 "instructions is 49"
becomes calltrace_one 2 105.01 "ratio is 1.0501"
becomes stack_one 2 4000.01 "ratio is 0.800002"
becomes graph_one 2 720.01 "ratio is 0.450006"
becomes profile_one 2 688.01 "ratio is 0.430006"
becomes available_line 2 370.01 "ratio is 0.0500014"
becomes graph_all 2 5000.10 "ratio is 0.50001"
becomes bytes_graph 2 24.01 "bytes is 24.01"
becomes bytes_graph_all 2 24.01 "bytes is 24.01"
becomes idle 2 0.01 "instructions is 0.01"
becomes text_line 2 2401.00 "ratio"
becomes graph_line 2 1801.00 "ratio"
becomes drain_event 4 39.00 "ratio"
becomes drain_pages 2 120.01 "instructions is 120.01"
becomes drain_pages 4 39.99 "ratio"
becomes bytes_per_event 2 16.11 "bytes is 16.11"
becomes bytes_switching 2 18.01 "bytes is 18.01"
becomes record_cpu 2 500.01 "ratio is 1.00002"
becomes record_lost 2 0.01 "has no ratio"
becomes record_bytes 2 4.01 "ratio is 0.50125"
becomes replay_call 2 1000.10 "ratio is 0.20002"
becomes report_call 2 1000.10 "ratio is 0.20002"
expect fail "a row is not there" '/function_one/d' "FAIL: function_one: was not measured"
expect fail "a peer is not there" 's/^(row\ttext_line.*cost\t)[^\t]*/\1-/' "FAIL: text_line: has no ratio"
expect fail "the guest did not come to its end" '/^kernel/d' "did not come to its end"
expect fail "not a number" 's/48\.00\tcost\t200/cost\t200/' "not a number"
expect pass "what the guest does not have is skipped" \
	's/^row\tdrain_event.*/missing\tdrain_event\tno file/' "32 passed, 0 failed, 1 skipped"
expect pass "instructions are not judged where ns are counted" \
	's/^(row\tpid_out\t)[^\t]*/\1999.00/' "27 passed, 0 failed" ns
expect fail "ratios are" 's/^(row\tfunction_all\t)[^\t]*/\1999.00/' "FAIL: function_all: ratio" ns
of_tool='^row	(record|replay|report)_'
# alone PART GREP...: with --only PART, the rows that GREP leaves are enough.
alone() {
	if good | grep "${@:2}" | "$report" --check --only "$1" instructions >"$dir/only"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		echo "FAIL: only the rows of the $1:"
		cat "$dir/only"
	fi
}
alone module -vE "$of_tool"
alone tool -E "$of_tool|^kernel"

good | "$report" --json "$dir/json" instructions >"$dir/table"
if [[ $(grep -c '{"name": ' "$dir/json") == 31 ]] &&
	grep -qF '{"name": "function_one", "ours": 100, "peer": 600, "peer_name": "ftrace function", "unit": "instructions", "ratio": 0.167}' "$dir/json" &&
	grep -qF '{"name": "idle", "ours": 0, "peer": null, "peer_name": null, "unit": "instructions", "ratio": null}' "$dir/json" &&
	head -n 1 "$dir/json" | grep -qF '{"kernel": "7.2.12-test", '; then
	passed=$((passed + 1))
else
	failed=$((failed + 1))
	echo "FAIL: the JSON:"
	cat "$dir/json"
fi

echo "$passed passed, $failed failed"
((failed == 0))
