// SPDX-License-Identifier: GPL-2.0

//! `per_cpu/cpuN/trace_pipe_raw`: the events as pages of the kernel's own ring buffer, each given out once. See
//! [`engine::kernel_page`](crate::engine::kernel_page) for the format.

use kernel::prelude::*;

use super::drain::{Contents, Drain};
use super::events::layout;
use super::Context;
use crate::engine::decode::{Event, What};
use crate::engine::graph;
use crate::engine::kernel_page::KernelPage;
use crate::instance::buffers::Source;
use crate::instance::comms::Seen;
use crate::machine::Timeline;

/// `trace_pipe_raw`, of one CPU.
pub(super) type KernelPagesFile = Drain<KernelPages>;

/// A page of events that were taken out.
pub(super) struct KernelPages {
    page: KernelPage<KVVec<u8>>,
    /// The tasks of its events, each once in a row.
    tasks: KVec<Seen>,
}

/// When an event was, and how long its call took, in ticks of the clock that is shown.
fn times(timeline: &Timeline, event: &Event, stamp: u64) -> (u64, u64) {
    let duration = match event.what {
        What::Call | What::Return => timeline.duration(event.duration),
        _ => None,
    };
    (timeline.time(stamp).0, duration.unwrap_or(event.duration))
}

impl Contents for KernelPages {
    const SPLICES_AS_POLLS: bool = true;

    fn new(context: &Context) -> Result<Self> {
        let layout = layout(context);
        let bytes = KVVec::from_elem(0, layout.page_bytes, GFP_KERNEL)?;
        Ok(Self {
            page: KernelPage::new(bytes, layout),
            tasks: KVec::new(),
        })
    }

    /// Events until they fill a page, or there are no more.
    fn fill(&mut self, context: &Context, sources: &[Source], _wanted: usize) -> Result {
        let Self { page, tasks } = self;
        page.clear();
        tasks.clear();
        let Some(source) = sources.first() else {
            return Ok(());
        };
        let timeline = context.instance.timeline();
        let mut lost = 0;
        let mut has_room = true;
        source.buffer.consume(|ring, consumer| {
            consumer.drain(ring, |event, beside| {
                if event.lost != 0 && !page.is_empty() {
                    // A page says what was lost before it.
                    return false;
                }
                let (time, task) = (event.time, event.task);
                if tasks.last().is_none_or(|last| last.task != task) {
                    has_room = tasks.push(Seen { time, task }, GFP_KERNEL).is_ok();
                    if !has_room {
                        return false;
                    }
                }
                let is_first = page.is_empty();
                let added = match beside {
                    None => {
                        let (time, duration) = times(&timeline, event, event.time);
                        page.push_plain(event, time, duration)
                    }
                    Some(beside) => {
                        let extras = beside.extras();
                        let began = graph::time_of(event, extras);
                        let (time, duration) = times(&timeline, event, began);
                        let (callers, text) = (&mut beside.stack(), &mut beside.text());
                        page.push(event, extras, callers, text, time, duration)
                    }
                };
                if is_first && added {
                    lost = event.lost;
                }
                added
            });
        })?;
        if !page.is_empty() {
            page.finish(lost);
            context.instance.note_tasks(tasks);
        } else if !has_room {
            return Err(ENOMEM);
        }
        Ok(())
    }

    fn parts(&self) -> [&[u8]; 2] {
        match self.page.is_empty() {
            true => [&[]; 2],
            false => [self.page.bytes(), &[]],
        }
    }

    /// Whole pages; but a part of one rather than nothing.
    fn least_room(&self) -> usize {
        self.page.bytes().len()
    }
}
