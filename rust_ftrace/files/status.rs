// SPDX-License-Identifier: GPL-2.0

//! `status` and `per_cpu/cpuN/stats`: what is going on, in numbers.

use core::fmt::Write;

use kernel::prelude::*;

use super::attribute::{no_memory, Attribute};
use super::context::FileContext;
use crate::engine::account::Elsewhere;
use crate::engine::clock::ClockKind;
use crate::engine::lists::FunctionList;
use crate::engine::reader::Cursor;
use crate::engine::render;
use crate::engine::text::Text;
use crate::instance::buffer::SubbufCopy;
use crate::instance::buffers::BufferKind;
use crate::instance::cgroups::CgroupList;
use crate::instance::hooked::Hooked;
use crate::instance::pids::TaskLists;
use crate::instance::profile::contexts::ContextStats;
use crate::instance::profile_stats::ProfileStats;
use crate::instance::Instance;
use crate::machine::TypesSize;
use crate::sys;
use crate::sys::private::part;
use crate::tracer::outsiders::PidList;

/// `status`.
pub(super) struct Status;

impl Attribute for Status {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        let instance = &context.instance;
        let stats = instance.recording().stats(None, BufferKind::Live);
        let counts = stats.counts;
        let elsewhere = instance.recording().elsewhere();
        let hits = counts.hits().wrapping_add(elsewhere.hits());
        let returns = counts.returns.wrapping_add(elsewhere.returns);
        let lost = counts.lost().wrapping_add(elsewhere.lost());
        let (too_deep, _) = instance.too_deep();
        let (filter, notrace) = instance.with_settings(|settings| {
            let count = |list| settings.lists.get(list).map(|set| set.len());
            (count(FunctionList::Filter), count(FunctionList::Notrace))
        });
        let hooked = Hooked::by(instance);
        let armed = hooked.armed()?;
        let behind = match hooked.is_behind() {
            true => "functions of a module that came without memory, until the next change",
            false => "none",
        };
        let skipped = hooked.skipped_matches()?;
        let tasks = TaskLists::of(instance);
        let pids_of = |list| tasks.with(list, |pids| (pids.len(), pids.bytes()));
        let (pids, pid_bytes) = pids_of(PidList::Traced);
        let (not_pids, not_pid_bytes) = pids_of(PidList::NotTraced);
        let (cgroups, members, member_bytes) = CgroupList::of(instance).counts();
        let types = instance.machine().types_size();
        let lists = instance.machine().catalog_bytes() + types.kernel + types.modules;
        let profile = ProfileStats::of(instance);
        let lists = lists + hooked.bytes() + instance.recording().graph_bytes();
        let lists = lists + instance.dump().bytes() + member_bytes;
        let memory = stats.bytes + lists + pid_bytes + not_pid_bytes + profile.bytes;
        let mut write = || {
            writeln!(text, "version: {}", crate::VERSION)?;
            text.write_str("kernel: ")?;
            text.push_bytes(sys::kernel_release().to_bytes())?;
            text.write_str("\nnot as known: ")?;
            part::write_unlike(text)?;
            writeln!(text, "\ntracer: {}", instance.tracer().name())?;
            writeln!(
                text,
                "tracing_on: {}",
                u8::from(instance.recording().is_on())
            )?;
            write_stopped(instance, text)?;
            write_clock(instance, text)?;
            for (name, count) in [("filter", filter), ("notrace", notrace)] {
                match count {
                    Some(count) => writeln!(text, "{name}: {count} functions")?,
                    None => writeln!(text, "{name}: empty")?,
                }
            }
            for (list, count) in [(PidList::Traced, pids), (PidList::NotTraced, not_pids)] {
                match count {
                    0 => writeln!(text, "{}: empty", list.name())?,
                    _ => writeln!(text, "{}: {count} tasks", list.name())?,
                }
            }
            match cgroups {
                0 => writeln!(text, "cgroup: empty")?,
                _ => writeln!(text, "cgroup: {members} tasks in {cgroups} cgroups")?,
            }
            let missed = tasks.forks_missed();
            writeln!(text, "children not followed: {missed}")?;
            writeln!(text, "armed functions: {armed}")?;
            writeln!(text, "not armed: {behind}")?;
            match skipped {
                Some(skipped) => writeln!(text, "skipped matches: {skipped}")?,
                None => writeln!(text, "skipped matches: unknown")?,
            }
            writeln!(text, "hits: {hits}")?;
            writeln!(text, "returns: {returns}")?;
            writeln!(text, "marks: {}", counts.markers)?;
            writeln!(text, "events written: {}", counts.written)?;
            writeln!(text, "events read: {}", counts.read)?;
            writeln!(text, "events present: {}", stats.present)?;
            writeln!(text, "events overwritten: {}", stats.overwritten())?;
            writeln!(text, "events lost: {lost}")?;
            writeln!(text, "lost to full buffers: {}", counts.dropped)?;
            writeln!(text, "lost to commit overruns: {}", counts.commit_overrun)?;
            let Elsewhere {
                without_buffer,
                by_clock,
                by_snapshot,
                ..
            } = elsewhere;
            writeln!(text, "lost without buffer: {without_buffer}")?;
            writeln!(text, "lost while the clock was read: {by_clock}")?;
            writeln!(text, "lost while a snapshot was taken: {by_snapshot}")?;
            writeln!(text, "missed returns: {}", hooked.missed_calls())?;
            write_too_deep(text, "calls too deep", too_deep)?;
            writeln!(text, "chains cut: {}", instance.recording().cut_chains())?;
            if let Some(lost) = instance.recording().lost_wakers() {
                writeln!(text, "lost wakers: {lost}")?;
            }
            let by_stack = instance.recording().left_out_by_stacks();
            writeln!(text, "left out while a stack was unwound: {by_stack}")?;
            if profile.functions != 0 {
                let state = if profile.on { "on" } else { "ended" };
                writeln!(text, "profile: {state}, {} functions", profile.functions)?;
                writeln!(text, "profile lost: {}", profile.lost)?;
                let histograms = &profile.histograms;
                writeln!(
                    text,
                    "profile histograms: {} of {} on a CPU",
                    histograms.taken, histograms.limit
                )?;
                writeln!(text, "profile rest: {}", histograms.in_rest)?;
                if let Some(contexts) = &profile.contexts {
                    let ContextStats { used, limit, .. } = contexts;
                    writeln!(text, "profile contexts: {used} of {limit}")?;
                    writeln!(text, "profile other contexts: {}", contexts.others)?;
                }
                if let Some(lost) = profile.lost_wakers {
                    writeln!(text, "profile lost wakers: {lost}")?;
                }
                writeln!(text, "profile missed: {}", profile.missed)?;
                write_too_deep(text, "profile too deep", profile.too_deep)?;
            } else {
                writeln!(text, "profile: none")?;
            }
            write_types(text, &types)?;
            writeln!(text, "memory: {} KiB", memory.div_ceil(1024))
        };
        write().map_err(no_memory)
    }
}

/// Writes how many calls were too deep: the kernel counts them for all users of fgraph together.
fn write_too_deep(text: &mut Text, key: &str, count: u64) -> core::fmt::Result {
    match count {
        0 => writeln!(text, "{key}: 0"),
        _ => writeln!(text, "{key}: {count} (at most: others' are among them)"),
    }
}

/// Writes whose types were read, and the memory that they take.
fn write_types(text: &mut Text, types: &TypesSize) -> core::fmt::Result {
    match types.kernel {
        0 => writeln!(text, "types: none"),
        _ => writeln!(
            text,
            "types: the kernel, {} modules, {} KiB",
            types.module_count,
            (types.kernel + types.modules).div_ceil(1024)
        ),
    }
}

/// Writes why recording was switched off, if no user did so.
fn write_stopped(instance: &Instance, text: &mut Text) -> core::fmt::Result {
    text.write_str("stopped: ")?;
    match instance.recording().stopped_by_budget() {
        Some((excess, measured)) => {
            text.write_str("budget: ")?;
            excess.write(measured, text)?;
        }
        None => text.write_str("no")?,
    }
    text.write_str("\n")
}

/// Writes what events are stamped with, and what that is made of.
fn write_clock(instance: &Instance, text: &mut Text) -> core::fmt::Result {
    let kind = instance.recording().clock();
    write!(text, "clock: {}", kind.name())?;
    let error = instance.machine().conversion_error();
    match (kind, error) {
        (ClockKind::Local, Some(error)) => {
            writeln!(
                text,
                " (time stamp counter, converted to within {error} ns)"
            )
        }
        (ClockKind::Local, None) => writeln!(text, " (the kernel's own)"),
        _ => writeln!(text),
    }
}

/// `per_cpu/cpuN/stats`.
pub(super) struct CpuStats;

impl Attribute for CpuStats {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        let instance = &context.instance;
        let stats = instance.recording().stats(context.cpu, BufferKind::Live);
        let counts = stats.counts;
        let timeline = instance.recording().timeline();
        let now = timeline.time(instance.recording().now());
        let oldest = match oldest_event(context)? {
            Some(stamp) => timeline.time(stamp),
            None => (0, now.1),
        };
        let mut write = || {
            writeln!(text, "entries: {}", stats.present)?;
            writeln!(text, "overrun: {}", stats.overwritten())?;
            writeln!(text, "commit overrun: {}", counts.commit_overrun)?;
            writeln!(
                text,
                "bytes: {}",
                stats.present * crate::engine::slot::SLOT_BYTES as u64
            )?;
            for (name, time) in [("oldest event", oldest), ("now", now)] {
                write!(text, "{name} ts: ")?;
                render::write_time(text, time)?;
                text.write_str("\n")?;
            }
            writeln!(text, "dropped events: {}", counts.dropped)?;
            writeln!(text, "read events: {}", counts.read)?;
            writeln!(text, "written events: {}", counts.written)
        };
        write().map_err(no_memory)
    }
}

/// The stamp of the oldest event that is there.
fn oldest_event(context: &FileContext) -> Result<Option<u64>> {
    let sources = context
        .instance
        .recording()
        .sources(context.cpu, BufferKind::Live)?;
    for source in &sources {
        let ring = source.buffer.ring();
        let mut cursor = Cursor::new(ring, SubbufCopy::new(ring)?, source.buffer.position());
        if let Some(event) = cursor.next(ring) {
            return Ok(Some(event.time));
        }
    }
    Ok(None)
}
