// SPDX-License-Identifier: GPL-2.0

//! Models of a CPU that remembers the task that is left out, while that task is put into the list.

use loom::sync::Arc;
use loom::thread;

use crate::engine::outsider::Outsider;
use crate::platform::{fence_full, weaken, Part, Word};

const PID: u32 = 5;

/// Tries all orders of a hook that finds the task left out, maybe, and of an edit that puts it into
/// the list and then runs `forget`.
fn model(forget: impl Fn(&Outsider) + Copy + Sync + Send + 'static) {
    super::builder(3).check(move || {
        let all = Arc::new((Word::new(0), Outsider::new()));
        let hook = thread::spawn({
            let all = all.clone();
            move || {
                let (list, outsider) = &*all;
                outsider.remember(PID, || list.load_relaxed() == 0);
            }
        });
        let (list, outsider) = &*all;
        list.set_bits(1);
        fence_full();
        forget(outsider);
        hook.join().expect("a hook that ends");
        assert!(!outsider.is(PID), "remembered too long");
    });
}

models! {
    // All tasks are forgotten.
    edited {
        needs_fence_full: FenceFull => "remembered too long",
    } {
        super::model(Outsider::forget);
    }

    // Only that one is.
    forked {
        needs_fence_full: FenceFull => "remembered too long",
    } {
        super::model(|outsider| outsider.forget_task(PID));
    }
}
