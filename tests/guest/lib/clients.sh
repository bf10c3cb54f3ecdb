# SPDX-License-Identifier: GPL-2.0
# What the tests of other people's programs share; they begin with ". /tests/lib/clients.sh".
. /tests/lib/ktap.sh

# A debug kernel takes minutes for each of them. What has others on the functions of ours meets its checkers; the rest
# compares texts, and runs there if T= names it.
case $0 in
*/bpftrace.sh) ;;
*) [ -n "$ASKED" ] || only_texts ;;
esac
if [ ! -x /clients/bin/trace-cmd ]; then
	echo '1..0 # SKIP there are no programs in this guest'
	exit 0
fi
# Where perf-tools have their lock.
mkdir -p /var/tmp
# The suite's perf, where that has one newer than Debian's release.
NEWER=/clients/backports/bin/perf

# with_their_tools COMMAND...: a program of Debian's, and what it calls.
with_their_tools() {
	PATH=/clients/bin:$PATH timeout -k 5 "$((60 * SLOWER))" "$@"
}

# stock COMMAND...: /tmp/stock.out and /tmp/stock.err of it, with the kernel's tracer.
stock() {
	stock_off
	with_their_tools "$@" >/tmp/stock.out 2>/tmp/stock.err
}

# ours COMMAND...: /tmp/our.out and /tmp/our.err of the same with ours. The kernel's stays unused.
ours() {
	local code=0
	stock_off
	with_their_tools rftrace exec "$@" >/tmp/our.out 2>/tmp/our.err || code=$?
	is 'events of the kernel'\''s tracer' "$(cat $T/per_cpu/cpu*/stats |
		awk '/^(entries|overrun|read events):/ { sum += $NF } END { print sum + 0 }')" 0
	return $code
}

# both COMMAND...: both of it; neither fails, or its exit code is returned.
both() {
	local code=0
	stock "$@" || code=$?
	[ $code -eq 0 ] || { cat /tmp/stock.err; echo "the kernel's tracer: exit code $code"; return $code; }
	ours "$@" || code=$?
	[ $code -eq 0 ] || { cat /tmp/our.err; echo "ours: exit code $code"; return $code; }
}

# same WHAT COMMAND...: of both outputs it makes the same.
same() {
	local what=$1 which
	shift
	for which in stock our; do "$@" </tmp/$which.out >/tmp/$which.$what; done
	if ! cmp -s /tmp/stock.$what /tmp/our.$what; then
		echo "$what differ: with the kernel's tracer"
		diff -U 3 /tmp/stock.$what /tmp/our.$what | head -n 40
		return 1
	fi
	# (two that say nothing agree too easily)
	[ -s /tmp/our.$what ] || { echo "$what: nothing"; cat /tmp/our.err; return 1; }
}

# listed <TEXT: of a list of functions those that are in both.
listed() {
	grep -vxE "$BEFORE_IDT" | sort
}

# called <TEXT: the function events of the program calls (stream does not know its name), without all that differs
# from run to run.
called() {
	sed -nE 's/^ *(calls|<\.\.\.>)-[0-9]+ .*: (function: +)?([^ ]+.*)$/\3/p'
}

# nesting <TEXT: of all calls that are shown as a graph the depth, the function, and whether there is a duration.
nesting() {
	awk '!/^#/ && /[|].*[({}]/ {
		timed = /[0-9] us +[|]/ ? "timed" : "open"
		sub(/^.*[|]  /, "")
		match($0, /^ */)
		sub(/;.*$/, ";")
		print timed, RLENGTH / 2, $1, $2
	}' | sed 's/ *$//'
}

# headers <TEXT: the lines that say what is shown.
headers() {
	sed -n '/^#/p'
}

# How often they do what is traced.
CALLS=20
YIELD=$(sys sched_yield)
# Of what is called in getppid, to be shown below it.
BELOW=$(pick __task_pid_nr_ns __rcu_read_lock)
# Arming few functions takes less time than all.
GRAPH="-p function_graph -g $PARENT -l $PARENT -l $BELOW"

# (of a file of tests that was ended)
umount /proc/kallsyms 2>/dev/null || :
# little_kallsyms: trace-cmd record copies that, all 10 MB of it. Where that is not what is tested, it finds
# less there.
little_kallsyms() {
	grep -E " ($PARENT|$YIELD|$BELOW|[a-z0-9_]*sys_umask|do_syscall_64)(	.*)?$" /proc/kallsyms >/tmp/kallsyms
	mount --bind /tmp/kallsyms /proc/kallsyms
}
