// SPDX-License-Identifier: GPL-2.0

use proptest::prelude::*;

use crate::engine::decode::{DecodedGroup, Decoder};
use crate::engine::slot::{
    ip_mask, is_text_address, Container, SlotKind, SlotWords, Task, ENTRY, PARITY,
};
use crate::support::task;

const PARITIES: [u64; 2] = [0, PARITY];

proptest! {
    #[test]
    fn entries(ip: u32, parent: u32, context: u32, time: u64, odd: usize) {
        let parity = PARITIES[odd % 2];
        let text = |low: u32| 0xffff_ffff_8000_0000 | u64::from(low);
        let words = SlotWords::entry(text(ip), text(parent), context, time).with_parity(parity);
        prop_assert_eq!(words.kind(), Some(SlotKind::Function));
        prop_assert_eq!((words.ip(), words.parent_ip()), (text(ip), text(parent)));
        prop_assert_eq!((words.high0(), words.high1()), (time as u32, context));
        prop_assert!(words.is_complete(parity) && !words.is_complete(parity ^ PARITY));
        // As the fast path makes them.
        prop_assert_eq!(words.0, SlotWords::first_of_entry(text(ip), ip_mask(parity), time));
        prop_assert_eq!(words.1, u64::from(text(parent) as u32) | (u64::from(context) << 32));
    }

    #[test]
    fn other_kinds(time: u64, address: u64, odd: usize) {
        let parity = PARITIES[odd % 2];
        for (words, kind) in [
            (SlotWords::PAD, SlotKind::Pad),
            (SlotWords::time_slot(time), SlotKind::Time),
            (SlotWords::wide_slot(address), SlotKind::Wide),
        ] {
            let words = words.with_parity(parity);
            prop_assert_eq!(words.kind(), Some(kind));
            prop_assert!(words.is_complete(parity) && !words.is_complete(parity ^ PARITY));
        }
        prop_assert_eq!(SlotWords::wide_slot(address).with_parity(parity).wide(), address);
    }

    #[test]
    fn tasks(pid in 0..1u64 << 24, tgid in 0..1u64 << 24, comm: [u64; 2], odd: usize) {
        let task = Task { ids: pid | (tgid << 32), comm };
        let mut decoder = Decoder::default();
        for words in SlotWords::task_slots(&task) {
            prop_assert!(decoder.decode(words.with_parity(PARITIES[odd % 2]), &mut DecodedGroup::default()).is_none());
        }
        prop_assert_eq!(decoder.task, task);
    }

    #[test]
    fn containers(cgroup: u64, pid in 0..1u32 << 24, tgid in 0..1u32 << 24, odd: usize) {
        let container = Container::new(cgroup, pid, tgid);
        prop_assert_eq!((container.pid(), container.tgid()), (pid, tgid));
        let words = SlotWords::container_slot(container).with_parity(PARITIES[odd % 2]);
        prop_assert!(words.kind() == Some(SlotKind::Container) && !words.is_event());
        let mut decoder = Decoder::default();
        prop_assert!(decoder.decode(words, &mut DecodedGroup::default()).is_none());
        prop_assert_eq!(decoder.container, Some(container));
        // It is that of the task before.
        for words in SlotWords::task_slots(&Task::default()) {
            decoder.decode(words, &mut DecodedGroup::default());
        }
        prop_assert_eq!(decoder.container, None);
    }

    /// Decoding survives any contents of the memory.
    #[test]
    fn any_words(first: u64, second: u64) {
        let words = SlotWords(first, second);
        prop_assert_eq!(words.kind() == Some(SlotKind::Function), second & ENTRY != 0);
        prop_assert!(is_text_address(words.ip()) && is_text_address(words.parent_ip()));
        Decoder::default().decode(words, &mut DecodedGroup::default());
    }
}

#[test]
fn layout() {
    let entry = SlotWords::entry(
        0xffff_ffff_8123_4567,
        0xffff_ffff_ffff_fff1,
        0x89ab_cdef,
        0x7_0000_0005,
    );
    assert_eq!(
        entry.with_parity(0),
        SlotWords(0x0000_0005_0123_4567, 0x89ab_cdef_ffff_fff1)
    );
    assert_eq!(entry.with_parity(PARITY).0, 0x0000_0005_8123_4567);
    assert_eq!(
        SlotWords::time_slot(0x7_0000_0005),
        SlotWords(0x0000_0005_0000_0000, 0x0000_0007_0200_0000)
    );
    assert_eq!(
        SlotWords::wide_slot(0x7fff_1234_5678),
        SlotWords(0x1234_5678_0000_0000, 0x0000_7fff_0500_0000)
    );
    let container = Container::new(0x0102_0304_0506_0708, 0x33, 0x44);
    assert_eq!(
        SlotWords::container_slot(container),
        SlotWords(0x0506_0708_0000_0033, 0x0102_0304_0d00_0044)
    );
    assert_eq!(
        SlotWords::task_slots(&task(0x11, 0x22, "abcdefghijklmno")),
        [
            SlotWords(0x6867_6665_0000_0011, 0x6463_6261_0300_0022),
            SlotWords(0x6c6b_6a69_0000_0000, 0x006f_6e6d_0400_0000),
        ]
    );
}

#[test]
fn unknown_kinds() {
    for bits in [0, 63, 0x4f, 127] {
        assert_eq!(SlotWords(0, bits << 24).kind(), None);
    }
}

#[test]
fn text_addresses() {
    for (address, is_text) in [
        (0xffff_ffff_8000_0000, true),
        (0xffff_ffff_ffff_ffff, true),
        (0xffff_ffff_7fff_ffff, false),
        (0xffff_8880_0000_0000, false),
        (0x0000_7fff_0000_1000, false),
        (0x8000_0000, false),
        (0, false),
    ] {
        assert_eq!(is_text_address(address), is_text, "{address:#x}");
    }
}

#[test]
fn task_ids() {
    let task = task(4_194_304, u32::MAX, "sh");
    assert_eq!((task.pid(), (task.ids >> 32) as i32), (4_194_304, -1));
}

#[test]
fn task_names() {
    for name in [
        "",
        "sh",
        "seven..",
        "eight...",
        "nine.....",
        "fifteen bytes..",
        "sixteen bytes...",
    ] {
        assert_eq!(task(1, 1, name).name(&mut [b'x'; 16]), name.as_bytes());
    }
}
