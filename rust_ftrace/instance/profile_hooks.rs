// SPDX-License-Identifier: GPL-2.0

//! The hooks of an instance's profile.

use kernel::prelude::*;

use crate::sys::fgraph::Numbers;
use crate::sys::fprobe::{Group, Probes};
use crate::sys::sched_switch::Switches;
use crate::tracer::profile::{Began, Nested, Profiler, Without};

/// The profiler's hooks: one kind of them at a time.
pub(super) struct ProfileHooks {
    pub(super) on: bool,
    plain: Probes<Profiler, Began>,
    nested: Probes<Profiler, Nested>,
    /// Measures for how long tasks do not run.
    switches: Switches<Profiler>,
    /// Calls that had been missed when counting began.
    pub(super) missed_before: u64,
}

impl ProfileHooks {
    pub(super) const fn new() -> Self {
        Self {
            on: false,
            plain: Probes::new(),
            nested: Probes::new(),
            switches: Switches::new(),
            missed_before: 0,
        }
    }

    /// Returns whether calls are being counted.
    pub(super) fn is_on(&self) -> bool {
        self.on
    }

    /// Calls that could not be watched, ever.
    pub(super) fn missed(&self) -> u64 {
        self.plain.missed().wrapping_add(self.nested.missed())
    }

    /// Unhooks all.
    pub(super) fn clear(&mut self) {
        self.plain.clear();
        self.nested.clear();
        self.switches.clear();
    }

    /// Hooks `ips`, and no others, so that nothing of [`Without`] counts.
    ///
    /// # Errors
    ///
    /// All that was hooked is still. Those of [`Probes::trace`].
    ///
    /// # Safety
    ///
    /// As for [`Probes::trace`].
    pub(super) unsafe fn trace(
        &mut self,
        numbers: &mut Numbers,
        profiler: &Profiler,
        ips: &[usize],
        without: u64,
    ) -> Result {
        let groups = [Group { role: (), ips }];
        if without & Without::Sleep as u64 != 0 {
            // SAFETY: The caller promises that the profiler stays.
            unsafe { self.switches.call(profiler)? };
        }
        // Of a call that is hooked both ways for a moment, one of them tells.
        if without == 0 {
            self.nested.silence(true);
            // SAFETY: The caller's obligations are the same.
            let result = unsafe { self.plain.trace(numbers, profiler, &groups) };
            if result.is_err() {
                self.nested.silence(false);
                return result;
            }
            self.nested.clear();
        } else {
            self.plain.silence(true);
            // SAFETY: The caller's obligations are the same.
            let result = unsafe { self.nested.trace(numbers, profiler, &groups) };
            if result.is_err() {
                self.plain.silence(false);
                return result;
            }
            self.plain.clear();
        }
        if without & Without::Sleep as u64 == 0 {
            self.switches.clear();
        }
        Ok(())
    }
}
