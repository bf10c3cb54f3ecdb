// SPDX-License-Identifier: GPL-2.0

//! The kernel's code, as bytes.
//!
//! C header: [`include/linux/uaccess.h`](srctree/include/linux/uaccess.h)

use kernel::bindings;
use kernel::prelude::*;

/// Copies kernel memory at `address` into `bytes`. Returns false, and leaves `bytes` undefined, if
/// there is not so much. It may change meanwhile: patching writes a byte or eight at a time.
pub(crate) fn read(address: u64, bytes: &mut [u8]) -> bool {
    let into = bytes.as_mut_ptr().cast::<c_void>();
    let from = address as usize as *const c_void;
    // SAFETY: `bytes` has room for its length. Any address may be asked for: the function sees to
    // faults.
    let result = unsafe { bindings::copy_from_kernel_nofault(into, from, bytes.len()) };
    result == 0
}
