# shellcheck shell=bash disable=SC2034 # sourced
# The one place that lists Debian packages.

# In the toolchain root: what Debian's kernel, the module, its host tests and its guest
# helpers are built with. Changing the list makes a new root.
root_packages=(
	make gcc libc6-dev bc bison flex perl python3-minimal
	libelf-dev libssl-dev libdw-dev pahole
	rustc rust-src cargo rustfmt rust-clippy bindgen libclang-dev
	clang lld llvm			# the debug kernel: KASAN with Rust needs clang
	libclang-rt-dev			# AddressSanitizer, for tests on the host
	kmod rsync cpio xz-utils ca-certificates
	# Not the machine's own: before 8.1 QEMU could run an instruction that another CPU had just
	# replaced, and kernels died of a stale int3 while ftrace was being armed.
	qemu-system-x86
)

# On the machine itself, as "command:package": to make the root, and to run a guest.
host_setup=(mmdebstrap:mmdebstrap mount:mount unshare:util-linux flock:util-linux)
host_guest=(busybox:busybox-static cpio:cpio)
# ... and where there is no root, as with KDIR=:
host_qemu=(qemu-system-x86_64:qemu-system-x86)
