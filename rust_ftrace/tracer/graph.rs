// SPDX-License-Identifier: GPL-2.0

//! `function_graph`, hook side: writes calls with their entry and return into this CPU's ring.

use crate::engine::ring::{Call, OpenCall, MAX_CALL_EXTRAS};
use crate::engine::shadow::{self, Shadow};
use crate::engine::slot::{text_address, SlotWords};
use crate::sys::context::{cycles, Current, PreemptOff};
use crate::sys::fprobe::{CallEntry, CallHandler, CallReturn};
use crate::sys::ftrace::{FunctionEntry, Registers};
use crate::sys::sched_switch::{ShadowStack, SwitchHandler};
use crate::tracer::cpu_context::{CpuContext, State, IN_FPROBE};
use crate::tracer::graph_settings::Want;
use crate::tracer::hook_flags::HookFlag;
use crate::tracer::recorder::Recorder;

/// The role of a function in `function_graph`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GraphRole {
    /// Its calls are recorded as all are.
    Plain,
    /// It is in `graph_function`: all calls below its calls are recorded.
    Root,
    /// It is in `graph_notrace`: neither its calls nor those below are recorded.
    Skip,
}

/// The frame of a tagged call, see [`shadow`](crate::engine::shadow): three words, or five if its
/// entry may be recorded late, or if the time is measured for which the task does not run.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct TaggedFrame<const N: usize>([u64; N]);

impl<const N: usize> TaggedFrame<N> {
    const _LONG_ENOUGH: () = assert!(N == 3 || N == 5);

    fn word(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }

    fn set(&mut self, index: usize, value: u64) {
        if let Some(word) = self.0.get_mut(index) {
            *word = value;
        }
    }

    fn address(&self) -> *const u64 {
        self.0.as_ptr()
    }
}

/// The extra slots of a call.
struct CallExtras {
    slots: [SlotWords; MAX_CALL_EXTRAS],
    length: usize,
}

impl CallExtras {
    const fn none() -> Self {
        Self {
            slots: [SlotWords::PAD; MAX_CALL_EXTRAS],
            length: 0,
        }
    }

    fn push(&mut self, words: SlotWords) {
        if let Some(slot) = self.slots.get_mut(self.length) {
            *slot = words;
            self.length = self.length.wrapping_add(1);
        }
    }

    fn slots(&self) -> &[SlotWords] {
        self.slots.get(..self.length).unwrap_or_default()
    }
}

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

    /// Records an entry with all extras that are wanted.
    fn enter_with_extras(
        &self,
        site: FunctionEntry<'_>,
        token: PreemptOff<'_>,
        open: &mut OpenCall,
    ) -> bool {
        let settings = self.graph();
        let mut call_extras = CallExtras::none();
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

    /// Records a return with all extras that are wanted; `slept` ticks of the time do not count.
    fn leave_with_extras(
        &self,
        ip: u64,
        registers: Registers<'_>,
        token: PreemptOff<'_>,
        open: OpenCall,
        slept: u64,
    ) {
        let settings = self.graph();
        let mut call_extras = CallExtras::none();
        if settings.wants(Want::Retval) {
            call_extras.push(SlotWords::retval_slot(registers.return_value()));
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

    /// Records an entry while a hook flag is set.
    #[cold]
    #[inline(never)]
    fn called_slow(
        &self,
        site: FunctionEntry<'_>,
        token: PreemptOff<'_>,
        open: &mut OpenCall,
    ) -> bool {
        self.lets_through_fast(token)
            && self.admits(token, false)
            && self.lets_through_rare(token)
            && self.enter_with_extras(site, token, open)
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
            false => self.leave_with_extras(ip, registers, token, *open, 0),
        }
    }

    fn secret<const N: usize>(&self) -> u64 {
        let session = self.graph().session();
        shadow::secret(session, N)
    }

    /// Returns the tagged calls around the one whose words are `data`.
    fn around<'a, const N: usize>(
        &self,
        current: &'a Current<'_>,
        data: &TaggedFrame<N>,
    ) -> Shadow<'a> {
        let (words, base) = current.shadow_below(data.address());
        Shadow::new(words, base, self.secret::<N>())
    }

    /// Returns the time now; `None` if the clock is being read already.
    fn now(&self, token: PreemptOff<'_>) -> Option<u64> {
        match self.has_flag(HookFlag::Clock) {
            true => Some(self.clock().enter(token)?.now()),
            false => Some(cycles()),
        }
    }

    /// Begins a call that may be tagged; returns whether its return is wanted.
    fn called_tagged<const N: usize>(
        &self,
        role: GraphRole,
        call: CallEntry<'_, TaggedFrame<N>>,
    ) -> bool {
        let CallEntry { site, token, data } = call;
        // A word that was there before is no tag.
        data.set(0, 0);
        if self.knows_outsider() || !self.lets_through_fast(token) {
            return false;
        }
        let current = token.current();
        let address = data.address() as u64;
        let outer = self.around(&current, data).innermost();
        let outer_flags = outer.map_or(0, |frame| frame.flags());
        if outer_flags & shadow::SKIP != 0 {
            return false;
        }
        let tag = |flags| shadow::tag(address, self.secret::<N>(), flags);
        if role == GraphRole::Skip {
            data.set(0, tag(shadow::SKIP));
            return true;
        }
        if outer.is_none() && role != GraphRole::Root && self.graph().wants(Want::Rooted) {
            return false;
        }
        // A root that is entered in an interrupt is wanted, and so is what is below it.
        let flags = match role == GraphRole::Root && token.is_in_hardirq() {
            true => shadow::IN_IRQ,
            false => outer_flags & shadow::IN_IRQ,
        };
        if !self.admits(token, flags != 0) || !self.lets_through_rare(token) {
            return false;
        }
        let mut open = OpenCall::default();
        let is_open = if self.graph().thresh() == 0 {
            self.enter_with_extras(site, token, &mut open)
        } else if let Some(now) = self.now(token) {
            let context = IN_FPROBE.word(&current) & 0xffff;
            open.start = now;
            open.token = u64::from(current.call_depth().min(0xff) | (context << 8));
            true
        } else {
            false
        };
        if !is_open {
            return false;
        }
        let Call { ip, parent_ip } = site.call;
        data.set(1, open.start);
        data.set(2, open.token);
        data.set(3, ip & 0xffff_ffff | (parent_ip << 32));
        data.set(4, 0);
        data.set(0, tag(flags));
        true
    }

    /// Ends a call that was tagged.
    fn returned_tagged<const N: usize>(&self, call: &mut CallReturn<'_, TaggedFrame<N>>) {
        let address = call.data.address() as u64;
        let token = call.token;
        let tag = call.data.word(0);
        // This is checked before anything is written: only `called_tagged` can have left that here.
        let Some(flags) = shadow::flags_of(tag, address, self.secret::<N>()) else {
            return;
        };
        call.data.set(0, 0);
        if flags & shadow::SKIP != 0 {
            return;
        }
        let current = token.current();
        let around = self.around(&current, call.data);
        let slept = match call.data.word(4) {
            0 => 0,
            slept => {
                if let Some(outer) = around.innermost() {
                    outer.add_sleep(slept);
                }
                slept
            }
        };
        let thresh = self.graph().thresh();
        if thresh == 0 && self.is_shut_here(token) {
            return self.miss_return(token);
        }
        let mut open = OpenCall {
            start: call.data.word(1),
            token: call.data.word(2),
        };
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
                    self.record_late_entry(token, |index| frame.word(index));
                    frame.set(shadow::SHOWN);
                }
            }
            if flags & shadow::SHOWN == 0 {
                let data = *call.data;
                self.record_late_entry(token, |index| data.word(index));
            }
            open.token = 0;
        }
        self.leave_with_extras(call.ip, call.registers, token, open, slept);
    }

    /// Records the entry of a call that began earlier, from its words.
    fn record_late_entry(&self, token: PreemptOff<'_>, word: impl Fn(usize) -> u64) {
        let info = word(2) as u32;
        let call = Call {
            ip: text_address(word(3)),
            parent_ip: text_address(word(3) >> 32),
        };
        let write = |clock: &dyn Fn() -> u64| {
            let ctx = CpuContext {
                token,
                clock,
                state: IN_FPROBE,
            };
            let ring = self.this_ring(token);
            // SAFETY:
            // - The ring is this CPU's, on which the thread stays: `token` proves that preemption
            //   is off.
            // - What interrupts this runs to its end before this goes on.
            //
            // An event that could not be written is counted.
            unsafe { ring.write_late_entry(call, word(1), info & 0xff, info >> 8, &ctx) };
        };
        if self.has_flag(HookFlag::Clock) {
            if let Some(reading) = self.clock().enter(token) {
                write(&|| reading.now());
            }
        } else {
            write(&cycles);
        }
    }
}

impl CallHandler<OpenCall> for Recorder {
    type Role = GraphRole;

    #[inline(always)]
    fn called(&self, _role: GraphRole, call: CallEntry<'_, OpenCall>) -> bool {
        match self.flags() {
            0 => self.enter(call.token, call.site, &[], cycles, call.data),
            _ if self.knows_outsider() => false,
            _ => self.called_slow(call.site, call.token, call.data),
        }
    }

    #[inline(always)]
    fn returned(&self, call: CallReturn<'_, OpenCall>) {
        if self.flags() != 0 {
            return self.returned_slow(call.data, call.ip, call.registers, call.token);
        }
        if !self.leave_leaf(call.token, *call.data, cycles) {
            self.leave_other(call.data, call.ip, call.token);
        }
    }
}

impl<const N: usize> CallHandler<TaggedFrame<N>> for Recorder {
    type Role = GraphRole;

    #[inline(always)]
    fn called(&self, role: GraphRole, call: CallEntry<'_, TaggedFrame<N>>) -> bool {
        self.called_tagged(role, call)
    }

    #[inline(always)]
    fn returned(&self, mut call: CallReturn<'_, TaggedFrame<N>>) {
        self.returned_tagged(&mut call);
    }
}

impl SwitchHandler for Recorder {
    /// Adds up the time for which tasks do not run.
    fn switched(&self, prev: ShadowStack<'_>, next: ShadowStack<'_>, token: PreemptOff<'_>) {
        let secret = self.secret::<5>();
        shadow::switched(prev.tagged(secret), next.tagged(secret), || self.now(token));
    }
}
