#!/bin/busybox sh
# What a traced call costs, ours against the kernel's function tracer, in one boot. Run by
# scripts/bench where a ns of the guest is an instruction.
ours=/sys/kernel/debug/rftrace
stock=/sys/kernel/tracing
calls=20000

# The cost of one getppid call now, in hundredths of an instruction.
cost() {
	echo $(($(getppid $calls) * 100 / calls))
}
# row NAME: prints what a call costs more than without any tracer
row() {
	extra=$(($(cost) - base))
	printf '%-46s %5d.%02d\n' "$1" $((extra / 100)) $((extra % 100))
}

# Booting goes on for a while, and costs.
base=0 steady=0
while [ $steady -lt 4 ]; do
	before=$base base=$(cost)
	if [ $((base * 100)) -gt $((before * 99)) ] && [ $((base * 99)) -lt $((before * 100)) ]; then
		steady=$((steady + 1))
	else
		steady=0
	fi
done
insmod /rust_ftrace.ko || exit 1
echo "instructions per call of __do_sys_getppid, beyond $((base / 100)) without a tracer:"
row "loaded, nothing traced"
echo __do_sys_getppid >$ours/filter
row "rust_ftrace"
echo 0 >$ours/tracing_on
row "rust_ftrace, tracing_on 0"
echo 1 >$ours/tracing_on
echo >$ours/filter
echo __do_sys_getppid >$stock/set_ftrace_filter
echo function >$stock/current_tracer
row "ftrace function"
echo nop >$stock/current_tracer
echo >$stock/set_ftrace_filter
row "nothing traced again"
echo "all functions traced, per call (7 functions):"
echo function >$ours/current_tracer
row "rust_ftrace"
echo nop >$ours/current_tracer
echo function >$stock/current_tracer
row "ftrace function"
echo nop >$stock/current_tracer

echo "bytes per event:"
echo __do_sys_getppid >$ours/filter
echo >$ours/trace
getppid $calls >/dev/null
events=$(sed -n 's/^events present: //p' $ours/status)
kb=$(cat $ours/buffer_size_kb)
echo >$ours/filter
printf '%-46s %5d.%02d\n' "rust_ftrace, a full buffer of $kb KiB" $((kb * 1024 / events)) $((kb * 102400 / events % 100))
