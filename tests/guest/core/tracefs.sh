#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# docs/tracefs.md against tracefs and our directory: each of tracefs's files is listed, and what is listed is as it says.
. /tests/lib/ktap.sh

reload
I=instances/tracefs-md

# "FILE HERE" of each file in the tables.
sed -nE 's/^\| (`[^|]*`) \| ([a-z ]*) \|.*/\1 | \2/p' /tests/tracefs.md | awk -F ' [|] ' '{
	count = split($1, names, /`(, `)?/)
	for (i = 1; i <= count; i++) if (names[i] != "") print names[i] " " $2
}' | sed 's/left out/left-out/' >/tmp/listed

# listed HERE...: the files that are so.
listed() {
	local here
	for here; do sed -n "s/ $here\$//p" /tmp/listed; done
}

# general: paths as the tables have them.
general() {
	sed -E 's|^\./||; s|per_cpu/cpu[0-9]+/|per_cpu/cpuN/|; s|^trace_stat/function[0-9]+$|trace_stat/functionN|
		s|^(rv/monitors)/.*/|\1/NAME/|' | sort -u
}

# files_of DIRECTORY: all files below it but those of instances, and of events, of which there are thousands.
files_of() {
	(
		cd "$1"
		find . \( -path ./instances -o -path ./events \) -prune -o \( -type f -o -type l \) -print
		find events -maxdepth 1 -type f
	) | general
}

# Of the directories of events: those of ftrace, whose formats are listed by name, and of another system.
files_of_events() {
	(
		cd "$1"
		find events/ftrace -type f | sed -E '/\/format$/! s|^events/ftrace/[^/]+/|events/ftrace/EVENT/|'
		find events/sched -maxdepth 1 -type f | sed 's|sched|SYSTEM|'
		find events/sched/sched_switch events/syscalls/sys_enter_read -type f |
			sed -E 's|^events/[^/]*/[^/]*/|events/SYSTEM/EVENT/|'
	) | sort -u
}

# none_more FILE KNOWN WHAT: FILE has no line that KNOWN does not have.
none_more() {
	is "$3" "$(grep -vxFf "$2" "$1" | tr '\n' ' ')" ''
}

the_tables() {
	[ "$(wc -l </tmp/listed)" -gt 150 ]
	fails grep -vE '^[A-Za-z0-9_/-]+ (ours|alias|inert|left-out)$' /tmp/listed
	is 'listed twice' "$(cut -d' ' -f1 /tmp/listed | sort | uniq -d)" ''
}

listed_all() {
	cut -d' ' -f1 /tmp/listed >/tmp/names
	files_of $T >/tmp/theirs
	[ "$(wc -l </tmp/theirs)" -gt 80 ]
	none_more /tmp/theirs /tmp/names 'in tracefs, and not in docs/tracefs.md'
	files_of_events $T >/tmp/theirs
	[ "$(wc -l </tmp/theirs)" -gt 20 ]
	none_more /tmp/theirs /tmp/names 'in the events of tracefs, and not in docs/tracefs.md'
	mkdir $T/$I
	files_of $T/$I >/tmp/theirs
	rmdir $T/$I
	none_more /tmp/theirs /tmp/names "in tracefs's instances, and not in docs/tracefs.md"
}

# (our directory has other files besides)
as_listed() {
	(cd $R && find . -path ./instances -prune -o \( -type f -o -type l \) -print) | general >/tmp/ours
	listed ours alias inert >/tmp/wanted
	none_more /tmp/wanted /tmp/ours 'listed, and not in our directory'
	listed left-out >/tmp/unwanted
	is 'left out, and in our directory' "$(grep -xFf /tmp/unwanted /tmp/ours | tr '\n' ' ')" ''
	(cd $R && find . -type l) | general >/tmp/links
	listed alias | sort | diff - /tmp/links
}

# What an instance has in tracefs it has here, unless it is left out.
instances_too() {
	mkdir $T/$I
	files_of $T/$I >/tmp/theirs
	rmdir $T/$I
	listed ours alias inert >/tmp/wanted
	grep -xFf /tmp/wanted /tmp/theirs >/tmp/wanted.here
	mkdir $R/$I
	files_of $R/$I >/tmp/ours
	rmdir $R/$I
	[ "$(wc -l </tmp/wanted.here)" -gt 50 ]
	none_more /tmp/wanted.here /tmp/ours "in tracefs's instances, and not in ours"
}

inert_ones_say_so() {
	local f
	for f in $(listed inert); do
		grep -A1 "^  $f\$" $R/README >/tmp/help
		grep -E 'no effect|there are no|empty: ' /tmp/help
	done
}

# same FILE DATA...: writing ends as in tracefs, as does reading then.
same() {
	local file=$1
	shift
	is "writing '$*' to $file" "$(fileio write $R/"$file" "$@")" "$(fileio write $T/"$file" "$@")"
	is "$file" "$(cat $R/"$file")" "$(cat $T/"$file")"
}

# In tracefs, too, nothing is on.
no_events() {
	local value
	is available_events "$(cat $R/available_events)" ''
	same show_event_filters x
	same show_event_triggers x
	for value in '' '\n' ' ' no_such 'no_such\n' '!no_such' '!sched:no_such' no_such: 'a:b:c' '*' 'ftrace:*' '!ftrace:function' \
		'!:mod:no_such' '!*:*' '!*:*\n' '!:'; do
		same set_event -t "$value"
		same set_event -a "$value"
	done
	is set_event "$(cat $R/set_event)" ''
	# What they have and we do not.
	for value in '*:*' : sched:sched_switch '!sched:sched_switch' '!sched:*' '!*:* sched:*' :mod:no_such; do
		echo >$R/error_log
		gets 'write EINVAL' $R/set_event "$value"
		is set_event "$(cat $R/set_event)" ''
		grep -E '^\[ *[0-9.]+\] set_event: error: There are no events' $R/error_log
		value=${value#'!*:* '}
		grep -xF "  Command: $value" $R/error_log
	done
	for value in '' '\n' 0 2 x '!x'; do same events/enable "$value"; done
	gets 'write EINVAL' $R/events/enable 1
	says $R/events/enable 0
}

# (tracefs knows no !, and ends with EPERM for what no process can have)
pids_of_events() {
	local file value
	for file in set_event_pid set_event_notrace_pid; do
		for value in '' '\n' x 1 '1\n' '2 3\n' '-1' 1x 0x10; do
			same $file -a "$value"
		done
		same $file -t '77\n'
		same $file -t ''
		gets ok $R/$file '5 6 7'
		gets ok $R/$file -a '!6'
		is $file "$(tr '\n' ' ' <$R/$file)" '5 7 '
		echo >$R/error_log
		gets 'write EINVAL' $R/$file -a 4194304
		grep "$file: error: No process" $R/error_log
		is $file "$(tr '\n' ' ' <$R/$file)" '5 7 '
	done
	# Each list is one of its own, and those of an instance too.
	echo 1 >$R/set_event_pid
	mkdir $R/$I
	is instance "$(cat $R/$I/set_event_pid)" ''
	echo 2 >$R/$I/set_event_pid
	says $R/set_event_pid 1
	rmdir $R/$I
	echo >$R/set_event_pid
	echo >$R/set_event_notrace_pid
	is cleared "$(cat $R/set_event_pid $R/set_event_notrace_pid)" ''
	# They change nothing: calls of others are recorded.
	echo 1 >$R/set_event_pid
	echo $$ >$R/set_event_notrace_pid
	echo "$PARENT" >$R/filter
	calls getppid 3
	is calls "$(calls_of "$PARENT")" 3
	echo >$R/set_event_pid
	echo >$R/set_event_notrace_pid
}

cmdlines_size() {
	local value before
	before=$(cat $T/saved_cmdlines_size)
	for value in '' '\n' x 0 1 128 '4096\n' 32768 32769 99999999999999999999999 -1; do
		is "writing '$value'" "$(fileio write $R/saved_cmdlines_size "$value")" \
			"$(fileio write $T/saved_cmdlines_size "$value")"
		says $R/saved_cmdlines_size 32768
	done
	echo "$before" >$T/saved_cmdlines_size
}

total_info() {
	local functions
	functions=$(sed 's/ .*//' $R/dyn_ftrace_total_info)
	is functions "$functions" "$(wc -l <$R/available_filter_functions)"
	grep -xE '[0-9]+ pages:[1-9][0-9]* groups: 1' $R/dyn_ftrace_total_info
}

t 'the tables can be read' the_tables
t "all of tracefs's files are listed" listed_all
t 'our directory is as listed' as_listed
t "instances have what tracefs's have" instances_too
t 'what is inert says so in README' inert_ones_say_so
texts 'files about events are read and written as in tracefs where there are none' no_events
texts 'lists of tasks for events hold them, and change nothing' pids_of_events
texts 'saved_cmdlines_size takes what it does in tracefs' cmdlines_size
t 'dyn_ftrace_total_info counts our functions' total_info
finish
