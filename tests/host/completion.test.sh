#!/bin/bash
# Do shells complete what is typed for rftrace, as it is installed?
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/tests/host/verdict.sh"
skipped=0

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
DESTDIR=$folder PREFIX=/usr "$top/scripts/install-tool"
installed=$folder/usr
export PATH=$installed/bin:$PATH

# typed KEYS: the words of the line that bash has made of the keys, each in <>. On a terminal, as it completes
# nowhere else; they are there before it asks for them.
typed() {
	local keys=$1
	# (at the begin of the line, what shows its words instead)
	printf '%s\001printf "<%%s>" \005\nexit\n' "$keys" >"$folder/keys"
	# (its first line says what the terminal can do)
	cat >"$folder/rc" <<-END
		PS1= PS2=
		bind 'set enable-bracketed-paste off'
		cd "$folder"
		. "$installed/share/bash-completion/completions/rftrace"
		printf 'ready\n'
	END
	script -qec "bash --noprofile --rcfile $folder/rc -i" /dev/null <"$folder/keys" 2>&1 | tr -d '\r' |
		grep -ao '<[^%].*>' | tail -n 1
}

verdict "a verb is completed" "$(typed $'rftrace do\t')" '<rftrace><doctor>'
verdict "an option is completed" "$(typed $'rftrace list --unr\t')" '<rftrace><list><--unreachable>'
if grep -qw path_mount /proc/kallsyms; then
	verdict "a function is completed" "$(typed $'rftrace why path_mou\t')" '<rftrace><why><path_mount>'
else
	echo "skipped: a function is completed: this kernel does not name its functions"
	skipped=1
fi
touch "$folder/some-vmlinux"
verdict "a file is completed" "$(typed $'rftrace why --vmlinux some-\t')" '<rftrace><why><--vmlinux><some-vmlinux>'
verdict "a program is completed" "$(typed $'rftrace exec rftr\t')" '<rftrace><exec><rftrace>'
verdict "of nothing no function is" "$(typed $'rftrace why zz_no_such_\t')" '<rftrace><why><zz_no_such_>'

for file in zsh/site-functions/_rftrace fish/vendor_completions.d/rftrace.fish man/man1/rftrace.1; do
	verdict "there is $file" "$(test -s "$installed/share/$file" && echo yes)" yes
done

echo "$passed passed, $failed failed, $skipped skipped"
((failed == 0))
