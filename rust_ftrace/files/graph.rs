// SPDX-License-Identifier: GPL-2.0

//! The files of `function_graph`: they choose the calls that it traces.

use core::fmt::Write;

use kernel::prelude::*;

use super::attribute::{no_memory, Attribute};
use super::context::FileContext;
use super::lists::FunctionListFile;
use crate::engine::lists::FunctionList;
use crate::engine::parse::parse_number;
use crate::engine::text::Text;

/// `graph_function`.
pub(super) struct GraphFunctionList;

impl FunctionListFile for GraphFunctionList {
    const LIST: FunctionList = FunctionList::GraphFunction;
    const EMPTY: &'static str = "#### all functions enabled ####\n";
}

/// `graph_notrace`.
pub(super) struct GraphNotraceList;

impl FunctionListFile for GraphNotraceList {
    const LIST: FunctionList = FunctionList::GraphNotrace;
    const EMPTY: &'static str = "#### no functions disabled ####\n";
}

/// `max_depth`.
pub(super) struct MaxDepth;

impl Attribute for MaxDepth {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        let depth = context.instance.max_depth();
        writeln!(text, "{}", depth.unwrap_or(0)).map_err(no_memory)
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        // As in tracefs, which keeps the low half of the number.
        let depth = parse_number(value)? as u32;
        context
            .instance
            .set_max_depth((depth != 0).then_some(depth));
        Ok(())
    }
}

/// `tracing_thresh`.
pub(super) struct Thresh;

impl Attribute for Thresh {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        // In microseconds, as in tracefs.
        writeln!(text, "{}", context.instance.thresh() / 1000).map_err(no_memory)
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        let ns = parse_number(value)?.wrapping_mul(1000);
        context.instance.set_thresh(ns)
    }
}

/// `tracing_errno`.
pub(super) struct Errnos;

impl Attribute for Errnos {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        let errnos = context.instance.errnos();
        let mut write = || {
            if errnos.all || errnos.is_empty() {
                return writeln!(text, "{}", u8::from(errnos.all));
            }
            for (index, name) in errnos.names().enumerate() {
                let comma = if index == 0 { "" } else { "," };
                write!(text, "{comma}{name}")?;
            }
            text.write_str("\n")
        };
        write().map_err(no_memory)
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        context.instance.set_errnos(value)
    }
}
