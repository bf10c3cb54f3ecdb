# SPDX-License-Identifier: GPL-2.0
# The kernel's own tests of ftrace, on ours: each case in the folders $CASES ends as clients/selftests.expected says.
. /tests/lib/clients.sh

if [ ! -x /selftests/ftracetest ]; then
	echo '1..0 # SKIP the kernel came without the source of its tests'
	exit 0
fi
reload

# They look for a task with `grep $PID`, which finds a short number in times and addresses, too: task IDs have seven
# digits, which no second and no microsecond has.
pid_max=$(cat /proc/sys/kernel/pid_max)
echo 4194304 >/proc/sys/kernel/pid_max
echo 1000000 >/proc/sys/kernel/ns_last_pid

# run_case CASE: "VERDICT CASE[ instance]" of each of its runs in /tmp/verdicts; the log is kept if it is no PASS.
run_case() {
	local code=0
	rm -rf /tmp/selftests
	mkdir /tmp/selftests
	PATH=/clients/bin:$PATH timeout 300 rftrace exec dash /selftests/ftracetest -l /tmp/selftests \
		"/selftests/test.d/$1" >/tmp/selftests.out 2>&1 </dev/null || code=$?
	sed -nE "s|^\[[0-9]+\] \(instance\) .*\[([A-Z]+)\]$|\1 $1 instance|p; s|^\[[0-9]+\].*\[([A-Z]+)\]$|\1 $1|p" \
		/tmp/selftests/ftracetest.log >/tmp/verdicts
	# (one that says nothing, or hangs)
	[ -s /tmp/verdicts ] || echo "NOTHING(exit $code) $1" >/tmp/verdicts
}

ends_as_expected() {
	set +x
	run_case "$case"
	# (a case without an instance may have one later)
	grep -E "^[A-Z]+ $case( instance)?$" /tests/clients/selftests.expected >/tmp/expected
	if ! diff /tmp/expected /tmp/verdicts; then
		grep -l . /tmp/selftests/*-log.* 2>/dev/null | while read -r log; do
			grep -vE "events/.*(trigger|filter)|No such file" "$log" | tail -n 12
		done
		return 1
	fi
}

for folder in $CASES; do
	for case in $(sed -n "s|^[A-Z]* \($folder/[^ ]*\).*|\1|p" /tests/clients/selftests.expected | uniq); do
		t "$case" ends_as_expected
	done
done
echo "$pid_max" >/proc/sys/kernel/pid_max
finish
