#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# calltrace: what function records, shown as a tree, with the kernel's function_graph as the oracle.
. /tests/ktap.sh

if [ "$KERNEL" = debug ]; then
	echo '1..0 # SKIP text is the same on every kernel, and this one is slow'
	exit 0
fi

reload

# The same lines as function shows, but for the indentation.
same_as_function() {
	local cpu
	echo "$PARENT" >$R/filter
	echo calltrace >$R/current_tracer
	says $R/current_tracer calltrace
	is 'armed functions' "$(status 'armed functions')" 1
	calls getppid 20 0
	calls getppid 20 1
	echo 0 >$R/tracing_on
	cat $R/trace >/tmp/tree
	is header "$(head -n 1 /tmp/tree)" '# tracer: calltrace'
	sed 1d /tmp/tree | grep '^#' >/tmp/tree.header
	events /tmp/tree >/tmp/tree.lines
	[ "$(grep -c "^ *calls-.*: $PARENT <-" /tmp/tree.lines)" -eq 40 ]
	for cpu in 0 1; do
		events $R/per_cpu/cpu$cpu/trace >/tmp/tree.cpu
		grep -F "[00$cpu]" /tmp/tree.lines | cmp - /tmp/tree.cpu
	done
	# (with one function nothing is indented)
	echo 1 >$R/snapshot
	events $R/snapshot | cmp - /tmp/tree.lines
	echo nop >$R/current_tracer
	echo function >$R/current_tracer
	cat $R/trace | grep '^#' | sed 1d | sed 's/written: .*#P/written: 0 #P/' >/tmp/flat.header
	sed 's/written: .*#P/written: 0 #P/' /tmp/tree.header | cmp - /tmp/flat.header
}

# The indentation says the same as the column of func-depth.
indented() {
	echo 4096 >$R/buffer_size_kb
	echo calltrace >$R/current_tracer
	ls -l /proc/self >/dev/null
	echo 0 >$R/tracing_on
	events $R/trace >/tmp/tree
	echo 1 >$R/options/func-depth
	events $R/trace >/tmp/deep
	is header "$(grep -c 'TIMESTAMP  DEPTH FUNCTION$' $R/trace)" 1
	[ "$(wc -l </tmp/deep)" -ge 500 ]
	[ "$(sed -E 's/^.*[0-9]: +([0-9]+) .*/\1/' /tmp/deep | sort -n | tail -n 1)" -ge 5 ]
	# (as many pairs of blanks as the depth)
	awk '{
		match($0, /[0-9]: +[0-9]+ /)
		head = substr($0, 1, RSTART); rest = substr($0, RSTART + RLENGTH)
		depth = substr($0, RSTART + 2, RLENGTH - 2) + 0
		printf "%s: ", head
		print rest
		match(rest, /^ */)
		if (RLENGTH != 2 * depth) { print "not indented by " depth ": " $0 >"/dev/stderr"; exit 1 }
	}' /tmp/deep | cmp - /tmp/tree
}

t 'what function shows, by the same hook' same_as_function
t 'as deep as func-depth says' indented
finish
