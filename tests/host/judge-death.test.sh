#!/bin/bash
# Does qemu/judge-death bite? Made-up logs of a kernel that died, each with one thing wrong, and a clean one.
set -euo pipefail
judge=$(cd "$(dirname "$0")/../.." && pwd)/qemu/judge-death
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0

fresh() {
	cat >"$dir/console" <<'EOT'
[    0.000000] Linux version 7.2.12 (builder@example) #1 SMP
[    5.500000] Kernel panic - not syncing: sysrq triggered crash
[    5.560000] Call Trace:
[    5.597903] rust_ftrace: Dumping the trace:
[    5.598128] rust_ftrace: ---------------------------------
[    5.600151] rust_ftrace: # tracer: function
[    5.602029] rust_ftrace:               dd-140     [000] ...1.     5.482403: cpuid_open [cpuid] <-chrdev_open
[    5.602945] rust_ftrace:               sh-155     [000] .....     5.726349: sysrq_handle_crash <-__handle_sysrq.cold
[    5.602946] rust_ftrace:  => one
[    5.602947] rust_ftrace:  => two
[    5.603317] rust_ftrace: ---------------------------------
[    5.603440] rust_ftrace: Dumping the trace of instance one:
[    5.603499] rust_ftrace: ---------------------------------
[    5.603500] rust_ftrace:    (trace empty)
[    5.603600] rust_ftrace: Dumping the trace:
[    5.603601] rust_ftrace:    (nothing came since it was shown)
EOT
	cat >"$dir/result" <<'EOT'
KTAP version 1
# file: deaths/sysrq.sh
ok 1 lives
# dump -
# =               dd-140     [000] ...1.     5.482403: cpuid_open [cpuid] <-chrdev_open
# ~  sysrq_handle_crash <-
# ~~ ^ => 
# dump one
# says Kernel panic - not syncing: sysrq
EOT
}

# expect pass|fail NAME [WORD]: what judge-death makes of both; WORD is to be in what it says.
expect() {
	local want=$1 name=$2 word=${3:-} got=pass out
	out=$("$judge" "$dir/console" "$dir/result" 2>&1) || got=fail
	if [[ $got == "$want" && $out == *"$word"* ]] &&
		grep -qE '^[0-9]+ passed, [0-9]+ failed, [0-9]+ skipped$' <<<"$(tail -n 1 <<<"$out")"; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf '%s\n' "FAIL: $name: wanted $want${word:+ and \"$word\"}, got $got:" "$out"
	fi
	fresh
}
# on FILE SED: changes it.
on() { sed -i "$2" "$dir/$1"; }

fresh
expect pass 'a clean death' '5 passed, 0 failed, 0 skipped'
on console '2aOops: general protection fault, probably for non-canonical address 0xdffffc0000000000: 0000 [#1] SMP KASAN\nKASAN: null-ptr-deref in range [0x0000000000000000-0x0000000000000007]'
expect pass 'a NULL pointer, as KASAN says it'
on console '2aBUG: KASAN: slab-use-after-free in one+0x1/0x2'
expect fail 'KASAN complains of something else' 'complains beside'
on console '/: cpuid_open/d'
expect fail 'a line is missing' 'and not:'
on console 's/dd-140/dd-141/'
expect fail 'a line is another' 'dd-141'
on console '/=> two/a [    5.60] rust_ftrace: a line more'
expect fail 'a line more' 'goes on with: a line more'
on console '/=> two/,$d'
expect fail 'no end' 'has no end'
on console '/# tracer/d'
expect fail 'no header' 'has no header'
on console '/instance one/,/empty/d'
expect fail 'an instance is not shown' 'one/1 is not shown'
on console 's/instance one/instance two/'
expect fail 'an instance is shown that should not be' 'the trace of two is shown'
on console 's/ *(nothing came since it was shown)/ ---------------------------------/'
expect fail 'it is shown twice' 'is shown 2 times'
on console '/Kernel panic/d'
expect fail 'no panic' 'panicked 0 times'
on console '$a [    6.0] Kernel panic - not syncing: once more'
expect fail 'two panics' 'panicked 2 times'
on result 's/says .*/says something else/'
expect fail 'other words' 'does not say: something else'
on console '$a [    6.0] BUG: sleeping function called from invalid context'
expect fail 'a complaint' 'complains beside: BUG: sleeping'
on console '$a [    6.0] BUG: sleeping function called from invalid context'
on result '$a # allows ^BUG: sleeping'
expect pass 'a complaint that is allowed'
on result 's/^ok 1/not ok 1/'
expect fail 'a test failed' 'not ok 1 lives'
on result '$a # guest: exit 0'
expect fail 'it lives' 'has not died'
on result '/^# dump/,$d'
expect fail 'it died too soon' 'has not come to where it dies'
: >"$dir/result"
expect fail 'nothing' 'no test has begun'
printf '%s\n' '# file: deaths/x.sh' '1..0 # SKIP not here' >"$dir/result"
expect pass 'skipped' '0 passed, 0 failed, 1 skipped'

echo "$passed passed, $failed failed"
((failed == 0))
