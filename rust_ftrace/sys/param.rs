// SPDX-License-Identifier: GPL-2.0

//! Module parameters that are strings; `module!` has integers only.
//!
//! The kernel's own `param_ops_charp` takes and frees them. The bridge is the three statics that
//! `module_param(..., charp, 0)` makes in C.
//!
//! C header: [`include/linux/moduleparam.h`](srctree/include/linux/moduleparam.h)

use core::cell::UnsafeCell;

use kernel::prelude::*;

/// The value of a string parameter.
///
/// # Invariants
///
/// Null, or a string. The kernel stores it before the module is initialised, frees it after the
/// module is gone, and does not change it meanwhile.
#[repr(transparent)]
pub(crate) struct StringParam(UnsafeCell<*mut c_char>);

// SAFETY: By the type's invariants it is only read while threads can share it.
unsafe impl Sync for StringParam {}

impl StringParam {
    pub(crate) const fn new() -> Self {
        // INVARIANT: Null.
        Self(UnsafeCell::new(core::ptr::null_mut()))
    }

    /// The value that was given when the module was loaded.
    pub(crate) fn get(&self) -> Option<&CStr> {
        // SAFETY: `self` is live, and by the type's invariants nothing writes it now.
        let value = unsafe { self.0.get().read_volatile() };
        // SAFETY: By the type's invariants it is a string, as it is not null, and longer there than
        // `self` is used.
        (!value.is_null()).then(|| unsafe { CStr::from_char_ptr(value) })
    }

    pub(crate) const fn as_void_ptr(&self) -> *mut c_void {
        core::ptr::from_ref(self).cast_mut().cast()
    }
}

/// Copies a string into an array, for a section of the object file.
pub(crate) const fn section_text<const LENGTH: usize>(text: &str) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    let mut index = 0;
    while index < LENGTH {
        bytes[index] = text.as_bytes()[index];
        index += 1;
    }
    bytes
}

/// Defines a string parameter: `string_param!(NAME, "name", "what it is for");`.
macro_rules! string_param {
    ($static:ident, $name:literal, $description:literal) => {
        #[doc = $description]
        pub(crate) static $static: $crate::sys::param::StringParam =
            $crate::sys::param::StringParam::new();

        const _: () = {
            const TYPE: &str = concat!("parmtype=", $name, ":charp\0");
            const TEXT: &str = concat!("parm=", $name, ":", $description, "\0");

            #[link_section = ".modinfo"]
            #[used(compiler)]
            static PARAM_TYPE: [u8; TYPE.len()] = $crate::sys::param::section_text(TYPE);

            #[link_section = ".modinfo"]
            #[used(compiler)]
            static PARAM_TEXT: [u8; TEXT.len()] = $crate::sys::param::section_text(TEXT);

            #[link_section = "__param"]
            #[used(compiler)]
            static PARAM: ::kernel::module_param::KernelParam =
                ::kernel::module_param::KernelParam::new(::kernel::bindings::kernel_param {
                    name: ::kernel::str::as_char_ptr_in_const_context(
                        match ::core::ffi::CStr::from_bytes_with_nul(
                            concat!($name, "\0").as_bytes(),
                        ) {
                            Ok(name) => name,
                            Err(_) => c"",
                        },
                    ),
                    mod_: $crate::sys::this_module(),
                    ops: &raw const ::kernel::bindings::param_ops_charp,
                    // Not in sysfs, where it could be changed.
                    perm: 0,
                    level: -1,
                    flags: 0,
                    __bindgen_anon_1: ::kernel::bindings::kernel_param__bindgen_ty_1 {
                        arg: $static.as_void_ptr(),
                    },
                });
        };
    };
}

pub(crate) use string_param;
