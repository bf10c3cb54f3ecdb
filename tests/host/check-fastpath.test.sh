#!/bin/bash
# Does scripts/check-fastpath bite? The module is built with the hook broken in one way after
# the other, and each must be found. Needs what building the module needs.
set -euo pipefail

# A debug kernel's checkers put calls everywhere.
if [[ ${KERNEL:-stock} == @(debug|kcsan) ]]; then
	echo "0 passed, 0 failed"
	exit
fi

top=$(cd "$(dirname "$0")/../.." && pwd)
copy=$(mktemp -d)
clean_up() {
	[[ ! -x $copy/scripts/clean ]] || "$copy/scripts/clean" >/dev/null 2>&1 || true
	rm -rf "$copy"
}
trap clean_up EXIT

passed=0 failed=0
cp -r "$top/Kbuild" "$top/scripts" "$top/rust_ftrace.rs" "$top/rust_ftrace" "$copy/"
hook=$copy/rust_ftrace/tracer/function.rs
platform=$copy/rust_ftrace/platform/kernel.rs
ring=$copy/rust_ftrace/engine/ring.rs
probes=$copy/rust_ftrace/tracer/probes.rs
shared=$copy/rust_ftrace/tracer/shared.rs

# broken NAME WHAT-IS-SAID FILE SED-SCRIPT: FILE, for the next build; the script must change it.
names=() said=() files=()
broken() {
	cp "$3" "$copy/before"
	sed -i "$4" "$3"
	if cmp -s "$3" "$copy/before"; then
		echo "not ok: $1: nothing was broken: is the sed script up to date?"
		failed=$((failed + 1))
		return
	fi
	names+=("$1") said+=("$2") files+=("$3")
}

# found_all: builds it with all that has been broken since the last time, and looks for each of it in what is said.
# (a build takes long)
found_all() {
	local rc=0 out i
	if ! out=$("$copy/scripts/build" 2>&1); then
		echo "not ok: ${names[*]}: it does not build:"
		tail -n 5 <<<"$out"
		failed=$((failed + ${#names[@]}))
	else
		out=$("$copy/scripts/toolchain" "$copy/scripts/check-fastpath" "$copy/rust_ftrace.ko" 2>&1) || rc=$?
		for i in "${!names[@]}"; do
			if [[ $rc == 1 ]] && grep -qE "${said[i]}" <<<"$out"; then
				echo "ok: ${names[i]}"
				passed=$((passed + 1))
			else
				echo "not ok: ${names[i]}: exit code $rc, it said: $out"
				failed=$((failed + 1))
			fi
		done
	fi
	for i in ${files[@]+"${files[@]}"}; do cp "$top/${i#"$copy"/}" "$i"; done
	names=() said=() files=()
}

# What is said of the hook itself, and of what it calls.
PANICS='8callback[^:]*: it can panic'

# (a build takes most of the time: there are as few as can be told apart. That the module as it is passes, make check says.)
broken "a lock prefix" "a locked instruction" "$platform" 's/"cmpxchg qword/"lock cmpxchg qword/'
broken "a call on the way" "8callback[^:]*: a call:" "$hook" \
	's/self\.record(guard.token(), site, cycles)/self.record(guard.token(), site, crate::sys::clock::local_ns)/'
broken "a call while a hook flag is set" "18entered_with_flags: a call" "$hook" \
	'/fn entered_with_flags(/,/^    }/s/FunctionEntry { call, registers }, cycles)/FunctionEntry { call, registers }, crate::sys::clock::local_ns)/'
broken "a call in the part of a shared hook" "10enter_seat: a call" "$shared" \
	'/fn enter_seat(/,/^    }/s/let place = part.place();/&let _ = core::hint::black_box(crate::sys::clock::local_ns());/'
broken "an overflowing sum out of the way" "6engine4ring.*: it can panic" "$ring" \
	's/Self(moved.wrapping_add(\(.*\)))$/Self(moved + \1)/'
found_all

broken "an index out of bounds" "18entered_with_flags: it can panic" "$hook" \
	'/fn entered_with_flags(/,/^    }/s/let guard = PreemptGuard::new();/&\n        let table = [1u8, 2, 3, 4];\n        core::hint::black_box(table[call.ip as usize]);/'
broken "an overflowing sum" "$PANICS" "$hook" \
	'/fn entered(&self/,/^    }/s/let guard = PreemptGuard::new();/&\n        core::hint::black_box(site.call.ip + site.call.parent_ip);/'
broken "a loop" "a loop" "$hook" \
	'/fn entered(&self/,/^    }/s/let guard = PreemptGuard::new();/&\n        while self.flags() == 77 {}/'
# (the compiler may make it a part of the function that searches)
broken "a search that adds" "(6probes.*|12entered_slow): it can panic" "$probes" \
	's/before.wrapping_add(lower.len()).wrapping_add(1)/before + lower.len() + 1/'
found_all

echo "$passed passed, $failed failed"
((failed == 0))
