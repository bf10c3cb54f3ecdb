// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Parts that the verbs that read a recording have in common.

use std::path::Path;

use anyhow::{Context, Result};

use crate::recording::Recording;

/// Opens a recording.
pub(super) fn open(path: &Path) -> Result<Recording> {
    Recording::open(path).with_context(|| format!("cannot read {}", path.display()))
}

/// Says of a recording what its events alone do not: that it was broken off, and what was lost.
pub(super) fn say_end(recording: &Recording, path: &Path) {
    let path = path.display();
    match (recording.end(), recording.cut_at()) {
        (None, Some(offset)) => eprintln!(
            "rftrace: {path} was broken off: it is cut off at byte {offset}; what is before is shown"
        ),
        (None, None) => eprintln!("rftrace: {path} was broken off; what was written is shown"),
        (Some(end), _) => {
            if let Some(reason) = &end.stopped {
                eprintln!("rftrace: recording was stopped: {reason}");
            }
            if end.lost() != 0 {
                eprintln!("rftrace: {} events were lost while it was recorded", end.lost());
            }
        }
    }
}
