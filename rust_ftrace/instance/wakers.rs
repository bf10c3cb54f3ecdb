// SPDX-License-Identifier: GPL-2.0

//! Waking, the wakers of an instance: one for the readers of each CPU, and one for those of all.

use kernel::cpu::{nr_cpu_ids, CpuId};
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::tracer::waker::Waker;

/// The wakers of an instance.
pub(crate) struct Wakers {
    pub(super) cpus: KVec<Arc<Waker>>,
    pub(super) all: Arc<Waker>,
    /// The number of open files that wait for the next event.
    pub(super) waiting: usize,
}

impl Wakers {
    /// Creates wakers that no reader waits for.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new() -> Result<Self> {
        let all = Waker::new(None)?;
        let mut cpus = KVec::with_capacity(nr_cpu_ids() as usize, GFP_KERNEL)?;
        for _ in 0..nr_cpu_ids() {
            cpus.push(Waker::new(Some(all.clone()))?, GFP_KERNEL)?;
        }
        Ok(Self {
            cpus,
            all,
            waiting: 0,
        })
    }

    /// Returns the wakers of all CPUs.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn every(&self) -> Result<KVec<Arc<Waker>>> {
        let mut every = KVec::with_capacity(self.cpus.len(), GFP_KERNEL)?;
        for waker in &self.cpus {
            every.push(waker.clone(), GFP_KERNEL)?;
        }
        Ok(every)
    }

    /// Returns the waker of `cpu`, or of all.
    pub(super) fn of(&self, cpu: Option<CpuId>) -> &Arc<Waker> {
        cpu.and_then(|cpu| self.cpus.get(cpu.as_u32() as usize))
            .unwrap_or(&self.all)
    }
}
