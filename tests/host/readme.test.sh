#!/bin/bash
# Do README.md and docs/ say what the sources say? The table of files, the lines of status, and names of files.
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
passed=0 failed=0

# verdict NAME WHAT-IS-SAID RC OUT: it passed, or, if something is to be said, was found to be wrong.
verdict() {
	if [[ -z $2 && $3 == 0 ]] || [[ -n $2 && $3 == 1 && $4 == *"$2"* ]]; then
		echo "ok: $1"
		passed=$((passed + 1))
	else
		echo "not ok: $1: exit code $3, it said: $4"
		failed=$((failed + 1))
	fi
}

# files NAME WHAT-IS-SAID SED-SCRIPT: docs/files.md, so changed, is found to be wrong (or, where
# nothing is to be said, right)
files() {
	local out rc=0
	out=$(sed "$3" "$top/docs/files.md" | "$top/scripts/toolchain" "$top/scripts/internal/file-table" --check 2>&1) || rc=$?
	verdict "$1" "$2" "$rc" "$out"
}
files "docs/files.md has every file" "" ""
files "another help line is found" 'not in docs/files.md: | `tracing_on`' 's/^| `tracing_on` | /&not /'
files "a file too many is found" 'no such file: | `tracing_off`' '/^| `tracing_on` | /{p;s/tracing_on/tracing_off/}'

# The names of lines that files/status.rs writes for `status`, which ends where CpuStats begins.
status_lines() {
	sed '/^pub(super) struct CpuStats/q' "$top/rust_ftrace/files/status.rs" |
		grep -oE '"(\\n)?[a-z][a-z_ ]*: |write_too_deep\(text, "[a-z ]+|\[\("[a-z]+", [a-z]+\), \("[a-z]+"' |
		sed -E 's/write_too_deep\(text, //; s/\\n//' | grep -oE '"[a-z_ ]+' | sed 's/^"//' | sort -u
	# (named by their lists, not here)
	printf '%s\n' pid notrace_pid
}
# status NAME WHAT-IS-SAID SED-SCRIPT: likewise, docs/status.md against these.
status() {
	local line rows out='' rc=0
	rows=$(sed "$3" "$top/docs/status.md" | grep '^| `')
	while read -r line; do
		[[ $line == budget ]] || grep -qE "^\|[^|]*\`$line\`" <<<"$rows" || out+="no line of status: $line"$'\n' rc=1
	done < <(status_lines)
	verdict "$1" "$2" "$rc" "$out"
}
status "docs/status.md has every line of status" "" ""
status "one that is missing is found" 'no line of status: lost without buffer' '/^| `lost without buffer`/d'
status "another one is found" 'no line of status: profile too deep' 's/, `profile too deep`//'
((passed + failed == 6 && $(status_lines | wc -l) >= 30)) || verdict "lines of status are found" "" 1 "$(status_lines)"

# names NAME WHAT-IS-SAID SED-SCRIPT: what README.md, CONTRIBUTING.md and docs/ name in the tree is there, each page of
# docs/ is named in README.md, and the sources that docs/architecture.md names are there.
names() {
	local file name out='' rc=0 text
	for file in README.md CONTRIBUTING.md docs/*.md; do
		text=$(sed "$3" "$file")
		while read -r name; do
			[[ -e $name ]] || out+="$file names $name, which is not there"$'\n' rc=1
		done < <(grep -oE '(^|[^A-Za-z0-9_./~-])(docs|scripts|tests|qemu|tools|rust_ftrace)/[A-Za-z0-9_./-]*[A-Za-z0-9_]' <<<"$text" |
			sed -E 's/^[^a-z]//' | sort -u)
		[[ $file == README.md || $file == CONTRIBUTING.md ]] || grep -qF "$file" < <(sed "$3" README.md) ||
			out+="README.md does not name $file"$'\n' rc=1
	done
	# A column of the table has its floor in its first row.
	while read -r name; do
		[[ -e $name || -e rust_ftrace/$name ]] || out+="docs/architecture.md names $name, which is not there"$'\n' rc=1
	done < <(sed "$3" docs/architecture.md | awk -F '|' '
		/^\| feature \|/ { for (i = 3; i < NF; i++) { gsub(/[` ]/, "", $i); floor[i] = $i } ; next }
		/^\|---/ { next }
		!/^\|/ { split("", floor) }
		{
			for (i = 1; i <= NF; i++) {
				text = $i
				while (match(text, /`[a-z_\/]*\.(rs|h|md)`/)) {
					print ((i in floor) ? floor[i] : "") substr(text, RSTART + 1, RLENGTH - 2)
					text = substr(text, RSTART + RLENGTH)
				}
			}
		}' | sort -u)
	verdict "$1" "$2" "$rc" "$out"
}
cd "$top"
names "what the docs name is there" "" ""
names "a page that is gone is found" 'README.md names docs/gone.md' 's|docs/limits.md|docs/gone.md|g'
names "a page that is not named is found" 'README.md does not name docs/limits.md' 's|docs/limits.md|docs/files.md|g'
names "a source that is gone is found" 'names engine/gone.rs' 's/`pids.rs`/`gone.rs`/'

# A README that is read to its end.
lines=$(wc -l <README.md)
verdict "README.md is short" "" "$((lines > 180))" "it has $lines lines"

echo "$passed passed, $failed failed"
((failed == 0))
