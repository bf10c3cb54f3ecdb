// SPDX-License-Identifier: GPL-2.0

//! The raw format: checks that its page has all that is needed to decode it.

use crate::raw_decoder::{decode, Error, RawEvent, Record};

/// Returns the bytes of the page's example.
fn example() -> Vec<u8> {
    let page = include_str!("../../../../docs/raw-format.md");
    let (_, example) = page.split_once("## An example").expect("an example");
    let rows = example.lines().filter_map(|line| line.strip_prefix("    "));
    let bytes = rows.flat_map(|row| row.split_whitespace().take(16));
    bytes
        .map(|byte| u8::from_str_radix(byte, 16).expect("two digits"))
        .collect()
}

#[test]
fn example_of_the_page() {
    let mut comm = [0; 16];
    comm[..5].copy_from_slice(b"mount");
    let event = RawEvent {
        time: 30_064_894_528,
        ip: 0xffff_ffff_8123_4567,
        parent_ip: 0xffff_ffff_9abc_def1,
        context: 0x1235_0200,
        pid: 121,
        tgid: 121,
        comm,
        ..RawEvent::default()
    };
    let record = Record {
        cpu: 0,
        first_event: 0,
        lost: 0,
        is_ns: true,
        events: vec![event],
    };
    assert_eq!(decode(&example()), Ok(vec![record]));
}

#[test]
fn no_records() {
    let with = |at: usize, value: u8| {
        let mut bytes = example();
        bytes[at] = value;
        decode(&bytes)
    };
    assert_eq!(decode(&[]), Ok(vec![]));
    assert_eq!(decode(b"RFT"), Err(Error::Truncated));
    assert_eq!(decode(&example()[..159]), Err(Error::Truncated));
    assert_eq!(with(0, b'r'), Err(Error::NoRecord));
    assert_eq!(with(4, 1), Err(Error::OtherVersion));
    assert_eq!(with(6, 95), Err(Error::NoRecord));
    assert_eq!(with(40, 2), Err(Error::WrongCount));
    assert_eq!(with(15, 1), Err(Error::Truncated));
}
