// SPDX-License-Identifier: GPL-2.0

//! The call sites of the running kernel, found in its code as it is now.

use kernel::prelude::*;
use kernel::sync::Arc;

use crate::engine::call_sites::{
    call_target, has_call, has_jump, CallSites, CodeRole, FunctionCode, CALL_BYTES, JUMP_BYTES,
};
use crate::engine::name_cache::NameCache;
use crate::instance::hooked::Hooked;
use crate::instance::Instance;
use crate::sys::code;
use crate::sys::symbols::SymbolText;

/// The bytes of a function that are read at a time.
const CHUNK: usize = 256;

/// The most of a function that is looked at.
const MAX_FUNCTION: u64 = 1 << 16;

/// The call sites, looked up anew each time, without a lock: as far as the code tells, and not what
/// is traced.
pub(super) struct PlainSites {
    text: SymbolText,
}

impl PlainSites {
    /// Makes room for names.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new() -> Result<Self> {
        Ok(Self {
            text: SymbolText::new()?,
        })
    }

    /// Returns the function that `address` lies in, and whether it is always the same.
    fn function_at(&mut self, address: u64) -> (FunctionCode, bool) {
        let text = self.text.look_up_place(address);
        let is_lasting = !text.ends_with(b"]") && !text.starts_with(b"0x");
        let code =
            SymbolOffset::parse(text).map_or(FunctionCode::default(), |symbol| FunctionCode {
                start: address.wrapping_sub(symbol.offset),
                role: match is_lasting {
                    true => CodeRole::of(symbol.name),
                    false => CodeRole::Plain,
                },
            });
        (code, is_lasting)
    }

    /// Returns the begin, the end and the name of the function around `address`.
    fn function(&mut self, address: u64) -> Option<(u64, u64, &[u8])> {
        let symbol = SymbolOffset::parse(self.text.look_up_place(address))?;
        let start = address.wrapping_sub(symbol.offset);
        Some((start, start.wrapping_add(symbol.size), symbol.name))
    }

    /// Returns whether the function at `from` has a jump to `to`, or a call if `also_calls`.
    fn look_for(&mut self, from: u64, to: u64, also_calls: bool) -> Option<bool> {
        let (start, end, _) = self.function(from)?;
        let end = end.min(start.wrapping_add(MAX_FUNCTION));
        let mut bytes = [0; CHUNK];
        let mut at = start;
        while at < end {
            let length = end.wrapping_sub(at).min(CHUNK as u64) as usize;
            let chunk = bytes.get_mut(..length)?;
            if !code::read(at, chunk) {
                return None;
            }
            if has_jump(chunk, at, to) || (also_calls && has_call(chunk, at, to)) {
                return Some(true);
            }
            // A jump may lie across the end of a chunk, so chunks overlap.
            const STEP: u64 = (CHUNK - JUMP_BYTES) as u64;
            at = at.wrapping_add(STEP);
        }
        Some(false)
    }
}

impl CallSites for PlainSites {
    fn code(&mut self, address: u64) -> FunctionCode {
        self.function_at(address).0
    }

    fn target(&mut self, parent_ip: u64) -> Option<u64> {
        let at = parent_ip.wrapping_sub(CALL_BYTES as u64);
        // An address outside of code has no jumps.
        if self.code(at).start == 0 {
            return None;
        }
        read_target(at, parent_ip)
    }

    fn jumps(&mut self, from: u64, to: u64) -> bool {
        self.look_for(from, to, false).unwrap_or(false)
    }

    fn calls(&mut self, _from: u64, _to: u64) -> bool {
        false
    }

    fn is_traced(&mut self, _start: u64) -> bool {
        false
    }
}

/// Returns the address that the call at `at` goes to, which returns to `parent_ip`.
fn read_target(at: u64, parent_ip: u64) -> Option<u64> {
    let mut bytes = [0; CALL_BYTES];
    code::read(at, &mut bytes)
        .then(|| call_target(bytes, parent_ip))
        .flatten()
}

/// The call sites of the running kernel.
///
/// Results are kept, with addresses of modules apart, whose meaning can change.
pub(super) struct KernelSites {
    instance: Arc<Instance>,
    /// No filter hides functions.
    all: bool,
    plain: PlainSites,
    /// [`FunctionCode`] by address, as [`packed`] makes it.
    lasting: NameCache,
    passing: NameCache,
    /// For two functions, by a hash of both: one jumps to the other, as one byte.
    jumps: NameCache,
    /// As `jumps`: one jumps to the other or calls it.
    calls: NameCache,
}

impl KernelSites {
    /// Makes a cache without results.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new(instance: &Arc<Instance>) -> Result<Self> {
        Ok(Self {
            all: !instance.is_filtered(),
            instance: instance.clone(),
            plain: PlainSites::new()?,
            lasting: NameCache::new(),
            passing: NameCache::new(),
            jumps: NameCache::new(),
            calls: NameCache::new(),
        })
    }

    /// Forgets the results for addresses of modules, which can get another meaning.
    pub(super) fn forget_passing(&mut self) {
        self.all = !self.instance.is_filtered();
        self.passing.clear();
        self.jumps.clear();
        self.calls.clear();
    }
}

/// `name+0x12/0x34` and perhaps ` [module]`, as `sprint_symbol()` has it.
struct SymbolOffset<'a> {
    name: &'a [u8],
    offset: u64,
    size: u64,
}

impl<'a> SymbolOffset<'a> {
    fn parse(text: &'a [u8]) -> Option<Self> {
        let plus = text.iter().position(|byte| *byte == b'+')?;
        let (name, rest) = text.split_at_checked(plus)?;
        let slash = rest.iter().position(|byte| *byte == b'/')?;
        let (offset, size) = rest.split_at_checked(slash)?;
        let size = size.split(|byte| *byte == b' ').next()?;
        let number = |text: &[u8], before: &str| {
            let text = core::str::from_utf8(text).ok()?;
            u64::from_str_radix(text.strip_prefix(before)?, 16).ok()
        };
        Some(Self {
            name,
            offset: number(offset, "+0x")?,
            size: number(size, "/0x")?,
        })
    }
}

const PACKED: usize = 9;

fn packed(code: FunctionCode) -> [u8; PACKED] {
    let [a, b, c, d, e, f, g, h] = code.start.to_le_bytes();
    [a, b, c, d, e, f, g, h, code.role as u8]
}

fn unpacked(bytes: &[u8]) -> Option<FunctionCode> {
    let (start, role) = bytes.split_first_chunk()?;
    let role = role.first().copied()?;
    Some(FunctionCode {
        start: u64::from_le_bytes(*start),
        role: CodeRole::ALL
            .into_iter()
            .find(|known| *known as u8 == role)?,
    })
}

impl CallSites for KernelSites {
    fn code(&mut self, address: u64) -> FunctionCode {
        for known in [&self.lasting, &self.passing] {
            if let Some(found) = known.find(address) {
                return unpacked(known.text(found)).unwrap_or_default();
            }
        }
        let (code, is_lasting) = self.plain.function_at(address);
        let kept = match is_lasting {
            true => &mut self.lasting,
            false => &mut self.passing,
        };
        // Without memory the address is looked up again the next time.
        let _ = kept.keep(address, &packed(code));
        code
    }

    fn target(&mut self, parent_ip: u64) -> Option<u64> {
        let at = parent_ip.wrapping_sub(CALL_BYTES as u64);
        // An address outside of code has no jumps.
        if self.code(at).start == 0 {
            return None;
        }
        read_target(at, parent_ip)
    }

    fn jumps(&mut self, from: u64, to: u64) -> bool {
        // Two pairs with the same key are very unlikely.
        let key = from.rotate_left(32) ^ to;
        if let Some(found) = self.jumps.find(key) {
            return self.jumps.text(found) == [1];
        }
        let found = self.plain.look_for(from, to, false).unwrap_or(false);
        let _ = self.jumps.keep(key, &[u8::from(found)]);
        found
    }

    fn calls(&mut self, from: u64, to: u64) -> bool {
        if !self.all {
            return false;
        }
        let key = from.rotate_left(32) ^ to;
        if let Some(found) = self.calls.find(key) {
            return self.calls.text(found) == [1];
        }
        let found = self.plain.look_for(from, to, true).unwrap_or(false);
        let _ = self.calls.keep(key, &[u8::from(found)]);
        found
    }

    fn is_traced(&mut self, start: u64) -> bool {
        Hooked::by(&self.instance).is_traced(start)
    }
}
