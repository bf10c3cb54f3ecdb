// SPDX-License-Identifier: GPL-2.0

//! `trace_marker` and `trace_marker_raw`: what a program writes there is an event.

use kernel::prelude::*;

use super::context::Context;
use super::small::Small;
use crate::engine::mark::MAX_MARK;
use crate::engine::options::TraceOption;
use crate::engine::slot::Kind;

/// `trace_marker`.
pub(super) struct Marker;

impl Small for Marker {
    /// Takes as much as one event can have; the rest comes with the next.
    fn store_some(context: &Context, data: &[u8]) -> Result<usize> {
        allows(context)?;
        let data = data.get(..MAX_MARK).unwrap_or(data);
        match data {
            [] => Ok(0),
            _ => context.instance.recording().mark(Kind::Mark, data),
        }
    }
}

/// Fails with `EINVAL` if marks are not wanted.
fn allows(context: &Context) -> Result {
    match context.instance.options().has(TraceOption::Markers) {
        true => Ok(()),
        false => Err(EINVAL),
    }
}

/// `trace_marker_raw`.
pub(super) struct RawMarker;

impl Small for RawMarker {
    /// A number of 32 bits, and what belongs to it, as a whole.
    fn store_some(context: &Context, data: &[u8]) -> Result<usize> {
        allows(context)?;
        match data.len() {
            4..=MAX_MARK => context.instance.recording().mark(Kind::RawMark, data),
            _ => Err(EINVAL),
        }
    }
}
