#!/bin/bash
# Does scripts/check-fastpath bite? The module is built with the hook broken in one way after
# the other, and each must be found. Needs what building the module needs.
set -euo pipefail

# A debug kernel's checkers put calls everywhere.
if [[ ${KERNEL:-stock} == debug ]]; then
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
shim=$copy/rust_ftrace/shim.rs
ring=$copy/rust_ftrace/engine/ring.rs
probes=$copy/rust_ftrace/tracer/probes.rs

# case_of NAME WHAT-IS-SAID FILE SED-SCRIPT: the script must change FILE
case_of() {
	local name=$1 said=$2 file=$3 edit=$4 rc=0 out
	cp "$file" "$copy/kept"
	sed -i "$edit" "$file"
	if [[ -n $edit ]] && cmp -s "$file" "$copy/kept"; then
		echo "not ok: $name: nothing was broken: is the sed script up to date?"
		failed=$((failed + 1))
		return
	fi
	if ! out=$("$copy/scripts/build" 2>&1); then
		echo "not ok: $name: it does not build:"
		tail -n 5 <<<"$out"
		failed=$((failed + 1))
	else
		out=$("$copy/scripts/toolchain" "$copy/scripts/check-fastpath" "$copy/rust_ftrace.ko" 2>&1) || rc=$?
		if [[ -z $said && $rc == 0 ]] || [[ -n $said && $rc == 1 && $out == *"$said"* ]]; then
			echo "ok: $name"
			passed=$((passed + 1))
		else
			echo "not ok: $name: exit code $rc, it said: $out"
			failed=$((failed + 1))
		fi
	fi
	cp "$copy/kept" "$file"
}

case_of "the hook as it is" "" "$hook" ""
case_of "a lock prefix" "a locked instruction" "$shim" 's/"cmpxchg qword/"lock cmpxchg qword/'
case_of "a call on the way" "a call:" "$hook" 's/self\.record(guard.token(), site, cycles)/self.record(guard.token(), site, crate::sys::clock::local_ns)/'
case_of "an index out of bounds" "it can panic" "$hook" \
	's/let guard = PreemptGuard::new();/&\n        let table = [1u8, 2, 3, 4];\n        core::hint::black_box(table[site.call.ip as usize]);/'
case_of "an overflowing sum" "it can panic" "$hook" \
	's/let guard = PreemptGuard::new();/&\n        core::hint::black_box(site.call.ip + site.call.parent_ip);/'
case_of "a loop" "a loop" "$hook" \
	's/let guard = PreemptGuard::new();/&\n        while self.gate() == 77 {}/'

case_of "an overflowing sum out of the way" "it can panic" "$ring" \
	's/Self(moved.wrapping_add(\(.*\)))$/Self(moved + \1)/'
case_of "a search that adds" "it can panic" "$probes" \
	's/= find(probes, ip as usize) else/= probes.binary_search_by_key(\&(ip as usize), |probe| probe.ip).ok().and_then(|at| probes.get(at)) else/'

echo "$passed passed, $failed failed"
((failed == 0))
