# shellcheck shell=bash # sourced
# Counting what passed and failed, for scripts that run several things. After lib.sh.

passed=0 failed=0 skipped=0
# What failed, to be said again at the end: one may have been told of hours of output before.
wrongs=''

# Sets cpu to the seconds of CPU that what was waited for has taken.
cpu_taken() {
	local stat
	read -r stat <"/proc/$BASHPID/stat"
	read -ra stat <<<"${stat##*) }"
	cpu=$(((stat[13] + stat[14]) / $(getconf CLK_TCK)))
}

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
		wrongs+="FAIL: $name"$'\n'
	fi
}

# failures FILE: what it says that failed, each with what is indented below it. The last list of these has all
# that was said before it. "not ok" is all that some have to say.
failures() {
	awk '
		/^--- what failed$/ { all = ""; next }
		/^FAIL: / { all = all $0 "\n"; below = 1; next }
		below && /^    [^(]/ { all = all $0 "\n"; next }
		{ below = 0 }
		/^not ok / { others = others "FAIL: " $0 "\n" }
		END { printf "%s", all == "" ? others : all }' "$1"
}

# summed NAME CMD...: CMD ends with a line "N passed, N failed[, N skipped]"; that is added.
summed() {
	local name=$1 out rc=0 p f s start=${since:-$SECONDS} new cpu before=${since_cpu:-}
	shift
	cpu_taken
	: "${before:=$cpu}"
	printf '%s\n' "--- $name"
	out=$(mktemp)
	"$@" </dev/null | tee "$out" || rc=1
	read -r p f s <<<"$(sed -nE '$s/^([0-9]+) passed, ([0-9]+) failed(, ([0-9]+) skipped)?$/\1 \2 \4/p' "$out")"
	new=$(failures "$out")
	if [[ -z ${f:-} ]]; then
		# It did not come as far as its last line.
		p=0 f=1
		new+="${new:+$'\n'}FAIL: $name did not come to its end"
		printf '%s\n' "${new##*$'\n'}"
		new+=$'\n'$(tail -n 15 "$out" | sed 's/^/    /')
	elif ((rc && f == 0)); then
		f=1
		new+="${new:+$'\n'}FAIL: $name: ended with an error"
		printf '%s\n' "${new##*$'\n'}"
	fi
	rm -f "$out"
	[[ -z $new ]] || wrongs+=$new$'\n'
	passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + ${s:-0}))
	cpu_taken
	echo "    ($name: $((SECONDS - start)) s, $((cpu - before)) s of CPU)"
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
	local cpu
	cpu_taken
	beside_rc=0
	wait "$beside_pid" || beside_rc=$?
	beside_pid=''
	since=$beside_start since_cpu=$cpu summed "$beside_name" beside_said
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

# What failed, the last line, and the exit code.
total() {
	if ((failed)); then
		echo "--- what failed"
		printf '%s' "$wrongs"
	fi
	if ((skipped)); then
		echo "$passed passed, $failed failed, $skipped skipped"
	else
		echo "$passed passed, $failed failed"
	fi
	((failed == 0))
}
