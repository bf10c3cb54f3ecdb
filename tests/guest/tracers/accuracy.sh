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

# took FUNCTION: the duration of the last call of it in the trace, in ns.
took() {
	awk -v name="$1" '
		index($0, " " name " [known_calls]();") || index($0, "} /* " name " [known_calls] */") {
			for (i = 2; i <= NF; i++) if ($i == "us") took = $(i - 1) * 1000
		}
		END { printf "%.0f\n", took }' $R/trace
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

t 'a call takes its instructions, and always the same more' graph_alone
t 'so does one in another' graph_nested
t 'the profile says so, too' profile_alone
t 'and so does the command, of a recording' command_alone
[ ! -e /tmp/figures ] || cat /tmp/figures
finish
