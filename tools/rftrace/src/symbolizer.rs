// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The symbolizer: names of the functions that events belong to.

use rustc_hash::FxHashMap;

use rftrace_engine::engine::render;

use crate::kernel::KernelSymbols;

/// The number of a function, counted from 0 in the order in which functions were first asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FunctionId(pub u32);

impl FunctionId {
    /// Returns the place in a list of all functions.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Gives functions numbers and names.
#[derive(Debug, Default)]
pub struct Symbolizer {
    symbols: KernelSymbols,
    by_address: FxHashMap<u64, FunctionId>,
    /// Functions by the addresses at which they begin; where there is no symbol, by the address
    /// itself.
    by_start: FxHashMap<u64, FunctionId>,
    names: Vec<Box<str>>,
    places: FxHashMap<u64, Box<str>>,
}

impl Symbolizer {
    /// Returns a symbolizer that uses these symbols.
    pub fn new(symbols: KernelSymbols) -> Self {
        Self {
            symbols,
            ..Self::default()
        }
    }

    /// Returns the symbols.
    pub fn symbols(&self) -> &KernelSymbols {
        &self.symbols
    }

    /// Returns the function that `address` is in.
    #[inline]
    pub fn function(&mut self, address: u64) -> FunctionId {
        match self.by_address.get(&address) {
            Some(found) => *found,
            None => self.look_up(address),
        }
    }

    #[cold]
    fn look_up(&mut self, address: u64) -> FunctionId {
        let start = self.symbols.function_at(address).unwrap_or(address);
        let next = FunctionId(self.names.len() as u32);
        let found = *self.by_start.entry(start).or_insert(next);
        if found == next {
            self.names.push(full_name(&self.symbols, start).into());
        }
        self.by_address.insert(address, found);
        found
    }

    /// Returns the function's name: `name` or `name [module]`; the address in hex where there is no
    /// symbol.
    pub fn name(&self, function: FunctionId) -> &str {
        self.names.get(function.index()).map_or("", |name| name)
    }

    /// Returns the number of functions so far.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns whether no function was asked for yet.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }
}

/// Returns the name of the symbol at `start`, with its module.
fn full_name(symbols: &KernelSymbols, start: u64) -> String {
    let name = symbols.name(start);
    let found = symbols.at(start).iter().find(|symbol| *symbol.name == name);
    match found.and_then(|symbol| symbol.module.as_ref()) {
        Some(module) => format!("{name} [{module}]"),
        None => name,
    }
}

impl render::SymbolNames for Symbolizer {
    fn name(&mut self, address: u64) -> &[u8] {
        let function = self.function(address);
        Symbolizer::name(self, function).as_bytes()
    }

    fn place(&mut self, address: u64) -> &[u8] {
        let symbols = &self.symbols;
        let place = self.places.entry(address).or_insert_with(|| {
            let Some(start) = symbols.function_at(address) else {
                return format!("{address:#x}").into();
            };
            let name = full_name(symbols, start);
            let end = symbols.after(start).unwrap_or(start);
            let (offset, size) = (address - start, end - start);
            match name.split_once(' ') {
                Some((name, module)) => format!("{name}+{offset:#x}/{size:#x} {module}").into(),
                None => format!("{name}+{offset:#x}/{size:#x}").into(),
            }
        });
        place.as_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rftrace_engine::engine::render::SymbolNames as _;

    #[test]
    fn addresses_of_a_function_have_one_name() {
        let text = "ff00 T one\nff20 T two\nff40 t load\t[loop]\nff80 t end\t[loop]\n";
        let mut names = Symbolizer::new(KernelSymbols::of_text(text).unwrap());
        let one = names.function(0xff04);
        assert_eq!(names.function(0xff1f), one);
        assert_eq!(Symbolizer::name(&names, one), "one");
        let load = names.function(0xff44);
        assert_eq!(Symbolizer::name(&names, load), "load [loop]");
        assert_eq!(names.place(0xff44), b"load+0x4/0x40 [loop]");
        let none = names.function(0x10);
        assert_eq!(Symbolizer::name(&names, none), "0x10");
        assert_eq!(names.len(), 3);
    }
}
