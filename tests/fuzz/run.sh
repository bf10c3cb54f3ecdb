#!/bin/bash
# Usage: tests/fuzz/run.sh [TARGET...]
# Feeds each target (all, if none is named) its corpus and then what libFuzzer makes of it; then shows
# that this finds bugs: the engine is broken in the ways that "mutants" lists, in a copy of it.
# Prints the input and the message of what fails. The last line is "N passed, N failed[, N skipped]".
#   FUZZ_SECONDS=N  for each target; 3 is a regression test, hours are a search
#   FUZZ_IDLE=N     for each target, until so many seconds of its CPU time have shown no new edge: 900 before a release
#   FUZZ_OWN=1      only edges of this project's crates are looked at, not those of what reads ELF, DWARF and zstd for them
#   FUZZ_SEED=N     other inputs than last time
#   FUZZ_KEEP=1     new inputs that reach new code go into the corpus, and it is made as small as can be (not with FUZZ_OWN)
# Builds outside of the checkout: CARGO_TARGET_DIR, or a cache.
. "$(dirname "$0")/../../scripts/internal/lib.sh"
. "$top/scripts/internal/run-counted.sh"

target=${CARGO_TARGET_DIR:-$cache/target-fuzz}/fuzz
if [[ -n ${FUZZ_OWN:-} ]]; then
	target+=-own
	export RUSTC_WRAPPER=$top/tests/fuzz/own-crates.sh
fi
triple=x86_64-unknown-linux-gnu
seconds=${FUZZ_SECONDS:-3} mutant_seconds=120 seed=${FUZZ_SEED:-1}
corpus=$top/tests/fuzz/corpus
targets=("$@")
if (($# == 0)); then
	for file in "$top"/tests/fuzz/targets/*.rs; do targets+=("$(basename "$file" .rs)"); done
fi

CXX=$(command -v clang++ || command -v g++ || true)
export CXX
if [[ -z $CXX ]]; then
	say "no C++ compiler, which libFuzzer is built with"
	skipped=${#targets[@]}
	total
	exit
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Coverage that libFuzzer can see, as cargo-fuzz has it, but for what takes a nightly compiler. (With a
# target named, the flags are not for what is run while building.)
flags=(--cfg fuzzing -Cpasses=sancov-module -Ccodegen-units=1)
for option in level=4 inline-8bit-counters pc-table trace-compares; do
	flags+=("-Cllvm-args=-sanitizer-coverage-$option")
done
# build CRATE KIND: leaves what runs in $target/KIND.
build() {
	local name
	(
		set -e
		cd "$1"
		CARGO_TARGET_DIR=$target RUSTFLAGS=${flags[*]} cargo build --locked --release --target "$triple"
	) >"$work/build.log" 2>&1 || { cat "$work/build.log"; return 1; }
	mkdir -p "$target/$2"
	for name in "${targets[@]}"; do
		cp -lf "$target/$triple/release/$name" "$target/$2/" || return 1
	done
}

# fuzz KIND TARGET SECONDS: stops at the first input that makes it fail, or once there is something in $work/TARGET.stop; the
# log is $work/TARGET.log.
fuzz() {
	local stuck=20
	# (a busy machine may stand still for a while, which is no fault of the engine as it is)
	[[ $1 != whole ]] || stuck=60
	mkdir -p "$work/$2.new"
	timeout $(($3 + 120)) "$target/$1/$2" -seed="$seed" -max_total_time="$3" -max_len=1024 \
		-timeout="$stuck" -rss_limit_mb=1024 -artifact_prefix="$work/$2." -stop_file="$work/$2.stop" \
		"$work/$2.new" "$corpus/$2" >"$work/$2.log" 2>&1
}

# cpu_time PROGRAM: in seconds, of the process that runs it.
cpu_time() {
	local process fields
	for process in /proc/[0-9]*; do
		[[ $process/exe -ef $1 ]] || continue
		# (behind the name, which may have blanks)
		read -r fields <"$process/stat" || continue
		read -ra fields <<<"${fields##*) }"
		echo $(((fields[11] + fields[12]) / $(getconf CLK_TCK)))
		return
	done
}

# fuzz_until_idle TARGET: until FUZZ_IDLE seconds of CPU time have shown no new edge.
fuzz_until_idle() {
	local pid edges before=0 now spent=0 since=0
	fuzz whole "$1" 86400 &
	pid=$!
	while kill -0 "$pid" 2>/dev/null; do
		sleep 1
		edges=$(sed -nE 's/.* cov: ([0-9]+) .*/\1/p' "$work/$1.log" 2>/dev/null | sort -n | tail -n 1)
		now=$(cpu_time "$target/whole/$1" 2>/dev/null)
		spent=${now:-$spent}
		if ((edges > before)); then
			before=$edges since=$spent
		elif ((before > 0 && spent - since >= FUZZ_IDLE)); then
			echo stop >"$work/$1.stop"
		fi
	done
	wait "$pid" || return
	echo "    $before edges, the last after $since s of CPU time; $((spent - since)) s more showed none"
}

# What a person needs of a log: the message, and the input to try again.
show() {
	grep -E -A 3 'panicked|SUMMARY|^Base64|ALARM|ERROR' "$work/$1.log" | sed 's/^/    /'
}

finds_nothing() {
	if [[ -n ${FUZZ_IDLE:-} ]]; then
		fuzz_until_idle "$1" || { show "$1"; return 1; }
	else
		fuzz whole "$1" "$seconds" || { show "$1"; return 1; }
	fi
	sed -n 's/^Done/    &/p' "$work/$1.log"
	[[ -z ${FUZZ_KEEP:-} ]] || minimise "$1"
}

# The smallest inputs that together reach what all of them do.
minimise() {
	# (which of the old ones are there for the crates of others is not known then)
	if [[ -n ${FUZZ_OWN:-} ]]; then
		"$target/whole/$1" -merge=1 -use_counters=0 "$corpus/$1" "$work/$1.new" >"$work/$1.log" 2>&1
		return
	fi
	mkdir -p "$work/$1.min"
	"$target/whole/$1" -set_cover_merge=1 -use_counters=0 "$work/$1.min" "$corpus/$1" "$work/$1.new" >"$work/$1.log" 2>&1
	rm -rf "${corpus:?}/$1"
	mv "$work/$1.min" "$corpus/$1"
}

# Each line of "mutants" breaks one file of the engine by an expression for sed, for one target to find.
# (It is built at a place that is always the same, where files that are as they were keep their mtimes, so that its crates
# are known again.)
break_engine() {
	local name file expression dir=$work/broken place=$target/broken-source
	mkdir -p "$dir/tests/host" "$dir/tools"
	cp -r "$top/rust_ftrace" "$dir/"
	cp -r "$top"/tools/{Cargo.*,engine,rftrace,xtask} "$dir/tools/"
	mkdir "$dir/tests/fuzz"
	cp -r "$top"/tests/fuzz/{Cargo.*,src,targets} "$dir/tests/fuzz/"
	cp -r "$top"/tests/host/{Cargo.*,src} "$dir/tests/host/"
	# (what is built from it must not pass for what is built from the whole)
	sed -i 's/^name = "rust_ftrace-fuzz"/name = "rust_ftrace-broken"/' "$dir"/tests/fuzz/Cargo.{toml,lock}
	while IFS=$'\t' read -r name file expression; do
		[[ $name != '#'* && -n $name ]] || continue
		file=$dir/rust_ftrace/engine/$file
		cp "$file" "$work/whole.rs"
		sed -i "$expression" "$file"
		! cmp -s "$file" "$work/whole.rs" || { echo "nothing to break: $name $expression"; return 1; }
		mutants+=("$name")
	done <"$top/tests/fuzz/mutants"
	mkdir -p "$place"
	if ! rsync -rlpc --delete "$dir/" "$place/" 2>/dev/null; then
		rm -rf "$place"
		cp -r "$dir" "$place"
	fi
	build "$place/tests/fuzz" broken
}

finds_mutant() {
	# (it takes few seconds, but for a machine that does much else)
	if fuzz broken "$1" "$mutant_seconds"; then
		echo "    not found in $mutant_seconds s"
		return 1
	fi
	grep -A 1 -m 1 -E 'panicked at|libFuzzer: timeout' "$work/$1.log" | sed 's/^/    /'
}

counted "fuzz: build" build "$top/tests/fuzz" whole
((failed == 0)) || { total; exit; }

# As many at a time as there are processors.
several() {
	local what=$1 name running=0 verdicts=$work/verdicts
	shift
	: >"$verdicts"
	for name; do
		while ((running >= JOBS)); do
			wait -n || true
			running=$((running - 1))
		done
		(
			rc=0
			out=$("$what" "$name" 2>&1) || rc=$?
			printf '%s\n' "$out" >"$work/$name.$what.out"
			echo "$name $rc" >>"$verdicts"
		) &
		running=$((running + 1))
	done
	wait
	while read -r name rc; do
		counted "fuzz: $name: ${what//_/ }" show_verdict "$work/$name.$what.out" "$rc"
	done < <(sort "$verdicts")
}
show_verdict() {
	cat "$1"
	return "$2"
}

several finds_nothing "${targets[@]}"
mutants=()
if (($# == 0)); then
	counted "fuzz: build of the broken engine" break_engine
	((failed)) || several finds_mutant "${mutants[@]}"
fi
total
