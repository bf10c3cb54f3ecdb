// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Selection of functions by a word, as `filter` of rust_ftrace understands it.

use std::collections::BTreeSet;

use rftrace_engine::engine::filter::Selector;

use crate::function_names;
use crate::kernel::{KernelSymbols, Symbol};

/// Returns the addresses of the functions that `word` means: a name (and the variants that
/// compilers make of it), a pattern, and perhaps `:mod:MODULE`. Empty if it means none.
pub fn functions(symbols: &KernelSymbols, word: &str) -> BTreeSet<u64> {
    let Ok(selector) = Selector::parse(word.as_bytes()) else {
        return BTreeSet::new();
    };
    let is_meant = |symbol: &&Symbol| {
        symbol.is_code
            && selector.matches(
                symbol.name.as_bytes(),
                symbol.module.as_deref().map(str::as_bytes),
            )
    };
    let begins = symbols.all().iter().filter(is_meant);
    begins.map(|symbol| symbol.address).collect()
}

/// Returns the names of functions that may have been meant by `name`.
pub fn nearest(symbols: &KernelSymbols, name: &str) -> Vec<String> {
    let is_function = |symbol: &&Symbol| symbol.is_code && !symbol.is_mark();
    let functions = symbols.all().iter().filter(is_function);
    function_names::nearest(name, functions.map(|symbol| &*symbol.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_means_variants_and_modules() {
        let symbol = |address, name, module| Symbol::new(address, b't', name, module);
        let symbols = KernelSymbols::new(vec![
            symbol(0x10, "read", None),
            symbol(0x20, "read.isra.0", None),
            symbol(0x30, "read.cold", None),
            symbol(0x40, "read", Some("loop")),
            symbol(0x50, "write", Some("loop")),
        ]);
        let meant = |word| functions(&symbols, word).into_iter().collect::<Vec<_>>();
        assert_eq!(meant("read"), [0x10, 0x20, 0x40]);
        assert_eq!(meant("read:mod:loop"), [0x40]);
        assert_eq!(meant("*:mod:loop"), [0x40, 0x50]);
        assert_eq!(meant("raed"), [0; 0]);
        assert_eq!(meant(""), [0; 0]);
        assert_eq!(nearest(&symbols, "wriet"), ["write"]);
    }
}
