# SPDX-License-Identifier: GPL-2.0
# What the tests share in which ftrace dies: each in a boot of its own, as it does not come back.
# What ftrace says of its end is no complaint about us; all else is.

needs_module
insmod "$MOD"

# break_site: a hook on $F ends ftrace.
break_site() {
	local site
	site=$(sed -n "s/ $F \\[.*//p" $T/available_filter_functions_addrs)
	[ "$site" ]
	dmesg -n 1
	insmod /lib/modules/break_site.ko site=0x"$site"
}

# is_dead: ftrace is, and nothing else has complained.
is_dead() {
	local line
	dmesg >/tmp/dying
	grep -q '\[ ftrace bug \]' /tmp/dying
	grep -E -f /etc/splats /tmp/dying | while read -r line; do
		case $line in
		*'WARNING: '*/ftrace.c:* | *'Call Trace:'*) ;;
		*)
			echo "unexpected: $line"
			return 1
			;;
		esac
	done
}

# we_stay: the module is there for good, and says why, once.
we_stay() {
	is 'said' "$(dmesg | grep -c 'rust_ftrace: ftrace has shut itself down')" 1
	[ "$(cat /sys/module/rust_ftrace/refcnt)" -gt 0 ]
	fails rmmod rust_ftrace
}

# works: the trace is read, calls are made, and CPUs, modules and tasks come and go, as always.
works() {
	cat $R/trace $R/tracing_on >/tmp/works
	calls turns 2000 0
	calls files 50 1
	calls forks 20 1
	rmmod "$TARGET_MOD2" 2>/dev/null || :
	insmod /lib/modules/"$RELEASE"/"$TARGET_MOD2".ko
}

# over: instead of finish, as nothing can be put back.
over() {
	# (what was expected is no complaint)
	dmesg -c >/tmp/dying
	dmesg -n 7
	echo "1..$tests"
	exit $((failures > 0))
}
