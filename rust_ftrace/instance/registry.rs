// SPDX-License-Identifier: GPL-2.0

//! The registry of all instances, which are notified of modules and CPUs.

use core::ops::Range;

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::{new_mutex, Arc, Mutex};

use super::Instance;
use crate::machine::Machine;
use crate::sys::{hotplug, lockdep, modules};

/// The instances that are notified of modules and CPUs, beside the top one.
struct NotifiedInstances {
    /// The instances by ascending numbers.
    instances: KVec<(u64, Arc<Instance>)>,
    /// The number of the last instance.
    number: u64,
}

/// All instances.
///
/// `notified` is taken after the locks of an instance and the CPUs'; with it held no other is
/// taken, and nothing is waited for but memory: CPU hotplug takes it. `left` is taken after all
/// others, likewise.
#[pin_data]
pub(crate) struct Instances {
    machine: Arc<Machine>,
    top: Arc<Instance>,
    #[pin]
    notified: Mutex<NotifiedInstances>,
    /// Instances that were removed, and that hooks may still use, as ftrace is dead. The module is
    /// not removed then, so these are never dropped.
    #[pin]
    left: Mutex<KVec<Arc<Instance>>>,
}

impl Instances {
    /// Creates the registry with the top instance only.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(machine: Arc<Machine>) -> Result<impl PinInit<Self, Error>> {
        let top = Arc::pin_init(
            Instance::new(machine.clone(), CString::try_from(c"")?)?,
            GFP_KERNEL,
        )?;
        let new = try_pin_init!(Self {
            machine,
            top,
            notified <- new_mutex!(NotifiedInstances {
                instances: KVec::new(),
                number: 0,
            }),
            left <- new_mutex!(KVec::new()),
        }? Error);
        Ok(new.pin_chain(|this| {
            lockdep::never_waits_with(|| drop(this.notified.lock()));
            Ok(())
        }))
    }

    /// Keeps an instance for good that hooks may still use, as ftrace is dead.
    pub(crate) fn leave(&self, instance: Arc<Instance>) {
        if self.left.lock().push(instance.clone(), GFP_KERNEL).is_err() {
            // It stays without memory for a reference, too.
            core::mem::forget(instance);
        }
    }

    /// Returns the machine that the instances run on.
    pub(crate) fn machine(&self) -> &Arc<Machine> {
        &self.machine
    }

    /// Returns the instance of the top directory.
    pub(crate) fn top(&self) -> &Arc<Instance> {
        &self.top
    }

    /// Returns all instances there are now, the top one first.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn all(&self) -> Result<KVec<Arc<Instance>>> {
        let mut all = KVec::new();
        all.push(self.top.clone(), GFP_KERNEL)?;
        let mut last = 0;
        while let Some((number, instance)) = self.after(last) {
            all.push(instance, GFP_KERNEL)?;
            last = number;
        }
        Ok(all)
    }

    /// Calls `user` with each instance.
    ///
    /// # Errors
    ///
    /// Those of `user`.
    pub(crate) fn try_for_each(&self, mut user: impl FnMut(&Instance) -> Result) -> Result {
        user(&self.top)?;
        let mut last = 0;
        // Instances are taken one at a time, as `user` may wait for CPUs.
        while let Some((number, instance)) = self.after(last) {
            user(&instance)?;
            last = number;
        }
        Ok(())
    }

    fn for_each(&self, user: impl Fn(&Instance)) {
        let _ = self.try_for_each(|instance| {
            user(instance);
            Ok(())
        });
    }

    fn after(&self, last: u64) -> Option<(u64, Arc<Instance>)> {
        let notified = self.notified.lock();
        let mut instances = notified.instances.iter();
        instances.find(|(number, _)| *number > last).cloned()
    }

    /// Has `instance` notified of modules and CPUs, and returns its number.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn tell(&self, instance: &Arc<Instance>) -> Result<u64> {
        let mut notified = self.notified.lock();
        notified.number += 1;
        let number = notified.number;
        notified
            .instances
            .push((number, instance.clone()), GFP_KERNEL)?;
        Ok(number)
    }

    /// Has the instance of that number notified no more.
    pub(crate) fn tell_no_more(&self, number: u64) {
        let mut notified = self.notified.lock();
        let place = notified
            .instances
            .iter()
            .position(|(other, _)| *other == number);
        let gone = place.and_then(|place| notified.instances.remove(place).ok());
        drop(notified);
        drop(gone);
    }
}

impl hotplug::CpuWatcher for Instances {
    fn prepare(&self, cpu: CpuId) {
        self.for_each(|instance| instance.prepare(cpu));
    }

    fn online(&self, cpu: CpuId) {
        self.for_each(|instance| instance.hand_on(cpu));
    }

    fn going(&self, cpu: CpuId) {
        self.for_each(|instance| instance.going(cpu));
    }

    fn gone(&self, cpu: CpuId) {
        self.for_each(|instance| instance.hand_on(cpu));
    }
}

impl modules::ModuleWatcher for Instances {
    fn loads(&self, name: &[u8], text: &[Range<usize>]) {
        self.machine.module_loads(name, text);
        self.for_each(|instance| instance.loads(name));
    }

    fn coming(&self, init: &Range<usize>) {
        self.for_each(|instance| instance.profile_forgets(core::slice::from_ref(init)));
        // Before an instance's lock is taken, as below.
        self.machine.module_loaded(init);
        self.for_each(|instance| instance.coming(init));
    }

    fn going(&self, name: &[u8], text: &[Range<usize>]) {
        // The functions still have names here.
        self.for_each(|instance| instance.profile_forgets(text));
        // This comes before an instance's lock is taken: changes from here on do not see the
        // functions.
        self.machine.module_leaves(name, text);
        // The profile may have been armed with them in between.
        self.for_each(|instance| instance.profile_forgets(text));
        self.for_each(|instance| instance.module_going(text));
    }
}
