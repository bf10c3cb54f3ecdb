#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# dump_on_oops, the file: its words, of the top directory and of instances. What it does is in deaths/.
. /tests/lib/ktap.sh
reload

words() {
	says $R/dump_on_oops 0
	mkdir $R/instances/foo $R/instances/bar
	for value in 1 2 0; do
		gets ok $R/dump_on_oops "$value\n"
		says $R/dump_on_oops "$value"
		gets ok $R/instances/foo/dump_on_oops "$value\n"
		says $R/instances/foo/dump_on_oops "$value"
	done
	gets ok $R/dump_on_oops 'orig_cpu'
	says $R/dump_on_oops 2
	# The examples of the kernel's documentation.
	gets ok $R/dump_on_oops 'foo,bar'
	says $R/dump_on_oops 0,foo,bar
	says $R/instances/bar/dump_on_oops 1
	gets ok $R/dump_on_oops '1,foo,bar=2'
	says $R/dump_on_oops 1,foo,bar=2
	says $R/instances/bar/dump_on_oops 2
	# (what it shows, it takes)
	cat $R/dump_on_oops >/tmp/said
	cat /tmp/said >$R/dump_on_oops
	says $R/dump_on_oops 1,foo,bar=2
	rmdir $R/instances/foo
	says $R/dump_on_oops 1,bar=2
	gets ok $R/dump_on_oops 1
	says $R/instances/bar/dump_on_oops 0
}

refused() {
	local value
	mkdir $R/instances/foo
	echo 1,foo=2 >$R/dump_on_oops
	for value in 3 1,other foo=1 foo, 1,,foo foo,foo ' ' -1 1foo; do
		gets 'write EINVAL' $R/dump_on_oops "$value"
		says $R/dump_on_oops 1,foo=2
	done
	for value in 3 1,foo foo '\n' 01; do
		gets 'write EINVAL' $R/instances/foo/dump_on_oops "$value"
		says $R/instances/foo/dump_on_oops 2
	done
	grep -q 'dump_on_oops: error: No such instance' $R/error_log
	grep -q 'dump_on_oops: error: Neither 0, 1, 2 nor orig_cpu' $R/instances/foo/error_log
}

memory() {
	local before with larger
	before=$(status memory)
	echo 1 >$R/dump_on_oops
	with=$(status memory)
	[ "${with% KiB}" -gt "${before% KiB}" ]
	echo 128 >$R/buffer_subbuf_size_kb
	larger=$(status memory)
	[ "${larger% KiB}" -gt "${with% KiB}" ]
	echo 0 >$R/dump_on_oops
	is memory "$(status memory)" "$before"
}

hooks() {
	# Recording stops where the machine begins to die.
	fails grep -qE '^(oops_enter|vpanic) ' $T/enabled_functions
	echo 1 >$R/dump_on_oops
	grep -qE '^oops_enter ' $T/enabled_functions
	grep -qE '^vpanic ' $T/enabled_functions
	mkdir $R/instances/foo
	echo 0,foo >$R/dump_on_oops
	grep -qE '^oops_enter ' $T/enabled_functions
	rmdir $R/instances/foo
	fails grep -qE '^(oops_enter|vpanic) ' $T/enabled_functions
}

parameter() {
	reload dump_on_oops=orig_cpu
	says $R/dump_on_oops 2
	unload
	dmesg -c >/dev/null
	fails insmod /rust_ftrace.ko dump_on_oops=1,foo
	dmesg | grep -qF 'parameter dump_on_oops is refused'
	load
	says $R/dump_on_oops 0
}

t 'dump_on_oops takes the words of the kernel, and names instances' words
t 'a word that means nothing changes nothing' refused
t 'memory is set aside, for the size of sub-buffers, and given back' memory
t 'what begins to die is hooked while it is on' hooks
t 'a parameter switches it on' parameter
finish
