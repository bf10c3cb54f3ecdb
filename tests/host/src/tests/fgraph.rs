// SPDX-License-Identifier: GPL-2.0

use proptest::prelude::*;

use crate::engine::fgraph::{
    adopt, avoid, call_at, compare, is_deepest, knows, lacking, pop_frame, OpenFrame, OwnCallFrame,
    Torn, Unknown, Unlike,
};
use crate::platform::Word;

/// `struct ftrace_ret_stack` of x86-64.
const FRAME: usize = 3;

/// A user of fgraph, and the words that it keeps of a call.
type Kept = (u64, Vec<u64>);

/// Pushes the words that kernel/trace/fgraph.c leaves of a call whose return the users of `wanted`
/// want.
fn push(stack: &mut Vec<u64>, wanted: u64, kept: &[Kept]) {
    stack.extend([0xffff_ffff_8100_0123; FRAME]);
    // See set_bitmap().
    stack.push(((wanted | 1) << 12) | (1 << 10) | FRAME as u64);
    for (number, words) in kept {
        let offset = stack.last().map_or(0, |last| last & 0x3ff);
        stack.extend(words);
        // See make_data_type_val().
        let length = words.len() as u64;
        stack.push((number << 17) | ((length - 1) << 12) | (2 << 10) | (offset + length + 1));
    }
}

fn words(values: &[u64]) -> Vec<Word> {
    values.iter().map(|value| Word::new(*value)).collect()
}

fn popped(stack: &[Word]) -> Result<Vec<OpenFrame>, Torn> {
    let mut rest = stack;
    let mut frames = Vec::new();
    while let Some(frame) = pop_frame(&mut rest, FRAME)? {
        frames.push(frame);
    }
    Ok(frames)
}

#[test]
fn nothing_is_open() {
    assert_eq!(lacking(&[], FRAME), Ok(0));
    assert!(!knows(&[], 0));
}

#[test]
fn number_0_is_told_of_all() {
    let mut stack = Vec::new();
    push(&mut stack, 1 << 5, &[(5, vec![1, 2])]);
    let stack = words(&stack);
    assert_eq!(lacking(&stack, FRAME), Ok(1 << 0));
}

#[test]
fn who_keeps_nothing_lacks() {
    let mut stack = Vec::new();
    push(&mut stack, 1 << 3, &[]);
    push(&mut stack, 1 << 5, &[(0, vec![0x403]), (5, vec![1, 2])]);
    let stack = words(&stack);
    assert_eq!(lacking(&stack, FRAME), Ok((1 << 0) | (1 << 3)));
}

#[test]
fn an_entry_that_is_not_done_wants_nothing() {
    let mut stack = vec![7; FRAME];
    stack.push(FRAME as u64);
    let frames = popped(&words(&stack)).expect("a frame");
    assert_eq!(frames, [OpenFrame::default()]);
}

#[test]
fn probes_are_known_by_their_headers() {
    let probe = 0xffff_8881_0000_1060;
    for size in 0..16 {
        let mut stack = Vec::new();
        let header = (probe & (u64::MAX >> 4)) | (size << 60);
        push(&mut stack, 1 << 5, &[(5, vec![header, 1])]);
        let stack = words(&stack);
        assert!(knows(&stack, probe));
        assert!(!knows(&stack, probe + 0x60));
    }
}

/// fgraph's list of free numbers, as `fgraph_lru_alloc_index()` and `fgraph_lru_release_index()`
/// have it.
struct Lru {
    table: [i32; 16],
    next: usize,
    last: usize,
    used: u64,
}

impl Lru {
    fn new() -> Self {
        Self {
            table: core::array::from_fn(|number| number as i32),
            next: 0,
            last: 0,
            used: 0,
        }
    }

    fn alloc(&mut self) -> Option<u32> {
        let number = u32::try_from(self.table[self.next]).ok()?;
        self.table[self.next] = -1;
        self.next = (self.next + 1) % 16;
        self.used |= 1 << number;
        Some(number)
    }

    fn release(&mut self, number: u32) {
        assert_eq!(self.table[self.last], -1);
        self.table[self.last] = number as i32;
        self.last = (self.last + 1) % 16;
        self.used &= !(1 << number);
    }

    fn avoid(&mut self, numbers: u64) -> Result<bool, Unknown> {
        avoid(&mut self.table, self.next, self.used, numbers)
    }
}

#[test]
fn a_list_that_is_not_fgraphs_stays() {
    let full: [i32; 16] = Lru::new().table;
    let cases = [
        // The state before any user has a number.
        ([0; 16], 0, 0),
        (full, 16, 0),
        (full, 0, 1),
        (full.map(|number| number + 1), 0, 0),
        (
            full.map(|number| if number == 3 { -1 } else { number }),
            0,
            1 << 3,
        ),
        (
            full.map(|number| if number == 3 { 4 } else { number }),
            0,
            1 << 3,
        ),
    ];
    for (table, next, used) in cases {
        let mut changed = table;
        assert_eq!(avoid(&mut changed, next, used, 1), Err(Unknown));
        assert_eq!(changed, table);
    }
}

fn any_call() -> impl Strategy<Value = (u64, Vec<Kept>)> {
    let kept = (0u64..16, prop::collection::vec(any::<u64>(), 1..=32));
    (0u64..1 << 16, prop::collection::vec(kept, 0..4))
}

proptest! {
    #[test]
    fn avoided_numbers_are_given_away_last(
        steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..60),
        avoided in 0u64..1 << 16,
    ) {
        let mut lru = Lru::new();
        let mut users = Vec::new();
        for (registers, who) in steps {
            if registers {
                users.extend(lru.alloc());
            } else if !users.is_empty() {
                let number = users.swap_remove(who.index(users.len()));
                lru.release(number);
            }
        }
        let mut before = Vec::new();
        let mut same = Lru { ..lru };
        while let Some(number) = same.alloc() {
            before.push(number);
        }
        let is_avoided = |number: &u32| (avoided >> number) & 1 != 0;
        let (bad, good): (Vec<u32>, Vec<u32>) = before.iter().partition(|number| is_avoided(number));
        prop_assert_eq!(lru.avoid(avoided), Ok(!good.is_empty()));
        for number in good.iter().chain(&bad) {
            prop_assert_eq!(lru.alloc(), Some(*number));
        }
        prop_assert_eq!(lru.alloc(), None);
        for number in users.into_iter().chain(before) {
            lru.release(number);
        }
        prop_assert_eq!(lru.used, 0);
    }

    #[test]
    fn frames_come_off_as_they_went_on(calls in prop::collection::vec(any_call(), 0..12)) {
        let mut stack = Vec::new();
        for (wanted, kept) in &calls {
            push(&mut stack, *wanted, kept);
        }
        let frames = popped(&words(&stack)).expect("all frames");
        prop_assert_eq!(frames.len(), calls.len());
        for ((wanted, kept), frame) in calls.iter().rev().zip(frames) {
            prop_assert_eq!(frame.wanted, wanted | 1);
            let kept = kept.iter().fold(0, |all, (number, _)| all | (1 << number));
            prop_assert_eq!(frame.kept, kept);
        }
    }

    #[test]
    fn anything_ends(stack in prop::collection::vec(any::<u64>(), 0..512)) {
        let _ = lacking(&words(&stack), FRAME);
    }

    #[test]
    fn words_that_look_right_end(stack in prop::collection::vec(0u64..1 << 21, 0..512)) {
        let _ = lacking(&words(&stack), FRAME);
    }
}

/// Returns the innermost of three calls, as fgraph has it at its entry or its return.
fn own(returns: bool) -> (Vec<u64>, OwnCallFrame) {
    const BASE: u64 = 0xffff_8880_0000_0000;
    let mut stack = Vec::new();
    push(&mut stack, 1 << 3, &[]);
    push(&mut stack, 1 << 5, &[(0, vec![0x403]), (5, vec![1, 2])]);
    let first = stack.len();
    let probe = 0xffff_8881_0000_1060_u64;
    let header = (probe & (u64::MAX >> 4)) | (2 << 60);
    push(&mut stack, 1 << 5, &[(5, vec![header, 8, 9])]);
    stack[first] = 0xffff_ffff_8100_0010;
    stack[first + 1] = 0xffff_ffff_8200_0020;
    if !returns {
        stack[first + FRAME] = FRAME as u64;
        stack[first + FRAME + 1] = 7;
    }
    let call = OwnCallFrame {
        ip: stack[first + 1],
        parent_ip: stack[first],
        depth: 2,
        probe,
        number: Some(5),
        data: (BASE + 8 * (first + FRAME + 2) as u64, 2),
        returns,
    };
    (stack, call)
}

fn compared(stack: &[u64], call: &OwnCallFrame) -> Result<(), Unlike> {
    compare(&words(stack), 0xffff_8880_0000_0000, FRAME, call)
}

#[test]
fn a_call_of_our_own_is_as_known() {
    for returns in [false, true] {
        let (stack, call) = own(returns);
        assert_eq!(compared(&stack, &call), Ok(()));
        let number = None;
        assert_eq!(compared(&stack, &OwnCallFrame { number, ..call }), Ok(()));
    }
}

#[test]
fn whatever_is_unlike_is_seen() {
    let unlike = Err(Unlike::Frame);
    for returns in [false, true] {
        let (stack, call) = own(returns);
        for change in [-8_i64, 1, 8] {
            let data = (call.data.0.wrapping_add_signed(change), 2);
            assert_eq!(compared(&stack, &OwnCallFrame { data, ..call }), unlike);
        }
        for data in [
            (0, 2),
            (u64::MAX - 7, 2),
            (call.data.0, 3),
            (call.data.0, usize::MAX),
        ] {
            assert_eq!(compared(&stack, &OwnCallFrame { data, ..call }), unlike);
        }
        let others = [
            OwnCallFrame {
                ip: call.ip + 4,
                ..call
            },
            OwnCallFrame {
                parent_ip: call.ip,
                ..call
            },
            OwnCallFrame { depth: 1, ..call },
            OwnCallFrame { depth: 3, ..call },
        ];
        for other in others {
            assert_eq!(compared(&stack, &other), unlike);
        }
        let number = Some(4);
        let result = compared(&stack, &OwnCallFrame { number, ..call });
        assert_eq!(result, Err(Unlike::Number));
        let returns = !returns;
        assert_eq!(compared(&stack, &OwnCallFrame { returns, ..call }), unlike);
        for length in 0..stack.len() {
            assert!(compared(&stack[..length], &call).is_err());
        }
        // With frames of another size.
        let result = compare(&words(&stack), 0xffff_8880_0000_0000, FRAME + 1, &call);
        assert_eq!(result, unlike);
    }
    let (stack, call) = own(true);
    let probe = call.probe + 0x60;
    assert_eq!(compared(&stack, &OwnCallFrame { probe, ..call }), unlike);
}

#[test]
fn calls_go_from_one_probe_to_another() {
    let (from, to) = (0xffff_8881_0000_1060, 0xffff_8881_0000_2060);
    let header = |probe: u64, size: u64| (probe & (u64::MAX >> 4)) | (size << 60);
    let word = Word::new(header(from, 3));
    assert!(!adopt(&word, from, to, 2));
    assert!(!adopt(&word, to, from, 3));
    assert_eq!(word.load_relaxed(), header(from, 3));
    assert!(adopt(&word, from, to, 3));
    assert_eq!(word.load_relaxed(), header(to, 3));
    assert!(knows(&[word], to));
}

#[test]
fn the_call_among_whose_words_one_is() {
    let mut stack = Vec::new();
    let mut firsts = Vec::new();
    for (call, kept) in [
        vec![(2, vec![1, 2, 3])],
        vec![],
        vec![(0, vec![4]), (5, vec![5; 9])],
    ]
    .iter()
    .enumerate()
    {
        let first = stack.len();
        firsts.push(first);
        push(&mut stack, 1 << 2, kept);
        stack[first] = 100 + call as u64;
        stack[first + 1] = 200 + call as u64;
    }
    let all = words(&stack);
    for index in 0..stack.len() {
        let call = firsts.iter().filter(|first| **first <= index).count() as u64 - 1;
        assert_eq!(call_at(&all, FRAME, index), Some((200 + call, 100 + call)));
    }
    assert_eq!(call_at(&[Word::new(0)], FRAME, 0), None);
    assert_eq!(call_at(&[], FRAME, 0), None);
}

/// As kernel/trace/fgraph.c and fprobe.c make room: README.md has the depths.
#[test]
fn the_deepest_call() {
    const MAX: usize = 512 - (FRAME + 1 + 16);
    for (length, depth) in [(2, 61), (3, 54), (5, 44), (7, 37)] {
        let (mut used, mut calls) = (0, 0);
        // See ftrace_push_return_trace() and fgraph_reserve_data(), of a header and the words.
        let has_room =
            |used: usize| used + FRAME + 1 < MAX && used + FRAME + 1 + 1 + length + 1 < MAX;
        while has_room(used) {
            let index = used + FRAME + 1 + 1;
            used = index + length + 1;
            calls += 1;
            assert_eq!(
                is_deepest(index, length),
                !has_room(used),
                "{length} words, call {calls}"
            );
        }
        assert_eq!(calls, depth);
    }
}
