#!/bin/bash
# Does scripts/check-stack bite? Objects with frames of known sizes are made, and it must say how deep their chains are.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d "$top/.check-stack.XXXXXX")
trap 'rm -rf "$work"' EXIT

passed=0 failed=0
# (the name of a hook of the module)
HOOK=_RINvNtNtNtCs_3sys6ftrace8callbackNtE

# says NAME CODE TEXT <ASSEMBLY: what it says of the object, and its exit code.
says() {
	local rc=0 out
	cat >"$work/code.s"
	"$top/scripts/toolchain" gcc -c -o "$work/code.o" "$work/code.s"
	out=$("$top/scripts/toolchain" "$top/scripts/check-stack" "$work/code.o" 2>&1) || rc=$?
	if [[ $rc == "$2" ]] && grep -qxF -- "$3" <<<"$out"; then
		echo "ok: $1"
		passed=$((passed + 1))
	else
		echo "not ok: $1: exit code $rc, it said:"
		echo "$out"
		failed=$((failed + 1))
	fi
}

# frame NAME BYTES CALLED...: a function with two pushes, so many bytes, and calls in a section of its own.
frame() {
	local name=$1 bytes=$2 called
	shift 2
	printf '.section .text.%s,"ax"\n.globl %s\n%s:\npush %%rbx\npush %%rbp\nsub $%d,%%rsp\n' "$name" "$name" "$name" "$bytes"
	for called; do printf 'call %s\n' "$called"; done
	printf 'add $%d,%%rsp\npop %%rbp\npop %%rbx\nret\n' "$bytes"
}

# (24 bytes of each are return address and pushes)
says "a chain that is not deep" 0 "a chain takes at most 3048 bytes of stack (limit 8192)" < <(frame outer 1000 inner; frame inner 2000; frame $HOOK 500)
says "a chain that is too deep" 1 "a chain takes more than 8192 bytes of stack:" < <(frame outer 4000 inner; frame inner 4200; frame $HOOK 500)
says "the deeper of two ways" 1 "a chain takes at most 8272 bytes of stack (limit 8192)" < <(frame outer 4000 inner other; frame inner 100; frame other 2500 last; frame last 1700; frame $HOOK 500)
says "a hook that is too deep" 1 "a hook takes more than 2560 bytes of stack:" < <(frame outer 1000; frame $HOOK 1900 cold; frame cold 700)
says "functions that call each other" 0 "a chain takes at most 3082 bytes of stack (limit 8192)" < <(frame outer 1000 inner; frame inner 2000 outer; frame top 10 outer; frame $HOOK 500)
says "frames of 128 bytes" 0 "a chain takes at most 304 bytes of stack (limit 8192)" < <(frame small 128 inner; frame inner 128; frame $HOOK 16)
says "no hook" 1 "check-stack: no hooks or no calls were found: the object code is not as this knows it" < <(frame outer 1000)

echo "$passed passed, $failed failed"
((failed == 0))
