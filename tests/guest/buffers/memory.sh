#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# Little memory: a buffer is had, or refused, and no other task is killed for it.
. /tests/lib/ktap.sh

[ "$SLOWER" -eq 1 ] || { echo '1..0 # SKIP a debug kernel has other uses for memory'; exit 0; }
reload
YIELD=$(sys sched_yield)
CPUS=$(find $R/per_cpu -name stats | wc -l)
# MiB of a process that has nothing to do with it, and more than any other.
BYSTANDER=64
# MiB that are left, and files that are kept in memory: the kernel takes most of what these take, a KiB each, for
# available, and it is not.
LEFT=80
FILES=40000

available_kb() {
	sed -n 's/^MemAvailable: *\([0-9]*\) kB/\1/p' /proc/meminfo
}
killed() {
	sed -n 's/^oom_kill //p' /proc/vmstat
}
rss_is() {
	[ "$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\) kB/\1/p' /proc/"$bystander"/status)" -ge $(($1 * 1024)) ]
}

# Has a bystander, and little memory beside.
scarce() {
	(dd if=/dev/zero bs=1M count=$BYSTANDER; exec sleep 10000) | tail -c $BYSTANDER"m" >/dev/null &
	bystander=$!
	until_true 60 rss_is $BYSTANDER
	mount -t ramfs none /mnt
	(cd /mnt && seq $FILES | sed "s/^/$(printf %0200d 0)/" | xargs touch)
	grep -E '^(MemAvailable|SReclaimable)' /proc/meminfo
	dd if=/dev/zero of=/mnt/fill bs=1M count=$(($(available_kb) / 1024 - LEFT))
	killed=$(killed)
}

# attempt FILE VALUE: taken, or refused for want of memory, and then nothing has changed. In $result.
attempt() {
	local before
	before=$(settings)
	result=$(fileio write "$@") || :
	echo "$(available_kb) KiB are available: $* is $result"
	is 'processes killed' "$(killed)" "$killed"
	kill -0 "$bystander"
	case $result in
	ok) refused= ;;
	*)
		is result "$result" 'write ENOMEM'
		is settings "$(settings)" "$before"
		refused=1
		;;
	esac
	calls yields 10 0
	[ "$(status 'events lost')" -eq 0 ]
}
settings() {
	cat $R/buffer_size_kb $R/per_cpu/cpu*/buffer_size_kb $R/buffer_subbuf_size_kb
	head -n 1 $R/snapshot
	status memory
}

# percent_of_all PERCENT: KiB for each CPU that take so much of what is available.
percent_of_all() {
	echo $(($(available_kb) * $1 / 100 / CPUS))
}

# resize PERCENT: what up to 30 of is had on every kernel.
resize() {
	attempt $R/buffer_size_kb "$(percent_of_all "$1")"
	[ "$1" -gt 30 ] || [ ! "$refused" ]
}

resized() {
	local percent
	echo "$YIELD" >$R/filter
	for percent in 30 40 85 95 99 200; do
		resize $percent
		echo 64 >$R/buffer_size_kb
	done
	[ "$refused" ]
	# Memory can always be given back.
	resize 30
	attempt $R/buffer_size_kb 64
	[ ! "$refused" ]
	# The old one is there until there is a new one.
	resize 30
	attempt $R/buffer_size_kb "$(percent_of_all 300)"
	[ "$refused" ]
	attempt $R/per_cpu/cpu0/buffer_size_kb "$(percent_of_all 300)"
	[ "$refused" ]
	echo 64 >$R/buffer_size_kb
}

snapshot_taken() {
	local percent
	echo "$YIELD" >$R/filter
	for percent in 20 42 48 52; do
		resize $percent
		[ ! "$refused" ] || continue
		attempt $R/snapshot 1
		[ $percent -gt 20 ] || [ ! "$refused" ]
		echo 0 >$R/snapshot
		echo 64 >$R/buffer_size_kb
	done
	[ "$refused" ]
}

subbufs_changed() {
	local percent
	echo "$YIELD" >$R/filter
	for percent in 20 42 52; do
		resize $percent
		[ ! "$refused" ] || continue
		attempt $R/buffer_subbuf_size_kb 64
		echo 64 >$R/buffer_size_kb
		echo $SUBBUF_KB >$R/buffer_subbuf_size_kb
	done
	[ "$refused" ]
}

# The buffers are made when they are first needed.
first_needed() {
	local percent
	for percent in 85 100; do
		unload
		load buffer_size_kb="$(percent_of_all $percent)"
		# (the list of functions is memory, too)
		grep -q "$YIELD" $R/available_filter_functions
		attempt $R/filter "$YIELD\n"
		[ ! "$refused" ] || is status "$(status tracer)" nop
	done
	[ "$refused" ]
	reload
}

scarce >/tmp/scarce.log 2>&1
t 'buffers are resized, or it is ENOMEM' resized
t 'a snapshot is taken, or it is ENOMEM' snapshot_taken
t 'sub-buffers change, or it is ENOMEM' subbufs_changed
t 'buffers are made, or it is ENOMEM' first_needed
kill "$bystander"
umount /mnt
finish
