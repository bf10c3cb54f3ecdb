// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Frames: the calls that are open on one stack, as far as entries tell.

use super::call_sites::{enters, is_location, CallSites, CodeRole, FunctionCode};
use super::context::{is_deeper, STACK_BITS};
use super::decode::Event;
use crate::platform::{AllocError, Vec};

/// Most calls that are open on one stack. As many as the largest stack has room for, at the least
/// that a call takes, are never seen.
const MAX_FRAMES: usize = 1024;

/// Most arguments that a function gets on the stack, each of which takes one unit of the offset.
const MAX_ARGUMENTS: u16 = 8;

/// Greatest distance between the heights at which two system calls begin:
/// CONFIG_RANDOMIZE_KSTACK_OFFSET takes up to 1 KiB.
const MAX_RANDOM: u16 = 1024 / 8;

/// The bits of a stack offset, as a mask.
const OFFSETS: u16 = (1 << STACK_BITS) - 1;

/// An open call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// The function.
    pub(super) ip: u64,
    /// The address that it returns to.
    pub(super) parent_ip: u64,
    /// Begin of the function that it was called from, 0 if that is not known.
    pub(super) caller: u64,
    /// Stack offset at which `parent_ip` lies.
    pub(super) offset: u16,
    /// See [`ContextWord::entry_tag`](super::context::ContextWord::entry_tag).
    pub(super) entry_tag: u8,
    /// The function was jumped to, so `parent_ip` is not the place that it was called from.
    is_jump: bool,
    /// It was entered on another stack than its caller, so `offset` is assumed, not read.
    is_elsewhere: bool,
}

impl Frame {
    /// Makes the call that `event` is the entry of, made from `caller`.
    pub(super) fn new(event: &Event, caller: &FunctionCode) -> Self {
        let is_jump = caller.role == CodeRole::ReturnHook;
        Self {
            ip: event.ip,
            parent_ip: event.parent_ip,
            // All functions that were jumped to have the hook in common.
            caller: if is_jump { 0 } else { caller.start },
            is_jump,
            offset: event.context.stack_offset(),
            entry_tag: event.context.entry_tag(),
            is_elsewhere: false,
        }
    }
}

impl Frame {
    /// Returns whether it has the return address of `open`, at that one's place on the stack.
    fn is_at(&self, open: &Self) -> bool {
        self.offset == open.offset && (self.parent_ip == open.parent_ip || self.is_jump)
    }
}

/// The caller of a call, as far as it is known before it is compared with those that are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// The caller is open: the innermost call of its function, at this place.
    Open(usize),
    /// The caller is open at this place, and the entry is on another stack than that call.
    Elsewhere(usize),
    /// The caller is not open, and neither is any call: all that were have returned.
    Nothing,
    /// The caller is not open, and the rest follows from the places of the calls on the stack.
    Hidden,
}

/// The open calls of one stack, outermost first.
///
/// # Invariants
///
/// None lies deeper in the stack than the one after it.
pub(super) struct Frames {
    frames: Vec<Frame>,
    /// Depth of the outermost call, which is not 0 if a call of another stack has made it.
    base: usize,
    /// The stack can be entered at another height each time.
    has_random_height: bool,
}

impl Frames {
    pub(super) const fn new(has_random_height: bool) -> Self {
        Self {
            frames: Vec::new(),
            base: 0,
            has_random_height,
        }
    }

    pub(super) fn clear(&mut self) {
        self.frames.clear();
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frames.is_empty()
    }

    /// Returns the depth of the call at `index`.
    pub(super) fn depth(&self, index: usize) -> usize {
        self.base.wrapping_add(index)
    }

    /// Returns the place of the innermost open call of the function that begins at `start` with a
    /// return address above `offset`, and the distance.
    ///
    /// There was an entry each time that the function was entered, so if it runs, it is in this
    /// call.
    pub(super) fn find_above(&self, start: u64, offset: u16) -> Option<(usize, u16)> {
        let index = self
            .frames
            .iter()
            .rposition(|open| is_location(open.ip, start) && is_deeper(offset, open.offset))?;
        let distance = self.frames.get(index)?.offset.wrapping_sub(offset) & OFFSETS;
        Some((index, distance))
    }

    /// Returns the place of the innermost open call of the function that begins at `start`, at any
    /// offset.
    pub(super) fn find(&self, start: u64) -> Option<usize> {
        (self.frames.iter()).rposition(|open| is_location(open.ip, start))
    }

    /// Returns the place of the call that the scheduler was entered from, if the scheduler has
    /// called anything since.
    pub(super) fn find_scheduling(&self, sites: &mut impl CallSites) -> Option<usize> {
        let mut by_scheduler = |open: &Frame| sites.code(open.caller).role == CodeRole::Scheduler;
        let called = self.frames.iter().rposition(&mut by_scheduler)?;
        called.checked_sub(1)
    }

    /// Returns the depth of `call`, if the innermost open call has jumped there.
    pub(super) fn depth_after_jump(
        &self,
        call: &Frame,
        sites: &mut impl CallSites,
    ) -> Option<usize> {
        let others = self.frames.iter().rposition(|open| !call.is_at(open));
        let callers = others.map_or(0, |index| index.wrapping_add(1));
        (self.left_by_jump(callers, call, sites) != 0).then(|| self.depth(self.frames.len()))
    }

    /// Enters `call`, and returns its depth. The depth of an outermost call is `base`.
    pub(super) fn enter(
        &mut self,
        mut call: Frame,
        caller: Caller,
        base: usize,
        sites: &mut impl CallSites,
    ) -> Result<usize, AllocError> {
        let callers = match caller {
            Caller::Open(index) | Caller::Elsewhere(index) => index.saturating_add(1),
            Caller::Nothing => 0,
            Caller::Hidden => self.callers_by_offset(&call, sites),
        };
        let kept = callers.saturating_add(self.left_by_jump(callers, &call, sites));
        self.truncate(kept.min(MAX_FRAMES - 1));
        match self.frames.last() {
            None => self.base = base,
            // INVARIANT: The call is given the offset right below its caller.
            Some(last) if matches!(caller, Caller::Elsewhere(_)) => {
                call.offset = last.offset.wrapping_sub(1) & OFFSETS;
                call.is_elsewhere = true;
            }
            _ => {}
        }
        self.frames.push(call)?;
        Ok(self.depth(self.frames.len().saturating_sub(1)))
    }

    fn truncate(&mut self, length: usize) {
        while self.frames.len() > length {
            self.frames.pop();
        }
    }

    /// Returns the number of open calls that are callers of `call`, whose own caller is not open.
    fn callers_by_offset(&self, call: &Frame, sites: &mut impl CallSites) -> usize {
        let Some(outermost) = self.frames.first() else {
            return 0;
        };
        // This is another system call, at another random height of the stack.
        let is_anew = outermost.entry_tag != call.entry_tag
            || (outermost.parent_ip == call.parent_ip
                && outermost.offset != call.offset
                && outermost.offset.wrapping_sub(call.offset) & OFFSETS <= MAX_RANDOM);
        if self.has_random_height && is_anew {
            return 0;
        }
        // Calls whose return address lay where the new one is, or deeper, have returned.
        let here = self.frames.iter().take_while(|open| !open.is_elsewhere);
        let open = self.frames.get(..here.count()).unwrap_or_default();
        let deeper = open
            .iter()
            .rposition(|open| is_deeper(call.offset, open.offset));
        let callers = deeper.map_or(0, |index| index.wrapping_add(1));
        // So have calls that the hidden caller made with fewer arguments on the stack.
        let same_caller = |open: &Frame| {
            call.caller != 0
                && open.caller == call.caller
                && open.offset.wrapping_sub(call.offset) & OFFSETS <= MAX_ARGUMENTS
        };
        let open = self.frames.get(..callers).unwrap_or_default();
        if let Some(index) = open.iter().rposition(same_caller) {
            return index;
        }
        // The innermost call that calls the hidden caller itself, if there is one, is the last of
        // its callers.
        let calls = |open: &Frame| call.caller != 0 && sites.calls(open.ip, call.caller);
        match open.iter().rposition(calls) {
            Some(index) => index.wrapping_add(1),
            None => callers,
        }
    }

    /// Returns the number of calls behind the first `callers` that have left by a jump, to `call`
    /// in the end: a tail call, which has the return address of the function that it leaves.
    fn left_by_jump(&self, callers: usize, call: &Frame, sites: &mut impl CallSites) -> usize {
        let rest = self.frames.get(callers..).unwrap_or_default();
        let count = rest.iter().take_while(|open| call.is_at(open)).count();
        let (Some(first), Some(last)) = (rest.first(), rest.get(count.wrapping_sub(1))) else {
            return 0;
        };
        if call.is_jump {
            return count;
        }
        if first.ip == call.ip {
            // The function was called once more.
            return 0;
        }
        let has_jumped = match sites.target(call.parent_ip) {
            Some(target) if enters(target, call.ip) => false,
            Some(target) if enters(target, first.ip) => true,
            // The call is indirect, or one of a function that is hidden.
            _ => sites.jumps(last.ip, call.ip),
        };
        match has_jumped {
            true => count,
            false => 0,
        }
    }
}
