#!/bin/bash
# Does qemu/run-tests go on in another guest after QEMU's fault, and only then? The guests are made up.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
# (all of these guests are looked at, whichever of the others are)
unset T TURN SECOND_GUEST BEGIN_UNTIL CMDLINE
passed=0 failed=0

mkdir -p "$dir/scripts/internal" "$dir/tests/guest"
cp -r "$top/qemu" "$dir/"
cp "$top/scripts/internal/lib.sh" "$dir/scripts/internal/"
mkdir "$dir"/tests/guest/{a,b}
for file in b/first a/second b/third; do
	: >"$dir/tests/guest/$file.sh"
	echo "$file.sh" >>"$dir/tests/guest/order"
done
printf '#!/bin/sh\necho 7.2.12\n' >"$dir/scripts/kernel"
# The guest: in its first runs, as many as $dir/deaths says, it dies in a/second.sh, of what $dir/code shows.
cat >"$dir/qemu/run-guest" <<'EOF'
#!/bin/bash
dir=$(cd "$(dirname "$0")/.." && pwd)
shift
echo "$*" >>"$dir/runs"
echo "${CMDLINE:-}" >"$dir/cmdline"
left=$(cat "$dir/deaths")
echo $((left - 1)) >"$dir/deaths"
{
	echo '[    0.000000] Linux version 7.2.12'
	[[ $left -le 0 ]] || {
		echo '[    2.500000] Oops: int3: 0000 [#1] SMP NOPTI'
		echo "[    2.500002] Code: 90 90 $(cat "$dir/code") 00 00"
	}
	[[ $left -gt 0 ]] || echo '[    3.000000] reboot: Power down'
} >"$GUEST_LOGS/console.log"
{
	echo 'KTAP version 1'
	for file; do
		not=''
		[[ ! -e $dir/fails || $file != b/first.sh ]] || not='not '
		printf '%s\n' "# file: $file" "${not}ok 1 of $file"
		[[ $left -le 0 || $file != a/second.sh ]] || exit
		printf '%s\n' '1..1' "# end: $file exit=0 splats=0 seconds=1"
	done
	echo '# all done'
} >"$GUEST_LOGS/result.log"
[[ $left -le 0 ]]
EOF
chmod +x "$dir/qemu/run-guest" "$dir/scripts/kernel"

# expect NAME DEATHS CODE WANTED RUNS: the last line, and how many guests were run
expect() {
	local out last
	echo "$2" >"$dir/deaths"
	echo "$3" >"$dir/code"
	rm -f "$dir/runs"
	out=$(RUST_FTRACE_CACHE=$dir/cache timeout 60 "$dir/qemu/run-tests" 2>&1) || :
	last=$(tail -n 1 <<<"$out")
	if [[ $last == "$4" && $(wc -l <"$dir/runs") -eq $5 ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf '%s\n' "FAIL: $1: wanted '$4' of $5 guests, got:" "$out" "$(cat "$dir/runs")"
	fi
}
# (each guest also counts for its console, and for its end)
expect 'nothing happens' 0 '' '5 passed, 0 failed, 0 skipped' 1
expect 'a breakpoint that is not there' 1 '0f <1f> 44' '7 passed, 0 failed, 0 skipped' 2
if [[ $(sed -n 2p "$dir/runs") == *b/first.sh* ]]; then
	failed=$((failed + 1))
	echo "FAIL: what had passed was run again"
fi
expect 'twice' 2 '0f <1f> 44' '9 passed, 0 failed, 0 skipped' 3
touch "$dir/fails"
expect 'with a failure before it' 1 '0f <1f> 44' '6 passed, 1 failed, 0 skipped' 2
rm "$dir/fails"
expect 'a breakpoint that is there' 1 'cc <1f> 44' '2 passed, 4 failed, 0 skipped' 1
# A file for fast kernels alone, unless it is asked for.
echo 'b/fast.sh fast' >>"$dir/tests/guest/order"
: >"$dir/tests/guest/b/fast.sh"
expect 'on a fast kernel' 0 '' '6 passed, 0 failed, 0 skipped' 1
KERNEL=debug expect 'on a slow kernel' 0 '' '5 passed, 0 failed, 1 skipped' 1
T=fast KERNEL=debug expect 'on a slow kernel, when asked for' 0 '' '3 passed, 0 failed, 0 skipped' 1
# Of those that take turns, one in three; all on a fast kernel, or if no turn is said.
for file in one two three four; do
	echo "b/$file.sh turns" >>"$dir/tests/guest/order"
	: >"$dir/tests/guest/b/$file.sh"
done
TURN=0/3 expect 'turns on a fast kernel' 0 '' '10 passed, 0 failed, 0 skipped' 1
KERNEL=debug expect 'no turn' 0 '' '9 passed, 0 failed, 1 skipped' 1
TURN=0/3 KERNEL=debug expect 'the first turn' 0 '' '7 passed, 0 failed, 3 skipped' 1
TURN=1/3 KERNEL=debug expect 'the second turn' 0 '' '6 passed, 0 failed, 4 skipped' 1
if [[ $(cat "$dir/runs") != *b/third.sh\ b/two.sh ]]; then
	failed=$((failed + 1))
	echo "FAIL: the second turn is of others: $(cat "$dir/runs")"
fi

# A turn that is none is refused, and no guest is run.
rm -f "$dir/runs"
for turn in 3/3 2 first; do
	if TURN=$turn KERNEL=debug RUST_FTRACE_CACHE=$dir/cache "$dir/qemu/run-tests" >/dev/null 2>&1 || [[ -e $dir/runs ]]; then
		failed=$((failed + 1))
		echo "FAIL: TURN=$turn is not refused"
	else
		passed=$((passed + 1))
	fi
done

# A second guest for what takes the command, once it may.
echo "b/tool.sh rftrace" >>"$dir/tests/guest/order"
: >"$dir/tests/guest/b/tool.sh"
expect 'one guest' 0 '' '11 passed, 0 failed, 0 skipped' 1
rm "$dir/runs"
: >"$dir/busy"
(
	exec {lock}<"$dir/busy"
	flock "$lock"
	touch "$dir/locked"
	until [[ -s $dir/runs ]]; do sleep 0.1; done
) &
until [[ -e $dir/locked ]]; do sleep 0.1; done
SECOND_GUEST=$dir/busy expect 'two guests' 0 '' '13 passed, 0 failed, 0 skipped' 2
if [[ $(tail -n 1 "$dir/runs") != b/tool.sh ]]; then
	failed=$((failed + 1))
	echo "FAIL: the second guest did not wait: $(cat "$dir/runs")"
fi
wait
exec {lock}<"$dir/busy"
flock "$lock"
SECOND_GUEST=$dir/busy expect 'two guests, and a place that is not had' 0 '' '13 passed, 0 failed, 0 skipped' 2

# The guest knows until when files begin; once that is over, none is run.
CMDLINE=file_limit=1 BEGIN_UNTIL=$(($(date +%s) + 1000)) expect 'in time' 0 '' '11 passed, 0 failed, 0 skipped' 1
if [[ ! $(cat "$dir/cmdline") =~ ^file_limit=1\ begin_until=(99[0-9]|1000)$ ]]; then
	failed=$((failed + 1))
	echo "FAIL: the guest was told: $(cat "$dir/cmdline")"
fi
echo 'b/death.sh dies' >>"$dir/tests/guest/order"
: >"$dir/tests/guest/b/death.sh"
rm "$dir/runs"
last=$(BEGIN_UNTIL=1 RUST_FTRACE_CACHE=$dir/cache "$dir/qemu/run-tests" 2>/dev/null | tail -n 1) || :
if [[ $last == '0 passed, 0 failed, 10 skipped' && ! -e $dir/runs ]]; then
	passed=$((passed + 1))
else
	failed=$((failed + 1))
	echo "FAIL: too late: $last"
fi

echo "$passed passed, $failed failed"
((failed == 0))
