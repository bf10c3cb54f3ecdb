// SPDX-License-Identifier: GPL-2.0

//! The words that chains are kept in, until the root has returned.

use proptest::prelude::*;

use crate::engine::context::{Level, HARDIRQ, NMI, SOFTIRQ};
use crate::engine::errno::ResultKind;
use crate::engine::errno_chain::{
    pack_duration, unpack_duration, CallInfo, ErrnoLinks, LastCallee, Link, LinkReference,
};
use crate::platform::memory::with_allocations;

fn link(start: u64) -> Link {
    Link {
        start,
        end: start + 10,
        slept: start + 1,
        info: CallInfo(start + 2),
        place: start + 3,
        last: LastCallee {
            packed: start + 4,
            result: start + 5,
            failed: LinkReference(start + 6),
        },
    }
}

/// Each level of each CPU has its own links, and the oldest go first.
#[test]
fn links_of_levels() {
    let levels = [Level::Task, Level::Softirq, Level::Hardirq, Level::Nmi];
    let links = ErrnoLinks::new(2).unwrap();
    assert_eq!(links.bytes(), 2 * ErrnoLinks::new(1).unwrap().bytes());
    let mut kept = Vec::new();
    for round in 0..100 {
        for cpu in 0..2 {
            for level in levels {
                let start = kept.len() as u64 * 100 + round;
                let reference = links.keep(cpu, level, 22, &link(start));
                kept.push((reference, link(start)));
            }
        }
    }
    for (reference, link) in &kept {
        assert_eq!(reference.errno(), 22);
        assert_eq!(links.find(*reference), Some(*link));
    }
    // A lap of one level of one CPU, and a half.
    for round in 0..128 + 64 {
        links.keep(1, Level::Nmi, 5, &link(round));
    }
    for (index, (reference, link)) in kept.iter().enumerate() {
        let is_replaced = index % 8 == 7;
        assert_eq!(
            links.find(*reference),
            Some(*link).filter(|_| !is_replaced),
            "{index}"
        );
    }
    assert_eq!(links.find(LinkReference::default()), None);
    assert_eq!(links.find(LinkReference::without_link(22)), None);
    assert_eq!(links.find(LinkReference(u64::MAX)), None);
    // Of a CPU that it was not made for.
    let none = links.keep(2, Level::Task, 22, &link(1));
    assert_eq!(none, LinkReference::without_link(22));
    assert_eq!(links.cut(), 0);
    links.count_cut(0);
    links.count_cut(1);
    links.count_cut(2);
    assert_eq!(links.cut(), 2);
}

#[test]
fn no_memory() {
    assert!(with_allocations(0, || ErrnoLinks::new(1)).is_err());
    assert!(with_allocations(1, || ErrnoLinks::new(1)).is_ok());
}

/// A frame's word keeps what the entry put there when callees end.
#[test]
fn information_of_a_call() {
    for (context, level) in [
        (0, Level::Task),
        (SOFTIRQ, Level::Softirq),
        (HARDIRQ | SOFTIRQ, Level::Hardirq),
        (NMI | HARDIRQ, Level::Nmi),
    ] {
        let info = CallInfo::new(300, context | 0xffff_0000, ResultKind::Long, 511);
        let info = info.with_end(u64::MAX).with_end(1000);
        assert_eq!(info.depth(), 0xff);
        assert_eq!(info.context(), context);
        assert_eq!(info.level(), level);
        assert_eq!(info.kind(), ResultKind::Long);
        assert_eq!(info.distance(), 511);
    }
    // More than there is room for: no caller.
    assert_eq!(CallInfo::new(0, 0, ResultKind::Int, 512).distance(), 0);
}

/// A callee's error is told from another result, and from another error.
#[test]
fn last_callees() {
    let none = LastCallee::default();
    assert!(!none.is_any() && !none.has_failed() && none.link(2).is_none());
    let links = ErrnoLinks::new(1).unwrap();
    let reference = links.keep(0, Level::Task, 2, &link(1));
    assert!(reference.has_link() && !LinkReference::without_link(2).has_link());
    let ip = 0xffff_ffff_8123_4560;
    let failed = LastCallee {
        packed: ip & 0xffff_ffff,
        result: 7,
        failed: reference,
    };
    assert!(failed.has_failed());
    assert_eq!((failed.ip(), failed.value()), (ip, -2_i64 as u64));
    assert_eq!((failed.link(2), failed.link(22)), (Some(reference), None));
    let later = LastCallee {
        packed: failed.packed & 0x7fff_ffff,
        ..failed
    };
    assert!(later.is_any() && !later.has_failed());
    assert_eq!((later.ip(), later.value()), (ip, 7));
    assert_eq!(later.link(2), Some(reference));
}

proptest! {
    /// Durations are exact below 2^31 ticks, and to within 4096 below 2^43.
    #[test]
    fn durations(ticks: u64, shift in 0..64) {
        let ticks = ticks >> shift;
        let unpacked = unpack_duration(pack_duration(ticks));
        match ticks {
            0..0x8000_0000 => prop_assert_eq!(unpacked, ticks),
            0x8000_0000..0x800_0000_0000 => {
                prop_assert!(unpacked <= ticks && ticks - unpacked < 4096);
            }
            _ => prop_assert_eq!(unpacked, 0x7ff_ffff_f000),
        }
    }

    /// A callee is shown within its caller, and ended when it did, to within 256 ticks.
    #[test]
    fn times(start in 0..u64::MAX / 2, began in 0..1_u64 << 35, took in 0..1_u64 << 30, rest in 0..1_u64 << 20) {
        let (callee_start, callee_end) = (start + began, start + began + took);
        let end = callee_end + rest;
        let info = CallInfo::default().with_end(callee_end - start);
        let last = LastCallee {
            packed: 0x0123_4560 | (u64::from(pack_duration(took)) << 32),
            ..LastCallee::default()
        };
        let (from, until) = last.times(info, start, end);
        prop_assert!(start <= from && from <= until && until <= end);
        prop_assert!(until.abs_diff(callee_end) <= 256);
        prop_assert!(from.abs_diff(callee_start) <= 256);
        // Beyond what there is room for, it ended with its caller.
        let info = CallInfo::default().with_end(1 << 37);
        prop_assert_eq!(last.times(info, start, start + (1 << 38)).1, start + (1 << 38));
    }
}
