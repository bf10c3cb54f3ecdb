// SPDX-License-Identifier: GPL-2.0

//! Process IDs, the lists of events: they are kept only for programs that read them back.

use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use crate::engine::pids::{PidSet, PidSetError};

/// The process IDs in `set_event_pid` and `set_event_notrace_pid`, which have no effect.
///
/// The lock is taken last: nothing else is locked with it held.
pub(super) struct EventPids(Pin<KBox<Mutex<[Option<PidSet>; 2]>>>);

impl EventPids {
    /// Makes empty lists, without memory for IDs.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new() -> Result<Arc<Self>> {
        let lists = KBox::pin_init(new_mutex!([const { None }; 2]), GFP_KERNEL)?;
        Ok(Arc::new(Self(lists), GFP_KERNEL)?)
    }

    pub(super) fn edit(&self, list: usize, text: &[u8], replace: bool) -> Result<(), PidSetError> {
        let mut lists = self.0.lock();
        let Some(place) = lists.get_mut(list) else {
            return Ok(());
        };
        let new = match &*place {
            Some(old) => old.edited(text, replace)?,
            None => PidSet::new()?.edited(text, replace)?,
        };
        *place = (!new.is_empty()).then_some(new);
        Ok(())
    }

    pub(super) fn next(&self, list: usize, from: u32) -> Option<u32> {
        self.0.lock().get(list)?.as_ref()?.next(from)
    }
}
