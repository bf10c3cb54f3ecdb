// SPDX-License-Identifier: GPL-2.0

//! `options/` and `trace_options`: what is recorded beside calls, and how it is shown.

use core::fmt::Write;

use kernel::prelude::*;

use super::attribute::{no_memory, Attribute};
use super::context::FileContext;
use crate::engine::options::TraceOption;
use crate::engine::parse::{parse_bool, parse_word};
use crate::engine::text::Text;

/// `options/NAME` of the option at place `INDEX` of [`TraceOption::ALL`].
pub(super) struct OptionFile<const INDEX: usize>;

impl<const INDEX: usize> OptionFile<INDEX> {
    const OPTION: TraceOption = TraceOption::ALL[INDEX];
}

impl<const INDEX: usize> Attribute for OptionFile<INDEX> {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        let on = context.instance.options().has(Self::OPTION);
        writeln!(text, "{}", u8::from(on)).map_err(no_memory)
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        context
            .instance
            .set_option(Self::OPTION, parse_bool(value)?)
    }
}

/// `trace_options`.
pub(super) struct TraceOptions;

impl Attribute for TraceOptions {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        let options = context.instance.options();
        for option in TraceOption::ALL {
            let no = if options.has(*option) { "" } else { "no" };
            writeln!(text, "{no}{}", option.name()).map_err(no_memory)?;
        }
        Ok(())
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        let value = parse_word(value);
        let Some((option, on)) = TraceOption::parse(value) else {
            (context.instance.errors()).log("trace_options", "No such option", value);
            return Err(EINVAL);
        };
        context.instance.set_option(option, on)
    }
}
