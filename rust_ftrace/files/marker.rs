// SPDX-License-Identifier: GPL-2.0

//! `trace_marker` and `trace_marker_raw`: what a program writes there is an event.

use kernel::prelude::*;

use super::attribute::Attribute;
use super::context::FileContext;
use crate::engine::marker::MAX_MARKER;
use crate::engine::options::TraceOption;
use crate::engine::slot::SlotKind;

/// `trace_marker`.
pub(super) struct MarkerFile;

impl Attribute for MarkerFile {
    /// Takes as much as one event can have; the rest comes with the next.
    fn store_some(context: &FileContext, data: &[u8]) -> Result<usize> {
        allows(context)?;
        let data = data.get(..MAX_MARKER).unwrap_or(data);
        match data {
            [] => Ok(0),
            _ => context
                .instance
                .recording()
                .write_marker(SlotKind::Marker, data),
        }
    }
}

/// Fails with `EINVAL` if markers are not wanted.
fn allows(context: &FileContext) -> Result {
    match context.instance.options().has(TraceOption::Markers) {
        true => Ok(()),
        false => Err(EINVAL),
    }
}

/// `trace_marker_raw`.
pub(super) struct RawMarkerFile;

impl Attribute for RawMarkerFile {
    /// A number of 32 bits, and what belongs to it, as a whole.
    fn store_some(context: &FileContext, data: &[u8]) -> Result<usize> {
        allows(context)?;
        match data.len() {
            4..=MAX_MARKER => context
                .instance
                .recording()
                .write_marker(SlotKind::RawMarker, data),
            _ => Err(EINVAL),
        }
    }
}
