#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# bpftrace and perf on the function that ours is on: all see every call, also when ours comes and goes meanwhile.
. /tests/lib/clients.sh

reload

# Ours is there, comes and goes, is unloaded and loaded again: 20 calls each time.
cat >/tmp/work <<'END'
set -e
. /tests/lib/ktap.sh
trap '' EXIT
# (an event's line: in a graph it has the task where that was asked for)
ours_sees() {
	calls getppid 20
	cat $R/trace >/tmp/our.trace
	echo >$R/trace
	is 'calls of ours' "$(grep -E "calls-[0-9]+ " /tmp/our.trace | grep -cE " $PARENT( <-|\(\))")" "$1"
}
for tracer in function function_graph; do
	echo $PARENT >$R/filter
	echo $tracer >$R/current_tracer
	echo 1 >$R/options/funcgraph-proc
	ours_sees 20
	echo nop >$R/current_tracer
	ours_sees 0
	echo $tracer >$R/current_tracer
	ours_sees 20
	rmmod rust_ftrace
	calls getppid 20
	insmod /rust_ftrace.ko
done
echo all seen
END
ALL=160

bpftrace_counts() {
	echo "$PARENT" >$R/filter
	timeout 300 bpftrace -c 'sh /tmp/work' -e "$probe:$PARENT /comm == \"calls\"/ { @calls = count(); }" >/tmp/out 2>/tmp/err ||
		{ cat /tmp/err /tmp/out; return 1; }
	cat /tmp/out /tmp/err
	grep -qx 'all seen' /tmp/out
	grep -qx "@calls: $ALL" /tmp/out
}

# Its link is an fprobe, as ours are. It counts the returns of a function that two of our instances have with all the words
# of a call, one of which comes and goes: function_graph of both, and a profile with contexts.
cat >/tmp/returns <<END
set -e
. /tests/lib/ktap.sh
trap '' EXIT
grep "^$PARENT " $T/enabled_functions >/tmp/hooked
cat /sys/kernel/debug/kprobes/list >/tmp/kprobes
for cpu in 0 1; do counting /tmp/made\$cpu calls getppid 0 \$cpu; done
for round in 1 2 3 4; do
	echo nop >$R/instances/second/current_tracer
	echo function_graph >$R/instances/second/current_tracer
done
end_background
echo all seen
END
bpftrace_counts_returns() {
	local name made
	mkdir $R/instances/second
	for name in $R $R/instances/second; do
		echo "$PARENT" >$name/filter
		echo 1 >$name/options/funcgraph-retval
		echo 1 >$name/options/funcgraph-args
		echo function_graph >$name/current_tracer
	done
	echo 1 >$R/options/profile-contexts
	echo 1 >$R/function_profile_enabled
	timeout 300 bpftrace -c 'sh /tmp/returns' -e "kretprobe:${PARENT%?}* /comm == \"calls\"/ { @calls = count(); }" \
		>/tmp/out 2>/tmp/err || { cat /tmp/err /tmp/out; return 1; }
	cat /tmp/out /tmp/err /tmp/hooked /tmp/kprobes
	grep -qx 'all seen' /tmp/out
	made=$(awk '{ sum += $1 } END { print sum }' /tmp/made0 /tmp/made1)
	[ "$made" -ge 10000 ]
	grep -qx "@calls: $made" /tmp/out
	# (it was there, and no kprobe)
	fails grep "$PARENT" /tmp/kprobes
	is 'missed' "$(status 'missed returns')" 0
	is 'missed by the profile' "$(status 'profile missed')" 0
	[ "$(status hits)" -ge "$made" ]
	rmdir $R/instances/second
	echo 0 >$R/function_profile_enabled
}
perf_counts() {
	local event=kprobes:their_kprobe code=0
	echo "p:their_kprobe $PARENT" >>$T/kprobe_events
	with_their_tools "$perf" stat -x , -e $event -- sh /tmp/work >/tmp/out 2>/tmp/err || code=$?
	echo '-:their_kprobe' >>$T/kprobe_events
	cat /tmp/out /tmp/err
	is 'exit code' $code 0
	grep -qx 'all seen' /tmp/out
	# (shells call it too)
	[ "$(sed -n "s/^\([0-9]*\),,$event,.*/\1/p" /tmp/err)" -ge $ALL ]
}

if [ ! -e /proc/self/net/dev ]; then
	skip 'bpftrace' 'it asks what BPF can by filters of sockets, and the kernel has no network'
elif command -v bpftrace >/dev/null; then
	for probe in kprobe fentry; do
		# (clang tells debuggers nothing of system calls without arguments)
		if [ $probe = fentry ] && rftrace list --proto "$PARENT" | grep -qF '[no prototype in BTF]'; then
			skip "bpftrace $probe" "types of the kernel do not have $PARENT"
		else
			t "bpftrace $probe" bpftrace_counts
		fi
	done
	t 'bpftrace kretprobe of many' bpftrace_counts_returns
else
	skip 'bpftrace' 'it is not in this guest'
fi
for perf in perf $NEWER; do
	[ "$perf" = perf ] || [ -x "$perf" ] || continue
	t "$(with_their_tools "$perf" --version): stat of a kprobe" perf_counts
done
finish
