// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Merging the events of all CPUs into one stream, in the order of time.

use super::decode::Event;
use crate::platform::{AllocError, Vec};

/// A CPU's events, in order.
pub trait EventSource {
    /// The part of its next event that is kept until the event is given out: the event, or its time
    /// if the source itself keeps the event.
    type Event: Timed;
    /// Returns the CPU's number.
    fn cpu(&self) -> u32;
    /// Returns its next event.
    fn next(&mut self) -> Option<Self::Event>;
}

/// A value that has a time by which it is ordered.
pub trait Timed {
    /// Returns the time.
    fn time(&self) -> u64;
}

impl Timed for Event {
    #[inline(always)]
    fn time(&self) -> u64 {
        self.time
    }
}

/// A time alone is ordered by itself.
impl Timed for u64 {
    #[inline(always)]
    fn time(&self) -> u64 {
        *self
    }
}

struct MergeHead<S: EventSource> {
    source: S,
    event: S::Event,
}

impl<S: EventSource> MergeHead<S> {
    /// Returns the key by which events are ordered: the time, and the CPU for equal times.
    fn key(&self) -> (u64, u32) {
        (self.event.time(), self.source.cpu())
    }
}

/// Merges sources by a binary heap of their next events.
///
/// # Invariants
///
/// `heap` has indices of `heads`, and is a heap: no head has a smaller key than its parent, which
/// is at `(index - 1) / 2`.
pub struct Merge<S: EventSource> {
    heads: Vec<MergeHead<S>>,
    heap: Vec<usize>,
    /// The first event of the heap was given out.
    given: bool,
}

impl<S: EventSource> Merge<S> {
    /// Makes a merge without sources.
    pub fn new() -> Self {
        Self {
            heads: Vec::new(),
            heap: Vec::new(),
            given: false,
        }
    }

    /// Adds a source, unless it is empty.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory; the source is dropped.
    pub fn add(&mut self, mut source: S) -> Result<(), AllocError> {
        if let Some(event) = source.next() {
            self.heads.push(MergeHead { source, event })?;
            // A head that is not in the heap does no harm.
            self.heap.push(self.heads.len() - 1)?;
            self.sift_up(self.heap.len() - 1);
        }
        Ok(())
    }

    /// Returns the next event, and the source that it is from.
    #[inline(always)]
    pub fn next(&mut self) -> Option<(&S, &S::Event)> {
        if core::mem::take(&mut self.given) {
            self.advance()?;
        }
        let first = self.heads.get(*self.heap.first()?)?;
        self.given = true;
        Some((&first.source, &first.event))
    }

    /// Looks for the event behind the first one.
    #[inline]
    fn advance(&mut self) -> Option<()> {
        let first = self.heads.get_mut(*self.heap.first()?)?;
        match first.source.next() {
            Some(next) => first.event = next,
            None => {
                let last = self.heap.len() - 1;
                self.heap.swap(0, last);
                self.heap.pop();
            }
        }
        self.sift_down(0);
        Some(())
    }

    fn head(&self, index: usize) -> Option<&MergeHead<S>> {
        self.heads.get(*self.heap.get(index)?)
    }

    fn less(&self, a: usize, b: usize) -> bool {
        match (self.head(a), self.head(b)) {
            (Some(a), Some(b)) => a.key() < b.key(),
            _ => false,
        }
    }

    fn sift_up(&mut self, mut index: usize) {
        while index > 0 {
            let parent = (index - 1) / 2;
            if !self.less(index, parent) {
                break;
            }
            self.heap.swap(index, parent);
            index = parent;
        }
    }

    #[inline]
    fn sift_down(&mut self, mut index: usize) {
        loop {
            let left = 2 * index + 1;
            let child = if self.less(left + 1, left) {
                left + 1
            } else {
                left
            };
            if !self.less(child, index) {
                break;
            }
            self.heap.swap(index, child);
            index = child;
        }
    }
}
