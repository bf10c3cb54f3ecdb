# shellcheck shell=bash # sourced by every script of scripts/ and qemu/
# What the scripts share: messages, the cache, locks, becoming root.

set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${RUST_FTRACE_CACHE:-${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/rust_ftrace}
case $cache in /*) ;; *) cache=$PWD/$cache ;; esac

: "${KERNEL:=stock}" "${SUITE:=trixie-backports}" "${KDIR:=}"
: "${MIRROR:=http://deb.debian.org/debian}"
: "${SECURITY_MIRROR:=http://deb.debian.org/debian-security}"
: "${JOBS:=$(nproc)}"
export KERNEL SUITE KDIR MIRROR SECURITY_MIRROR JOBS

# A sub-make's flags (and its job server) mean nothing to what is run from here.
unset MAKEFLAGS MFLAGS MAKELEVEL MAKEOVERRIDES

# Progress goes to stderr: stdout is for what a script was asked for.
say() { printf '%s\n' "rust_ftrace: $*" >&2; }

# die WHAT [WHAT TO DO NEXT]
die() {
	printf '%s\n' "rust_ftrace: error: $1" >&2
	if (($# > 1)); then printf '%s\n' "rust_ftrace: try: $2" >&2; fi
	exit 1
}

# run_logged LOG CMD...: run CMD, stop at its first failure, leave its exit code in rc. (Not as
# a condition: bash would then ignore failures inside a function.)
run_logged() {
	local log=$1
	shift
	set +e
	(set -e; "$@") >"$log" 2>&1 </dev/null
	rc=$?
	set -e
}

# step "what is done" LOG CMD...: run CMD with its output in LOG, and say how long it took.
step() {
	local what=$1 log=$2 start=$SECONDS rc=0
	shift 2
	mkdir -p "$(dirname "$log")"
	say "$what ..."
	run_logged "$log" "$@"
	if ((rc)); then
		tail -n 15 "$log" | sed 's/^/    /' >&2
		die "failed (exit $rc): $what" "read the log, $log"
	fi
	say "    done in $((SECONDS - start)) s"
}

# Only one at a time: take_lock NAME holds the lock until the (sub)shell ends.
take_lock() {
	local fd file=$cache/lock/$1
	mkdir -p "$cache/lock"
	exec {fd}>"$file"
	if ! flock -n "$fd"; then
		say "another run is at work on $1: waiting for it"
		flock "$fd"
	fi
}

# own_crates_anew TARGET: before cargo builds into a folder that checkouts share. It knows our crates by their paths
# within the checkout, and takes those of another one for fresh if they are newer: so what was built of these goes.
own_crates_anew() {
	local target=$1 name
	[[ $(cat "$target/checkout" 2>/dev/null || true) != "$top" ]] || return 0
	mkdir -p "$target"
	while read -r name; do
		rm -rf "$target"/{,*/}{release,debug}/.fingerprint/"$name"-*
	done < <(sed -n '/^\[package\]/,/^$/s/^name = "\(.*\)"$/\1/p' "$top"/tools/*/Cargo.toml "$top"/tests/*/Cargo.toml)
	printf '%s\n' "$top" >"$target/checkout"
}

# need_root "what for": before the first as_root of something that takes long, for a word.
need_root() {
	((EUID != 0)) || return 0
	command -v sudo >/dev/null || die "$1 takes root, and there is no sudo" "run it as root"
	say "$1 takes root: using sudo"
}

# as_root CMD...: by sudo where needed.
as_root() {
	if ((EUID == 0)); then
		"$@"
	elif command -v sudo >/dev/null; then
		sudo "$@"
	else
		die "this needs root, and there is no sudo: $1" "run it as root"
	fi
}

# The Debian release a suite belongs to: the toolchain root is made from it.
release_of_suite() { printf '%s\n' "${1%-backports}"; }

# A name that make, tar and the shell take without thought.
plain_name() { tr -c 'A-Za-z0-9._\n' '-' <<<"$1"; }

# Runs that need nothing but a text from stdin.
hash_of() { sha256sum | cut -c1-10; }
