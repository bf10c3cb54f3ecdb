// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Names and addresses of the kernel's functions.

use std::ops::Range;
use std::sync::OnceLock;

use rustc_hash::FxHashMap;

use super::Error;

/// A name of an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// Address of the symbol.
    pub address: u64,
    /// Name of the symbol.
    pub name: Box<str>,
    /// Module of the symbol; `None` for the kernel itself.
    pub module: Option<Box<str>>,
    /// True for code, false for data.
    pub is_code: bool,
}

impl Symbol {
    /// Returns a symbol of the type that `nm` gives as a letter.
    pub fn new(address: u64, kind: u8, name: &str, module: Option<&str>) -> Self {
        Self {
            address,
            name: name.into(),
            module: module.map(Into::into),
            is_code: matches!(kind | 0x20, b't' | b'w'),
        }
    }

    /// Returns whether the symbol marks a place before a function, or a section, and is no function
    /// of its own.
    pub fn is_mark(&self) -> bool {
        self.name.starts_with("__pfx_") || self.name.starts_with("__cfi_")
    }
}

/// Returns the ranges in which the kernel itself has code, as far as symbols tell.
fn texts(all: &[Symbol]) -> Vec<Range<u64>> {
    let place = |name| Some(all.iter().find(|symbol| &*symbol.name == name)?.address);
    let text = |(from, until)| Some(place(from)?..place(until)?);
    [("_stext", "_etext"), ("_sinittext", "_einittext")]
        .into_iter()
        .filter_map(text)
        .collect()
}

/// A kernel's symbols.
///
/// # Invariants
///
/// `all` is sorted by address, and within one by the order of the source. `functions` are the
/// addresses of code that is not a mark, sorted, each once, with the index of its first symbol.
#[derive(Debug, Default)]
pub struct KernelSymbols {
    all: Vec<Symbol>,
    /// Addresses by name, made on first use: most commands look up few names, or none.
    by_name: OnceLock<FxHashMap<Box<str>, Vec<u64>>>,
    functions: Vec<(u64, usize)>,
}

impl KernelSymbols {
    /// Sorts symbols that come in any order.
    pub fn new(mut all: Vec<Symbol>) -> Self {
        all.sort_by_key(|symbol| symbol.address);
        // Global data may be marked as code: type T, since Linux 7.3.
        let texts = texts(&all);
        for symbol in all.iter_mut().filter(|symbol| symbol.module.is_none()) {
            let address = symbol.address;
            symbol.is_code &= texts.is_empty() || texts.iter().any(|text| text.contains(&address));
        }
        let mut functions: Vec<(u64, usize)> = Vec::new();
        for (index, symbol) in all.iter().enumerate() {
            if symbol.is_code
                && !symbol.is_mark()
                && functions.last().is_none_or(|last| last.0 != symbol.address)
            {
                functions.push((symbol.address, index));
            }
        }
        // INVARIANT: Sorted above, and made in that order.
        Self {
            all,
            by_name: OnceLock::new(),
            functions,
        }
    }

    /// Reads the text of `/proc/kallsyms`: lines `ADDRESS TYPE NAME[\t[MODULE]]`.
    ///
    /// Without privileges all addresses are 0 there: [`Error::Hidden`].
    pub fn of_text(text: &str) -> Result<Self, Error> {
        let mut all = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let malformed = || Error::Malformed(format!("line {} of kallsyms", number + 1));
            let mut words = line.split_ascii_whitespace();
            let (Some(address), Some(kind), Some(name)) =
                (words.next(), words.next(), words.next())
            else {
                return Err(malformed());
            };
            let address = u64::from_str_radix(address, 16).map_err(|_| malformed())?;
            let kind = kind.bytes().next().ok_or_else(malformed)?;
            let module = words.next().map(|word| word.trim_matches(['[', ']']));
            // BPF programs, and trampolines of ftrace and kprobes, come and go, and are not in the
            // kernel's text.
            let is_passing = |module: &str| module == "bpf" || module.starts_with("__builtin__");
            if !module.is_some_and(is_passing) {
                all.push(Symbol::new(address, kind, name, module));
            }
        }
        if all.iter().all(|symbol| symbol.address == 0) {
            return Err(Error::Hidden);
        }
        Ok(Self::new(all))
    }

    /// Returns all symbols, by address.
    pub fn all(&self) -> &[Symbol] {
        &self.all
    }

    /// Returns the addresses of `name`: several where several functions have it, none if there is
    /// no such name.
    pub fn places(&self, name: &str) -> &[u64] {
        let by_name = self.by_name.get_or_init(|| {
            let mut by_name: FxHashMap<Box<str>, Vec<u64>> = FxHashMap::default();
            for symbol in &self.all {
                let places = by_name.entry(symbol.name.clone()).or_default();
                places.push(symbol.address);
            }
            by_name
        });
        by_name.get(name).map_or(&[], |places| places)
    }

    /// Returns the first address of `name`. It looks through all symbols, which is less than to
    /// sort them by name.
    pub fn first_place(&self, name: &str) -> Option<u64> {
        let found = self.all.iter().find(|symbol| &*symbol.name == name);
        found.map(|symbol| symbol.address)
    }

    /// Returns the address of `name`, if there is just one.
    pub fn place(&self, name: &str) -> Option<u64> {
        match self.places(name) {
            [place] => Some(*place),
            _ => None,
        }
    }

    /// Returns the addresses at which functions begin, sorted.
    pub fn functions(&self) -> impl DoubleEndedIterator<Item = u64> + ExactSizeIterator + '_ {
        self.functions.iter().map(|function| function.0)
    }

    /// Returns the address at which the function begins that `ip` is in.
    pub fn function_at(&self, ip: u64) -> Option<u64> {
        let after = self.functions.partition_point(|function| function.0 <= ip);
        Some(self.functions[after.checked_sub(1)?].0)
    }

    /// Returns the address at which the first function behind `address` begins.
    pub fn after(&self, address: u64) -> Option<u64> {
        let after = self
            .functions
            .partition_point(|function| function.0 <= address);
        Some(self.functions.get(after)?.0)
    }

    /// Returns all symbols at `address`.
    pub fn at(&self, address: u64) -> &[Symbol] {
        let from = self.all.partition_point(|symbol| symbol.address < address);
        let until = self.all.partition_point(|symbol| symbol.address <= address);
        &self.all[from..until]
    }

    /// Returns the name of the function at `address`; the address where it has none.
    pub fn name(&self, address: u64) -> String {
        let functions = &self.functions;
        match functions.binary_search_by_key(&address, |function| function.0) {
            Ok(index) => self.all[functions[index].1].name.to_string(),
            Err(_) => format!("{address:#x}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_no_function_whatever_its_type() {
        let lines = "ff00 T _stext\nff10 t one\nff10 T __pfx_two\nff20 T two\nff30 T _etext\n\
                     ff40 T jiffies_64\nff50 d data\nffa0 t load\t[loop]\nffb0 t prog\t[bpf]\n\
                     ffc0 t ftrace_trampoline\t[__builtin__ftrace]\n";
        let symbols = KernelSymbols::of_text(lines).unwrap();
        let functions: Vec<String> = symbols
            .functions()
            .map(|place| symbols.name(place))
            .collect();
        assert_eq!(functions, ["_stext", "one", "two", "load"]);
        assert_eq!(symbols.place("jiffies_64"), Some(0xff40));
        assert!(!symbols.at(0xff40)[0].is_code);
        assert_eq!(symbols.function_at(0xff2f), Some(0xff20));
        assert_eq!(symbols.function_at(0x10), None);
    }

    #[test]
    fn text_that_is_not_kallsyms_is_refused() {
        assert!(matches!(
            KernelSymbols::of_text("0 T a\n0 t b\n"),
            Err(Error::Hidden)
        ));
        for wrong in ["ff00 T", "xyz T a", "ff00 T a\n\n"] {
            assert!(
                matches!(KernelSymbols::of_text(wrong), Err(Error::Malformed(_))),
                "{wrong}"
            );
        }
    }
}
