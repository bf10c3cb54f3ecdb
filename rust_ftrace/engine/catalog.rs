// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The catalog of the functions that can be traced, with their names.

use super::filter::Selector;
use super::function_set::FunctionSet;
use super::sort::sort_by_key;
use crate::platform::{AllocError, Vec};

/// The address of a function, and the place of its name in [`Catalog::names`].
#[derive(Clone, Copy)]
struct CatalogEntry {
    ip: usize,
    start: u32,
    name: u16,
    /// Length of the module's name, which follows that of the function; 0 for the kernel itself.
    module: u16,
}

/// A function that can be traced.
#[derive(Clone, Copy, Debug)]
pub struct Function<'a> {
    /// Its ftrace location.
    pub ip: usize,
    /// Its name.
    pub name: &'a [u8],
    /// The module it belongs to, if not to the kernel itself.
    pub module: Option<&'a [u8]>,
}

/// Functions that ftrace can trace, as tracefs lists them, but for those that are never traced
/// ([`is_before_idt`]).
///
/// # Invariants
///
/// `entries` is sorted by address once [`finish`](Self::finish) was called; the name of each lies
/// in `names`.
pub struct Catalog {
    entries: Vec<CatalogEntry>,
    names: Vec<u8>,
}

/// A reason for which a line is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadLine {
    /// It is not of the known form.
    Form,
    /// There is no memory.
    NoMemory,
}

impl From<AllocError> for BadLine {
    fn from(_: AllocError) -> Self {
        Self::NoMemory
    }
}

/// Functions that a starting CPU calls before it has a table of interrupts, and that ftrace can
/// trace all the same: from `secondary_startup_64` (arch/x86/kernel/head_64.S) to
/// `load_current_idt()`. ftrace changes a function by a breakpoint: a CPU that came by just then
/// would reset the machine (docs/upstream/ftrace-starting-cpu.md).
const BEFORE_IDT: [&[u8]; 6] = [
    b"setup_ghcb",
    b"sev_es_negotiate_protocol",
    b"snp_register_ghcb_early",
    b"cpu_init_fred_exceptions",
    b"cpu_init_fred_rsps",
    b"load_current_idt",
];

/// Returns whether a function of the kernel is never traced, as a starting CPU calls it before it
/// can take a breakpoint.
pub fn is_before_idt(name: &[u8]) -> bool {
    BEFORE_IDT.contains(&name)
}

/// Bytes by which a function's ftrace location may lie behind its symbol: an `endbr64`.
pub const MAX_LOCATION_OFFSET: usize = 4;

impl Catalog {
    /// Makes a catalog without functions.
    pub const fn new() -> Self {
        Self {
            entries: Vec::new(),
            names: Vec::new(),
        }
    }

    /// Takes a line of the form `ffffffff81000000 name` or `ffffffffc0000000 name [module]`.
    ///
    /// # Errors
    ///
    /// The line is not taken then, and the rest is as before.
    pub fn add(&mut self, line: &[u8]) -> Result<(), BadLine> {
        let mut words = line.split(|&byte| byte == b' ');
        let (Some(address), Some(name)) = (words.next(), words.next()) else {
            return Err(BadLine::Form);
        };
        // The place of a function that the linker threw away.
        if name.starts_with(b"__ftrace_invalid_address__") {
            return Ok(());
        }
        let address = core::str::from_utf8(address).map_err(|_| BadLine::Form)?;
        let ip = usize::from_str_radix(address, 16).map_err(|_| BadLine::Form)?;
        let module = words
            .next()
            .and_then(|word| word.strip_prefix(b"["))
            .and_then(|word| word.strip_suffix(b"]"))
            .unwrap_or_default();
        if module.is_empty() && is_before_idt(name) {
            return Ok(());
        }
        let entry = CatalogEntry {
            ip,
            start: u32::try_from(self.names.len()).map_err(|_| BadLine::Form)?,
            name: u16::try_from(name.len()).map_err(|_| BadLine::Form)?,
            module: u16::try_from(module.len()).map_err(|_| BadLine::Form)?,
        };
        self.names.extend_from_slice(name)?;
        self.names.extend_from_slice(module)?;
        self.entries.push(entry)?;
        Ok(())
    }

    /// Takes out the functions whose ftrace location `is_left_out`, and sorts the others.
    pub fn finish(&mut self, mut is_left_out: impl FnMut(usize) -> bool) {
        self.entries.retain(|entry| !is_left_out(entry.ip));
        self.entries.shrink();
        self.names.shrink();
        // Modules are listed in the order in which they were loaded.
        if !self.entries.is_sorted_by_key(|entry| entry.ip) {
            sort_by_key(&mut self.entries, |entry| entry.ip);
        }
    }

    fn function(&self, entry: &CatalogEntry) -> Function<'_> {
        let rest = self.names.get(entry.start as usize..).unwrap_or_default();
        let (name, rest) = rest
            .split_at_checked(entry.name as usize)
            .unwrap_or_default();
        let module = rest
            .get(..entry.module as usize)
            .filter(|name| !name.is_empty());
        Function {
            ip: entry.ip,
            name,
            module,
        }
    }

    /// Returns the number of functions.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the bytes of memory that this takes.
    pub fn bytes(&self) -> usize {
        let entries = self.entries.capacity() * size_of::<CatalogEntry>();
        entries + self.names.capacity()
    }

    /// Returns the function at place `index`, in the order of addresses.
    pub fn get(&self, index: usize) -> Option<Function<'_>> {
        self.entries.get(index).map(|entry| self.function(entry))
    }

    /// Returns all functions, in the order of addresses.
    pub fn iter(&self) -> impl Iterator<Item = Function<'_>> {
        self.entries.iter().map(|entry| self.function(entry))
    }

    /// Returns the function with ftrace location `ip`.
    pub fn at(&self, ip: usize) -> Option<Function<'_>> {
        let index = self
            .entries
            .binary_search_by_key(&ip, |entry| entry.ip)
            .ok()?;
        self.get(index)
    }

    /// Returns the function whose symbol lies at `address`.
    pub fn at_symbol(&self, address: usize) -> Option<Function<'_>> {
        let index = self.entries.partition_point(|entry| entry.ip < address);
        self.get(index)
            .filter(|function| function.ip - address <= MAX_LOCATION_OFFSET)
    }

    /// Returns the functions that `selector` means.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn select(&self, selector: &Selector<'_>) -> Result<FunctionSet, AllocError> {
        let is_name = selector.is_name();
        let length = selector.names.len();
        // Few functions have a name of that length, or one that goes on with a dot: only those are
        // compared.
        let can_be = |entry: &&CatalogEntry| {
            let byte_behind = || {
                self.names
                    .get((entry.start as usize).saturating_add(length))
            };
            let own = usize::from(entry.name);
            !is_name || own == length || own > length && byte_behind() == Some(&b'.')
        };
        let chosen = self
            .entries
            .iter()
            .filter(can_be)
            .map(|entry| self.function(entry))
            .filter(|function| selector.matches(function.name, function.module))
            .map(|function| function.ip);
        FunctionSet::from_sorted(chosen)
    }

    /// Returns whether there are functions of modules that `selector` names.
    pub fn has_module_of(&self, selector: &Selector<'_>) -> bool {
        let mut modules = self.iter().filter_map(|function| function.module);
        modules.any(|module| selector.is_of_module(module))
    }

    /// Returns the set of all functions.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn all(&self) -> Result<FunctionSet, AllocError> {
        FunctionSet::from_sorted(self.entries.iter().map(|entry| entry.ip))
    }
}
