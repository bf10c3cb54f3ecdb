// SPDX-License-Identifier: GPL-2.0

//! The kernel's types (BTF), read once and shared by all instances.

use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use crate::engine::btf::Btf;
use crate::sys::private::read_btf;

/// The bytes of a BTF file.
pub(crate) struct BtfBytes(KVVec<u8>);

impl AsRef<[u8]> for BtfBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The kernel's types, with the bytes that they were read from.
pub(crate) type KernelBtf = Btf<BtfBytes>;

/// The types, read when they are first asked for.
#[pin_data]
pub(super) struct Types {
    /// `None` until it was tried to read them, then the types, if that succeeded.
    #[pin]
    btf: Mutex<Option<Option<Arc<KernelBtf>>>>,
}

impl Types {
    /// Creates the state in which nothing was read yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            btf <- new_mutex!(None),
        })
    }

    /// Returns the types; `None` if the kernel does not say, or there is no memory.
    pub(super) fn get(&self) -> Option<Arc<KernelBtf>> {
        let mut kept = self.btf.lock();
        let found = kept.get_or_insert_with(|| {
            let btf = Btf::new(BtfBytes(read_btf().ok()?)).ok()??;
            Arc::new(btf, GFP_KERNEL).ok()
        });
        found.clone()
    }

    /// Returns the bytes of memory that the types take.
    pub(super) fn bytes(&self) -> usize {
        let kept = self.btf.lock();
        let found = kept.as_ref().and_then(Option::as_ref);
        found.map_or(0, |btf| btf.bytes())
    }
}
