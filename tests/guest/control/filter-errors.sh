#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# What cannot be had is refused, is named, and changes nothing.
. /tests/lib/ktap.sh

only_texts

reload
A=vfs_read
B=vfs_write
UNTRACEABLE=
for f in memset memcpy do_syscall_64; do
	if grep -q " [tT] $f\$" /proc/kallsyms && ! grep -qxF $f /tmp/available; then UNTRACEABLE=$f; fi
done
long=$(head -c 300 /dev/zero | tr '\0' a)
huge=$(head -c 5000 /dev/zero | tr '\0' a)

# All that a refused write must leave as it was.
state() {
	cat $R/filter $R/notrace $R/current_tracer $R/tracing_on $R/enabled_functions $T/enabled_functions
	grep -E '^(filter|notrace|armed functions|skipped matches):' $R/status
}

# refused FILE WORD [TEXT [FLAGS]]: TEXT (WORD alone) is, and WORD is named.
refused() {
	local file=$1 word=$2 text=${3:-$2} flag before
	for flag in ${4:--t}; do
		echo >$R/error_log
		state >/tmp/state.before
		before=$(dmesg | wc -l)
		gets 'write EINVAL' $R/"$file" "$flag" "$text\n"
		state >/tmp/state.after
		cmp /tmp/state.before /tmp/state.after
		# Which file, which word (a caret is under its first byte), and why; the kernel's log too.
		dmesg | awk -v word="$word" -v file="$file" -v before="$before" '
			# (very long ones may be cut)
			BEGIN { word = substr(word, 1, 200) }
			FILENAME != "-" {
				print
				lines++
				said += $0 ~ "^\\[ *[0-9]+[.][0-9]+\\] " file ": error: [A-Z]"
			}
			FILENAME != "-" && /^  Command: / { command = $0 }
			FILENAME != "-" && /^ *\^$/ { at = index($0, "^") }
			FILENAME == "-" && ++logged > before && index($0, word) { in_dmesg = 1 }
			END {
				if (lines != 3) print lines " lines in the log"
				if (!said) print "no error of " file
				if (substr(command, at, length(word)) != word) print "the caret is not at " word
				if (!in_dmesg) print word " is not in dmesg"
				exit lines != 3 || !said || !in_dmesg || substr(command, at, length(word)) != word
			}' $R/error_log -
	done
}

each_error() {
	local file=$1
	refused "$file" no_such_function no_such_function '-t -a'
	refused "$file" '*no_such_function*'
	refused "$file" '!no_such_function'
	refused "$file" '!no_such*'
	refused "$file" '!'
	refused "$file" 'vfs_[rw'
	refused "$file" ":"
	refused "$file" "$A:nonsense"
	refused "$file" "$A:mod"
	refused "$file" "$A:mod:"
	refused "$file" "!$A:nonsense"
	refused "$file" "$long"
	refused "$file" "%s%s%n"
}

with_an_empty_list() {
	each_error filter
	each_error notrace
	says $R/current_tracer nop
}

with_a_list() {
	local file
	echo "$B" >$R/notrace
	echo "$A $B" >$R/filter
	for file in filter notrace; do
		refused $file no_such_function no_such_function '-t -a'
		refused $file '!no_such*'
		refused $file "$A:nonsense"
	done
	is filter "$(names $R/filter | tr ' ' '\n' | sort | tr '\n' ' ')" "$A $B "
	echo >$R/filter
	echo >$R/notrace
}

untraceable() {
	refused filter $UNTRACEABLE
	grep -qi 'cannot be traced' $R/error_log
	refused filter no_such_function
	fails grep -qi 'cannot be traced' $R/error_log
}

# What is nearest to a name that is not there is said in the same line, and in the kernel's log.
near_names() {
	local file
	for file in filter notrace graph_function graph_notrace; do
		refused $file vfs_raed
		grep -E "^\[ *[0-9]+\.[0-9]+\] $file: error: No traceable function matches; did you mean $A(, [a-z_0-9]+){0,2}\?$" \
			$R/error_log
		dmesg | tail -n 1 | grep "$file: 'vfs_raed': .*; did you mean $A[,?]"
	done
	refused filter vfs_raed:traceoff
	grep "; did you mean $A[,?]" $R/error_log
	refused filter '!vfs_raed'
	grep "; did you mean $A[,?]" $R/error_log
	# Names that can be traced only.
	echo >$R/error_log
	gets 'write EINVAL' $R/filter "${UNTRACEABLE:-memcpy}x\n"
	fails grep -wE "(mean|,) ${UNTRACEABLE:-memcpy}[,?]" $R/error_log
	# Nothing is near; a pattern is no name.
	refused filter zzqqxx
	fails grep 'did you mean' $R/error_log
	refused filter 'vfs_raed*'
	fails grep 'did you mean' $R/error_log
	# What was meant by the name of an inline function is another with words around it.
	if ! grep -qxF kfree_skb /tmp/available; then
		refused filter kfree_skb
		grep -E 'did you mean ([a-z_0-9]*kfree_skb[a-z_0-9]*(, |\?)){3}$' $R/error_log
	fi
}

one_bad_among_good() {
	echo $B >$R/filter
	refused filter no_such_function "$A no_such_function vfs_open"
	refused filter no_such_function "!$B no_such_function"
	# (the log shows the line, not all that was written)
	refused filter no_such_function "$A\nvfs_open no_such_function\nvfs_open"
	is filter "$(names $R/filter)" $B
	echo >$R/filter
}

shell_says() {
	echo $B >$R/filter
	# shellcheck disable=SC2016
	fails sh -c "echo no_such_function >$R/filter" 2>/tmp/said
	cat /tmp/said
	grep -q 'Invalid argument' /tmp/said
	is filter "$(names $R/filter)" $B
	echo >$R/filter
}

after_an_error() {
	# What was taken in the same opening before stays; what comes later is taken again.
	gets 'write EINVAL' $R/filter -t "$A\n" "no_such_function\n"
	is filter "$(names $R/filter)" $A
	# A word without an end is taken at the close, which has no way to refuse it.
	gets ok $R/filter -t no_such_function
	is filter "$(names $R/filter)" $A
	grep -q no_such_function $R/error_log
	echo >$R/filter
}

too_long() {
	echo $B >$R/filter
	state >/tmp/state.before
	gets 'write EINVAL' $R/filter -t "$huge\n"
	gets 'write EINVAL' $R/filter -t "$huge"
	gets 'write EINVAL' $R/filter -t "$long" "$long" "$long" "$long" "$long"
	state >/tmp/state.after
	cmp /tmp/state.before /tmp/state.after
	echo >$R/filter
}

log_is_a_ring() {
	local i
	echo >$R/error_log
	is empty "$(cat $R/error_log)" ''
	for i in 1 2 3 4 5 6 7 8 9 10; do
		gets 'write EINVAL' $R/filter "no_such_function_$i\n"
	done
	# As many as tracefs keeps, the newest last.
	is lines "$(grep -c 'Command:' $R/error_log)" 8
	is last "$(grep 'Command:' $R/error_log | tail -n 1)" '  Command: no_such_function_10'
	is first "$(grep 'Command:' $R/error_log | head -n 1)" '  Command: no_such_function_3'
	echo >$R/error_log
	is empty "$(cat $R/error_log)" ''
}

many_words() {
	# More than fit a page, in one write by one program.
	grep -v '\[' /tmp/available | cut -d' ' -f1 | grep -m 300 -E '^[a-z_0-9]+$' >/tmp/many
	[ "$(wc -c </tmp/many)" -gt 4096 ]
	cat /tmp/many >$R/filter
	cut -d' ' -f1 $R/filter | sort -u >/tmp/many.back
	sort -u /tmp/many >/tmp/many.sorted
	# (and their variants)
	sed 's/\..*//' /tmp/many.back | sort -u | cmp - /tmp/many.sorted
	echo >$R/filter
}

t 'each error, with nothing in the lists' with_an_empty_list
t 'errors with both lists in use' with_a_list
if [ -n "$UNTRACEABLE" ]; then
	t 'the log tells names that cannot be traced from names that are not there' untraceable
else
	skip 'the log tells names that cannot be traced' 'all known ones can be'
fi
t 'names that are near are named' near_names
t 'one bad word among good ones: none is taken' one_bad_among_good
t 'the shell says so' shell_says
t 'before and after an error in one opening' after_an_error
t 'words longer than any name' too_long
t 'the error log keeps the last eight, and is cleared by a write' log_is_a_ring
t 'hundreds of words at once' many_words
finish
