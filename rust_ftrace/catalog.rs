// SPDX-License-Identifier: GPL-2.0

//! Which functions can be traced, and what they are called.

use kernel::prelude::*;

use crate::engine::filter::Selector;
use crate::engine::function_set::FunctionSet;
use crate::engine::sort::sort_by_key;
use crate::sys::seq_reader::{read_lines, List};

/// Where a function is, and where its name lies in [`Catalog::names`].
#[derive(Clone, Copy)]
struct Entry {
    ip: usize,
    start: u32,
    name: u16,
    /// Length of the module's name, which follows that of the function; 0 for the kernel itself.
    module: u16,
}

/// A function that can be traced.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Function<'a> {
    /// Its ftrace location.
    pub(crate) ip: usize,
    /// Its name.
    pub(crate) name: &'a [u8],
    /// The module it belongs to, if not to the kernel itself.
    pub(crate) module: Option<&'a [u8]>,
}

/// Every function that ftrace can trace, as tracefs lists them.
///
/// # Invariants
///
/// `entries` is sorted by address; each one's name lies in `names`.
pub(crate) struct Catalog {
    entries: KVVec<Entry>,
    names: KVVec<u8>,
}

/// An `endbr64` may lie between a function's symbol and its ftrace location.
pub(crate) const MAX_LOCATION_OFFSET: usize = 4;

impl Catalog {
    /// Reads the list from tracefs, without the functions whose ftrace location `is_left_out`.
    ///
    /// # Errors
    ///
    /// Those of [`read_lines`], `EINVAL` if the list is not of the known form.
    pub(crate) fn read(is_left_out: impl Fn(usize) -> bool) -> Result<Self> {
        let mut catalog = Self {
            entries: KVVec::new(),
            names: KVVec::new(),
        };
        read_lines(List::FilterFunctions, |line| catalog.add(line))?;
        catalog.entries.retain(|entry| !is_left_out(entry.ip));
        catalog.entries.shrink_to(0, GFP_KERNEL)?;
        catalog.names.shrink_to(0, GFP_KERNEL)?;
        // Modules are listed in the order in which they were loaded.
        if !catalog.entries.is_sorted_by_key(|entry| entry.ip) {
            sort_by_key(&mut catalog.entries, |entry| entry.ip);
        }
        Ok(catalog)
    }

    /// Takes a line of the form `ffffffff81000000 name` or `ffffffffc0000000 name [module]`.
    fn add(&mut self, line: &[u8]) -> Result {
        let mut words = line.split(|&byte| byte == b' ');
        let (Some(address), Some(name)) = (words.next(), words.next()) else {
            return Err(EINVAL);
        };
        // The place of a function that the linker threw away.
        if name.starts_with(b"__ftrace_invalid_address__") {
            return Ok(());
        }
        let address = core::str::from_utf8(address).map_err(|_| EINVAL)?;
        let ip = usize::from_str_radix(address, 16).map_err(|_| EINVAL)?;
        let module = words
            .next()
            .and_then(|word| word.strip_prefix(b"["))
            .and_then(|word| word.strip_suffix(b"]"))
            .unwrap_or_default();
        let entry = Entry {
            ip,
            start: u32::try_from(self.names.len())?,
            name: u16::try_from(name.len())?,
            module: u16::try_from(module.len())?,
        };
        self.names.extend_from_slice(name, GFP_KERNEL)?;
        self.names.extend_from_slice(module, GFP_KERNEL)?;
        self.entries.push(entry, GFP_KERNEL)?;
        Ok(())
    }

    fn function(&self, entry: &Entry) -> Function<'_> {
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

    /// Number of functions.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Bytes of memory.
    pub(crate) fn bytes(&self) -> usize {
        self.entries.capacity() * core::mem::size_of::<Entry>() + self.names.capacity()
    }

    /// The function at place `index`, in the order of addresses.
    pub(crate) fn get(&self, index: usize) -> Option<Function<'_>> {
        self.entries.get(index).map(|entry| self.function(entry))
    }

    /// All functions, in the order of addresses.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Function<'_>> {
        self.entries.iter().map(|entry| self.function(entry))
    }

    /// The function with ftrace location `ip`.
    pub(crate) fn at(&self, ip: usize) -> Option<Function<'_>> {
        let index = self
            .entries
            .binary_search_by_key(&ip, |entry| entry.ip)
            .ok()?;
        self.get(index)
    }

    /// The function whose symbol lies at `address`.
    pub(crate) fn at_symbol(&self, address: usize) -> Option<Function<'_>> {
        let index = self.entries.partition_point(|entry| entry.ip < address);
        self.get(index)
            .filter(|function| function.ip - address <= MAX_LOCATION_OFFSET)
    }

    /// All functions that `selector` means.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn select(&self, selector: &Selector<'_>) -> Result<FunctionSet> {
        let chosen = self
            .iter()
            .filter(|function| selector.matches(function.name, function.module))
            .map(|function| function.ip);
        Ok(FunctionSet::from_sorted(chosen)?)
    }

    /// Returns whether there are functions of modules that `selector` names.
    pub(crate) fn has_module_of(&self, selector: &Selector<'_>) -> bool {
        let mut modules = self.iter().filter_map(|function| function.module);
        modules.any(|module| selector.is_of_module(module))
    }

    /// All functions.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn all(&self) -> Result<FunctionSet> {
        Ok(FunctionSet::from_sorted(
            self.entries.iter().map(|entry| entry.ip),
        )?)
    }
}
