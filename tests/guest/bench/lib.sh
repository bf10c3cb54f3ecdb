# SPDX-License-Identifier: GPL-2.0
# What the benchmarks in a guest share. scripts/internal/bench-report reads the lines that they print, with tabs between the fields:
#
#	row NAME OURS UNIT PEER PEER'S-NAME	what costs how much; a PEER of - is none
#	missing NAME WHY			what could not be measured
#	kernel RELEASE
#	# TEXT					what is going on
#
# UNIT is "cost" (instructions or ns, which only the host knows), "bytes" or "%".

now() { echo "# $*"; }
fail() {
	echo "# $*"
	exit 1
}

# decimal HUNDREDTHS
decimal() {
	local sign= value=$1
	if [ "$value" -lt 0 ]; then sign=- value=$((-value)); fi
	printf '%s%d.%02d' "$sign" $((value / 100)) $((value % 100))
}
# row NAME OURS UNIT PEER PEER'S-NAME: both in hundredths.
row() {
	local peer=$4
	[ "$peer" = - ] || peer=$(decimal "$peer")
	printf 'row\t%s\t%s\t%s\t%s\t%s\n' "$1" "$(decimal "$2")" "$3" "$peer" "$5" >>/tmp/rows
}
missing() {
	printf 'missing\t%s\t%s\n' "$1" "$2" >>/tmp/rows
}

# until_true SECONDS COMMAND...
until_true() {
	local left=$(($1 * 10))
	shift
	until "$@"; do
		left=$((left - 1))
		[ $left -gt 0 ] || return 1
		usleep 100000
	done
}

# show_rows: all of them.
show_rows() {
	printf 'kernel\t%s\n' "$(uname -r)"
	cat /tmp/rows
}
