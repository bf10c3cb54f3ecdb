// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The platform: memory and atomics, of the kernel in the module and of the host elsewhere, under
//! one set of names.

pub mod blocks;
#[cfg(not(MODULE))]
mod host;
#[cfg(MODULE)]
mod kernel;
#[cfg(MODULE)]
pub mod set_aside;

#[cfg(not(MODULE))]
pub use self::host::*;
#[cfg(MODULE)]
pub use self::kernel::*;
