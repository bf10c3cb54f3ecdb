#!/bin/bash
# Are recordings looked at in bounded memory? Millions of events, in less memory than they have bytes.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/scripts/internal/lib.sh"
. "$top/tests/host/verdict.sh"

"$top/scripts/tool"
# (with what scripts/tool has built of others)
export CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-$cache/target/tool}
triple=x86_64-unknown-linux-gnu
# (the lock is held no longer than this takes)
(
	take_lock tool
	own_crates_anew "$CARGO_TARGET_DIR"
	cd "$top/tools"
	RUSTFLAGS="${RUSTFLAGS:-} -Ctarget-feature=+crt-static" "$top/scripts/toolchain" cargo build --locked \
		--release --quiet --target $triple --package rftrace-cli --features samples --example make_recording
)
make=$CARGO_TARGET_DIR/$triple/release/examples/make_recording

# (on a disk: where it is in memory, a limit says little)
dir=$(mktemp -d "$cache/memory.XXXXXX")
trap 'rm -rf "$dir"' EXIT
events=5000000
"$make" "$dir/long" $events

# within MIB COMMAND...: what it says that goes wrong in so much address space.
within() {
	local limit=$1
	shift
	{ prlimit --as=$((limit << 20)) "$top/rftrace" "$@" >/dev/null; } 2>&1 || echo "exit $?"
}
# An event takes 16 bytes or more, and more when it is decoded.
limit=48
verdict "the limit is less than the records" "$((events * 16 >> 20 > limit))" 1
verdict "they are as many as they should be" \
	"$(($("$top/rftrace" info --json "$dir/long" | sed 's/.*"events":\([0-9]*\),"file.*/\1/') >= events))" 1
verdict "replay" "$(within $limit replay "$dir/long")" ''
verdict "replay of some" "$(within $limit replay "$dir/long" -l 'function_1*' --thresh 1ms)" ''
verdict "report" "$(within 72 report "$dir/long")" ''
verdict "graph" "$(within 72 graph function_100 "$dir/long")" ''
verdict "what takes more than its limit is seen" "$(within 40 report "$dir/long" | tail -n 1)" 'exit 134'

echo "$passed passed, $failed failed"
((failed == 0))
