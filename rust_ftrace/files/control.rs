// SPDX-License-Identifier: GPL-2.0

//! The files of one value: tracer, switches, clock.

use core::fmt::Write;

use kernel::prelude::*;

use super::attribute::{no_memory, Attribute};
use super::context::FileContext;
use crate::engine::clock::ClockKind;
use crate::engine::parse::{parse_number, parse_word};
use crate::engine::settings::Tracer;
use crate::engine::text::Text;

/// `timestamp_mode`.
pub(super) struct TimestampMode;

impl Attribute for TimestampMode {
    fn show(_context: &FileContext, text: &mut Text) -> Result {
        text.write_str("[delta] absolute\n").map_err(no_memory)
    }
}

/// `available_tracers`.
pub(super) struct AvailableTracers;

impl Attribute for AvailableTracers {
    fn show(_context: &FileContext, text: &mut Text) -> Result {
        for (index, tracer) in Tracer::ALL.into_iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(text, "{space}{}", tracer.name()).map_err(no_memory)?;
        }
        text.write_str("\n").map_err(no_memory)
    }
}

/// `current_tracer`.
pub(super) struct CurrentTracer;

impl Attribute for CurrentTracer {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        writeln!(text, "{}", context.instance.tracer().name()).map_err(no_memory)
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        let value = parse_word(value);
        let Some(tracer) = Tracer::from_name(value) else {
            (context.instance.errors()).log("current_tracer", "No such tracer", value);
            return Err(EINVAL);
        };
        context.instance.set_tracer(tracer)
    }
}

/// `tracing_on`.
pub(super) struct TracingOn;

impl Attribute for TracingOn {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        writeln!(text, "{}", u8::from(context.instance.recording().is_on())).map_err(no_memory)
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        // As in tracefs, any number but 0 means on.
        context
            .instance
            .recording()
            .set_on(parse_number(value)? != 0);
        Ok(())
    }
}

/// `trace_clock`.
pub(super) struct TraceClock;

impl Attribute for TraceClock {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        context
            .instance
            .recording()
            .clock()
            .write_choice(text)
            .map_err(no_memory)
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        let value = parse_word(value);
        let Some(kind) = ClockKind::from_name(value) else {
            (context.instance.errors()).log("trace_clock", "No such clock", value);
            return Err(EINVAL);
        };
        context.instance.set_clock(kind)
    }
}

/// `error_log`.
pub(super) struct Errors;

impl Attribute for Errors {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        context.instance.errors().write(text).map_err(no_memory)
    }

    fn store(context: &FileContext, _value: &[u8]) -> Result {
        context.instance.errors().clear();
        Ok(())
    }
}
