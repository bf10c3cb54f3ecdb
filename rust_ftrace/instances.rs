// SPDX-License-Identifier: GPL-2.0

//! All instances: the top directory's, and those that users make in `instances/`.

use core::ops::Range;

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::{new_mutex, Arc, Mutex};

use crate::files::Directory;
use crate::instance::Instance;
use crate::machine::Machine;
use crate::sys::private::subdirectories::{Parent, Subdirectories};
use crate::sys::{cpu, dead_ftrace, hotplug, lockdep, modules};

/// An instance that a user made.
struct Named {
    name: CString,
    number: u64,
    // (before the instance: its files go first)
    directory: Directory,
    instance: Arc<Instance>,
}

/// The instances that are told of modules and CPUs, beside the top one.
struct Told {
    /// By ascending numbers.
    instances: KVec<(u64, Arc<Instance>)>,
    /// The last one's.
    number: u64,
}

/// All instances.
///
/// Locks are taken in the order `named`, those of an instance and the CPUs', `told`; with that held no other is taken,
/// and nothing is waited for but memory: CPU hotplug takes it. `named` is held while directories are made and removed.
#[pin_data]
pub(crate) struct Instances {
    machine: Arc<Machine>,
    top: Arc<Instance>,
    #[pin]
    named: Mutex<KVec<Named>>,
    #[pin]
    told: Mutex<Told>,
}

impl Instances {
    /// The top one only.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(machine: Arc<Machine>) -> Result<impl PinInit<Self, Error>> {
        let top = Arc::pin_init(Instance::new(machine.clone())?, GFP_KERNEL)?;
        let new = try_pin_init!(Self {
            machine,
            top,
            named <- new_mutex!(KVec::new()),
            told <- new_mutex!(Told {
                instances: KVec::new(),
                number: 0,
            }),
        }? Error);
        Ok(new.pin_chain(|this| {
            lockdep::never_waits_with(|| drop(this.told.lock()));
            Ok(())
        }))
    }

    /// The top directory's.
    pub(crate) fn top(&self) -> &Arc<Instance> {
        &self.top
    }

    /// Calls `user` with each.
    ///
    /// # Errors
    ///
    /// Those of `user`.
    pub(crate) fn try_for_each(&self, mut user: impl FnMut(&Instance) -> Result) -> Result {
        user(&self.top)?;
        let mut last = 0;
        // (one at a time: `user` may wait for CPUs)
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
        let told = self.told.lock();
        let mut instances = told.instances.iter();
        instances.find(|(number, _)| *number > last).cloned()
    }

    /// Has `instance` told of modules and CPUs; its number.
    fn tell(&self, instance: &Arc<Instance>) -> Result<u64> {
        let mut told = self.told.lock();
        told.number += 1;
        let number = told.number;
        told.instances
            .push((number, instance.clone()), GFP_KERNEL)?;
        Ok(number)
    }

    fn tell_no_more(&self, number: u64) {
        let mut told = self.told.lock();
        let place = told
            .instances
            .iter()
            .position(|(other, _)| *other == number);
        let gone = place.and_then(|place| told.instances.remove(place).ok());
        drop(told);
        drop(gone);
    }

    /// Ends an instance that has no users and will have none.
    fn end(&self, named: Named) {
        let Named {
            number,
            directory,
            instance,
            ..
        } = named;
        instance.stop();
        drop(directory);
        self.tell_no_more(number);
        // Who watches CPUs may have known of it still: it does not go in their hands.
        drop(cpu::ReadLock::new());
        if dead_ftrace::is_known() {
            // Hooks may use it still.
            core::mem::forget(instance);
        }
    }
}

// SAFETY: What `make` makes are the trees of the directories in `named`, which `remove_all` empties.
unsafe impl Subdirectories for Instances {
    fn make(&self, parent: Parent<'_>, name: &CStr) -> Result {
        let mut named = self.named.lock();
        if named.iter().any(|other| *other.name == *name) {
            return Err(EEXIST);
        }
        named.reserve(1, GFP_KERNEL)?;
        let name = CString::try_from(name)?;
        let instance = Arc::pin_init(Instance::new(self.machine.clone())?, GFP_KERNEL)?;
        instance.inherit(self.top.options())?;
        let number = self.tell(&instance)?;
        let directory = Directory::inside(parent, &name, &instance).inspect_err(|_| {
            instance.stop();
            self.tell_no_more(number);
        })?;
        let new = Named {
            name,
            number,
            directory,
            instance,
        };
        named.push(new, GFP_KERNEL)?;
        Ok(())
    }

    fn remove(&self, name: &CStr) -> Result {
        let mut named = self.named.lock();
        let place = named.iter().position(|other| *other.name == *name);
        let place = place.ok_or(ENOENT)?;
        if let Some(found) = named.get(place) {
            found.instance.users().end()?;
        }
        self.end(named.remove(place).map_err(|_| ENOENT)?);
        Ok(())
    }

    fn remove_all(&self) {
        let mut named = self.named.lock();
        while let Some(last) = named.pop() {
            // (the module is not removed while a file is open)
            let _ = last.instance.users().end();
            self.end(last);
        }
    }
}

impl hotplug::Watch for Instances {
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

impl modules::Watch for Instances {
    fn loads(&self, name: &[u8], text: &[Range<usize>]) {
        self.machine.module_loads(text);
        self.for_each(|instance| instance.loads(name));
    }

    fn coming(&self, init: &Range<usize>) {
        self.for_each(|instance| instance.profile_forgets(core::slice::from_ref(init)));
        self.machine.forget_catalog();
        self.for_each(|instance| instance.coming(init));
    }

    fn going(&self, text: &[Range<usize>]) {
        // (while they have names)
        self.for_each(|instance| instance.profile_forgets(text));
        // (before an instance's lock is taken: who hooks functions from here on does not see them)
        self.machine.module_leaves(text);
        // (what was armed in between)
        self.for_each(|instance| instance.profile_forgets(text));
        self.for_each(|instance| instance.module_going(text));
    }
}
