// SPDX-License-Identifier: GPL-2.0

use proptest::prelude::*;

use crate::engine::context::{
    is_deeper, ContextWord, Level, HARDIRQ, IRQS_ON, NMI, SOFTIRQ, STACK_BITS, STACK_SHIFT,
};

#[test]
fn levels() {
    for (bits, level) in [
        (0, Level::Task),
        (IRQS_ON, Level::Task),
        (SOFTIRQ, Level::Softirq),
        (HARDIRQ, Level::Hardirq),
        (HARDIRQ | SOFTIRQ, Level::Hardirq),
        (NMI, Level::Nmi),
        (NMI | HARDIRQ | SOFTIRQ, Level::Nmi),
    ] {
        assert_eq!(ContextWord(bits).level(), level, "{bits:#x}");
    }
}

#[test]
fn depths() {
    let context = ContextWord(0xa7 | IRQS_ON);
    assert_eq!((context.preempt_depth(), context.migrate_depth()), (7, 10));
    assert!(context.has(IRQS_ON | NMI) && !context.has(HARDIRQ));
}

#[test]
fn stack_field() {
    assert_eq!(
        ContextWord::place(0xffff_c900_0001_fff8, 0),
        0x1fff << STACK_SHIFT
    );
    assert_eq!(ContextWord::place(0xffff_c900_0002_0000, 8), 0);
    assert_eq!(
        ContextWord(ContextWord::place(0x18, 0xd) | 0xffff).stack_offset(),
        3
    );
}

#[test]
fn deeper() {
    assert!(is_deeper(1, 2) && !is_deeper(2, 1));
    assert!(!is_deeper(5, 5));
    // A stack across the window's end.
    let last = (1 << STACK_BITS) - 1;
    assert!(is_deeper(last, 0) && !is_deeper(0, last));
    assert!(is_deeper(last - 10, 10));
    // Half a window is the end of it.
    let half = 1 << (STACK_BITS - 1);
    assert!(is_deeper(0, half - 1) && !is_deeper(0, half));
}

#[test]
fn entry_tag() {
    let context = ContextWord(ContextWord::place(0x18, 0xfffd) | 0xffff);
    assert_eq!((context.stack_offset(), context.entry_tag()), (3, 5));
}

proptest! {
    /// Order holds wherever a stack of at most 32 KiB lies.
    #[test]
    fn order_on_a_stack(base: u32, a in 0..4096u64, b in 0..4096u64) {
        let offset = |place: u64| {
            ContextWord(ContextWord::place(u64::from(base) * 8 + place * 8, base)).stack_offset()
        };
        prop_assert_eq!(is_deeper(offset(a), offset(b)), a < b);
    }
}
