// SPDX-License-Identifier: GPL-2.0

//! Names of kernel addresses, and addresses of names.
//!
//! C headers: [`include/linux/kallsyms.h`](srctree/include/linux/kallsyms.h),
//! [`include/linux/kprobes.h`](srctree/include/linux/kprobes.h)

use kernel::bindings;
use kernel::prelude::*;
use kernel::str::CString;

use super::{ffi, lockdep};

/// Longest text that `sprint_symbol` writes, as KSYM_SYMBOL_LEN bounds it.
const SYMBOL_TEXT: usize = 1024;

/// Room for the text of a symbol.
pub(crate) struct SymbolText(KBox<[u8; SYMBOL_TEXT]>);

impl SymbolText {
    /// Allocates the room.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is none.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(KBox::new([0; SYMBOL_TEXT], GFP_KERNEL)?))
    }

    /// The name of the function at `address`, as `name` or `name [module]`; `0x` and hex digits if
    /// it has none.
    pub(crate) fn look_up(&mut self, address: u64) -> &[u8] {
        let buffer = self.0.as_mut_ptr().cast::<c_char>();
        // SAFETY: `buffer` has room for the longest symbol text.
        let length = unsafe { bindings::sprint_symbol_no_offset(buffer, address as c_ulong) };
        self.0.get(..length.max(0) as usize).unwrap_or_default()
    }

    /// The name with offset and size, as `name+0x12/0x34` or `name+0x12/0x34 [module]`.
    pub(crate) fn look_up_place(&mut self, address: u64) -> &[u8] {
        let buffer = self.0.as_mut_ptr().cast::<c_char>();
        // SAFETY: `buffer` has room for the longest symbol text.
        let length = unsafe { bindings::sprint_symbol(buffer, address as c_ulong) };
        self.0.get(..length.max(0) as usize).unwrap_or_default()
    }
}

const _: () = assert!(SYMBOL_TEXT >= bindings::KSYM_NAME_LEN as usize + 256);

/// Without kprobes only the names that ftrace lists are known.
#[cfg(not(CONFIG_KPROBES))]
pub(crate) fn addresses_of<const N: usize>(_names: [&[u8]; N]) -> [Option<u64>; N] {
    [None; N]
}

/// The addresses of symbols, aliases included; `None` for one of which the kernel knows none that is unique. Waits for
/// CPUs and RCU.
///
/// A disabled kprobe finds it: `register_kprobe` resolves the name before it looks at anything
/// else, and a disabled one changes no code.
#[cfg(CONFIG_KPROBES)]
pub(crate) fn addresses_of<const N: usize>(names: [&[u8]; N]) -> [Option<u64>; N] {
    lockdep::waits();
    let mut registered = KVec::new();
    let addresses = names.map(|name| {
        let name = CString::try_from_fmt(fmt!("{}", kernel::str::BStr::from_bytes(name))).ok()?;
        let mut probe = KBox::new(ffi::kprobe::default(), GFP_KERNEL).ok()?;
        registered.reserve(1, GFP_KERNEL).ok()?;
        probe.symbol_name = name.as_char_ptr();
        probe.flags = ffi::KPROBE_FLAG_DISABLED;
        // SAFETY: The probe and the name live until it is unregistered, below.
        let result = unsafe { ffi::register_kprobe(&mut *probe) };
        let address = probe.addr as u64;
        if result == 0 {
            // (there is room)
            let _ = registered.push((KBox::into_raw(probe), name), GFP_KERNEL);
        }
        (address != 0).then_some(address)
    });
    // One grace period for all.
    let mut probes = [core::ptr::null_mut(); N];
    let mut count = 0;
    for ((probe, _), slot) in registered.iter().zip(&mut probes) {
        *slot = *probe;
        count += 1;
    }
    // SAFETY: `probes` begins with `count` probes, all of them registered. Waits until nobody uses them.
    unsafe { ffi::unregister_kprobes(probes.as_mut_ptr(), count) };
    for (probe, _) in registered {
        // SAFETY: From `into_raw`, and nobody knows of it any more.
        drop(unsafe { KBox::from_raw(probe) });
    }
    addresses
}

/// The address of symbol `name`; as for [`addresses_of`].
pub(crate) fn address_of(name: &[u8]) -> Option<u64> {
    let [address] = addresses_of([name]);
    address
}
