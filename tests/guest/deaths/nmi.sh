#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A panic in an NMI, as of a hard lockup: nothing that it has interrupted can go on. (QEMU without KVM has no counters that
# the kernel's detector could be interrupted by, so a module sends the NMI.)
. /tests/lib/ktap.sh
reload
. /tests/lib/dies.sh
insmod /lib/modules/dies_by.ko || exit 1

echo "$F" >$R/filter
echo dies_by_step >>$R/filter
echo function_graph >$R/current_tracer
echo 1 >$R/dump_on_oops
opens 3 0
opens 3 1
cat $R/trace >/tmp/top
expect - /tmp/top '^ ---' '^ 1\) .* => ' '^ ---' '^ 1\) .*\|  dies_by_step \[dies_by\]\(\) \{'
echo '# says Kernel panic - not syncing: dies_by: an NMI'
dies by nmi 1
