# SPDX-License-Identifier: GPL-2.0
# Tasks that sleep in a call of the module known_calls, whose files are in $K.

waits() { grep -q 'known_waiting' "/proc/$1/stack" || grep -q '^State:.*S (' "/proc/$1/status"; }
# sleeper [THEN]: a task that waits to be woken, in known_waiting, and then does THEN; its ID is in $sleeper.
sleeper() {
	sh -c "echo 1 >$K/wait; ${1:-:}" &
	sleeper=$!
	until_true 20 waits $sleeper
}
# woken: wakes it, and waits for its end.
woken() {
	echo 1 >$K/wake
	wait $sleeper
	echo 0 >$K/wake
}
