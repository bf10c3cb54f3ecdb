// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The data beside an event as text, in ftrace's format: its stack (`trace_stack_print()` of
//! kernel/trace/trace_output.c) and its arguments (`print_function_args()` there).

use core::fmt::{Result, Write};

use super::clock::TimeUnit;
use super::decode::Event;
use super::extras::ARGS;
use super::line::{append, Line, LineOutput};
use super::render::{begin, SymbolNames};

/// Writes an event's stack: the function, its caller, and `callers`, the return addresses behind
/// that.
pub fn write_stack<O: LineOutput>(
    out: &mut O,
    symbols: &mut impl SymbolNames,
    cpu: u32,
    event: &Event,
    time: (u64, TimeUnit),
    callers: &mut dyn Iterator<Item = u64>,
) -> Result {
    let mut line = Line::new(out.room()?);
    begin(&mut line, cpu, event, time);
    append!(out, line, b"<stack trace>\n");
    let length = line.length();
    out.advance(length);
    for address in [event.ip, event.parent_ip].into_iter().chain(callers) {
        let mut line = Line::new(out.room()?);
        append!(out, line, b" => ");
        append!(out, line, symbols.name(address));
        line.push(b'\n');
        let length = line.length();
        out.advance(length);
    }
    Ok(())
}

/// Writes the arguments of a function whose parameters are not known: all registers that they may
/// be in.
pub fn write_registers(out: &mut dyn Write, args: &[u64; ARGS]) -> Result {
    let mut separator = "(";
    for value in args {
        write!(out, "{separator}{value:#x}")?;
        separator = ", ";
    }
    out.write_str(")")
}
