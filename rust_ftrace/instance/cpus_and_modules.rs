// SPDX-License-Identifier: GPL-2.0

//! Handlers of an instance for CPUs and modules that come and go.

use core::ops::Range;

use kernel::cpu::CpuId;
use kernel::prelude::*;

use super::{Control, Instance};
use crate::engine::catalog::Catalog;

impl Instance {
    /// Waits for the irq_works of a CPU that is going, and that serves no more of them.
    pub(crate) fn going(&self, _cpu: CpuId) {
        // All wakers are waited for, that of this CPU too.
        self.recording.budget.settle();
        self.commands.handler().requests().settle();
    }

    /// Does what was requested on `cpu` while it served no irq_works.
    pub(crate) fn hand_on(&self, cpu: CpuId) {
        self.recording.waker(Some(cpu)).wake();
        if self.recording.budget.stopped().is_some() {
            self.recording.wake_readers();
        }
        self.commands.handler().requests().hand_on();
    }

    /// Prepares for `cpu`, which is coming online.
    pub(crate) fn prepare(&self, cpu: CpuId) {
        let result = self
            .recording
            .buffers
            .lock()
            .make_for(cpu, self.recording.hook.handler());
        if result.is_err() {
            pr_warn!(
                "no memory for the buffer of CPU {}: it is not traced\n",
                cpu.as_u32()
            );
        }
        if self
            .profiling
            .profile
            .lock()
            .make_for(cpu, &self.profiling.profiler)
            .is_err()
        {
            pr_warn!(
                "no memory for the profile of CPU {}: calls on it are not counted\n",
                cpu.as_u32()
            );
        }
    }

    /// Hooks the functions of module `name`, which are in their place and can be traced; none has
    /// run yet.
    pub(crate) fn loads(&self, name: &[u8]) {
        let mut control = self.control.lock();
        if !control.settings.lists.wait_for(name) {
            return;
        }
        self.machine.forget_catalog();
        let result = control.change(self, |settings| {
            let resolve = |catalog: &Catalog| Ok(settings.lists.resolve(name, catalog)?);
            self.machine.with_catalog(resolve)
        });
        if let Err(error) = result {
            control.is_behind = true;
            pr_warn!("functions of a new module are not traced: {error:?}\n");
        }
    }

    /// Notes that the functions at addresses `text` go. To be called while they still have names.
    pub(crate) fn profile_forgets(&self, text: &[Range<usize>]) {
        // A change that has the lock may be about to give them numbers.
        let _control = self.control.lock();
        self.profiling.forget(&self.machine, text);
    }

    /// Forgets the functions at addresses `init`, which go as their module is loaded.
    pub(crate) fn coming(&self, init: &Range<usize>) {
        let mut control = self.control.lock();
        // Their memory will be freed.
        self.forget_functions(&mut control, core::slice::from_ref(init));
    }

    /// Forgets the functions at addresses `text`, whose module is being removed.
    pub(crate) fn module_going(&self, text: &[Range<usize>]) {
        self.forget_functions(&mut self.control.lock(), text);
    }

    /// Unhooks the functions at addresses `text`, and hooks those that came. The kernel unhooks
    /// what goes, so that a failure for want of memory does no harm.
    fn forget_functions(&self, control: &mut Control, text: &[Range<usize>]) {
        let mut found = control.settings.needs_news() || control.is_behind;
        for range in text {
            found |= control.settings.forget(range);
        }
        if !found {
            return;
        }
        if let Err(error) = control.catch_up(self, text) {
            text.iter().for_each(|range| control.plan.forget(range));
            pr_warn!("functions of a module are not traced until the next change: {error:?}\n");
        }
    }
}
