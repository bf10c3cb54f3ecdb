#!/bin/bash
# Does scripts/stress find less that fails, too, and say what it was asked for? The guests are made up.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/host/verdict.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
unset KERNEL KDIR SUITE MINUTES ONLY WITHOUT BISECT

mkdir -p "$dir/scripts/internal" "$dir/cache"
cp -r "$top/qemu" "$dir/"
cp "$top/scripts/stress" "$dir/scripts/"
cp "$top/scripts/internal/lib.sh" "$dir/scripts/internal/"
stub() {
	printf '#!/bin/bash\n%s\n' "$2" >"$dir/$1"
	chmod +x "$dir/$1"
}
stub stress "printf '%s\n' a b c d"
stub scripts/internal/stress-program "echo '$dir/stress'"
stub scripts/build :
stub scripts/tool :
stub scripts/kernel 'echo 7.2.12'
# The guest: fails if it works for 50 s at least, with all kinds of operations that $dir/guilty names.
stub qemu/run-guest '
dir=$(cd "$(dirname "$0")/.." && pwd)
for word in $CMDLINE; do declare "${word%%=*}=${word#*=}"; done
echo "$seconds $only" >>"$dir/runs"
bad=not
((seconds >= 50)) || bad=
for kind in $(cat "$dir/guilty"); do [[ ,$only, == *,$kind,* ]] || bad=; done
echo "[    3.000000] reboot: Power down" >"$GUEST_LOGS/console.log"
tee "$GUEST_LOGS/result.log" <<-END
	# file: stress.sh
	# seed $seed, $seconds s
	# d: left out: there is none
	# a: 7 operations in 1 s: done 7
	${bad:+not }ok 1 every task ends
	1..1
	# end: stress.sh exit=0 splats=0 seconds=7
	# all done
END
[[ -z $bad ]]'

# stress GUILTY [VARIABLE=VALUE...]: sets out to what it says, code, and runs to how many guests there were.
stress() {
	printf '%s\n' "$1" >"$dir/guilty"
	shift
	rm -f "$dir/runs"
	code=0
	out=$(env RUST_FTRACE_CACHE="$dir/cache" NMI=0 SEED=7 "$@" timeout 120 "$dir/scripts/stress" 2>&1) || code=$?
	runs=$(wc -l <"$dir/runs")
}
last() {
	tail -n 1 <<<"$out"
}

stress none LENGTH=120
verdict 'all is right' "$code $runs" '0 1'
verdict 'it asks for all kinds' "$(cat "$dir/runs")" '120 a,b,c,d'
verdict 'it says what was left out' "$(grep -c 'd: left out: there is none' <<<"$out")" 1
verdict 'and what was done' "$(grep -c 'a: 7 operations' <<<"$out")" 1

stress 'b d' LENGTH=120
verdict 'less that fails' "$code $(last)" \
	'1 rust_ftrace: it fails, too, by: make stress KERNEL=stock SEED=7 LENGTH=60 ONLY=b,d'
verdict 'the first failure is said' "$(grep -c 'FAIL: stress.sh: 1 every task ends' <<<"$out")" 2

stress 'a b c d' LENGTH=60
verdict 'nothing less fails' "$code $(last)" \
	'1 rust_ftrace: it fails, too, by: make stress KERNEL=stock SEED=7 LENGTH=60 ONLY=a,b,c,d'

stress b LENGTH=120 BISECT=0
verdict 'nothing less is asked for' "$code $runs" '1 1'

stress b LENGTH=120 ONLY=b,c,d WITHOUT=c BISECT=0
verdict 'some kinds' "$(cat "$dir/runs")" '120 b,d'

# When NMIs come follows from the seed.
nmi_times() {
	(
		sleep() {
			echo "$1" >&3
			((++times < 20)) || exit 0
		}
		eval "$(sed -n '/^nmis() {/,/^}/p' "$top/scripts/stress")"
		times=0 SEED=$1
		: >"$dir/pipe.begun"
		nmis "$dir/pipe" 3>&1
	)
}
verdict 'the same seed, the same NMIs' "$(nmi_times 7)" "$(nmi_times 7)"
verdict 'another seed, others' "$([[ $(nmi_times 7) != "$(nmi_times 8)" ]] && echo others)" others

echo "$passed passed, $failed failed"
((failed == 0))
