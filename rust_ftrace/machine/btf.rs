// SPDX-License-Identifier: GPL-2.0

//! The types (BTF) of the kernel and of its modules, read when they are first asked for and shared
//! by all instances.

use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use crate::engine::btf::Btf;
use crate::engine::module_cache::ModuleCache;
use crate::sys::private::read_btf;

/// The bytes of a BTF file.
pub(crate) struct BtfBytes(KVVec<u8>);

impl AsRef<[u8]> for BtfBytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The types of the kernel, or of a module, with the bytes that they were read from.
pub(crate) type KernelBtf = Btf<BtfBytes>;

/// Most memory for types of modules. Those of the largest take less than a tenth.
const MODULE_BYTES: usize = 8 << 20;

/// The types that were read so far.
struct TypesRead {
    /// `None` until it was tried to read them, then the kernel's types, if there are any.
    kernel: Option<Option<Arc<KernelBtf>>>,
    /// Types of modules that are loaded; or of one that is loading or going, until its notice.
    modules: ModuleCache<Arc<KernelBtf>>,
}

/// The types, read when they are first asked for.
///
/// The lock is held while a file is read: a module whose file is found has its notice after that,
/// and takes its types with it.
#[pin_data]
pub(super) struct Types {
    #[pin]
    btf: Mutex<TypesRead>,
}

impl Types {
    /// Creates the state in which nothing was read yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            btf <- new_mutex!(TypesRead {
                kernel: None,
                modules: ModuleCache::new(MODULE_BYTES),
            }),
        })
    }

    /// Returns the kernel's types; `None` if the kernel does not say.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn get(&self) -> Result<Option<Arc<KernelBtf>>> {
        self.btf.lock().kernel()
    }

    /// Returns the types of `module`, which go on from the kernel's; `None` if it has none.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn of_module(&self, module: &[u8]) -> Result<Option<Arc<KernelBtf>>> {
        self.btf.lock().of_module(module)
    }

    /// Forgets the types of `module`, as it comes or goes.
    pub(super) fn forget(&self, module: &[u8]) {
        self.btf.lock().modules.forget(module);
    }

    /// Returns the bytes of memory that the types take, and of how many modules there are some.
    pub(super) fn size(&self) -> TypesSize {
        let read = self.btf.lock();
        let kernel = read.kernel.as_ref().and_then(Option::as_ref);
        TypesSize {
            kernel: kernel.map_or(0, |btf| btf.bytes()),
            modules: read.modules.bytes(),
            module_count: read.modules.count(),
        }
    }
}

/// The memory that types take, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TypesSize {
    /// Of the kernel's own; 0 if they were not asked for, or there are none.
    pub(crate) kernel: usize,
    /// Of those of modules.
    pub(crate) modules: usize,
    /// Number of these modules.
    pub(crate) module_count: usize,
}

impl TypesRead {
    /// Returns the kernel's types; `None` if it has none.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory, which is not remembered.
    fn kernel(&mut self) -> Result<Option<Arc<KernelBtf>>> {
        if let Some(known) = &self.kernel {
            return Ok(known.clone());
        }
        let found = read(b"vmlinux", |bytes| Ok(Btf::new(bytes)?))?;
        self.kernel = Some(found.clone());
        Ok(found)
    }

    /// Returns the types of `module`; `None` if it has none.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory, which is not remembered.
    fn of_module(&mut self, module: &[u8]) -> Result<Option<Arc<KernelBtf>>> {
        if let Some(known) = self.modules.find(module) {
            return Ok(known);
        }
        let Some(base) = self.kernel()? else {
            return Ok(None);
        };
        let found = read(module, |bytes| Ok(Btf::split(bytes, &base)?))?;
        let bytes = found.as_ref().map_or(0, |btf| btf.bytes());
        self.modules.keep(module, found.clone(), bytes)?;
        Ok(found)
    }
}

/// Reads the types of `name`; `None` if there are none, or they are not as expected.
///
/// # Errors
///
/// `ENOMEM` if there is no memory.
fn read(
    name: &[u8],
    parse: impl FnOnce(BtfBytes) -> Result<Option<KernelBtf>>,
) -> Result<Option<Arc<KernelBtf>>> {
    let bytes = match read_btf(name) {
        Ok(bytes) => bytes,
        Err(ENOMEM) => return Err(ENOMEM),
        Err(_) => return Ok(None),
    };
    match parse(BtfBytes(bytes))? {
        Some(btf) => Ok(Some(Arc::new(btf, GFP_KERNEL)?)),
        None => Ok(None),
    }
}
