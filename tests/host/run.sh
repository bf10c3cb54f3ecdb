#!/bin/bash
# Usage: tests/host/run.sh
# Runs the host's tests, those of tools/, then the models (loom), and prints one line of KTAP for each.
# The last line is "N passed, N failed". Builds outside of the checkout: CARGO_TARGET_DIR, or a cache.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
target=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/rust_ftrace/target-host}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# suite NAME CMD...: turns libtest's lines into KTAP; CMD that ends badly without saying which test
# failed (no build, a crash) is a failure by its own name.
count=0 passed=0 failed=0
result() {
	count=$((count + 1))
	if [[ $1 == ok ]]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
	echo "$1 $count $2"
}
suite() {
	local name=$1 rc=0 before=$failed ran=0 line
	shift
	"$@" >"$log" 2>&1 || rc=$?
	while read -r line; do
		if [[ $line =~ ^test\ (.*)\ \.\.\.\ (ok|FAILED|ignored.*)$ ]]; then
			ran=$((ran + 1))
			case ${BASH_REMATCH[2]} in
			FAILED) result "not ok" "$name ${BASH_REMATCH[1]% - should panic}" ;;
			ok) result ok "$name ${BASH_REMATCH[1]% - should panic}" ;;
			*) result ok "$name ${BASH_REMATCH[1]} # SKIP" ;;
			esac
		fi
	done <"$log"
	if ((rc && failed == before)) || ((ran == 0)); then
		result "not ok" "$name: cargo exited with $rc"
	fi
	if ((failed > before)); then
		sed 's/^/# /' "$log"
	fi
}

echo "KTAP version 1"
suite test env CARGO_TARGET_DIR="$target" cargo test --locked --lib --no-fail-fast
suite tools env CARGO_TARGET_DIR="$target" cargo test --locked --manifest-path ../../tools/Cargo.toml --workspace --no-fail-fast
# In a folder of its own: other flags would build everything anew each time.
suite model env CARGO_TARGET_DIR="$target/loom" RUSTFLAGS="${RUSTFLAGS:-} --cfg loom" \
	cargo test --locked --lib --no-fail-fast
echo "1..$count"
echo "$passed passed, $failed failed"
((failed == 0))
