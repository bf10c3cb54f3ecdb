// SPDX-License-Identifier: GPL-2.0

//! The files of `function_graph`: they choose the calls that it traces.

use core::fmt::Write;

use kernel::prelude::*;

use super::attribute::{no_memory, Attribute};
use super::context::FileContext;
use super::lists::FunctionListFile;
use crate::engine::errno::ErrnoSet;
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
        let depth = context
            .instance
            .with_settings(|settings| settings.max_depth);
        writeln!(text, "{}", depth.unwrap_or(0)).map_err(no_memory)
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        // As in tracefs, which keeps the low half of the number.
        let depth = parse_number(value)? as u32;
        context.instance.change(|settings| {
            settings.max_depth = (depth != 0).then_some(depth);
            Ok(())
        })
    }
}

/// `tracing_thresh`.
pub(super) struct Thresh;

impl Attribute for Thresh {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        // In microseconds, as in tracefs.
        let ns = context.instance.with_settings(|settings| settings.thresh);
        writeln!(text, "{}", ns / 1000).map_err(no_memory)
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        let ns = parse_number(value)?.wrapping_mul(1000);
        context.instance.change(|settings| {
            settings.thresh = ns;
            Ok(())
        })
    }
}

/// The name of `tracing_errno`, in the error log.
const ERRNO_FILE: &str = "tracing_errno";

/// `tracing_errno`.
pub(super) struct Errnos;

impl Attribute for Errnos {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        let errnos = context.instance.with_settings(|settings| settings.errnos);
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
        let instance = &context.instance;
        let errnos = ErrnoSet::parse(value).map_err(|at| {
            let reason = "There is no error of this name (0, 1, or names as EINVAL,ENOMEM)";
            instance.errors().add(ERRNO_FILE, reason, value, at);
            EINVAL
        })?;
        if !errnos.is_empty() && instance.machine().btf()?.is_none() {
            let reason = "The kernel does not say what its functions return (no BTF)";
            instance.errors().log(ERRNO_FILE, reason, value);
            return Err(EOPNOTSUPP);
        }
        instance.change(|settings| {
            settings.errnos = errnos;
            Ok(())
        })
    }
}
