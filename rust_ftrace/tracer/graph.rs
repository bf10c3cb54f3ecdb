// SPDX-License-Identifier: GPL-2.0

//! `function_graph`, hook side: writes calls with their entry and return into this CPU's ring.

use crate::engine::ring::{Call, OpenCall};
use crate::engine::shadow::{self, Shadow, ShadowFrame, WAIT, WAIT_WORDS};
use crate::engine::slot::{text_address, SlotWords};
use crate::engine::waiting::{Wait, Waited};
use crate::sys::context::{cycles, Current, PreemptOff};
use crate::sys::fprobe::{frame_words, CallEntry, CallHandler, CallReturn, Interest};
use crate::sys::ftrace::{FunctionEntry, Registers};
use crate::sys::sched_switch::ShadowStack;
use crate::tracer::call_extras::CallExtras;
use crate::tracer::call_role::CallRole;
use crate::tracer::cpu_context::{CpuContext, Raised, State, IN_FPROBE};
use crate::tracer::graph_frames::{FramePlace, TaggedFrame, TaggedReturn};
use crate::tracer::graph_settings::Want;
use crate::tracer::hook_flags::HookFlag;
use crate::tracer::recorder::{CpuRing, Recorder};

/// The context of an event that is recorded late.
pub(super) type LateContext<'a> = CpuContext<'a, &'a dyn Fn() -> u64, Raised<2>>;

impl Recorder {
    #[inline(always)]
    fn enter<C: Fn() -> u64 + Copy>(
        &self,
        token: PreemptOff<'_>,
        site: FunctionEntry<'_>,
        extras: &[SlotWords],
        clock: C,
        open: &mut OpenCall,
    ) -> bool {
        let depth = || token.current().call_depth();
        let ctx = CpuContext {
            token,
            clock,
            state: IN_FPROBE,
        };
        let ring = self.this_ring(token);
        // SAFETY:
        // - The ring is this CPU's, on which the thread stays: `token` proves that preemption is
        //   off.
        // - What interrupts this runs to its end before this goes on.
        unsafe { ring.enter_call(site.call, depth, extras, ctx, open) }
    }

    #[inline(always)]
    fn leave_leaf<C: Fn() -> u64 + Copy>(
        &self,
        token: PreemptOff<'_>,
        open: OpenCall,
        clock: C,
    ) -> bool {
        let ctx = CpuContext {
            token,
            clock,
            state: IN_FPROBE,
        };
        // If the call is pending, its start is of the same CPU's clock.
        let duration = |now: u64| now.wrapping_sub(open.start);
        // SAFETY:
        // - The ring is this CPU's, on which the thread stays: `token` proves that preemption is
        //   off.
        // - What interrupts this runs to its end before this goes on.
        // - `enter_call` made `open`; a call whose entry came late, and so has no token, does not
        //   come here.
        unsafe { self.this_ring(token).leave_leaf(open, ctx, duration) }
    }

    #[inline(always)]
    fn leave<C: Fn() -> u64 + Copy>(
        &self,
        token: PreemptOff<'_>,
        ip: u64,
        open: OpenCall,
        extras: &[SlotWords],
        clock: C,
    ) {
        let depth = token.current().call_depth();
        let ctx = CpuContext {
            token,
            clock,
            state: IN_FPROBE,
        };
        // Clocks of two CPUs may differ a little.
        let duration = |now: u64| now.saturating_sub(open.start);
        let ring = self.this_ring(token);
        // SAFETY:
        // - The ring is this CPU's, on which the thread stays: `token` proves that preemption is
        //   off.
        // - What interrupts this runs to its end before this goes on.
        //
        // An event that could not be written is counted.
        let _ = unsafe { ring.leave_call(ip, depth, extras, ctx, duration) };
    }

    /// Records the return of a call that is no leaf; in a function of its own, so that leaves need
    /// less.
    #[inline(never)]
    fn leave_other(&self, open: &OpenCall, ip: u64, token: PreemptOff<'_>) {
        self.leave(token, ip, *open, &[], cycles);
    }

    /// Returns whether a call is recorded as far as depth and context go.
    fn admits(&self, token: PreemptOff<'_>, irqs_too: bool) -> bool {
        let settings = self.graph();
        u64::from(token.current().call_depth()) < settings.depth_limit()
            && (irqs_too || !settings.wants(Want::NoIrqs) || !token.is_in_hardirq())
    }

    /// Records an entry with all extras that are wanted. The call's words are at `place` on the
    /// shadow stack.
    fn enter_with_extras(
        &self,
        site: FunctionEntry<'_>,
        token: PreemptOff<'_>,
        place: FramePlace,
        open: &mut OpenCall,
    ) -> bool {
        let settings = self.graph();
        let mut call_extras = CallExtras::none();
        if place.is_deepest(token) {
            call_extras.push(SlotWords::too_deep_slot());
        }
        if settings.wants(Want::Retaddr) {
            call_extras.push(SlotWords::wide_slot(site.call.parent_ip));
        }
        if settings.wants(Want::Args) {
            let args = SlotWords::args_slots(&site.registers.args());
            args.slots().iter().for_each(|slot| call_extras.push(*slot));
        }
        let extras = call_extras.slots();
        let written = if self.has_flag(HookFlag::Clock) {
            match self.clock().enter(token) {
                Some(reading) => self.enter(token, site, extras, || reading.now(), open),
                None => false,
            }
        } else {
            self.enter(token, site, extras, cycles, open)
        };
        if self.has_flag(HookFlag::Wake) {
            self.complete_entry(token);
            self.this_ring(token).storage().written(token);
        }
        written
    }

    /// Records a return with all extras that are wanted, and the waits in the call if there were
    /// any; `slept` ticks of the time do not count.
    fn leave_with_extras(
        &self,
        ip: u64,
        registers: Registers<'_>,
        token: PreemptOff<'_>,
        open: OpenCall,
        slept: u64,
        waited: Option<Waited>,
    ) {
        let settings = self.graph();
        let mut call_extras = CallExtras::none();
        if settings.wants(Want::Retval) {
            call_extras.push(SlotWords::retval_slot(registers.return_value()));
        }
        if let Some(waited) = waited.filter(|waited| waited.slept != 0) {
            call_extras.push(SlotWords::waited_slot(waited));
        }
        if settings.wants(Want::Overrun) {
            call_extras.push(SlotWords::overrun_slot(token.current().call_overrun()));
        }
        let extras = call_extras.slots();
        let open = OpenCall {
            start: open.start.wrapping_add(slept),
            ..open
        };
        // A call whose entry came late was never pending.
        let is_late = open.token == 0;
        let leave = |clock: &dyn Fn() -> u64| {
            if is_late || !extras.is_empty() || !self.leave_leaf(token, open, clock) {
                self.leave(token, ip, open, extras, clock);
            }
        };
        if self.has_flag(HookFlag::Clock) {
            match self.clock().enter(token) {
                Some(reading) => leave(&|| reading.now()),
                None => self.miss_return_by_clock(token),
            }
        } else {
            leave(&cycles);
        }
        if self.has_flag(HookFlag::Wake) {
            self.this_ring(token).storage().written(token);
        }
    }

    /// Records an entry while a hook flag is set, or if no call within this one has room. The
    /// site comes in its parts, which are in registers.
    #[cold]
    #[inline(never)]
    fn called_slow<const N: usize>(
        &self,
        ip: u64,
        parent_ip: u64,
        registers: Registers<'_>,
        token: PreemptOff<'_>,
        open: &mut OpenCall,
        address: *const u64,
    ) -> bool {
        let call = Call { ip, parent_ip };
        let site = FunctionEntry { call, registers };
        let place = FramePlace { address, length: N };
        self.lets_through_fast(token)
            && self.admits(token, false)
            && self.lets_through_rare(token)
            && self.enter_with_extras(site, token, place, open)
    }

    /// Records a return while a hook flag is set.
    #[cold]
    #[inline(never)]
    fn returned_slow(
        &self,
        open: &OpenCall,
        ip: u64,
        registers: Registers<'_>,
        token: PreemptOff<'_>,
    ) {
        match self.is_shut_here(token) {
            true => self.miss_return(token),
            false => self.leave_with_extras(ip, registers, token, *open, 0, None),
        }
    }

    pub(super) fn secret<const N: usize>(&self) -> u64 {
        let session = self.graph().session();
        shadow::secret(session, N)
    }

    /// Returns the tagged calls around the one whose words are at `address`, where those of the
    /// tracer alone have `N` words.
    fn around<'a, const N: usize>(
        &self,
        current: &'a Current<'_>,
        address: *const u64,
    ) -> Shadow<'a> {
        let (words, base) = current.shadow_below(address);
        let shadow = Shadow::new(words, base, self.secret::<N>())
            .with_waits_at((N == WAIT_WORDS).then_some(WAIT));
        self.graph().seat.seated(shadow)
    }

    /// Returns the function of a tagged call and where it was called from.
    fn call_of(current: &Current<'_>, frame: &ShadowFrame<'_>) -> Option<Call> {
        match frame.call() {
            Some(word) => Some(unpacked_call(word)),
            None => Self::call_at(current, frame.index()),
        }
    }

    /// Returns the function, and where it was called from, of the running task's call among whose
    /// words on the shadow stack is the one at `index`.
    pub(super) fn call_at(current: &Current<'_>, index: usize) -> Option<Call> {
        // SAFETY: It is the running task, which is valid as long as it runs this.
        let stack = unsafe { ShadowStack::of(current.as_ptr()) };
        let (ip, parent_ip) = stack.call_at(index)?;
        Some(Call { ip, parent_ip })
    }

    /// Returns the time now; `None` if the clock is being read already.
    pub(super) fn now(&self, token: PreemptOff<'_>) -> Option<u64> {
        match self.has_flag(HookFlag::Clock) {
            true => Some(self.clock().enter(token)?.now()),
            false => Some(cycles()),
        }
    }

    /// Returns the flags for the tag of a call that is entered, [`shadow::SKIP`] if it is only to
    /// be found, and the innermost call around it, which `outer` says. `None` if it is not wanted.
    #[inline(always)]
    pub(super) fn admits_tagged<'a>(
        &self,
        role: CallRole,
        token: PreemptOff<'_>,
        outer: impl FnOnce() -> Option<ShadowFrame<'a>>,
    ) -> Option<(u64, Option<ShadowFrame<'a>>)> {
        if self.knows_outsider() || !self.lets_through_fast(token) {
            return None;
        }
        let outer = outer();
        let outer_flags = outer.map_or(0, |frame| frame.flags());
        if outer_flags & shadow::SKIP != 0 {
            return None;
        }
        if role == CallRole::Skip {
            return Some((shadow::SKIP, outer));
        }
        if outer.is_none() && role != CallRole::Root && self.graph().wants(Want::Rooted) {
            return None;
        }
        // A root that is entered in an interrupt is wanted, and so is what is below it.
        let flags = match role == CallRole::Root && token.is_in_hardirq() {
            true => shadow::IN_IRQ,
            false => outer_flags & shadow::IN_IRQ,
        };
        let is_wanted = self.admits(token, flags != 0) && self.lets_through_rare(token);
        is_wanted.then_some((flags, outer))
    }

    /// Begins a call that may be tagged, and whose words are at `place`. Returns the flags of its
    /// tag, `None` if its return is not wanted; `open` gets what is known of the entry, unless it
    /// is skipped.
    pub(super) fn enter_tagged<const N: usize>(
        &self,
        role: CallRole,
        site: FunctionEntry<'_>,
        token: PreemptOff<'_>,
        place: FramePlace,
        open: &mut OpenCall,
    ) -> Option<u64> {
        let current = token.current();
        let outer = || {
            let around = self.around::<N>(&current, place.address);
            around.innermost_from(frame_words(N))
        };
        let (flags, _) = self.admits_tagged(role, token, outer)?;
        if flags & shadow::SKIP != 0 {
            return Some(flags);
        }
        if self.graph().thresh() == 0 {
            return (self.enter_with_extras(site, token, place, open)).then_some(flags);
        }
        let now = self.now(token)?;
        let context = IN_FPROBE.word(&current) & 0xffff;
        open.start = now;
        open.token = u64::from(current.call_depth().min(0xff) | (context << 8));
        Some(flags)
    }

    /// Begins a call that may be tagged; returns whether its return is wanted.
    fn called_tagged<const N: usize>(
        &self,
        role: CallRole,
        call: CallEntry<'_, TaggedFrame<N>>,
    ) -> bool {
        let CallEntry { site, token, data } = call;
        // A word that was there before is no tag.
        data.set(0, 0);
        let address = data.address();
        let mut open = OpenCall::default();
        let place = FramePlace { address, length: N };
        let Some(flags) = self.enter_tagged::<N>(role, site, token, place, &mut open) else {
            return false;
        };
        if flags & shadow::SKIP == 0 {
            data.set(1, open.start);
            data.set(2, open.token);
            data.set(3, packed_call(site.call));
            data.set(4, 0);
            data.set(5, 0);
        }
        data.tag(self.secret::<N>(), flags);
        true
    }

    /// Adds the time for which the task did not run in a call that ends, and what it waited for,
    /// to the innermost call around it.
    #[inline(always)]
    pub(super) fn hand_on_sleep(around: &Shadow<'_>, slept: u64, wait: Option<Wait>) {
        if slept != 0 {
            if let Some(outer) = around.innermost() {
                outer.add_sleep(slept);
                if let Some(wait) = wait {
                    outer.add_wait(wait);
                }
            }
        }
    }

    /// Ends a call that was tagged.
    fn returned_tagged<const N: usize>(&self, call: &mut CallReturn<'_, TaggedFrame<N>>) {
        let Some(flags) = call.data.take_tag(self.secret::<N>()) else {
            return;
        };
        let address = call.data.address();
        let data = *call.data;
        let returned = TaggedReturn {
            flags,
            open: OpenCall {
                start: data.word(1),
                token: data.word(2),
            },
            slept: data.word(4),
            // With the highest bit the task was not seen to go on.
            wait: (N == WAIT_WORDS && data.word(4) >> 63 == 0).then(|| Wait(data.word(WAIT))),
            address,
            call: Some(unpacked_call(data.word(3))),
        };
        self.leave_tagged::<N>(returned, call.ip, call.registers, call.token);
    }

    /// Ends a call whose tag was just taken away.
    pub(super) fn leave_tagged<const N: usize>(
        &self,
        returned: TaggedReturn,
        ip: u64,
        registers: Registers<'_>,
        token: PreemptOff<'_>,
    ) {
        let TaggedReturn {
            flags,
            mut open,
            slept,
            wait,
            address,
            call,
        } = returned;
        if flags & shadow::SKIP != 0 {
            return;
        }
        let current = token.current();
        let around = self.around::<N>(&current, address);
        Self::hand_on_sleep(&around, slept, wait);
        let waited = wait.map(|wait| Waited { slept, wait });
        let slept = match wait.is_none() || self.graph().wants(Want::NoSleep) {
            true => slept,
            false => 0,
        };
        let thresh = self.graph().thresh();
        if thresh == 0 && self.is_shut_here(token) {
            return self.miss_return(token);
        }
        if thresh != 0 {
            let Some(now) = self.now(token) else {
                return;
            };
            if now.saturating_sub(open.start).saturating_sub(slept) < thresh {
                return;
            }
            if self.is_shut_here(token) {
                // Neither its entry nor its return is recorded.
                return self.miss_call(token);
            }
            for frame in around.frames() {
                if frame.flags() & (shadow::SKIP | shadow::SHOWN) == 0 {
                    let late = OpenCall {
                        start: frame.start(),
                        token: frame.info(),
                    };
                    self.record_late_entry(token, late, Self::call_of(&current, &frame));
                    frame.set(shadow::SHOWN);
                }
            }
            if flags & shadow::SHOWN == 0 {
                let index = || current.shadow_below(address).0.len();
                let call = call.or_else(|| Self::call_at(&current, index()));
                self.record_late_entry(token, open, call);
            }
            open.token = 0;
        }
        self.leave_with_extras(ip, registers, token, open, slept, waited);
    }

    /// Records the entry of a call that began earlier, from what was kept of it. One of which the
    /// stack does not tell the function is left out.
    pub(super) fn record_late_entry(
        &self,
        token: PreemptOff<'_>,
        open: OpenCall,
        call: Option<Call>,
    ) {
        let Some(call) = call else {
            return;
        };
        let info = open.token as u32;
        self.with_late_context(token, |ring, ctx| {
            // SAFETY:
            // - The ring is this CPU's, on which the thread stays: `token` proves that preemption
            //   is off.
            // - What interrupts this runs to its end before this goes on.
            //
            // An event that could not be written is counted.
            unsafe { ring.write_late_entry(call, open.start, info & 0xff, info >> 8, ctx) };
        });
    }

    /// Calls `write` with this CPU's ring and a context for an event that is recorded late; not if
    /// the clock is being read already.
    pub(super) fn with_late_context(
        &self,
        token: PreemptOff<'_>,
        write: impl Fn(&CpuRing, &LateContext<'_>),
    ) {
        let write = |clock: &dyn Fn() -> u64| {
            let ctx = CpuContext {
                token,
                clock,
                state: IN_FPROBE,
            };
            write(self.this_ring(token), &ctx);
        };
        if self.has_flag(HookFlag::Clock) {
            if let Some(reading) = self.clock().enter(token) {
                write(&|| reading.now());
            }
        } else {
            write(&cycles);
        }
    }

    /// Records the entry of a call that is not tagged, with `N` words at `address` on the shadow
    /// stack; returns whether its return is wanted.
    #[inline(always)]
    pub(super) fn enter_plain<const N: usize>(
        &self,
        site: FunctionEntry<'_>,
        token: PreemptOff<'_>,
        open: &mut OpenCall,
        address: *const u64,
    ) -> bool {
        let place = FramePlace { address, length: N };
        let FunctionEntry { call, registers } = site;
        let Call { ip, parent_ip } = call;
        match self.flags() {
            0 if !place.may_be_deepest() => self.enter(token, site, &[], cycles, open),
            0 => self.called_slow::<N>(ip, parent_ip, registers, token, open, address),
            _ if self.knows_outsider() => false,
            _ => self.called_slow::<N>(ip, parent_ip, registers, token, open, address),
        }
    }

    /// Records the return of such a call.
    #[inline(always)]
    pub(super) fn leave_plain(
        &self,
        open: &OpenCall,
        ip: u64,
        registers: Registers<'_>,
        token: PreemptOff<'_>,
    ) {
        if self.flags() != 0 {
            return self.returned_slow(open, ip, registers, token);
        }
        if !self.leave_leaf(token, *open, cycles) {
            self.leave_other(open, ip, token);
        }
    }
}

/// Returns the word that keeps a call: low half `ip`, high half `parent_ip`.
pub(super) const fn packed_call(call: Call) -> u64 {
    call.ip & 0xffff_ffff | (call.parent_ip << 32)
}

/// Returns the call of the word that keeps it.
pub(super) fn unpacked_call(word: u64) -> Call {
    Call {
        ip: text_address(word),
        parent_ip: text_address(word >> 32),
    }
}

impl CallHandler<OpenCall> for Recorder {
    type Role = CallRole;

    #[inline(always)]
    fn called(&self, _role: CallRole, call: CallEntry<'_, OpenCall>) -> Interest {
        let address: *const OpenCall = call.data;
        let address = address.cast();
        Interest::of_return(self.enter_plain::<2>(call.site, call.token, call.data, address))
    }

    #[inline(always)]
    fn returned(&self, call: CallReturn<'_, OpenCall>) {
        self.leave_plain(call.data, call.ip, call.registers, call.token);
    }
}

impl<const N: usize> CallHandler<TaggedFrame<N>> for Recorder {
    type Role = CallRole;

    #[inline(always)]
    fn called(&self, role: CallRole, call: CallEntry<'_, TaggedFrame<N>>) -> Interest {
        Interest::of_return(self.called_tagged(role, call))
    }

    #[inline(always)]
    fn returned(&self, mut call: CallReturn<'_, TaggedFrame<N>>) {
        self.returned_tagged(&mut call);
    }
}
