// SPDX-License-Identifier: GPL-2.0

//! Models of a writer, and a consumer, or a task that clears the buffer or replaces it.

use loom::sync::{Arc, RwLock};
use loom::thread;

use super::{event, try_write, write, IN_SUBBUF};
use crate::engine::account::{Account, Counts};
use crate::engine::consumer::Consumer;
use crate::engine::decode::Event;
use crate::engine::ring::{Ring, WriteOutcome};
use crate::engine::slot::SlotWords;
use crate::platform::{weaken, weakened, Part};
use crate::support::{copy_space, ring as new_ring, Heap};

/// A consumer, and the events that it was given.
struct Reader {
    consumer: Consumer<Vec<SlotWords>>,
    /// Index of the next event.
    next: u64,
    taken: u64,
    lost: u64,
}

impl Reader {
    fn new(ring: &Ring<Heap>) -> Self {
        Self {
            consumer: Consumer::new(copy_space(ring)),
            next: 0,
            taken: 0,
            lost: 0,
        }
    }

    fn take_all(&mut self, ring: &Ring<Heap>) {
        self.take(ring, u64::MAX);
    }

    /// Takes the events that there are, and no more than `most`. Every event must be whole, and the
    /// one of its index.
    fn take(&mut self, ring: &Ring<Heap>, most: u64) {
        for _ in 0..most {
            let Some((index, found)) = self.consumer.peek(ring) else {
                return;
            };
            assert!(index == self.next + found.lost, "another event");
            assert!(Event { lost: 0, ..found } == event(index), "torn event");
            assert!(self.consumer.take(index));
            self.next = index + 1;
            self.taken += 1;
            self.lost += found.lost;
        }
    }

    /// Checks that all counts are true, at rest, of a ring that `written` events were written to.
    fn check(&mut self, ring: &Ring<Heap>, written: u64) {
        let extent = ring.extent();
        assert_eq!(extent.end_event, written);
        let present = self.consumer.present(&extent);
        assert_eq!(self.consumer.read(), self.taken);
        self.take_all(ring);
        // Events that were cleared were neither taken nor lost.
        assert_eq!(self.consumer.read(), self.taken);
        assert_eq!(self.next, written);
        assert!(self.taken >= present);
    }
}

/// Tries all orders of a thread that runs `writer` and one that runs `reader`, with a ring of two
/// sub-buffers that holds `earlier` events; then `after` checks the result. Of a thread that is
/// stopped once the other sees any of the latest values of each word, in all orders that are
/// allowed.
fn race<W: Send + 'static>(
    preemptions: usize,
    discard: bool,
    earlier: u64,
    writer: impl Fn(&Ring<Heap>) -> W + Copy + Sync + Send + 'static,
    reader: impl Fn(&Ring<Heap>, &mut Reader) + Copy + Sync + Send + 'static,
    after: impl Fn(&Ring<Heap>, &mut Reader, W) + Copy + Sync + Send + 'static,
) {
    super::builder(preemptions).check(move || {
        let ring = Arc::new(new_ring(2, 8));
        ring.set_discard(discard);
        (0..earlier).for_each(|index| write(&ring, index));
        let mut state = Reader::new(&ring);
        let thread = thread::spawn({
            let ring = ring.clone();
            move || writer(&ring)
        });
        reader(&ring, &mut state);
        let written = thread.join().expect("a writer that ends");
        after(&ring, &mut state, written);
    });
}

/// Number of events in both sub-buffers.
const ALL: u64 = 2 * IN_SUBBUF;

/// Tries to write so many events, and returns how many it wrote.
fn attempts(ring: &Ring<Heap>, count: u64) -> u64 {
    (0..count).fold(0, |written, _| {
        written + u64::from(try_write(ring, ALL + written) == WriteOutcome::Written)
    })
}

models! {
    // A consumer reads what is being overwritten.
    overwrite {
        needs_fence_release: FenceRelease => "torn event",
        needs_fence_acquire: FenceAcquire => "torn event",
    } {
        super::race(
            2,
            false,
            ALL,
            |ring| write(ring, ALL),
            // The sub-buffer that is being overwritten is all that it copies.
            |ring, reader| reader.take(ring, 1),
            |ring, reader, ()| {
                reader.check(ring, ALL + 1);
                assert_eq!(reader.taken + reader.lost, ALL + 1);
                assert!(reader.lost == 0 || reader.lost == IN_SUBBUF, "{} lost", reader.lost);
            },
        );
    }

    // The first events of a ring, from when it is empty.
    beginning {
        needs_store_release: StoreRelease => "torn event",
        needs_load_acquire: LoadAcquire => "torn event",
    } {
        super::race(
            1,
            false,
            0,
            |ring| (0..2).for_each(|index| write(ring, index)),
            |ring, reader| reader.take_all(ring),
            |ring, reader, ()| {
                reader.check(ring, 2);
                assert_eq!((reader.taken, reader.lost), (2, 0));
            },
        );
    }

    // In discard mode a full ring waits for the consumer, and loses none of what it holds.
    discard {
        needs_store_release: StoreRelease => "another event",
        needs_load_acquire: LoadAcquire => "torn event",
    } {
        super::race(
            1,
            true,
            ALL,
            |ring| attempts(ring, 1),
            |ring, reader| reader.take_all(ring),
            |ring, reader, written| {
                assert_eq!(ring.dropped(), 1 - written);
                reader.check(ring, ALL + written);
                assert_eq!((reader.taken, reader.lost), (ALL + written, 0));
            },
        );
    }

    // The buffer is cleared while it is written: events that were written after that are there, and
    // only those.
    clear {
        needs_store_release: StoreRelease => "of two moments",
        needs_load_acquire: LoadAcquire => "of two moments",
    } {
        super::race(
            2,
            false,
            ALL,
            |ring| write(ring, ALL),
            |ring, reader| {
                let extent = ring.extent();
                assert!((ALL..=ALL + 1).contains(&extent.end_event), "{extent:?} is of two moments");
                reader.consumer.clear(ring, extent.end_event, extent.newest);
                reader.next = extent.end_event;
            },
            |ring, reader, ()| {
                let present = ALL + 1 - reader.next;
                assert_eq!(reader.consumer.present(&ring.extent()), present);
                reader.check(ring, ALL + 1);
                assert_eq!((reader.taken, reader.lost), (present, 0));
            },
        );
    }

    // A ring is replaced while it is written. Its counts after a grace period are final.
    resize {
        needs_grace_period: GracePeriod => "an event that nobody counts",
    } {
        super::super::builder(2).check(|| {
            let rings = Arc::new([new_ring(2, 8), new_ring(2, 8)]);
            // The hook finds its ring, and writes to it, with preemption off: so long, no grace
            // period ends.
            let current = Arc::new(RwLock::new(()));
            let place = Arc::new(crate::platform::Word::new(0));
            write(&rings[0], 0);
            let hook = thread::spawn({
                let (rings, current, place) = (rings.clone(), current.clone(), place.clone());
                move || {
                    for index in [1, 2] {
                        let _section = current.read().expect("no panic");
                        write(&rings[place.load_relaxed() as usize], index);
                    }
                }
            });
            let count = |ring: &Ring<Heap>| Counts {
                written: ring.extent().end_event,
                ..Counts::default()
            };
            let mut account = Account::default();
            place.store_relaxed(1);
            let end = count(&rings[0]);
            account.replace(end);
            if !weakened(Part::GracePeriod) {
                drop(current.write().expect("no panic"));
            }
            account.add_late(end, count(&rings[0]));
            hook.join().expect("a hook that ends");
            let written = account.counts(count(&rings[1])).written;
            assert!(written == 3, "an event that nobody counts");
        });
    }
}
