// SPDX-License-Identifier: GPL-2.0

//! Waits of calls: words, slots, and their text.

use proptest::prelude::*;

use crate::engine::slot::{SlotKind, SlotWords, Task};
use crate::engine::text::Text;
use crate::engine::waiting::{self, Wait, Waited, WakeContext, Waker, WakerNames};

const CONTEXTS: [WakeContext; 4] = [
    WakeContext::Task,
    WakeContext::Softirq,
    WakeContext::Hardirq,
    WakeContext::Nmi,
];

pub(super) fn waker() -> impl Strategy<Value = Waker> {
    let some = (0u32..1 << 22, 0..4usize);
    some.prop_map(|(pid, context)| Waker::new(pid, CONTEXTS[context]))
}

fn said(slept: Option<u64>, wait: Wait, names: &WakerNames) -> String {
    let mut text = Text::new();
    waiting::write(&mut text, slept, wait, names).unwrap();
    String::from_utf8(text.as_bytes().to_vec()).unwrap()
}

proptest! {
    /// A word keeps the time in run queues, up to a bound, and the waker.
    #[test]
    fn words(queued: u64, waker in waker()) {
        let wait = Wait::new(queued, waker);
        prop_assert_eq!(wait.queued(), queued.min((1 << 40) - 1));
        prop_assert_eq!(wait.waker(), waker);
    }

    /// Times add up, and the last waker that is known counts.
    #[test]
    fn sums(
        first in 0u64..1 << 41,
        second in 0u64..1 << 41,
        wakers in (waker(), waker()),
        is_known: bool,
    ) {
        let later = if is_known { wakers.1 } else { Waker::default() };
        let sum = Wait::new(first, wakers.0).and(Wait::new(second, later));
        let most = (1 << 40) - 1;
        prop_assert_eq!(sum.queued(), (first.min(most) + second.min(most)).min(most));
        let last = if later.is_known() { later } else { wakers.0 };
        prop_assert_eq!(sum.waker(), last);
    }

    /// A slot keeps all of it, up to 2^48 ticks.
    #[test]
    fn slots(slept: u64, queued: u64, waker in waker()) {
        let wait = Wait::new(queued, waker);
        let words = SlotWords::waited_slot(Waited { slept, wait });
        prop_assert_eq!(words.kind(), Some(SlotKind::Waited));
        let slept = slept.min((1 << 48) - 1);
        prop_assert_eq!(words.waited(), Waited { slept, wait });
    }
}

#[test]
fn texts() {
    let mut names = WakerNames::new();
    let by = |pid, context| Wait::new(1_234, Waker::new(pid, context));
    let text = said(Some(100_034), by(77, WakeContext::Task), &names);
    assert_eq!(text, " asleep 98.800 us, queued 1.234 us, woken by 77");
    let task = Task {
        ids: 77,
        comm: [u64::from_le_bytes(*b"dd\0\0\0\0\0\0"), 0],
    };
    names.note(&task).unwrap();
    let text = said(Some(100_034), by(77, WakeContext::Task), &names);
    assert_eq!(text, " asleep 98.800 us, queued 1.234 us, woken by dd-77");
    let text = said(Some(0), by(77 + 1024, WakeContext::Task), &names);
    assert_eq!(text, " asleep 0.000 us, queued 1.234 us, woken by 1101");
    let text = said(None, by(77, WakeContext::Hardirq), &names);
    assert_eq!(text, " queued 1.234 us, woken by [hardirq]");
    let text = said(None, by(77, WakeContext::Softirq), &names);
    assert_eq!(text, " queued 1.234 us, woken by [softirq]");
    let text = said(Some(5_000), Wait::new(5_000, Waker::default()), &names);
    assert_eq!(text, " asleep 0.000 us, queued 5.000 us");
}
