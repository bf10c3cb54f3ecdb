#!/bin/bash
# Builds into a folder that checkouts share take no crate of another checkout's.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/scripts/internal/lib.sh"
. "$top/tests/host/verdict.sh"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
target=$dir/target
prints=("$target/release/.fingerprint" "$target/x86_64-unknown-linux-gnu/release/.fingerprint" "$target/debug/.fingerprint")

# built: what cargo keeps of crates that were built, ours and others'.
built() {
	local print
	for print in "${prints[@]}"; do mkdir -p "$print"/{rftrace-cli-0123,rftrace-engine-4567,rust_ftrace-stress-89ab,serde-cdef}; done
}
# left: the crates of which cargo knows something.
left() { find "$target" -path '*/.fingerprint/*' -prune -printf '%f\n' | sort -u | paste -sd' '; }

own_crates_anew "$target"
verdict "an empty folder is this checkout's" "$(<"$target/checkout")" "$top"
built
own_crates_anew "$target"
verdict "what this checkout has built stays" "$(left)" "rftrace-cli-0123 rftrace-engine-4567 rust_ftrace-stress-89ab serde-cdef"
echo /another >"$target/checkout"
own_crates_anew "$target"
verdict "another's goes, and crates of others stay" "$(left)" "serde-cdef"
verdict "the folder is this checkout's from then on" "$(<"$target/checkout")" "$top"

echo "$passed passed, $failed failed"
((failed == 0))
