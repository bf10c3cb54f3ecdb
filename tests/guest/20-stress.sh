#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Load and unload under load; all functions traced while the machine works.
. /tests/ktap.sh

# (each takes 3 s, and 7 s on a debug kernel: CMDLINE=rounds=50 for more)
case $KERNEL in
debug) ROUNDS=${rounds:-6} ;;
*) ROUNDS=${rounds:-18} ;;
esac
load_unload() {
	local i
	unload
	background churn 0
	background churn 1
	i=0
	while [ $i -lt $ROUNDS ]; do
		i=$((i + 1))
		load
		# Loaded, idle; armed by a filter; armed by a pattern and busy: all ways to go.
		case $((i % 3)) in
		0) echo "$PARENT" >$R/filter ;;
		1) echo 'vfs_*' >$R/filter; cat $R/trace >/dev/null ;;
		esac
		rmmod rust_ftrace
		[ ! -e $R ]
	done
	end_background
	is hooked "$(grep -c . $T/enabled_functions)" 0
}

all_functions() {
	local start lines=0
	load
	background churn 0
	background churn 1
	echo function >$R/current_tracer
	start=$(now)
	# A shell works, and somebody looks on.
	while [ $(($(now) - start)) -lt 1000 ]; do
		ls -lR /proc/self /sys/kernel/debug/rftrace >/dev/null 2>&1
		tail -n 1 $R/trace >/dev/null
		lines=$((lines + 1))
	done
	[ $lines -gt 1 ]
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
	local i
	background churn 0
	background churn 1
	for i in $(seq $((SLOWER == 1 ? 2 : 1))); do
		load tracer=function
		until_true 30 busy
		rmmod rust_ftrace
	done
	end_background
}

t "$ROUNDS times loaded and unloaded under load" load_unload
t 'all functions traced for 10 s' all_functions
t 'unloaded while all functions are traced' all_and_rmmod
finish
