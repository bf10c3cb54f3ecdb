# shellcheck shell=bash # sourced
# Counting what passed and failed, for scripts that run several things. After lib.sh.

passed=0 failed=0 skipped=0

# counted NAME CMD...: CMD passes or fails as one.
counted() {
	local name=$1
	shift
	printf '%s\n' "--- $name"
	if "$@" </dev/null; then
		passed=$((passed + 1))
		printf '%s\n' "ok: $name"
	else
		failed=$((failed + 1))
		printf '%s\n' "FAIL: $name"
	fi
}

# summed NAME CMD...: CMD ends with a line "N passed, N failed[, N skipped]"; that is added.
summed() {
	local name=$1 out rc=0 p f s start=$SECONDS
	shift
	printf '%s\n' "--- $name"
	out=$(mktemp)
	"$@" </dev/null | tee "$out" || rc=1
	read -r p f s <<<"$(sed -nE '$s/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 \4/p' "$out")"
	rm -f "$out"
	if [[ -z ${f:-} ]]; then
		# It did not come as far as its last line.
		p=0 f=1
		printf '%s\n' "FAIL: $name"
	elif ((rc && f == 0)); then
		f=1
		printf '%s\n' "FAIL: $name: ended with an error"
	fi
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + ${s:-0}))
	echo "    ($name: $((SECONDS - start)) s)"
}

# beside NAME CMD...: as summed, but CMD begins now, as a process group of its own, and counts when it is joined:
# one at a time.
beside_pid='' beside_log=''
beside() {
	beside_name=$1 beside_start=$SECONDS
	shift
	beside_log=$(mktemp)
	say "$beside_name begins, too; what it says comes at the end (now in $beside_log)"
	set -m
	"$@" >"$beside_log" 2>&1 </dev/null &
	beside_pid=$!
	set +m
}
joined() {
	say "waiting for $beside_name: $beside_log"
	beside_rc=0
	wait "$beside_pid" || beside_rc=$?
	beside_pid=''
	summed "$beside_name" beside_said
	echo "    ($beside_name, beside other things: $((SECONDS - beside_start)) s)"
	rm -f "$beside_log"
}
beside_said() {
	cat "$beside_log"
	return "$beside_rc"
}
# For a trap on EXIT.
end_beside() {
	[[ -z $beside_pid ]] || kill -- "-$beside_pid" 2>/dev/null || true
	rm -f "$beside_log"
}

# The last line, and the exit code.
total() {
	if ((skipped)); then
		echo "$passed passed, $failed failed, $skipped skipped"
	else
		echo "$passed passed, $failed failed"
	fi
	((failed == 0))
}
