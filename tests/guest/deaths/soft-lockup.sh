#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# A CPU that does not come to rest: the detector of soft lockups has the machine end, in an interrupt of a timer.
. /tests/lib/ktap.sh
reload
. /tests/lib/dies.sh
insmod /lib/modules/dies_by.ko || exit 1

[ -e /proc/sys/kernel/softlockup_panic ] || { echo '1..0 # SKIP the kernel has no detector of soft lockups'; exit 0; }
echo "$F" >$R/filter
echo dies_by_step >>$R/filter
echo 1 >$R/options/func_stack_trace
echo 1 >$R/dump_on_oops
opens 2 0
opens 2 1
cat $R/trace >/tmp/top
expect - /tmp/top '\[001\] .* dies_by_step \[dies_by\] <-' '\[001\] .* <stack trace>' '^ => dies_by_step' '~~ ^ => '
echo '# says soft lockup - CPU#1 stuck'
echo '# says Kernel panic - not syncing: softlockup: hung tasks'
echo 1 >/proc/sys/kernel/watchdog_thresh
echo 1 >/proc/sys/kernel/softlockup_panic
dies by spin 1
