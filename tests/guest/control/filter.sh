#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# All that can be said in filter and notrace.
. /tests/lib/ktap.sh

only_texts

reload
# Three functions to name, in the order of their addresses.
A=vfs_read
B=vfs_write
C=vfs_open
in_order() {
	grep -xF -e $A -e $B -e $C /tmp/available | tr '\n' ' ' | sed 's/ $//'
}

one_name() {
	echo $A >$R/filter
	says $R/filter $A
	is armed "$(status 'armed functions')" 1
	says $R/set_ftrace_filter $A
}

several() {
	echo "$A   $B $C" >$R/filter
	is filter "$(names $R/filter)" "$(in_order)"
	printf '%s\n\n\t%s \n%s\n' $C $B $A >$R/filter
	is filter "$(names $R/filter)" "$(in_order)"
	is armed "$(status 'armed functions')" 3
	echo "$A $A $A" >$R/filter
	is filter "$(names $R/filter)" $A
}

replace_and_append() {
	echo $A >$R/filter
	echo $B >>$R/filter
	echo $C >>$R/filter
	is filter "$(names $R/filter)" "$(in_order)"
	echo $C >$R/filter
	is filter "$(names $R/filter)" $C
	# O_TRUNC alone is enough to empty it; opening for more is not.
	gets ok $R/filter -a
	is filter "$(names $R/filter)" $C
	gets ok $R/filter
	is filter "$(names $R/filter)" $C
	gets ok $R/filter -t
	says $R/filter '#### all functions enabled ####'
	says $R/current_tracer nop
}

without_truncation() {
	echo $A >$R/filter
	gets ok $R/filter "$B\n"
	is filter "$(names $R/filter)" "$(grep -xF -e $A -e $B /tmp/available | tr '\n' ' ' | sed 's/ $//')"
}

removal() {
	echo "$A $B $C" >$R/filter
	echo "!$B" >>$R/filter
	is filter "$(names $R/filter)" "$(grep -xF -e $A -e $C /tmp/available | tr '\n' ' ' | sed 's/ $//')"
	is armed "$(status 'armed functions')" 2
	# One that is there, but not in the filter, is removed as well as it can be.
	echo "!$B" >>$R/filter
	is armed "$(status 'armed functions')" 2
	echo "$A $B !$A" >$R/filter
	is filter "$(names $R/filter)" $B
	echo "!vfs_*" >>$R/filter
	says $R/filter '#### all functions enabled ####'
	says $R/current_tracer nop
	is armed "$(status 'armed functions')" 0
}

several_writes() {
	gets ok $R/filter -t "$A\n" "$B\n"
	is armed "$(status 'armed functions')" 2
	# A word may come in parts, and its end with the close.
	gets ok $R/filter -t "vfs_" "re" "ad vfs_w" "rite\nvfs_op" "en"
	is filter "$(names $R/filter)" "$(in_order)"
	gets ok $R/filter -t "$A"
	is filter "$(names $R/filter)" $A
}

# The kernel's own tracer understands the same patterns.
globs() {
	local pattern
	for pattern in 'vfs_r*' '*vfs_read' '*fs_rea*' 'vfs_*d' 'vfs_?ead' 'vfs_[rw]*' 'vfs_[!rw]*' \
		'vfs_[a-f]*' '*[0-9][0-9]' '?fs_*e' '*s_*_p*' 'v*s*r*d'; do
		# (an empty class or none at all is for the errors)
		echo "$pattern" >$T/set_ftrace_filter
		echo "$pattern" >$R/filter
		grep -v '^#' $T/set_ftrace_filter | grep -vxE "$BEFORE_IDT" >/tmp/stock.filter
		[ -s /tmp/stock.filter ]
		cat $R/filter >/tmp/our.filter
		cmp /tmp/stock.filter /tmp/our.filter
		is "armed by $pattern" "$(status 'armed functions')" "$(grep -c . /tmp/stock.filter)"
	done
	echo >$T/set_ftrace_filter
}

# Sets took to the hundredths of a second that it takes to trace all by a pattern.
trace_all() {
	local start
	start=$(now)
	echo '*' >$R/filter
	took=$(($(now) - start))
}
# Two seconds; on a machine that is slow or busy, not much longer than the kernel's own tracer.
in_time() {
	local start stock
	echo >$R/filter
	echo "took $took hundredths of a second"
	[ $took -ge 200 ] || return 0
	echo 0 >$T/tracing_on
	start=$(now)
	echo '*' >$T/set_ftrace_filter
	echo function >$T/current_tracer
	stock=$(($(now) - start))
	stock_off
	echo "the kernel's own took $stock"
	[ $took -lt $((stock * 3 / 2)) ]
}
once_more() {
	trace_all
	in_time
}

all_by_glob() {
	local took
	echo 0 >$R/tracing_on
	trace_all
	is armed "$(status 'armed functions')" "$(grep -c . /tmp/available)"
	cat $R/filter >/tmp/our.filter
	cmp /tmp/available /tmp/our.filter
	[ "$(status 'skipped matches')" -gt 0 ]
	tries 1 in_time || tries 4 once_more
	is armed "$(status 'armed functions')" 0
}

skipped() {
	local wanted
	# Text symbols of that name where nothing can be hooked: at none of ftrace's places, which
	# can lie behind an endbr64.
	grep -E '^[0-9a-f]+ [tTwW] mem' /proc/kallsyms | cut -d' ' -f1 | sort >/tmp/symbols
	[ -s /tmp/symbols ]
	cut -d' ' -f1 $T/available_filter_functions_addrs | sed 's/^0x//; s/[4567]$/0/; s/[cdef]$/8/' |
		sort -u >/tmp/places
	wanted=$(sed 's/[4567]$/0/; s/[cdef]$/8/' /tmp/symbols | sort | awk '
		NR == FNR { place[$1]; next }
		!($1 in place) { n++ }
		END { print n + 0 }' /tmp/places -)
	[ "$wanted" -gt 0 ]
	echo 'mem*' >$R/filter
	is skipped "$(status 'skipped matches')" "$wanted"
	grep -q '^mem' $R/filter
	echo $A >$R/filter
	is 'skipped by a name' "$(status 'skipped matches')" 0
}

aliases() {
	echo __x64_sys_getppid >$R/filter
	is filter "$(names $R/filter)" "$PARENT"
	echo '!__x64_sys_getppid' >>$R/filter
	is armed "$(status 'armed functions')" 0
}

VARIANT=$(grep -m 1 -E '^[a-z_0-9]+\.(constprop|isra|part)\.0$' /tmp/available)
variants() {
	local base=${VARIANT%%.*}
	echo "$base" >$R/filter
	cat $R/filter
	grep -qxF "$VARIANT" $R/filter
	fails grep -vE "^$base(\..*)?( \[.*\])?\$" $R/filter
	fails grep -q '\.cold' $R/filter
	is armed "$(status 'armed functions')" "$(sed 's/ .*//' /tmp/available | grep -cE "^$base(\..*)?\$")"
	# Said in full it is only that one.
	echo "$VARIANT" >$R/filter
	is filter "$(names $R/filter | tr ' ' '\n' | sort -u)" "$VARIANT"
}

TWICE=$(grep -v '\[' /tmp/available | sort | uniq -d | grep -m 1 -vF .)
duplicates() {
	local count
	count=$(grep -cxF "$TWICE" /tmp/available)
	[ "$count" -gt 1 ]
	echo "$TWICE" >$R/filter
	is armed "$(status 'armed functions')" "$count"
	is lines "$(grep -cxF "$TWICE" $R/filter)" "$count"
	echo "!$TWICE" >>$R/filter
	is armed "$(status 'armed functions')" 0
}

notrace() {
	says $R/notrace '#### no functions disabled ####'
	says $R/current_tracer nop
	echo "$PARENT" >$R/notrace
	# Saying what not to trace starts nothing.
	says $R/current_tracer nop
	says $R/notrace "$PARENT"
	says $R/set_ftrace_notrace "$PARENT"
	echo "$PARENT $(sys sched_yield)" >$R/filter
	is armed "$(status 'armed functions')" 1
	calls turns 10
	is "$PARENT" "$(calls_of "$PARENT")" 0
	is sched_yield "$(calls_of "$(sys sched_yield)")" 10
	echo >$R/notrace
	says $R/notrace '#### no functions disabled ####'
	is armed "$(status 'armed functions')" 2
	calls turns 10
	is "$PARENT" "$(calls_of "$PARENT")" 10
	echo >$R/filter
}

notrace_of_all() {
	few
	cat $R/notrace >/tmp/our.notrace
	echo 0 >$R/tracing_on
	echo function >$R/current_tracer
	is armed "$(status 'armed functions')" \
		$(($(grep -c . /tmp/available) - $(grep -c . /tmp/our.notrace)))
	cat $R/enabled_functions >/tmp/our.enabled
	grep -q '^vfs_' /tmp/our.enabled
	fails grep -vqE '^(vfs|cpu)' /tmp/our.enabled
	echo nop >$R/current_tracer
	echo >$R/notrace
	echo 1 >$R/tracing_on
}

enabled() {
	echo 'vfs_[rw]*' >$R/filter
	hooked_as_said
	# The kernel says which functions have hooks.
	is 'as the filter' "$(sed 's/ .*//' $R/enabled_functions)" "$(sed 's/ .*//' $R/filter)"
	echo >$R/filter
	is count "$(grep -c . $R/enabled_functions)" 0
	is 'in the kernel' "$(grep -c . $T/enabled_functions)" 0
}

available() {
	cat $R/available_filter_functions >/tmp/our.available
	grep -vxE "$BEFORE_IDT" $T/available_filter_functions >/tmp/stock.available
	sort /tmp/our.available >/tmp/our.sorted
	sort /tmp/stock.available >/tmp/stock.sorted
	[ -s /tmp/our.available ]
	cmp /tmp/our.sorted /tmp/stock.sorted
}

# What a CPU calls that starts before it can take a breakpoint is not hooked, also by a pattern.
before_idt() {
	local name=load_current_idt
	grep -qxF $name $T/available_filter_functions
	fails sh -c "echo $name >$R/filter"
	grep -qF $name $R/error_log
	echo 'load_*' >$R/filter
	[ "$(status 'armed functions')" -gt 0 ]
	is 'in the kernel' "$(grep -c "^$name " $T/enabled_functions)" 0
	echo >$R/filter
}

starts_once() {
	# A filter that is written while a tracer runs keeps it and its trace.
	echo "$PARENT" >$R/filter
	calls getppid 5
	echo $A >>$R/filter
	says $R/current_tracer function
	is events "$(calls_of "$PARENT")" 5
	# The tracer that was started by name stays when the filter goes.
	echo >$R/filter
	says $R/current_tracer nop
	few
	echo "$PARENT" >$R/filter
	echo function >$R/current_tracer
	echo 0 >$R/tracing_on
	echo >$R/filter
	says $R/current_tracer function
	echo nop >$R/current_tracer
	echo 1 >$R/tracing_on
}

t 'a name' one_name
t 'several names, with spaces and in lines' several
t '> replaces, >> adds' replace_and_append
t 'without O_TRUNC the list is added to' without_truncation
t '! removes, the last one ends the tracing' removal
t 'several writes, and words in parts' several_writes
t 'patterns mean what they mean to tracefs, in the same order' globs
t 'all functions by a pattern, in time' all_by_glob
t 'a pattern counts what it could not arm' skipped
if grep -q ' __x64_sys_getppid$' /proc/kallsyms; then
	t 'aliases of a function name it' aliases
else
	skip 'aliases of a function name it' 'there is no __x64_sys_getppid'
fi
if [ -n "$VARIANT" ]; then
	t "a name means the compiler's variants too" variants
else
	skip "a name means the compiler's variants too" 'this compiler made none'
fi
t 'a name that several functions have means all of them' duplicates
t 'notrace takes functions away, whatever the filter says' notrace
t 'notrace with an empty filter' notrace_of_all
t 'enabled_functions is what the kernel has hooked for us' enabled
t "available_filter_functions is the kernel's" available
t 'functions that are never hooked' before_idt
t 'a filter starts the tracer only from nop' starts_once
finish
