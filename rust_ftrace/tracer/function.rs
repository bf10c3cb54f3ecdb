// SPDX-License-Identifier: GPL-2.0

//! The `function` tracer's hook: writes a function's entry into this CPU's ring, without a call.

use crate::engine::extras::{ArgsSlots, StackSlots};
use crate::engine::ring::Call;
use crate::engine::slot::SlotWords;
use crate::sys::context::{cycles, PreemptGuard, PreemptOff};
use crate::sys::ftrace::{EntryHandler, FunctionEntry, Registers};
use crate::tracer::cpu_context::{AtEntry, CpuContext};
use crate::tracer::hook_flags::HookFlag;
use crate::tracer::recorder::Recorder;

impl Recorder {
    /// Goes on with a call while a hook flag is set.
    #[inline(never)]
    fn entered_with_flags(call: Call, recorder: &Self, registers: Registers<'_>) {
        let guard = PreemptGuard::new();
        if !recorder.lets_through_fast(guard.token()) {
            return;
        }
        const SLOW: u64 = Recorder::RARE
            | HookFlag::Clock as u64
            | HookFlag::Wake as u64
            | HookFlag::Extras as u64;
        if recorder.flags() & SLOW != 0 {
            return Self::entered_slow(call, recorder, registers, guard.token());
        }
        recorder.record(guard.token(), FunctionEntry { call, registers }, cycles);
    }

    /// Records with another clock than the counter, for readers that wait, or with extras of
    /// entries.
    #[cold]
    #[inline(never)]
    fn entered_slow(call: Call, recorder: &Self, registers: Registers<'_>, token: PreemptOff<'_>) {
        if recorder.flags() & Self::RARE != 0 && !recorder.admits_slow(token) {
            return;
        }
        let site = FunctionEntry { call, registers };
        if recorder.flags() & HookFlag::Extras as u64 != 0 {
            recorder.record_with_extras(token, site);
        } else if recorder.flags() & HookFlag::Clock as u64 == 0 {
            recorder.record(token, site, cycles);
        } else if let Some(reading) = recorder.clock().enter(token) {
            recorder.record(token, site, || reading.now());
        }
        if recorder.flags() & HookFlag::Wake as u64 != 0 {
            recorder.this_ring(token).storage().written(token);
        }
    }

    /// Records a call with its arguments or its stack.
    fn record_with_extras(&self, token: PreemptOff<'_>, site: FunctionEntry<'_>) {
        if self.entry_extras().is_busy(token) {
            return;
        }
        let Some(wanted) = self.entry_extras().wanted(token, site.call.ip) else {
            return;
        };
        // With function_graph, stacks of some functions come between calls.
        self.complete_entry(token);
        match wanted.stack {
            true => self.record_with_stack(token, site, wanted.args),
            false => self.record_with_args(token, site, wanted.args),
        }
    }

    /// Records a call with its arguments, if they are wanted.
    #[inline(never)]
    fn record_with_args(&self, token: PreemptOff<'_>, site: FunctionEntry<'_>, args: bool) {
        let FunctionEntry { call, registers } = site;
        match args {
            true => {
                let args = SlotWords::args_slots(&registers.args());
                self.record_group(token, call, registers, args.slots(), None);
            }
            false => self.record_group(token, call, registers, &[], None),
        }
    }

    /// Records a call with its stack, if there is room to unwind it, and with its arguments, if
    /// they are wanted.
    #[inline(never)]
    fn record_with_stack(&self, token: PreemptOff<'_>, site: FunctionEntry<'_>, args: bool) {
        let FunctionEntry {
            mut call,
            registers,
        } = site;
        let args = args.then(|| SlotWords::args_slots(&registers.args()));
        let unwinding = self.entry_extras().begin(token);
        let stack = unwinding
            .as_ref()
            .and_then(|unwinding| unwinding.stack(&mut call, registers));
        let args = args.as_ref().map_or(&[][..], ArgsSlots::slots);
        self.record_group(token, call, registers, args, stack);
    }

    /// Records a call with arguments and a stack beside it.
    #[inline(always)]
    fn record_group(
        &self,
        token: PreemptOff<'_>,
        call: Call,
        registers: Registers<'_>,
        args: &[SlotWords],
        stack: Option<StackSlots<'_>>,
    ) {
        let ring = self.this_ring(token);
        if self.flags() & HookFlag::Clock as u64 == 0 {
            let ctx = CpuContext {
                token,
                clock: cycles,
                state: AtEntry(registers),
            };
            // SAFETY:
            // - The ring is this CPU's, on which the thread stays: `token` proves that preemption
            //   is off.
            // - What interrupts this runs to its end before this goes on.
            let _ = unsafe { ring.write_with_extras(call, ctx, args, stack) };
        } else if let Some(reading) = self.clock().enter(token) {
            let ctx = CpuContext {
                token,
                clock: || reading.now(),
                state: AtEntry(registers),
            };
            // SAFETY:
            // - The ring is this CPU's, on which the thread stays: `token` proves that preemption
            //   is off.
            // - What interrupts this runs to its end before this goes on.
            let _ = unsafe { ring.write_with_extras(call, ctx, args, stack) };
        }
    }

    #[inline(always)]
    fn record<C: Fn() -> u64 + Copy>(
        &self,
        token: PreemptOff<'_>,
        site: FunctionEntry<'_>,
        clock: C,
    ) {
        let ring = self.this_ring(token);
        let ctx = CpuContext {
            token,
            clock,
            state: AtEntry(site.registers),
        };
        // SAFETY:
        // - The ring is this CPU's, on which the thread stays: `token` proves that preemption is
        //   off.
        // - What interrupts this runs to its end before this goes on.
        //
        // The outcome is counted in the ring.
        let _ = unsafe { ring.write(site.call, ctx) };
    }
}

impl EntryHandler for Recorder {
    #[inline(always)]
    fn entered(&self, site: FunctionEntry<'_>) {
        if self.flags() != 0 {
            // Both are looked at again there.
            if self.knows_outsider() || self.flags() & Self::SHUT != 0 {
                return;
            }
            return Self::entered_with_flags(site.call, self, site.registers);
        }
        let guard = PreemptGuard::new();
        self.record(guard.token(), site, cycles);
    }
}
