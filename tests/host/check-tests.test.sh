#!/bin/bash
# Does scripts/internal/check-tests see tests that are not run, not found, or cannot fail? Files without contents, each time with another fault.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0

# fault NAME WHAT-IS-SAID COMMAND: what is said after COMMAND, in a copy; nothing is, and it is right, if that is empty.
fault() {
	local out rc=0
	rm -rf "$dir/tree"
	mkdir -p "$dir/tree"
	(cd "$top" && find rust_ftrace/engine tests/guest tests/host/src/tests -type f) | while read -r file; do
		mkdir -p "$dir/tree/${file%/*}"
		: >"$dir/tree/$file"
	done
	cp "$top/tests/guest/order" "$dir/tree/tests/guest/"
	cp "$top/tests/host/src/tests.rs" "$dir/tree/tests/host/src/"
	(cd "$dir/tree" && eval "$3")
	out=$("$top/scripts/internal/check-tests" "$dir/tree" 2>&1) || rc=$?
	if [[ $out == "$2" && $rc == "$((${#2} > 0))" ]]; then
		echo "ok: $1"
		passed=$((passed + 1))
	else
		echo "not ok: $1: exit code $rc, it said: $out"
		failed=$((failed + 1))
	fi
}

fault 'all is well' '' :
fault 'a guest test is not listed' 'tests/guest/order does not name: core/new.sh' 'touch tests/guest/core/new.sh'
fault 'a listed guest test is not there' 'tests/guest/order names what is not there: core/load.sh' \
	'rm tests/guest/core/load.sh'
fault 'a guest test is listed twice' 'tests/guest/order names twice: core/load.sh' \
	'echo core/load.sh >>tests/guest/order'
fault 'a guest has to have what is not known' 'tests/guest/order does not explain: moon' \
	'sed -i "s|^core/load.sh|&	moon|" tests/guest/order'
fault 'a file of the engine has no tests' \
	'no tests in tests/host/src/tests for this file of the engine, nor is it in the table of tests.rs: ring/new' \
	'touch rust_ftrace/engine/ring/new.rs'
fault 'tests are of no file of the engine' \
	'of no file of the engine, and not in the table of tests/host/src/tests.rs: the tests: new' \
	'touch tests/host/src/tests/new.rs'
fault 'the table names a file that is gone' 'in the table of tests/host/src/tests.rs, but not in the engine: frames' \
	'rm rust_ftrace/engine/frames.rs'
fault 'the table names tests that are gone' 'in the table of tests/host/src/tests.rs, but no tests: nesting' \
	'rm tests/host/src/tests/nesting.rs'
# lines FILE LINE...: it has these.
lines() {
	local file=$1
	shift
	printf '%s\n' "$@" >"$file"
}
fault 'a guest test says "!", where it cannot fail' '"!" that cannot fail, where "fails" would: guest/core/load.sh:2' \
	"lines tests/guest/core/load.sh 'f() {' '	! false' '	true' '}'"
fault 'a function returns what "!" makes' '' "lines tests/guest/lib/ktap.sh 'f() {' '	! false' '}'"

echo "$passed passed, $failed failed"
((failed == 0))
