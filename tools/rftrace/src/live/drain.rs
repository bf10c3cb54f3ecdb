// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Takes events out of an instance's buffers, as whole records.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use rustix::event::{eventfd, poll, EventfdFlags, PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;

use super::instance::is_empty;
use super::{Error, OwnInstance};
use crate::stream::RecordHeader;

/// Bytes of a read.
const READ_BYTES: usize = 256 << 10;

/// The `raw` file of a CPU.
#[derive(Debug)]
pub struct RawFile {
    cpu: u32,
    file: File,
    /// Bytes of records, the last of which may be incomplete.
    bytes: Vec<u8>,
}

/// Whole records at the start of bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Whole {
    /// Bytes of the records.
    pub bytes: usize,
    /// Events of the records.
    pub events: u32,
    /// Losses that the records tell of.
    pub lost: u64,
    /// Time of the last event, in ns.
    pub last_time: u64,
}

impl Whole {
    /// Returns the whole records in `bytes`.
    ///
    /// # Errors
    ///
    /// One of kind `Other` if they are no records.
    pub fn of(bytes: &[u8]) -> io::Result<Self> {
        let mut whole = Self::default();
        let mut last = None;
        while let Some(record) = bytes.get(whole.bytes..).filter(|rest| !rest.is_empty()) {
            match RecordHeader::parse(record).map_err(io::Error::other)? {
                Some(header) if header.bytes() <= record.len() => {
                    last = Some((header, record));
                    whole.bytes += header.bytes();
                    whole.events += header.events;
                    whole.lost += header.lost;
                }
                _ => break,
            }
        }
        if let Some((header, record)) = last {
            whole.last_time = header.last_time(record).unwrap_or(0);
        }
        Ok(whole)
    }
}

impl RawFile {
    /// Opens the file of `cpu`.
    ///
    /// # Errors
    ///
    /// [`Error::Open`] if it cannot be opened.
    pub fn open(instance: &OwnInstance, cpu: u32) -> Result<Self, Error> {
        let path = instance.file(format!("per_cpu/cpu{cpu}/raw"));
        let flags = OFlags::NONBLOCK.bits() as i32;
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags(flags)
            .open(&path);
        Ok(Self {
            cpu,
            file: opened.map_err(|error| Error::Open(path, error))?,
            bytes: Vec::new(),
        })
    }

    /// Returns the CPU.
    pub fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Takes out the events that there are, up to at least `least` bytes; returns false if those
    /// were all.
    ///
    /// # Errors
    ///
    /// Errors of reading.
    pub fn fill(&mut self, least: usize) -> io::Result<bool> {
        while self.bytes.len() < least {
            let length = self.bytes.len();
            self.bytes.resize(length + READ_BYTES, 0);
            let result = self.file.read(&mut self.bytes[length..]);
            self.bytes.truncate(length + *result.as_ref().unwrap_or(&0));
            match result {
                Ok(0) => return Ok(false),
                Ok(_) => {}
                Err(error) if is_empty(&error) => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Returns the records that were taken out, with their counts.
    ///
    /// # Errors
    ///
    /// One of kind `Other` if they are none.
    pub fn whole(&self) -> io::Result<(&[u8], Whole)> {
        let whole = Whole::of(&self.bytes)?;
        Ok((&self.bytes[..whole.bytes], whole))
    }

    /// Removes the first `count` bytes of the records.
    pub fn forget(&mut self, count: usize) {
        self.bytes.drain(..count.min(self.bytes.len()));
    }
}

impl AsFd for RawFile {
    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Wakes all threads that wait, whatever else they wait for.
#[derive(Debug)]
pub struct Bell(OwnedFd);

impl Bell {
    /// Returns a bell that was not rung.
    ///
    /// # Errors
    ///
    /// Errors of `eventfd`.
    pub fn new() -> io::Result<Self> {
        let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
        Ok(Self(eventfd(0, flags)?))
    }

    /// Wakes all threads that wait, and those that will.
    pub fn ring(&self) {
        // It can fail only by overflow, and then it has been rung.
        let _ = rustix::io::write(&self.0, &1_u64.to_ne_bytes());
    }

    /// Waits until one of `files` has events, the bell is rung, or `timeout` ends. Returns whether
    /// the bell was rung.
    ///
    /// # Errors
    ///
    /// Errors of `poll`.
    pub fn wait<'f>(
        &self,
        files: impl Iterator<Item = &'f RawFile>,
        timeout: Option<Timespec>,
    ) -> io::Result<bool> {
        let bell = PollFd::new(&self.0, PollFlags::IN);
        let mut polled: Vec<PollFd<'_>> = vec![bell];
        polled.extend(files.map(|file| PollFd::new(file, PollFlags::IN)));
        match poll(&mut polled, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(polled[0].revents().contains(PollFlags::IN))
    }
}
