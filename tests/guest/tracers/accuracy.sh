#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# How exact times are, where 1 ns of the guest is one instruction and functions take as many as is asked for.
. /tests/lib/ktap.sh

insmod /lib/modules/known_calls.ko
K=/sys/kernel/debug/known_calls
LENGTHS='500 5000 50000 500000'

reload

# The guest's ns, for a million instructions: what its kernel takes for the rate of its processor is near 1 GHz.
scale() {
	dmesg | awk '
		/tsc: (Detected|Refined TSC clocksource calibration:) .* MHz/ {
			match($0, /[0-9.]+ MHz/)
			rate = substr($0, RSTART, RLENGTH)
		}
		END { print rate + 0 ? 1000000000 / rate : 1000000 }'
}
SCALE=$(scale)

# took FUNCTION [INSTANCE]: the duration of the last call of it in the trace, in ns.
took() {
	awk -v name="$1" '
		index($0, " " name " [known_calls]();") || index($0, "} /* " name " [known_calls] */") {
			for (i = 2; i <= NF; i++) if ($i == "us") took = $(i - 1) * 1000
		}
		END { printf "%.0f\n", took }' "$R/${2:+instances/$2/}trace"
}
# constant NAME FILE [SLACK]: of lines "INSTRUCTIONS NS", all ns are as many as the instructions and a number that is
# always the same, but for SLACK, and as far as the guest's clock knows its rate. That is a figure.
constant() {
	awk -v scale="$SCALE" -v slack="${3:-3}" -v name="$1" '
		{
			more = $2 - $1 * scale / 1000000
			near = slack + $1 / 5000
			if (NR == 1) first = more
			printf "# %d instructions: %d ns, %.1f more\n", $1, $2, more
			if (more > first + near || more < first - near) bad = 1
		}
		END {
			printf "# %s: always %.0f ns more\n", name, first >>"/tmp/figures"
			printf "%.0f\n", first >"/tmp/more"
			exit bad || NR < 4 || first < 0 || first > 5000
		}' "$2"
}

graph_alone() {
	local rounds
	echo known_spin >$R/filter
	echo function_graph >$R/current_tracer
	# The first call meets caches of the emulator's, and an empty buffer.
	echo 500 >$K/spin
	: >/tmp/took
	for rounds in $LENGTHS; do
		echo >$R/trace
		echo "$rounds" >$K/spin
		echo $((rounds * 2)) "$(took known_spin)" >>/tmp/took
	done
	constant 'function_graph' /tmp/took
}
graph_nested() {
	local rounds
	echo known_spin known_around >$R/filter
	echo function_graph >$R/current_tracer
	echo 1 >$R/options/funcgraph-tail
	echo 500 >$K/around
	: >/tmp/took
	: >/tmp/itself
	for rounds in $LENGTHS; do
		echo >$R/trace
		echo "$rounds" >$K/around
		echo $((rounds * 2)) "$(took known_spin)" >>/tmp/took
		echo $((rounds * 4)) $(($(took known_around) - $(took known_spin))) >>/tmp/itself
	done
	constant 'function_graph, a call in another' /tmp/took
	constant 'function_graph, the call around it' /tmp/itself
}

# profiled COLUMN FUNCTION
profiled() {
	awk -v name="$2" -v column="$1" '$1 == name { print $column }' $R/trace_stat/function0
}
profile_alone() {
	local rounds
	echo known_spin known_around >$R/filter
	echo 1 >$R/function_profile_enabled
	echo 500 >$K/around
	echo 0 >$R/function_profile_enabled
	: >/tmp/took
	: >/tmp/outer
	for rounds in $LENGTHS; do
		echo 1 >$R/function_profile_enabled
		for i in 1 2 3 4 5; do echo "$rounds" >$K/around; done
		is 'hits' "$(profiled 2 known_spin)" 5
		is 'hits' "$(profiled 2 known_around)" 5
		# In us, with three digits behind the point.
		echo $((rounds * 2)) "$(profiled 5 known_spin | awk '{ print $1 * 1000 }')" >>/tmp/took
		echo $((rounds * 6)) "$(profiled 5 known_around | awk '{ print $1 * 1000 }')" >>/tmp/outer
		echo 0 >$R/function_profile_enabled
	done
	constant 'profile' /tmp/took
	constant 'profile, a call and one in it' /tmp/outer
}

# How much longer a call seems, than where one alone watches it: less than 1 us.
compared() {
	constant "$1" "$2"
	[ "$(cat /tmp/more)" -lt $(($3 + 1000)) ]
}
# Each of those that share the calls of a function says so, too: three tracers, and a profile.
shared() {
	local rounds name alone
	for name in alone top second third profile; do : >/tmp/took-$name; done
	echo known_spin >$R/filter
	for rounds in $LENGTHS; do
		echo nop >$R/current_tracer
		for name in second third; do
			[ ! -d $R/instances/$name ] || rmdir $R/instances/$name
		done
		echo function_graph >$R/current_tracer
		echo 500 >$K/spin
		echo >$R/trace
		echo "$rounds" >$K/spin
		echo $((rounds * 2)) "$(took known_spin)" >>/tmp/took-alone
		for name in second third; do
			mkdir $R/instances/$name
			echo known_spin >$R/instances/$name/filter
			echo function_graph >$R/instances/$name/current_tracer
		done
		echo 1 >$R/function_profile_enabled
		echo 500 >$K/spin
		for name in . instances/second instances/third; do echo >$R/$name/trace; done
		echo >$R/trace_stat/function
		echo "$rounds" >$K/spin
		echo $((rounds * 2)) "$(took known_spin)" >>/tmp/took-top
		for name in second third; do
			echo $((rounds * 2)) "$(took known_spin $name)" >>/tmp/took-$name
		done
		is calls "$(awk '$1 == "known_spin" { print $3 }' $R/trace_stat/function)" 1
		echo $((rounds * 2)) "$(awk '$1 == "known_spin" { print $4 * 1000 }' $R/trace_stat/function)" >>/tmp/took-profile
		echo 0 >$R/function_profile_enabled
	done
	constant 'function_graph, one alone' /tmp/took-alone
	alone=$(cat /tmp/more)
	compared 'function_graph, the first of three and a profile' /tmp/took-top "$alone"
	compared 'function_graph, the second of three and a profile' /tmp/took-second "$alone"
	compared 'function_graph, the third of three and a profile' /tmp/took-third "$alone"
	compared 'a profile with three of function_graph' /tmp/took-profile "$alone"
}

# A hundred calls, of which the 50th, 90th, 99th and last of the order are of four lengths: "PERCENT COUNT ROUNDS".
DISTRIBUTION='50 60 500
90 30 5000
99 9 50000
100 1 500000'
# within FILE: of lines "WHAT INSTRUCTIONS NS", ns are at least those of the instructions and of an entry and return,
# and at most an eighth more.
within() {
	awk -v scale="$SCALE" '
		{
			least = $2 * scale / 1000000 * 0.999
			most = ($2 * scale / 1000000 + 1000) * 1.126
			printf "# %s: %d instructions: %d ns\n", $1, $2, $3
			if ($3 < least || $3 > most) bad = 1
		}
		END { exit bad || NR != 4 }' "$1"
}
percentiles() {
	local percent count rounds row i
	echo known_spin >$R/filter
	echo 1 >$R/function_profile_enabled
	echo "$DISTRIBUTION" | while read -r percent count rounds; do
		i=0
		while [ $i -lt "$count" ]; do
			echo "$rounds" >$K/spin
			i=$((i + 1))
		done
	done
	echo 0 >$R/function_profile_enabled
	row=$(awk '$1 == "known_spin" { print $3, $7 * 1000, $8 * 1000, $9 * 1000, $10 * 1000 }' $R/trace_stat/function)
	is 'calls' "${row%% *}" 100
	# shellcheck disable=SC2086 # words they are
	set -- $row
	echo "$DISTRIBUTION" | while read -r percent count rounds; do
		shift
		echo "p$percent $((rounds * 2)) $1"
	done >/tmp/percentiles
	within /tmp/percentiles
	# The calls are in buckets of their lengths, which for one of the shortest may be another than for the rest.
	awk '$2 == "-" && $5 == "|" {
		us = $1 * ($4 == "ms" ? 1000 : 1)
		calls[us < 5 ? 0 : us < 50 ? 1 : us < 500 ? 2 : 3] += $6
		count++
	}
	END { print calls[0], calls[1], calls[2], calls[3], count <= 5 ? "few" : count }' $R/trace_stat/function_latency >/tmp/buckets
	is 'buckets' "$(cat /tmp/buckets)" '60 30 9 1 few'
}

# reported KEY FUNCTION: of the recording, in ns.
reported() {
	sed -n "/\"function\":\"$2[ \"]/s/.*\"$1\":\([0-9]*\)[,}].*/\1/p" /tmp/report
}
command_alone() {
	local rounds
	: >/tmp/took
	: >/tmp/itself
	for rounds in $LENGTHS; do
		rftrace record -q -o /tmp/recorded -l known_spin -l known_around \
			sh -c "echo 500 >$K/around; echo $rounds >$K/around"
		rftrace report --json /tmp/recorded >/tmp/report
		is 'calls of known_spin' "$(reported calls known_spin)" 2
		is 'calls of known_around' "$(reported calls known_around)" 2
		echo $(((500 + rounds) * 2)) "$(reported total_ns known_spin)" >>/tmp/took
		echo $(((500 + rounds) * 4)) "$(reported self_ns known_around)" >>/tmp/itself
	done
	# The first call of each takes what it takes to fetch it.
	constant 'rftrace report, total of two' /tmp/took 40
	constant 'rftrace report, self of two with a call in each' /tmp/itself 40
}

# row COLUMN FUNCTION: of the profile of all CPUs, in ns but for calls.
row() { awk -v name="$2" -v column="$1" '$1 == name { printf "%.0f\n", column == 3 ? $3 : $column * 1000 }' $R/trace_stat/function; }
# What the command says of its recording, and the profile of another instance, which had the same calls.
command_and_profile() {
	local name
	echo known_spin known_around >$R/filter
	echo nop >$R/current_tracer
	echo 1 >$R/function_profile_enabled
	echo >$R/trace_stat/function
	rftrace record -q -o /tmp/recorded -l known_spin -l known_around \
		sh -c "for rounds in 500 500 500 500 500 500 5000 5000 50000 500000; do echo \$rounds >$K/around; done"
	echo 0 >$R/function_profile_enabled
	rftrace report --json /tmp/recorded >/tmp/report
	cat /tmp/report $R/trace_stat/function
	for name in known_spin known_around; do
		is "calls of $name" "$(row 3 $name)" 10
		is "calls of $name" "$(reported calls $name)" 10
		# Sums differ by less than 1 us a call.
		both "total of $name" 10000 "$(row 4 $name)" "$(reported total_ns $name)"
		both "self of $name" 10000 "$(row 5 $name)" "$(reported self_ns $name)"
		# A percentile of the profile is the end of a bucket, which is an eighth wide.
		bucket "p50 of $name" "$(row 7 $name)" "$(reported p50_ns $name)"
		bucket "p90 of $name" "$(row 8 $name)" "$(reported p90_ns $name)"
		both "longest of $name" 1000 "$(row 10 $name)" "$(reported max_ns $name)"
	done
	bucket 'p99 of known_spin' "$(row 9 known_spin)" "$(reported p99_ns known_spin)"
}
# both WHAT MOST NS NS: of the profile and of the command; they differ by so much at most.
both() {
	echo "# profile and command, $1: $3 ns and $4 ns" >>/tmp/figures
	holds "$4 > 0 && $3 - $4 <= $2 && $4 - $3 <= $2"
}
# bucket WHAT NS NS: the same, of percentiles.
bucket() {
	echo "# profile and command, $1: $2 ns and $3 ns" >>/tmp/figures
	holds "$3 > 0 && $2 >= $3 - 1000 && $2 <= ($3 + 1000) * 1.126"
}

t 'a call takes its instructions, and always the same more' graph_alone
t 'so does one in another' graph_nested
t 'the profile says so, too' profile_alone
t 'those that share calls' shared
t 'and so does the command, of a recording' command_alone
t 'the command and the profile agree about the same calls' command_and_profile
t 'percentiles, the longest and the histogram are those of the calls made' percentiles
[ ! -e /tmp/figures ] || cat /tmp/figures
finish
