// SPDX-License-Identifier: GPL-2.0

//! The words of shared calls.

use proptest::prelude::*;

use crate::engine::shared_frame::{self, Seat, ROOM, SEATS, START, WORDS};

proptest! {
    /// Marks of one seat are none of another's.
    #[test]
    fn marks(turn: u16, all in prop::collection::vec(prop::option::of((0..8u64, 0..ROOM)), SEATS)) {
        let mut marks = shared_frame::marks(turn);
        for (seat, it) in all.iter().enumerate() {
            if let Some((flags, place)) = it {
                marks |= shared_frame::mark(seat, *flags, *place);
            }
        }
        prop_assert_eq!(shared_frame::is_any_taken(marks), all.iter().any(Option::is_some));
        prop_assert_eq!(shared_frame::age(marks, turn), 0);
        prop_assert_eq!(shared_frame::age(marks, turn.wrapping_add(7)), 7);
        for (seat, it) in all.iter().enumerate() {
            prop_assert_eq!(shared_frame::is_taken(marks, seat), it.is_some());
            let Some((flags, place)) = *it else { continue };
            prop_assert_eq!(shared_frame::flags(marks, seat), flags);
            prop_assert_eq!(shared_frame::first_word(marks, seat), START + 1 + place);
            prop_assert_eq!(shared_frame::word_at(place), START + 1 + place);
            prop_assert!(shared_frame::first_word(marks, seat) < WORDS);
            let shown = marks | shared_frame::flag_bits(seat, 4);
            prop_assert_eq!(shared_frame::flags(shown, seat), flags | 4);
            for other in (0..SEATS).filter(|other| *other != seat) {
                let of = |marks| (shared_frame::is_taken(marks, other), shared_frame::flags(marks, other));
                prop_assert_eq!(of(shown), of(marks));
            }
        }
    }

    #[test]
    fn seats(number in 0..SEATS, own_start: bool, sleeps: bool, since: u16, later in 0..0x8000u16, earlier in 1..0x8000u16) {
        let seat = Seat { number, own_start, sleeps, since };
        prop_assert_eq!(Seat::of(seat.word()), Some(seat));
        let taken = shared_frame::mark(number, 0, 2);
        let entered = |turn| shared_frame::marks(turn) | taken;
        prop_assert!(seat.knows(entered(since.wrapping_add(later))));
        prop_assert!(!seat.knows(entered(since.wrapping_sub(earlier))));
        prop_assert!(!seat.knows(shared_frame::marks(since)));
        let marks = entered(since);
        prop_assert_eq!(seat.start(marks), if own_start { START + 4 } else { START });
        prop_assert_eq!(seat.slept(marks), START + 4 + usize::from(own_start));
        prop_assert_eq!(seat.context(marks), seat.slept(marks) + usize::from(sleeps));
    }
}
