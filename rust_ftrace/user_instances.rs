// SPDX-License-Identifier: GPL-2.0

//! The instances that users make in `instances/`, each with its directory.

use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::{new_mutex, Arc, Mutex};

use crate::files::InstanceDirectory;
use crate::instance::{Instance, Instances};
use crate::sys::private::subdirectories::{Parent, Subdirectories};
use crate::sys::{cpu, dead_ftrace};

/// An instance that a user made.
struct Named {
    name: CString,
    number: u64,
    // Before the instance, as its files go first.
    directory: InstanceDirectory,
    instance: Arc<Instance>,
}

/// The instances that users made.
///
/// `named` is held while directories are made and removed. It is taken before the locks of an
/// instance.
#[pin_data]
pub(crate) struct UserInstances {
    all: Arc<Instances>,
    #[pin]
    named: Mutex<KVec<Named>>,
}

impl UserInstances {
    /// None yet.
    pub(crate) fn new(all: Arc<Instances>) -> impl PinInit<Self> {
        pin_init!(Self {
            all,
            named <- new_mutex!(KVec::new()),
        })
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
        self.all.tell_no_more(number);
        // A watcher of CPUs may have known of it still, and is not to be the one that frees it.
        drop(cpu::ReadLock::new());
        if dead_ftrace::is_known() {
            self.all.leave(instance);
        }
    }
}

// SAFETY: On return of `remove_all` nothing is left of what `make` made: that is the trees of the
// directories in `named`, each of which is removed as it is taken from there.
unsafe impl Subdirectories for UserInstances {
    fn make(&self, parent: Parent<'_>, name: &CStr) -> Result {
        let mut named = self.named.lock();
        if named.iter().any(|other| *other.name == *name) {
            return Err(EEXIST);
        }
        named.reserve(1, GFP_KERNEL)?;
        let name = CString::try_from(name)?;
        let instance = Arc::pin_init(
            Instance::new(self.all.machine().clone(), CString::try_from(&*name)?)?,
            GFP_KERNEL,
        )?;
        instance.inherit(self.all.top().options())?;
        let number = self.all.tell(&instance)?;
        let directory = InstanceDirectory::inside(parent, &name, &instance).inspect_err(|_| {
            instance.stop();
            self.all.tell_no_more(number);
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
            // The module is not removed while a file is open, so this does not fail.
            let _ = last.instance.users().end();
            self.end(last);
        }
    }
}
