#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
# ftrace dies while we hook functions.
. /tests/lib/ktap.sh
. /tests/lib/dying.sh
reload

# (one test: between two of them all would be put back, which cannot be done)
dies() {
	mkdir $R/instances/hooked $R/instances/dying
	# (one that hooks already, and one whose hook ftrace dies of)
	echo "$PARENT" >$R/instances/hooked/filter
	break_site
	fails sh -c "echo $F >$R/instances/dying/filter"
	is_dead
	we_stay
	works

	# What was hooked still is, and nothing more can be.
	echo >$R/instances/hooked/trace
	calls getppid 30 0
	is hits "$(grep -cE "^ *calls-[0-9]+ .*: $PARENT <-" $R/instances/hooked/trace)" 30
	fails sh -c "echo $PARENT >$R/filter"
	fails sh -c "echo 1 >$R/function_profile_enabled"
	works

	# Instances go, but not what hooks may use.
	rmdir $R/instances/hooked
	rmdir $R/instances/dying
	[ ! -e $R/instances/hooked ]
	works
	we_stay
	is_dead
}

t 'ftrace dies while it hooks functions for us' dies
over
