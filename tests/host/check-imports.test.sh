#!/bin/bash
# Does scripts/internal/check-imports bite? An import that must not be is added to a copy of the sources, one after the other,
# and each must be found at its line.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
passed=0 failed=0
mkdir -p "$copy/tools/rftrace" "$copy/tests"
cp -r "$top/docs" "$top/scripts" "$top/rust_ftrace" "$top/rust_ftrace.rs" "$copy/"
cp -r "$top/tools/rftrace/src" "$copy/tools/rftrace/"

# case_of NAME WHAT-IS-SAID [FILE LINE]: with LINE behind the first that begins with "use ", or at the end of FILE if there
# is none, that is said; nothing if it is to be right
case_of() {
	local name=$1 said=$2 file=$copy/${3:-} out rc=0
	if [[ -n ${3:-} ]]; then
		cp "$file" "$copy/before"
		awk -v line="$4" '{ print } /^use / && !done { print line; done = 1 } END { if (!done) print line }' \
			"$copy/before" >"$file"
		said="$3:$(grep -nFx -- "$4" "$file" | head -n 1 | cut -d : -f 1): $said"
	fi
	out=$("$copy/scripts/toolchain" "$copy/scripts/internal/check-imports" 2>&1) || rc=$?
	if [[ -z $2 && $rc == 0 ]] || [[ -n $2 && $rc == 1 && $out == *"$said"* ]]; then
		echo "ok: $name"
		passed=$((passed + 1))
	else
		echo "not ok: $name: exit code $rc, it said: $out"
		failed=$((failed + 1))
	fi
	[[ -z ${3:-} ]] || mv "$copy/before" "$file"
}

case_of "the sources as they are" ""
case_of "a floor above" "tracer is not to import instance: crate::instance::Instance" \
	rust_ftrace/tracer/hook_flags.rs 'use crate::instance::Instance;'
case_of "a floor above, among others" "engine is not to import sys: crate::sys::cpu" \
	rust_ftrace/engine/merge.rs 'use crate::{platform, sys::cpu};'
case_of "a floor above, without an import" "engine is not to import sys: crate::sys::cpu::possible" \
	rust_ftrace/engine/merge.rs 'fn odd() { crate::sys::cpu::possible(); }'
case_of "the ring, which has to know no kernel" "engine is not to import tracer: super::super::tracer::hook_flags" \
	rust_ftrace/engine/ring.rs 'use super::super::tracer::hook_flags;'
case_of "two that import each other" "a circle (engine::filter, engine::glob): super::filter::Selector" \
	rust_ftrace/engine/glob.rs 'use super::filter::Selector;'
case_of "a part that imports the whole" "a circle (instance, instance::users): super::Instance" \
	rust_ftrace/instance/users.rs 'use super::Instance;'
case_of "two of the command" "a circle (boot, functions, inlined, static_graph, why): crate::why::Why" \
	tools/rftrace/src/functions.rs 'use crate::why::Why;'
case_of "a module by its path" "a module that is named by a path" \
	rust_ftrace/sys.rs '#[path = "../odd.rs"]'
case_of "what only a comment names" "" rust_ftrace/engine/merge.rs '// crate::sys::cpu is another floor.'

echo "$passed passed, $failed failed"
((failed == 0))
