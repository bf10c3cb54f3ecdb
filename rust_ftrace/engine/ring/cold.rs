// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The cold path: events that need more than one slot, or a new sub-buffer, or were interrupted.

use super::group::{ExtraSlots, FoundTask, SlotGroup, StateSlots, GROUP_ROOM};
use super::{Call, EventContext, Head, Ring, Slot, Storage, WriteOutcome, DROPS};
use crate::engine::account::Counts;
use crate::engine::extras::{StackSlots, ARGS_SLOTS};
use crate::engine::marker::TEXT_BYTES;
use crate::engine::slot::{ip_mask, is_text_address, SlotKind, SlotWords, PARITY, TIME_BITS};
use crate::platform::fence_release;

impl<S: Storage> Ring<S> {
    /// Writes a function entry that could not be written with one slot.
    ///
    /// The arguments are in the order in which a hook has them, so that it need not move them.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`].
    #[cold]
    #[inline(never)]
    pub(super) unsafe fn write_cold<C: EventContext>(
        call: Call,
        ring: &Self,
        ctx: C,
    ) -> WriteOutcome {
        let wide = [SlotWords::wide_slot(call.parent_ip)];
        let extras = match is_text_address(call.parent_ip) {
            true => &[],
            false => wide.as_slice(),
        };
        let event = |now| SlotWords::entry(call.ip, call.parent_ip, ctx.context(), now);
        // SAFETY: By caller precondition:
        // - The thread runs on the ring's CPU, with preemption off, until this has returned.
        // - Other writers of the ring only interrupt this one, and end before it goes on.
        match unsafe { ring.write_group(&ctx, extras, event, false) } {
            Ok(_) => WriteOutcome::Written,
            Err(outcome) => outcome,
        }
    }

    /// Writes a function entry with arguments ([`SlotWords::args_slots`]) and a stack beside it.
    /// Extras that a sub-buffer has no room for are left out.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`].
    #[inline(always)]
    pub unsafe fn write_with_extras<C: EventContext>(
        &self,
        call: Call,
        ctx: C,
        args: &[SlotWords],
        stack: Option<StackSlots<'_>>,
    ) -> WriteOutcome {
        // SAFETY: By caller precondition:
        // - The thread runs on the ring's CPU, with preemption off, until this has returned.
        // - Other writers of the ring only interrupt this one, and end before it goes on.
        if unsafe { self.write_beside_hot(call, &ctx, args, stack) } {
            return WriteOutcome::Written;
        }
        // SAFETY: By caller precondition:
        // - The thread runs on the ring's CPU, with preemption off, until this has returned.
        // - Other writers of the ring only interrupt this one, and end before it goes on.
        unsafe { self.write_beside_cold(call, ctx, args, stack) }
    }

    /// Writes as [`Ring::write_with_extras`] does, with all that is to be announced.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`].
    #[cold]
    #[inline(never)]
    unsafe fn write_beside_cold<C: EventContext>(
        &self,
        call: Call,
        ctx: C,
        args: &[SlotWords],
        stack: Option<StackSlots<'_>>,
    ) -> WriteOutcome {
        let mut extras = [SlotWords::wide_slot(call.parent_ip); 1 + ARGS_SLOTS];
        let wide = usize::from(!is_text_address(call.parent_ip));
        let mut length = wide;
        if GROUP_ROOM.saturating_add(wide).saturating_add(args.len()) <= self.subbuf_slots() {
            let room = extras.iter_mut().skip(wide).zip(args);
            for (place, words) in room {
                *place = *words;
                length = length.wrapping_add(1);
            }
        }
        let extra_slots = ExtraSlots {
            slots: extras.get(..length).unwrap_or_default(),
            stack,
        };
        let event = |now| SlotWords::entry(call.ip, call.parent_ip, ctx.context(), now);
        // SAFETY: By caller precondition:
        // - The thread runs on the ring's CPU, with preemption off, until this has returned.
        // - Other writers of the ring only interrupt this one, and end before it goes on.
        match unsafe { self.write_group_with(&ctx, extra_slots, event, false) } {
            Ok(_) => WriteOutcome::Written,
            Err(outcome) => outcome,
        }
    }

    /// The most slots of text that an event can have.
    pub fn text_room(&self) -> usize {
        self.subbuf_slots().saturating_sub(GROUP_ROOM)
    }

    /// Writes the text of a program ([`SlotWords::marker`]): `text` is its `length` bytes, in
    /// [slots](SlotWords::text_slot). Returns the number of bytes written, which is less if a
    /// sub-buffer has no room for more.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`].
    pub unsafe fn write_marker<C: EventContext>(
        &self,
        kind: SlotKind,
        ip: u64,
        text: &[SlotWords],
        length: usize,
        ctx: C,
    ) -> Result<usize, WriteOutcome> {
        if self.cold.subbufs != 0 {
            self.cold.markers.local_add(1);
        }
        let text = text.get(..self.text_room()).unwrap_or(text);
        let length = length.min(text.len().wrapping_mul(TEXT_BYTES));
        let event = |now| SlotWords::marker(kind, ip, now, ctx.context(), length as u32);
        // SAFETY: By caller precondition:
        // - The thread runs on the ring's CPU, with preemption off, until this has returned.
        // - Other writers of the ring only interrupt this one, and end before it goes on.
        unsafe { self.write_group(&ctx, text, event, false) }.map(|_| length)
    }

    /// Writes as [`Ring::write_with_extras`] does, if nothing else is to be announced and a stack
    /// is there already. Returns whether it did.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`].
    #[inline(always)]
    unsafe fn write_beside_hot<C: EventContext>(
        &self,
        call: Call,
        ctx: &C,
        args: &[SlotWords],
        stack: Option<StackSlots<'_>>,
    ) -> bool {
        let head = self.head();
        let place = self.place(head);
        let now = ctx.now();
        if place == 0 || !self.is_plain(call, now, ctx) {
            return false;
        }
        let same = match stack {
            None => None,
            Some(stack) => match self.find_stack(head, stack) {
                None => return false,
                found => found,
            },
        };
        let extras = args.len().wrapping_add(usize::from(same.is_some()));
        let new = head.behind(extras.wrapping_add(1), extras);
        if extras >= self.subbuf_slots().wrapping_sub(place)
            || !self.head.local_exchange(head.0, new.0)
        {
            return false;
        }
        let parity = head.parity();
        let mut slot = head.slot();
        let mut fill = |words: SlotWords| {
            // SAFETY: The exchange moved the head over as many slots from there on as are filled
            // here, none of which is behind the sub-buffer: they exist, and are this writer's.
            unsafe { self.fill(slot, words.with_parity(parity)) };
            slot = slot.wrapping_add(1);
        };
        for words in args {
            fill(*words);
        }
        if let Some(place) = same {
            fill(SlotWords::same_stack_slot(place));
        }
        fill(SlotWords::entry(
            call.ip,
            call.parent_ip,
            ctx.context(),
            now,
        ));
        true
    }

    /// The place of an equal stack in the sub-buffer that `head` is in.
    #[inline]
    pub(super) fn find_stack(&self, head: Head, stack: StackSlots<'_>) -> Option<usize> {
        let first = head.slot().wrapping_sub(self.place(head));
        let before = self.slots().get(first..head.slot())?;
        stack.find(before, head.parity())
    }

    /// Writes an event, which `event` makes of the time, behind its extra slots `extras`, for which
    /// a sub-buffer has [room](GROUP_ROOM). With `open` the event's own slot is not completed.
    ///
    /// Returns the head at the event's slot, its extra slots counted as others, and the time. The
    /// loop repeats only if an interrupt wrote an event in between.
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`].
    pub(super) unsafe fn write_group<C: EventContext>(
        &self,
        ctx: &C,
        extras: &[SlotWords],
        event: impl Fn(u64) -> SlotWords,
        open: bool,
    ) -> Result<(Head, u64), WriteOutcome> {
        let extra_slots = ExtraSlots {
            slots: extras,
            stack: None,
        };
        // SAFETY: By caller precondition:
        // - The thread runs on the ring's CPU, with preemption off, until this has returned.
        // - Other writers of the ring only interrupt this one, and end before it goes on.
        unsafe { self.write_group_with(ctx, extra_slots, event, open) }
    }

    /// Writes a group that may have a stack, which is left out if a sub-buffer has no room for it.
    /// See [`Ring::write_group`].
    ///
    /// # Safety
    ///
    /// As for [`Ring::write`].
    #[inline(always)]
    unsafe fn write_group_with<C: EventContext>(
        &self,
        ctx: &C,
        extra_slots: ExtraSlots<'_>,
        event: impl Fn(u64) -> SlotWords,
        open: bool,
    ) -> Result<(Head, u64), WriteOutcome> {
        if self.cold.subbufs == 0 {
            self.storage.missed();
            return Err(WriteOutcome::Closed);
        }
        let found = self.find_task(ctx);
        loop {
            let head = self.head();
            let now = ctx.now();
            let place = self.place(head);
            if place == 0 {
                match self.open(head) {
                    Opening::Raced => continue,
                    Opening::Blocked(outcome) => {
                        match outcome {
                            WriteOutcome::Full => self.drop_one(head),
                            _ => self.cold.commit_overrun.local_add(1),
                        }
                        return Err(outcome);
                    }
                    Opening::Ready(start, ours, reached, first_event) => {
                        let state = StateSlots::new(&found, now, true, true);
                        let group = SlotGroup::new(self, start, state, extra_slots, event(now));
                        let won = self.take(head, start, &group);
                        if ours {
                            self.cold.opening.store_relaxed(0);
                        }
                        if won {
                            // SAFETY: `take` moved the head over the group's slots from `start` on.
                            let at = unsafe { self.fill_group(start, &group, &found, now, open) };
                            if reached {
                                self.storage.reached();
                            }
                            self.tell_count(first_event);
                            return Ok((at, now));
                        }
                    }
                }
                continue;
            }
            let needs_time = self.needs_time(now);
            let needs_task = !ctx.is_task(|index| self.task_word(index));
            let state = StateSlots::new(&found, now, needs_time, needs_task);
            let group = SlotGroup::new(self, head, state, extra_slots, event(now));
            if group.length() > self.subbuf_slots().wrapping_sub(place) {
                self.close(head);
            } else if self.take(head, head, &group) {
                // SAFETY: `take` moved the head over the group's slots from `head` on.
                let at = unsafe { self.fill_group(head, &group, &found, now, open) };
                return Ok((at, now));
            }
        }
    }

    /// Counts an event that is dropped because the ring is full, up to the boundary `head`.
    fn drop_one(&self, head: Head) {
        self.cold.dropped.local_add(1);
        if self.cold.dropped.load_relaxed() % DROPS == 0 {
            let last = (self.storage.slots()).get(head.slot().wrapping_sub(self.subbuf_slots()));
            let first_event = last.map_or(0, |header| header.1.load_relaxed());
            let written = first_event.wrapping_add(self.events_before(head));
            self.tell_count(written);
        }
    }

    /// Tells the storage how many entries were to be written so far, if `written` events were.
    fn tell_count(&self, written: u64) {
        let counts = Counts {
            written,
            read: 0,
            commit_overrun: self.commit_overrun(),
            dropped: self.dropped(),
            markers: self.markers(),
            returns: self.returns(),
        };
        // The events of the last sub-buffer, and those dropped behind it.
        let room = (self.subbuf_slots() as u64).wrapping_add(DROPS);
        self.storage.counted(counts.hits(), room);
    }

    /// Events in the sub-buffer before the boundary `head`.
    fn events_before(&self, head: Head) -> u64 {
        let slots = (self.subbuf_slots() as u64).wrapping_sub(1);
        slots.wrapping_sub(head.others())
    }

    /// Moves the head from `old` to behind `group`, which begins at `start`.
    fn take(&self, old: Head, start: Head, group: &SlotGroup<'_>) -> bool {
        let new = start.behind(group.length(), group.others());
        self.head.local_exchange(old.0, new.0)
    }

    /// Fills a group's slots from `start` on, and remembers the state that it announced. Returns
    /// the head at the last slot, which is not completed if it is to stay `open`.
    ///
    /// # Safety
    ///
    /// The caller's exchange moved the head over the slots of `group` from `start` on.
    unsafe fn fill_group(
        &self,
        start: Head,
        group: &SlotGroup<'_>,
        found: &FoundTask,
        now: u64,
        open: bool,
    ) -> Head {
        let last = start.slot().wrapping_add(group.others());
        let mut index = start.slot();
        for words in group.slots() {
            let parity = match open && index == last {
                true => start.parity() ^ PARITY,
                false => start.parity(),
            };
            // SAFETY: The group's slots were got from the head, by caller precondition, and this is
            // one of them.
            unsafe { self.fill(index, words.with_parity(parity)) };
            index = index.wrapping_add(1);
        }
        // This is after the exchange: an interrupt between the two announces the same again, no
        // more. Its own extra slots stay true, since the task is the same and an older epoch never
        // comes back.
        self.epoch.store_relaxed(now >> TIME_BITS);
        if group.has_task() {
            self.remember_task(found);
        }
        group.remember_stack();
        start.behind(group.others(), group.others())
    }

    /// Moves the head to the next boundary and fills the slots before it.
    fn close(&self, head: Head) {
        let left = self.subbuf_slots().wrapping_sub(self.place(head));
        if !(self.head).local_exchange(head.0, head.behind(left, left).0) {
            return;
        }
        for index in head.slot()..head.slot().wrapping_add(left) {
            // SAFETY: The exchange moved the head over the slots up to the boundary, of which this
            // is one.
            unsafe { self.fill(index, SlotWords::PAD.with_parity(head.parity())) };
        }
    }

    /// Prepares the sub-buffer behind the boundary `head`.
    fn open(&self, head: Head) -> Opening {
        let slots = self.storage.slots();
        let size = self.subbuf_slots();
        let wraps = head.slot() >= slots.len();
        let (index, lap) = if wraps {
            (0, Head(head.next_lap()))
        } else {
            (head.slot(), head)
        };
        let (Some(last), Some(next)) = (
            slots.get(head.slot().wrapping_sub(size)),
            slots.get(index..index.wrapping_add(size)),
        ) else {
            // The invariants exclude it; an event lost and counted is better than a panic.
            return Opening::Blocked(WriteOutcome::CommitOverrun);
        };
        let Some((header, rest)) = next.split_first() else {
            return Opening::Blocked(WriteOutcome::CommitOverrun);
        };
        let seq = last.0.load_relaxed().wrapping_add(1);
        if self.is_full(seq) {
            return match self.head() == head {
                true => Opening::Blocked(WriteOutcome::Full),
                false => Opening::Raced,
            };
        }
        let first_event = last.1.load_relaxed().wrapping_add(self.events_before(head));
        let found = header.0.load_relaxed();

        let outer = self.cold.opening.load_relaxed();
        let ours = outer == 0 && self.cold.opening.local_exchange(0, seq);
        // From here on no writer comes round to this sub-buffer again. If the head is still as it
        // was after all has been looked at, no event was written, and the values that were seen
        // belong together.
        let moved = || self.head() != head;
        let blocked = || {
            let distance = seq.wrapping_sub(outer);
            let meets_outer =
                outer != 0 && distance != 0 && distance.checked_rem(self.subbufs()) == Some(0);
            // A slot that was not completed in the last lap belongs to a writer below on the stack.
            let old_parity = lap.parity() ^ PARITY;
            meets_outer || has_unfinished(rest, old_parity)
        };
        let opening = match (blocked(), moved()) {
            (true, false) => Opening::Blocked(WriteOutcome::CommitOverrun),
            (false, false)
                if found == seq || self.write_header(header, found, seq, first_event) =>
            {
                if wraps {
                    // An interrupt that has gone on meanwhile is in the same lap: it cannot have
                    // come round to here. Others need no new mask.
                    self.ip_mask.store_relaxed(ip_mask(lap.parity()));
                }
                let reached = seq >= self.readers.awaited.load_relaxed();
                let start = Head::compose(index.wrapping_add(1), 0, lap.0);
                Opening::Ready(start, ours, reached, first_event)
            }
            _ => Opening::Raced,
        };
        if ours && !matches!(opening, Opening::Ready(..)) {
            self.cold.opening.store_relaxed(0);
        }
        opening
    }

    /// Returns whether sub-buffer `seq` must wait, in discard mode, for the one in its place to be
    /// released.
    fn is_full(&self, seq: u64) -> bool {
        let Some(in_place) = seq.checked_sub(self.subbufs()) else {
            return false;
        };
        // Acquire: the stores that follow are done after all loads of the reader that released it.
        in_place != 0
            && self.readers.discard.load_relaxed() != 0
            && in_place >= self.readers.released.load_acquire()
    }

    /// Writes a sub-buffer's header, which was `found`. Returns whether it still was.
    ///
    /// It is zero in between, but never when the head is behind it: an interrupt that finds the
    /// head at the next boundary takes the `seq` after this one from here. Once an interrupt has
    /// moved the head, the header is no more as found, and stays.
    fn write_header(&self, header: &Slot, found: u64, seq: u64, first_event: u64) -> bool {
        if !header.0.local_exchange(found, 0) {
            return false;
        }
        // A reader that sees anything stored from here on sees the zero, or what came after it.
        fence_release();
        header.1.store_relaxed(first_event);
        header.0.store_release(seq);
        true
    }
}

/// Returns whether any of `slots` was not completed in a lap of parity `parity`.
fn has_unfinished(slots: &[Slot], parity: u64) -> bool {
    /// As many at a time as the compiler makes one pass of a loop of. This is the only work that
    /// grows with the number of events.
    const AT_A_TIME: usize = 16;
    let groups = slots.chunks_exact(AT_A_TIME);
    let rest = groups.remainder();
    if parity == 0 {
        let any = |slots: &[Slot]| {
            slots
                .iter()
                .fold(0, |bits, slot| bits | slot.0.load_relaxed())
        };
        let bits = groups.fold(any(rest), |bits, group| bits | any(group));
        bits & PARITY != 0
    } else {
        let all = |slots: &[Slot]| {
            slots
                .iter()
                .fold(!0, |bits, slot| bits & slot.0.load_relaxed())
        };
        let bits = groups.fold(all(rest), |bits, group| bits & all(group));
        bits & PARITY == 0
    }
}

/// The outcome of [`Ring::open`].
enum Opening {
    /// The sub-buffer is ready; its first free slot, whether `opening` was set here, whether
    /// readers wait for it, and the index of its first event.
    Ready(Head, bool, bool, u64),
    /// An interrupt moved the head.
    Raced,
    /// The next sub-buffer cannot be had now.
    Blocked(WriteOutcome),
}
