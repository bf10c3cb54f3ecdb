// SPDX-License-Identifier: GPL-2.0

//! The files of `function_graph`: which calls it traces.

use core::fmt::Write;

use kernel::prelude::*;

use super::context::Context;
use super::lists::Which;
use super::small::{no_memory, Small};
use crate::engine::lists::List;
use crate::engine::parse::parse_number;
use crate::sys::text::Text;

/// `graph_function`.
pub(super) struct GraphFunctionList;

impl Which for GraphFunctionList {
    const LIST: List = List::GraphFunction;
    const EMPTY: &'static str = "#### all functions enabled ####\n";
}

/// `graph_notrace`.
pub(super) struct GraphNotraceList;

impl Which for GraphNotraceList {
    const LIST: List = List::GraphNotrace;
    const EMPTY: &'static str = "#### no functions disabled ####\n";
}

/// `max_depth`.
pub(super) struct MaxDepth;

impl Small for MaxDepth {
    fn show(context: &Context, text: &mut Text) -> Result {
        let depth = context.instance.max_depth();
        writeln!(text, "{}", depth.unwrap_or(0)).map_err(no_memory)
    }

    fn store(context: &Context, value: &[u8]) -> Result {
        // (as in tracefs, which keeps the low half of what is written)
        let depth = parse_number(value)? as u32;
        context
            .instance
            .set_max_depth((depth != 0).then_some(depth));
        Ok(())
    }
}

/// `tracing_thresh`.
pub(super) struct Thresh;

impl Small for Thresh {
    fn show(context: &Context, text: &mut Text) -> Result {
        // (microseconds, as in tracefs)
        writeln!(text, "{}", context.instance.thresh() / 1000).map_err(no_memory)
    }

    fn store(context: &Context, value: &[u8]) -> Result {
        let ns = parse_number(value)?.wrapping_mul(1000);
        context.instance.set_thresh(ns)
    }
}
