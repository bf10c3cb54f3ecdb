#!/bin/bash
# Are the figures in the docs those of docs/bench.json, and does scripts/internal/bench-docs see it when they are not, or
# when a run has others? In a copy of the docs.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
passed=0 failed=0

# (in the cache, which is at its own path for the toolchain, too)
cache=${RUST_FTRACE_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/rust_ftrace}
mkdir -p "$cache"
dir=$(mktemp -d "$cache/bench-docs.XXXXXX")
trap 'rm -rf "$dir"' EXIT
copy() {
	rm -rf "$dir/tree"
	mkdir -p "$dir/tree/scripts/internal"
	cp -r "$top/README.md" "$top/docs" "$dir/tree"
	cp "$top/scripts/internal/bench-docs" "$top/scripts/internal/bench-report" "$dir/tree/scripts/internal"
}
docs() { "$top/scripts/toolchain" "$dir/tree/scripts/internal/bench-docs" "$@"; }

# expect RC NAME WORDS CMD...: CMD ends so, and says these words.
expect() {
	local rc=0 out
	out=$("${@:4}" 2>&1) || rc=$?
	if [[ $rc == "$1" && $out == *"$3"* ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf '%s\n' "FAIL: $2: wanted $1 and \"$3\", got $rc:" "$out"
	fi
}
# changed NAME WORDS FILE SED-SCRIPT: the figures in FILE, so changed, are found to be wrong.
changed() {
	copy
	sed -i -E "$4" "$dir/tree/$3"
	if cmp -s "$dir/tree/$3" "$top/$3"; then
		failed=$((failed + 1))
		echo "FAIL: $1: nothing was changed"
		return
	fi
	expect 1 "$1" "$2" docs
}
# run RC NAME WORDS SED-SCRIPT: a run whose JSON is that of the docs, so changed, is compared with them.
run() {
	sed -E "$4" "$top/docs/bench.json" >"$dir/run"
	expect "$1" "$2" "$3" docs --compare <"$dir/run"
}

copy
expect 0 "the docs have the figures of docs/bench.json" ", 0 failed" docs
changed "a figure in a table" "README.md: has '| one function, per call" README.md 's/^(\| one function, per call +\| )[0-9.]+/\196.0/'
changed "a row that is gone" "docs/performance.md: the figures are not those" docs/performance.md '/^\| loaded, nothing traced/d'
changed "a figure in a sentence" "docs/ring.md: has" docs/ring.md 's/[0-9]+(<!-- bench: function_one -->)/96\1/'
changed "a row that there is not" "has no row for 9<!-- bench: nonsense -->" README.md '$a 9<!-- bench: nonsense -->'
changed "a pattern of no row" "has no row nonsense_" README.md 's/begin function_one/begin nonsense_* function_one/'
changed "no number" "no number stands before" README.md '$a about <!-- bench: function_one -->'
changed "a block without an end" "README.md: cannot be read: <!-- bench: begin" README.md '/^<!-- bench: end -->/d'
changed "another docs/bench.json" "docs/bench.json: '| one function, per call" docs/bench.json 's/("function_one", "ours": )[0-9.]+/\196/'

copy
sed -i -E 's/("function_one", "ours": )[0-9.]+/\196/' "$dir/tree/docs/bench.json"
expect 0 "figures are written" "wrote the figures of README.md" docs --update
expect 0 "and are right then" ", 0 failed" docs
expect 0 "in sentences, too" "96<!-- bench: function_one -->" cat "$dir/tree/docs/ring.md"
expect 0 "a run's rows are taken over" "wrote the figures of README.md" docs --update - <"$top/docs/bench.json"
expect 0 "and all is as it was" "" diff -r "$dir/tree/docs" "$top/docs"

copy
run 0 "the same run" ", 0 failed, 0 skipped" ''
run 0 "one within the tolerance" ", 0 failed, 0 skipped" 's/("function_one", "ours": )[0-9.]+/\1101/'
run 1 "one beyond it" "FAIL: function_one: ours is 103, and the docs say 97" 's/("function_one", "ours": )[0-9.]+/\1103/'
run 1 "a peer beyond it" "FAIL: function_one: peer is 700" 's/("function_one", .*"peer": )[0-9.]+/\1700/'
run 0 "a recorder's time within its own" ", 0 failed" 's/("record_cpu", "ours": )[0-9.]+/\1240/'
run 0 "a row that depends on how much is measured" ", 0 failed, 0 skipped" 's/("record_cpu_all", "ours": )[0-9.]+/\19000/'
run 1 "and beyond it" "FAIL: record_cpu: ours is 300" 's/("record_cpu", "ours": )[0-9.]+/\1300/'
run 1 "next to nothing is not nothing" "FAIL: idle: ours is 1," 's/("idle", "ours": )[0-9.]+/\11/'
run 1 "a new row" "FAIL: nonsense: is not in docs/bench.json" 's/"idle"/"nonsense"/'
run 0 "fewer rows" ", 0 failed, 0 skipped" '/"idle"/d'
run 0 "another kernel" "0 passed, 0 failed, 1 skipped" 's/"kernel": "/&9/'
run 0 "in ns" "0 passed, 0 failed, 1 skipped" '1s/instructions/ns/'

# What the docs have must keep the promises, too.
expect 0 "the docs' figures keep what is promised" ", 0 failed, 0 skipped" \
	bash -c "'$top/scripts/toolchain' '$top/scripts/internal/bench-docs' --rows | '$top/scripts/internal/bench-report' --check instructions"

echo "$passed passed, $failed failed"
((failed == 0))
