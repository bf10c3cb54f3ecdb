#!/bin/bash
# Does scripts/internal/check-comments bite? Made-up files, each with one thing wrong, and some with none.
set -euo pipefail
check=$(cd "$(dirname "$0")/../.." && pwd)/scripts/internal/check-comments
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0

# expect NAME SUFFIX WANTED: what is found in standard input as a file of that kind. WANTED: lines "LINE: WHAT".
expect() {
	local got rc=0
	cat >"$dir/file.$2"
	got=$("$check" "$dir/file.$2" | sed "s|^$dir/file.$2:||" | cut -d: -f1,2; exit "${PIPESTATUS[0]}") || rc=$?
	if [[ $got == "$3" && $((rc != 0)) == $((${#3} != 0)) ]]; then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf '%s\n' "FAIL: $1: wanted" "$3" "got, with exit code $rc" "$got"
	fi
}
question='a summary that begins with a question word, or with "The same"'
long=$(printf 'x%.0s' {1..100})

expect 'nothing wrong' rs '' <<EOF
//! Records of a CPU.
//!
//! What follows is no summary (and these are words in parentheses). See \`who()\`.

/// Returns the whole of it.
/// Whether this begins a line does not matter.
fn whole() {
    // (One) and (the other).
    let a = "a \" // (not a comment) for nobody"; // why
    let $long = 1;
}
EOF
expect 'a question word' rs "1: $question
4: $question" <<'EOF'
/// What is left.
struct Left;

//! Whether it is.
EOF
expect 'the same' rs "2: $question" <<'EOF'
{
    /// The same for others.
EOF
expect 'a question word behind code' rs "3: $question" <<'EOF'
/// A number.
struct A;
/// How many there are.
EOF
expect 'a long line' rs '2: over 100 columns
3: over 100 columns' <<EOF
// Short.
    // $long
    a(); // $long
EOF
expect 'parentheses' rs '1: in parentheses of its own
3: in parentheses of its own
6: in parentheses of its own' <<'EOF'
// (like this)
a();
    // (over two
    // lines (and more).)
b();
c(); // (behind code)
EOF
expect 'words' rs '1: name the thing instead
2: name the thing instead
3: name the thing instead
4: name the thing instead' <<'EOF'
// Somebody waits.
/// Returns who waits.
a(); // for whom
// Before anybody's.
EOF
expect 'a comment at the end of a file' rs '1: in parentheses of its own' <<'EOF'
// (like this)
EOF
expect 'nothing wrong in C' c '' <<EOF
// SPDX-License-Identifier: GPL-2.0
/* Makes calls (some). */
/*
 * Usage: calls
 *	what follows is a table
 */
int a; /* of it */
int $long;
EOF
expect 'C' c '1: in parentheses of its own
3: name the thing instead
5: over 100 columns
6: in parentheses of its own
8: in parentheses of its own
12: name the thing instead' <<EOF
/* (like this) */
/*
 * Waits for whoever comes.
 */
/* $long */
int a; /* (behind code) */

/*
 * (over two
 * lines)
 */
int b; /* nobody */
EOF

# (with another letter in place of theirs: they are no comments of this file)
expect 'nothing wrong in shell' sh '' < <(tr % '#' <<'EOF'
%!/bin/sh
% Reads a file, whose name is $1 (see `who`).
% (like this)
echo "% nobody" '% "nobody"' \% nobody "\\\" % nobody" a%nobody $% nobody ${who%nobody}
EOF
)
expect 'shell' sh '2: name the thing instead
4: name the thing instead
5: name the thing instead
6: name the thing instead
7: name the thing instead
8: name the thing instead
10: name the thing instead' < <(tr % '#' <<'EOF'
%!/bin/sh
% Who reads waits.
f() {
	% (nobody's)
	a % for whom
	b "% it's" % whoever
	c 'a "' % isn't for somebody, isn't it
	d "\"" ${%e} $% %anybody
	awk '
		% Everybody.
		{ print }'
}
EOF
)

# Without a name, programs are known by their first lines.
mkdir -p "$dir"/tree/{rust_ftrace,tests,tools,scripts/internal,qemu}
cp "$check" "$dir/tree/scripts/internal/"
for file in rust_ftrace.rs tests/lib.sh qemu/judge qemu/init scripts/reader scripts/list; do
	first=
	case $file in
	*/judge) first='#!/bin/bash' ;;
	*/init) first='#!/bin/busybox sh' ;;
	*/reader) first='#!/usr/bin/python3' ;;
	esac
	printf '%s\n%s nobody\n' "$first" '#' >"$dir/tree/$file"
	[[ -z $first ]] || chmod +x "$dir/tree/$file"
done
got=$("$dir/tree/scripts/internal/check-comments" | cut -d: -f1 | tr '\n' ' ') || true
if [[ $got == 'qemu/init qemu/judge tests/lib.sh ' ]]; then
	passed=$((passed + 1))
else
	failed=$((failed + 1))
	echo "FAIL: files in shell: got $got"
fi

# All of the tree is looked at if no file is named, and is clean.
if "$check" >"$dir/out"; then
	passed=$((passed + 1))
else
	failed=$((failed + 1))
	echo "FAIL: the tree:"
	cat "$dir/out"
fi

echo "$passed passed, $failed failed"
((failed == 0))
