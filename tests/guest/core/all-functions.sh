#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# All functions traced while the machine works, and the module unloaded meanwhile. (rmmod.sh unloads it with some.)
. /tests/lib/ktap.sh

all_functions() {
	local start lines=0
	load
	background churn 0
	background churn 1
	echo function >$R/current_tracer
	start=$(now)
	# A shell works, and a reader looks on.
	while [ $(($(now) - start)) -lt 500 ] || [ $lines -lt 2 ]; do
		ls -lR /proc/self /sys/kernel/debug/rftrace >/dev/null 2>&1
		tail -n 1 $R/trace >/dev/null
		lines=$((lines + 1))
	done
	end_background
	echo 0 >$R/tracing_on
	[ "$(status 'events written')" -gt 100000 ]
	accounts_agree
	unload
}

busy() {
	[ "$(status 'events written')" -gt 1000 ]
}

all_and_rmmod() {
	# Unloading while every function of a busy machine is on its way through the hook.
	background churn 0
	background churn 1
	load tracer=function
	until_true 30 busy
	rmmod rust_ftrace
	end_background
}

t 'all functions traced for 5 s' all_functions
t 'unloaded while all functions are traced' all_and_rmmod
finish
