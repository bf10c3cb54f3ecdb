// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Functions that the compiler has made part of others, by the debug information (DWARF) of a
//! vmlinux.
//!
//! It has hundreds of megabytes: units, one for each source file, are read and examined one after
//! the other.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use gimli::{
    AttributeValue, DebugAbbrev, DebugInfo, DebugLineStr, DebugRanges, DebugRngLists, DebugStr,
    EndianSlice, LittleEndian, RangeLists, RangeListsOffset, RawRngListEntry, UnitHeader,
};
use object::read::elf::{FileHeader, SectionHeader};
use object::{elf, Endianness, ReadCache};

use super::{build_id, Error, Kernel};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// The lowest address that stands for code which the linker has left out.
const LEFT_OUT: u64 = u64::MAX - 1;

/// Debug information of a kernel, in a file.
#[derive(Debug)]
pub struct DebugInformation {
    path: PathBuf,
    file: File,
    /// Offset and length of each section.
    sections: HashMap<String, (u64, u64)>,
    /// Address at which the kernel's text begins in the file.
    text: u64,
}

/// A place where a function is part of another one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Inlined {
    /// Name of the function, as the source has it.
    pub name: String,
    /// Addresses of the functions that were made of it in the same unit, if any.
    pub own: Vec<u64>,
    /// Address of the function that it is part of.
    pub into: u64,
}

/// A function of a unit: a declaration, or something that has code.
#[derive(Default)]
struct Subprogram<'a> {
    name: Option<&'a [u8]>,
    /// Offset of the entry that it is made of.
    origin: Option<usize>,
    begin: Option<u64>,
}

/// Sections that all units share.
struct Shared {
    abbrev: Vec<u8>,
    str: Vec<u8>,
    line_str: Vec<u8>,
    ranges: Vec<u8>,
    rnglists: Vec<u8>,
}

/// Inlined functions: index of the function that contains one, and offset of the one that it is.
type InlineSites = Vec<(usize, usize)>;

impl DebugInformation {
    /// Returns the debug information of a file, if it has some.
    pub fn of_file(path: &Path) -> Result<Option<Self>, Error> {
        let failed = |error| Error::Read(path.to_owned(), error);
        let malformed = |error| Error::Malformed(format!("{}: {error}", path.display()));
        let file = File::open(path).map_err(failed)?;
        let cache = ReadCache::new(file.try_clone().map_err(failed)?);
        let Ok(header) = elf::FileHeader64::<Endianness>::parse(&cache) else {
            return Ok(None);
        };
        let endian = header.endian().map_err(malformed)?;
        let all = header.sections(endian, &cache).map_err(malformed)?;
        let mut sections = HashMap::new();
        let mut text = 0;
        for section in all.iter() {
            let name = all.section_name(endian, section).map_err(malformed)?;
            let name = String::from_utf8_lossy(name).into_owned();
            if name == ".text" {
                text = section.sh_addr(endian);
            }
            let is_plain = section.sh_flags(endian) & u64::from(elf::SHF_COMPRESSED) == 0;
            if let (Some(place), true) = (section.file_range(endian), is_plain) {
                sections.insert(name, place);
            }
        }
        Ok(sections.contains_key(".debug_info").then_some(Self {
            path: path.to_owned(),
            file,
            sections,
            text,
        }))
    }

    /// Returns the debug information of `kernel`, if it is installed where distributions put it, of
    /// the same build.
    pub fn installed(kernel: &Kernel) -> Option<Self> {
        let places = [
            "/usr/lib/debug/.build-id/ID.debug",
            "/usr/lib/debug/boot/vmlinux-RELEASE",
            "/usr/lib/debug/lib/modules/RELEASE/vmlinux",
            "/lib/modules/RELEASE/build/vmlinux",
        ];
        kernel.find_file(&places, |place| {
            let found = Self::of_file(place).ok()??;
            let notes = found.section(".notes").ok()?;
            Some((found, build_id::of_notes(&notes)?))
        })
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the address at which the kernel's text begins in the file.
    pub fn text(&self) -> u64 {
        self.text
    }

    /// Returns all places where functions whose names `is_wanted` accepts are part of others.
    pub fn inlined(&self, is_wanted: &dyn Fn(&str) -> bool) -> Result<Vec<Inlined>, Error> {
        let shared = Shared {
            abbrev: self.section(".debug_abbrev")?,
            str: self.section(".debug_str")?,
            line_str: self.section(".debug_line_str")?,
            ranges: self.section(".debug_ranges")?,
            rnglists: self.section(".debug_rnglists")?,
        };
        let (begin, length) = *self.sections.get(".debug_info").unwrap_or(&(0, 0));
        let mut found = Vec::new();
        let mut at = 0;
        while at < length {
            // The length does not count itself.
            let first = self.read(begin + at, 4)?;
            let rest = u32::from_le_bytes(first.try_into().unwrap_or_default());
            if rest >= 0xffff_fff0 || at + 4 + u64::from(rest) > length {
                return Err(self.malformed(at, "a unit of 64 bits, or none"));
            }
            let unit = self.read(begin + at, 4 + rest as usize)?;
            look(&unit, &shared, is_wanted, &mut found)
                .map_err(|error| self.malformed(at, &error.to_string()))?;
            at += 4 + u64::from(rest);
        }
        Ok(found)
    }

    fn malformed(&self, at: u64, why: &str) -> Error {
        let path = self.path.display();
        Error::Malformed(format!("{path}: unit at {at:#x} of .debug_info: {why}"))
    }

    fn section(&self, name: &str) -> Result<Vec<u8>, Error> {
        match self.sections.get(name) {
            Some((offset, length)) => self.read(*offset, *length as usize),
            None => Ok(Vec::new()),
        }
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<u8>, Error> {
        let failed = |error| Error::Read(self.path.clone(), error);
        // A file with wrong sizes must not take any memory.
        let size = self.file.metadata().map_err(failed)?.len();
        if offset
            .checked_add(length as u64)
            .is_none_or(|end| end > size)
        {
            return Err(self.malformed(offset, "behind the end of the file"));
        }
        let mut bytes = vec![0; length];
        self.file
            .read_exact_at(&mut bytes, offset)
            .map_err(failed)?;
        Ok(bytes)
    }
}

fn look(
    unit: &[u8],
    shared: &Shared,
    is_wanted: &dyn Fn(&str) -> bool,
    found: &mut Vec<Inlined>,
) -> gimli::Result<()> {
    let info = DebugInfo::new(unit, LittleEndian);
    let Some(header) = info.units().next()? else {
        return Ok(());
    };
    let (subprograms, offsets, places) = read(&header, shared)?;
    // The entry that something is made of, behind which there is no other.
    let origin = |offset: usize| {
        let mut index = *offsets.get(&offset)?;
        for _ in 0..4 {
            match subprograms[index]
                .origin
                .and_then(|origin| offsets.get(&origin))
            {
                Some(origin) => index = *origin,
                None => break,
            }
        }
        Some(index)
    };
    let mut copies: HashMap<usize, Vec<u64>> = HashMap::new();
    for (offset, index) in &offsets {
        if let (Some(begin), Some(origin)) = (subprograms[*index].begin, origin(*offset)) {
            copies.entry(origin).or_default().push(begin);
        }
    }
    for (container, offset) in places {
        let (Some(into), Some(function)) = (subprograms[container].begin, origin(offset)) else {
            continue;
        };
        let name = subprograms[function].name.map(String::from_utf8_lossy);
        let Some(name) = name.filter(|name| is_wanted(name)) else {
            continue;
        };
        found.push(Inlined {
            name: name.into_owned(),
            own: copies.get(&function).cloned().unwrap_or_default(),
            into,
        });
    }
    Ok(())
}

/// Reads the functions of a unit, with the offsets of the entries that describe them, and which are
/// inlined where.
#[allow(clippy::type_complexity)]
fn read<'a>(
    header: &UnitHeader<Slice<'a>>,
    shared: &'a Shared,
) -> gimli::Result<(Vec<Subprogram<'a>>, HashMap<usize, usize>, InlineSites)>
where
{
    let abbrev = DebugAbbrev::new(&shared.abbrev, LittleEndian);
    let abbreviations = header.abbreviations(&abbrev)?;
    let ranges = RangeLists::new(
        DebugRanges::new(&shared.ranges, LittleEndian),
        DebugRngLists::new(&shared.rnglists, LittleEndian),
    );
    let strings = DebugStr::new(&shared.str, LittleEndian);
    let line_strings = DebugLineStr::new(&shared.line_str, LittleEndian);
    let (mut subprograms, mut offsets, mut places) = (Vec::new(), HashMap::new(), Vec::new());
    // Functions around the entry that is being read, each with its depth.
    let mut around: Vec<(isize, usize)> = Vec::new();
    let mut base = 0;
    let mut entries = header.entries_raw(&abbreviations, None)?;
    while !entries.is_empty() {
        let (offset, depth) = (entries.next_offset().0, entries.next_depth());
        let Some(abbreviation) = entries.read_abbreviation()? else {
            continue;
        };
        around.truncate(around.partition_point(|(other, _)| *other < depth));
        let tag = abbreviation.tag();
        if ![
            gimli::DW_TAG_compile_unit,
            gimli::DW_TAG_subprogram,
            gimli::DW_TAG_inlined_subroutine,
        ]
        .contains(&tag)
        {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        let mut read = Subprogram::default();
        for attribute in abbreviation.attributes() {
            let attribute = entries.read_attribute(*attribute)?;
            match (attribute.name(), attribute.value()) {
                (gimli::DW_AT_name, AttributeValue::String(name)) => read.name = Some(name.slice()),
                (gimli::DW_AT_name, AttributeValue::DebugStrRef(at)) => {
                    read.name = Some(strings.get_str(at)?.slice());
                }
                (gimli::DW_AT_name, AttributeValue::DebugLineStrRef(at)) => {
                    read.name = Some(line_strings.get_str(at)?.slice());
                }
                (
                    gimli::DW_AT_abstract_origin | gimli::DW_AT_specification,
                    AttributeValue::UnitRef(at),
                ) => read.origin = Some(at.0),
                (gimli::DW_AT_low_pc, AttributeValue::Addr(begin)) => read.begin = Some(begin),
                // A function that is split has its beginning first.
                (gimli::DW_AT_ranges, AttributeValue::RangeListsRef(at))
                    if tag == gimli::DW_TAG_subprogram =>
                {
                    let all = ranges.raw_ranges(RangeListsOffset(at.0), header.encoding())?;
                    read.begin = first_begin(all, base)?;
                }
                _ => {}
            }
        }
        match tag {
            gimli::DW_TAG_compile_unit => base = read.begin.unwrap_or(0),
            gimli::DW_TAG_subprogram => {
                offsets.insert(offset, subprograms.len());
                around.push((depth, subprograms.len()));
                subprograms.push(read);
            }
            _ => {
                if let (Some((_, container)), Some(origin)) = (around.last(), read.origin) {
                    places.push((*container, origin));
                }
            }
        }
    }
    Ok((subprograms, offsets, places))
}

/// Returns the address at which the first range of a list begins that has some bytes. Addresses in
/// `.debug_addr`, which a vmlinux of GCC does not have, are not followed.
fn first_begin(
    mut all: gimli::RawRngListIter<Slice<'_>>,
    mut base: u64,
) -> gimli::Result<Option<u64>> {
    while let Some(entry) = all.next()? {
        let (begin, end) = match entry {
            RawRngListEntry::BaseAddress { addr } => {
                base = addr;
                continue;
            }
            RawRngListEntry::AddressOrOffsetPair { .. } | RawRngListEntry::OffsetPair { .. }
                if base >= LEFT_OUT =>
            {
                continue
            }
            RawRngListEntry::AddressOrOffsetPair { begin, end }
            | RawRngListEntry::OffsetPair { begin, end } => {
                (base.wrapping_add(begin), base.wrapping_add(end))
            }
            RawRngListEntry::StartEnd { begin, end } => (begin, end),
            RawRngListEntry::StartLength { begin, length } => (begin, begin.wrapping_add(length)),
            RawRngListEntry::BaseAddressx { .. }
            | RawRngListEntry::StartxEndx { .. }
            | RawRngListEntry::StartxLength { .. } => return Ok(None),
        };
        if begin < end && begin < LEFT_OUT {
            return Ok(Some(begin));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use gimli::{DebugAddr, DebugAddrBase, Encoding, Format};
    use proptest::prelude::*;

    use super::*;

    const ENCODING: Encoding = Encoding {
        format: Format::Dwarf32,
        version: 5,
        address_size: 8,
    };

    /// Returns what is found in a list of `.debug_rnglists`, and what gimli finds.
    fn first(list: &[u8], base: u64) -> (gimli::Result<Option<u64>>, gimli::Result<Option<u64>>) {
        let section = DebugRngLists::new(list, LittleEndian);
        let lists = RangeLists::new(DebugRanges::new(&[], LittleEndian), section);
        let at = RangeListsOffset(0);
        let all = lists.raw_ranges(at, ENCODING).unwrap();
        let addresses = DebugAddr::from(EndianSlice::new(&[], LittleEndian));
        let ranges = lists.ranges(at, ENCODING, base, &addresses, DebugAddrBase(0));
        let theirs = ranges.unwrap().next();
        (
            first_begin(all, base),
            theirs.map(|range| range.map(|range| range.begin)),
        )
    }

    /// Returns an entry as DWARF 5 has it (7.25): base address, pair of offsets, beginning and end,
    /// or beginning and length.
    fn entry(kind: u8, address: u64, end: u64, offsets: (u8, u8)) -> Vec<u8> {
        let (address, end) = (address.to_le_bytes(), end.to_le_bytes());
        let (begin, length) = (offsets.0 & 0x7f, offsets.1 & 0x7f);
        match kind {
            5 => [&[5], &address[..]].concat(),
            4 => vec![4, begin, length],
            6 => [&[6], &address[..], &end].concat(),
            _ => [&[7], &address[..], &[length]].concat(),
        }
    }

    #[test]
    fn addresses_elsewhere_are_not_followed() {
        for list in [&[1, 0, 0][..], &[2, 0, 0, 0], &[3, 0, 9, 0]] {
            assert_eq!(first(list, 0).0, Ok(None), "{list:?}");
        }
        // The product of such an index and 8 has more than 64 bits.
        let index = [0xff; 9];
        let list = [&[3], &index[..], &[1, 5, 0]].concat();
        let all = DebugRngLists::new(&list, LittleEndian);
        let lists = RangeLists::new(DebugRanges::new(&[], LittleEndian), all);
        let all = lists.raw_ranges(RangeListsOffset(0), ENCODING).unwrap();
        assert_eq!(first_begin(all, 0), Ok(None));
    }

    proptest! {
        /// Lists without such addresses begin where gimli has their first range.
        #[test]
        fn the_first_range_is_that_of_all(
            entries in prop::collection::vec((
                4..8_u8,
                prop_oneof![0..9_u64, u64::MAX - 9..=u64::MAX, any::<u64>()],
                prop_oneof![0..9_u64, u64::MAX - 9..=u64::MAX],
                any::<(u8, u8)>(),
            ), 0..8),
            base in prop_oneof![0..9_u64, u64::MAX - 9..=u64::MAX],
            is_whole: bool,
        ) {
            let entry = |(kind, address, end, offsets)| entry(kind, address, end, offsets);
            let mut list: Vec<u8> = entries.into_iter().flat_map(entry).collect();
            if is_whole {
                list.push(0);
            }
            let (ours, theirs) = first(&list, base);
            prop_assert_eq!(ours.ok(), theirs.ok());
        }
    }
}
