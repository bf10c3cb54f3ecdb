#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Everything that the module asks for fails once: each call fails cleanly and changes nothing, or does without. What
# still deviates is listed in faults.expected.
. /tests/lib/ktap.sh

# (CMDLINE="faults=all" leaves nothing out, and takes hours; faults_by=own|task|kthread looks at one kind of fault alone,
# faults_only=PART,... (+ for a blank) and faults_scenes=NAME,... at some; faults_parts=N faults_part=K does the K-th of
# so many parts, from 0; faults_verbose=1 tells of each fault. Without that one operation in so many is done, always the
# same.)
some=--some
share=16
[ "$SLOWER" -eq 1 ] || share=48
if [ "${faults:-some}" = all ]; then
	some=''
	share=${faults_parts:-1}
fi

# fail BY [SCENES]: faults of that kind.
fail() {
	local by=$1 scenes=${faults_scenes:-$2} code=0
	unload
	# (what a grace period takes is not what is looked at)
	echo 1 >/sys/kernel/rcu_expedited
	stress faults --by "$by" ${scenes:+--scenes "$scenes"} ${faults_only:+--only "$(echo "$faults_only" | tr + " ")"} $some \
		${faults_verbose:+--verbose} \
		--one-in $share --part ${faults_part:-0} --expected /tests/core/faults.expected >/tmp/faults 2>&1 || code=$?
	echo 0 >/sys/kernel/rcu_expedited
	grep '^#' /tmp/faults >/tmp/figures || :
	# (what deviates comes last)
	grep -v '^# .* ms$' /tmp/faults || :
	is 'hooked' "$(grep -c . $T/enabled_functions)" 0
	return $code
}

own() { fail own; }
# (while the module is loaded, too, if nothing is left out)
in_calls() { fail task ${some:+graph}; }
in_work() { fail kthread; }

after_all() {
	load
	echo "$PARENT" >$R/filter
	calls getppid 1000
	[ "$(status hits)" -ge 1000 ]
	echo 0 >$R/tracing_on
	accounts_agree
	unload
}
# faults_are BY NAME FUNCTION: the test of one kind, which faults_by= may leave out.
faults_are() {
	if [ "${faults_by:-$1}" = "$1" ]; then
		t "$2" "$3"
		figures
	else
		skip "$2" "faults_by=$faults_by"
	fi
}
figures() {
	if [ "${faults_verbose:-}" ]; then
		sed 's/^/# /' /tmp/faults
	else
		grep -E '^# ([a-z]+: (.* faults, |not done)|[0-9]+ operations)' /tmp/figures || :
	fi
	rm -f /tmp/figures
}

if ! [ -x /usr/bin/stress ] || ! [ -e /rust_ftrace_faults.ko ]; then
	echo '1..0 # SKIP no module that fails on purpose (it is not built for KDIR=)'
	exit 0
fi
unload
if [ "$SLOWER" -eq 1 ] || [ -z "$some" ]; then
	faults_are own 'per-CPU memory, buffers and registrations fail, while the module is loaded and in each call' own
else
	skip 'per-CPU memory, buffers and registrations fail' 'takes minutes on a debug kernel (faults=all)'
fi
if [ -e /proc/self/fail-nth ] && [ -e /sys/kernel/debug/failslab ]; then
	faults_are task 'memory fails in each call' in_calls
	if [ -z "$some" ]; then
		faults_are kthread 'memory fails in threads that work for a call' in_work
	else
		skip 'memory fails in threads that work for a call' 'takes minutes (faults=all)'
	fi
else
	for name in ' in each call' ' in threads that work for a call'; do
		skip "memory fails$name" 'no fault injection in this kernel (CONFIG_FAILSLAB)'
	done
fi
t 'the module works after all that' after_all
finish
