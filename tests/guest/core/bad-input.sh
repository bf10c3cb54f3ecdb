#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# What means nothing ends, in every file there is, as in tracefs's file of that name, and changes nothing. The
# files are found by looking: one that is added later is tested too.
. /tests/lib/ktap.sh

reload
if [ -d $R/instances ]; then
	mkdir $R/instances/one $T/instances/one
fi

# model FILE: the file of tracefs that shows what is to come of it; "-" if it has none like it, and nothing if
# FILE is tested under another name.
model() {
	local name=${1#"$R"/}
	if [ -e "$T/$name" ]; then
		echo "$T/$name"
	elif grep -qxF "$name" /tmp/linked; then
		:
	else
		case $name in
		*options/*) echo $T/options/overwrite ;;
		# (whatever is written clears)
		*trace_stat/function) echo $T/trace ;;
		cgroup | */cgroup) echo $T/set_ftrace_pid ;;
		*) echo - ;;
		esac
	fi
}

# results FILE: of each kind of input. Tracefs refuses some before it looks for them, and does not know offsets;
# how much of a long text is taken at once is of no interest.
results() {
	badinput abuse "$1" | sed -E 's/: some$/: ok/
		/pointer/ s/: (EINVAL|ok)$/: EFAULT/
		/offset: (ESPIPE|EINVAL)$/d'
}
# same_state: for every_file, after some of the files, as to read all takes longest.
same_state() {
	badinput state $R >/tmp/state.after
	if ! cmp -s /tmp/state.before /tmp/state.after; then
		echo "writing to one of these changed something:$written"
		diff /tmp/state.before /tmp/state.after | grep '^[-+][^-+]'
		cp /tmp/state.after /tmp/state.before
		bad=1
	fi
	written=''
}
every_file() {
	set +ex
	local file like before='' written='' bad=0 tested=0
	find $R -type l | while read -r file; do readlink "$file"; done >/tmp/linked
	badinput walk $R | one_of_each >/tmp/files
	badinput state $R >/tmp/state.before
	while read -r file; do
		like=$(model "$file")
		[ -n "$like" ] || continue
		tested=$((tested + 1))
		results "$file" >/tmp/our.results
		if [ "$like" = - ]; then
			grep -vE ': (EINVAL|ERANGE|EFAULT|ESPIPE|EACCES)$' /tmp/our.results >/tmp/difference
		else
			# (most options are compared with the same one)
			[ "$like" = "$before" ] || results "$like" >/tmp/stock.results
			before=$like
			# (tracefs knows no offsets in some)
			grep -q '^at an offset' /tmp/stock.results || sed -i '/^at an offset/d' /tmp/our.results
			diff /tmp/stock.results /tmp/our.results | grep '^[-+][^-+]' >/tmp/difference
		fi
		if [ -s /tmp/difference ]; then
			echo "$file (like $like):"
			cat /tmp/difference
			bad=1
		fi
		# (a mask of no CPUs is one)
		case $file in
		*tracing_cpumask) echo "$ALL_CPUS" >"$file" ;;
		esac
		written="$written ${file#"$R"/}"
		[ $((tested % 16)) -ne 0 ] || same_state
	done </tmp/files
	same_state
	echo "$ALL_CPUS" >$T/tracing_cpumask
	[ $tested -ge 50 ] || { echo "only $tested files"; bad=1; }
	return $bad
}

while_traced() {
	echo "$PARENT" >$R/filter
	echo vfs_read >$R/notrace
	echo 1 >$R/notrace_pid
	echo 64 >$R/buffer_size_kb
	echo "$PARENT" >$R/graph_function
	echo 7 >$R/max_depth
	echo 2 >$R/tracing_thresh
	[ ! -e /sys/kernel/btf/vmlinux ] || echo EINVAL >$R/tracing_errno
	echo 1 >$R/snapshot
	every_file
}

# Three rounds of it, whose long texts alone are 64 KiB at a time and more.
keeps_no_memory() {
	set +x
	local file round before after
	badinput walk $R >/tmp/files
	for round in 0 1 2 3; do
		[ $round -ne 1 ] || before=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
		while read -r file; do badinput abuse "$file" >/dev/null; done </tmp/files
		echo >$R/trace
	done
	after=$(sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo)
	echo "$before kB before, $after kB after"
	[ $((before - after)) -lt 16384 ]
}

t 'what means nothing changes nothing' while_traced
texts 'nor takes memory' keeps_no_memory
if [ -d $R/instances/one ]; then rmdir $R/instances/one $T/instances/one; fi
finish
