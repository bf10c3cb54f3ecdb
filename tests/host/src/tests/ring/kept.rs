// SPDX-License-Identifier: GPL-2.0

//! Copies of the contents of rings, in less memory.

use crate::engine::consumer::Consumer;
use crate::engine::decode::Event;
use crate::engine::reader::Cursor;
use crate::engine::ring::Ring;
use crate::support::{copy_space, task, Heap};
use crate::tests::cpu::Cpu;
use crate::tests::some_under_miri;

const SLOTS: usize = 8;

fn events(ring: &Ring<Heap>, from: u64) -> Vec<Event> {
    let mut cursor = Cursor::new(ring, copy_space(ring), from);
    std::iter::from_fn(|| cursor.next(ring))
        .map(|event| Event { lost: 0, ..event })
        .collect()
}

fn kept(ring: &Ring<Heap>, subbufs: usize) -> Option<Ring<Heap>> {
    Ring::kept(Heap::zeroed(subbufs * SLOTS), ring)
}

/// Returns a CPU that has written so many events, some of which need more slots than one.
fn written(subbufs: usize, count: u32) -> Cpu {
    let cpu = Cpu::new(subbufs, SLOTS, 1);
    for number in 0..count {
        if number % 7 == 3 {
            cpu.task.set(task(number, 2, "other"));
        }
        cpu.write(number % 5 == 0);
    }
    cpu
}

#[test]
fn nothing_is_not_kept() {
    assert!(kept(&Cpu::new(3, SLOTS, 1).ring, 2).is_none());
}

#[test]
fn the_newest_that_there_is_room_for() {
    for subbufs in 2..=5 {
        for count in some_under_miri(1..=90, 17) {
            let cpu = written(subbufs, count);
            let before = events(&cpu.ring, 0);
            let extent = cpu.ring.extent();
            for room in 2..=6 {
                let kept = kept(&cpu.ring, room).expect("a ring");
                let after = events(&kept, 0);
                assert!(before.ends_with(&after), "{subbufs} {count} {room}");
                // As many sub-buffers as fit, and of each all events.
                let there = (extent.newest - extent.oldest + 1).min(room as u64);
                let copy = kept.extent();
                assert_eq!((copy.oldest, copy.newest), (1, there));
                assert_eq!(copy.end_event, extent.end_event);
                assert_eq!(copy.end_event - copy.first_event, after.len() as u64);
                let is_all = there == extent.newest - extent.oldest + 1;
                assert_eq!(after.len() == before.len(), is_all);
            }
        }
    }
}

/// Events that were taken before are not taken again, and those that do not fit count as lost.
#[test]
fn a_consumer_goes_on() {
    for taken in 0..40 {
        let cpu = written(5, 40);
        let all = events(&cpu.ring, 0);
        let first_event = cpu.ring.extent().first_event;
        let mut consumer = Consumer::new(copy_space(&cpu.ring));
        for _ in 0..taken {
            let next = consumer.peek(&cpu.ring);
            assert!(next.is_none_or(|(index, _)| consumer.take(index)));
        }
        let position = consumer.position().max(first_event);
        for room in 2..=5 {
            let kept = kept(&cpu.ring, room).expect("a ring");
            let mut next = Consumer::new(copy_space(&kept));
            next.clear(&kept, position, 1);
            let extent = kept.extent();
            let left = extent.end_event - position.max(extent.first_event);
            assert_eq!(next.present(&extent), left);
            let mut rest = vec![];
            while let Some((index, event)) = next.peek(&kept) {
                let is_first = rest.is_empty();
                let lost = extent.first_event.saturating_sub(position);
                assert_eq!(event.lost, if is_first { lost } else { 0 });
                assert!(next.take(index));
                rest.push(Event { lost: 0, ..event });
            }
            assert_eq!(rest.len() as u64, left);
            assert!(all.ends_with(&rest));
            assert_eq!(next.read(), left);
        }
    }
}

#[test]
fn sub_buffers_from_an_event_on() {
    let cpu = written(4, 30);
    let extent = cpu.ring.extent();
    assert_eq!(cpu.ring.subbufs_from(extent.end_event), 0);
    assert_eq!(cpu.ring.subbufs_from(extent.end_event - 1), 1);
    assert_eq!(cpu.ring.subbufs_from(0), extent.newest - extent.oldest + 1);
    assert_eq!(Cpu::new(2, SLOTS, 1).ring.subbufs_from(0), 0);
}
