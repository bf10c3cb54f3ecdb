// SPDX-License-Identifier: GPL-2.0

//! Files that are about events in tracefs. There are none here that could be switched on, and that
//! is what these say.

use kernel::prelude::*;

use super::attribute::Attribute;
use super::context::FileContext;
use super::pids::Pids;
use crate::engine::filter::words;
use crate::engine::pids::PidSetError;
use crate::engine::set_event::is_all_off;

/// A file that lists what there is none of: `available_events`, `printk_formats` and the like.
pub(super) struct Nothing;

impl Attribute for Nothing {}

/// `set_event`.
pub(super) struct SetEvent;

impl Attribute for SetEvent {
    /// Events that there are not can be switched off all together, but neither on nor one by one.
    fn store(context: &FileContext, value: &[u8]) -> Result {
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

/// `set_event_notrace_pid` if `LEFT_OUT`, otherwise `set_event_pid`.
pub(super) struct EventPid<const LEFT_OUT: bool>;

impl<const LEFT_OUT: bool> Pids for EventPid<LEFT_OUT> {
    fn edit(context: &FileContext, text: &[u8], replace: bool) -> Result {
        let file = match LEFT_OUT {
            true => "set_event_notrace_pid",
            false => "set_event_pid",
        };
        match (context.event_pids).edit(LEFT_OUT.into(), text, replace) {
            Ok(()) => Ok(()),
            Err(PidSetError::NoMemory) => Err(ENOMEM),
            Err(PidSetError::Word(at, refusal)) => {
                let word = text.get(at..).unwrap_or_default();
                context.instance.errors().log(file, refusal.text(), word);
                Err(EINVAL)
            }
        }
    }

    fn next(context: &FileContext, from: u32) -> Option<u32> {
        context.event_pids.next(LEFT_OUT.into(), from)
    }
}
