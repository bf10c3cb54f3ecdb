// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The kernel's own table of symbols, found in its image.
//!
//! `scripts/kallsyms.c` writes, each aligned to 4 bytes (8 before Linux 7.0): `kallsyms_num_syms`
//! (u32), `kallsyms_names` (for each symbol a ULEB128 of one or two bytes, and so many bytes, each
//! the number of a token), `kallsyms_markers` (u32: where every 256th of these begins),
//! `kallsyms_token_table` (256 tokens that end in 0), `kallsyms_token_index` (u16: where each of
//! these begins), and `kallsyms_offsets` (i32: relative to where they are; before Linux 7.0 to
//! `kallsyms_relative_base`, a u64 behind them). Nothing says where that is, but tokens of one
//! digit are always there, one behind the other.

use super::symbols::Symbol;
use super::Error;

/// Tokens, and symbols between two markers.
const TOKENS: usize = 256;

/// Possible alignments of the parts, in bytes.
const ALIGNMENTS: [usize; 2] = [4, 8];

/// Returns the symbols in `data`, which lies at `address` in memory.
pub(super) fn find(data: &[u8], address: u64) -> Result<Vec<Symbol>, Error> {
    let missing = || Error::Malformed("the kernel's table of symbols was not found in it".into());
    let digits = b"0\x001\x002\x003\x004\x005\x006\x007\x008\x009\x00";
    let mut from = 0;
    while let Some(at) = position(&data[from..], digits) {
        let at = from + at;
        let aligned = |alignment| KallsymsTable::around(data, at, alignment)?.symbols(address);
        if let Some(symbols) = ALIGNMENTS.into_iter().find_map(aligned) {
            return Ok(symbols);
        }
        from = at + 1;
    }
    Err(missing())
}

fn position(data: &[u8], wanted: &[u8]) -> Option<usize> {
    // `windows` alone takes seconds for an image.
    let first = wanted[0];
    let mut from = 0;
    loop {
        let at = from + data[from..].iter().position(|byte| *byte == first)?;
        if data[at..].starts_with(wanted) {
            return Some(at);
        }
        from = at + 1;
    }
}

/// A table, by the offsets of its parts.
struct KallsymsTable<'a> {
    data: &'a [u8],
    alignment: usize,
    tokens: usize,
    index: usize,
    markers: usize,
}

impl<'a> KallsymsTable<'a> {
    /// Returns a table whose tokens of one digit are at `digits`.
    fn around(data: &'a [u8], digits: usize, alignment: usize) -> Option<Self> {
        // The token of '0' is number 0x30: so many lie before it.
        let mut tokens = digits;
        for _ in 0..usize::from(b'0') {
            let end = tokens.checked_sub(1)?;
            tokens = data[..end].iter().rposition(|byte| *byte == 0)? + 1;
        }
        let mut table = Self {
            data,
            alignment,
            tokens,
            index: 0,
            markers: 0,
        };
        let mut end = tokens;
        let begins: Vec<usize> = (0..TOKENS)
            .map(|_| {
                let begin = end;
                end += data[begin..].iter().position(|byte| *byte == 0)? + 1;
                Some(begin - tokens)
            })
            .collect::<Option<_>>()?;
        table.index = end.next_multiple_of(alignment);
        let as_said = |number: usize| {
            Some(usize::from(table.u16(table.index + 2 * number)?) == begins[number])
        };
        if !(0..TOKENS).all(|number| as_said(number) == Some(true)) {
            return None;
        }
        table.markers = table.markers()?;
        Some(table)
    }

    fn u16(&self, at: usize) -> Option<u16> {
        Some(u16::from_le_bytes(
            self.data.get(at..at + 2)?.try_into().ok()?,
        ))
    }

    fn u32(&self, at: usize) -> Option<u32> {
        Some(u32::from_le_bytes(
            self.data.get(at..at + 4)?.try_into().ok()?,
        ))
    }

    fn u64(&self, at: usize) -> Option<u64> {
        Some(u64::from_le_bytes(
            self.data.get(at..at + 8)?.try_into().ok()?,
        ))
    }

    /// Returns the offset of the markers: they grow, from 0, up to the tokens.
    fn markers(&self) -> Option<usize> {
        let mut at = self.tokens.checked_sub(4)?;
        if self.u32(at)? == 0 {
            // Skip the padding.
            at = at.checked_sub(4)?;
        }
        while self.u32(at)? != 0 {
            let before = at.checked_sub(4)?;
            (self.u32(before)? < self.u32(at)?).then_some(())?;
            at = before;
        }
        Some(at)
    }

    /// Returns the symbols, if the parts fit together.
    fn symbols(&self, address: u64) -> Option<Vec<Symbol>> {
        let markers = (self.tokens - self.markers).div_ceil(4);
        let last = self.u32(self.tokens - 4)?.max(self.u32(self.tokens - 8)?) as usize;
        // The number of names stands before them, and they end where the markers begin.
        let nearest = self.markers.checked_sub(last)?;
        let furthest = nearest.saturating_sub(TOKENS * 512);
        (furthest..nearest)
            .rev()
            .filter(|at| at % self.alignment == 0)
            .filter(|at| {
                self.u32(*at)
                    .is_some_and(|count| (count as usize).div_ceil(TOKENS).abs_diff(markers) <= 1)
            })
            .find_map(|at| self.symbols_from(at, address))
    }

    /// Returns the symbols, if their number is at `at`.
    fn symbols_from(&self, at: usize, address: u64) -> Option<Vec<Symbol>> {
        let count = self.u32(at)? as usize;
        let first = at + self.alignment;
        let mut place = first;
        let mut names = Vec::with_capacity(count);
        for number in 0..count {
            if number % TOKENS == 0 {
                let marker = self.u32(self.markers + number / TOKENS * 4)? as usize;
                (place - first == marker).then_some(())?;
            }
            let low = usize::from(*self.data.get(place)?);
            place += 1;
            let mut length = low;
            if low & 0x80 != 0 {
                length = (low & 0x7f) | (usize::from(*self.data.get(place)?) << 7);
                place += 1;
            }
            (length > 0 && place + length <= self.markers).then_some(())?;
            names.push(self.expand(&self.data[place..place + length])?);
            place += length;
        }
        (place.next_multiple_of(self.alignment) == self.markers).then_some(())?;

        let offsets = self.index + 2 * TOKENS;
        let offset = |number: usize| Some(self.u32(offsets + 4 * number)? as i32);
        let own = |number: usize| {
            let place = address.wrapping_add((offsets + 4 * number) as u64);
            Some(place.wrapping_add_signed(i64::from(offset(number)?)))
        };
        let mut addresses: Vec<u64> = (0..count).map(own).collect::<Option<_>>()?;
        if !addresses.is_sorted() {
            let base = self.u64((offsets + 4 * count).next_multiple_of(self.alignment))?;
            let based = |number| base.checked_add(u64::from(offset(number)? as u32));
            addresses = (0..count).map(based).collect::<Option<_>>()?;
        }
        let symbol = |(name, address): (String, u64)| {
            let kind = name.bytes().next().unwrap_or_default();
            Symbol::new(address, kind, name.get(1..).unwrap_or_default(), None)
        };
        Some(names.into_iter().zip(addresses).map(symbol).collect())
    }

    /// Expands a name made of tokens; its first letter is the type.
    fn expand(&self, tokens: &[u8]) -> Option<String> {
        let mut name = Vec::new();
        for token in tokens {
            let from = self.tokens + usize::from(self.u16(self.index + 2 * usize::from(*token))?);
            let text = &self.data[from..self.index];
            name.extend_from_slice(&text[..text.iter().position(|byte| *byte == 0)?]);
        }
        String::from_utf8(name).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a table of `count` symbols `tN` at `address + 16 * N`, made as `scripts/kallsyms.c`
    /// does, behind some bytes.
    fn table(count: usize, alignment: usize, address: u64) -> Vec<u8> {
        let mut data = vec![0xaa; 4096];
        let align = |data: &mut Vec<u8>| data.resize(data.len().next_multiple_of(alignment), 0);
        data.extend((count as u32).to_le_bytes());
        align(&mut data);
        let first = data.len();
        let mut markers = Vec::new();
        for number in 0..count {
            if number % TOKENS == 0 {
                markers.push((data.len() - first) as u32);
            }
            let name = format!("tname_{number}");
            data.push(name.len() as u8);
            data.extend(name.bytes());
        }
        align(&mut data);
        data.extend(markers.iter().flat_map(|marker| marker.to_le_bytes()));
        align(&mut data);
        let mut begins = Vec::new();
        let tokens = data.len();
        for token in 0..=255u8 {
            begins.push((data.len() - tokens) as u16);
            let is_one = token.is_ascii_alphanumeric() || token == b'_';
            data.extend(if is_one {
                vec![token]
            } else {
                b"never".to_vec()
            });
            data.push(0);
        }
        align(&mut data);
        data.extend(begins.iter().flat_map(|begin| begin.to_le_bytes()));
        align(&mut data);
        for number in 0..count {
            let own = address + data.len() as u64;
            let target = address + 0x100_0000 + 16 * number as u64;
            data.extend(((target - own) as i32).to_le_bytes());
        }
        data.extend([0xbb; 64]);
        data
    }

    #[test]
    fn a_table_is_found_and_read() {
        let address = 0xffff_ffff_8200_0000;
        for alignment in ALIGNMENTS {
            let data = table(1000, alignment, address);
            let symbols = find(&data, address).unwrap();
            assert_eq!(symbols.len(), 1000);
            for (number, symbol) in symbols.iter().enumerate() {
                assert_eq!(&*symbol.name, format!("name_{number}"));
                assert_eq!(symbol.address, address + 0x100_0000 + 16 * number as u64);
                assert!(symbol.is_code);
            }
        }
    }

    /// A table that is cut or spoilt in any way gives an error and no panic.
    #[test]
    fn what_is_no_table_is_refused() {
        let data = table(300, 4, 0);
        for length in (0..data.len() - 64).step_by(97) {
            assert!(find(&data[..length], 0).is_err(), "{length}");
        }
        for at in (4096..data.len()).step_by(3) {
            let mut data = data.clone();
            data[at] = 0xff;
            let _ = find(&data, 0);
        }
    }
}
