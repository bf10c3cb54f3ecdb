// SPDX-License-Identifier: GPL-2.0

//! Files that are about events in tracefs. There are none here that could be switched on, and that is what these say.

use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use super::pid::Pids;
use super::small::Small;
use super::Context;
use crate::engine::filter::words;
use crate::engine::pid_set::{Failure, PidSet};
use crate::engine::set_event::is_all_off;

/// A file that lists what there is none of: `available_events`, `printk_formats` and the like.
pub(super) struct Nothing;

impl Small for Nothing {}

/// `set_event`.
pub(super) struct SetEvent;

impl Small for SetEvent {
    /// Events that there are not can be switched off all together, but neither on nor one by one.
    fn store(context: &Context, value: &[u8]) -> Result {
        match words(value).find(|(_, word)| !is_all_off(word)) {
            None => Ok(()),
            Some((_, word)) => {
                let reason = "There are no events that could be switched on or off";
                context.instance.errors().log("set_event", reason, word);
                Err(EINVAL)
            }
        }
    }
}

/// The process IDs in `set_event_pid` and `set_event_notrace_pid`, which nothing looks at.
///
/// The lock is taken last: nothing else is locked with it held.
pub(super) struct EventPids(Pin<KBox<Mutex<[Option<PidSet>; 2]>>>);

impl EventPids {
    /// None yet, and no memory for any.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new() -> Result<Arc<Self>> {
        let lists = KBox::pin_init(new_mutex!([const { None }; 2]), GFP_KERNEL)?;
        Ok(Arc::new(Self(lists), GFP_KERNEL)?)
    }

    fn edit(&self, list: usize, text: &[u8], replace: bool) -> Result<(), Failure> {
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

    fn next(&self, list: usize, from: u32) -> Option<u32> {
        self.0.lock().get(list)?.as_ref()?.next(from)
    }
}

/// `set_event_notrace_pid` if `LEFT_OUT`, otherwise `set_event_pid`.
pub(super) struct EventPid<const LEFT_OUT: bool>;

impl<const LEFT_OUT: bool> Pids for EventPid<LEFT_OUT> {
    fn edit(context: &Context, text: &[u8], replace: bool) -> Result {
        let file = match LEFT_OUT {
            true => "set_event_notrace_pid",
            false => "set_event_pid",
        };
        match (context.event_pids).edit(LEFT_OUT.into(), text, replace) {
            Ok(()) => Ok(()),
            Err(Failure::NoMemory) => Err(ENOMEM),
            Err(Failure::Word(at, refusal)) => {
                let word = text.get(at..).unwrap_or_default();
                context.instance.errors().log(file, refusal.text(), word);
                Err(EINVAL)
            }
        }
    }

    fn next(context: &Context, from: u32) -> Option<u32> {
        context.event_pids.next(LEFT_OUT.into(), from)
    }
}
