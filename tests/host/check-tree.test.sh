#!/bin/bash
# Does scripts/internal/check-tree name what a tree lacks? Made-up trees, each missing one thing.
set -euo pipefail
check=$(cd "$(dirname "$0")/../.." && pwd)/scripts/internal/check-tree
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0

cat >"$dir/rustc" <<'EOF'
#!/bin/sh
echo "rustc 1.85.1 (4eb161250 2025-03-15) (built from a source tarball)"
EOF
chmod +x "$dir/rustc"
export RUSTC=$dir/rustc BINDGEN=true

# A tree with all that is needed; "tree" makes it anew, the test then takes something away.
tree=$dir/tree
config=$tree/include/config/auto.conf
tree() {
	rm -rf "$tree"
	mkdir -p "$tree/include/config" "$tree/rust"
	cat >"$config" <<'EOF'
CONFIG_MODULES=y
CONFIG_RUST=y
CONFIG_RUSTC_VERSION_TEXT="rustc 1.85.1 (4eb161250 2025-03-15) (built from a source tarball)"
CONFIG_FUNCTION_TRACER=y
CONFIG_DYNAMIC_FTRACE_WITH_ARGS=y
CONFIG_FPROBE=y
CONFIG_DEBUG_FS=y
CONFIG_DEBUG_FS_ALLOW_ALL=y
EOF
	echo 7.2.12 >"$tree/include/config/kernel.release"
	touch "$tree/rust/libcore.rmeta" "$tree/rust/libkernel.rmeta"
}

# expect pass|fail NAME [WORD]: one line at most, with WORD in it
expect() {
	local want=$1 name=$2 word=${3:-} got=pass out
	out=$("$check" "$tree" 2>&1) || got=fail
	if [[ $got == "$want" && $out == *"$word"* ]] && (($(printf '%s' "$out" | grep -c '') <= 1)); then
		passed=$((passed + 1))
	else
		failed=$((failed + 1))
		printf '%s\n' "FAIL: $name: wanted $want${word:+ and \"$word\"}, got $got: $out"
	fi
}

tree
expect pass "a complete tree"
for option in MODULES RUST FUNCTION_TRACER DYNAMIC_FTRACE_WITH_ARGS FPROBE DEBUG_FS; do
	tree
	sed -i "/^CONFIG_$option=/d" "$config"
	expect fail "without $option" "CONFIG_$option=y"
	tree
	sed -i "s/^CONFIG_$option=y/CONFIG_$option=m/" "$config"
	expect fail "with $option=m" "CONFIG_$option=y"
done
tree
sed -i 's/^\(CONFIG_RUSTC_VERSION_TEXT="rustc \)1.85.1/\11.90.0/' "$config"
expect fail "built by another rustc" "rustc 1.90.0"
expect fail "and it names the one here" "rustc 1.85.1"
tree
sed -i 's/^\(CONFIG_RUSTC_VERSION_TEXT=\)"rustc 1.85.1\(.*\)"/\1rustc 1.90.0\2/' "$config"
expect fail "built by another rustc, without quotes" "rustc 1.90.0"
tree
sed -i '/^CONFIG_RUSTC_VERSION_TEXT/s/"//g' "$config"
expect pass "a complete tree, without quotes"
tree
BINDGEN=no-such-bindgen expect fail "no bindgen" "no-such-bindgen"
tree
RUSTC=$dir/no-such-rustc expect fail "no rustc at all" "no-such-rustc"
tree
rm "$tree/rust/libkernel.rmeta"
expect fail "headers without Rust metadata" "libkernel.rmeta"
tree
rm "$tree/rust/libcore.rmeta"
expect fail "headers without Rust's core" "libcore.rmeta"
tree
rm "$config"
expect fail "a tree that is not prepared" "auto.conf"
tree
rm "$tree/include/config/kernel.release"
expect fail "a tree without its release" "kernel.release"
rm -rf "$tree"
expect fail "no tree" "no such folder"

echo "$passed passed, $failed failed"
((failed == 0))
