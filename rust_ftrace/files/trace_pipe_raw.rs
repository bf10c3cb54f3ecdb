// SPDX-License-Identifier: GPL-2.0

//! `per_cpu/cpuN/trace_pipe_raw`: the events as pages of the kernel's own ring buffer, each given
//! out once. See [`engine::kernel_page`](crate::engine::kernel_page) for the format.

use kernel::prelude::*;

use super::context::FileContext;
use super::drain::{Contents, Drain};
use super::events::layout;
use crate::engine::consumer::Sink;
use crate::engine::decode::{Decoder, Event, EventKind};
use crate::engine::graph;
use crate::engine::kernel_page::KernelPage;
use crate::engine::reader::EventExtras;
use crate::engine::slot::{SlotWords, Task};
use crate::engine::timeline::Timeline;
use crate::instance::buffers::BufferSource;
use crate::instance::comms::SeenTask;

/// `trace_pipe_raw`, of one CPU.
pub(super) type KernelPagesFile = Drain<KernelPages>;

/// A page of events that were taken out.
pub(super) struct KernelPages {
    page: KernelPage<KVVec<u8>>,
    /// The tasks of its events, each once in a row.
    tasks: KVec<SeenTask>,
}

/// Fills a page with events that are taken out.
struct Filler<'a> {
    page: &'a mut KernelPage<KVVec<u8>>,
    tasks: &'a mut KVec<SeenTask>,
    timeline: Timeline,
    /// Events that were lost before the first one.
    lost: u64,
    has_room: bool,
}

impl Filler<'_> {
    /// Notes that `task` had an event at `time`; returns whether there was memory for that.
    fn note(&mut self, time: u64, task: Task) -> bool {
        if self.tasks.last().is_none_or(|last| last.task != task) {
            self.has_room = self.tasks.push(SeenTask { time, task }, GFP_KERNEL).is_ok();
        }
        self.has_room
    }

    /// Returns the time of an event and the duration of its call, in ticks of the clock that is
    /// shown.
    fn times(&self, event: &Event, stamp: u64) -> (u64, u64) {
        let duration = match event.what {
            EventKind::Call | EventKind::Return => self.timeline.duration(event.duration),
            _ => None,
        };
        let time = self.timeline.time(stamp).0;
        (time, duration.unwrap_or(event.duration))
    }
}

impl<B: AsRef<[SlotWords]> + AsMut<[SlotWords]>> Sink<B> for Filler<'_> {
    fn functions(&mut self, decoder: &Decoder, slots: &[SlotWords]) -> usize {
        // A task's first event is noted with its time.
        if self
            .tasks
            .last()
            .is_none_or(|last| last.task != decoder.task)
        {
            return 0;
        }
        let page = &mut *self.page;
        match self.timeline {
            Timeline::Converted(conversion) => {
                page.push_functions(decoder, slots, |stamp| conversion.to_ns(stamp))
            }
            Timeline::Plain(_) | Timeline::Cycles(_) => {
                page.push_functions(decoder, slots, |stamp| stamp)
            }
        }
    }

    fn event(&mut self, event: &Event, event_extras: Option<EventExtras<'_, B>>) -> bool {
        let is_first = self.page.is_empty();
        if event.lost != 0 && !is_first {
            // A page says what was lost before it.
            return false;
        }
        if !self.note(event.time, event.task) {
            return false;
        }
        let added = match event_extras {
            None => {
                let (time, duration) = self.times(event, event.time);
                self.page.push_plain(event, time, duration)
            }
            Some(event_extras) => {
                let extras = event_extras.extras();
                let (time, duration) = self.times(event, graph::time_of(event, extras));
                let (callers, text) = (&mut event_extras.stack(), &mut event_extras.text());
                (self.page).push(event, extras, callers, text, time, duration)
            }
        };
        if is_first && added {
            self.lost = event.lost;
        }
        added
    }
}

impl Contents for KernelPages {
    const SPLICES_AS_POLLS: bool = true;

    fn new(context: &FileContext) -> Result<Self> {
        let layout = layout(context);
        let bytes = KVVec::from_elem(0, layout.page_bytes, GFP_KERNEL)?;
        Ok(Self {
            page: KernelPage::new(bytes, layout),
            tasks: KVec::new(),
        })
    }

    /// Events until they fill a page, or there are no more.
    fn fill(&mut self, context: &FileContext, sources: &[BufferSource], _wanted: usize) -> Result {
        let Self { page, tasks } = self;
        page.clear();
        tasks.clear();
        let mut filler = Filler {
            page,
            tasks,
            timeline: context.instance.recording().timeline(),
            lost: 0,
            has_room: true,
        };
        for source in sources {
            (source.buffer).consume(|ring, consumer| consumer.drain(ring, &mut filler))?;
            if !filler.page.is_empty() || !filler.has_room {
                break;
            }
        }
        if !filler.page.is_empty() {
            filler.page.finish(filler.lost);
            context.instance.recording().note_tasks(filler.tasks);
        } else if !filler.has_room {
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
