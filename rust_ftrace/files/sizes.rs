// SPDX-License-Identifier: GPL-2.0

//! The buffers: how large they are, and what happens when they are full.

use core::fmt::Write;

use kernel::prelude::*;

use super::attribute::{no_memory, Attribute};
use super::context::FileContext;
use crate::engine::parse::parse_number;
use crate::engine::text::Text;
use crate::instance::buffer_changes::BufferChanges;
use crate::instance::buffers::Buffers;

fn show_number(text: &mut Text, number: usize) -> Result {
    writeln!(text, "{number}").map_err(no_memory)
}

/// `buffer_size_kb`, of one CPU or all.
pub(super) struct BufferSize;

impl Attribute for BufferSize {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        let size = (context.instance)
            .recording()
            .with_buffers(|buffers| buffers.size_kb(context.cpu));
        match size {
            Some(size) => show_number(text, size),
            None => text.write_str("X\n").map_err(no_memory),
        }
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        let size_kb = usize::try_from(parse_number(value)?)?;
        BufferChanges::of(&context.instance).resize(context.cpu, size_kb)
    }
}

/// `buffer_total_size_kb`.
pub(super) struct TotalSize;

impl Attribute for TotalSize {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        show_number(
            text,
            context
                .instance
                .recording()
                .with_buffers(Buffers::total_size_kb),
        )
    }
}

/// `buffer_subbuf_size_kb`.
pub(super) struct SubbufSize;

impl Attribute for SubbufSize {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        show_number(
            text,
            context
                .instance
                .recording()
                .with_buffers(Buffers::subbuf_kb),
        )
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        let size_kb = usize::try_from(parse_number(value)?)?;
        BufferChanges::of(&context.instance).set_subbuf_kb(size_kb)
    }
}

/// `buffer_percent`.
pub(super) struct BufferPercent;

impl Attribute for BufferPercent {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        show_number(text, context.instance.recording().buffer_percent().into())
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        context
            .instance
            .recording()
            .set_buffer_percent(parse_number(value)?)
    }
}
