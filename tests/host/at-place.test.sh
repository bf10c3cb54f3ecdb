#!/bin/bash
# Does scripts/internal/at-place build what differs, and only that? Made-up checkouts of a crate that prints a word, with mtimes
# that mislead. Needs what building the module needs.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
. "$top/scripts/internal/lib.sh"
. "$top/tests/host/verdict.sh"
if [[ -n $KDIR ]]; then
	echo "0 passed, 0 failed"
	exit
fi
mkdir -p "$cache/build"
dir=$(mktemp -d "$cache/build/at-place-XXXXXX")
trap 'rm -rf "$dir"' EXIT
export PLACES=$dir/places
unset CARGO_TARGET_DIR

# checkout NAME WORD: one whose crate prints WORD, older than anything that was built.
checkout() {
	mkdir -p "$dir/$1/tools/src"
	cp -r "$top/scripts" "$top/.gitignore" "$dir/$1/"
	printf '[package]\nname = "word"\nversion = "0.1.0"\nedition = "2021"\n' >"$dir/$1/tools/Cargo.toml"
	printf 'mod word;\nfn main() { println!("{}", word::WORD) }\n' >"$dir/$1/tools/src/main.rs"
	printf 'pub const WORD: &str = "%s";\n' "$2" >"$dir/$1/tools/src/word.rs"
	# shellcheck disable=SC2016
	printf '%s\n' '#!/bin/sh' 'cd "$(dirname "$0")/../tools" || exit' 'export CARGO_TARGET_DIR=$PWD/target' \
		'../scripts/toolchain cargo run 2>&1 | sed -nE "s/^ *Compiling.*/builds/; /^ +[A-Z]/!p"' >"$dir/$1/scripts/print"
	chmod +x "$dir/$1/scripts/print"
	find "$dir/$1" -exec touch -d '2020-01-01' {} +
}
# prints CHECKOUT: what the crate of it does.
prints() { "$dir/$1/scripts/internal/at-place" test scripts/print 2>&1 | paste -sd' '; }

checkout first one
checkout second one
checkout third three
verdict 'a first build' "$(prints first)" 'builds one'
verdict 'it is known again' "$(prints first)" 'one'
verdict 'in another checkout, too' "$(prints second)" 'one'
verdict 'what differs is built' "$(prints third)" 'builds three'
verdict 'and what differs back again' "$(prints second)" 'builds one'
printf 'pub const WORD: &str = "two";\n' >"$dir/second/tools/src/word.rs"
touch -d '2020-01-01' "$dir/second/tools/src/word.rs"
verdict 'a changed file is built, however old' "$(prints second)" 'builds two'
rm "$dir/second/tools/src/word.rs"
verdict 'a removed file is missed' "$(prints second | grep -c 'file not found for module')" 1
verdict 'nothing of that stays' "$(prints third)" 'builds three'

# While one is at work, another has a place of its own.
# shellcheck disable=SC2016
printf '%s\n' '#!/bin/sh' 'touch "$0.at-work"; echo "${0%/scripts/*}"; while [ ! -e "$0.go-on" ]; do sleep 0.1; done' >"$dir/first/scripts/stay"
chmod +x "$dir/first/scripts/stay"
"$dir/first/scripts/internal/at-place" test scripts/stay >"$dir/said" &
for ((i = 0; i < 600; i++)); do [[ -e $PLACES/test-0/scripts/stay.at-work ]] || sleep 0.1; done
verdict 'two at a time' "$(prints third)" 'builds three'
verdict 'have two places' "$(ls "$PLACES" | grep -v lock | paste -sd' ')" 'test-0 test-1'
touch "$PLACES/test-0/scripts/stay.go-on"
wait $!
verdict 'the first is in its own' "$(cat "$dir/said")" "$PLACES/test-0"
verdict 'which is free then' "$(prints first)" 'builds one'

echo "$passed passed, $failed failed"
((failed == 0))
