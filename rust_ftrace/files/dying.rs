// SPDX-License-Identifier: GPL-2.0

//! The trace on the console of a machine that dies, in the lines of `trace`.
//!
//! Nothing here takes a lock or waits; all memory is what was set aside
//! ([`SetAside`](crate::platform::set_aside::SetAside)). So names are looked up each time, and what
//! has a lock is done without: functions' types, by which arguments would be shown.

use core::fmt;

use kernel::prelude::*;
use kernel::str::BStr;

use super::attribute::no_memory;
use super::call_sites::PlainSites;
use crate::engine::extras::ARGS;
use crate::engine::header::{BufferTotals, LatencyHeader};
use crate::engine::lines::{KernelLayout, LineMaker, TracedKernel};
use crate::engine::merge::Merge;
use crate::engine::options::TraceOption;
use crate::engine::reader::Cursor;
use crate::engine::render::SymbolNames;
use crate::engine::slot::SlotWords;
use crate::engine::text::Text;
use crate::engine::trace_reader::{CpuBuffer, CpuEvents, TraceReader};
use crate::instance::DyingTrace;
use crate::platform::Vec;
use crate::sys::context::THREAD_SIZE;
use crate::sys::dying::touch_watchdogs;
use crate::sys::symbols::SymbolText;
use crate::sys::{self, cpu};
use crate::tracer::recorder::CpuRing;
use crate::tracer::ring_memory::RingMemory;

/// Most events that are shown: the kernel's log, 128 KiB on Debian's kernels, then still has what
/// the kernel itself has said.
const MAX_EVENTS: u64 = 1024;

/// A CPU's ring.
struct DyingBuffer<'a> {
    cpu: u32,
    ring: &'a CpuRing,
}

impl CpuBuffer for DyingBuffer<'_> {
    type Memory = RingMemory;

    fn cpu(&self) -> u32 {
        self.cpu
    }

    fn ring(&self) -> &CpuRing {
        self.ring
    }
}

/// A copy of a sub-buffer.
struct SubbufCopy(Vec<SlotWords>);

impl AsRef<[SlotWords]> for SubbufCopy {
    fn as_ref(&self) -> &[SlotWords] {
        &self.0
    }
}

impl AsMut<[SlotWords]> for SubbufCopy {
    fn as_mut(&mut self) -> &mut [SlotWords] {
        &mut self.0
    }
}

/// The kernel that dies.
struct DyingKernel {
    symbols: DyingSymbols,
    sites: PlainSites,
}

impl TracedKernel for DyingKernel {
    type Symbols = DyingSymbols;
    type Sites = PlainSites;

    fn symbols(&mut self) -> &mut DyingSymbols {
        &mut self.symbols
    }

    fn sites(&mut self) -> &mut PlainSites {
        &mut self.sites
    }

    fn write_args(
        &mut self,
        _text: &mut Text,
        _ip: u64,
        _args: &[u64; ARGS],
    ) -> core::result::Result<bool, fmt::Error> {
        Ok(false)
    }
}

/// Names, each looked up anew.
struct DyingSymbols(SymbolText);

impl SymbolNames for DyingSymbols {
    fn name(&mut self, address: u64) -> &[u8] {
        self.0.look_up(address)
    }

    fn place(&mut self, address: u64) -> &[u8] {
        self.0.look_up_place(address)
    }
}

/// Shows the newest events. They can still be read.
pub(crate) fn dump(trace: &DyingTrace<'_>) {
    let name = BStr::from_bytes(trace.name().to_bytes());
    match name.is_empty() {
        true => pr_emerg!("Dumping the trace:\n"),
        false => pr_emerg!("Dumping the trace of instance {name}:\n"),
    }
    if trace.was_shown() {
        pr_emerg!("   (nothing came since it was shown)\n");
        return;
    }
    pr_emerg!("---------------------------------\n");
    match show(trace) {
        Ok(0) => pr_emerg!("   (trace empty)\n"),
        Ok(_) => pr_emerg!("---------------------------------\n"),
        Err(error) => pr_emerg!("   (not shown: {error:?})\n"),
    }
}

/// Shows the newest events. Returns their number.
fn show(trace: &DyingTrace<'_>) -> Result<u64> {
    let mut events = Merge::new();
    let mut present = 0u64;
    let mut read = 0u64;
    for (cpu, ring) in trace.rings() {
        let extent = ring.extent();
        let position = ring.storage().noted_position().max(extent.first_event);
        present = present.saturating_add(extent.end_event.saturating_sub(position));
        // More than these are not among the newest of all.
        let from = position.max(extent.end_event.saturating_sub(MAX_EVENTS));
        read = read.saturating_add(extent.end_event.saturating_sub(from));
        let mut copy = Vec::new();
        let cpu = cpu.as_u32();
        if copy
            .resize(ring.subbuf_slots() - 1, SlotWords::default())
            .is_err()
        {
            pr_emerg!("   (CPU {cpu} is not shown: no room was set aside)\n");
            continue;
        }
        let cursor = Cursor::new(ring, SubbufCopy(copy), from);
        let buffer = DyingBuffer { cpu, ring };
        events.add(CpuEvents::new((buffer, cursor), Vec::new()))?;
    }
    if present == 0 {
        return Ok(0);
    }
    let mut settings = trace.line_settings();
    // A line of that format waits for the next event, which may not come.
    settings.options = settings.options.with(TraceOption::LatencyFormat, false);
    let layout = KernelLayout {
        cpus: cpu::end(),
        irq_text: trace.machine().irq_text(),
        stack_bytes: THREAD_SIZE as u32,
    };
    let totals = BufferTotals {
        present,
        written: present,
        cpus: u32::try_from(cpu::online().count()).unwrap_or(u32::MAX),
    };
    let kernel = DyingKernel {
        symbols: DyingSymbols(SymbolText::new()?),
        sites: PlainSites::new()?,
    };
    let lines = LineMaker::new(layout, settings);
    let mut reading = TraceReader::new(events, lines, kernel, totals, false);
    let older = present.saturating_sub(MAX_EVENTS);
    if older != 0 {
        pr_emerg!("   ({older} older events are not shown)\n");
    }
    for _ in MAX_EVENTS..read {
        reading.skip_next();
    }
    show_lines(&mut reading)
}

/// Shows the lines of all events that are left, with those that explain them before.
fn show_lines(reading: &mut TraceReader<DyingBuffer<'_>, SubbufCopy, DyingKernel>) -> Result<u64> {
    let mut text = Text::new();
    let machine = LatencyHeader {
        release: sys::kernel_release().to_str().unwrap_or_default(),
        preemption: sys::preemption_model(),
    };
    reading
        .write_header(&mut text, machine)
        .map_err(no_memory)?;
    let (mut shown, mut without_room) = (0, 0);
    loop {
        for line in text.as_bytes().split(|&byte| byte == b'\n') {
            if !line.is_empty() {
                pr_emerg!("{}\n", BStr::from_bytes(line));
            }
        }
        touch_watchdogs();
        text.clear();
        if shown + without_room >= MAX_EVENTS {
            break;
        }
        match reading.write_next(&mut text) {
            Ok(false) => break,
            Ok(true) => shown += 1,
            Err(_) => {
                text.clear();
                without_room += 1;
            }
        }
    }
    if without_room != 0 {
        pr_emerg!(
            "   ({without_room} events are not shown: they need more room than was set aside)\n"
        );
    }
    Ok(shown)
}
