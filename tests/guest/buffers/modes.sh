#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# What happens when a buffer is full, sizes of single CPUs and of sub-buffers, snapshots,
# free_buffer: all of it also under load, with nothing lost unaccounted.
. /tests/lib/ktap.sh

reload
YIELD=$(sys sched_yield)

# lines_of FILE: the number of events in a trace.
lines_of() {
	events "$1" | wc -l
}

discard() {
	local kept
	says $R/options/overwrite 1
	echo 0 >$R/options/overwrite
	says $R/options/overwrite 0
	echo 32 >$R/buffer_size_kb
	echo "$YIELD" >$R/filter
	calls yields 5000 0
	kept=$(stat_of 0 entries)
	# Nearly what 16 bytes an event let in, and the first ones.
	[ "$kept" -gt $((32 * 1024 / 16 * 9 / 10)) ]
	is 'written' "$(stat_of 0 'written events')" "$kept"
	is 'dropped' "$(stat_of 0 'dropped events')" $((5000 - kept))
	is 'overrun' "$(stat_of 0 overrun)" 0
	is 'lost to full buffers' "$(status 'lost to full buffers')" $((5000 - kept))
	is hits "$(status hits)" 5000
	accounts_agree
	cat $R/trace >/tmp/first
	calls yields 100 0
	cat $R/trace >/tmp/second
	cmp /tmp/first /tmp/second
	is 'dropped' "$(stat_of 0 'dropped events')" $((5100 - kept))
	# A clear makes room: all but the sub-buffer that is being written is free.
	echo >$R/trace
	is 'after clear' "$(status hits)" 0
	calls yields 5000 0
	[ "$(stat_of 0 entries)" -gt $((16 * 1024 / 16 * 9 / 10)) ]
	is hits "$(status hits)" 5000
	accounts_agree
	# And overwrite mode goes on at once.
	echo 1 >$R/options/overwrite
	echo >$R/trace
	calls yields 5000 0
	is 'written' "$(stat_of 0 'written events')" 5000
	is 'dropped' "$(stat_of 0 'dropped events')" 0
	accounts_agree
}

# What was read makes room, also for a reader's raw slots.
discard_drained() {
	local written file=trace_pipe
	echo 0 >$R/options/overwrite
	echo 32 >$R/buffer_size_kb
	echo "$YIELD" >$R/filter
	for file in trace_pipe raw; do
		calls yields 5000 0
		written=$(stat_of 0 'written events')
		[ "$(stat_of 0 'dropped events')" -gt 0 ]
		fails fileio drain $R/per_cpu/cpu0/$file 65536 >/tmp/out
		is entries "$(stat_of 0 entries)" 0
		calls yields 900 0
		is written "$(stat_of 0 'written events')" $((written + 900))
		is entries "$(stat_of 0 entries)" 900
	done
	accounts_agree
}

discard_under_load() {
	local i=0
	echo 0 >$R/options/overwrite
	echo 32 >$R/buffer_size_kb
	echo "$YIELD vfs_*" >$R/filter
	background calls yields 0 0
	background calls yields 0 1
	background calls files 0 1
	until_true 60 full
	while [ $i -lt 5 ]; do
		echo 1 >$R/options/overwrite
		echo 0 >$R/options/overwrite
		echo >$R/trace
		until_true 60 full
		i=$((i + 1))
	done
	echo 0 >$R/tracing_on
	accounts_agree
	is lines "$(lines_of $R/trace)" "$(status 'events present')"
}

full() {
	[ "$(stat_of 0 'dropped events')" -gt 0 ] && [ "$(stat_of 1 'dropped events')" -gt 0 ]
}

one_cpu_size() {
	local cpu total=0
	echo 256 >$R/per_cpu/cpu1/buffer_size_kb
	says $R/per_cpu/cpu1/buffer_size_kb 256
	says $R/per_cpu/cpu0/buffer_size_kb $SIZE_KB
	says $R/buffer_size_kb X
	for cpu in $R/per_cpu/cpu*; do total=$((total + $(cat $cpu/buffer_size_kb))); done
	says $R/buffer_total_size_kb $total
	echo "$YIELD" >$R/filter
	calls yields 30000 0
	calls yields 30000 1
	is 'all of 0' "$(stat_of 0 entries)" 30000
	is 'written on 1' "$(stat_of 1 'written events')" 30000
	[ "$(stat_of 1 entries)" -lt $((256 * 1024 / 16)) ]
	[ "$(stat_of 1 entries)" -gt $((200 * 1024 / 16)) ]
	accounts_agree
	# The size of all is that of each again.
	echo 128 >$R/buffer_size_kb
	says $R/buffer_size_kb 128
	says $R/per_cpu/cpu0/buffer_size_kb 128
	says $R/per_cpu/cpu1/buffer_size_kb 128
	is 'written on 1' "$(stat_of 1 'written events')" 30000
	accounts_agree
	gets 'write EINVAL' $R/per_cpu/cpu1/buffer_size_kb 0
	gets 'write EINVAL' $R/per_cpu/cpu1/buffer_size_kb x
	gets 'write ENOMEM' $R/per_cpu/cpu1/buffer_size_kb 99999999999
	says $R/per_cpu/cpu1/buffer_size_kb 128
}

subbuf_sizes() {
	local size
	says $R/buffer_subbuf_size_kb $SUBBUF_KB
	echo "$YIELD" >$R/filter
	for size in 4 64 512 8; do
		echo $size >$R/buffer_subbuf_size_kb
		says $R/buffer_subbuf_size_kb $size
		[ $(($(cat $R/buffer_size_kb) % size)) -eq 0 ]
		echo >$R/trace
		calls yields 2000 0
		calls yields 3000 1
		is 'on 0' "$(stat_of 0 'written events')" 2000
		is lines "$(lines_of $R/per_cpu/cpu1/trace)" 3000
		accounts_agree
	done
	# Rounded up to a power of two of pages, as in tracefs.
	echo 5 >$R/buffer_subbuf_size_kb
	says $R/buffer_subbuf_size_kb 8
	echo 1 >$R/buffer_subbuf_size_kb
	says $R/buffer_subbuf_size_kb 4
	gets 'write EINVAL' $R/buffer_subbuf_size_kb 0
	gets 'write EINVAL' $R/buffer_subbuf_size_kb 513
	gets 'write EINVAL' $R/buffer_subbuf_size_kb 4k
	says $R/buffer_subbuf_size_kb 4
}

subbuf_under_load() {
	local size i=0
	echo "$YIELD" >$R/filter
	counting /tmp/count calls yields 0 0
	until_true 10 some_hits
	while [ $i -lt 4 ]; do
		for size in 4 32 16; do
			echo $size >$R/buffer_subbuf_size_kb
			echo $((i % 3 * 100 + 100)) >$R/per_cpu/cpu0/buffer_size_kb
		done
		i=$((i + 1))
	done
	end_background
	is hits "$(status hits)" "$(cat /tmp/count)"
	accounts_agree
}

some_hits() {
	[ "$(status hits)" -gt 0 ]
}

# What a shell shows before anything was taken is tracefs's text, but for the tracer's name.
snapshot_help() {
	cat $T/snapshot >/tmp/stock
	cat $R/snapshot >/tmp/ours
	diff /tmp/stock /tmp/ours
	cat $T/per_cpu/cpu0/snapshot >/tmp/stock
	cat $R/per_cpu/cpu0/snapshot >/tmp/ours
	# (whether single CPUs can be had depends on the kernel's options; ours always can)
	grep -v '^# echo 1\|^#    ' /tmp/stock >/tmp/stock.rest
	grep -v '^# echo 1\|^#    ' /tmp/ours | diff /tmp/stock.rest -
}

snapshot() {
	echo "$YIELD" >$R/filter
	calls yields 100 0
	calls yields 200 1
	cat $R/trace >/tmp/before
	echo 1 >$R/snapshot
	events /tmp/before >/tmp/wanted
	events $R/snapshot >/tmp/got
	cmp /tmp/wanted /tmp/got
	grep -q '^# entries-in-buffer/entries-written: 300/300 ' $R/snapshot
	is 'snapshot of 1' "$(lines_of $R/per_cpu/cpu1/snapshot)" 200
	is 'live' "$(lines_of $R/trace)" 0
	is 'written' "$(status 'events written')" 0
	calls yields 7 0
	is 'live' "$(lines_of $R/trace)" 7
	events $R/snapshot | cmp /tmp/wanted -
	accounts_agree
	# One CPU only.
	echo 1 >$R/per_cpu/cpu0/snapshot
	is 'snapshot of 0' "$(lines_of $R/per_cpu/cpu0/snapshot)" 7
	is 'snapshot of 1' "$(lines_of $R/per_cpu/cpu1/snapshot)" 200
	echo 2 >$R/per_cpu/cpu0/snapshot
	is 'all' "$(lines_of $R/snapshot)" 200
	gets 'write EINVAL' $R/per_cpu/cpu0/snapshot 0
	gets 'write EINVAL' $R/snapshot x
	is 'all' "$(lines_of $R/snapshot)" 200
	grep -q 'Snapshot is' $R/per_cpu/cpu0/snapshot
	echo 5 >$R/snapshot
	grep -q '^# \* Snapshot is allocated \*$' $R/snapshot
	echo 0 >$R/snapshot
	grep -q '^# \* Snapshot is freed \*$' $R/snapshot
	# Another size than when the last was taken.
	echo 1 >$R/snapshot
	echo 64 >$R/buffer_size_kb
	calls yields 10 0
	echo 1 >$R/snapshot
	is 'snapshot' "$(lines_of $R/snapshot)" 10
}

snapshot_under_load() {
	local i=0 taken=0
	echo "$YIELD" >$R/filter
	counting /tmp/count calls yields 0 0
	while [ $i -lt 5 ]; do
		until_true 10 some_hits
		echo 1 >$R/snapshot
		# (the header says it; no need to read on)
		taken=$((taken + $(sed -n '\|^# entries-in-buffer|{ s|.*: [0-9]*/\([0-9]*\) .*|\1|p; q; }' \
			$R/snapshot | grep . || echo 0)))
		i=$((i + 1))
	done
	end_background
	# Every event is in one of the snapshots or in what is there now.
	is 'all' $((taken + $(status hits))) "$(cat /tmp/count)"
	accounts_agree
}

freeing() {
	local before after
	echo 8192 >$R/buffer_size_kb
	echo "$YIELD" >$R/filter
	calls yields 1000 0
	before=$(status memory | sed 's/ KiB//')
	echo >$R/free_buffer
	after=$(status memory | sed 's/ KiB//')
	[ $((before - after)) -gt $((2 * 8000)) ]
	[ "$(cat $R/buffer_size_kb)" -le 64 ]
	says $R/tracing_on 1
	is written "$(status 'events written')" 1000
	is overwritten "$(status 'events overwritten')" 1000
	calls yields 10 0
	is lines "$(lines_of $R/trace)" 10
	accounts_agree
	echo 1 >$R/options/disable_on_free
	exec 3>$R/free_buffer
	says $R/tracing_on 1
	exec 3>&-
	says $R/tracing_on 0
	gets 'write EINVAL' $R/options/disable_on_free 2
	says $R/options/disable_on_free 1
}

no_memory() {
	local size
	echo "$YIELD" >$R/filter
	calls yields 100 0
	size=$(cat $R/buffer_size_kb)
	gets 'write ENOMEM' $R/buffer_size_kb 3000000
	says $R/buffer_size_kb "$size"
	is lines "$(lines_of $R/trace)" 100
	accounts_agree
}

t 'options/overwrite 0 keeps the first events and counts the others' discard
t 'what is read then makes room' discard_drained
t 'so it does under load, with clears and changes of mode' discard_under_load
t 'a CPU can have a size of its own' one_cpu_size
t 'sub-buffers of all sizes' subbuf_sizes
stressed 'sizes of sub-buffers and CPUs change under load' subbuf_under_load
if [ -e $T/snapshot ]; then
	t 'an empty snapshot shows how to use it' snapshot_help
else
	skip 'an empty snapshot shows how to use it' 'the kernel has no snapshots to compare with'
fi
t 'a snapshot keeps what was there, of one CPU or all' snapshot
t 'snapshots under load have every event once' snapshot_under_load
t 'free_buffer gives memory back' freeing
t 'too large a buffer leaves the old one' no_memory
finish
