#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A NULL pointer in an interrupt: the trace of the CPU that died is on the console, once, though a panic follows.
. /tests/lib/ktap.sh
reload dump_on_oops=2
. /tests/lib/dies.sh
insmod /lib/modules/dies_by.ko || exit 1

echo "$F" >$R/filter
echo dies_by_step >>$R/filter
mkdir $R/instances/graph
echo dies_by_step >$R/instances/graph/filter
echo function_graph >$R/instances/graph/current_tracer
echo orig_cpu >$R/instances/graph/dump_on_oops
# (memory for other sub-buffers is set aside anew)
echo 64 >$R/buffer_subbuf_size_kb
opens 3 0
opens 4 1
cat $R/per_cpu/cpu1/trace >/tmp/top
expect - /tmp/top '\[001\] [dD]\.h.* dies_by_step \[dies_by\] <-'
# (its call is open: it is the last that this CPU has begun)
: >/tmp/none
expect graph /tmp/none '^ 1\) .*\|  dies_by_step \[dies_by\]\(\) \{'
echo '# says Oops: .*SMP'
echo '# says Kernel panic - not syncing: Fatal exception in interrupt'
echo '# says nothing came since it was shown'
dies taskset 1 sh -c "echo null 1 >/sys/module/dies_by/parameters/way"
