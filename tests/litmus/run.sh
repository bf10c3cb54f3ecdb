#!/bin/bash
# Usage: tests/litmus/run.sh
# Asks herd7 and the kernel's memory model whether each litmus test's "exists" can come true, and
# compares the verdict with the one that the file states. The last line sums up.
. "$(dirname "$0")/../../scripts/internal/lib.sh"
. "$top/scripts/internal/run-counted.sh"

model=$("$top/scripts/kernel" tree)
model=$(realpath "$model/source" 2>/dev/null || echo "$model")/tools/memory-model

why=
if [[ ! -e $model/linux-kernel.cfg ]]; then
	why="no tools/memory-model in the kernel's source"
elif ! "$top/scripts/internal/herd7" -version >/dev/null; then
	why="no herd7"
fi

verdict_is_as_stated() {
	local stated found
	stated=$(sed -nE 's/^ \* Result: (Never|Sometimes|Always)$/\1/p' "$1")
	[[ -n $stated ]] || { echo "no result is stated"; return 1; }
	# (herd7 looks for the files that the configuration names in the current folder)
	found=$(cd "$model" && "$top/scripts/internal/herd7" -conf linux-kernel.cfg "$1" | tee /dev/stderr |
		sed -nE 's/^Observation [^ ]+ (Never|Sometimes|Always) .*/\1/p')
	echo "stated: $stated; found: ${found:-nothing}"
	[[ $found == "$stated" ]]
}

log=$(mktemp)
trap 'rm -f "$log"' EXIT
for test in "$top"/tests/litmus/*.litmus; do
	name=$(basename "$test")
	if [[ -n $why ]]; then
		skipped=$((skipped + 1))
		echo "skip: $name: $why"
	elif verdict_is_as_stated "$test" >"$log" 2>&1; then
		passed=$((passed + 1))
		echo "ok: $name: $(sed -n 's/^stated: \([A-Z][a-z]*\);.*/\1/p' "$log")"
	else
		failed=$((failed + 1))
		echo "FAIL: $name"
		sed 's/^/    /' "$log"
	fi
done
total
