// SPDX-License-Identifier: GPL-2.0

//! A gate for those who have files of the module open, so that it can be unloaded now and then.

use std::fs::{File, OpenOptions};
use std::io;

use rustix::fs::{flock, FlockOperation};

/// The gate: whoever goes in goes through a door first, so that who closes it has not to wait for those who come after.
///
/// Lock order: door, gate.
pub struct Gate {
    door: File,
    gate: File,
}

/// Somebody is in, or nobody else.
pub struct Inside<'a>(&'a File);

impl Gate {
    /// The gate of all tasks of the machine.
    pub fn new() -> io::Result<Self> {
        let open = |path| {
            let mut options = OpenOptions::new();
            options.create(true).write(true).truncate(false).open(path)
        };
        Ok(Self {
            door: open("/tmp/stress.door")?,
            gate: open("/tmp/stress.gate")?,
        })
    }

    /// Waits until it is open, and goes in.
    pub fn enter(&self) -> io::Result<Inside<'_>> {
        self.lock(FlockOperation::LockShared)
    }

    /// Waits until all are out, and lets nobody in.
    pub fn close(&self) -> io::Result<Inside<'_>> {
        self.lock(FlockOperation::LockExclusive)
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
        // (it ends with the task at the latest)
        let _ = flock(self.0, FlockOperation::Unlock);
    }
}
