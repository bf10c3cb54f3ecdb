#!/bin/bash
# Does scripts/internal/run-counted.sh say again at the end what failed, whichever way, and only that?
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0

# expect NAME WANTED: what $dir/run prints from "--- what failed" on, or its last line.
expect() {
	local out got
	out=$(bash "$dir/run" 2>/dev/null) || :
	got=$(sed -n '/^--- what failed$/,$p' <<<"$out")
	got=$(awk '/^--- what failed$/ { all = "" } { all = all $0 "\n" } END { printf "%s", all }' <<<"${got:-$(tail -n 1 <<<"$out")}")
	if [[ $got == "$2" ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf '%s\n' "FAIL: $1: wanted" "$2" "got" "$got" "of" "$out"
	fi
}
# runs: what comes on standard input, between the set-up and the end.
runs() {
	{
		printf '%s\n' 'set -euo pipefail' 'say() { :; }' ". '$top/scripts/internal/run-counted.sh'"
		cat
		echo total
	} >"$dir/run"
}

runs <<'EOF'
counted one true
summed two printf '%s\n' 'ok 1 FAIL: not one' '3 passed, 0 failed, 1 skipped'
EOF
expect 'nothing' '4 passed, 0 failed, 1 skipped'

runs <<'EOF'
counted one false
summed two printf '%s\n' '# x' 'FAIL: a' '    # why' 'else' '    (two: 3 s)' 'FAIL: b' '1 passed, 2 failed'
summed three printf '%s\n' 'ok 1 a' 'not ok 2 b' '1 passed, 1 failed'
beside four printf '%s\n' 'FAIL: c' '0 passed, 1 failed'
joined
EOF
expect 'each way' '--- what failed
FAIL: one
FAIL: a
    # why
FAIL: b
FAIL: not ok 2 b
FAIL: c
2 passed, 5 failed'

runs <<'EOF'
summed one printf '%s\n' 'FAIL: a' '--- what failed' 'FAIL: a' '    # why' 'FAIL: b' '1 passed, 2 failed'
EOF
expect 'each once, of one that has such a list itself' '--- what failed
FAIL: a
    # why
FAIL: b
1 passed, 2 failed'

runs <<'EOF'
summed one printf '%s\n' 'FAIL: a' 'the last line'
summed two sh -c 'echo 1 passed, 0 failed; exit 1'
EOF
expect 'no last line, or a wrong one' '--- what failed
FAIL: a
FAIL: one did not come to its end
    FAIL: a
    the last line
FAIL: two: ended with an error
1 passed, 2 failed'

echo "$passed passed, $failed failed"
((failed == 0))
