// SPDX-License-Identifier: GPL-2.0

//! Models of a writer and a reader on two CPUs, in all orders of memory accesses (loom).
//!
//! Each model has twins that lack one ordering; those must fail, or the model shows nothing.

use std::ops::Range;

use loom::model::Builder;
use loom::sync::Arc;
use loom::thread;

use crate::engine::context::ContextWord;
use crate::engine::decode::Event;
use crate::engine::reader::Cursor;
use crate::engine::ring::{Ring, WriteOutcome};
use crate::engine::slot::SlotWords;
use crate::platform::{weaken, Part};
use crate::support::{call, copy_space, ring, task, FixedContext, Heap};

/// Plain events that fill a sub-buffer of 8 slots: without header, time and task (2).
const IN_SUBBUF: u64 = 4;

/// Returns event number `index`.
fn event(index: u64) -> Event {
    let (call, context) = call(index, false);
    Event {
        time: index,
        ip: call.ip,
        parent_ip: call.parent_ip,
        context: ContextWord(context),
        task: task(1, 1, "init"),
        ..Event::default()
    }
}

fn try_write(ring: &Ring<Heap>, index: u64) -> WriteOutcome {
    let (call, context) = call(index, false);
    let clock = || index;
    let who = FixedContext {
        context,
        task: task(1, 1, "init"),
        clock: &clock,
    };
    // SAFETY: Each ring here has one thread that writes.
    unsafe { ring.write(call, who) }
}

fn write(ring: &Ring<Heap>, index: u64) {
    assert_eq!(try_write(ring, index), WriteOutcome::Written);
}

/// Reads to the end. Every event must be whole, and the one of its index.
fn read(ring: &Ring<Heap>, cursor: &mut Cursor<Vec<SlotWords>>) {
    let mut index = 0;
    while let Some(found) = cursor.next(ring) {
        index += found.lost;
        assert!(Event { lost: 0, ..found } == event(index), "torn event");
        index += 1;
    }
}

/// Returns a builder that tries all orders in which threads are stopped at most so often where they
/// need not wait. `LOOM_MAX_PREEMPTIONS=3` tries more, for hours.
fn builder(preemptions: usize) -> Builder {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(Some(preemptions));
    builder.max_branches = 10_000;
    builder
}

/// Tries all orders of a thread that writes the events `later`, and of one that runs `reader` with
/// the result of `before` on a ring with the events `earlier`.
fn model<T: 'static>(
    earlier: Range<u64>,
    later: Range<u64>,
    before: impl Fn(&Ring<Heap>) -> T + Sync + Send + 'static,
    reader: impl Fn(&Ring<Heap>, T) + Sync + Send + 'static,
) {
    builder(2).check(move || {
        let ring = Arc::new(ring(2, 8));
        earlier.clone().for_each(|index| write(&ring, index));
        let state = before(&ring);
        let writer = thread::spawn({
            let (ring, later) = (ring.clone(), later.clone());
            move || later.for_each(|index| write(&ring, index))
        });
        reader(&ring, state);
        writer.join().expect("a writer that ends");
    });
}

fn cursor(ring: &Ring<Heap>) -> Cursor<Vec<SlotWords>> {
    Cursor::new(ring, copy_space(ring), 0)
}

/// A test of a model, and of its failure without each of some parts.
macro_rules! models {
    ($($name:ident { $($twin:ident: $part:ident => $failure:literal),* $(,)? } $body:block)*) => { $(
        mod $name {
            use super::*;

            fn model() $body

            #[test]
            fn holds() {
                model();
            }

            $(
                #[test]
                #[should_panic = $failure]
                fn $twin() {
                    weaken(Part::$part);
                    model();
                }
            )*
        }
    )* };
}

mod calls;
mod consuming;
mod containers;
mod outsiders;

models! {
    // A slot that looks complete is complete.
    publication {
        needs_store_release: StoreRelease => "torn event",
        needs_load_acquire: LoadAcquire => "torn event",
    } {
        super::model(0..1, 1..3, |_| (), |ring, ()| read(ring, &mut cursor(ring)));
    }

    // A slot that looks complete is complete, from the first event ever.
    beginning {
        needs_store_release: StoreRelease => "torn event",
        needs_load_acquire: LoadAcquire => "torn event",
    } {
        super::model(0..0, 0..2, |_| (), |ring, ()| read(ring, &mut cursor(ring)));
    }

    // A writer comes round to the sub-buffer that is being copied.
    overwriting {
        needs_fence_release: FenceRelease => "torn event",
        needs_fence_acquire: FenceAcquire => "torn event",
    } {
        super::model(0..2 * IN_SUBBUF, 2 * IN_SUBBUF..2 * IN_SUBBUF + 1, cursor, |ring, mut cursor| {
            read(ring, &mut cursor);
        });
    }

    // A writer opens a sub-buffer while its place is looked up.
    extent {
        needs_store_release: StoreRelease => "of two moments",
        needs_load_acquire: LoadAcquire => "of two moments",
        needs_fence_acquire: FenceAcquire => "of two moments",
        needs_fence_release: FenceRelease => "of two moments",
    } {
        super::model(0..2 * IN_SUBBUF, 2 * IN_SUBBUF..2 * IN_SUBBUF + 1, |_| (), |ring, ()| {
            let extent = ring.extent();
            assert!(
                extent.first_event == (extent.oldest - 1) * IN_SUBBUF
                    && (extent.newest - 1) * IN_SUBBUF < extent.end_event
                    && extent.end_event <= extent.newest * IN_SUBBUF,
                "{extent:?} is of two moments"
            );
        });
    }
}
