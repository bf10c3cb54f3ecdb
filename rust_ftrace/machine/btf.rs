// SPDX-License-Identifier: GPL-2.0

//! The kernel's types.

use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use crate::engine::btf::Btf;
use crate::sys::private::read_btf;

/// Bytes of a file.
pub(crate) struct BtfBytes(KVVec<u8>);

impl AsRef<[u8]> for BtfBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The kernel's types.
pub(crate) type KernelBtf = Btf<BtfBytes>;

/// The types, as they were read.
#[pin_data]
pub(super) struct Types {
    /// Read when it is first asked for.
    #[pin]
    btf: Mutex<Option<Option<Arc<KernelBtf>>>>,
}

impl Types {
    /// Nothing was read yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            btf <- new_mutex!(None),
        })
    }

    /// The types; `None` if the kernel does not say, or there is no memory.
    pub(super) fn get(&self) -> Option<Arc<KernelBtf>> {
        let mut kept = self.btf.lock();
        let found = kept.get_or_insert_with(|| {
            let btf = Btf::new(BtfBytes(read_btf().ok()?)).ok()??;
            Arc::new(btf, GFP_KERNEL).ok()
        });
        found.clone()
    }

    /// Bytes of memory that they take.
    pub(super) fn bytes(&self) -> usize {
        let kept = self.btf.lock();
        let found = kept.as_ref().and_then(Option::as_ref);
        found.map_or(0, |btf| btf.bytes())
    }
}
