// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The kernel's description of its own types (Documentation/bpf/btf.rst), as far as it is needed to
//! show the arguments of a call: names and types of a function's parameters.
//!
//! A module has a description of its own, which goes on from the kernel's (split BTF): its first
//! type has the number behind the kernel's last, and its strings begin at the offset at which the
//! kernel's end. `btf_parse_module()` of kernel/bpf/btf.c reads it so. Where it was made for a
//! selection of the kernel's types (`.BTF.base`), that function has changed numbers and offsets
//! to the kernel's, in place, before anything can read them.
//!
//! Nothing in it is trusted: an offset that leads outside counts as missing. A description that
//! goes on from another is refused if there is any such offset, as it is likely to go on from one
//! that is not this.

use core::fmt::{Result as FmtResult, Write};
use core::ops::Range;

use super::errno::ResultKind;
use super::extras::ARGS;
use super::sort::sort_by_key;
use crate::platform::{AllocError, Vec};

const MAGIC: u16 = 0xeb9f;
/// Bytes of the part that all types have.
const TYPE_BYTES: usize = 12;
/// Most modifiers (`const`, `typedef`, ...) before a type.
const MAX_MODIFIERS: usize = 32;

const KINDS: [&str; 20] = [
    "UNKNOWN",
    "INT",
    "PTR",
    "ARRAY",
    "STRUCT",
    "UNION",
    "ENUM",
    "FWD",
    "TYPEDEF",
    "VOLATILE",
    "CONST",
    "RESTRICT",
    "FUNC",
    "FUNC_PROTO",
    "VAR",
    "DATASEC",
    "FLOAT",
    "DECL_TAG",
    "TYPE_TAG",
    "ENUM64",
];
const INT: u32 = 1;
const PTR: u32 = 2;
const ENUM: u32 = 6;
const FUNC: u32 = 12;
const FUNC_PROTO: u32 = 13;
const VAR: u32 = 14;
/// Encodings of an `INT`.
const SIGNED: u32 = 1;
const BOOL: u32 = 4;
const DECL_TAG: u32 = 17;

/// A type: the part that all have, and the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BtfType<'a> {
    name: u32,
    kind: u32,
    /// Its size, or the type that it leads to.
    size: u32,
    /// The part that depends on the kind.
    rest: &'a [u8],
}

impl<'a> BtfType<'a> {
    /// Reads the type at offset `at`; `None` if it is not whole, or the kind is not known.
    fn at(bytes: &'a [u8], at: usize) -> Option<Self> {
        let info = half(bytes, at.checked_add(4)?)?;
        let kind = (info >> 24) & 0x7f;
        let rest = at.checked_add(TYPE_BYTES)?;
        let end = rest.checked_add(rest_bytes(kind, info & 0xff_ffff)?)?;
        Some(Self {
            name: half(bytes, at)?,
            kind,
            size: half(bytes, at.checked_add(8)?)?,
            rest: bytes.get(rest..end)?,
        })
    }

    const fn is_modifier(&self) -> bool {
        // typedef, volatile, const, restrict, type_tag
        matches!(self.kind, 8..=11 | 18)
    }

    /// Returns whether `size` is the number of a type.
    const fn refers(&self) -> bool {
        self.is_modifier() || matches!(self.kind, PTR | FUNC | FUNC_PROTO | VAR | DECL_TAG)
    }

    /// Iterates over pairs of words: name and type of a parameter, or name and value of a constant.
    fn pairs(&self) -> impl Iterator<Item = (u32, u32)> + 'a {
        let word = |bytes| half(bytes, 0).unwrap_or(0);
        let pair = move |pair: &'a [u8]| {
            let (first, second) = pair.split_at_checked(4)?;
            Some((word(first), word(second)))
        };
        self.rest.chunks_exact(8).filter_map(pair)
    }
}

/// Returns the bytes of the part that depends on the kind; `None` if the kind is not known.
fn rest_bytes(kind: u32, count: u32) -> Option<usize> {
    let each = match kind {
        4 | 5 | 15 | 19 => 12,
        ENUM | FUNC_PROTO => 8,
        INT | VAR | DECL_TAG => return Some(4),
        3 => return Some(12),
        kind if (kind as usize) < KINDS.len() => 0,
        _ => return None,
    };
    (count as usize).checked_mul(each)
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    let rest = bytes.get(at..)?;
    Some(u32::from_le_bytes(*rest.first_chunk()?))
}

/// Returns the range of a part whose offset behind the header and length lie at `at`.
fn part(bytes: &[u8], header: usize, at: usize) -> Option<Range<usize>> {
    let start = header.checked_add(half(bytes, at)? as usize)?;
    let end = start.checked_add(half(bytes, at + 4)? as usize)?;
    (end <= bytes.len()).then_some(start..end)
}

fn hash(name: &[u8]) -> u32 {
    name.iter().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// The number of types, `void` not among them, and the bytes of strings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extent {
    types: u32,
    strings: u32,
}

/// The types of a description by their numbers, and its functions by their names.
pub struct Btf<B> {
    bytes: B,
    strings: Range<usize>,
    /// The extent of the description that this one goes on from.
    before: Extent,
    /// Offsets of the types; the first has the number behind those before.
    types: Vec<u32>,
    /// For each function, a hash of its name and the number of its type, in order.
    functions: Vec<(u32, u32)>,
}

impl<B: AsRef<[u8]>> Btf<B> {
    /// Reads all types of a description that stands alone; `None` if they are not as expected.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new(bytes: B) -> Result<Option<Self>, AllocError> {
        Self::read(bytes, Extent::default(), None)
    }

    /// Reads all types of a description that goes on from `base`, which stands alone; `None` if
    /// they are not as expected, or any of them leads to what neither has.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn split(bytes: B, base: &Self) -> Result<Option<Self>, AllocError> {
        let Some(before) = base.extent().filter(|_| base.before == Extent::default()) else {
            return Ok(None);
        };
        let read = Self::read(bytes, before, Some(base))?;
        Ok(read.filter(|read| read.is_closed(base)))
    }

    fn read(bytes: B, before: Extent, base: Option<&Self>) -> Result<Option<Self>, AllocError> {
        let mut btf = Self {
            bytes,
            strings: 0..0,
            before,
            types: Vec::new(),
            functions: Vec::new(),
        };
        Ok(btf.scan(base)?.map(|()| btf))
    }

    fn scan(&mut self, base: Option<&Self>) -> Result<Option<()>, AllocError> {
        let bytes = self.bytes.as_ref();
        let Some(header) = half(bytes, 4).map(|bytes| bytes as usize) else {
            return Ok(None);
        };
        let magic = bytes.first_chunk().map(|magic| u16::from_le_bytes(*magic));
        let parts = part(bytes, header, 8).zip(part(bytes, header, 16));
        let (Some(MAGIC), Some((types, strings))) = (magic, parts) else {
            return Ok(None);
        };
        self.strings = strings;
        let mut at = types.start;
        while at < types.end {
            let bytes = self.bytes.as_ref();
            let Some(found) = BtfType::at(bytes, at) else {
                return Ok(None);
            };
            let end = at + TYPE_BYTES + found.rest.len();
            let number = (self.types.len() as u32).checked_add(self.before.types);
            let number = number.and_then(|number| number.checked_add(1));
            let (Some(number), Ok(offset)) = (number, u32::try_from(at)) else {
                return Ok(None);
            };
            if end > types.end {
                return Ok(None);
            }
            if found.kind == FUNC {
                // A name that is in both is kept in the base alone.
                let known = KnownTypes { own: self, base };
                let name = hash(known.named(found.name));
                self.functions.push((name, number))?;
            }
            self.types.push(offset)?;
            at = end;
        }
        sort_by_key(&mut self.functions, |function| *function);
        Ok(Some(()))
    }

    /// Returns what is in this description and before it; `None` if that cannot be counted.
    fn extent(&self) -> Option<Extent> {
        let types = u32::try_from(self.types.len()).ok()?;
        let strings = u32::try_from(self.strings.len()).ok()?;
        Some(Extent {
            types: self.before.types.checked_add(types)?,
            strings: self.before.strings.checked_add(strings)?,
        })
    }

    /// Returns whether all that this refers to is in it, or in `base`.
    fn is_closed(&self, base: &Self) -> bool {
        let (Some(end), Some(types)) = (self.extent(), self.after(base)) else {
            return false;
        };
        // What is before ends with a whole string, and so does this.
        let ends = |btf: &Self| btf.text().last().is_none_or(|byte| *byte == 0);
        let has_name = |name: u32| name < end.strings || name == 0;
        let has_type = |number: u32| number <= end.types;
        let is_closed = |number: u32| {
            types.get(number).is_some_and(|found| {
                let is_prototype = found.kind == FUNC_PROTO;
                let mut parameters = found.pairs().take_while(|_| is_prototype);
                has_name(found.name)
                    && (!found.refers() || has_type(found.size))
                    && parameters.all(|(name, number)| has_name(name) && has_type(number))
            })
        };
        ends(base) && ends(self) && (self.before.types + 1..=end.types).all(is_closed)
    }

    /// Returns the bytes of memory that this takes.
    pub fn bytes(&self) -> usize {
        self.bytes.as_ref().len() + self.types.len() * 4 + self.functions.len() * 8
    }

    /// Returns the types without those that they go on from, which count as missing.
    pub fn alone(&self) -> KnownTypes<'_, B> {
        KnownTypes {
            own: self,
            base: None,
        }
    }

    /// Returns the types with those of `base`; `None` if they go on from another.
    pub fn after<'a>(&'a self, base: &'a Self) -> Option<KnownTypes<'a, B>> {
        (base.extent() == Some(self.before)).then_some(KnownTypes {
            own: self,
            base: Some(base),
        })
    }

    fn text(&self) -> &[u8] {
        let text = self.bytes.as_ref().get(self.strings.clone());
        text.unwrap_or_default()
    }

    /// Returns the string at an offset, if it is of this description.
    fn own_name(&self, name: u32) -> Option<&[u8]> {
        let at = name.checked_sub(self.before.strings)? as usize;
        let rest = self.text().get(at..)?;
        let end = rest.iter().position(|&byte| byte == 0)?;
        rest.get(..end)
    }

    /// Returns the type of that number, if it is of this description.
    fn own_type(&self, number: u32) -> Option<BtfType<'_>> {
        let index = number.checked_sub(self.before.types)?.checked_sub(1)?;
        let at = self.types.get(index as usize)?;
        BtfType::at(self.bytes.as_ref(), *at as usize)
    }
}

/// The types that are known of a function: those of its description, and those that this goes on
/// from.
pub struct KnownTypes<'a, B> {
    own: &'a Btf<B>,
    base: Option<&'a Btf<B>>,
}

impl<'a, B: AsRef<[u8]>> KnownTypes<'a, B> {
    /// Returns the string at an offset; an empty one if there is none.
    fn named(&self, name: u32) -> &'a [u8] {
        let own = self.own.own_name(name);
        let found = own.or_else(|| self.base?.own_name(name));
        found.unwrap_or_default()
    }

    /// Returns the type of that number; `None` for `void`, and for one that does not exist.
    fn get(&self, number: u32) -> Option<BtfType<'a>> {
        let own = self.own.own_type(number);
        own.or_else(|| self.base?.own_type(number))
    }

    /// Returns the prototype of the function `name` of the description itself, whatever the one
    /// that it goes on from has by that name.
    fn prototype(&self, name: &[u8]) -> Option<BtfType<'a>> {
        let wanted = hash(name);
        let functions = &self.own.functions;
        let first = functions.partition_point(|(hash, _)| *hash < wanted);
        let found = (functions.get(first..)?.iter())
            .take_while(|(hash, _)| *hash == wanted)
            .filter_map(|(_, number)| self.get(*number))
            .find(|function| self.named(function.name) == name)?;
        self.get(found.size)
            .filter(|found| found.kind == FUNC_PROTO)
    }

    /// Returns the type without its modifiers.
    fn plain(&self, number: u32) -> Option<BtfType<'a>> {
        let mut found = self.get(number)?;
        for _ in 0..MAX_MODIFIERS {
            if !found.is_modifier() {
                return Some(found);
            }
            found = self.get(found.size)?;
        }
        None
    }

    /// Returns how the result of the function `name` can be an error.
    ///
    /// An int is taken from the lower half of the register; what has 64 bits, and pointers, as
    /// `IS_ERR_VALUE()` and `IS_ERR()` do. Unsigned ints, enumerations and truth values are no
    /// errors.
    pub fn result(&self, name: &[u8]) -> ResultKind {
        let Some(prototype) = self.prototype(name) else {
            return ResultKind::Unknown;
        };
        let Some(found) = self.plain(prototype.size) else {
            return ResultKind::None;
        };
        let encoding = half(found.rest, 0).unwrap_or(0) >> 24;
        match (found.kind, found.size) {
            (PTR, _) => ResultKind::Long,
            (INT, 8) if encoding & BOOL == 0 => ResultKind::Long,
            (INT, 4) if encoding & (SIGNED | BOOL) == SIGNED => ResultKind::Int,
            (INT | ENUM, 4) => ResultKind::Half,
            (INT | ENUM, 1) => ResultKind::Byte,
            _ => ResultKind::None,
        }
    }

    /// Writes the arguments of a call of the function `name`, in brackets, as
    /// `print_function_args()` of kernel/trace/trace_output.c does. Returns false, and writes
    /// nothing, if the function is not known.
    pub fn write_args(
        &self,
        out: &mut dyn Write,
        name: &[u8],
        args: &[u64; ARGS],
    ) -> Result<bool, core::fmt::Error> {
        let Some(prototype) = self.prototype(name) else {
            return Ok(false);
        };
        out.write_char('(')?;
        let mut registers = args.iter();
        for (index, (name, number)) in prototype.pairs().enumerate() {
            if index != 0 {
                out.write_str(", ")?;
            }
            let Some(&value) = registers.next() else {
                out.write_str("...")?;
                break;
            };
            for chunk in self.named(name).utf8_chunks() {
                out.write_str(chunk.valid())?;
            }
            out.write_char('=')?;
            match self.plain(number) {
                Some(found) if found.kind == ENUM => self.write_enum(out, &found, value)?,
                Some(found) if found.kind == INT => {
                    let is_signed =
                        half(found.rest, 0).is_some_and(|info| (info >> 24) & SIGNED != 0);
                    match is_signed {
                        true => write!(out, "{}", value as i64)?,
                        false => write!(out, "{value:#x}")?,
                    }
                }
                Some(found) if found.kind == PTR => write!(out, "{value:#x}")?,
                None => write!(out, "?{value:#x}")?,
                Some(found) => {
                    let kind = KINDS.get(found.kind as usize).unwrap_or(&"UNKNOWN");
                    write!(out, "({kind})[{value:#x}")?;
                    for _ in (8..found.size).step_by(8) {
                        let Some(value) = registers.next() else {
                            out.write_str(":...])")?;
                            return Ok(true);
                        };
                        write!(out, ":{value:#x}")?;
                    }
                    out.write_char(']')?;
                }
            }
        }
        out.write_char(')')?;
        Ok(true)
    }

    fn write_enum(&self, out: &mut dyn Write, found: &BtfType<'_>, value: u64) -> FmtResult {
        write!(out, "{}", value as i64)?;
        let is_value = |(_, number): &(u32, u32)| i64::from(*number as i32) == value as i64;
        let Some((name, _)) = found.pairs().find(is_value) else {
            return Ok(());
        };
        out.write_str(" [")?;
        for chunk in self.named(name).utf8_chunks() {
            out.write_str(chunk.valid())?;
        }
        out.write_char(']')
    }
}

/// Returns the name of a function and that of its module, which kallsyms has behind it in brackets.
pub fn name_and_module(symbol: &[u8]) -> (&[u8], Option<&[u8]>) {
    let split = || {
        let inner = symbol.strip_suffix(b"]")?;
        let at = inner.windows(2).position(|bytes| bytes == b" [")?;
        Some((inner.get(..at)?, inner.get(at.checked_add(2)?..)?))
    };
    match split() {
        Some((name, module)) => (name, Some(module)),
        None => (symbol, None),
    }
}
