// SPDX-License-Identifier: GPL-2.0 OR MIT

//! fgraph's shadow stack: the calls that kernel/trace/fgraph.c keeps of a task.
//!
//! The stack grows upward. A call that is open has a frame: the words of a `struct
//! ftrace_ret_stack`, a word that says which users want its return, and for each user that keeps
//! data of the call the words of that data, and a word that says which user has them. These two
//! kinds of words look like this:
//!
//! | bits  | wanted by              | whose                              |
//! |-------|------------------------|------------------------------------|
//! | 0-9   | words up to the frame  | words up to the frame              |
//! | 10-11 | 1; 0 if not known yet  | 2                                  |
//! | 12-27 | a bit for each number  |                                    |
//! | 12-16 |                        | how many words, less one           |
//! | 17-20 |                        | the number of the user             |
//!
//! The words of fprobe are those of its probes, one after the other, each behind a header: the
//! probe's address, in whose four highest bits the header has the number of words that follow. In
//! an address these bits are all ones.

use crate::platform::Word;

/// Most users that fgraph can have at once; they are numbered from 0.
pub const NUMBERS: u32 = 16;

const OFFSET_MASK: u64 = (1 << 10) - 1;
const TYPE_SHIFT: u32 = 10;
const TYPE_MASK: u64 = 3;
const TYPE_BITMAP: u64 = 1;
const TYPE_DATA: u64 = 2;
const INDEX_SHIFT: u32 = 12;
const DATA_SHIFT: u32 = 12;
const DATA_MASK: u64 = (1 << 5) - 1;
const DATA_INDEX_SHIFT: u32 = 17;
const DATA_INDEX_MASK: u64 = (1 << 4) - 1;
/// The bits of a header that have an address.
const ADDRESS_MASK: u64 = u64::MAX >> 4;

/// The frame of a call that is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenFrame {
    /// A bit for each user that is told of the return.
    pub wanted: u64,
    /// A bit for each user that keeps data of the call.
    pub kept: u64,
}

/// The error of a stack that changed while it was read, or is none of fgraph's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn;

/// Takes the frame of the innermost call off `words`, where a `struct ftrace_ret_stack` has
/// `frame_words`. Returns `None` if no call is open.
pub fn pop_frame(words: &mut &[Word], frame_words: usize) -> Result<Option<OpenFrame>, Torn> {
    let Some((mut top, mut rest)) = words.split_last() else {
        return Ok(None);
    };
    let mut frame = OpenFrame::default();
    // The words up to the frame, as the last word says, and those that were seen.
    let offset = top.load_relaxed() & OFFSET_MASK;
    let mut seen = 0u64;
    let bitmap = loop {
        let word = top.load_relaxed();
        if (word & OFFSET_MASK).wrapping_add(seen) != offset {
            return Err(Torn);
        }
        if (word >> TYPE_SHIFT) & TYPE_MASK != TYPE_DATA {
            break word;
        }
        let length = ((word >> DATA_SHIFT) & DATA_MASK).wrapping_add(1);
        frame.kept |= 1u64.wrapping_shl(((word >> DATA_INDEX_SHIFT) & DATA_INDEX_MASK) as u32);
        seen = seen.wrapping_add(length).wrapping_add(1);
        let below = rest.len().checked_sub(length as usize).ok_or(Torn)?;
        (top, rest) = (rest.get(..below))
            .and_then(|rest| rest.split_last())
            .ok_or(Torn)?;
    };
    if bitmap & OFFSET_MASK != frame_words as u64 {
        return Err(Torn);
    }
    if (bitmap >> TYPE_SHIFT) & TYPE_MASK == TYPE_BITMAP {
        frame.wanted = (bitmap >> INDEX_SHIFT) & ((1 << NUMBERS) - 1);
    }
    let below = rest.len().checked_sub(frame_words).ok_or(Torn)?;
    *words = rest.get(..below).ok_or(Torn)?;
    Ok(Some(frame))
}

/// The most words of a shadow stack that calls can take: SHADOW_STACK_MAX_OFFSET.
const MAX_WORDS: usize = 512 - (FRAME_WORDS + 1 + NUMBERS as usize);
/// The words of a `struct ftrace_ret_stack`.
const FRAME_WORDS: usize = 3;

/// Returns whether no call has room on the shadow stack within the one of which a user keeps
/// `length` words from the one at `index` on, if of that one as many are kept.
#[inline(always)]
pub const fn is_deepest(index: usize, length: usize) -> bool {
    // Behind the words are one that names their user, the other call's frame, one that names those
    // that want its return, a header, and its words with a last one, which must be below the most.
    let words = 2usize.wrapping_mul(length).wrapping_add(FRAME_WORDS + 4);
    index.wrapping_add(words) >= MAX_WORDS
}

/// Returns the function and the return address of the call among whose words is the one at `index`;
/// `None` if the stack does not tell.
pub fn call_at(mut words: &[Word], frame_words: usize, index: usize) -> Option<(u64, u64)> {
    let all = words;
    while words.len() > index {
        pop_frame(&mut words, frame_words).ok()??;
    }
    let word = |index: usize| all.get(index).map(Word::load_relaxed);
    let first = words.len();
    Some((word(first.wrapping_add(1))?, word(first)?))
}

/// Has the call whose words begin with a header of the probe at `from`, if `word` is one, belong to
/// the probe at `to`; both keep `length` words of a call. Returns whether it was one.
///
/// The task may use its stack meanwhile: nothing but such a header is ever changed.
pub fn adopt(word: &Word, from: u64, to: u64, length: usize) -> bool {
    let old = header(from, length);
    word.load_relaxed() == old && word.exchange(old, header(to, length))
}

/// The header of a probe's words.
const fn header(probe: u64, length: usize) -> u64 {
    probe & ADDRESS_MASK | (length as u64).wrapping_shl(60)
}

/// Returns a bit for each user that is to be told of the return of a call of which it keeps no
/// data: fprobe warns of that.
///
/// # Errors
///
/// [`Torn`] if the stack does not tell.
pub fn lacking(mut words: &[Word], frame_words: usize) -> Result<u64, Torn> {
    let mut lacking = 0;
    while let Some(frame) = pop_frame(&mut words, frame_words)? {
        lacking |= frame.wanted & !frame.kept;
    }
    Ok(lacking)
}

/// An empty entry of fgraph's list of free numbers.
const NONE: i32 = -1;

/// Moves those free numbers that `avoid` has a bit for to the end of fgraph's list, so that they
/// are given away last; all others keep their order. Returns whether the next number is one of the
/// others.
///
/// `table` is the list of free numbers, which is a ring: the next to be given away is at `next`,
/// the rest follow, and all other entries are [`NONE`]. `used` has a bit for each number in use.
///
/// # Errors
///
/// [`Unknown`] if the list is not like that, as before fgraph is used for the first time. Nothing
/// is changed then.
pub fn avoid(
    table: &mut [i32; NUMBERS as usize],
    next: usize,
    used: u64,
    avoid: u64,
) -> Result<bool, Unknown> {
    let bit = |number: i32| 1u64.wrapping_shl(number as u32);
    let (before, after) = table.split_at_checked(next).ok_or(Unknown)?;
    if after.is_empty() {
        return Err(Unknown);
    }
    let mut ordered = [NONE; NUMBERS as usize];
    let (mut free, mut seen, mut ended) = (0u64, 0usize, false);
    for number in after.iter().chain(before).copied() {
        if number == NONE {
            ended = true;
            continue;
        }
        let is_number = (0..NUMBERS as i32).contains(&number);
        if ended || !is_number || free & bit(number) != 0 {
            return Err(Unknown);
        }
        free |= bit(number);
        *ordered.get_mut(seen).ok_or(Unknown)? = number;
        seen = seen.wrapping_add(1);
    }
    if free != !used & ((1 << NUMBERS) - 1) {
        return Err(Unknown);
    }
    let ordered = ordered.get(..seen).ok_or(Unknown)?;
    let is_avoided = |number: &i32| avoid & bit(*number) != 0;
    let good = ordered.iter().filter(|number| !is_avoided(number));
    let bad = ordered.iter().filter(|number| is_avoided(number));
    let (before, after) = table.split_at_mut_checked(next).ok_or(Unknown)?;
    for (place, number) in after.iter_mut().chain(before).zip(good.chain(bad)) {
        *place = *number;
    }
    Ok(ordered.iter().any(|number| !is_avoided(number)))
}

/// The error of a list of numbers that is not as fgraph's is known to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unknown;

/// Returns whether a call may be open that knows the fprobe at `address`. True may be wrong, but
/// false is not: the header of a call that is open all the while stays in place, whatever happens
/// to the stack above it.
pub fn knows(words: &[Word], address: u64) -> bool {
    let is_header = |word: &Word| (word.load_relaxed() ^ address) & ADDRESS_MASK == 0;
    words.iter().any(is_header)
}

/// A call that was made in order to look at its frame, as the handlers of its probe know it without
/// the stack.
#[derive(Clone, Copy, Debug)]
pub struct OwnCallFrame {
    /// The function's ftrace location.
    pub ip: u64,
    /// The address that it returns to.
    pub parent_ip: u64,
    /// Number of open calls around it.
    pub depth: u32,
    /// The address of its fprobe.
    pub probe: u64,
    /// The number that fprobe is expected to have.
    pub number: Option<u32>,
    /// The address of the words that the probe keeps of the call, and their number.
    pub data: (u64, usize),
    /// The call returns, so its frame is complete.
    pub returns: bool,
}

/// A difference between a shadow stack and the layout above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unlike {
    /// The frame differs.
    Frame,
    /// The frame has another number for fprobe.
    Number,
}

/// Compares the innermost frame of a shadow stack, whose first word lies at `base`, with a call
/// that is known.
///
/// # Errors
///
/// The first difference, with that of the number last.
pub fn compare(
    words: &[Word],
    base: u64,
    frame_words: usize,
    call: &OwnCallFrame,
) -> Result<(), Unlike> {
    let word = |index: usize| words.get(index).map(Word::load_relaxed);
    let as_said = |is: bool| if is { Ok(()) } else { Err(Unlike::Frame) };
    // The words of the frame: the return address, the function, and more.
    let mut below = words;
    let frame = pop_frame(&mut below, frame_words).map_err(|Torn| Unlike::Frame)?;
    let frame = frame.ok_or(Unlike::Frame)?;
    let first = below.len();
    as_said(word(first) == Some(call.parent_ip))?;
    as_said(word(first.wrapping_add(1)) == Some(call.ip))?;
    // The probe's words are behind a header, and above them is a word that says which user has
    // them.
    let (data, length) = call.data;
    let offset = data.checked_sub(base).ok_or(Unlike::Frame)?;
    let place = usize::try_from(offset / 8).map_err(|_| Unlike::Frame)?;
    let bitmap = first.wrapping_add(frame_words);
    as_said(offset % 8 == 0 && place > bitmap.wrapping_add(1))?;
    as_said(
        place
            .checked_add(length)
            .is_some_and(|end| end < words.len()),
    )?;
    if call.returns {
        as_said(word(place.wrapping_sub(1)) == Some(header(call.probe, length)))?;
        as_said(frame.wanted & frame.kept != 0)?;
    } else {
        as_said(frame.wanted == 0 && frame.kept != 0)?;
    }
    let mut depth = 0u32;
    while let Some(_open) = pop_frame(&mut below, frame_words).map_err(|Torn| Unlike::Frame)? {
        depth = depth.wrapping_add(1);
    }
    as_said(depth == call.depth)?;
    let has = |numbers: u64, number| numbers.wrapping_shr(number) & 1 == 1;
    let is_other = |number: u32| {
        number >= NUMBERS
            || !has(frame.kept, number)
            || (call.returns && !has(frame.wanted, number))
    };
    match call.number.is_some_and(is_other) {
        true => Err(Unlike::Number),
        false => Ok(()),
    }
}
