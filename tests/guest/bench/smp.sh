#!/bin/busybox sh
# SPDX-License-Identifier: GPL-2.0
# Usage: smp.sh CPUS
# What a call of getppid takes on so many CPUs at once, in ns of the machine's time: without a tracer, and
# how much more with ours and with the kernel's. Run by scripts/bench.
R=/sys/kernel/debug/rftrace
T=/sys/kernel/tracing
F=__do_sys_getppid

cost() { echo $(($(bench cpus "$1" 2000 60) / 100)); }

insmod /rust_ftrace.ko || exit 1
# (the first is for warming up)
cost "$1" >/dev/null
base=$(cost "$1")
echo $F >$R/filter
ours=$(($(cost "$1") - base))
echo nop >$R/current_tracer
echo >$R/filter
echo $F >$T/set_ftrace_filter
echo function >$T/current_tracer
peer=$(($(cost "$1") - base))
echo nop >$T/current_tracer
printf '%d CPUs: %5d without a tracer, rust_ftrace %5d more, ftrace function %5d more\n' "$1" $base $ours $peer
