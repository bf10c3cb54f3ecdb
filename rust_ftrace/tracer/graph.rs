// SPDX-License-Identifier: GPL-2.0

//! The `function_graph` tracer's hook: calls with their entry and return into this CPU's ring.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::engine::ring::{Caller, OpenCall, MAX_CALL_EXTRA};
use crate::engine::slot::{Task, Words};
use crate::sys::context::{cycles, PreemptOff};
use crate::sys::fprobe::{CallHandler, Called, Returned};
use crate::sys::ftrace::Site;
use crate::tracer::function::{Gate, Recorder};

/// What calls are recorded with, beside what every call has. Bits of [`GraphSettings::wants`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Want {
    /// What they return.
    Retval = 1 << 0,
    /// Where they came from, for all.
    Retaddr = 1 << 1,
    /// Their arguments.
    Args = 1 << 2,
    /// How many were too deep.
    Overrun = 1 << 3,
    /// None of hardware interrupts.
    NoIrqs = 1 << 4,
}

/// How calls are recorded.
pub(crate) struct GraphSettings {
    wants: AtomicU64,
    /// Calls at this depth and below are not recorded.
    depth_limit: AtomicU64,
}

impl GraphSettings {
    /// All calls, with nothing beside.
    pub(crate) const fn new() -> Self {
        Self {
            wants: AtomicU64::new(0),
            depth_limit: AtomicU64::new(u64::MAX),
        }
    }

    /// Says what is wanted, and how deep; `None` for any depth. Whether that is anything but the usual.
    pub(crate) fn set(&self, wants: u64, max_depth: Option<u32>) -> bool {
        self.wants.store(wants, Ordering::Relaxed);
        let limit = max_depth.map_or(u64::MAX, u64::from);
        self.depth_limit.store(limit, Ordering::Relaxed);
        wants != 0 || max_depth.is_some()
    }

    fn wants(&self, want: Want) -> bool {
        self.wants.load(Ordering::Relaxed) & want as u64 != 0
    }
}

/// What the functions of a probe are to the tracer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// Recorded as all are.
    Plain,
}

/// Announcements of a call.
struct Announced {
    slots: [Words; MAX_CALL_EXTRA],
    length: usize,
}

impl Announced {
    const fn none() -> Self {
        Self {
            slots: [Words::PAD; MAX_CALL_EXTRA],
            length: 0,
        }
    }

    fn push(&mut self, words: Words) {
        if let Some(slot) = self.slots.get_mut(self.length) {
            *slot = words;
            self.length = self.length.wrapping_add(1);
        }
    }

    fn slots(&self) -> &[Words] {
        self.slots.get(..self.length).unwrap_or_default()
    }
}

impl Recorder {
    #[inline(always)]
    fn enter<C: Fn() -> u64 + Copy>(
        &self,
        token: PreemptOff<'_>,
        site: Site<'_>,
        extra: &[Words],
        clock: C,
    ) -> Option<OpenCall> {
        let depth = token.current().call_depth();
        let caller = InCall { token, clock };
        let ring = self.this_ring(token);
        // SAFETY: The ring is this CPU's, and preemption is off; whoever interrupts runs to its end
        // before this goes on.
        unsafe { ring.enter_call(site.call, depth, extra, caller) }
    }

    #[inline(always)]
    fn leave<C: Fn() -> u64 + Copy>(
        &self,
        token: PreemptOff<'_>,
        ip: u64,
        open: OpenCall,
        extra: &[Words],
        clock: C,
    ) {
        let depth = token.current().call_depth();
        let caller = InCall { token, clock };
        // (clocks of two CPUs may differ a little)
        let duration = |now: u64| now.saturating_sub(open.start);
        let ring = self.this_ring(token);
        // SAFETY: As in `enter`. If the event could not be written, that is counted.
        let _ = unsafe { ring.leave_call(ip, open, depth, extra, caller, duration) };
    }

    /// An entry of which more is wanted than usual.
    #[cold]
    #[inline(never)]
    fn called_slow(&self, site: Site<'_>, token: PreemptOff<'_>) -> Option<OpenCall> {
        if !self.lets_through(token) {
            return None;
        }
        let settings = self.graph();
        let current = token.current();
        if u64::from(current.call_depth()) >= settings.depth_limit.load(Ordering::Relaxed)
            || settings.wants(Want::NoIrqs) && token.is_in_hardirq()
        {
            return None;
        }
        let mut announced = Announced::none();
        if settings.wants(Want::Retaddr) {
            announced.push(Words::wide_slot(site.call.parent_ip));
        }
        let extra = announced.slots();
        let open = if self.has_gate(Gate::Clock) {
            let reading = self.clock().enter(token)?;
            self.enter(token, site, extra, || reading.now())
        } else {
            self.enter(token, site, extra, cycles)
        };
        if self.has_gate(Gate::Wake) {
            self.complete_entry(token);
            self.this_ring(token).storage().written();
        }
        open
    }

    /// A return of which more is wanted than usual.
    #[cold]
    #[inline(never)]
    fn returned_slow(&self, call: &Returned<'_, OpenCall>) {
        let token = call.token;
        if self.has_gate(Gate::Off) || self.has_gate(Gate::Pause) {
            return;
        }
        let settings = self.graph();
        let mut announced = Announced::none();
        if settings.wants(Want::Retval) {
            announced.push(Words::retval_slot(call.registers.return_value()));
        }
        if settings.wants(Want::Overrun) {
            announced.push(Words::overrun_slot(token.current().call_overrun()));
        }
        let extra = announced.slots();
        if self.has_gate(Gate::Clock) {
            if let Some(reading) = self.clock().enter(token) {
                self.leave(token, call.ip, *call.data, extra, || reading.now());
            }
        } else {
            self.leave(token, call.ip, *call.data, extra, cycles);
        }
        if self.has_gate(Gate::Wake) {
            self.this_ring(token).storage().written();
        }
    }

    /// Completes this CPU's pending entry, so that readers see it.
    pub(crate) fn complete_entry(&self, token: PreemptOff<'_>) {
        // SAFETY: The ring is this CPU's, and preemption is off; whoever interrupts runs to its end
        // before this goes on.
        unsafe { self.this_ring(token).complete_pending() };
    }
}

impl CallHandler<OpenCall> for Recorder {
    type Role = Role;

    #[inline(always)]
    fn called(&self, _role: Role, call: Called<'_, OpenCall>) -> bool {
        let open = match self.gate() {
            0 => self.enter(call.token, call.site, &[], cycles),
            _ => self.called_slow(call.site, call.token),
        };
        match open {
            Some(open) => {
                *call.data = open;
                true
            }
            None => false,
        }
    }

    #[inline(always)]
    fn returned(&self, call: Returned<'_, OpenCall>) {
        match self.gate() {
            0 => self.leave(call.token, call.ip, *call.data, &[], cycles),
            _ => self.returned_slow(&call),
        }
    }
}

/// The surroundings of a call.
#[derive(Clone, Copy)]
struct InCall<'a, C> {
    token: PreemptOff<'a>,
    clock: C,
}

/// How often fgraph and fprobe have disabled preemption when they call us: `ftrace_test_recursion_trylock()`
/// and `rcu_read_lock_sched_notrace()`.
const RAISED: u32 = 2;

impl<C: Fn() -> u64 + Copy> Caller for InCall<'_, C> {
    #[inline(always)]
    fn now(&self) -> u64 {
        (self.clock)()
    }

    #[inline(always)]
    fn context(&self) -> u32 {
        self.flags()
    }

    #[inline(always)]
    fn flags(&self) -> u32 {
        self.token.current().state_word::<RAISED>()
    }

    #[inline(always)]
    fn task(&self) -> Task {
        self.token.current().identity()
    }

    #[inline(always)]
    fn is_task(&self, word: impl Fn(usize) -> u64) -> bool {
        self.token.current().is_known_as(word)
    }
}
