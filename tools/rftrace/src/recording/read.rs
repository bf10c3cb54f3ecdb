// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Recording, reading: finds the chunks of a file, and decodes them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use flate2::read::ZlibDecoder;

use super::columns;
use super::format::{ChunkHeader, ChunkKind, Encoding, CHUNK_BYTES, MAGIC, VERSION};
use super::settings::{RecordingEnd, RecordingSettings};
use super::Error;
use crate::kernel::{KernelSymbols, Symbol};
use crate::stream::{self, Blocks, CpuEvents, MergedEvents};

/// Size of the file's header that is examined.
const HEADER_BYTES: usize = 16;

/// A chunk, and its place.
#[derive(Clone, Copy, Debug)]
struct ChunkAt {
    offset: u64,
    header: ChunkHeader,
}

/// A recording.
#[derive(Debug)]
pub struct RecordingFile {
    file: Arc<File>,
    settings: RecordingSettings,
    end: Option<RecordingEnd>,
    symbols: Vec<ChunkAt>,
    btf: Option<ChunkAt>,
    /// Chunks of events, by CPU.
    events: BTreeMap<u32, Vec<ChunkAt>>,
    /// Offset at which the file is cut off, if it is.
    cut_at: Option<u64>,
    length: u64,
}

impl RecordingFile {
    /// Opens a recording, and examines its chunks.
    ///
    /// # Errors
    ///
    /// [`Error`] if it is none, or broken before its end.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let failed = |source| Error::Read { offset: 0, source };
        let file = File::open(path).map_err(failed)?;
        Self::new(file)
    }

    /// Reads the recording of an open file.
    ///
    /// # Errors
    ///
    /// [`Error`] if it is none, or broken before its end.
    pub fn new(file: File) -> Result<Self, Error> {
        let failed = |source| Error::Read { offset: 0, source };
        let length = file.metadata().map_err(failed)?.len();
        let mut header = [0; HEADER_BYTES];
        let header_length = read_up_to(&file, &mut header, 0)?;
        if header_length < HEADER_BYTES || header[..8] != MAGIC {
            return Err(Error::NotOurs);
        }
        let version = u16::from_le_bytes([header[8], header[9]]);
        if version != VERSION {
            return Err(Error::Version(version));
        }
        let mut recording = Self {
            file: Arc::new(file),
            settings: RecordingSettings::default(),
            end: None,
            symbols: Vec::new(),
            btf: None,
            events: BTreeMap::new(),
            cut_at: None,
            length,
        };
        recording.scan(u64::from(u16::from_le_bytes([header[10], header[11]])))?;
        Ok(recording)
    }

    /// Reads the headers of all chunks.
    fn scan(&mut self, mut offset: u64) -> Result<(), Error> {
        let mut has_settings = false;
        while offset < self.length && self.end.is_none() {
            let mut bytes = [0; CHUNK_BYTES];
            let got = read_up_to(&self.file, &mut bytes, offset)?;
            if got < CHUNK_BYTES {
                self.cut_at = Some(offset);
                break;
            }
            let wrong = |what: &str| Error::Malformed {
                offset,
                what: what.to_owned(),
            };
            let header = ChunkHeader::parse(&bytes).map_err(wrong)?;
            let chunk = ChunkAt { offset, header };
            let next = offset + CHUNK_BYTES as u64 + u64::from(header.stored);
            if next > self.length {
                self.cut_at = Some(offset);
                break;
            }
            match ChunkKind::from_number(header.kind) {
                Some(ChunkKind::Settings) => {
                    self.settings = self.json(&chunk)?;
                    has_settings = true;
                }
                Some(ChunkKind::Symbols) => self.symbols.push(chunk),
                Some(ChunkKind::Btf) => self.btf = Some(chunk),
                Some(ChunkKind::Events) => self.events.entry(header.cpu).or_default().push(chunk),
                Some(ChunkKind::End) => self.end = Some(self.json(&chunk)?),
                None => {}
            }
            offset = next;
        }
        match has_settings {
            true => Ok(()),
            false => Err(Error::Missing("its settings")),
        }
    }

    fn json<T: serde::de::DeserializeOwned>(&self, chunk: &ChunkAt) -> Result<T, Error> {
        serde_json::from_slice(&contents(&self.file, chunk)?).map_err(|error| Error::Malformed {
            offset: chunk.offset,
            what: error.to_string(),
        })
    }

    /// Returns the settings with which the recording was made.
    pub fn settings(&self) -> &RecordingSettings {
        &self.settings
    }

    /// Returns the end of the recording; `None` if it was broken off.
    pub fn end(&self) -> Option<&RecordingEnd> {
        self.end.as_ref()
    }

    /// Returns the offset at which the file is cut off in a chunk, if it is.
    pub fn cut_at(&self) -> Option<u64> {
        self.cut_at
    }

    /// Returns the size of the file.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// Returns the number of events, and the size of their records before they were compressed, by
    /// CPU.
    pub fn sizes(&self) -> impl Iterator<Item = (u32, u64, u64)> + '_ {
        self.events.iter().map(|(cpu, chunks)| {
            let events = chunks.iter().map(|chunk| u64::from(chunk.header.events));
            let bytes = chunks.iter().map(|chunk| u64::from(chunk.header.plain));
            (*cpu, events.sum(), bytes.sum())
        })
    }

    /// Returns the number of events.
    pub fn events_count(&self) -> u64 {
        self.sizes().map(|(_, events, _)| events).sum()
    }

    /// Returns the symbols of the recording.
    ///
    /// # Errors
    ///
    /// [`Error`] if they cannot be read.
    pub fn symbols(&self) -> Result<KernelSymbols, Error> {
        let mut all: Vec<Symbol> = Vec::new();
        for chunk in &self.symbols {
            let wrong = |what: String| Error::Malformed {
                offset: chunk.offset,
                what,
            };
            let text = String::from_utf8(contents(&self.file, chunk)?)
                .map_err(|error| wrong(error.to_string()))?;
            let more = KernelSymbols::of_text(&text).map_err(|error| wrong(error.to_string()))?;
            all.extend_from_slice(more.all());
        }
        Ok(KernelSymbols::new(all))
    }

    /// Returns the types of the functions' arguments, if they were recorded.
    ///
    /// # Errors
    ///
    /// [`Error`] if they cannot be read.
    pub fn btf(&self) -> Result<Option<Vec<u8>>, Error> {
        let chunk = self.btf.as_ref();
        chunk.map(|chunk| contents(&self.file, chunk)).transpose()
    }

    /// Returns the events of the recording, from the first on.
    ///
    /// # Errors
    ///
    /// [`stream::Error`] if they cannot be read.
    pub fn events(&self) -> Result<MergedEvents<FileBlocks>, stream::Error> {
        let buffers = Rc::new(RefCell::new(DecodeBuffers::default()));
        MergedEvents::new(self.events.iter().map(|(cpu, chunks)| {
            let blocks = FileBlocks {
                file: self.file.clone(),
                chunks: chunks.clone().into_iter(),
                buffers: buffers.clone(),
            };
            CpuEvents::new(*cpu, blocks)
        }))
    }
}

/// The events of a CPU in a recording.
#[derive(Debug)]
pub struct FileBlocks {
    file: Arc<File>,
    chunks: std::vec::IntoIter<ChunkAt>,
    /// Buffers of all CPUs: one chunk is decoded at a time.
    buffers: Rc<RefCell<DecodeBuffers>>,
}

impl Blocks for FileBlocks {
    fn next(&mut self, block: &mut Vec<u8>) -> Result<bool, stream::Error> {
        let Some(chunk) = self.chunks.next() else {
            return Ok(false);
        };
        decode(&self.file, &chunk, &mut self.buffers.borrow_mut(), block)
            .map_err(|error| stream::Error::Source(error.to_string()))?;
        Ok(true)
    }
}

/// Reads until `bytes` are full or the file ends, and returns how many bytes it read.
fn read_up_to(file: &File, bytes: &mut [u8], offset: u64) -> Result<usize, Error> {
    let mut got = 0;
    while got < bytes.len() {
        let at = offset + got as u64;
        match file.read_at(&mut bytes[got..], at) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(source) if source.kind() == std::io::ErrorKind::Interrupted => {}
            Err(source) => return Err(Error::Read { offset: at, source }),
        }
    }
    Ok(got)
}

/// Memory to decode chunks in.
#[derive(Debug, Default)]
struct DecodeBuffers {
    stored: Vec<u8>,
    columns: Vec<u8>,
}

/// Returns the contents of a chunk.
fn contents(file: &File, chunk: &ChunkAt) -> Result<Vec<u8>, Error> {
    let mut plain = Vec::new();
    decode(file, chunk, &mut DecodeBuffers::default(), &mut plain)?;
    Ok(plain)
}

/// Replaces `plain` by the contents of a chunk.
fn decode(
    file: &File,
    chunk: &ChunkAt,
    buffers: &mut DecodeBuffers,
    plain: &mut Vec<u8>,
) -> Result<(), Error> {
    let ChunkAt { offset, header } = *chunk;
    let wrong = |what: &str| Error::Malformed {
        offset,
        what: what.to_owned(),
    };
    let stored = &mut buffers.stored;
    stored.resize(header.stored as usize, 0);
    let got = read_up_to(file, stored, offset + CHUNK_BYTES as u64)?;
    if got < stored.len() {
        return Err(wrong("contents that are cut off"));
    }
    if crc32fast::hash(stored) != header.crc {
        return Err(wrong("a wrong checksum of its contents"));
    }
    let length = header.plain as usize;
    match Encoding::from_number(header.encoding) {
        None => return Err(wrong("an encoding that is not known")),
        Some(Encoding::Plain) => std::mem::swap(plain, stored),
        Some(Encoding::Lz4) => {
            let got = decompress(stored, length, plain).map_err(|what| wrong(&what))?;
            plain.truncate(got);
        }
        Some(Encoding::Columns) => {
            let columns = &mut buffers.columns;
            let most = columns::most_bytes(length);
            let got = decompress(stored, most, columns).map_err(|what| wrong(&what))?;
            columns::to_records(&columns[..got], length, plain).map_err(wrong)?;
        }
        Some(Encoding::Zlib) => {
            plain.clear();
            // One byte more, to see that there is none.
            let mut decoder = ZlibDecoder::new(&**stored).take(length as u64 + 1);
            let read = decoder.read_to_end(plain);
            read.map_err(|error| wrong(&error.to_string()))?;
        }
    }
    match plain.len() == length {
        true => Ok(()),
        false => Err(wrong("contents of another length than it says")),
    }
}

/// Decompresses a block of LZ4, `most` bytes at most, to the start of `plain`, and returns their
/// number.
fn decompress(block: &[u8], most: usize, plain: &mut Vec<u8>) -> Result<usize, String> {
    if plain.len() < most {
        plain.resize(most, 0);
    }
    lz4_flex::block::decompress_into(block, &mut plain[..most]).map_err(|error| error.to_string())
}
