// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A kernel to examine: the running one, or a file.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

mod btf;
mod build_id;
mod debug_info;
mod kallsyms;
mod memory;
mod prototype;
mod symbols;
#[cfg(test)]
pub(crate) mod synthetic;
mod traceable;
mod unpack;

pub use btf::KernelTypes;
pub use debug_info::{DebugInformation, Inlined};
pub use memory::KernelMemory;
pub use symbols::{KernelSymbols, Symbol};
pub use traceable::traceable;
pub(crate) use traceable::{is_left_out, TRACING_DIRECTORIES};

/// A reason why a kernel cannot be examined.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file cannot be read.
    #[error("{path}", path = .0.display())]
    Read(PathBuf, #[source] std::io::Error),
    /// Data is not as it must be.
    #[error("{0}")]
    Malformed(String),
    /// The kernel hides addresses from the caller.
    #[error("/proc/kallsyms shows no addresses: only root may see them")]
    Hidden,
    /// A symbol is missing that every kernel has.
    #[error("the kernel has no symbol {0}")]
    NoSymbol(&'static str),
    /// The running kernel does not show its memory.
    #[error("this kernel has no /proc/kcore (CONFIG_PROC_KCORE): name its file by --vmlinux")]
    NoKcore,
    /// The list of functions is missing.
    #[error("no list of functions: mount -t tracefs none /sys/kernel/tracing")]
    NoTracefs,
    /// The kernel's memory has nothing there.
    #[error("nothing at {0:#x} in the kernel's memory")]
    NoMemory(u64),
}

/// Code of the kernel, as it lies in memory.
#[derive(Debug)]
pub struct KernelText {
    /// Address at which it begins.
    pub address: u64,
    /// The code.
    pub code: Vec<u8>,
    /// True if it runs at boot only, and is thrown away then.
    pub is_init: bool,
}

impl KernelText {
    /// Returns the addresses of the code.
    pub fn addresses(&self) -> Range<u64> {
        self.address..self.address + self.code.len() as u64
    }
}

/// Code that boot may put in the place of other code.
#[derive(Debug)]
pub struct Alternative {
    /// Address of the code that it replaces.
    pub place: u64,
    /// Address at which it lies.
    pub address: u64,
    /// The code, as if it ran where it lies.
    pub code: Vec<u8>,
}

/// A kernel's symbols and memory.
#[derive(Debug)]
pub struct Kernel {
    /// The kernel's symbols.
    pub symbols: KernelSymbols,
    /// The kernel's memory. That of a running kernel is opened on first use: it may not show it.
    memory: OnceLock<KernelMemory>,
    is_running: bool,
}

impl Kernel {
    /// Returns the running kernel.
    pub fn running() -> Result<Self, Error> {
        let kallsyms = Path::new("/proc/kallsyms");
        let text = std::fs::read_to_string(kallsyms)
            .map_err(|error| Error::Read(kallsyms.to_owned(), error))?;
        Ok(Self {
            symbols: KernelSymbols::of_text(&text)?,
            memory: OnceLock::new(),
            is_running: true,
        })
    }

    /// Returns the kernel of a file: a vmlinux, or a vmlinuz.
    pub fn of_file(path: &Path) -> Result<Self, Error> {
        let failed = |error| Error::Read(path.to_owned(), error);
        let file = File::open(path).map_err(failed)?;
        let mut bytes = Vec::new();
        // Behind what is loaded a vmlinux may have hundreds of megabytes for debuggers.
        let limit = memory::loaded_bytes(path).unwrap_or(unpack::MOST_BYTES);
        file.take(limit).read_to_end(&mut bytes).map_err(failed)?;
        let vmlinux = unpack::vmlinuz(&bytes)?.unwrap_or(bytes);
        let memory = KernelMemory::of_vmlinux(vmlinux)?;
        let found = memory
            .parts()
            .find_map(|(address, part)| kallsyms::find(part, address).ok());
        let symbols =
            found.ok_or_else(|| Error::Malformed("no table of symbols was found in it".into()))?;
        Ok(Self {
            symbols: KernelSymbols::new(symbols),
            memory: OnceLock::from(memory),
            is_running: false,
        })
    }

    /// Returns whether it is the running kernel, rather than a file.
    pub fn is_running(&self) -> bool {
        self.is_running
    }

    fn memory(&self) -> Result<&KernelMemory, Error> {
        if let Some(memory) = self.memory.get() {
            return Ok(memory);
        }
        let kcore = Path::new("/proc/kcore");
        if !kcore.exists() {
            return Err(Error::NoKcore);
        }
        let memory = KernelMemory::of_kcore(kcore)?;
        Ok(self.memory.get_or_init(|| memory))
    }

    fn place(&self, name: &'static str) -> Result<u64, Error> {
        self.symbols.place(name).ok_or(Error::NoSymbol(name))
    }

    /// Returns the memory between two symbols.
    fn between(&self, from: &'static str, until: &'static str) -> Result<(u64, Vec<u8>), Error> {
        let from = self.place(from)?;
        Ok((from, self.memory()?.read(from..self.place(until)?)?))
    }

    /// Returns the pointer in memory at `address`.
    pub fn pointer(&self, address: u64) -> Option<u64> {
        let bytes = self
            .memory()
            .ok()?
            .read(address..address.checked_add(8)?)
            .ok()?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    }

    /// Returns the build ID of the kernel, if it has one.
    pub fn build_id(&self) -> Option<Vec<u8>> {
        let notes = match self.is_running {
            true => std::fs::read("/sys/kernel/notes").ok()?,
            false => self.between("__start_notes", "__stop_notes").ok()?.1,
        };
        build_id::of_notes(&notes)
    }

    /// Returns the first of `places` that `open` accepts and that is of the same build; `RELEASE`
    /// in them is that of the kernel that runs, and `ID` the build ID in hex, as in
    /// `.build-id/12/34.debug`.
    pub(crate) fn find_file<T>(
        &self,
        places: &[&str],
        open: impl Fn(&Path) -> Option<(T, Vec<u8>)>,
    ) -> Option<T> {
        let own = self.build_id()?;
        let uname = rustix::system::uname();
        let release = uname.release().to_string_lossy();
        let bytes: Vec<String> = own.iter().map(|byte| format!("{byte:02x}")).collect();
        let id = format!("{}/{}", bytes.first()?, bytes[1..].concat());
        places.iter().find_map(|place| {
            let place = place.replace("RELEASE", &release).replace("ID", &id);
            let (found, build_id) = open(Path::new(&place))?;
            (build_id == own).then_some(found)
        })
    }

    /// Returns the address at which the text begins.
    pub fn text_begin(&self) -> Option<u64> {
        self.symbols.place("_text")
    }

    /// Returns the code at `addresses`.
    pub fn code(&self, addresses: Range<u64>) -> Result<Vec<u8>, Error> {
        self.memory()?.read(addresses)
    }

    /// Returns all code of the kernel that is there: its own, and its modules'.
    pub fn texts(&self) -> Result<Vec<KernelText>, Error> {
        let (address, code) = self.between("_stext", "_etext")?;
        let mut texts = vec![KernelText {
            address,
            code,
            is_init: false,
        }];
        if !self.is_running {
            let (address, code) = self.between("_sinittext", "_einittext")?;
            texts.push(KernelText {
                address,
                code,
                is_init: true,
            });
        }
        for addresses in self.module_texts() {
            // The module may have gone since its symbols were read.
            if let Ok(code) = self.memory()?.read(addresses.clone()) {
                texts.push(KernelText {
                    address: addresses.start,
                    code,
                    is_init: false,
                });
            }
        }
        Ok(texts)
    }

    /// Returns the ranges in which modules have code: from the first symbol of each to the end of
    /// the page that has its last one.
    fn module_texts(&self) -> Vec<Range<u64>> {
        const PAGE: u64 = 4096;
        let mut ranges: Vec<(&str, Range<u64>)> = Vec::new();
        for symbol in self.symbols.all() {
            let (Some(module), true) = (symbol.module.as_deref(), symbol.is_code) else {
                continue;
            };
            let next = symbol.address.checked_add(1);
            let Some(end) = next.and_then(|next| next.checked_next_multiple_of(PAGE)) else {
                continue;
            };
            match ranges.last_mut() {
                Some((last, range)) if *last == module => range.end = end,
                _ => ranges.push((module, symbol.address..end)),
            }
        }
        ranges.into_iter().map(|(_, range)| range).collect()
    }

    /// Returns code that may replace other code at boot; of a running kernel, where that has been
    /// done, none.
    ///
    /// `struct alt_instr` of arch/x86/include/asm/alternative.h: where it goes and where it lies
    /// (i32 each, relative to themselves), flags (u32), the length of what is replaced and of what
    /// replaces it (u8 each).
    pub fn alternatives(&self) -> Result<Vec<Alternative>, Error> {
        const BYTES: usize = 14;
        if self.is_running {
            return Ok(Vec::new());
        }
        let (start, table) = self.between("__alt_instructions", "__alt_instructions_end")?;
        let alternative = |(number, entry): (usize, &[u8])| {
            let own = start.wrapping_add((BYTES * number) as u64);
            let offset = |at: usize| {
                i64::from(i32::from_le_bytes([
                    entry[at],
                    entry[at + 1],
                    entry[at + 2],
                    entry[at + 3],
                ]))
            };
            let address = own.wrapping_add(4).wrapping_add_signed(offset(4));
            let length = u64::from(entry[BYTES - 1]);
            let end = address.checked_add(length);
            let end = end.ok_or(Error::NoMemory(address))?;
            let code = self.memory()?.read(address..end)?;
            Ok(Alternative {
                place: own.wrapping_add_signed(offset(0)),
                address,
                code,
            })
        };
        table
            .chunks_exact(BYTES)
            .enumerate()
            .map(alternative)
            .collect()
    }

    /// Returns the kernel's own types; `None` if it has no BTF.
    pub fn btf(&self) -> Result<Option<Arc<KernelTypes>>, Error> {
        let bytes = if self.is_running {
            sysfs_btf("vmlinux")?
        } else {
            let part = self.between("__start_BTF", "__stop_BTF").ok();
            part.map(|(_, bytes)| bytes)
        };
        Ok(bytes
            .and_then(|bytes| KernelTypes::new(bytes, None))
            .map(Arc::new))
    }

    /// Returns the types of a module, which go on from `base`; `None` if it has no BTF.
    pub fn module_btf(
        &self,
        module: &str,
        base: &Arc<KernelTypes>,
    ) -> Result<Option<KernelTypes>, Error> {
        let bytes = if self.is_running {
            sysfs_btf(module)?
        } else {
            None
        };
        Ok(bytes.and_then(|bytes| KernelTypes::new(bytes, Some(base.clone()))))
    }

    /// Returns the names of functions that BPF programs call, the kernel's own and its modules'.
    pub fn kfuncs(&self) -> Result<Vec<String>, Error> {
        let Some(base) = self.btf()? else {
            return Ok(Vec::new());
        };
        let mut names = base.kfuncs();
        let modules = self
            .symbols
            .all()
            .iter()
            .filter_map(|symbol| symbol.module.as_deref());
        for module in modules.collect::<BTreeSet<&str>>() {
            if let Some(btf) = self.module_btf(module, &base)? {
                names.extend(btf.kfuncs());
            }
        }
        Ok(names)
    }

    /// Returns the addresses at which functions have a call of ftrace, in a file; where that table
    /// is gone (in a running kernel) none.
    pub fn mcount_sites(&self) -> Result<BTreeSet<u64>, Error> {
        let (_, table) = self.between("__start_mcount_loc", "__stop_mcount_loc")?;
        let site = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        Ok(table.chunks_exact(8).map(site).collect())
    }

    /// Returns the addresses of the `endbr64` that boot replaces, as nothing ever jumps there by a
    /// pointer.
    pub fn seals(&self) -> Result<BTreeSet<u64>, Error> {
        let (start, table) = self.between("__ibt_endbr_seal", "__ibt_endbr_seal_end")?;
        let seal = |(number, bytes): (usize, &[u8])| {
            let offset = i32::from_le_bytes(bytes.try_into().unwrap_or_default());
            let own = start.wrapping_add(4 * number as u64);
            own.wrapping_add_signed(i64::from(offset))
        };
        Ok(table.chunks_exact(4).enumerate().map(seal).collect())
    }
}

/// Returns the types of `name`, `vmlinux` or a module, in the running kernel.
fn sysfs_btf(name: &str) -> Result<Option<Vec<u8>>, Error> {
    let path = Path::new("/sys/kernel/btf").join(name);
    match std::fs::read(&path) {
        Ok(btf) => Ok(Some(btf)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::Read(path, error)),
    }
}
