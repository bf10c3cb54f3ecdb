// SPDX-License-Identifier: GPL-2.0

//! Profile, the hooks: registers and removes the probes of calls that are counted.

use kernel::prelude::*;

use crate::engine::plan::ProfiledCalls;
use crate::sys::fprobe::{Fprobes, ProbeChange, RoleFunctions};
use crate::sys::private::FprobeNumber;
use crate::sys::sched_switch::Switches;
use crate::tracer::own_call;
use crate::tracer::profile::{Began, Nested, Profiler};

/// The profiler's hooks; one kind is in use at a time.
pub(crate) struct ProfileHooks {
    plain: Fprobes<Profiler, Began>,
    nested: Fprobes<Profiler, Nested>,
    /// The hook of task switches, which measures for how long tasks do not run.
    switches: Switches<Profiler>,
}

/// A prepared change of the profiler's hooks.
#[must_use]
pub(crate) struct ProfileChange {
    plain: ProbeChange<Profiler, Began>,
    nested: ProbeChange<Profiler, Nested>,
    takes_sleep: bool,
    /// The change has task switches hooked, which were not hooked before.
    hears_switches: bool,
}

impl ProfileHooks {
    /// Creates hooks that hook nothing.
    pub(crate) const fn new() -> Self {
        Self {
            plain: Fprobes::new(),
            nested: Fprobes::new(),
            switches: Switches::new(),
        }
    }

    /// Returns the number of calls that could ever not be watched.
    pub(crate) fn missed(&self) -> u64 {
        self.plain.missed().wrapping_add(self.nested.missed())
    }

    /// Unhooks all. Needs no memory.
    pub(crate) fn clear(&mut self) {
        self.plain.clear();
        self.nested.clear();
        self.switches.clear();
    }

    /// Prepares to hook the calls of `counted`, and no others.
    ///
    /// # Errors
    ///
    /// Those of [`Fprobes::prepare`], [`Switches::call`] and [`own_call::need_shadow_stacks`];
    /// nothing is changed then.
    ///
    /// # Safety
    ///
    /// `profiler` stays valid until all is unhooked, by [`Self::clear`] or as this is dropped.
    pub(crate) unsafe fn prepare(
        &mut self,
        numbers: &mut FprobeNumber,
        profiler: &Profiler,
        counted: &ProfiledCalls,
    ) -> Result<ProfileChange> {
        let ips = counted.functions.as_slice();
        let is_nested = counted.without_calls || counted.without_sleep;
        if is_nested {
            own_call::need_shadow_stacks(numbers)?;
        }
        let groups = |wanted: bool| {
            let ips = if wanted { ips } else { &[] };
            [RoleFunctions { role: (), ips }]
        };
        let takes_sleep = counted.without_sleep;
        let hears_switches = takes_sleep && !self.switches.is_on();
        if hears_switches {
            // SAFETY: The profiler stays valid until all is unhooked, by caller precondition,
            // `switches` among it.
            unsafe { self.switches.call(profiler)? };
        }
        // SAFETY: The profiler stays valid until all is unhooked, by caller precondition.
        let plain = unsafe { (self.plain).prepare(numbers, profiler, &groups(!is_nested), false) };
        let plain = plain.inspect_err(|_| self.hear_no_more(hears_switches))?;
        // SAFETY: The profiler stays valid until all is unhooked, by caller precondition.
        let nested = unsafe { (self.nested).prepare(numbers, profiler, &groups(is_nested), false) };
        match nested {
            Ok(nested) => Ok(ProfileChange {
                plain,
                nested,
                takes_sleep,
                hears_switches,
            }),
            Err(error) => {
                self.plain.give_up(plain);
                self.hear_no_more(hears_switches);
                Err(error)
            }
        }
    }

    fn hear_no_more(&mut self, is_meant: bool) {
        if is_meant {
            self.switches.clear();
        }
    }

    /// Has the new probes call their handlers, and the old ones no more: see [`Fprobes::turn`].
    pub(crate) fn turn(&self, change: &ProfileChange) {
        self.plain.turn(&change.plain);
        self.nested.turn(&change.nested);
    }

    /// Ends a change after its [`Self::turn`]. Needs no memory.
    pub(crate) fn finish(&mut self, change: ProfileChange) {
        self.plain.finish(change.plain);
        self.nested.finish(change.nested);
        if !change.takes_sleep {
            self.switches.clear();
        }
    }

    /// Takes back a prepared change. Needs no memory.
    pub(crate) fn give_up(&mut self, change: ProfileChange) {
        self.plain.give_up(change.plain);
        self.nested.give_up(change.nested);
        self.hear_no_more(change.hears_switches);
    }
}

impl ProfileChange {
    /// Returns whether functions may go from one hook to another.
    pub(crate) fn is_exchange(&self) -> bool {
        let (plain, nested) = (&self.plain, &self.nested);
        let goes = plain.has_old() || nested.has_old();
        goes && (plain.has_new() || nested.has_new())
    }
}
