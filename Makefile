# SPDX-License-Identifier: GPL-2.0
# Targets only: the work is in scripts/ and qemu/. "make help" lists them.

export KERNEL SUITE KDIR MIRROR ACCEL TIMEOUT JOBS T HOST GUEST CLIPPY V VMLINUZ BENCH JSON SMP UPDATE \
	PREFIX DESTDIR MINUTES LENGTH SEED ONLY WITHOUT NMI BISECT NAMES

module:				## build rust_ftrace.ko (the default)
	@scripts/build

tool:				## build the command rftrace
	@scripts/tool

man:				## its manuals and completions; says in which folder they are
	@scripts/manual

install-tool:			## install all that below PREFIX=/usr/local
	@scripts/install-tool

demo:				## boot a guest and show what the module does
	@scripts/demo

test:				## run all tests, on the host and in a guest
	@scripts/test

stress:				## do everything at once to the module, in a guest
	@scripts/stress

planted:			## bugs are put in, and the stress must find each
	@scripts/planted

check:				## formatting, lints, checks of the object code
	@scripts/check

bench:				## what tracing costs, against the kernel's own tracers
	@scripts/bench

shell:				## a guest to try things in, with /rust_ftrace.ko
	@scripts/shell

print-release:			## the kernel release the module is built for,
	@scripts/kernel release
print-vmlinuz:			##   its image,
	@scripts/kernel vmlinuz
print-tree:			##   and its prepared tree
	@scripts/kernel tree

clean:				## remove what was built from this checkout
	@scripts/clean
clean-cache:			## remove all that was downloaded and set up, for every checkout
	@scripts/clean --cache

help:				## this list
	@echo 'make [TARGET] [KERNEL=stock|rt|cloud|debug|kcsan] [SUITE=trixie-backports|sid] [KDIR=tree] [ACCEL=kvm|tcg]'
	@sed -n 's/^\([a-z-]*\):[[:space:]]*## */\1\t/p' $(firstword $(MAKEFILE_LIST)) | \
		awk -F '\t' '{ printf "  %-15s %s\n", $$1, $$2 }'
	@echo 'Of make test: T=pattern (only guest tests whose folder/name match), HOST=0, GUEST=0 or BENCH=0, TIMEOUT=seconds.'
	@echo 'Of make stress: MINUTES=3, SEED=n, ONLY=kinds, WITHOUT=kinds, NMI=0, BISECT=0 (see scripts/stress).'
	@echo 'Of make planted: NAMES=bugs (of tests/planted/), LENGTH=60 seconds for each.'
	@echo 'Of make bench: JSON=file, TOOL=0 or 1 (nothing of the command, or only that), SMP=0 (nothing on several CPUs), ACCEL=kvm (ns),'
	@echo '  UPDATE=1 (writes the figures in the docs).'

.PHONY: module tool man install-tool demo test stress planted check bench shell print-release print-vmlinuz print-tree clean clean-cache help
