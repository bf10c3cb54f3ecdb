// SPDX-License-Identifier: GPL-2.0

use proptest::prelude::*;

use crate::engine::slot::{is_text_address, text_address, Kind, Words, PARITY, TIME_BITS};
use crate::support::task;

const KINDS: [Kind; 6] = [
    Kind::Function,
    Kind::Pad,
    Kind::Time,
    Kind::Task,
    Kind::TaskName,
    Kind::Wide,
];

proptest! {
    #[test]
    fn fields_keep_apart(kind in 0..6usize, parity: bool, time: u64, low: u32, second: u64) {
        let kind = KINDS[kind];
        let parity = if parity { PARITY } else { 0 };
        let words = Words::pack(kind, parity, time, low, second);
        prop_assert_eq!(words.kind(), Some(kind));
        prop_assert_eq!(words.low(), low);
        prop_assert_eq!(words.time(), time & ((1 << TIME_BITS) - 1));
        prop_assert_eq!(words.1, second);
        prop_assert!(words.is_complete(parity));
        prop_assert!(!words.is_complete(parity ^ PARITY));
    }

    #[test]
    fn low_halves_of_text_addresses(low: u32) {
        let address = text_address(low);
        prop_assert_eq!(address as u32, low);
        prop_assert!(is_text_address(address));
    }
}

#[test]
fn layout() {
    let words = Words::pack(Kind::Wide, u64::MAX, u64::MAX, 0x8123_4567, 42);
    assert_eq!(words, Words(0xdfff_ffff_8123_4567, 42));
    assert_eq!(
        Words::pack(Kind::Function, 0, 1, 2, 3),
        Words(0x1_0000_0002, 3)
    );
}

#[test]
fn unknown_kinds() {
    for bits in [6, 7] {
        assert_eq!(Words(bits << 60, 0).kind(), None);
        assert_eq!(Words((bits << 60) | PARITY, 0).kind(), None);
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
        // Not the kernel's, but 32 bits are enough.
        (0x7fff_ffff, true),
        (0, true),
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

#[test]
fn task_slots() {
    let task = task(0x1234_5678, 0x9abc_def0, "abcdefghijklmnop");
    let [first, second] = Words::pack_task(PARITY, 5, &task);
    assert_eq!(
        (first.kind(), second.kind()),
        (Some(Kind::Task), Some(Kind::TaskName))
    );
    assert_eq!((first.low(), first.1 as u32), (0x1234_5678, 0x9abc_def0));
    let bytes = [
        &((first.1 >> 32) as u32).to_le_bytes()[..],
        &second.low().to_le_bytes(),
        &second.1.to_le_bytes(),
    ];
    assert_eq!(bytes.concat(), b"abcdefghijklmnop");
    for words in [first, second] {
        assert!(words.is_complete(PARITY));
        assert_eq!(words.time(), 5);
    }
}
