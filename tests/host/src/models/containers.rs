// SPDX-License-Identifier: GPL-2.0

//! Models of a CPU that announces a task with its container, while another moves that task.

use loom::sync::Arc;
use loom::thread;

use crate::engine::reader::Cursor;
use crate::engine::ring::{EventContext, Ring};
use crate::engine::slot::{Container, SlotWords, Task};
use crate::platform::{weaken, Part, Word};
use crate::support::{call, copy_space, ring, task, Heap};

const PID: u32 = 5;

/// A task whose cgroup other CPUs may change.
#[derive(Clone, Copy)]
struct Moving<'a>(&'a Word, u64);

impl EventContext for Moving<'_> {
    fn now(&self) -> u64 {
        self.1
    }

    fn context(&self) -> u32 {
        0
    }

    fn task(&self) -> Task {
        task(PID, PID, "moved")
    }

    fn container(&self) -> Container {
        Container::new(self.0.load_relaxed(), PID, PID)
    }

    fn is_task(&self, word: impl Fn(usize) -> u64) -> bool {
        let task = self.task();
        word(0) == task.ids && word(1) == task.comm[0] && word(2) == task.comm[1]
    }
}

/// Writes an event, in the cold path if it is `wide`.
fn write(ring: &Ring<Heap>, cgroup: &Word, index: u64, wide: bool) {
    // SAFETY: Each ring here has one thread that writes at a time.
    let _ = unsafe { ring.write(call(index, wide).0, Moving(cgroup, index)) };
}

/// Tries all orders of a hook that writes an event of a task, behind some others, and of a move of
/// that task. An event that is written after both has the new container.
fn model(before: u64) {
    super::builder(3).check(move || {
        let all = Arc::new((ring(2, 16), Word::new(1)));
        all.0.set_containers(true);
        (0..before).for_each(|index| write(&all.0, &all.1, index, false));
        let hook = thread::spawn({
            let all = all.clone();
            move || write(&all.0, &all.1, before, true)
        });
        let (ring, cgroup) = &*all;
        cgroup.store_relaxed(2);
        ring.forget_container(PID);
        hook.join().expect("a hook that ends");
        write(ring, cgroup, before + 1, false);
        let mut cursor: Cursor<Vec<SlotWords>> = Cursor::new(ring, copy_space(ring), 0);
        let mut last = None;
        while let Some(event) = cursor.next(ring) {
            last = event.container;
        }
        let last = last.expect("a container");
        assert_eq!(last.cgroup, 2, "the old container");
    });
}

models! {
    // The hook announces the task.
    announced {
        needs_fence_full: FenceFull => "the old container",
    } {
        super::model(0);
    }
}

/// The ring knows the task already: the hook, which announces nothing, leaves what the move says.
#[test]
fn known() {
    model(1);
}
