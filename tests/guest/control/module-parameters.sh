#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Tracing from the moment of loading, by the module's parameters.
. /tests/lib/ktap.sh

YIELD=$(sys sched_yield)

from_load() {
	reload filter="$PARENT"
	says $R/filter "$PARENT"
	says $R/current_tracer function
	calls getppid 3
	is lines "$(calls_of "$PARENT")" 3
}

several_words() {
	# Commas stand for spaces, which a shell makes hard to write.
	reload filter="$PARENT,$YIELD"
	is filter "$(names $R/filter | tr ' ' '\n' | sort | tr '\n' ' ')" \
		"$(printf '%s\n' "$PARENT" "$YIELD" | sort | tr '\n' ' ')"
	reload filter="vfs_*" notrace="vfs_read,vfs_write"
	fails grep -qxF vfs_read $R/enabled_functions
	fails grep -q '^vfs_write ' $R/enabled_functions
	grep -q '^vfs_' $R/enabled_functions
	is notrace "$(names $R/notrace | tr ' ' '\n' | sort | tr '\n' ' ')" 'vfs_read vfs_write '
}

tracer_and_size() {
	reload buffer_size_kb=256
	says $R/buffer_size_kb 256
	says $R/current_tracer nop
	reload tracer=function notrace='[!v]*' buffer_size_kb=128
	says $R/current_tracer function
	fails grep -q '^[^v]' $R/enabled_functions
	[ "$(status 'armed functions')" -gt 100 ]
	# A filter with tracer=nop is there, but nothing is traced.
	reload filter="$PARENT" tracer=nop
	says $R/filter "$PARENT"
	says $R/current_tracer nop
	is armed "$(status 'armed functions')" 0
}

# refused PARAMETER WHAT-THE-LOG-SAYS
refused() {
	unload
	dmesg -c >/dev/null
	fails insmod /rust_ftrace.ko "$1"
	dmesg | grep -qF "$2"
	[ ! -e $R ]
	[ ! -e /sys/module/rust_ftrace ]
	is hooked "$(grep -c . $T/enabled_functions)" 0
}

wrong_values() {
	refused "filter=$PARENT,no_such_function" "'no_such_function'"
	refused tracer=no_such_tracer 'parameter tracer is refused'
	# (each takes 10 s on a slow kernel)
	if [ "$SLOWER" -eq 1 ]; then
		refused filter=no_such_function 'parameter filter is refused'
		refused notrace=no_such_function 'parameter notrace is refused'
		refused buffer_size_kb=99999999999999 'parameter buffer_size_kb=99999999999999 is refused'
		refused buffer_size_kb=many 'invalid for parameter'
	fi
	# The next one is as good as new.
	load
	says $R/current_tracer nop
	says $R/filter '#### all functions enabled ####'
}

described() {
	# (modinfo's lines, read where they are)
	for name in filter notrace tracer buffer_size_kb; do
		strings /rust_ftrace.ko | grep -q "^parm=$name:"
		strings /rust_ftrace.ko | grep -q "^parmtype=$name:"
	done
}

t 'filter= traces from the start' from_load
texts 'several words, patterns, notrace=' several_words
texts 'tracer= and buffer_size_kb=' tracer_and_size
t 'a wrong value: not loaded, and nothing left behind' wrong_values
t 'modinfo knows the parameters' described
finish
