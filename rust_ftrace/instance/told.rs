// SPDX-License-Identifier: GPL-2.0

//! CPUs and modules that come and go, and what an instance does then.

use core::ops::Range;

use kernel::cpu::CpuId;
use kernel::prelude::*;

use super::Instance;

impl Instance {
    /// A CPU is going, and serves no irq_works any more: those that it was given are waited for.
    pub(crate) fn going(&self, _cpu: CpuId) {
        // (all wakers, that of this CPU too)
        self.budget.settle();
        self.commands.handler().requests().settle();
    }

    /// Does what was asked for on `cpu` while it served no irq_works.
    pub(crate) fn hand_on(&self, cpu: CpuId) {
        self.waker(Some(cpu)).wake();
        if self.budget.stopped().is_some() {
            self.wake_readers();
        }
        self.commands.handler().requests().hand_on();
    }

    /// `cpu` is coming online.
    pub(crate) fn prepare(&self, cpu: CpuId) {
        let result = self.buffers.lock().make_for(cpu, self.hook.handler());
        if result.is_err() {
            pr_warn!(
                "no memory for the buffer of CPU {}: it is not traced\n",
                cpu.as_u32()
            );
        }
        if self.profile.lock().make_for(cpu, &self.profiler).is_err() {
            pr_warn!(
                "no memory for the profile of CPU {}: calls on it are not counted\n",
                cpu.as_u32()
            );
        }
    }

    /// The functions of module `name` are in their place, and can be traced; none has run yet.
    pub(crate) fn loads(&self, name: &[u8]) {
        if let Err(error) = self.resolve_pending(name) {
            pr_warn!("functions of a new module are not traced: {error:?}\n");
        }
    }

    /// A module is loaded; its functions for that, at addresses `init`, go.
    pub(crate) fn coming(&self, init: &Range<usize>) {
        let mut control = self.control.lock();
        // (these will be freed)
        let mut found = control.lists.forget(init);
        found |= self.forget_probes(&mut control, init);
        if found || control.lists.needs_news(control.tracer) {
            let result = self.rearm(&mut control);
            if let Err(error) = result {
                pr_warn!("functions of a new module are not traced: {error:?}\n");
            }
        }
        self.profile_news(&mut control);
    }

    /// The module whose functions lie at addresses `text` is being removed.
    pub(crate) fn module_going(&self, text: &[Range<usize>]) {
        let mut control = self.control.lock();
        let mut found = control.lists.needs_news(control.tracer);
        for range in text {
            found |= control.lists.forget(range);
            found |= self.forget_probes(&mut control, range);
        }
        if found {
            let result = self.rearm(&mut control);
            if let Err(error) = result {
                pr_warn!("functions of a removed module are still in the filter: {error:?}\n");
            }
        }
        if let Err(error) = self.arm_profile(&mut control) {
            pr_warn!("functions of a removed module are still profiled: {error:?}\n");
        }
    }
}
