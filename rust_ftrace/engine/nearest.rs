// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Suggestions for a name that does not exist: the names that are nearest to it.
//!
//! A name is near if few letters differ, or if it is made of the same words: `vfs_raed` is near
//! `vfs_read`, and `kfree_skb` near `__kfree_skb` and `kfree_skb_partial`. The case of letters does
//! not matter, nor does a suffix that compilers append to a name behind a dot.

use core::cmp::{max, min};

/// Most names that are remembered.
const REMEMBERED: usize = 3;

/// Nothing is near a longer name, in bytes: no function has one.
const MAX_NAME: usize = 128;

/// Most letters that may differ.
const MAX_EDITS: usize = 3;

/// Entries of a row of the table of distances.
const BAND: usize = 2 * MAX_EDITS + 1;

/// Most words of a wanted name that are looked at.
const MAX_WORDS: usize = 8;

/// Costs of a letter that differs, a word too many, a word that is only a part of another, and a
/// word that is missing.
const EDIT: usize = 2;
const EXTRA_WORD: usize = 2;
const PART_OF_WORD: usize = 2;
const MISSING_WORD: usize = 5;

/// Shortest word that counts as a part of another, in bytes.
const MIN_PART: usize = 3;

/// A name that is near.
#[derive(Clone, Copy)]
struct Near<'a> {
    /// The distance, and by how much the name is longer or shorter.
    distance: (usize, usize),
    name: &'a [u8],
}

/// A word of a wanted name, or none.
#[derive(Clone, Copy, Default)]
struct NameWord<'a> {
    text: &'a [u8],
    letters: u64,
}

/// The names nearest to a wanted one, among those that were offered.
///
/// # Invariants
///
/// `best` is sorted by distance, what is free comes last, and no name is there twice.
pub struct Nearest<'a> {
    wanted: &'a [u8],
    letters: u64,
    words: [NameWord<'a>; MAX_WORDS],
    best: [Option<Near<'a>>; REMEMBERED],
}

impl<'a> Nearest<'a> {
    /// Makes an empty list of names near `wanted`.
    pub fn to(wanted: &'a [u8]) -> Self {
        let mut places = [NameWord::default(); MAX_WORDS];
        for (place, text) in places.iter_mut().zip(words(wanted)) {
            *place = NameWord {
                text,
                letters: letters(text),
            };
        }
        Self {
            wanted,
            letters: letters(wanted),
            words: places,
            best: [None; REMEMBERED],
        }
    }

    /// Remembers `name` if it is nearer than others; of names as near, the first stays.
    ///
    /// Takes time proportional to the length of `name`.
    pub fn offer(&mut self, name: &'a [u8]) {
        let Some(distance) = self.distance(name) else {
            return;
        };
        if self.names().any(|known| known == name) {
            return;
        }
        // INVARIANT: Names that are farther move on by one place, and the last goes.
        let mut new = Some(Near { distance, name });
        for place in &mut self.best {
            let is_nearer = match (&new, &*place) {
                (Some(new), Some(old)) => new.distance < old.distance,
                (new, None) => new.is_some(),
                (None, Some(_)) => false,
            };
            if is_nearer {
                core::mem::swap(place, &mut new);
            }
        }
    }

    /// Returns the distance of `name` from the wanted one, and by how much it is longer or shorter;
    /// `None` if it is not near.
    fn distance(&self, name: &[u8]) -> Option<(usize, usize)> {
        let wanted = self.wanted;
        if wanted.is_empty() || wanted.len() > MAX_NAME {
            return None;
        }
        let stem = stem(name);
        // Most names have other letters, which is cheaper to find out.
        let theirs = letters(stem);
        let limit = min(MAX_EDITS, wanted.len() / 3);
        let differ = |one: u64, other: u64| (one & !other).count_ones() as usize > limit;
        let by_letters = match differ(self.letters, theirs) || differ(theirs, self.letters) {
            true => None,
            false => edits(wanted, stem, limit).map(|edits| edits * EDIT),
        };
        let by_words = words_apart(&self.words, stem, theirs);
        let nearest = match (by_letters, by_words) {
            (Some(one), Some(other)) => min(one, other),
            (one, other) => one.or(other)?,
        };
        Some((nearest, wanted.len().abs_diff(name.len())))
    }

    /// The names, the nearest first.
    pub fn names(&self) -> impl Iterator<Item = &'a [u8]> + '_ {
        self.best.iter().flatten().map(|near| near.name)
    }
}

/// Returns a name without the suffix that compilers append to it.
fn stem(name: &[u8]) -> &[u8] {
    let end = name.iter().position(|&byte| byte == b'.');
    end.and_then(|end| name.get(..end)).unwrap_or(name)
}

/// The letters that a text has, in any case, a bit for each; some bits stand for several.
fn letters(text: &[u8]) -> u64 {
    (text.iter()).fold(0, |letters, byte| letters | (1 << ((byte | 0x20) & 63)))
}

fn is_same(one: u8, other: u8) -> bool {
    one.eq_ignore_ascii_case(&other)
}

/// The number of letters that have to be put in, taken out, changed, or swapped with the next to
/// make one name of the other (the distance of optimal string alignment); `None` if more than
/// `limit`, which is [`MAX_EDITS`] at most.
fn edits(one: &[u8], other: &[u8], limit: usize) -> Option<usize> {
    if one.len().abs_diff(other.len()) > limit {
        return None;
    }
    // The common begin and end are not looked at again.
    let is_same_pair = |(one, other): &(&u8, &u8)| is_same(**one, **other);
    let begin = one.iter().zip(other).take_while(is_same_pair).count();
    let one = one.get(begin..).unwrap_or_default();
    let other = other.get(begin..).unwrap_or_default();
    let ends = one.iter().rev().zip(other.iter().rev());
    let end = ends.take_while(is_same_pair).count();
    let one = one.get(..one.len() - end).unwrap_or_default();
    let other = other.get(..other.len() - end).unwrap_or_default();

    let far = limit as u8 + 1;
    // Rows of the table of distances, the one before the last and the last. Only distances near the
    // diagonal can be within the limit: place `limit + column - row`.
    let (mut before, mut last) = ([far; BAND], [far; BAND]);
    let at = |row: &[u8; BAND], place: usize| row.get(place).copied().unwrap_or(far);
    for (distance, place) in (0..far).zip(last.iter_mut().skip(limit)) {
        *place = distance;
    }
    let mut swapped = 0;
    for (index, &letter) in one.iter().enumerate() {
        let row = index + 1;
        let mut now = [far; BAND];
        let mut nearest = far;
        for (place, column) in (row..=row + 2 * limit).enumerate() {
            let Some(column) = column.checked_sub(limit) else {
                continue;
            };
            let distance = match column.checked_sub(1).and_then(|index| other.get(index)) {
                None if column == 0 => row as u8,
                None => break,
                Some(&theirs) => {
                    let changed = at(&last, place) + u8::from(!is_same(letter, theirs));
                    let taken_out = at(&last, place + 1) + 1;
                    let put_in = (place.checked_sub(1)).map_or(far, |left| at(&now, left) + 1);
                    let previous = column.checked_sub(2).and_then(|index| other.get(index));
                    let is_swap = index > 0
                        && is_same(swapped, theirs)
                        && previous.is_some_and(|&previous| is_same(previous, letter));
                    let swap = match is_swap {
                        true => at(&before, place) + 1,
                        false => far,
                    };
                    min(min(changed, taken_out), min(put_in, swap))
                }
            };
            if let Some(cell) = now.get_mut(place) {
                *cell = min(distance, far);
            }
            nearest = min(nearest, distance);
        }
        // Both rows are checked since a swap begins two rows before.
        if nearest >= far && last.iter().all(|distance| *distance == far) {
            return None;
        }
        (before, last, swapped) = (last, now, letter);
    }
    let place = (limit + other.len()).checked_sub(one.len())?;
    Some(at(&last, place).into()).filter(|edits| *edits <= limit)
}

/// The words of a name.
fn words(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    name.split(|&byte| byte == b'_')
        .filter(|word| !word.is_empty())
}

/// The distance of `name` by its words, in whatever order they come; `None` if it has less than a
/// third of the wanted ones' letters, or less than half of the words.
fn words_apart(wanted: &[NameWord<'_>; MAX_WORDS], name: &[u8], letters: u64) -> Option<usize> {
    // Words of other letters are missing.
    let can_be_there = |word: &&NameWord<'_>| word.letters & !letters == 0;
    let length = |word: &NameWord<'_>| word.text.len();
    let all: usize = wanted.iter().map(length).sum();
    let most: usize = wanted.iter().filter(can_be_there).map(length).sum();
    if most * 3 < max(all, 1) {
        return None;
    }
    // By wanted word: it is there as a whole, or as a part of another.
    let (mut whole, mut parts, mut theirs) = (0u8, 0u8, 0);
    for word in words(name) {
        theirs += 1;
        for (index, wanted) in wanted.iter().enumerate() {
            if word.eq_ignore_ascii_case(wanted.text) {
                whole |= 1 << index;
            } else if can_be_there(&wanted) && is_part(wanted.text, word) {
                parts |= 1 << index;
            }
        }
    }
    parts &= !whole;
    let (mut count, mut found) = (0, 0);
    for (index, word) in wanted.iter().enumerate() {
        count += usize::from(!word.text.is_empty());
        if (whole | parts) & (1 << index) != 0 {
            found += word.text.len();
        }
    }
    let (whole, parts) = (whole.count_ones() as usize, parts.count_ones() as usize);
    let missing = count - whole - parts;
    if missing * 2 > count || found * 3 < all {
        return None;
    }
    let extra = usize::saturating_sub(theirs, whole + parts);
    // One more than for letters: it is another name in any case.
    Some(1 + missing * MISSING_WORD + parts * PART_OF_WORD + extra * EXTRA_WORD)
}

/// Returns whether `word` begins or ends with `part`, which is long enough to say something.
fn is_part(part: &[u8], word: &[u8]) -> bool {
    let Some(rest) = word.len().checked_sub(part.len()) else {
        return false;
    };
    let is_same =
        |place: Option<&[u8]>| place.is_some_and(|place| place.eq_ignore_ascii_case(part));
    part.len() >= MIN_PART && (is_same(word.get(..part.len())) || is_same(word.get(rest..)))
}
