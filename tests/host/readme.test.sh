#!/bin/bash
# Does README.md's table of files say what the module's own table says?
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
readme=$top/README.md
passed=0 failed=0

# case_of NAME WHAT-IS-SAID SED-SCRIPT: the README, so changed, is found to be wrong (or, where
# nothing is to be said, right)
case_of() {
	local out rc=0
	out=$(sed "$3" "$readme" | "$top/scripts/toolchain" "$top/scripts/internal/file-table" --check 2>&1) || rc=$?
	if [[ -z $2 && $rc == 0 ]] || [[ -n $2 && $rc == 1 && $out == *"$2"* ]]; then
		echo "ok: $1"
		passed=$((passed + 1))
	else
		echo "not ok: $1: exit code $rc, it said: $out"
		failed=$((failed + 1))
	fi
}

case_of "README.md has every file" "" ""
case_of "another help line is found" 'not in README.md: | `tracing_on`' 's/^| `tracing_on` | /&not /'
case_of "a file too many is found" 'no such file: | `tracing_off`' '/^| `tracing_on` | /{p;s/tracing_on/tracing_off/}'

echo "$passed passed, $failed failed"
((failed == 0))
