// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The kernel's description of its own types (Documentation/bpf/btf.rst), as far as it is needed to
//! show the arguments of a call: names and types of a function's parameters.
//!
//! Nothing in it is trusted: an offset that leads outside counts as missing.

use core::fmt::{Result as FmtResult, Write};

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

/// A type: the part that all have, and the place of the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BtfType {
    name: u32,
    kind: u32,
    /// Number of members, parameters, ...
    count: u32,
    /// Its size, or the type that it leads to.
    size: u32,
    /// Offset of the part that depends on the kind.
    rest: usize,
}

impl BtfType {
    const fn is_modifier(&self) -> bool {
        // typedef, volatile, const, restrict, type_tag
        matches!(self.kind, 8..=11 | 18)
    }

    /// Returns the bytes of the part that depends on the kind; `None` if the kind is not known.
    fn rest_bytes(&self) -> Option<usize> {
        let each = match self.kind {
            4 | 5 | 15 | 19 => 12,
            ENUM | FUNC_PROTO => 8,
            INT | 14 | 17 => return Some(4),
            3 => return Some(12),
            kind if (kind as usize) < KINDS.len() => 0,
            _ => return None,
        };
        (self.count as usize).checked_mul(each)
    }
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    let rest = bytes.get(at..)?;
    Some(u32::from_le_bytes(*rest.first_chunk()?))
}

/// Returns the range of a part whose offset behind the header and length lie at `at`.
fn part(bytes: &[u8], header: usize, at: usize) -> Option<core::ops::Range<usize>> {
    let start = header.checked_add(half(bytes, at)? as usize)?;
    let end = start.checked_add(half(bytes, at + 4)? as usize)?;
    (end <= bytes.len()).then_some(start..end)
}

fn hash(name: &[u8]) -> u32 {
    name.iter().fold(0x811c_9dc5, |hash: u32, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    })
}

/// The types of the kernel, by their numbers, and its functions, by their names.
pub struct Btf<B> {
    bytes: B,
    strings: core::ops::Range<usize>,
    /// Offsets of the types; the first is type 1.
    types: Vec<u32>,
    /// For each function, a hash of its name and the number of its type, in order.
    functions: Vec<(u32, u32)>,
}

impl<B: AsRef<[u8]>> Btf<B> {
    /// Reads all types; `None` if they are not as expected.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn new(bytes: B) -> Result<Option<Self>, AllocError> {
        let mut btf = Self {
            bytes,
            strings: 0..0,
            types: Vec::new(),
            functions: Vec::new(),
        };
        Ok(btf.scan()?.map(|()| btf))
    }

    fn scan(&mut self) -> Result<Option<()>, AllocError> {
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
            let found = type_at(bytes, at);
            let end = found.and_then(|found| found.rest.checked_add(found.rest_bytes()?));
            let (Some(found), Some(end)) = (found, end.filter(|end| *end <= types.end)) else {
                return Ok(None);
            };
            self.types.push(at as u32)?;
            if found.kind == FUNC {
                let name = hash(name_at(bytes, &self.strings, found.name));
                self.functions.push((name, self.types.len() as u32))?;
            }
            at = end;
        }
        sort_by_key(&mut self.functions, |function| *function);
        Ok(Some(()))
    }

    /// Returns the bytes of memory that this takes.
    pub fn bytes(&self) -> usize {
        self.bytes.as_ref().len() + self.types.len() * 4 + self.functions.len() * 8
    }

    fn named(&self, name: u32) -> &[u8] {
        name_at(self.bytes.as_ref(), &self.strings, name)
    }

    fn get(&self, number: u32) -> Option<BtfType> {
        let at = self.types.get(number.checked_sub(1)? as usize)?;
        type_at(self.bytes.as_ref(), *at as usize)
    }

    /// Returns the prototype of the function `name`.
    fn prototype(&self, name: &[u8]) -> Option<BtfType> {
        let wanted = hash(name);
        let first = self.functions.partition_point(|(hash, _)| *hash < wanted);
        let functions = self.functions.get(first..)?;
        let found = (functions.iter())
            .take_while(|(hash, _)| *hash == wanted)
            .filter_map(|(_, number)| self.get(*number))
            .find(|function| self.named(function.name) == name)?;
        self.get(found.size)
            .filter(|found| found.kind == FUNC_PROTO)
    }

    /// Returns the type without its modifiers.
    fn plain(&self, number: u32) -> Option<BtfType> {
        let mut found = self.get(number)?;
        for _ in 0..MAX_MODIFIERS {
            if !found.is_modifier() {
                return Some(found);
            }
            found = self.get(found.size)?;
        }
        None
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
        for index in 0..prototype.count as usize {
            if index != 0 {
                out.write_str(", ")?;
            }
            let Some(&value) = registers.next() else {
                out.write_str("...")?;
                break;
            };
            let parameter = prototype.rest + 8 * index;
            let bytes = self.bytes.as_ref();
            let name = half(bytes, parameter).map_or(&[][..], |name| self.named(name));
            for chunk in name.utf8_chunks() {
                out.write_str(chunk.valid())?;
            }
            out.write_char('=')?;
            let found = half(bytes, parameter + 4).and_then(|number| self.plain(number));
            match found {
                Some(found) if found.kind == ENUM => self.write_enum(out, &found, value)?,
                Some(found) if found.kind == INT => {
                    let is_signed =
                        half(bytes, found.rest).is_some_and(|info| (info >> 24) & 1 != 0);
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

    fn write_enum(&self, out: &mut dyn Write, found: &BtfType, value: u64) -> FmtResult {
        write!(out, "{}", value as i64)?;
        for index in 0..found.count as usize {
            let at = found.rest + 8 * index;
            let bytes = self.bytes.as_ref();
            let (Some(name), Some(number)) = (half(bytes, at), half(bytes, at + 4)) else {
                break;
            };
            if i64::from(number as i32) == value as i64 {
                out.write_str(" [")?;
                for chunk in self.named(name).utf8_chunks() {
                    out.write_str(chunk.valid())?;
                }
                return out.write_char(']');
            }
        }
        Ok(())
    }
}

fn type_at(bytes: &[u8], at: usize) -> Option<BtfType> {
    let info = half(bytes, at.checked_add(4)?)?;
    Some(BtfType {
        name: half(bytes, at)?,
        kind: (info >> 24) & 0x7f,
        count: info & 0xff_ffff,
        size: half(bytes, at.checked_add(8)?)?,
        rest: at.checked_add(TYPE_BYTES)?,
    })
}

fn name_at<'a>(bytes: &'a [u8], strings: &core::ops::Range<usize>, name: u32) -> &'a [u8] {
    let strings = bytes.get(strings.clone()).unwrap_or_default();
    let rest = strings.get(name as usize..).unwrap_or_default();
    let end = rest.iter().position(|&byte| byte == 0);
    end.and_then(|end| rest.get(..end)).unwrap_or_default()
}
