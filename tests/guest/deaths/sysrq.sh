#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# The machine ends by sysrq: the traces of all CPUs are on the console, of instances too, in the lines of trace.
. /tests/lib/ktap.sh
reload
. /tests/lib/dies.sh
insmod /lib/modules/dies_by.ko || exit 1

mkdir $R/instances/one $R/instances/other $R/instances/silent
echo "$F" >$R/filter
echo sysrq_handle_crash >>$R/filter
# (kept for later, and read there)
for i in one other silent; do echo "$F" >$R/instances/$i/filter; done
echo calltrace >$R/instances/other/current_tracer
echo 1,one,other=orig_cpu >$R/dump_on_oops
opens 3 0
opens 3 1
echo marks >$R/instances/one/trace_marker
# (what was read is not shown, nor what was cleared)
echo >$R/trace
opens 2 0
opens 2 1
dd if=$R/instances/one/trace_pipe of=/tmp/read bs=1 count=1 2>/dev/null
cat $R/trace >/tmp/top
cat $R/instances/one/trace >/tmp/one
cat $R/instances/other/per_cpu/cpu0/trace >/tmp/other
expect - /tmp/top ' sysrq_handle_crash <-'
expect one /tmp/one
expect other /tmp/other
echo '# says Kernel panic - not syncing: sysrq triggered crash'
dies taskset 1 sh -c 'echo c >/proc/sysrq-trigger'
