// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Functions whose calls several parts of the module watch: the tracers and profiles of instances.
//!
//! Words on the shadow stack are few, and of all users of fgraph. So of one function's calls the
//! module keeps words only once. A function that one part wants is hooked for that part alone, in
//! the way that costs least; one that several want is hooked for all of them together, with words
//! that they share: see [`shared_frame`].

use super::function_set::FunctionSet;
use super::plan::{Calls, FrameKind, ProfiledCalls};
use super::shared_frame::{ROOM, SEATS};
use crate::platform::{AllocError, Vec};

/// The way in which a part watches a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Watch {
    /// The function is not watched.
    Not,
    /// Its calls are recorded, and no more.
    Plain,
    /// Its calls are recorded by those around them.
    Tagged,
    /// All calls below its calls are recorded.
    Root,
    /// Neither its calls nor those below them are recorded.
    Skip,
    /// Its calls are counted, with their whole time, by the time stamp counter.
    Counted,
    /// Its calls are counted by those around them, without some parts of their time, or by another
    /// clock.
    Nested,
    /// As `Nested`: if [`Part::is_root`], all calls below its calls are counted, and else neither
    /// its calls nor those below them are.
    NestedRole,
}

impl Watch {
    const ALL: [Self; 8] = [
        Self::Not,
        Self::Plain,
        Self::Tagged,
        Self::Root,
        Self::Skip,
        Self::Counted,
        Self::Nested,
        Self::NestedRole,
    ];
}

/// A part's watch of a function, and its words.
///
/// | bits | what                                                            |
/// |------|-----------------------------------------------------------------|
/// | 0-2  | [`Watch`]                                                       |
/// | 3-4  | the place of its first word, see [`shared_frame`]               |
/// | 5    | the time of the entry is among its words                        |
/// | 6    | of a tracer: other calls of it have the frames of               |
/// |      | [`FrameKind::Long`]; of a profile: the context is among its words |
/// | 7    | the time for which the task did not run is among its words      |
///
/// Of [`Watch::NestedRole`] bit 5 says that it is a root; all else of bits 5 to 7 is in the part
/// [as its seat knows it](Subscriber::attributes).
///
/// [`shared_frame`]: super::shared_frame
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part(pub u8);

impl Part {
    /// Makes the watch of a part whose words are at place 0; `is_long` is bit 6.
    const fn new(watch: Watch, own_start: bool, is_long: bool, sleeps: bool) -> Self {
        let flags = ((own_start as u8) << 5) | ((is_long as u8) << 6) | ((sleeps as u8) << 7);
        Self(watch as u8 | flags)
    }

    /// Returns the same with the words at another place.
    pub const fn at(self, place: usize) -> Self {
        Self((self.0 & !(3 << 3)) | ((place as u8 & 3) << 3))
    }

    /// Returns the way in which the function is watched.
    #[inline(always)]
    pub fn watch(self) -> Watch {
        let watch = Watch::ALL.get(usize::from(self.0 & 7));
        watch.copied().unwrap_or(Watch::Not)
    }

    /// Returns the place of the first word.
    #[inline(always)]
    pub const fn place(self) -> usize {
        ((self.0 >> 3) & 3) as usize
    }

    /// Returns whether the time of the entry is among the words.
    #[inline(always)]
    pub const fn own_start(self) -> bool {
        self.0 & (1 << 5) != 0
    }

    /// Returns whether it is a root, of [`Watch::NestedRole`].
    pub const fn is_root(self) -> bool {
        self.own_start()
    }

    /// Returns whether other calls have the longest frames.
    #[inline(always)]
    pub const fn is_long(self) -> bool {
        self.0 & (1 << 6) != 0
    }

    /// Returns whether it is a profile with contexts, and that of the call is among the words.
    #[inline(always)]
    pub const fn has_context(self) -> bool {
        self.is_long()
    }

    /// Returns the number of words before the one with the call's context.
    #[inline(always)]
    pub const fn before_context(self) -> usize {
        1 + self.own_start() as usize + self.sleeps() as usize
    }

    /// Returns whether the time for which the task did not run is among the words.
    #[inline(always)]
    pub const fn sleeps(self) -> bool {
        self.0 & (1 << 7) != 0
    }
}

/// The parts that watch a function, a byte for the [`Part`] of each seat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts(pub u64);

impl Parts {
    /// Returns the profiles among them, and the tracers.
    #[inline(always)]
    pub const fn split(self) -> (Self, Self) {
        const LOWEST: u64 = 0x0101_0101_0101_0101;
        // Of the watches only `Counted` and what follows have bit 2 and another.
        let profiles = (self.0 >> 2) & (self.0 | (self.0 >> 1)) & LOWEST;
        let bits = profiles.wrapping_mul(0xff);
        (Self(self.0 & bits), Self(self.0 & !bits))
    }

    /// Returns that of a seat.
    #[inline(always)]
    pub const fn of(self, seat: usize) -> Part {
        Part((self.0 >> ((seat % SEATS) * 8)) as u8)
    }
}

/// A part of the module that watches calls.
pub struct Subscriber<'a> {
    /// The functions that it watches: plain ones, roots and those that are skipped.
    sets: [&'a FunctionSet; 3],
    watches: [Watch; 3],
    own_start: bool,
    is_long: bool,
    sleeps: bool,
    /// The number of words that it needs.
    words: usize,
}

const NONE: &FunctionSet = &FunctionSet::new();

impl<'a> Subscriber<'a> {
    /// The part of a tracer that is not on, or a profile.
    pub const fn none() -> Self {
        Self {
            sets: [NONE; 3],
            watches: [Watch::Not; 3],
            own_start: false,
            is_long: false,
            sleeps: false,
            words: 0,
        }
    }

    /// The part of a tracer; `own_start` if its clock is not the time stamp counter.
    pub fn tracer(calls: &'a Calls, own_start: bool) -> Self {
        let plain = match calls.frames {
            FrameKind::Plain => Watch::Plain,
            FrameKind::Tagged | FrameKind::Long | FrameKind::Waits | FrameKind::Errno => {
                Watch::Tagged
            }
        };
        let words = match calls.frames {
            // They are all that there are, and others.
            FrameKind::Waits | FrameKind::Errno => ROOM + 1,
            _ => 1 + usize::from(own_start) + usize::from(calls.takes_sleep),
        };
        Self {
            sets: calls.roles.sets(),
            watches: [plain, Watch::Root, Watch::Skip],
            own_start,
            is_long: calls.frames == FrameKind::Long,
            sleeps: calls.takes_sleep,
            words,
        }
    }

    /// The part of a profile; `own_start` if its clock is not the time stamp counter.
    pub fn profile(counted: &'a ProfiledCalls, own_start: bool) -> Self {
        let (watch, role) = match counted.is_nested(own_start) {
            true => (Watch::Nested, Watch::NestedRole),
            false => (Watch::Counted, Watch::Not),
        };
        Self {
            sets: counted.roles.sets(),
            watches: [watch, role, role],
            own_start,
            is_long: counted.contexts,
            sleeps: counted.without_sleep,
            words: match counted.waits {
                // They are all that there are, and others.
                true => ROOM + 1,
                false => {
                    1 + usize::from(own_start)
                        + usize::from(counted.without_sleep)
                        + usize::from(counted.contexts)
                }
            },
        }
    }

    fn part(&self, set: usize) -> Part {
        let watch = self.watches.get(set).copied().unwrap_or(Watch::Not);
        if watch == Watch::NestedRole {
            return Part::new(watch, set == 1, false, false);
        }
        Part::new(watch, self.own_start, self.is_long, self.sleeps)
    }

    /// The part as its seat knows it, whatever function is called.
    pub fn attributes(&self) -> Part {
        self.part(0)
    }
}

/// The error of functions that cannot be shared as wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShareError {
    /// There is no memory.
    OutOfMemory,
    /// The words of all parts that watch the function at this address have no room.
    NoRoom(usize),
    /// There are no seats for so many parts.
    NoSeat,
}

impl From<AllocError> for ShareError {
    fn from(_: AllocError) -> Self {
        Self::OutOfMemory
    }
}

/// Functions that the same parts watch in the same ways.
pub struct Group {
    /// The numbers of the parts, and their watches; the first `length` of them.
    watchers: [(usize, Part); SEATS],
    length: usize,
    /// The functions.
    pub functions: FunctionSet,
}

impl Group {
    /// Returns the parts that watch the functions, by their numbers.
    pub fn watchers(&self) -> impl Iterator<Item = usize> + '_ {
        self.watchers
            .iter()
            .take(self.length)
            .map(|(number, _)| *number)
    }

    /// Returns the parts in their seats; `None` if one has none.
    pub fn parts(&self, seats: &[Option<usize>]) -> Option<Parts> {
        let mut parts = 0;
        for (number, part) in self.watchers.iter().take(self.length) {
            let seat = seats.get(*number).copied().flatten()?;
            parts |= u64::from(part.0) << ((seat % SEATS) * 8);
        }
        Some(Parts(parts))
    }
}

/// The functions that parts watch alone, and those that are shared.
pub struct Shares {
    /// The functions of each part that no other watches, by its number, as in its sets.
    pub alone: Vec<[FunctionSet; 3]>,
    /// The others.
    pub groups: Vec<Group>,
}

impl Shares {
    /// Finds out which functions are shared among `subscribers`, whose numbers are their places.
    ///
    /// # Errors
    ///
    /// Those of [`ShareError`], without [`ShareError::NoSeat`].
    #[inline(never)]
    pub fn of(subscribers: &[Subscriber<'_>]) -> Result<Self, ShareError> {
        let mut shares = Self {
            alone: Vec::new(),
            groups: Vec::new(),
        };
        // The rests of sets that have any functions.
        let mut rests = Vec::new();
        for (number, subscriber) in subscribers.iter().enumerate() {
            shares.alone.push([const { FunctionSet::new() }; 3])?;
            for (place, set) in subscriber.sets.iter().enumerate() {
                if !set.is_empty() {
                    rests.push((number, place, set.as_slice()))?;
                }
            }
        }
        let mut last = 0;
        while let Some(ip) = rests
            .iter()
            .filter_map(|rest| rest.2.first().copied())
            .min()
        {
            let mut watchers = [(0, Part(0)); SEATS];
            let (mut length, mut words, mut alone) = (0, 0, (0, 0));
            for (number, place, rest) in rests.iter_mut() {
                let Some((_, others)) = rest.split_first().filter(|(first, _)| **first == ip)
                else {
                    continue;
                };
                *rest = others;
                let Some(subscriber) = subscribers.get(*number) else {
                    continue;
                };
                let watcher = watchers.get_mut(length).ok_or(ShareError::NoRoom(ip))?;
                *watcher = (*number, subscriber.part(*place).at(words));
                alone = (*number, *place);
                length += 1;
                words += subscriber.words;
            }
            if length == 1 {
                let set = shares.alone.get_mut(alone.0);
                if let Some(set) = set.and_then(|sets| sets.get_mut(alone.1)) {
                    set.append(ip)?;
                }
                continue;
            }
            if words > ROOM {
                return Err(ShareError::NoRoom(ip));
            }
            // Functions that follow each other are mostly watched by the same.
            let is_same = |group: &Group| group.length == length && group.watchers == watchers;
            if !shares.groups.get(last).is_some_and(is_same) {
                last = match shares.groups.iter().position(is_same) {
                    Some(place) => place,
                    None => {
                        let functions = FunctionSet::new();
                        shares.groups.push(Group {
                            watchers,
                            length,
                            functions,
                        })?;
                        shares.groups.len() - 1
                    }
                };
            }
            if let Some(group) = shares.groups.get_mut(last) {
                group.functions.append(ip)?;
            }
        }
        Ok(shares)
    }

    /// Gives the parts seats that share functions: those that have one keep it, others get one that
    /// is not in use. `now` has the seats of parts, by their numbers, and `is_held` says whether
    /// open calls still know a seat; parts that share nothing keep theirs as long as it is held and
    /// not needed.
    ///
    /// # Errors
    ///
    /// [`ShareError::OutOfMemory`] and [`ShareError::NoSeat`].
    pub fn seats(
        &self,
        now: &[Option<usize>],
        is_held: impl Fn(usize) -> bool,
    ) -> Result<Vec<Option<usize>>, ShareError> {
        let shares = |number: usize| {
            let mut groups = self.groups.iter();
            groups.any(|group| group.watchers().any(|watcher| watcher == number))
        };
        let mut seats = Vec::new();
        let mut used = [false; SEATS];
        for (number, seat) in now.iter().enumerate() {
            let kept = seat.filter(|seat| shares(number) || is_held(*seat));
            if let Some(used) = kept.and_then(|seat| used.get_mut(seat)) {
                *used = true;
            }
            seats.push(kept)?;
        }
        for number in 0..seats.len() {
            if seats.get(number) != Some(&None) || !shares(number) {
                continue;
            }
            let free = used
                .iter()
                .position(|used| !used)
                .ok_or(ShareError::NoSeat)?;
            if let (Some(used), Some(seat)) = (used.get_mut(free), seats.get_mut(number)) {
                *used = true;
                *seat = Some(free);
            }
        }
        Ok(seats)
    }
}
