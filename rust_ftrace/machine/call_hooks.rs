// SPDX-License-Identifier: GPL-2.0

//! The hooks of calls, of the tracers and profiles of all instances.
//!
//! The kernel keeps little of a call, for all of its users, so of one function's calls the module
//! keeps words once: a function that one part wants has a hook of that part, and one that several
//! want has a hook that they share. Which these are is [`Shares`]'s to say. So a change of one
//! instance may change the hooks of others, and all are here, under one lock. It is taken after an
//! instance's `control`, and held for the whole of a change.

mod member;

use core::ops::Range;

use kernel::prelude::*;

use self::member::{Member, MemberChange, New};
pub(crate) use self::member::{WantedCalls, Watchers};
use crate::engine::function_set::FunctionSet;
use crate::engine::plan::{Calls, FrameKind, ProfiledCalls};
use crate::engine::shared_frame;
use crate::engine::sharing::{Part, Parts, ShareError, Shares, Subscriber};
use crate::sys::fprobe::{Fprobes, OpenCalls, ProbeChange, RoleFunctions};
use crate::sys::private::{shadow_stacks, FprobeNumber};
use crate::sys::{cpu, rcu};
use crate::tracer::graph_hooks::{GraphHooks, OwnCalls};
use crate::tracer::own_call;
use crate::tracer::shared::{SharedFrame, Switchboard};

/// Turns after which it is looked whether a call is open that is older than any may be.
const TURNS: u16 = 1 << 12;
/// The greatest number of turns for which a call may be open when it is looked.
const OLDEST: u16 = (1 << 15) - TURNS;

/// A prepared change of hooks.
#[must_use]
pub(crate) struct HookChange {
    new: Option<KBox<New>>,
    /// Of each member, by its number, if it has ever hooked anything.
    members: KVec<Option<KBox<MemberChange>>>,
    seats: KVec<[Option<usize>; 2]>,
    parts: KVec<[Part; 2]>,
    /// The hooks that are shared; there is one.
    shared: Option<ProbeChange<Switchboard, SharedFrame>>,
}

/// The hooks of calls of all instances.
pub(crate) struct CallHooks {
    numbers: FprobeNumber,
    members: KVec<KBox<Member>>,
    // Field order is teardown order: what hooks call goes after them.
    shared: Fprobes<Switchboard, SharedFrame>,
    board: KBox<Switchboard>,
    /// Hooks of members that are gone, which open calls still know.
    retired: KVec<GraphHooks>,
    /// The id of the last member.
    last: u64,
    /// Functions are shared that need not be.
    is_stale: bool,
    /// The way in which calls could not be shared when hooks were last prepared.
    refusal: Option<ShareError>,
}

impl CallHooks {
    /// Creates the state without members.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new(numbers: FprobeNumber) -> Result<Self> {
        Ok(Self {
            numbers,
            members: KVec::new(),
            shared: Fprobes::new(),
            board: KBox::new(Switchboard::new(), GFP_KERNEL)?,
            retired: KVec::new(),
            last: 0,
            is_stale: false,
            refusal: None,
        })
    }

    /// Adds an instance, which hooks nothing yet, and returns its id.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn join(&mut self) -> Result<u64> {
        self.members.reserve(1, GFP_KERNEL)?;
        // There is always room for those of all members.
        let all = self.members.len().saturating_add(1);
        let missing = all.saturating_sub(self.retired.len());
        self.retired.reserve(missing, GFP_KERNEL)?;
        let id = self.last.wrapping_add(1);
        let mut member = Member::boxed(id)?;
        if let Some(retired) = self.retired.pop() {
            member.graph = retired;
        }
        self.members.push(member, GFP_KERNEL)?;
        self.last = id;
        Ok(id)
    }

    fn index(&self, id: u64) -> Option<usize> {
        self.members.iter().position(|member| member.id == id)
    }

    /// Looks at a call of the module's own: see [`own_call::look`].
    ///
    /// # Errors
    ///
    /// Those of [`own_call::look`].
    pub(super) fn look_at_shadow_stacks(&mut self) -> Result {
        own_call::look(&mut self.numbers)
    }

    /// Returns whether open calls know a seat, or may until the next change of hooks.
    fn is_held(&self, seat: usize) -> bool {
        let mut roles = self.shared.roles();
        roles.any(|parts| parts.of(seat) != Part(0))
            || shadow_stacks::any_call(|words, address| {
                let marks = self.board.marks_at(words, address);
                marks.is_some_and(|marks| self.board.knows(seat, marks))
            })
    }

    /// Prepares to hook the calls that an instance wants, and no others of it.
    /// [`Self::commit`] or [`Self::give_up`] is to follow.
    ///
    /// # Errors
    ///
    /// Nothing is changed then.
    ///
    /// - `EBUSY` if several parts want a function, and the words of a call have no room for all of
    ///   them, or too many of them share functions.
    /// - `ENOMEM` if there is no memory, and those of [`GraphHooks::prepare`],
    ///   [`ProfileHooks::prepare`] and [`Fprobes::prepare`].
    ///
    /// # Safety
    ///
    /// `watchers` stay valid until the instance has [left](Self::leave).
    pub(crate) unsafe fn prepare(
        &mut self,
        id: u64,
        watchers: Watchers,
        wanted: WantedCalls<'_>,
    ) -> Result<KBox<HookChange>> {
        let index = self.index(id).ok_or(EINVAL)?;
        let new = New {
            index,
            calls: wanted.calls.map(Calls::duplicate).transpose()?,
            results: wanted.results,
            counted: wanted.counted.map(ProfiledCalls::duplicate).transpose()?,
            own_start: wanted.own_start,
            anew: wanted.anew,
        };
        let new = KBox::new(new, GFP_KERNEL)?;
        if let Some(member) = self.members.get_mut(index) {
            member.watchers = Some(watchers);
        }
        self.prepare_all(Some(new))
    }

    /// Returns the way in which calls could not be shared, if [`Self::prepare`] failed for that.
    pub(crate) fn refusal(&self) -> Option<ShareError> {
        self.refusal
    }

    /// Prepares the hooks of all members, one of which is as it is to be.
    fn prepare_all(&mut self, new: Option<KBox<New>>) -> Result<KBox<HookChange>> {
        let mut subscribers = KVec::new();
        let mut now = KVec::new();
        for (index, member) in self.members.iter().enumerate() {
            let new = new.as_deref().filter(|new| new.index == index);
            for subscriber in member.subscribers(new) {
                subscribers.push(subscriber, GFP_KERNEL)?;
            }
            now.extend_from_slice(&member.seats, GFP_KERNEL)?;
        }
        let shares = Shares::of(&subscribers).and_then(|shares| {
            let seats = shares.seats(&now, |seat| self.is_held(seat))?;
            Ok((shares, seats))
        });
        self.refusal = shares.as_ref().err().copied();
        let (shares, flat_seats) = shares.map_err(|error| match error {
            ShareError::OutOfMemory => ENOMEM,
            ShareError::NoRoom(_) | ShareError::NoSeat => EBUSY,
        })?;
        let (mut seats, mut parts) = (KVec::new(), KVec::new());
        for pair in flat_seats.chunks_exact(2) {
            seats.push([pair[0], pair[1]], GFP_KERNEL)?;
        }
        for pair in subscribers.chunks_exact(2) {
            let of = |number: usize| pair.get(number).map_or(Part(0), Subscriber::attributes);
            parts.push([of(0), of(1)], GFP_KERNEL)?;
        }
        let mut groups = KVec::new();
        for group in shares.groups.iter() {
            let role = group.parts(&flat_seats).ok_or(EBUSY)?;
            let ips = group.functions.as_slice();
            groups.push(RoleFunctions { role, ips }, GFP_KERNEL)?;
        }
        drop(subscribers);
        let change = HookChange {
            new,
            members: KVec::with_capacity(self.members.len(), GFP_KERNEL)?,
            seats,
            parts,
            shared: None,
        };
        let mut change = KBox::new(change, GFP_KERNEL)?;
        self.look_at_age(&change)?;
        match self.prepare_hooks(&shares.alone, &groups, &mut change) {
            Ok(()) => Ok(change),
            Err(error) => {
                self.give_up(change);
                Err(error)
            }
        }
    }

    /// Sees to it that no open call is so old that it could be taken for a new one.
    fn look_at_age(&self, change: &HookChange) -> Result {
        let turn = self.board.turn();
        // One change takes fewer turns than that.
        let next = turn.wrapping_add(2 * shared_frame::SEATS as u16);
        if turn / TURNS == next / TURNS || !self.seats_anew(change) {
            return Ok(());
        }
        let is_old = |words: &[_], address| {
            let marks = self.board.marks_at(words, address);
            marks.is_some_and(|marks| shared_frame::age(marks, turn) > OLDEST)
        };
        match shadow_stacks::any_call(is_old) {
            true => Err(EBUSY),
            false => Ok(()),
        }
    }

    /// Returns whether a part gets another seat by a change.
    fn seats_anew(&self, change: &HookChange) -> bool {
        let members = self.members.iter().zip(&change.seats);
        members.enumerate().any(|(index, (member, seats))| {
            (0..2).any(|which| self.is_seated_anew(change, index, member, seats, which))
        })
    }

    /// Returns whether calls that are open now are not those of a part in the seat that it has
    /// after a change.
    fn is_seated_anew(
        &self,
        change: &HookChange,
        index: usize,
        member: &Member,
        seats: &[Option<usize>; 2],
        which: usize,
    ) -> bool {
        let Some(seat) = seats.get(which).copied().flatten() else {
            return false;
        };
        let parts = change.parts.get(index).and_then(|parts| parts.get(which));
        let is_forgotten = || {
            let new = change.new.as_ref().filter(|new| new.index == index);
            new.and_then(|new| new.anew.get(which)) == Some(&true)
        };
        member.seats.get(which) != Some(&Some(seat))
            || parts != member.parts.get(which)
            || is_forgotten()
    }

    /// Prepares the hooks of all members, and those that are shared; if that fails, some may be
    /// prepared.
    fn prepare_hooks(
        &mut self,
        alone: &[[FunctionSet; 3]],
        groups: &[RoleFunctions<'_, Parts>],
        change: &mut HookChange,
    ) -> Result {
        const NONE: &[FunctionSet; 3] = &[const { FunctionSet::new() }; 3];
        const NOT_COUNTED: &ProfiledCalls = &ProfiledCalls::none();
        for (index, member) in self.members.iter_mut().enumerate() {
            let member = &mut **member;
            let new = change.new.as_ref().filter(|new| new.index == index);
            let (calls, counted) = match new {
                Some(new) => (new.calls.as_ref(), new.counted.as_ref()),
                None => (member.calls.as_ref(), member.counted.as_ref()),
            };
            let results = new.map_or(&member.results, |new| &new.results);
            let of = |which: usize| alone.get(2 * index + which).unwrap_or(NONE);
            let own = OwnCalls {
                frames: calls.map_or(FrameKind::Plain, |calls| calls.frames),
                sets: of(0),
                results: results.as_deref(),
                takes_sleep: calls.is_some_and(|calls| calls.takes_sleep),
                open_calls: match (new.is_some_and(|new| new.anew[0]), calls) {
                    (true, _) => OpenCalls::Forgotten,
                    (false, Some(_)) => OpenCalls::Kept,
                    (false, None) => OpenCalls::Lost,
                },
            };
            let counted = counted.unwrap_or(NOT_COUNTED);
            let Some(watchers) = member.watchers else {
                // There is room.
                let _ = change.members.push(None, GFP_KERNEL);
                continue;
            };
            // SAFETY: It stays valid until the member has left, by the contract of `prepare`.
            let recorder = unsafe { &*watchers.recorder };
            // SAFETY: It stays valid until the member has left, by the contract of `prepare`.
            let profiler = unsafe { &*watchers.profiler };
            // There is room.
            let prepared = Some(MemberChange::none()?);
            let _ = change.members.push(prepared, GFP_KERNEL);
            let Some(Some(prepared)) = change.members.last_mut() else {
                continue;
            };
            let numbers = &mut self.numbers;
            let graph = &mut prepared.graph;
            // SAFETY: The recorder stays valid until the member has left, by the contract of
            // `prepare`, which unhooks all.
            unsafe { member.graph.prepare(numbers, recorder, &own, graph)? };
            let (alone, profile) = (of(1), &mut prepared.profile);
            // SAFETY: The profiler stays valid until the member has left, by the contract of
            // `prepare`, which unhooks all.
            unsafe { (member.profile).prepare(numbers, profiler, counted, alone, profile)? };
        }
        let (numbers, board) = (&mut self.numbers, &*self.board);
        // SAFETY: The switchboard stays valid until nothing is traced any more: it goes after
        // `shared`.
        let shared = unsafe { (self.shared).prepare(numbers, board, groups, OpenCalls::Kept)? };
        change.shared = Some(shared);
        Ok(())
    }

    /// Takes back what was prepared. Needs no memory.
    pub(crate) fn give_up(&mut self, mut change: KBox<HookChange>) {
        if let Some(shared) = change.shared.take() {
            self.shared.give_up(shared);
        }
        for (member, change) in self.members.iter_mut().zip(&mut change.members) {
            if let Some(change) = change {
                member.profile.give_up(&mut change.profile);
                member.graph.give_up(&mut change.graph);
            }
        }
    }

    /// Has the new hooks call their handlers, and the old ones no more; the parts get their seats.
    fn turn(&self, change: &HookChange) {
        let members = || self.members.iter().zip(&change.seats);
        for (member, seats) in members() {
            for (before, after) in member.seats.iter().zip(seats) {
                if let Some(seat) = before.filter(|_| before != after) {
                    self.board.vacate(seat);
                }
            }
        }
        for (index, (member, seats)) in members().enumerate() {
            let Some(sitters) = member.sitters() else {
                continue;
            };
            for (which, sitter) in sitters.into_iter().enumerate() {
                let part = change.parts.get(index).and_then(|parts| parts.get(which));
                let (Some(Some(seat)), Some(part)) = (seats.get(which), part) else {
                    continue;
                };
                if self.is_seated_anew(change, index, member, seats, which) {
                    // SAFETY: The part stays valid until its instance has left, which vacates its
                    // seats and waits.
                    unsafe { self.board.seat(*seat, sitter, *part) };
                }
            }
        }
        for (member, change) in self.members.iter().zip(&change.members) {
            if let Some(change) = change {
                member.graph.turn(&change.graph);
                member.profile.turn(&change.profile);
            }
        }
        if let Some(shared) = &change.shared {
            self.shared.turn(shared);
        }
    }

    /// Carries out a change that was prepared. Needs no memory. All CPUs are stopped for a moment
    /// if functions may go from one hook to another: no lock that CPU hotplug takes is held.
    pub(crate) fn commit(&mut self, change: KBox<HookChange>) {
        let shared = || change.shared.iter();
        let members = || change.members.iter().flatten();
        let goes = members().any(|change| change.graph.has_old() || change.profile.has_old())
            || shared().any(ProbeChange::has_old);
        let comes = members().any(|change| change.graph.has_new() || change.profile.has_new())
            || shared().any(ProbeChange::has_new);
        match goes && comes {
            true => cpu::with_all_stopped(&|| self.turn(&change)),
            false => self.turn(&change),
        }
        let missed = self.shared.missed();
        let HookChange {
            new,
            members,
            seats,
            parts,
            shared,
        } = KBox::into_inner(change);
        for (member, change) in self.members.iter_mut().zip(members) {
            if let Some(mut change) = change {
                member.graph.finish(&mut change.graph);
                member.profile.finish(&mut change.profile);
            }
        }
        if let Some(shared) = shared {
            self.shared.finish(shared);
        }
        for (member, (seats, parts)) in self.members.iter_mut().zip(seats.iter().zip(&parts)) {
            for (growth, seat) in member.missed.iter_mut().zip(seats) {
                match (seat.is_some(), growth.is_on()) {
                    (true, false) => growth.begin(missed),
                    (false, true) => growth.end(missed),
                    _ => {}
                }
            }
            (member.seats, member.parts) = (*seats, *parts);
        }
        let Some(new) = new.map(KBox::into_inner) else {
            return;
        };
        if let Some(member) = self.members.get_mut(new.index) {
            (member.calls, member.results) = (new.calls, new.results);
            member.counted = new.counted;
            member.own_start = new.own_start;
        }
    }

    /// Unhooks the calls of an instance's tracer, or profile, or both. Needs no memory. What it has
    /// shared with others stays shared until [`Self::unshare`].
    pub(crate) fn end(&mut self, id: u64, tracer: bool, profile: bool) {
        let Some(index) = self.index(id) else {
            return;
        };
        let missed = self.shared.missed();
        let Some(member) = self.members.get_mut(index) else {
            return;
        };
        if tracer {
            member.graph.clear();
            (member.calls, member.results) = (None, None);
        }
        if profile {
            member.profile.clear();
            member.counted = None;
        }
        let mut had_seat = false;
        for (which, ends) in [tracer, profile].into_iter().enumerate() {
            let seat = member.seats.get_mut(which).filter(|_| ends);
            if let Some(seat) = seat.and_then(Option::take) {
                self.board.vacate(seat);
                had_seat = true;
            }
            if let Some(growth) = member.missed.get_mut(which).filter(|_| ends) {
                growth.end(missed);
            }
        }
        if had_seat {
            // The part is told of nothing any more then.
            rcu::synchronize_preempt_off();
            self.is_stale = true;
        }
    }

    /// Has functions that are shared no more hooked for the one part that wants them, if there is
    /// memory; if not, they stay as they are until the next change.
    pub(crate) fn unshare(&mut self) {
        if !core::mem::take(&mut self.is_stale) {
            return;
        }
        match self.prepare_all(None) {
            Ok(change) => self.commit(change),
            Err(_) => self.is_stale = true,
        }
    }

    /// Has the returns of all open calls of an instance's tracer ignored, which hooks nothing.
    pub(crate) fn forget_calls(&mut self, id: u64) {
        if let Some(member) = self.index(id).and_then(|index| self.members.get_mut(index)) {
            member.graph.forget();
        }
    }

    /// Removes an instance, all of whose calls are unhooked. Open calls may still refer to its
    /// hooks, which the next instance has.
    pub(super) fn leave(&mut self, id: u64) {
        self.end(id, true, true);
        let Some(index) = self.index(id) else {
            return;
        };
        if let Ok(mut member) = self.members.remove(index) {
            // There is room; without it they go: see `ProbePlace` of sys/fprobe.
            let _ = self.retired.push(member.graph.take(), GFP_KERNEL);
        }
        self.unshare();
    }

    /// Forgets the functions at addresses `range`, which go: the kernel unhooks them. Needs no
    /// memory.
    pub(super) fn forget(&mut self, range: &Range<usize>) {
        for member in &mut self.members {
            if let Some(calls) = &mut member.calls {
                calls.roles.forget(range);
            }
            if let Some(results) = &mut member.results {
                results.forget(range);
            }
            if let Some(counted) = &mut member.counted {
                counted.roles.forget(range);
            }
        }
    }

    /// Returns the numbers of calls of an instance's tracer and profile whose return could not be
    /// watched; in functions that they share with others, those of all that are shared.
    pub(crate) fn missed(&self, id: u64) -> (u64, u64) {
        let Some(member) = self.index(id).and_then(|index| self.members.get(index)) else {
            return (0, 0);
        };
        let shared = self.shared.missed();
        let [graph, profile] = &member.missed;
        (
            member.graph.missed().wrapping_add(graph.count(shared)),
            member.profile.missed().wrapping_add(profile.count(shared)),
        )
    }
}
