# SPDX-License-Identifier: GPL-2.0
#
# Bindings to what the kernel crate does not bind: bindgen, called as rust/Makefile of the
# kernel calls it (its list of flags that clang does not know is read from there).
bindings_helper := $(firstword $(wildcard $(src)/rust_ftrace/*/bindings_helper.h))

ifneq ($(bindings_helper),)

# (a path in $(src) and $(obj), without the end of the file's name)
bindings := $(patsubst $(src)/%_helper.h,%,$(bindings_helper))

rust_makefile := $(srctree)/rust/Makefile

ifdef CONFIG_CC_IS_CLANG
bindings_c_flags = $(c_flags)
else
bindings_skip_c_flags := $(shell sed -n \
	'/^bindgen_skip_c_flags :=/,/[^\\]$$/{s/^[^=]*:=//;s/\\$$//;p}' $(rust_makefile))
bindings_target := $(shell sed -n 's/^BINDGEN_TARGET_$(SRCARCH)[[:space:]]*:= *//p' $(rust_makefile))
bindings_c_flags = $(filter-out $(bindings_skip_c_flags), $(c_flags)) -w --target=$(bindings_target)
endif

# The oldest Rust that this kernel supports, as the kernel's own bindings have it.
bindings_rust_target := $(shell sed -n 's/.*\(--rust-target [0-9.]*\).*/\1/p' $(rust_makefile) | head -n 1)

bindings_parameters := $(wildcard $(srctree)/rust/bindgen_parameters) $(src)/$(bindings)_parameters

quiet_cmd_bindings = BINDGEN $@
      cmd_bindings = $(BINDGEN) $< \
	$(shell grep -Ehv '^\#|^$$' $(bindings_parameters)) $(bindings_rust_target) \
	--use-core --with-derive-default --ctypes-prefix ffi --no-layout-tests \
	--no-debug '.*' --enable-function-attribute-detection \
	-o $@ -- $(filter-out $(CC_FLAGS_LTO), $(bindings_c_flags)) -fno-builtin -D__BINDGEN__ -DMODULE

$(obj)/$(bindings)_generated.rs: $(src)/$(bindings)_helper.h $(bindings_parameters) FORCE
	$(call if_changed_dep,bindings)

$(obj)/rust_ftrace.o: $(obj)/$(bindings)_generated.rs

targets += $(bindings)_generated.rs
clean-files += $(bindings)_generated.rs

endif
