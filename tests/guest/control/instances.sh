#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# instances/: users make tracings of their own and remove them, and none disturbs another.
. /tests/lib/ktap.sh

reload
I=$R/instances
S=$T/instances

# at NAME COMMAND...: with that instance in the place of the top one.
at() (
	R=$I/$1
	shift
	"$@"
)

# make_all NAME...: instances of ours.
make_all() {
	local name
	for name; do mkdir "$I/$name"; done
}

# What a new instance says of itself: every file that can be read and whose text is not events or functions.
files_of() {
	(cd "$1" && find . \( -path ./instances -o -path ./options -o -path ./events -o -path ./per_cpu/cpu1 \) -prune -o -type f -perm -400 -print | grep -vE \
		'/(trace|trace_pipe|trace_pipe_raw|raw|snapshot|stats|status|README|trace_stat)(/|$)|functions$|saved_' | sort)
}
# (the shell reads: processes are dear)
state_of() {
	local file line
	for file in $(files_of "$1"); do
		line=
		read -r line <"$1/$file" || :
		echo "$file: $line"
	done
	sed 's/^/option: /' "$1/trace_options"
}

# --- as tracefs

has_the_files() {
	local name
	mkdir $S/stock
	make_all a
	ls $S/stock >/tmp/stock.files
	ls $I/a >/tmp/our.files
	rmdir $S/stock
	# What of tracefs's files we have at the top, we have here.
	while read -r name; do
		if [ -e "$R/$name" ]; then grep -qxF "$name" /tmp/our.files; fi
	done </tmp/stock.files
	# What is the machine's, we do not have here either.
	for name in README available_filter_functions enabled_functions saved_cmdlines saved_tgids printk_formats instances; do
		[ -e $R/$name ]
		fails grep -qxF $name /tmp/stock.files
		fails grep -qxF $name /tmp/our.files
	done
	is 'files of a CPU' "$(ls $I/a/per_cpu/cpu0)" "$(ls $R/per_cpu/cpu0)"
	is options "$(ls $I/a/options)" "$(ls $R/options)"
	is directory "$(stat -c '%a %F' $I/a)" "$(stat -c '%a %F' $R)"
}

# says_there DIRECTORY: what mkdir and rmdir say of names of all kinds.
says_there() (
	set +e
	cd "$1" || exit
	long=$(printf '%0255d' 0)
	for command in 'mkdir a' 'mkdir a' 'rmdir b' 'mkdir a/b' 'rmdir a/options' 'mkdir a/options/x' 'rmdir a/per_cpu/cpu0' \
		'mkdir b/c' 'rmdir a/trace' 'mkdir a/trace' 'mkdir .' 'rmdir .' 'rmdir a/..' "mkdir $long" "rmdir $long" "mkdir ${long}0" \
		'rmdir ../instances' 'mkdir ../x' 'mv a b' 'touch x' 'ln -s a b' 'mkdir -p a' 'rmdir a' 'rmdir a'; do
		echo "$command:"
		$command 2>&1
		echo "rc $?"
	done
	# Names that shells and lists would take for something else.
	for name in 'a b' '*' '-n' 'a
b' "$(printf '\377')" '...' 'filter'; do
		mkdir -- "$name" 2>&1
		echo "rc $?"
		ls -A | od -c
		rmdir -- "$name" 2>&1
		echo "rc $?"
	done
	ls -A
)
names_are_as_in_tracefs() {
	says_there $S >/tmp/stock.said
	says_there $I >/tmp/our.said
	diff /tmp/stock.said /tmp/our.said
	grep -q 'File exists' /tmp/our.said
	grep -q 'No such file' /tmp/our.said
	grep -q 'not permitted' /tmp/our.said
}

# busy DIRECTORY FILE: with the file open, the instance DIRECTORY is not removed, and works.
busy() {
	local dir=$1 file=$2 code
	exec 7<"$dir/$file"
	rmdir "$dir" 2>/tmp/why && code=0 || code=$?
	exec 7<&-
	is "rmdir with $file open" "$code $(sed 's/.*: //' /tmp/why)" '1 Device or resource busy'
}
refused_while_open() {
	local file dir
	for dir in $S/x $I/x; do
		mkdir $dir
		for file in trace current_tracer set_ftrace_filter options/overwrite per_cpu/cpu1/stats trace_pipe; do
			busy $dir $file
		done
		exec 7>$dir/current_tracer
		fails rmdir $dir
		exec 7>&-
		says $dir/current_tracer nop
		rmdir $dir
	done
	make_all x y
	for file in $(cd $I/x && find . -type f -perm -400 ! -path './options/*' ! -path './per_cpu/cpu1/*'); do
		busy $I/x "$file"
	done
	# One of it does not keep another, and the top one keeps none.
	exec 7<$I/y/trace 8<$R/trace
	rmdir $I/x
	exec 7<&- 8<&-
	# A reader that sleeps is one, too.
	make_all x
	cat $I/x/trace_pipe >/tmp/piped &
	pid=$!
	until_true 20 grep -q ') S' /proc/$pid/stat
	fails rmdir $I/x
	echo "$PARENT" >$I/x/filter
	calls getppid 1
	until_true 20 grep -q "$PARENT" /tmp/piped
	fails rmdir $I/x
	kill $pid
	wait $pid || :
	rmdir $I/x
}

# Being there is no use of it.
not_busy_by_place() {
	local dir
	for dir in $S $I; do
		mkdir $dir/x
		(
			cd $dir/x/options
			rmdir $dir/x
			fails ls overwrite 2>/dev/null
			cd $dir
			mkdir x
			rmdir x
		)
	done
}

# --- none disturbs another

changes_nothing_else() {
	make_all a b
	state_of $I/b >/tmp/b.before
	state_of $I/a >/tmp/a.before
	cmp /tmp/a.before /tmp/b.before
	state_of $R >/tmp/top.before
	grep -qx 'option: overwrite' /tmp/b.before
	echo vfs_read >$I/a/filter
	echo function_graph >$I/a/current_tracer
	echo vfs_open >$I/a/notrace
	echo $$ >$I/a/pid
	echo 1 >$I/a/notrace_pid
	echo 1 >$I/a/tracing_cpumask
	echo vfs_write >$I/a/graph_function
	echo vfs_fsync >$I/a/graph_notrace
	echo 3 >$I/a/max_depth
	echo 5 >$I/a/tracing_thresh
	echo EIO,ENOMEM >$I/a/tracing_errno
	echo 0 >$I/a/tracing_on
	echo 777 >$I/a/buffer_size_kb
	echo 64 >$I/a/buffer_subbuf_size_kb
	echo 7 >$I/a/buffer_percent
	echo counter >$I/a/trace_clock
	for option in overwrite funcgraph-proc func-args sleep-time; do
		echo $((1 - $(cat $I/a/options/$option))) >$I/a/options/$option
	done
	fails sh -c "echo no_such_function_at_all >$I/a/filter" 2>/dev/null
	grep -q no_such_function_at_all $I/a/error_log
	fails grep -q . $I/b/error_log
	state_of $I/a >/tmp/a.after
	state_of $I/b >/tmp/b.after
	state_of $R >/tmp/top.after
	cmp /tmp/b.before /tmp/b.after
	cmp /tmp/top.before /tmp/top.after
	# All that was to change has.
	for name in current_tracer filter notrace pid notrace_pid tracing_cpumask graph_function graph_notrace max_depth \
		tracing_thresh tracing_errno tracing_on buffer_size_kb buffer_subbuf_size_kb buffer_percent trace_clock; do
		fails [ "$(grep "^./$name: " /tmp/a.before)" = "$(grep "^./$name: " /tmp/a.after)" ]
	done
	for option in nooverwrite funcgraph-proc func-args nosleep-time; do
		fails grep -qx "option: $option" /tmp/a.before
		grep -qx "option: $option" /tmp/a.after
	done
	# A new one of the name of an old one has nothing of it.
	rmdir $I/a
	make_all a
	state_of $I/a >/tmp/a.again
	cmp /tmp/a.before /tmp/a.again
}

# flip DIRECTORY: turns over its $options.
flip() {
	local option now
	for option in $options; do
		read -r now <"$1/options/$option"
		echo $((1 - now)) >"$1/options/$option"
	done
}

# Some of the top one's options are those of a new one: the same as in tracefs.
begins_with_options() {
	local option options taken=
	mkdir $S/x
	make_all y
	# (those of tracers are not)
	options=$(cd $S/x/options && ls | grep -vE '^func|-time$' && echo function-trace function-fork)
	options=$(for option in $options; do [ ! -e $R/options/$option ] || echo $option; done)
	rmdir $S/x
	flip $R
	flip $T
	make_all x
	mkdir $S/x
	flip $R
	flip $T
	for option in $options; do
		is $option "$(cat $I/x/options/$option)" "$(cat $S/x/options/$option)"
		[ "$(cat $I/x/options/$option)" = "$(cat $I/y/options/$option)" ] || taken="$taken $option"
	done
	rmdir $S/x
	for option in sym-offset overwrite disable_on_free irq-info markers; do
		case "$taken " in *" $option "*) ;; *) fails echo "$option is not taken over:$taken" ;; esac
	done
	case "$taken " in *fork*) fails echo "$taken" ;; esac
	# And those of tracers are not.
	echo 1 >$R/options/func-args
	make_all z
	says $I/z/options/func-args 0
}

all_count() {
	local name
	make_all a b c
	for name in a b c; do echo "$PARENT" >$I/$name/filter; done
	echo "$PARENT" >$R/filter
	calls getppid 1000 0 &
	pid=$!
	calls getppid 500 1
	wait $pid
	is top "$(calls_of "$PARENT")" 1500
	for name in a b c; do
		is $name "$(at $name calls_of "$PARENT")" 1500
		is "$name, CPU 1" "$(at $name stat_of 1 'written events')" 500
	done
	accounts_agree
	at b accounts_agree
	# One that stops, is emptied, or goes, stops no other.
	echo 0 >$I/a/tracing_on
	echo >$I/b/trace
	rmdir $I/c
	calls getppid 10 1
	is top "$(calls_of "$PARENT")" 1510
	is a "$(at a calls_of "$PARENT")" 1500
	is b "$(at b calls_of "$PARENT")" 10
	echo nop >$R/current_tracer
	calls getppid 10 0
	is top "$(calls_of "$PARENT")" 0
	is b "$(at b calls_of "$PARENT")" 20
	# What one reads out, the others have still.
	echo 1 >$I/a/tracing_on
	calls getppid 5 0
	timeout 5 cat $I/a/trace_pipe >/tmp/piped || :
	is read "$(grep -cE "^ *calls-.*: $PARENT <-" /tmp/piped)" 1505
	is b "$(at b calls_of "$PARENT")" 25
}

by_task() {
	make_all a b c
	for name in a b c; do echo 64 >$I/$name/buffer_size_kb; done
	calls getppid 0 >/dev/null &
	one=$!
	calls getppid 0 >/dev/null &
	two=$!
	workers="$workers $one $two"
	echo $one >$I/a/pid
	echo $two >$I/b/pid
	echo $one >$I/c/notrace_pid
	for name in a b c; do echo "$PARENT" >$I/$name/filter; done
	until_true 60 grep -q -- "-$one " $I/a/trace
	until_true 60 grep -q -- "-$two " $I/b/trace
	until_true 60 grep -q -- "-$two " $I/c/trace
	for name in a b c; do
		echo 0 >$I/$name/tracing_on
		events $I/$name/trace | sed -E 's/^.{16}-([0-9]+) .*/\1/' | sort -u >/tmp/pids.$name
	done
	says /tmp/pids.a $one
	says /tmp/pids.b $two
	fails grep -qx $one /tmp/pids.c
	grep -qx $two /tmp/pids.c
}

# As fgraph-multi.tc of the kernel's selftests: what is traced is what the filter says, in each.
graphs() {
	local sched=sched lock=lock
	make_all a b c
	# (what is called all the time takes minutes there)
	[ "$SLOWER" -eq 1 ] || sched=inode lock=pipe
	stock_off
	mkdir $S/s
	for dir in $I/a $S/s; do echo "*$sched*" >$dir/set_ftrace_filter; done
	echo "*$lock*" >$I/b/set_ftrace_filter
	echo 'vfs_*' >$I/c/set_ftrace_filter
	for dir in $I/a $I/b $I/c $S/s; do echo 256 >$dir/buffer_size_kb; done
	for dir in $I/a $I/b $I/c $S/s; do echo function_graph >$dir/current_tracer; done
	calls files 20
	for dir in $I/a $I/b $I/c $S/s; do echo 0 >$dir/tracing_on; done
	for dir in a b c; do cat $I/$dir/trace >/tmp/$dir.trace; done
	cat $S/s/trace >/tmp/s.trace
	rmdir $S/s
	for dir in a b c s; do
		graph_nesting </tmp/$dir.trace | sed 's/.* //' | sort -u >/tmp/$dir.functions
		[ -s /tmp/$dir.functions ]
	done
	fails grep -qv $sched /tmp/a.functions
	fails grep -qv $lock /tmp/b.functions
	fails grep -qv ^vfs_ /tmp/c.functions
	fails grep -qv $sched /tmp/s.functions
}

graph_functions() {
	local one two
	one=$(sys getppid)
	two=$(sys sched_yield)
	make_all a b
	echo "$one" >$I/a/graph_function
	echo "$two" >$I/b/graph_function
	echo 1 >$I/a/max_depth
	for name in a b; do
		echo '*sched* *pid*' >$I/$name/filter
		echo 0 >$I/$name/options/funcgraph-irqs
		echo function_graph >$I/$name/current_tracer
	done
	calls turns 20
	for name in a b; do
		echo 0 >$I/$name/tracing_on
		graph_nesting <$I/$name/trace >/tmp/$name.nesting
	done
	# The outermost are the one function each, in one as deep as was said, in the other deeper.
	is 'depths of a' "$(sed 's/ .*//' /tmp/a.nesting | sort -u | tr '\n' ' ')" '0 '
	is 'roots of a' "$(sed -n 's/^0 //p' /tmp/a.nesting | sort -u)" "$one"
	[ "$(grep -c "^0 $one\$" /tmp/a.nesting)" -ge 20 ]
	is 'roots of b' "$(sed -n 's/^0 //p' /tmp/b.nesting | sort -u)" "$two"
	[ "$(grep -c "^0 $two\$" /tmp/b.nesting)" -ge 20 ]
	grep -q '^1 ' /tmp/b.nesting
	# Nothing of a removed one is in a later one, whose calls were open all the time.
	rmdir $I/a
	make_all a
	echo vfs_read >$I/a/filter
	echo function_graph >$I/a/current_tracer
	calls files 5
	echo 0 >$I/a/tracing_on
	is 'functions of the new one' "$(graph_nesting <$I/a/trace | sed 's/.* //' | sort -u)" vfs_read
}

hooked_as_said_by_all() {
	is enabled "$(sed 's/ .*//' $R/enabled_functions | sort)" "$(sed 's/ .*//' $T/enabled_functions | sort)"
}
# All of them hook what they say, and nothing is left.
hooks_come_and_go() {
	stock_off
	echo nop >$R/current_tracer
	is hooked "$(cat $T/enabled_functions)" ''
	make_all a b
	echo vfs_read >$I/a/filter
	echo vfs_write >$I/b/filter
	is hooked "$(sed 's/ .*//' $T/enabled_functions | sort | tr '\n' ' ')" 'vfs_read vfs_write '
	# The top one's file, as the kernel's, tells of all.
	hooked_as_said_by_all
	echo function_graph >$I/b/current_tracer
	is hooked "$(sed 's/ .*//' $T/enabled_functions | sort | tr '\n' ' ')" 'vfs_read vfs_write '
	rmdir $I/b
	is hooked "$(sed 's/ .*//' $T/enabled_functions | sort | tr '\n' ' ')" 'vfs_read '
	rmdir $I/a
	is hooked "$(cat $T/enabled_functions)" ''
}

# --- CPUs and modules

CPU1=/sys/devices/system/cpu/cpu1/online
cpu_comes_back() {
	make_all a b c
	echo "$PARENT" >$I/a/filter
	calls getppid 3 1
	echo 0 >$CPU1
	# One that began without the CPU, and one that begins when it is back.
	echo "$PARENT" >$I/b/filter
	mkdir $I/d
	rmdir $I/d
	echo 1 >$CPU1
	echo "$PARENT" >$I/c/filter
	calls getppid 7 1
	is a "$(at a stat_of 1 'written events')" 10
	is b "$(at b stat_of 1 'written events')" 7
	is c "$(at c stat_of 1 'written events')" 7
}

module_comes_and_goes() {
	local mod=/lib/modules/$RELEASE/$TARGET_MOD.ko name
	if [ -e /sys/module/"$TARGET_MOD" ]; then rmmod "$TARGET_MOD"; fi
	make_all a b c
	# All but those with another first letter: what comes later is traced, too.
	for name in a b; do
		echo "[!${TARGET_MOD_FUNC%"${TARGET_MOD_FUNC#?}"}]*" >$I/$name/notrace
		echo function >$I/$name/current_tracer
	done
	before=$(at a status 'armed functions')
	# And one waits for it.
	echo ":mod:$TARGET_MOD" >$I/c/filter
	insmod "$mod"
	grep -q "^$TARGET_MOD_FUNC " $I/c/filter
	until_true 10 sh -c "$TARGET_MOD_ACTION"
	for name in a b; do
		echo 0 >$I/$name/tracing_on
		[ "$(at $name status 'armed functions')" -gt "$before" ]
		cat $I/$name/trace >/tmp/module.trace
		grep -q "\[$TARGET_MOD\]" /tmp/module.trace
	done
	echo "$TARGET_MOD_FUNC" >$I/c/filter
	echo "$TARGET_MOD_FUNC $PARENT" >$R/filter
	rmmod "$TARGET_MOD"
	fails grep -q "$TARGET_MOD_FUNC" $I/c/filter
	says $R/filter "$PARENT"
	is armed "$(at a status 'armed functions')" "$before"
	is armed "$(at b status 'armed functions')" "$before"
	for name in a b c; do rmdir $I/$name; done
	echo nop >$R/current_tracer
	# (the module's own functions were in it)
	is hooked "$(cat $T/enabled_functions)" ''
}

# --- many at once

# As instances/instance.tc of the kernel's selftests. slam COUNT NAME...
slam() {
	local left=$1 name
	shift
	while [ $left -gt 0 ]; do
		for name; do mkdir $I/"$name" || :; done
		for name; do rmdir $I/"$name" || :; done
		left=$((left - 1))
	done 2>/dev/null
}
work_in() {
	while :; do
		for name in x y z; do
			echo "$PARENT" >$I/$name/filter
			read -r line <$I/$name/trace
			echo function_graph >$I/$name/current_tracer
		done
	done 2>/dev/null
}
races() {
	local pids= pid
	background work_in
	background calls getppid 0
	for number in 1 2 3 4 5; do
		slam "$(some 25)" x y z &
		pids="$pids $!"
	done
	ls -lR $I >/dev/null 2>&1 || :
	for pid in $pids; do wait $pid; done
	end_background
	for name in x y z; do
		if [ -d $I/$name ]; then rmdir $I/$name; fi
		mkdir $I/$name
		says $I/$name/current_tracer nop
		rmdir $I/$name
	done
	is left "$(ls -A $I)" ''
}

small_as_long_as_idle() {
	local before after
	free_kb() { sed -n 's/^MemFree: *\([0-9]*\) kB/\1/p' /proc/meminfo; }
	before=$(free_kb)
	for number in 1 2 3 4 5 6 7 8; do make_all i$number; done
	after=$(free_kb)
	# One buffer would be more than half of that.
	[ $((before - after)) -lt $((8 * SIZE_KB)) ]
	says $I/i1/buffer_size_kb $SIZE_KB
	for number in 1 2 3 4 5 6 7 8; do rmdir $I/i$number; done
}

# --- the module goes

goes_with_instances() {
	stock_off
	make_all a b c
	echo "$PARENT" >$I/a/filter
	echo "$PARENT" >$I/b/filter
	echo function_graph >$I/b/current_tracer
	echo 1 >$I/a/snapshot
	# Not while a file of one is open.
	calls hold 1000 $I/b/trace >/tmp/held &
	pid=$!
	until_true 20 grep -q open /tmp/held
	fails rmmod rust_ftrace
	[ -e $I/a ]
	kill $pid
	wait $pid || :
	calls getppid 5
	is a "$(at a calls_of "$PARENT")" 5
	rmmod rust_ftrace
	[ ! -e $R ]
	is hooked "$(cat $T/enabled_functions)" ''
	load
	is left "$(ls -A $I)" ''
}

# A task is still in a directory of which the code is gone.
goes_from_under() {
	mkdir $I/a
	(
		cd $I
		rmmod rust_ftrace
		ls -la . >/dev/null 2>&1 || :
		stat . >/dev/null
		fails mkdir x 2>/dev/null
		fails rmdir a 2>/dev/null
		load
		fails mkdir x 2>/dev/null
		stat . >/dev/null
	)
	make_all a
}

# slam_for_ever, while the module goes and comes.
goes_in_a_race() {
	local left
	slam_on() { while :; do slam 1 x y; done; }
	background slam_on
	background slam_on
	left=$(some 4)
	while [ "$left" -gt 0 ]; do
		until_true 30 rmmod rust_ftrace
		[ ! -e $R ]
		usleep 20000
		load
		until_true 30 [ -d $I ]
		usleep 100000
		left=$((left - 1))
	done
	end_background
	# (a mkdir may still be at work)
	until_true 10 emptied
}
emptied() {
	rmdir $I/* 2>/dev/null
	[ -z "$(ls -A $I)" ]
}

t 'an instance has the files that those of tracefs have' has_the_files
texts 'names and errors are those of tracefs' names_are_as_in_tracefs
t 'it is not removed while a file of it is open' refused_while_open
t 'who is in its directory does not keep it' not_busy_by_place
t 'what is changed in one is changed nowhere else' changes_nothing_else
texts 'it begins with the options that tracefs takes over' begins_with_options
t 'each counts every call of the same function' all_count
t 'each has tasks of its own' by_task
t 'each has calls of its own: filters' graphs
texts 'each has calls of its own: graph_function' graph_functions
t 'what they hook comes and goes with them' hooks_come_and_go
if [ -e $CPU1 ]; then
	t 'a CPU goes and comes' cpu_comes_back
else
	skip 'a CPU goes and comes' 'the kernel cannot take a CPU offline'
fi
if [ -n "$TARGET_MOD" ]; then
	t 'a module comes and goes' module_comes_and_goes
else
	skip 'a module comes and goes' 'no module to trace'
fi
t 'it takes little as long as it does nothing' small_as_long_as_idle
t 'five that make and remove the same ones do no harm' races
t 'the module takes them with it' goes_with_instances
t 'it leaves who is in their directory alone' goes_from_under
t 'it goes while they are made and removed' goes_in_a_race
finish
