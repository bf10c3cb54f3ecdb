// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Threads that write an instance's events to a file, one for each CPU.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::thread::{Scope, ScopedJoinHandle};

use super::drain::{Bell, RawFile};
use super::wake::Wake;
use crate::recording::Writer;

/// Minimum number of bytes of records that make a chunk.
const CHUNK_BYTES: usize = 1 << 20;

/// Counts of what was written so far.
#[derive(Debug, Default)]
pub struct WriteProgress {
    /// Events that were written.
    pub events: AtomicU64,
    /// Bytes of their records.
    pub bytes: AtomicU64,
    /// Events that were lost between them.
    pub lost: AtomicU64,
}

/// The threads that record.
pub struct RecorderThreads<'scope> {
    threads: Vec<ScopedJoinHandle<'scope, io::Result<()>>>,
}

impl<'scope> RecorderThreads<'scope> {
    /// Starts a thread for each of `files` that takes out its events until `bell` is rung, and the
    /// ones that are there at that time.
    ///
    /// One that fails says so to `wake`, and ends.
    pub fn start<'env>(
        scope: &'scope Scope<'scope, 'env>,
        files: Vec<RawFile>,
        writer: &'env Writer,
        bell: &'env Bell,
        progress: &'env WriteProgress,
        wake: &Sender<Wake>,
    ) -> Self {
        let threads = files.into_iter().map(|file| {
            let wake = wake.clone();
            scope.spawn(move || {
                let result = drain(file, writer, bell, progress);
                if let Err(error) = &result {
                    // If the receiver is gone, it has ended for another reason.
                    let _ = wake.send(Wake::Failed(error.to_string()));
                }
                result
            })
        });
        Self {
            threads: threads.collect(),
        }
    }

    /// Waits for all threads.
    ///
    /// # Errors
    ///
    /// The first that one of them had.
    pub fn finish(self) -> io::Result<()> {
        let join = |thread: ScopedJoinHandle<'_, io::Result<()>>| {
            let panicked = |_| Err(io::Error::other("a recording thread has panicked"));
            thread.join().unwrap_or_else(panicked)
        };
        let results: Vec<io::Result<()>> = self.threads.into_iter().map(join).collect();
        results.into_iter().collect()
    }
}

/// Takes out the events of a CPU.
fn drain(
    mut file: RawFile,
    writer: &Writer,
    bell: &Bell,
    progress: &WriteProgress,
) -> io::Result<()> {
    loop {
        // Checked before looking for events: those that are there when the bell is rung are taken
        // out.
        let is_over = bell.wait([&file].into_iter(), None)?;
        while file.fill(CHUNK_BYTES)? {
            write(&mut file, writer, progress)?;
        }
        // poll waits for a good part of the buffer, so a chunk of it is not too small.
        write(&mut file, writer, progress)?;
        if is_over {
            return Ok(());
        }
    }
}

/// Writes the records that were taken out as a chunk.
fn write(file: &mut RawFile, writer: &Writer, progress: &WriteProgress) -> io::Result<()> {
    let cpu = file.cpu();
    let (records, whole) = file.whole()?;
    if whole.bytes == 0 {
        return Ok(());
    }
    writer.events(cpu, records, whole.events)?;
    file.forget(whole.bytes);
    progress
        .events
        .fetch_add(whole.events.into(), Ordering::Relaxed);
    progress
        .bytes
        .fetch_add(whole.bytes as u64, Ordering::Relaxed);
    progress.lost.fetch_add(whole.lost, Ordering::Relaxed);
    Ok(())
}
