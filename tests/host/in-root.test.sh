#!/bin/bash
# Does scripts/internal/in-root work wherever the checkout is, and wherever it is called from? A checkout below /tmp, where
# the toolchain root has a folder of its own. Needs what building the module needs.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(TMPDIR=/tmp mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0

if [[ -n ${KDIR:-} ]]; then
	echo "0 passed, 0 failed"
	exit
fi

checkout=$dir/checkout
mkdir -p "$checkout/sub folder" "$dir/elsewhere"
cp -r "$top/scripts" "$checkout/"
cache=$(. "$top/scripts/internal/lib.sh" && echo "$cache")
mkdir -p "$cache/home"

# runs_in FOLDER FROM: called in FROM, it runs commands in FOLDER, which is the same there as here.
runs_in() {
	local out rc=0
	# shellcheck disable=SC2016
	out=$(cd "$2" && "$checkout/scripts/internal/in-root" sh -c 'pwd; stat -c %d:%i .' 2>&1) || rc=$?
	if [[ $rc == 0 && $out == "$1"$'\n'"$(stat -c %d:%i "$1")" ]]; then
		echo "ok: called in $2"
		passed=$((passed + 1))
	else
		echo "not ok: called in $2: exit code $rc, it said: $out"
		failed=$((failed + 1))
	fi
}

runs_in "$checkout" "$checkout"
runs_in "$checkout/sub folder" "$checkout/sub folder"
runs_in "$cache/home" "$cache/home"
# What the root does not have, or has another of.
runs_in "$checkout" "$dir/elsewhere"
runs_in "$checkout" /tmp
runs_in "$checkout" /
runs_in "$checkout" /usr

echo "$passed passed, $failed failed"
((failed == 0))
