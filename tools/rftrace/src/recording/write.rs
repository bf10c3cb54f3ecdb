// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Recording, writing: appends chunks to a file.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Mutex;

use flate2::write::ZlibEncoder;
use flate2::Compression;

use super::columns;
use super::format::{ChunkHeader, ChunkKind, Encoding, CHUNK_BYTES, FILE_HEADER, MAX_CHUNK};
use super::settings::{RecordingEnd, RecordingSettings};

/// A recording in the making. Threads share it: chunks follow each other as they come.
///
/// A chunk that cannot be written, as the disk is full, is removed again, and nothing is written
/// after it.
#[derive(Debug)]
pub struct Writer {
    /// The file. Held while a chunk is written; no other lock is taken under it.
    file: Mutex<RecordingOutput>,
}

#[derive(Debug)]
struct RecordingOutput {
    file: File,
    /// Size of the header and of whole chunks.
    length: u64,
    /// The reason for which a chunk could not be written, as far as it is a number.
    failed: Option<Option<i32>>,
}

impl Writer {
    /// Begins a recording in an empty file.
    ///
    /// # Errors
    ///
    /// Errors of writing.
    pub fn new(mut file: File, settings: &RecordingSettings) -> io::Result<Self> {
        file.write_all(&FILE_HEADER)?;
        let writer = Self {
            file: Mutex::new(RecordingOutput {
                file,
                length: FILE_HEADER.len() as u64,
                failed: None,
            }),
        };
        writer.json(ChunkKind::Settings, settings)?;
        Ok(writer)
    }

    /// Returns the number of bytes that were written.
    pub fn length(&self) -> u64 {
        self.output().length
    }

    fn output(&self) -> std::sync::MutexGuard<'_, RecordingOutput> {
        // A thread that panics has written whole chunks, or its chunk is removed.
        self.file
            .lock()
            .unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Appends records of a CPU.
    ///
    /// # Errors
    ///
    /// Errors of writing.
    pub fn events(&self, cpu: u32, records: &[u8], events: u32) -> io::Result<()> {
        // Records of the kernel are whole; others can be stored, too.
        let columns = columns::from_records(records);
        let (encoding, plain) = match &columns {
            Some(columns) => (Encoding::Columns, &columns[..]),
            None => (Encoding::Lz4, records),
        };
        let bound = lz4_flex::block::get_maximum_output_size(plain.len());
        let mut chunk = vec![0; CHUNK_BYTES + bound];
        let stored = lz4_flex::block::compress_into(plain, &mut chunk[CHUNK_BYTES..])
            .map_err(io::Error::other)?;
        chunk.truncate(CHUNK_BYTES + stored);
        self.append(
            ChunkKind::Events,
            encoding,
            cpu,
            records.len(),
            events,
            chunk,
        )
    }

    /// Appends symbols: lines as those of `/proc/kallsyms`.
    ///
    /// # Errors
    ///
    /// Errors of writing.
    pub fn symbols(&self, lines: &str) -> io::Result<()> {
        self.zlib(ChunkKind::Symbols, lines.as_bytes())
    }

    /// Appends types.
    ///
    /// # Errors
    ///
    /// Errors of writing.
    pub fn btf(&self, btf: &[u8]) -> io::Result<()> {
        self.zlib(ChunkKind::Btf, btf)
    }

    /// Appends the end.
    ///
    /// # Errors
    ///
    /// Errors of writing.
    pub fn end(&self, end: &RecordingEnd) -> io::Result<()> {
        self.json(ChunkKind::End, end)
    }

    fn json(&self, kind: ChunkKind, value: &impl serde::Serialize) -> io::Result<()> {
        let mut chunk = vec![0; CHUNK_BYTES];
        serde_json::to_writer(&mut chunk, value)?;
        let plain = chunk.len() - CHUNK_BYTES;
        self.append(kind, Encoding::Plain, 0, plain, 0, chunk)
    }

    fn zlib(&self, kind: ChunkKind, plain: &[u8]) -> io::Result<()> {
        let chunk = vec![0; CHUNK_BYTES];
        // By default it takes eight times as long for a quarter less, before anything is traced.
        let mut encoder = ZlibEncoder::new(chunk, Compression::fast());
        encoder.write_all(plain)?;
        let chunk = encoder.finish()?;
        self.append(kind, Encoding::Zlib, 0, plain.len(), 0, chunk)
    }

    /// Appends a chunk whose contents are behind room for its header.
    fn append(
        &self,
        kind: ChunkKind,
        encoding: Encoding,
        cpu: u32,
        plain: usize,
        events: u32,
        mut chunk: Vec<u8>,
    ) -> io::Result<()> {
        let contents = chunk.get(CHUNK_BYTES..).unwrap_or_default();
        let stored = contents.len();
        if stored.max(plain) > MAX_CHUNK as usize {
            return Err(io::Error::other("a chunk of more than 64 MiB"));
        }
        let header = ChunkHeader {
            kind: kind as u16,
            encoding: encoding as u16,
            cpu,
            stored: stored as u32,
            plain: plain as u32,
            crc: crc32fast::hash(contents),
            events,
        };
        chunk[..CHUNK_BYTES].copy_from_slice(&header.to_bytes());
        self.output().append(&chunk)
    }
}

impl RecordingOutput {
    fn append(&mut self, chunk: &[u8]) -> io::Result<()> {
        match self.failed {
            None => {}
            Some(Some(errno)) => return Err(io::Error::from_raw_os_error(errno)),
            Some(None) => return Err(io::Error::other("an earlier chunk could not be written")),
        }
        let result = self.file.write_all(chunk);
        match &result {
            Ok(()) => self.length += chunk.len() as u64,
            Err(error) => {
                self.failed = Some(error.raw_os_error());
                // If that fails, too, readers find a chunk that is cut off.
                let _ = self.file.set_len(self.length);
            }
        }
        result
    }
}
