// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A kernel's memory: of the running one (`/proc/kcore`), or of a file as it is loaded.

use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use object::read::elf::{FileHeader, ProgramHeader};
use object::{elf, Endianness, ReadCache, ReadRef};

use super::Error;

/// A part of memory, and its place in the file.
#[derive(Clone, Debug)]
struct Segment {
    addresses: Range<u64>,
    offset: u64,
}

/// The bytes behind the segments.
#[derive(Debug)]
enum SegmentBytes {
    File(File),
    Whole(Vec<u8>),
}

/// Memory that an ELF file contains or stands for.
#[derive(Debug)]
pub struct KernelMemory {
    segments: Vec<Segment>,
    bytes: SegmentBytes,
}

impl KernelMemory {
    /// Opens the memory of the running kernel.
    pub fn of_kcore(path: &Path) -> Result<Self, Error> {
        let failed = |error| Error::Read(path.to_owned(), error);
        let file = File::open(path).map_err(failed)?;
        let cache = ReadCache::new(file.try_clone().map_err(failed)?);
        let segments = segments(&cache)?;
        Ok(Self {
            segments,
            bytes: SegmentBytes::File(file),
        })
    }

    /// Returns memory as `vmlinux` has it.
    pub fn of_vmlinux(vmlinux: Vec<u8>) -> Result<Self, Error> {
        let segments = segments(&vmlinux[..])?;
        Ok(Self {
            segments,
            bytes: SegmentBytes::Whole(vmlinux),
        })
    }

    /// Returns the parts of a file, each with its address. Of a running kernel there are none.
    pub fn parts(&self) -> impl Iterator<Item = (u64, &[u8])> + '_ {
        self.segments
            .iter()
            .filter_map(|segment| match &self.bytes {
                SegmentBytes::File(_) => None,
                SegmentBytes::Whole(bytes) => {
                    let from = usize::try_from(segment.offset).ok()?;
                    let length =
                        usize::try_from(segment.addresses.end - segment.addresses.start).ok()?;
                    Some((
                        segment.addresses.start,
                        bytes.get(from..from.checked_add(length)?)?,
                    ))
                }
            })
    }

    /// Returns the bytes at `addresses`.
    pub fn read(&self, addresses: Range<u64>) -> Result<Vec<u8>, Error> {
        let missing = || Error::NoMemory(addresses.start);
        let length = usize::try_from(addresses.end.saturating_sub(addresses.start))
            .map_err(|_| missing())?;
        let segment = self
            .segments
            .iter()
            .find(|segment| {
                segment.addresses.contains(&addresses.start)
                    && addresses.end <= segment.addresses.end
            })
            .ok_or_else(missing)?;
        let offset = (segment.offset)
            .checked_add(addresses.start - segment.addresses.start)
            .ok_or_else(missing)?;
        match &self.bytes {
            SegmentBytes::File(file) => {
                let mut data = vec![0; length];
                file.read_exact_at(&mut data, offset)
                    .map_err(|_| missing())?;
                Ok(data)
            }
            SegmentBytes::Whole(bytes) => {
                let from = usize::try_from(offset).map_err(|_| missing())?;
                let data = from
                    .checked_add(length)
                    .and_then(|until| bytes.get(from..until));
                data.map(<[u8]>::to_vec).ok_or_else(missing)
            }
        }
    }
}

/// Returns the size of an ELF file up to the end of what is loaded of it; `None` if it is no such
/// file.
pub(super) fn loaded_bytes(path: &Path) -> Option<u64> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let end = |segment: &Segment| {
        let length = segment.addresses.end - segment.addresses.start;
        segment.offset.checked_add(length)
    };
    segments(&cache).ok()?.iter().filter_map(end).max()
}

fn segments<'a>(file: impl ReadRef<'a>) -> Result<Vec<Segment>, Error> {
    let malformed = |error| Error::Malformed(format!("not an ELF file of 64 bits: {error}"));
    let header = elf::FileHeader64::<Endianness>::parse(file).map_err(malformed)?;
    let endian = header.endian().map_err(malformed)?;
    let headers = header.program_headers(endian, file).map_err(malformed)?;
    let segment = |header: &elf::ProgramHeader64<Endianness>| {
        let start = header.p_vaddr(endian);
        let end = start.checked_add(header.p_filesz(endian))?;
        let offset = header.p_offset(endian);
        (header.p_type(endian) == elf::PT_LOAD).then_some(Segment {
            addresses: start..end,
            offset,
        })
    };
    Ok(headers.iter().filter_map(segment).collect())
}
