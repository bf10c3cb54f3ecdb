// SPDX-License-Identifier: GPL-2.0

//! A gate for tasks that have files of the module open, so that it can be unloaded now and then.

use std::fs::{File, OpenOptions};
use std::io;

use rustix::fs::{flock, FlockOperation};

/// A gate. A task that enters goes through a door first, so that the one that closes the gate need
/// not wait for tasks that come later.
///
/// Lock order: closing, door, gate.
pub struct Gate {
    door: File,
    gate: File,
    /// Locked while a task waits for all others to leave.
    closing: File,
}

/// Proof that a task is inside, or that no other task is.
pub struct Inside<'a>(&'a File);

impl Gate {
    /// Returns the gate of all tasks of the machine.
    pub fn new() -> io::Result<Self> {
        let open = |path| {
            let mut options = OpenOptions::new();
            options.create(true).write(true).truncate(false).open(path)
        };
        Ok(Self {
            door: open("/tmp/stress.door")?,
            gate: open("/tmp/stress.gate")?,
            closing: open("/tmp/stress.closing")?,
        })
    }

    /// Waits until the gate is open, and enters.
    pub fn enter(&self) -> io::Result<Inside<'_>> {
        self.lock(FlockOperation::LockShared)
    }

    /// Waits until all tasks have left, and lets none enter.
    pub fn close(&self) -> io::Result<Inside<'_>> {
        flock(&self.closing, FlockOperation::LockExclusive)?;
        let result = self.lock(FlockOperation::LockExclusive);
        flock(&self.closing, FlockOperation::Unlock)?;
        result
    }

    /// Returns whether a task waits for all others to leave.
    pub fn is_closing(&self) -> bool {
        match flock(&self.closing, FlockOperation::NonBlockingLockShared) {
            Ok(()) => {
                // The lock ends with the task at the latest.
                let _ = flock(&self.closing, FlockOperation::Unlock);
                false
            }
            Err(_) => true,
        }
    }

    fn lock(&self, operation: FlockOperation) -> io::Result<Inside<'_>> {
        flock(&self.door, FlockOperation::LockExclusive)?;
        let result = flock(&self.gate, operation);
        flock(&self.door, FlockOperation::Unlock)?;
        result?;
        Ok(Inside(&self.gate))
    }
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        // The lock ends with the task at the latest.
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}
