// SPDX-License-Identifier: GPL-2.0

//! The files of `events/`: the layout of the events in `trace_pipe_raw`, for programs that read it.
//! There are no other events that could be switched on.

use kernel::prelude::*;

use super::attribute::{no_memory, Attribute};
use super::context::FileContext;
use crate::engine::event_format::{write_event_header, write_format, write_page_header};
use crate::engine::kernel_page::{Layout, RecordType};
use crate::engine::options::TraceOption;
use crate::engine::parse::parse_number;
use crate::engine::text::Text;
use crate::instance::buffers::Buffers;

/// The layout of records now. A reader of `trace_pipe_raw` keeps the layout of the time at which it
/// opened the file.
pub(super) fn layout(context: &FileContext) -> Layout {
    Layout {
        page_bytes: (context.instance)
            .recording()
            .with_buffers(Buffers::page_bytes),
        retval: (context.instance.options()).has(TraceOption::GraphRetval),
    }
}

/// `events/header_page`.
pub(super) struct HeaderPage;

impl Attribute for HeaderPage {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        write_page_header(text, layout(context)).map_err(no_memory)
    }
}

/// `events/header_event`.
pub(super) struct HeaderEvent;

impl Attribute for HeaderEvent {
    fn show(_context: &FileContext, text: &mut Text) -> Result {
        write_event_header(text).map_err(no_memory)
    }
}

/// `events/enable`.
pub(super) struct Enable;

impl Attribute for Enable {
    fn show(_context: &FileContext, text: &mut Text) -> Result {
        text.push_bytes(b"0\n").map_err(no_memory)
    }

    /// Takes any switch but "on": there are no events that could be switched on.
    fn store(_context: &FileContext, value: &[u8]) -> Result {
        match parse_number(value)? {
            0 => Ok(()),
            _ => Err(EINVAL),
        }
    }
}

/// `events/ftrace/NAME/format`, of the event with that number.
pub(super) struct EventFormat<const KIND: u16>;

impl<const KIND: u16> Attribute for EventFormat<KIND> {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        let kind = RecordType::from_number(KIND).ok_or(EINVAL)?;
        write_format(text, kind, layout(context)).map_err(no_memory)
    }
}
