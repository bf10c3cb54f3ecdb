// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Calls in the ring: events with an entry and a return.
//!
//! The entry takes a slot as any event does, but is not completed at once: it is *pending*. If the
//! call's return comes before anything else is recorded on this CPU, its duration goes into the
//! same slot, and the whole call is one event. A writer that records something else first completes
//! the pending entry ([`SlotKind::CallEntry`]), and the return takes a slot of its own later, on
//! whatever CPU the task is then.
//!
//! There is one pending entry at most, since every writer completes it before it writes. The entry
//! is taken out of `pending` by an exchange and then completed, so that of a writer and the
//! interrupts in it just one does so. A pending slot is one that is not complete: readers stop
//! before it, and ask the CPU to complete it ([`Ring::complete_pending`]) if they want to see it.
//!
//! A call is known by a *token*: the offset of its slot, the lap, and the ring.
//!
//! ```text
//! token:  63 parity | 62..47 lap | 46..32 ring | 31..4 offset of the slot | 3..0 ring
//! ```

use super::{
    Call, EventContext, Head, Ring, Slot, Storage, WriteOutcome, OTHERS_MASK, OTHERS_SHIFT, STEP,
};
use core::ops::Range;

use crate::engine::slot::{is_text_address, SlotKind, SlotWords, KIND_SHIFT, PARITY};

/// A call between its entry and its return.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct OpenCall {
    /// The time of its entry.
    pub start: u64,
    /// The token that names it; see [`call`](self).
    pub token: u64,
}

/// Bits of a token that say which ring it is of.
const RING_MASK: u64 = (OTHERS_MASK << OTHERS_SHIFT) | (STEP - 1);

/// The bits by which the tokens of ring number `id` differ from those of others, for ids up to
/// 2^19.
const fn identity(id: u32) -> u64 {
    let high = (id as u64 & OTHERS_MASK) << OTHERS_SHIFT;
    high | ((id as u64 >> OTHERS_MASK.count_ones()) & (STEP - 1))
}

impl<S: Storage> Ring<S> {
    /// Gives the ring a number, by which its tokens differ from those of others.
    pub fn identified(mut self, id: u32) -> Self {
        self.cold.identity = identity(id);
        self
    }

    fn token(&self, head: Head) -> u64 {
        head.0 & !RING_MASK | self.cold.identity
    }

    /// The slot of a token of this ring.
    ///
    /// # Safety
    ///
    /// The token was made by [`Ring::token`] of a head at a slot.
    #[inline(always)]
    unsafe fn slot_of(&self, token: u64) -> &Slot {
        // SAFETY: The token has the offset of the slot whose head it was made of, by caller
        // precondition.
        unsafe { self.slot(token as u32 as usize & !(STEP as usize - 1)) }
    }

    /// Completes the pending entry, if there is one.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`]; or nothing else writes to the ring, from before the call to its end.
    #[inline(always)]
    pub unsafe fn complete_pending(&self) {
        let token = self.cold.pending.load_relaxed();
        if token != 0 && self.cold.pending.local_exchange(token, 0) {
            // SAFETY: What becomes pending is what `token()` made of the head at an entry's slot.
            unsafe { self.slot_of(token) }.0.toggle_release::<PARITY>();
        }
    }

    /// Returns whether an entry is pending; a hint for all but the writer.
    #[inline(always)]
    pub fn has_pending(&self) -> bool {
        self.cold.pending.load_relaxed() != 0
    }

    /// Writes the entry of a call at a `depth`; `extras` are its extra slots. `open` gets the data
    /// that the return needs.
    ///
    /// Returns whether it could be written; if not, that is counted.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`].
    #[inline(always)]
    pub unsafe fn enter_call(
        &self,
        call: Call,
        depth: impl Fn() -> u32,
        extras: &[SlotWords],
        ctx: impl EventContext,
        open: &mut OpenCall,
    ) -> bool {
        // `complete_pending` checks again, which leaves the usual way without a register for the
        // token.
        if self.has_pending() {
            // SAFETY: By caller precondition:
            // - The thread runs on the ring's CPU, with preemption off, until this has returned.
            // - Other writers of the ring only interrupt this one, and end before it goes on.
            unsafe { self.complete_pending() };
        }
        let head = self.head();
        let now = ctx.now();
        // The mask is right for this head if the exchange finds the head unchanged.
        let ip_mask = self.ip_mask.load_relaxed();
        let simple = extras.is_empty() && is_text_address(call.parent_ip);
        // SAFETY: By caller precondition:
        // - The thread runs on the ring's CPU, with preemption off, until this has returned.
        // - Other writers of the ring only interrupt this one, and end before it goes on.
        let reserved = simple && unsafe { self.reserve(head, now, &ctx) };
        if !reserved {
            // SAFETY: By caller precondition:
            // - The thread runs on the ring's CPU, with preemption off, until this has returned.
            // - Other writers of the ring only interrupt this one, and end before it goes on.
            return unsafe { Self::enter_cold(call, self, depth(), extras, ctx, open) };
        }
        // This order keeps few values alive at a time.
        let token = self.token(head);
        *open = OpenCall { start: now, token };
        // SAFETY: `reserve` moved the head over this slot, which is not at a boundary, so it
        // exists.
        let slot = unsafe { self.slot(head.offset()) };
        slot.0
            .store_relaxed(SlotWords::first_of_open(call.ip, ip_mask, now));
        slot.1.store_high(call.parent_ip as u32);
        slot.1.store_low(SlotWords::small_of_call(
            SlotKind::CallEntry,
            depth(),
            ctx.flags(),
        ));
        self.set_pending(token, slot, head.0.wrapping_add(STEP));
        true
    }

    /// Makes the entry in `slot` the pending one, if nothing was written since, up to `head`. An
    /// entry that an interrupt has left pending, since its return was missed, stays so, and this
    /// one is completed.
    #[inline(always)]
    fn set_pending(&self, token: u64, slot: &Slot, head: u64) {
        if !self.cold.pending.local_exchange(0, token) {
            slot.0.toggle_release::<PARITY>();
        } else if self.head.load_relaxed() != head && self.cold.pending.local_exchange(token, 0) {
            // An interrupt before this entry was pending has not completed it.
            slot.0.toggle_release::<PARITY>();
        }
    }

    /// Moves the head from `head` over one slot, if an event at `now` needs no more. Returns
    /// whether it did.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`].
    #[inline(always)]
    unsafe fn reserve(&self, head: Head, now: u64, ctx: &impl EventContext) -> bool {
        head.0 as u32 & self.sub_mask != 0
            && !self.needs_time(now)
            && ctx.is_task(|index| self.task_word(index))
            && (self.head).local_exchange(head.0, head.0.wrapping_add(STEP))
    }

    /// Enters a call whose entry needs more than one slot. Returns whether it was written.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`].
    #[cold]
    #[inline(never)]
    unsafe fn enter_cold<C: EventContext>(
        call: Call,
        ring: &Self,
        depth: u32,
        extras: &[SlotWords],
        ctx: C,
        open: &mut OpenCall,
    ) -> bool {
        let mut room = [SlotWords::default(); super::MAX_CALL_EXTRAS + 1];
        let extras = match is_text_address(call.parent_ip) {
            true => extras,
            false => with_wide(&mut room, extras, call.parent_ip),
        };
        let context = ctx.flags();
        let high = call.parent_ip as u32;
        let event = |now| SlotWords::call(SlotKind::CallEntry, call.ip, now, depth, context, high);
        // SAFETY: By caller precondition:
        // - The thread runs on the ring's CPU, with preemption off, until this has returned.
        // - Other writers of the ring only interrupt this one, and end before it goes on.
        let Ok((head, start)) = (unsafe { ring.write_group(&ctx, extras, event, true) }) else {
            return false;
        };
        let token = ring.token(head);
        // SAFETY: `token` was just made by `token()`, of the head at the slot that was reserved.
        let slot = unsafe { ring.slot_of(token) };
        ring.set_pending(token, slot, head.0.wrapping_add(STEP));
        *open = OpenCall { start, token };
        true
    }

    /// Ends call `open` if it is pending, which makes it a whole call, and returns whether it was;
    /// `duration` computes the call's duration from the time now.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`]; and `open` was made by [`Ring::enter_call`], of any ring: a token of
    /// 0 would match no pending entry.
    #[inline(always)]
    pub unsafe fn leave_leaf(
        &self,
        open: OpenCall,
        ctx: impl EventContext,
        duration: impl Fn(u64) -> u64,
    ) -> bool {
        let duration = duration(ctx.now());
        // If it is pending, nothing was written since.
        if duration >> 32 != 0 || !self.cold.pending.local_exchange(open.token, 0) {
            return false;
        }
        // SAFETY: It was pending, so `token()` of this ring made it of the head at the entry's
        // slot.
        let slot = unsafe { self.slot_of(open.token) };
        slot.1.store_high(duration as u32);
        // The bits that differ between the two kinds.
        const MORE: u64 = (SlotKind::Call as u64 ^ SlotKind::CallEntry as u64) << KIND_SHIFT;
        slot.1.toggle_release::<MORE>();
        slot.0.toggle_release::<PARITY>();
        true
    }

    /// Writes the return from a call of the function at `ip` in which something else was recorded,
    /// or of which more is to be said: `extras` are its extra slots, and `duration` is as for
    /// [`Ring::leave_leaf`].
    ///
    /// Returns whether it could be written; if not, that is counted.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`].
    #[inline(always)]
    pub unsafe fn leave_call(
        &self,
        ip: u64,
        depth: u32,
        extras: &[SlotWords],
        ctx: impl EventContext,
        duration: impl Fn(u64) -> u64,
    ) -> bool {
        let head = self.head();
        let now = ctx.now();
        let ip_mask = self.ip_mask.load_relaxed();
        let duration = duration(now);
        let simple = extras.is_empty() && duration >> 32 == 0;
        // SAFETY: By caller precondition:
        // - The thread runs on the ring's CPU, with preemption off, until this has returned.
        // - Other writers of the ring only interrupt this one, and end before it goes on.
        unsafe { self.complete_pending() };
        // SAFETY: By caller precondition:
        // - The thread runs on the ring's CPU, with preemption off, until this has returned.
        // - Other writers of the ring only interrupt this one, and end before it goes on.
        let reserved = simple && unsafe { self.reserve(head, now, &ctx) };
        if !reserved {
            let start = now.wrapping_sub(duration);
            // SAFETY: By caller precondition:
            // - The thread runs on the ring's CPU, with preemption off, until this has returned.
            // - Other writers of the ring only interrupt this one, and end before it goes on.
            return unsafe { Self::leave_cold(ip, self, depth, extras, ctx, start) };
        }
        // SAFETY: `reserve` moved the head over this slot, which is not at a boundary, so it
        // exists.
        let slot = unsafe { self.slot(head.offset()) };
        let first = SlotWords::first_of_entry(ip, ip_mask, now);
        let flags = ctx.flags();
        slot.1.store_relaxed(SlotWords::second_of_call(
            SlotKind::Return,
            depth,
            flags,
            duration as u32,
        ));
        slot.0.store_release(first);
        self.cold.returns.local_add(1);
        true
    }

    /// Leaves a call whose return needs more than one slot, or in whose return something else was
    /// written. Returns whether it was written. The call began at `start`: the time that an
    /// interrupt took since the clock was read is a part of it, as the interrupt's events come
    /// before its end.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`].
    #[cold]
    #[inline(never)]
    unsafe fn leave_cold<C: EventContext>(
        ip: u64,
        ring: &Self,
        depth: u32,
        extras: &[SlotWords],
        ctx: C,
        start: u64,
    ) -> bool {
        let mut room = [SlotWords::default(); super::MAX_CALL_EXTRAS + 1];
        let so_far = ctx.now().wrapping_sub(start);
        let extras = match so_far >> 32 {
            0 => extras,
            _ => with(&mut room, extras, SlotWords::long_slot(so_far)),
        };
        let context = ctx.flags();
        let event = |now: u64| {
            let duration = now.wrapping_sub(start);
            // The upper half is written already: the lower one stays below what would change it.
            let low = match duration >> 32 == so_far >> 32 {
                true => duration as u32,
                false => u32::MAX,
            };
            SlotWords::call(SlotKind::Return, ip, now, depth, context, low)
        };
        // SAFETY: By caller precondition:
        // - The thread runs on the ring's CPU, with preemption off, until this has returned.
        // - Other writers of the ring only interrupt this one, and end before it goes on.
        let written = unsafe { ring.write_group(&ctx, extras, event, false) };
        match written {
            // The storage counts it: a closed ring is that of several CPUs.
            Err(WriteOutcome::Closed) => ring.storage.missed_return(),
            _ => ring.cold.returns.local_add(1),
        }
        written.is_ok()
    }

    /// Writes the entry of a call that began at `start`, before now, and whose return comes later.
    ///
    /// Returns whether it could be written; if not, that is counted.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`].
    pub unsafe fn write_late_entry(
        &self,
        call: Call,
        start: u64,
        depth: u32,
        context: u32,
        ctx: &impl EventContext,
    ) -> bool {
        // SAFETY: By caller precondition:
        // - The thread runs on the ring's CPU, with preemption off, until this has returned.
        // - Other writers of the ring only interrupt this one, and end before it goes on.
        unsafe { self.complete_pending() };
        let extras = [SlotWords::since_slot(start)];
        let high = call.parent_ip as u32;
        let event = |now| SlotWords::call(SlotKind::CallEntry, call.ip, now, depth, context, high);
        // SAFETY: By caller precondition:
        // - The thread runs on the ring's CPU, with preemption off, until this has returned.
        // - Other writers of the ring only interrupt this one, and end before it goes on.
        unsafe { self.write_group(ctx, &extras, event, false) }.is_ok()
    }

    /// Writes the return of a call of the function at `ip` that ended before now, and its `result`,
    /// if that is known.
    ///
    /// Returns whether it could be written; if not, that is counted.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`].
    pub unsafe fn write_late_return(
        &self,
        ip: u64,
        times: Range<u64>,
        result: Option<u64>,
        depth: u32,
        context: u32,
        ctx: &impl EventContext,
    ) -> bool {
        // SAFETY: By caller precondition:
        // - The thread runs on the ring's CPU, with preemption off, until this has returned.
        // - Other writers of the ring only interrupt this one, and end before it goes on.
        unsafe { self.complete_pending() };
        let duration = times.end.wrapping_sub(times.start);
        let since = SlotWords::since_slot(times.end);
        let mut rooms = [[SlotWords::default(); super::MAX_CALL_EXTRAS + 1]; 2];
        let [with_result, with_long] = &mut rooms;
        let mut extras = match result {
            Some(result) => with(with_result, &[since], SlotWords::retval_slot(result)),
            None => with(with_result, &[], since),
        };
        if duration >> 32 != 0 {
            extras = with(with_long, extras, SlotWords::long_slot(duration));
        }
        let low = duration as u32;
        let event = |now| SlotWords::call(SlotKind::Return, ip, now, depth, context, low);
        // SAFETY: By caller precondition:
        // - The thread runs on the ring's CPU, with preemption off, until this has returned.
        // - Other writers of the ring only interrupt this one, and end before it goes on.
        let written = unsafe { self.write_group(ctx, extras, event, false) };
        match written {
            Err(WriteOutcome::Closed) => self.storage.missed_return(),
            _ => self.cold.returns.local_add(1),
        }
        written.is_ok()
    }
}

/// Returns `extras` with one more, as far as there is room.
fn with<'a>(
    room: &'a mut [SlotWords; super::MAX_CALL_EXTRAS + 1],
    extras: &[SlotWords],
    one: SlotWords,
) -> &'a [SlotWords] {
    let length = extras.len().min(super::MAX_CALL_EXTRAS);
    for (place, words) in room
        .iter_mut()
        .zip(extras.iter().take(length).chain([&one]))
    {
        *place = *words;
    }
    room.get(..=length).unwrap_or_default()
}

fn with_wide<'a>(
    room: &'a mut [SlotWords; super::MAX_CALL_EXTRAS + 1],
    extras: &[SlotWords],
    parent_ip: u64,
) -> &'a [SlotWords] {
    with(room, extras, SlotWords::wide_slot(parent_ip))
}
