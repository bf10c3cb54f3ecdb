#!/bin/bash
# Does rftrace behave on a terminal, in a pipe, and when it is used wrongly?
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/host/verdict.sh"
cd "$top"
scripts/tool
kernel=$(scripts/kernel vmlinuz)
unset NO_COLOR PAGER RFTRACE_PAGER LESS
export TERM=xterm

# ends COMMAND-LINE: all that it says, and its exit code.
ends() {
	local code=0
	sh -c "$1" 2>&1 || code=$?
	echo "exit $code"
}

# ends_on_terminal COMMAND-LINE: the same on a terminal.
ends_on_terminal() {
	local code=0
	script -qec "$1" /dev/null </dev/null | tr -d '\r' || code=$?
	echo "exit $code"
}

list="./rftrace list --vmlinux $kernel"
one="$list path_mount"
pager="RFTRACE_PAGER='sed s/^/paged:/'"
verdict "text is paged on a terminal" "$(ends_on_terminal "$pager $one")" $'paged:path_mount\nexit 0'
verdict "by PAGER, if there is no other" "$(ends_on_terminal "PAGER='sed s/^/p:/' $one")" $'p:path_mount\nexit 0'
verdict "not by one that is empty" "$(ends_on_terminal "RFTRACE_PAGER= PAGER='sed s/^/p:/' $one")" $'path_mount\nexit 0'
verdict "nor by one that is not there" "$(ends_on_terminal "RFTRACE_PAGER=/no/such $one")" $'path_mount\nexit 0'
verdict "in a pipe it is not" "$(ends "$pager $one")" $'path_mount\nexit 0'
verdict "nor where there is JSON" "$(ends_on_terminal "$pager ./rftrace why --json --vmlinux $kernel no_such_one" |
	cut -c 1-9)" $'{"name":"\nexit 0'
verdict "a pager may be left early" "$(ends_on_terminal "RFTRACE_PAGER='sed -u -e 1s/.*/first/ -e q' $list")" $'first\nexit 0'
verdict "so may a pipe" "$(ends "$list | head -n 1 | wc -l")" $'1\nexit 0'
# (the pager is interrupted with us, as all that is on a terminal, and goes on)
verdict "a pager outlives Ctrl-C" "$(ends_on_terminal "RFTRACE_PAGER='trap \"\" INT; read -r line; kill -INT \$PPID; wc -l >/dev/null; echo \"\$line\"' $list 'path_mou*'")" $'path_mount\nexit 0'

escape=$'\033'
is_colored() { if [[ $1 == *"$escape"* ]]; then echo colour; else echo none; fi; }
verdict "help is coloured on a terminal" "$(is_colored "$(ends_on_terminal './rftrace --help')")" colour
verdict "not with NO_COLOR" "$(is_colored "$(ends_on_terminal 'NO_COLOR=1 ./rftrace --help')")" none
verdict "nor in a pipe" "$(is_colored "$(ends './rftrace --help')")" none

# said COMMAND-LINE: the tip in what it says, and its exit code.
said() { ends "$1" | sed -nE "s/^ *tip: //p; /^exit /p"; }
verdict "a verb that there is not" "$(said './rftrace exce')" $'a similar subcommand exists: \'exec\'\nexit 2'
verdict "an option that there is not" "$(said './rftrace list --unreach')" $'a similar argument exists: \'--unreachable\'\nexit 2'
verdict "a colour that there is not" "$(said './rftrace list --color alway')" $'a similar value exists: \'always\'\nexit 2'
verdict "a program that is not named" "$(ends './rftrace exec' | tail -n 1)" 'exit 2'

bad=0
./rftrace doctor >/dev/null || bad=$?
verdict "doctor ends with 1 if something is bad" "$bad" "$(./rftrace doctor | grep -c -m 1 BAD || true)"

echo "$passed passed, $failed failed"
((failed == 0))
