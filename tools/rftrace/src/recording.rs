// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Recording: the file that `rftrace record` writes. docs/file-format.md describes it.
//!
//! [`Writer`] appends chunks, so that what was written is valid up to the last one whatever
//! happens; [`RecordingFile`] reads them, on any machine.

mod columns;
mod format;
mod read;
mod settings;
#[cfg(test)]
mod tests;
mod write;

pub use format::{
    ChunkHeader, ChunkKind, Encoding, CHUNK_BYTES, CHUNK_MAGIC, FILE_HEADER, MAGIC, MAX_CHUNK,
    VERSION,
};
pub use read::{FileBlocks, RecordingFile};
pub use settings::{ClockPair, CpuTotals, RecordingEnd, RecordingSettings};
pub use write::Writer;

/// A reason why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read at byte {offset}")]
    Read {
        /// Offset in the file.
        offset: u64,
        /// The reason.
        #[source]
        source: std::io::Error,
    },
    /// The file is not a recording.
    #[error("it is not a recording of rftrace")]
    NotOurs,
    /// The file is of a version that came later.
    #[error(
        "it has version {0} of the format, and only version 1 is known: a newer rftrace reads it"
    )]
    Version(u16),
    /// Bytes are not as they must be.
    #[error("{what} in the chunk at byte {offset}")]
    Malformed {
        /// Offset of the chunk.
        offset: u64,
        /// A description of the fault.
        what: String,
    },
    /// A chunk is missing without which nothing can be said of the events.
    #[error("it ends before {0}: the recording was broken off at its beginning")]
    Missing(&'static str),
}
