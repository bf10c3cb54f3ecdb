// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Recording, the layout: a header of 16 bytes, then chunks. docs/file-format.md has the same for
//! its readers.
//!
//! | bytes | of the file's header                                                          |
//! |-------|-------------------------------------------------------------------------------|
//! | 0-7   | [`MAGIC`]                                                                     |
//! | 8-9   | [`VERSION`]                                                                   |
//! | 10-11 | bytes of this header                                                          |
//! | 12-15 | 0                                                                             |
//!
//! | bytes | of a chunk                                |
//! |-------|-------------------------------------------|
//! | 0-3   | [`CHUNK_MAGIC`]                           |
//! | 4-5   | [`ChunkKind`]                             |
//! | 6-7   | [`Encoding`]                              |
//! | 8-11  | CPU, of events                            |
//! | 12-15 | bytes of its contents as they are stored  |
//! | 16-19 | bytes of its contents                     |
//! | 20-23 | CRC-32 of its contents as they are stored |
//! | 24-27 | number of events                          |
//! | 28-31 | CRC-32 of bytes 0-27                      |
//! | 32-   | its contents, as they are stored          |
//!
//! All numbers are little-endian.

/// The first bytes of a file. A newline that a program has translated, or a bit that it has cut,
/// spoils them.
pub const MAGIC: [u8; 8] = *b"\x89RFT\r\n\x1a\n";
/// The format's version. It changes when an old reader would go wrong.
pub const VERSION: u16 = 1;
/// The header of a file.
pub const FILE_HEADER: [u8; 16] = [
    MAGIC[0],
    MAGIC[1],
    MAGIC[2],
    MAGIC[3],
    MAGIC[4],
    MAGIC[5],
    MAGIC[6],
    MAGIC[7],
    VERSION as u8,
    0,
    16,
    0,
    0,
    0,
    0,
    0,
];
/// The first bytes of a chunk.
pub const CHUNK_MAGIC: [u8; 4] = *b"RFCK";
/// Bytes of a chunk before its contents.
pub const CHUNK_BYTES: usize = 32;
/// Most bytes that a chunk's contents have, stored or not.
pub const MAX_CHUNK: u32 = 64 << 20;

/// The kinds of chunks. A reader leaves out a kind that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum ChunkKind {
    /// [`RecordingSettings`](super::RecordingSettings), as JSON. Before all events.
    Settings = 1,
    /// Symbols of code, as lines of `/proc/kallsyms`. Later ones are added: modules that were
    /// loaded meanwhile.
    Symbols = 2,
    /// Types of the functions' arguments: BTF.
    Btf = 3,
    /// Records of a CPU (docs/raw-format.md), whole ones.
    Events = 4,
    /// [`RecordingEnd`](super::RecordingEnd), as JSON. The last one.
    End = 5,
}

impl ChunkKind {
    /// Returns the kind of this number.
    pub fn from_number(number: u16) -> Option<Self> {
        [
            Self::Settings,
            Self::Symbols,
            Self::Btf,
            Self::Events,
            Self::End,
        ]
        .into_iter()
        .find(|kind| *kind as u16 == number)
    }
}

/// The ways in which contents are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Encoding {
    /// The contents as they are.
    Plain = 0,
    /// A block of LZ4.
    Lz4 = 1,
    /// A stream of zlib.
    Zlib = 2,
    /// A block of LZ4 of records in columns.
    Columns = 3,
}

impl Encoding {
    /// Returns the encoding of this number.
    pub fn from_number(number: u16) -> Option<Self> {
        [Self::Plain, Self::Lz4, Self::Zlib, Self::Columns]
            .into_iter()
            .find(|encoding| *encoding as u16 == number)
    }
}

/// The header of a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Number of its [`ChunkKind`].
    pub kind: u16,
    /// Number of its [`Encoding`].
    pub encoding: u16,
    /// The CPU, of events.
    pub cpu: u32,
    /// Bytes of its contents as they are stored.
    pub stored: u32,
    /// Bytes of its contents.
    pub plain: u32,
    /// CRC-32 of its contents as they are stored.
    pub crc: u32,
    /// Number of events.
    pub events: u32,
}

impl ChunkHeader {
    /// Returns the header as it is in a file.
    pub fn to_bytes(self) -> [u8; CHUNK_BYTES] {
        let mut bytes = [0; CHUNK_BYTES];
        bytes[0..4].copy_from_slice(&CHUNK_MAGIC);
        bytes[4..6].copy_from_slice(&self.kind.to_le_bytes());
        bytes[6..8].copy_from_slice(&self.encoding.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.cpu.to_le_bytes());
        bytes[12..16].copy_from_slice(&self.stored.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.plain.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.crc.to_le_bytes());
        bytes[24..28].copy_from_slice(&self.events.to_le_bytes());
        let crc = crc32fast::hash(&bytes[..28]);
        bytes[28..32].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    /// Parses the header of a file's chunk.
    ///
    /// # Errors
    ///
    /// A word for what is wrong.
    pub fn parse(bytes: &[u8; CHUNK_BYTES]) -> Result<Self, &'static str> {
        let half = |at: usize| u16::from_le_bytes([bytes[at], bytes[at + 1]]);
        let word = |at: usize| u32::from(half(at)) | (u32::from(half(at + 2)) << 16);
        if bytes[..4] != CHUNK_MAGIC {
            return Err("no magic number");
        }
        if word(28) != crc32fast::hash(&bytes[..28]) {
            return Err("a wrong checksum of its header");
        }
        if word(12).max(word(16)) > MAX_CHUNK {
            return Err("more than 64 MiB");
        }
        Ok(Self {
            kind: half(4),
            encoding: half(6),
            cpu: word(8),
            stored: word(12),
            plain: word(16),
            crc: word(20),
            events: word(24),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = ChunkHeader {
            kind: ChunkKind::Events as u16,
            encoding: Encoding::Lz4 as u16,
            cpu: 0x0403_0201,
            stored: 0x0102_0304,
            plain: 0x0201_0403,
            crc: 0x8070_6050,
            events: 77,
        };
        let bytes = header.to_bytes();
        assert_eq!(ChunkHeader::parse(&bytes), Ok(header));
        for place in 0..CHUNK_BYTES {
            let mut wrong = bytes;
            wrong[place] ^= 0x10;
            assert!(ChunkHeader::parse(&wrong).is_err(), "byte {place}");
        }
    }

    /// Checks the bytes of a file at the end of docs/file-format.md.
    #[test]
    fn the_example_of_the_document_is_right() {
        let document = include_str!("../../../../docs/file-format.md");
        let (_, example) = document.split_once("## An example").unwrap();
        let lines = example.lines().filter(|line| line.starts_with("    "));
        let bytes: Vec<u8> = lines
            .flat_map(str::split_whitespace)
            .map(|byte| u8::from_str_radix(byte, 16).unwrap())
            .collect();
        let contents = b"{}";
        let header = ChunkHeader {
            kind: ChunkKind::Settings as u16,
            encoding: Encoding::Plain as u16,
            cpu: 0,
            stored: 2,
            plain: 2,
            crc: crc32fast::hash(contents),
            events: 0,
        };
        let wanted = [&FILE_HEADER[..], &header.to_bytes(), contents].concat();
        assert_eq!(bytes, wanted);
    }

    #[test]
    fn the_file_header_has_the_version_and_its_own_length() {
        assert_eq!(FILE_HEADER[8..12], [1, 0, 16, 0]);
    }
}
