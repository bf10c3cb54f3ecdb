#!/bin/bash
# Does qemu/judge bite? Made-up logs, each with one thing wrong, and a clean one.
set -euo pipefail
judge=$(cd "$(dirname "$0")/../.." && pwd)/qemu/judge
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0

clean_console() {
	cat <<'EOF'
[    0.000000] Linux version 7.2.12 (builder@example) #1 SMP
[    0.100000] x86/fpu: Supporting XSAVE feature 0x001: 'x87 floating point registers'
[    2.286871] rust_ftrace: loading out-of-tree module taints kernel.
[    2.287165] rust_ftrace: module verification failed: signature and/or required key missing - tainting kernel
[    3.000000] reboot: Power down
EOF
}
clean_result() {
	cat <<'EOF'
KTAP version 1
# kernel: 7.2.12 #1 SMP
# file: 01-load.sh
1..2
ok 1 loads
ok 2 unloads # SKIP no reason
# end: 01-load.sh exit=0 splats=0 seconds=7
# file: 02-trace.sh
# a comment
ok 1 traces
1..1
# end: 02-trace.sh exit=0 splats=0 seconds=7
# file: 03-other.sh
1..0 # SKIP not on this kernel
# end: 03-other.sh exit=0 splats=0 seconds=7
# all done
# guest: exit 0
EOF
}

# expect pass|fail NAME [WORD]: what judge makes of $dir/console and $dir/result; WORD is to be
# in what it says.
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
}
fresh() {
	clean_console >"$dir/console"
	clean_result >"$dir/result"
}
# on_console NAME LINE: such a line on the console is a failure
on_console() {
	clean_console | sed "\$i [    2.5] $2" >"$dir/console"
	clean_result >"$dir/result"
	expect fail "$1" "${2%%(*}"
}
# result_becomes NAME WORD SED: the result so edited is a failure
result_becomes() {
	clean_console >"$dir/console"
	clean_result | sed "$3" >"$dir/result"
	expect fail "$1" "$2"
}

# out_of_memory NAME VICTIM...: processes that are killed, one after the other, each with a report.
out_of_memory() {
	local want=$1 name=$2 victim
	shift 2
	clean_result >"$dir/result"
	{
		for victim; do
			echo '[    2.3] ls invoked oom-killer: gfp_mask=0x140cca, order=0'
			echo '[    2.3] Call Trace:'
			echo "[    2.4] Out of memory: Killed process 176 ($victim) total-vm:814364kB"
		done
		clean_console
	} >"$dir/console"
	expect "$want" "$name" ''
}
out_of_memory pass "who asks for it is killed" stress-eater stress-eater
out_of_memory fail "somebody else is killed" sh
out_of_memory fail "somebody else is killed, too" stress-eater sh
out_of_memory fail "and before" sh stress-eater
clean_console | sed '$i [    2.5] ls invoked oom-killer: order=0\n[    2.6] Call Trace:' >"$dir/console"
expect fail "nobody is said to be killed" 'Call Trace'
for victim in stress-eater sh; do
	clean_console | sed "\$i [    2.5] Out of memory: Killed process 176 ($victim) total-vm:814364kB" >"$dir/console"
	case $victim in
	stress-eater) expect pass 'the beginning of a report is lost' '' ;;
	*) expect fail 'that of another, too' 'Out of memory' ;;
	esac
done

# asleep WANT NAME LINE [LATER [END]]: the kernel could not go to sleep; LINE comes in between, LATER behind it, END is
# the last line of the stack
asleep() {
	clean_result >"$dir/result"
	{
		printf '[    2.3] %s\n' 'Freezing user space processes failed after 20.012 seconds (1 tasks refusing to freeze):' \
			'task:exe             state:D stack:0     pid:141' 'Call Trace:' ' <TASK>' ' schedule+0x28/0xa0' \
			"$3" "${5- </TASK>}" 'OOM killer enabled.' 'Restarting tasks: Starting' "${4:-PM: suspend exit}"
		clean_console
	} >"$dir/console"
	expect "$1" "$2" ''
}
asleep pass "tasks are too busy for the machine to sleep" ' io_schedule+0x1/0x2'
asleep fail "the kernel complains meanwhile" 'WARNING: possible circular locking dependency detected'
asleep fail "and later" ' io_schedule+0x1/0x2' 'Call Trace:'
asleep fail "and behind a stack whose end was lost" ' io_schedule+0x1/0x2' 'Call Trace:' ''

clean_console | sed '$i [    2.5] WARNING: stack going in the wrong direction? at return_to_handler+0x46/0x50' >"$dir/console"
expect pass "an interrupt in return_to_handler()"
clean_console | sed '$i [    2.5] WARNING: stack going in the wrong direction? at vfs_read+0x46/0x50' >"$dir/console"
expect fail "a stack that goes the wrong way" 'WARNING: stack going'

# unregistered RAX [LINE]: fprobe cannot be registered, says the kernel, and LINE in the midst of it.
unregistered() {
	clean_result >"$dir/result"
	{
		printf '[    2.5] %s\n' 'WARNING: kernel/trace/fprobe.c:296 at register_fprobe_ips+0x1/0x2, CPU#1: stress/77' \
			"RAX: $1 RBX: ffff8880001bf028 RCX: ffffffff84fc3601" 'Call Trace:' "${2:- <TASK>}" \
			' do_syscall_64+0x1/0x2' ' </TASK>'
		clean_console
	} >"$dir/console"
}
unregistered 00000000fffffff4
expect pass "fprobe is not registered for want of memory"
unregistered 00000000fffffff0
expect fail "fprobe is not registered for another reason" 'WARNING: kernel/trace/fprobe.c'
unregistered 00000000fffffff4 'BUG: KASAN: slab-use-after-free in x'
expect fail "fprobe is not registered, and more" 'KASAN'

# asked_fault LINE: an allocation fails that is to fail, with its stack, and LINE.
asked_fault() {
	clean_result >"$dir/result"
	{
		printf '[    2.5] %s\n' 'FAULT_INJECTION: forcing a failure.' 'name failslab, interval 1, probability 0, space 0' \
			'Call Trace:' ' <TASK>' "$1" ' </TASK>'
		clean_console
	} >"$dir/console"
}
asked_fault ' should_fail_ex+0x1/0x2'
expect pass "a fault that was asked for"
asked_fault 'WARNING: mm/slub.c:1 at x'
expect fail "a complaint in such a report" 'WARNING: mm/slub.c'

# rcu_report SAYS FRAME [INSERT]: a report of lockdep about RCU, with another one in its midst
rcu_report() {
	local head="[    2.5] =====
[    2.5] WARNING: suspicious RCU usage
[    2.5] $1
[    2.5] Call Trace:
[    2.5]  <TASK>"
	local stack="[    2.5]  $2+0x1/0x2
[    2.5]  do_idle+0x1/0x2
[    2.5]  </TASK>"
	clean_result >"$dir/result"
	{
		printf '%s\n' "$head" "$head" "$stack" "${3-[    2.5]  x+0x1/0x2}" "$stack"
		clean_console
	} >"$dir/console"
}
offline='RCU used illegally from offline CPU!'
rcu_report "$offline" fprobe_fgraph_entry
expect pass "fprobe on a CPU that goes"
rcu_report "$offline" fprobe_return '[    2.5]  ? old [rust_ftrace]'
expect pass "fprobe on a CPU that comes"
rcu_report "$offline" fprobe_ftrace_entry '[    2.5]  fentry_trace_func+0x1/0x2'
expect pass "an fprobe event without returns on a CPU that goes"
rcu_report 'other info that might help' fprobe_return
expect fail "fprobe on a CPU that is there" 'suspicious RCU usage'
rcu_report "$offline" vfs_read
expect fail "another on a CPU that goes" 'suspicious RCU usage'
rcu_report "$offline" fprobe_fgraph_entry '[    2.5]  hook+0x1/0x2 [rust_ftrace]'
expect fail "ours on a CPU that goes" 'suspicious RCU usage'
rcu_report "$offline" fprobe_fgraph_entry '[    2.5] BUG: sleeping function called from invalid context'
expect fail "a bug of another CPU in its midst" 'sleeping function'
rcu_report "$offline" fprobe_fgraph_entry '[    2.5] Call Trace:
[    2.5]  <TASK>
[    2.5]  </TASK>'
expect fail "an outer report that is not of fprobe" 'suspicious RCU usage'
rcu_report "$offline" fprobe_fgraph_entry '[    2.5] WARNING: suspicious RCU usage'
expect fail "a report without an end" 'suspicious RCU usage'

# races NAME pass|fail WORD: with the stacks of two accesses on stdin, one frame a line and an empty line between them.
races() {
	local stacks
	stacks=$(sed -e 's/^/[    2.5]  /' -e 's/ *$//' -e 's/^\[    2.5\]$/[    2.5] \
[    2.5] read to 0xffff888003b52a40 of 8 bytes by task 7 on cpu 1:/')
	clean_result >"$dir/result"
	{
		clean_console | sed '$d'
		echo '[    2.5] =================================================================='
		echo '[    2.5] BUG: KCSAN: data-race in first / second'
		echo '[    2.5] '
		echo '[    2.5] write (marked) to 0xffff888003b52a40 of 8 bytes by task 6 on cpu 0:'
		printf '%s\n' "$stacks"
		echo '[    2.5] '
		echo '[    2.5] 1 lock held by sh/6:'
		echo '[    2.5]  #0: ffff888003b52a40 (&x){+.+.}-{3:3}, at: locked+0x1/0x2 [rust_ftrace]'
		echo '[    2.5] '
		echo '[    2.5] value changed: 0x00000000000001ff -> 0x0000000000000200'
		echo '[    2.5] '
		echo '[    2.5] Reported by Kernel Concurrency Sanitizer on:'
		echo '[    2.5] CPU: 1 UID: 0 PID: 7 Comm: sh Tainted: G           O        7.3.4 #1 PREEMPT'
		[[ ${cut_off:-} ]] || echo '[    2.5] =================================================================='
		[[ -z ${more:-} ]] || echo "$more"
		clean_console | tail -n 1
	} >"$dir/console"
	expect "$2" "$1" "$3"
}
kernel_only=$'first+0x1/0x2\nvfs_write+0x3/0x4\n\nsecond+0x1/0x2\nvfs_read+0x3/0x4'
our_frame='_RNvMs_NtCs1_11rust_ftrace6engine4push+0x1/0x2 [rust_ftrace]'
races "a data race of the kernel's own" pass "1 data-race in first / second" <<<"$kernel_only"
races "a data race of another module" pass "1 data-race in first / second" \
	<<<"${kernel_only//vfs_read+0x3\/0x4/cpuid_open+0x3/0x4 [cpuid]}"
races "a data race of ours" fail "data-race in first / second" <<<"${kernel_only/first+0x1\/0x2/$our_frame}"
races "the other access is ours" fail "data-race in first" <<<"${kernel_only/second+0x1\/0x2/$our_frame}"
races "of what we called" fail "data-race in first" <<<"${kernel_only/vfs_read+0x3\/0x4/$our_frame}"
races "in an interrupt of ours" pass "1 data-race" \
	<<<"${kernel_only/vfs_write+0x3\/0x4/asm_sysvec_apic_timer_interrupt+0x1a/0x20$'\n'$our_frame}"
races "the access after it is ours" fail "data-race in first" \
	<<<"${kernel_only/vfs_write+0x3\/0x4/asm_sysvec_apic_timer_interrupt+0x1a/0x20$'\n\n'$our_frame}"
more='[    2.6] WARNING: CPU: 0 PID: 1 at kernel/trace/ftrace.c:2000 x+0x1/0x2' \
	races "something else after it" fail WARNING <<<"$kernel_only"
cut_off=1 races "a data race's report that has no end" fail "data-race in first" <<<"$kernel_only"

# long: more lines than a pipe holds.
long() {
	seq -f '[    3.5] line %.0f of a long log' 10000
}

fresh
long >>"$dir/console"
expect pass "a long log"
fresh
expect pass "a clean run" "4 passed, 0 failed, 2 skipped"
expect pass "a test that is skipped, and why" $'skipped, how many and why:\n    1 no reason\n    1 not on this kernel\n4 passed'
sed -i 's/^ok 1 loads.*/& # SKIP not on this kernel/' "$dir/result"
expect pass "reasons are counted" $'    2 not on this kernel\n    1 no reason\n'
sed -i 's/^1\.\.0.*/1..0/' "$dir/result"
expect pass "none is given" '    1 no reason is given'
fresh
clean_result | awk '
	/^ok 1 traces/ { for (i = 1; i <= 30; i++) print "ok " i " # SKIP reason " i; next }
	{ sub(/^1\.\.1$/, "1..30"); print }' >"$dir/result"
expect pass "many reasons" $'    20 for 20 other reasons\n3 passed, 0 failed, 32 skipped'
clean_console | sed 's/$/\r/' >"$dir/console"
clean_result | sed 's/$/\r/' >"$dir/result"
expect pass "a clean run with the serial line's CRs" "4 passed, 0 failed, 2 skipped"

# (a name in a stack that is left out)
{
	clean_console
	echo '[    9.100000] FAULT_INJECTION: forcing a failure.'
	echo '[    9.100001]  _RNvXNtNtNtC_11rust_ftrace5files12dump_on_oopsNtB2_10DumpOnOopsNt9Attribute5store+0x18bd/0x1ed0'
	echo '[    9.100002]  </TASK>'
} >"$dir/console"
clean_result >"$dir/result"
expect pass "a function that is named after an oops" "4 passed, 0 failed, 2 skipped"
on_console "an oops" "Oops: 0002 [#1] SMP"
on_console "a bad access" "BUG: unable to handle page fault for address: ffffffff"
on_console "a BUG" "kernel BUG at rust/helpers/bug.c:7!"
on_console "a WARN" "WARNING: CPU: 0 PID: 1 at kernel/trace/ftrace.c:2000 x+0x1/0x2"
on_console "a WARN of lockdep" "WARNING: possible circular locking dependency detected"
on_console "a panic" "Kernel panic - not syncing: Fatal exception"
on_console "a Rust panic" "rust_kernel: panicked at ring.rs:7:5:"
on_console "a protection fault" "general protection fault, probably for non-canonical address"
on_console "an RCU stall" "rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:"
on_console "RCU misused" "WARNING: suspicious RCU usage"
on_console "a lock held" "WARNING: lock held when returning to user space!"
on_console "an inconsistent lock" "inconsistent lock state"
on_console "a wait in the wrong place" "[ BUG: Invalid wait context ]"
on_console "sleeping while atomic" "BUG: sleeping function called from invalid context at mm.c:1"
on_console "scheduling while atomic" "BUG: scheduling while atomic: sh/1/0x00000002"
on_console "KASAN" "BUG: KASAN: slab-use-after-free in f+0x1/0x2"
on_console "KCSAN" "BUG: KCSAN: data-race in f / g"
on_console "UBSAN" "UBSAN: array-index-out-of-bounds in f.c:1:2"
on_console "a leak" "kmemleak: 3 new suspected memory leaks (see /sys/kernel/debug/kmemleak)"
on_console "a hung task" "INFO: task sh:1 blocked for more than 60 seconds."
on_console "a soft lockup" "watchdog: BUG: soft lockup - CPU#0 stuck for 22s!"
on_console "a refcount" "refcount_t: underflow; use-after-free."
on_console "a debug object" "ODEBUG: free active (active state 0) object"
on_console "a corrupt list" "list_del corruption. next->prev should be 0"

clean_console | sed '$i [    0.6] kcsan: non-strict mode configured - use CONFIG_KCSAN_STRICT=y to see all data races' \
	>"$dir/console"
expect pass "what KCSAN says when it begins" "4 passed"
clean_console | sed '$i [    2.6] traps: syscalls[12] general protection fault ip:401702 sp:7ffe17cf0720 error:402 in syscalls[1702,401000+79000]' \
	>"$dir/console"
clean_result >"$dir/result"
expect pass "a program that did what it must not" "4 passed"

fresh
sed -i '/Power down/d' "$dir/console"
expect fail "no power-off" "did not power off"
clean_console | sed 's/Power down/Power off not available: System halted instead/' >"$dir/console"
expect fail "a halt" "did not power off"
clean_console | sed 's/Power down/Restarting system/' >"$dir/console"
expect pass "a kernel that cannot power off and restarts instead"
fresh
: >"$dir/console"
expect fail "an empty console" "did not power off"
fresh
: >"$dir/result"
expect fail "an empty result" "did not come to their end"

result_becomes "a failed test" "01-load.sh: 1 loads" 's/^ok 1 loads/not ok 1 loads/'
result_becomes "why a test failed" $': 1 traces\n    # a comment' 's/^ok 1 traces/not ok 1 traces/'
result_becomes "a test too few" "planned 2 tests, ran 1" '/^ok 1 loads/d'
result_becomes "a test too many" "planned 1 tests, ran 2" 's/^ok 1 traces/&\nok 2 more/'
result_becomes "no plan" "no plan" '/^1\.\.1/d'
result_becomes "a file that did not end" "began and did not end" '/^# end: 02/d'
result_becomes "the last file did not end" "did not come to their end" '/^# end: 03/,$d'
result_becomes "a file that failed after its tests" "exit code 7" 's/^\(# end: 02.*exit=\)0/\17/'
result_becomes "a file that hung" "02-trace.sh: 0 the file took longer than 120 s" \
	's/^1\.\.1$/not ok 0 the file took longer than 120 s/; s/^\(# end: 02.*exit=\)0/\1124/'
result_becomes "a splat that only dmesg has" "complained 2 times" 's/^\(# end: 02.*splats=\)0/\12/'
result_becomes "an end cut off" "did not come to their end" '/^# all done/d'

# --- stale-breakpoint: only for what it is for

# died OOPS CODE: in the second file.
died() {
	clean_console | sed '$d' >"$dir/console"
	cat >>"$dir/console" <<-EOF
		[    2.500000] $1
		[    2.500001] RIP: 0010:some_function+0x5/0x1b0
		[    2.500002] Code: 90 90 $2 00 00
		[    2.500003] Kernel panic - not syncing: Fatal exception in interrupt
	EOF
	clean_result | sed '/^ok 1 traces/,$d' >"$dir/result"
}
# stale NAME WANTED [RESULT]: what it says, nothing for an exit code of 1.
stale() {
	local got
	got=$("${judge%/*}/stale-breakpoint" "$dir/console" ${3-"$dir/result"}) || got=
	if [[ $got == "$2" ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf '%s\n' "FAIL: $1: wanted '$2', got '$got'"
	fi
}
int3='Oops: int3: 0000 [#1] SMP NOPTI'
died "$int3" '0f <1f> 44'
stale 'a breakpoint that is not there' '02-trace.sh 5'
long >>"$dir/console"
stale 'the same in a long log' '02-trace.sh 5'
sed -i '4i [    2.4] WARNING: before it' "$dir/console"
stale 'a complaint before it' ''
died "$int3" 'cc <1f> 44'
stale 'a breakpoint that is there' ''
died "$int3" '0f 1f 44'
stale 'no place is marked' ''
died 'Oops: general protection fault: 0000 [#1] SMP' '0f <1f> 44'
stale 'another oops' ''
# full OUTER INNER: died of a full stack, with two breakpoints in the trace.
full() {
	died 'BUG: TASK stack guard page was hit at ffffc9000031ffe8 (stack is ffffc90000320000..ffffc90000328000)' 'cc <1f> 44'
	sed -i '$d' "$dir/console"
	for code in "$1" "$2"; do
		cat >>"$dir/console" <<-EOF
			[    2.500003]  exc_int3+0x158/0x260
			[    2.500004]  asm_exc_int3+0x39/0x40
			[    2.500005] RIP: 0010:preempt_count_add+0x5/0x150
			[    2.500006] Code: 90 90 $code 00 00
			[    2.500007]  die+0x1f/0xc0
		EOF
	done
	echo '[    2.500008] ---[ end trace 0000000000000000 ]---' >>"$dir/console"
	echo '[    2.500009] Code: 90 cc <00> 00' >>"$dir/console"
}
full 'e8 <a7> d5' 'e8 <a7> d5'
stale 'a stack full of a breakpoint that is not there' '02-trace.sh 5'
long >>"$dir/console"
stale 'the same, and much behind its end' '02-trace.sh 5'
full 'e8 <a7> d5' 'cc <a7> d5'
stale 'a stack with a breakpoint that is there' ''
died 'BUG: TASK stack guard page was hit at ffffc9000031ffe8 (stack is ffffc90000320000..ffffc90000328000)' '0f <1f> 44'
stale 'a stack that is full of something else' ''
died "$int3" '0f <1f> 44'
echo '# end: 02-trace.sh exit=0 splats=0 seconds=7' >>"$dir/result"
stale 'between two files' ''
stale 'in a guest that runs no files' '5' ''
died "$int3" 'cc <1f> 44'
stale 'a breakpoint that is there, in such a guest' '' ''
fresh
stale 'no oops' ''

echo "$passed passed, $failed failed"
((failed == 0))
