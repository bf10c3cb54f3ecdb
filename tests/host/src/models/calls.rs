// SPDX-License-Identifier: GPL-2.0

//! Models of calls: a writer, whose entries stay incomplete until their return or the next event
//! completes them, and a reader.

use loom::sync::Arc;
use loom::thread;

use super::cursor;
use crate::engine::decode::{Event, EventKind};
use crate::engine::ring::{OpenCall, Ring};
use crate::platform::{weaken, Part};
use crate::support::{call, ring as new_ring, task, FixedContext, Heap};

/// Evaluates an expression with a caller at `$now`, by the name `$who`.
macro_rules! at {
    ($now:expr, |$who:ident| $body:expr) => {{
        let clock = || $now;
        let $who = FixedContext {
            context: 0,
            task: task(1, 1, "init"),
            clock: &clock,
        };
        // SAFETY: Each ring here has one thread that writes.
        unsafe { $body }
    }};
}

fn enter(ring: &Ring<Heap>, now: u64, depth: u32) -> OpenCall {
    let mut open = OpenCall::default();
    let (call, _) = call(now, false);
    assert!(at!(now, |who| ring.enter_call(
        call,
        || depth,
        &[],
        who,
        &mut open
    )));
    open
}

fn leave_leaf(ring: &Ring<Heap>, open: OpenCall, now: u64) {
    let duration = |now: u64| now - open.start;
    assert!(at!(now, |who| ring.leave_leaf(open, who, duration)));
}

/// Makes a call in which nothing else is recorded.
fn leaf(ring: &Ring<Heap>) {
    let open = enter(ring, 0, 0);
    leave_leaf(ring, open, 1);
}

/// Makes a call that another one completes.
fn nested(ring: &Ring<Heap>) {
    enter(ring, 10, 0);
    enter(ring, 11, 1);
}

/// Makes a call that ends after another one in it.
fn returning(ring: &Ring<Heap>) {
    let (call, _) = call(10, false);
    let duration = |now: u64| now - 10;
    assert!(at!(15, |who| ring.leave_call(
        call.ip,
        0,
        &[],
        who,
        duration
    )));
}

/// Returns the events that a reader is to see of a writer.
fn events(writer: fn(&Ring<Heap>)) -> Vec<Event> {
    let ring = new_ring(2, 8);
    writer(&ring);
    let mut cursor = cursor(&ring);
    std::iter::from_fn(|| cursor.next(&ring)).collect()
}

/// Tries all orders of a thread that runs `writer`, and of one that reads: each event must be
/// whole.
fn race(preemptions: usize, writer: fn(&Ring<Heap>), whats: &'static [EventKind]) {
    super::builder(preemptions).check(move || {
        let expected = events(writer);
        assert!(expected
            .iter()
            .map(|event| event.what)
            .eq(whats.iter().copied()));
        let ring = Arc::new(new_ring(2, 8));
        let thread = thread::spawn({
            let ring = ring.clone();
            move || writer(&ring)
        });
        let mut cursor = cursor(&ring);
        let mut expected = expected.iter();
        while let Some(found) = cursor.next(&ring) {
            assert!(Some(&found) == expected.next(), "torn event");
        }
        thread.join().expect("a writer that ends");
    });
}

models! {
    // The return makes a whole call of a pending entry.
    leaf {
        needs_toggle_release: ToggleRelease => "torn event",
        needs_load_acquire: LoadAcquire => "torn event",
    } {
        super::race(2, super::leaf, &[EventKind::Call]);
    }

    // The next writer completes a pending entry.
    nested {
        needs_load_acquire: LoadAcquire => "torn event",
    } {
        super::race(1, super::nested, &[EventKind::Entry]);
    }

    // A return of its own.
    returning {
        needs_load_acquire: LoadAcquire => "torn event",
        needs_store_release: StoreRelease => "torn event",
    } {
        super::race(2, super::returning, &[EventKind::Return]);
    }
}
