#!/bin/bash
# RUSTC_WRAPPER of run.sh with FUZZ_OWN=1: runs rustc, for a crate of others without the coverage that libFuzzer sees.
others=no
for argument; do
	[[ $argument != */registry/src/*.rs ]] || others=yes
done
arguments=()
for argument; do
	[[ $others == yes && $argument == @(-Cpasses=sancov*|-Cllvm-args=-sanitizer-coverage*) ]] || arguments+=("$argument")
done
exec "${arguments[@]}"
