#!/bin/bash
# Usage: tests/host/run.sh
# Runs the host's tests, those of tools/, then the models (loom), and prints one line of KTAP for each, and one
# for how much of the engine the first ran.
# ADDRESS=1 runs the engine's tests with AddressSanitizer instead, before a release: what reads or writes beyond what it
# has, or what is gone, is found.
# MIRI=1 runs them under Miri instead, for hours: what is undefined is found, too. Debian has none; rustup does, of a
# nightly compiler: rustup toolchain install nightly-2025-12-01 --profile minimal --component miri,rust-src, and then
# RUSTUP_TOOLCHAIN=nightly-2025-12-01 MIRI=1 tests/host/run.sh, outside of the toolchain root. MIRI_ONLY=PART is for one.
# The last line is "N passed, N failed". Builds outside of the checkout: CARGO_TARGET_DIR, or a cache.
set -uo pipefail
cd "$(dirname "$0")" || exit 1
target=${CARGO_TARGET_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/rust_ftrace/target-host}
work=$(mktemp -d)
log=$work/log
trap 'rm -rf "$work"' EXIT

# Of lines and of regions (parts of lines that run together) of rust_ftrace/engine, in percent: a little less than
# there are. Raise it when there are more.
least_lines=96
least_regions=90

# suite NAME CMD...: turns libtest's lines into KTAP; CMD that ends badly without saying which test
# failed (no build, a crash) is a failure by its own name.
count=0 passed=0 failed=0
result() {
	count=$((count + 1))
	if [[ $1 == ok ]]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
	echo "$1 $count $2"
}
suite() {
	local name=$1 rc=0 before=$failed ran=0 line TIMEFORMAT='%R %U %S'
	shift
	{ time "$@" >"$log" 2>&1 || rc=$?; } 2>"$work/time"
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
	awk -v name="$name" '{ printf "# %s: %d s, %d s of CPU\n", name, $1, $2 + $3 }' "$work/time"
	sed -nE 's/^ +Finished .* in (.*)$/#   the build took \1/p' "$log"
}

# How much of the engine ran: one line, which fails if that is less than it was.
covered() {
	local tools name=coverage said program files
	# (of the LLVM that rustc has: the format changes)
	tools=/usr/lib/llvm-$(rustc -vV | sed -nE 's/^LLVM version: ([0-9]+).*/\1/p')/bin
	program=$(sed -nE 's/^ +Running .*\((.*)\)$/\1/p' "$log")
	files=("$program" -instr-profile="$work/all" -ignore-filename-regex='tests/host/|platform/|registry/')
	if ! { "$tools/llvm-profdata" merge -sparse "$work"/*.profraw -o "$work/all" &&
		"$tools/llvm-cov" report --show-branch-summary "${files[@]}" >"$work/report"; } >"$log" 2>&1; then
		result "not ok" "$name: no figures"
		sed 's/^/# /' "$log"
		return
	fi
	"$tools/llvm-cov" show "${files[@]}" >"$target/covered/lines"
	# TOTAL, then for regions, functions, lines and branches: how many, how many never ran, percent
	said=$(awk -v lines="$least_lines" -v regions="$least_regions" '
		$1 == "TOTAL" && $8 > 1000 {
			gsub("%", "")
			verdict = $10 >= lines && $4 >= regions ? "ok" : "not ok"
			printf "%s engine: %s %% of %d lines, %s %% of regions, %s %% of branches", verdict, $10, $8, $4, $13
			printf " (at least %s %% and %s %%)\n", lines, regions
		}' "$work/report")
	case $said in
	"ok "*) result ok "$name of the ${said#ok }" ;;
	"not ok "*) result "not ok" "$name of the ${said#not ok }" ;;
	*) result "not ok" "$name: no figures" ;;
	esac
	echo "# what never ran, line by line: $target/covered/lines"
	awk -F'  +' '/rust_ftrace\/engine\// && $10 + 0 < 90 {
		sub(".*/engine/", "", $1)
		print "#   engine/" $1 ": " $10 " of lines"
	}' "$work/report"
}

# Debian's rustc has no runtime for it, its clang has.
addresses() {
	local flags='-Zsanitizer=address -Zexternal-clangrt -Clinker=clang -Clink-arg=-fsanitize=address'
	suite address env CARGO_TARGET_DIR="$target/address" RUSTC_BOOTSTRAP=1 RUSTFLAGS="${RUSTFLAGS:-} $flags" \
		ASAN_OPTIONS=detect_leaks=0 cargo test --locked --lib --no-fail-fast --target x86_64-unknown-linux-gnu
}
# Miri runs one thread at a time and takes seconds to begin, so eight tests have a process, as many at once as there are
# processors. Proptest asks in which directory it is, so isolation is off.
undefined() {
	# (to cargo miri the variable is a program)
	unset MIRI
	export CARGO_TARGET_DIR=$target/miri MIRIFLAGS="-Zmiri-disable-isolation ${MIRIFLAGS:-}"
	# (properties that do not say how many cases, of vectors that do not say how long)
	export PROPTEST_CASES=2 PROPTEST_MAX_DEFAULT_SIZE_RANGE=10
	suite miri under_miri
}
# What has no unsafe code cannot break the rules of aliasing, which take most of the time: they are checked for the files
# of the engine that have some, and for what else is about rings and memory.
under_miri() {
	local names unsafe rc=0
	unsafe=$(grep -rlw unsafe ../../rust_ftrace/engine | sed -E 's|.*/engine/([a-z_]+).*|\1|' | sort -u | paste -sd '|') || return
	unsafe="^tests::($unsafe|account|blocks|extras|marker|nesting|raw_pages)::"
	names=$(cargo miri test --locked --lib -- --list) || return
	names=$(sed -n 's/: test$//p' <<<"$names" | grep -F "${MIRI_ONLY:-}") || return
	{ grep -E "$unsafe" <<<"$names" || true; } | each_under_miri || rc=$?
	{ grep -vE "$unsafe" <<<"$names" || true; } | MIRIFLAGS="$MIRIFLAGS -Zmiri-disable-stacked-borrows" each_under_miri || rc=$?
	return $rc
}
each_under_miri() {
	# shellcheck disable=SC2016 # expanded by each
	xargs -r -P "${JOBS:-$(nproc)}" -n 8 bash -c '
		out=$(cargo miri test --locked --lib -- --exact "$0" "$@" 2>&1)
		rc=$?
		printf "%s\n" "$out"
		exit $rc'
}
summary() {
	echo "1..$count"
	echo "$passed passed, $failed failed"
	((failed == 0))
	exit
}

echo "KTAP version 1"
if [[ -n ${ADDRESS:-} ]]; then
	addresses
	summary
fi
if [[ -n ${MIRI:-} ]]; then
	undefined
	summary
fi
suite test env CARGO_TARGET_DIR="$target/covered" RUSTC_WRAPPER="$PWD/covered" \
	LLVM_PROFILE_FILE="$work/%p.profraw" cargo test --locked --lib --no-fail-fast
covered
suite tools env CARGO_TARGET_DIR="$target" cargo test --locked --manifest-path ../../tools/Cargo.toml --workspace --no-fail-fast
# In a folder of its own: other flags would build everything anew each time.
suite model env CARGO_TARGET_DIR="$target/loom" RUSTFLAGS="${RUSTFLAGS:-} --cfg loom" \
	cargo test --locked --lib --no-fail-fast
summary
