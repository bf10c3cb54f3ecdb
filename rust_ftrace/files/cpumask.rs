// SPDX-License-Identifier: GPL-2.0

//! `tracing_cpumask`: the CPUs to trace.

use core::fmt::Write;

use kernel::prelude::*;

use super::attribute::{no_memory, Attribute};
use super::context::FileContext;
use crate::engine::text::Text;
use crate::instance::pids::TaskLists;
use crate::sys::cpu::{self, Mask};

/// `tracing_cpumask`.
pub(super) struct Cpumask;

/// Bits of a group of hex digits.
const GROUP: u32 = 32;

impl Attribute for Cpumask {
    /// Writes the mask as `%*pb` does: groups of eight digits with commas between, the first as
    /// short as the number of CPUs allows.
    fn show(context: &FileContext, text: &mut Text) -> Result {
        let end = cpu::end();
        let tasks = TaskLists::of(&context.instance);
        let traced = |number: u32| {
            let cpu = cpu::from_number(number);
            cpu.is_some_and(|cpu| tasks.is_cpu_traced(cpu))
        };
        for group in (0..end.div_ceil(GROUP)).rev() {
            let bits = end.saturating_sub(group * GROUP).min(GROUP);
            let value = (0..bits).fold(0, |value: u32, bit| {
                value | (u32::from(traced(group * GROUP + bit)) << bit)
            });
            let digits = bits.div_ceil(4) as usize;
            let separator = if group == 0 { '\n' } else { ',' };
            write!(text, "{value:0digits$x}{separator}").map_err(no_memory)?;
        }
        Ok(())
    }

    fn store(context: &FileContext, value: &[u8]) -> Result {
        // This is as in tracefs; a line without digits is a mask of no CPUs.
        if value.is_empty() {
            return Err(EINVAL);
        }
        TaskLists::of(&context.instance).set_cpus(&Mask::parse(value)?);
        Ok(())
    }
}
