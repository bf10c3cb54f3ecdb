// SPDX-License-Identifier: GPL-2.0 OR MIT

//! BTF, the bytes: the kernel's own description of its types (Documentation/bpf/btf.rst), and of
//! those of a module, which goes on where the kernel's ends.
//!
//! Header: magic (u16 at 0), its length (u32 at 4), offsets behind it and lengths of types (u32 at
//! 8 and 12), of strings (16, 20) and, since Linux 7.1, of a table that has the sizes of all kinds
//! (24, 28). Nothing in it is believed: what does not lie where it should is taken as missing.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

const MAGIC: u16 = 0xeb9f;
/// Size of the part of a type that all have: name, kind with number and flag, size or type (u32
/// each).
const TYPE_BYTES: usize = 12;
/// Size of a kind in the table of sizes: the size of what is there once, of each member (u8 each),
/// and two more bytes.
const LAYOUT_BYTES: usize = 4;

/// Kinds of types.
pub(super) mod kind {
    pub(in super::super) const PTR: u32 = 2;
    pub(in super::super) const ARRAY: u32 = 3;
    pub(in super::super) const STRUCT: u32 = 4;
    pub(in super::super) const UNION: u32 = 5;
    pub(in super::super) const ENUM: u32 = 6;
    pub(in super::super) const FWD: u32 = 7;
    pub(in super::super) const VOLATILE: u32 = 9;
    pub(in super::super) const CONST: u32 = 10;
    pub(in super::super) const RESTRICT: u32 = 11;
    pub(in super::super) const FUNC: u32 = 12;
    pub(in super::super) const FUNC_PROTO: u32 = 13;
    pub(in super::super) const DECL_TAG: u32 = 17;
    pub(in super::super) const TYPE_TAG: u32 = 18;
    pub(in super::super) const ENUM64: u32 = 19;
}

/// A type: the part that all have, and its place.
#[derive(Clone, Copy, Debug)]
pub(super) struct KernelType {
    pub(super) name: u32,
    pub(super) kind: u32,
    /// Number of members, parameters, ...
    pub(super) count: usize,
    pub(super) flag: bool,
    /// Size of the type, or the number of the type that it refers to.
    pub(super) size: u32,
    /// Offset of the part behind what all types have.
    rest: usize,
}

/// Types by their numbers, and functions by their names.
#[derive(Debug)]
pub struct KernelTypes {
    /// The types that these go on from.
    base: Option<Arc<KernelTypes>>,
    bytes: Vec<u8>,
    strings: Range<usize>,
    /// Offsets of the types; the first has the number behind the last one of the base (behind 0
    /// without one).
    types: Vec<usize>,
    functions: HashMap<String, u32>,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Returns a part of the bytes, whose offset and length are at `at`.
fn part(bytes: &[u8], header: usize, at: usize) -> Option<Range<usize>> {
    let start = header.checked_add(word(bytes, at)? as usize)?;
    let end = start.checked_add(word(bytes, at + 4)? as usize)?;
    (end <= bytes.len()).then_some(start..end)
}

impl KernelTypes {
    /// Reads all types. `None` if they make no sense.
    pub fn new(bytes: Vec<u8>, base: Option<Arc<KernelTypes>>) -> Option<Self> {
        (u16::from_le_bytes(*bytes.first_chunk()?) == MAGIC).then_some(())?;
        let header = word(&bytes, 4)? as usize;
        let types = part(&bytes, header, 8)?;
        let layout = match header {
            32.. => part(&bytes, header, 24).unwrap_or_default(),
            _ => 0..0,
        };
        let mut btf = Self {
            base,
            strings: part(&bytes, header, 16)?,
            bytes,
            types: Vec::new(),
            functions: HashMap::new(),
        };
        let mut at = types.start;
        while at < types.end {
            let found = btf.type_at(at)?;
            let end = found.rest.checked_add(btf.rest_bytes(&found, &layout)?)?;
            (end <= types.end).then_some(())?;
            btf.types.push(at);
            if found.kind == kind::FUNC {
                let name = btf.text(found.name).to_owned();
                btf.functions.insert(name, btf.count());
            }
            at = end;
        }
        Some(btf)
    }

    /// Returns the number of the last type.
    fn count(&self) -> u32 {
        self.base.as_ref().map_or(0, |base| base.count()) + self.types.len() as u32
    }

    /// Returns the size of all strings, those of the base included.
    pub(super) fn string_bytes(&self) -> usize {
        self.base.as_ref().map_or(0, |base| base.string_bytes()) + self.strings.len()
    }

    fn type_at(&self, at: usize) -> Option<KernelType> {
        let info = word(&self.bytes, at + 4)?;
        Some(KernelType {
            name: word(&self.bytes, at)?,
            kind: (info >> 24) & 0x7f,
            count: (info & 0xff_ffff) as usize,
            flag: info >> 31 != 0,
            size: word(&self.bytes, at + 8)?,
            rest: at + TYPE_BYTES,
        })
    }

    /// Returns the size of the part behind what all types have. A kind that is not known is in the
    /// table of sizes, or its size is unknown.
    fn rest_bytes(&self, of: &KernelType, layout: &Range<usize>) -> Option<usize> {
        let (once, each) = match of.kind {
            1 | 14 | kind::DECL_TAG => (4, 0),
            kind::ARRAY => (12, 0),
            kind::STRUCT | kind::UNION | 15 | kind::ENUM64 => (0, 12),
            kind::ENUM | kind::FUNC_PROTO => (0, 8),
            0..=kind::ENUM64 => (0, 0),
            kind => {
                let table = self.bytes.get(layout.clone())?;
                let sizes = table.get(LAYOUT_BYTES * kind as usize..)?;
                (usize::from(*sizes.first()?), usize::from(*sizes.get(1)?))
            }
        };
        of.count.checked_mul(each)?.checked_add(once)
    }

    /// Returns the type of that number; `None` for `void`, and for one that does not exist.
    pub(super) fn get(&self, number: u32) -> Option<KernelType> {
        let first = self.base.as_ref().map_or(0, |base| base.count()) + 1;
        match (&self.base, number.checked_sub(first)) {
            (_, Some(index)) => self.type_at(*self.types.get(index as usize)?),
            (Some(base), None) => base.get(number),
            (None, None) => None,
        }
    }

    /// Returns a word of the part that follows a type that [`KernelTypes::get`] returned for
    /// `number`.
    pub(super) fn word(&self, number: u32, of: &KernelType, index: usize) -> Option<u32> {
        let first = self.base.as_ref().map_or(0, |base| base.count()) + 1;
        match &self.base {
            Some(base) if number < first => base.word(number, of, index),
            _ => word(&self.bytes, of.rest + 4 * index),
        }
    }

    /// Returns the text at an offset of the strings; empty if there is none.
    pub(super) fn text(&self, offset: u32) -> &str {
        let before = self.base.as_ref().map_or(0, |base| base.string_bytes());
        let Some(own) = (offset as usize).checked_sub(before) else {
            return self.base.as_ref().map_or("", |base| base.text(offset));
        };
        let strings = self.bytes.get(self.strings.clone()).unwrap_or_default();
        let rest = strings.get(own..).unwrap_or_default();
        let end = rest.iter().position(|byte| *byte == 0).unwrap_or(0);
        std::str::from_utf8(&rest[..end]).unwrap_or_default()
    }

    /// Returns the number of the function of that name.
    pub(super) fn function(&self, name: &str) -> Option<u32> {
        let own = self.functions.get(name).copied();
        own.or_else(|| self.base.as_ref()?.function(name))
    }

    /// Returns the names of the functions that BPF programs call by name: they are tagged with
    /// `bpf_kfunc`.
    pub fn kfuncs(&self) -> Vec<String> {
        let tagged = |at: &usize| {
            let tag = self.type_at(*at)?;
            let is_kfunc = tag.kind == kind::DECL_TAG && self.text(tag.name) == "bpf_kfunc";
            let function = is_kfunc.then(|| self.get(tag.size))??;
            (function.kind == kind::FUNC).then(|| self.text(function.name).to_owned())
        };
        self.types.iter().filter_map(tagged).collect()
    }
}
