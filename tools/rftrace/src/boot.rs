// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The file of the kernel that runs: it has the code that ran at boot, which is gone from memory.

use std::path::Path;

use crate::kernel::Kernel;
use crate::why::Functions;

/// All that is known of the kernel that runs by its file; none if that is not there, or is of another build.
pub fn functions(running: &Kernel) -> Option<Functions> {
    let build_id = running.build_id()?;
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let places = [
        format!("/boot/vmlinuz-{release}"),
        format!("/lib/modules/{release}/vmlinuz"),
        format!("/usr/lib/debug/boot/vmlinux-{release}"),
        format!("/usr/lib/debug/lib/modules/{release}/vmlinux"),
    ];
    let kernel = places.iter().find_map(|place| {
        let kernel = Kernel::of_file(Path::new(place)).ok()?;
        (kernel.build_id()? == build_id).then_some(kernel)
    })?;
    Functions::new(kernel).ok()
}
