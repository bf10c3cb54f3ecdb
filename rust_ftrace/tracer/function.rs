// SPDX-License-Identifier: GPL-2.0

//! The `function` tracer's hook: from a function's entry into this CPU's ring, without a call.

use crate::engine::beside::ArgsSlots;
use crate::engine::ring::Call;
use crate::engine::slot::Words;
use crate::sys::context::{cycles, PreemptGuard, PreemptOff};
use crate::sys::ftrace::{Handler, Registers, Site};
use crate::tracer::cpu_context::{AtEntry, CpuContext};
use crate::tracer::gate::Gate;
use crate::tracer::recorder::Recorder;

impl Recorder {
    /// Goes on with a call while a bit of the gate is set.
    #[inline(never)]
    fn entered_gated(call: Call, recorder: &Self, registers: Registers<'_>) {
        let guard = PreemptGuard::new();
        if !recorder.lets_through_fast(guard.token()) {
            return;
        }
        const SLOW: u64 =
            Recorder::RARE | Gate::Clock as u64 | Gate::Wake as u64 | Gate::Beside as u64;
        if recorder.gate() & SLOW != 0 {
            return Self::entered_slow(call, recorder, registers, guard.token());
        }
        recorder.record(guard.token(), Site { call, registers }, cycles);
    }

    /// Other clocks than the counter, readers that wait, and what is recorded beside entries.
    #[cold]
    #[inline(never)]
    fn entered_slow(call: Call, recorder: &Self, registers: Registers<'_>, token: PreemptOff<'_>) {
        if recorder.gate() & Self::RARE != 0 && !recorder.admits_slow(token) {
            return;
        }
        let site = Site { call, registers };
        if recorder.gate() & Gate::Beside as u64 != 0 {
            recorder.record_beside(token, site);
        } else if recorder.gate() & Gate::Clock as u64 == 0 {
            recorder.record(token, site, cycles);
        } else if let Some(reading) = recorder.clock().enter(token) {
            recorder.record(token, site, || reading.now());
        }
        if recorder.gate() & Gate::Wake as u64 != 0 {
            recorder.this_ring(token).storage().written(token);
        }
    }

    /// Records a call with its arguments or its stack.
    fn record_beside(&self, token: PreemptOff<'_>, site: Site<'_>) {
        if self.beside().is_busy(token) {
            return;
        }
        let Site {
            mut call,
            registers,
        } = site;
        let Some(wanted) = self.beside().wanted(token, call.ip) else {
            return;
        };
        // (with function_graph, stacks of some functions come between calls)
        self.complete_entry(token);
        let args = wanted.args.then(|| Words::args_slots(&registers.args()));
        let unwinding = wanted.stack.then(|| self.beside().begin(token)).flatten();
        let stack = unwinding
            .as_ref()
            .and_then(|unwinding| unwinding.stack(&mut call, registers));
        let args = args.as_ref().map_or(&[][..], ArgsSlots::slots);
        let ring = self.this_ring(token);
        if self.gate() & Gate::Clock as u64 == 0 {
            let caller = CpuContext {
                token,
                clock: cycles,
                state: AtEntry(registers),
            };
            // SAFETY: The ring is this CPU's, and preemption is off; whatever interrupts runs to
            // its end before this goes on.
            let _ = unsafe { ring.write_beside(call, caller, args, stack) };
        } else if let Some(reading) = self.clock().enter(token) {
            let caller = CpuContext {
                token,
                clock: || reading.now(),
                state: AtEntry(registers),
            };
            // SAFETY: The ring is this CPU's, and preemption is off; whatever interrupts runs to
            // its end before this goes on.
            let _ = unsafe { ring.write_beside(call, caller, args, stack) };
        }
    }

    #[inline(always)]
    fn record<C: Fn() -> u64 + Copy>(&self, token: PreemptOff<'_>, site: Site<'_>, clock: C) {
        let ring = self.this_ring(token);
        let caller = CpuContext {
            token,
            clock,
            state: AtEntry(site.registers),
        };
        // SAFETY: The ring is this CPU's, and preemption is off; whoever interrupts runs to its end
        // before this goes on. What became of the event is counted in the ring.
        let _ = unsafe { ring.write(site.call, caller) };
    }
}

impl Handler for Recorder {
    #[inline(always)]
    fn entered(&self, site: Site<'_>) {
        if self.gate() != 0 {
            // (looked at once more there)
            if self.knows_outsider() || self.gate() & Self::SHUT != 0 {
                return;
            }
            return Self::entered_gated(site.call, self, site.registers);
        }
        let guard = PreemptGuard::new();
        self.record(guard.token(), site, cycles);
    }
}
