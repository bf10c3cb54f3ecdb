// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The file of the running kernel: it has the code that ran at boot, which is gone from memory.

use crate::functions::KernelFunctions;
use crate::kernel::Kernel;

/// The places where distributions put the file.
const PLACES: [&str; 4] = [
    "/boot/vmlinuz-RELEASE",
    "/lib/modules/RELEASE/vmlinuz",
    "/usr/lib/debug/boot/vmlinux-RELEASE",
    "/usr/lib/debug/lib/modules/RELEASE/vmlinux",
];

/// Returns all that is known of the running kernel by its file; `None` if that is not there, or is
/// of another build.
pub fn functions(running: &Kernel) -> Option<KernelFunctions> {
    let kernel = running.find_file(&PLACES, |place| {
        let kernel = Kernel::of_file(place).ok()?;
        let build_id = kernel.build_id()?;
        Some((kernel, build_id))
    })?;
    KernelFunctions::new(kernel).ok()
}
