// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Markers, which programs write into the trace (`trace_marker`, `trace_marker_raw`): events with
//! bytes, in slots right before the event's.
//!
//! | word | bits  | [`SlotKind::Text`] | [`SlotKind::Marker`], [`SlotKind::RawMarker`]  |
//! |------|-------|--------------------|------------------------------------------------|
//! | 0    | 0-23  | bytes 0-2          | bits 0-30: address that the writer is shown as |
//! | 0    | 32-63 | bytes 3-6          | time                                           |
//! | 1    | 0-23  | bytes 7-9          | bits 8-23: context, bits 0-15                  |
//! | 1    | 32-63 | bytes 10-13        | number of bytes                                |

use core::fmt::Result;

use super::decode::EventKind;
use super::kernel_page::{PAGE_BYTES, PAGE_HEADER_BYTES};
use super::line::LineOutput;
use super::slot::{SlotKind, SlotWords};

/// Bytes of a slot of text.
pub const TEXT_BYTES: usize = 14;

/// Most bytes of a marker: as many as a [page](super::kernel_page) has room for, with the parts
/// before and behind them.
pub const MAX_MARKER: usize = PAGE_BYTES - PAGE_HEADER_BYTES - AROUND;
/// Bytes around those of a marker: length (8), the fields of all records (8), address (8), newline
/// and zero.
const AROUND: usize = 26;

impl SlotWords {
    /// Makes the slot with these bytes, at most [`TEXT_BYTES`].
    pub fn text_slot(bytes: &[u8]) -> Self {
        let at = |index: usize| u64::from(bytes.get(index).copied().unwrap_or(0));
        let three = |first| at(first) | (at(first + 1) << 8) | (at(first + 2) << 16);
        let four = |first| (three(first) | (at(first + 3) << 24)) as u32;
        Self::other(SlotKind::Text, three(0), four(3), three(7), four(10))
    }

    /// Returns the bytes of such a slot.
    fn text_bytes(self) -> [u8; TEXT_BYTES] {
        let [a, b, c, ..] = self.0.to_le_bytes();
        let [d, e, f, g] = self.high0().to_le_bytes();
        let [h, i, j, ..] = self.1.to_le_bytes();
        let [k, l, m, n] = self.high1().to_le_bytes();
        [a, b, c, d, e, f, g, h, i, j, k, l, m, n]
    }

    /// Makes the event of `length` bytes that are in the slots before it, without the parity.
    pub const fn marker(kind: SlotKind, ip: u64, time: u64, context: u32, length: u32) -> Self {
        Self::call(kind, ip, time, 0, context, length)
    }
}

/// Returns the bytes of the event in slot `event` of a sub-buffer, of which `copy` is all but the
/// header.
pub fn text_at(copy: &[SlotWords], event: usize, length: usize) -> impl Iterator<Item = u8> + '_ {
    let first = event.saturating_sub(length.div_ceil(TEXT_BYTES));
    let slots = copy.get(first..event).unwrap_or_default();
    slots
        .iter()
        .flat_map(|words| words.text_bytes())
        .take(length)
}

/// Returns the text of a marker: the bytes before the first zero, without a newline at the end.
fn text_of(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|byte| *byte == 0);
    let text = end.and_then(|end| bytes.get(..end)).unwrap_or(bytes);
    text.strip_suffix(b"\n").unwrap_or(text)
}

/// Writes the text of a marker, without the newline at its end (`trace_print_print()` and
/// `trace_raw_data()` of kernel/trace/trace_output.c).
pub fn write_marker<O: LineOutput>(out: &mut O, what: EventKind, bytes: &[u8]) -> Result {
    if what != EventKind::RawMarker {
        return out.write_bytes(text_of(bytes));
    }
    let (id, data) = bytes.split_first_chunk().unwrap_or((&[0; 4], &[]));
    write!(out, "# {:x} buf:", u32::from_le_bytes(*id))?;
    // The kernel's ring buffer has whole words.
    let filled = data.len().next_multiple_of(4) - data.len();
    for byte in data.iter().chain(core::iter::repeat_n(&0, filled)) {
        write!(out, " {byte:02x}")?;
    }
    Ok(())
}
