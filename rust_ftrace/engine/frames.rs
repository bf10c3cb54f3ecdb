// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The calls that are open on one stack, as far as entries tell.

use super::call_sites::{enters, is_location, CallSites, CodeRole, FunctionCode};
use super::context::{is_deeper, STACK_BITS};
use super::decode::Event;
use crate::platform::{AllocError, Vec};

/// Most calls that are open on one stack: as many as the largest stack has room for, if each takes
/// no more than it must, are never seen.
const MAX_FRAMES: usize = 1024;

/// Most arguments that a function gets on the stack.
const MAX_ARGUMENTS: u16 = 8;

/// The farthest apart that two system calls can begin: CONFIG_RANDOMIZE_KSTACK_OFFSET takes up to 1
/// KiB.
const MAX_RANDOM: u16 = 1024 / 8;

/// The number of stack offsets that there can be.
const OFFSETS: u16 = (1 << STACK_BITS) - 1;

/// An open call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    /// The function.
    pub(super) ip: u64,
    /// Where it returns to.
    pub(super) parent_ip: u64,
    /// Where the function begins that it was called from, 0 if that is not known.
    pub(super) caller: u64,
    /// Where on the stack `parent_ip` lies.
    pub(super) offset: u16,
    /// See [`ContextWord::entry_tag`](super::context::ContextWord::entry_tag).
    pub(super) entry_tag: u8,
    /// `parent_ip` is not where it was called from: it was jumped to.
    is_jump: bool,
    /// It was entered on another stack than its caller: `offset` is none of this one.
    is_elsewhere: bool,
}

impl Frame {
    /// The call that `event` is the entry of, made from `caller`.
    pub(super) fn new(event: &Event, caller: &FunctionCode) -> Self {
        let is_jump = caller.role == CodeRole::ReturnHook;
        Self {
            ip: event.ip,
            parent_ip: event.parent_ip,
            // (all that were jumped to have the hook in common)
            caller: if is_jump { 0 } else { caller.start },
            is_jump,
            offset: event.context.stack_offset(),
            entry_tag: event.context.entry_tag(),
            is_elsewhere: false,
        }
    }
}

impl Frame {
    /// Returns whether it has the return address of `open`, at the place of that one.
    fn is_at(&self, open: &Self) -> bool {
        self.offset == open.offset && (self.parent_ip == open.parent_ip || self.is_jump)
    }
}

/// The caller of a call, as far as it is known before it is compared with those that are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Caller {
    /// It is among the open calls: the one at this place, of the innermost one of its function.
    Open(usize),
    /// It is among the open calls, and the entry is on another stack than that call.
    Elsewhere(usize),
    /// It is not, and nothing is open: all that was has returned.
    Nothing,
    /// It is not, and the rest follows from where the calls lie on the stack.
    Hidden,
}

/// The open calls of one stack, outermost first.
///
/// # Invariants
///
/// None lies deeper in the stack than the one after it.
pub(super) struct Frames {
    frames: Vec<Frame>,
    /// Depth of the outermost call: not 0 if that was called by one of another stack.
    base: usize,
    /// Whoever comes on this stack can begin at another height than the last one.
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

    /// Depth of the call at `index`.
    pub(super) fn depth(&self, index: usize) -> usize {
        self.base.wrapping_add(index)
    }

    /// The innermost open call of the function that begins at `start` with a return address above
    /// `offset`: its place, and how far above.
    ///
    /// Each time that the function was entered there was an entry, so if it runs, it is in this
    /// call.
    pub(super) fn find_above(&self, start: u64, offset: u16) -> Option<(usize, u16)> {
        let index = self
            .frames
            .iter()
            .rposition(|open| is_location(open.ip, start) && is_deeper(offset, open.offset))?;
        let distance = self.frames.get(index)?.offset.wrapping_sub(offset) & OFFSETS;
        Some((index, distance))
    }

    /// The innermost open call of the function that begins at `start`, wherever it lies: its place.
    pub(super) fn find(&self, start: u64) -> Option<usize> {
        (self.frames.iter()).rposition(|open| is_location(open.ip, start))
    }

    /// The call that the scheduler was entered from, if that has called anything since: its place.
    pub(super) fn find_scheduling(&self, sites: &mut impl CallSites) -> Option<usize> {
        let mut by_scheduler = |open: &Frame| sites.code(open.caller).role == CodeRole::Scheduler;
        let called = self.frames.iter().rposition(&mut by_scheduler)?;
        called.checked_sub(1)
    }

    /// Depth of `call`, if the innermost open call has jumped there.
    pub(super) fn depth_after_jump(
        &self,
        call: &Frame,
        sites: &mut impl CallSites,
    ) -> Option<usize> {
        let others = self.frames.iter().rposition(|open| !call.is_at(open));
        let callers = others.map_or(0, |index| index.wrapping_add(1));
        (self.left_by_jump(callers, call, sites) != 0).then(|| self.depth(self.frames.len()))
    }

    /// Enters `call`; its depth. The outermost one's is `base`.
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
            // INVARIANT: It is taken for one right below its caller.
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

    /// The number of open calls that are callers of `call`, whose own caller is not among them.
    fn callers_by_offset(&self, call: &Frame, sites: &mut impl CallSites) -> usize {
        let Some(outermost) = self.frames.first() else {
            return 0;
        };
        // Another system call, at another random height of the stack.
        let is_anew = outermost.entry_tag != call.entry_tag
            || (outermost.parent_ip == call.parent_ip
                && outermost.offset != call.offset
                && outermost.offset.wrapping_sub(call.offset) & OFFSETS <= MAX_RANDOM);
        if self.has_random_height && is_anew {
            return 0;
        }
        // Return addresses lay where the new one is, or deeper.
        let here = self.frames.iter().take_while(|open| !open.is_elsewhere);
        let open = self.frames.get(..here.count()).unwrap_or_default();
        let deeper = open
            .iter()
            .rposition(|open| is_deeper(call.offset, open.offset));
        let callers = deeper.map_or(0, |index| index.wrapping_add(1));
        // So have those that the same hidden function called with less on the stack.
        let same_caller = |open: &Frame| {
            call.caller != 0
                && open.caller == call.caller
                && open.offset.wrapping_sub(call.offset) & OFFSETS <= MAX_ARGUMENTS
        };
        let open = self.frames.get(..callers).unwrap_or_default();
        if let Some(index) = open.iter().rposition(same_caller) {
            return index;
        }
        // Who calls the hidden caller, if any of them does so itself.
        let calls = |open: &Frame| call.caller != 0 && sites.calls(open.ip, call.caller);
        match open.iter().rposition(calls) {
            Some(index) => index.wrapping_add(1),
            None => callers,
        }
    }

    /// The number of calls behind the first `callers` that have left by a jump, to `call` in the
    /// end: a tail call, whose return address is that of the function which it leaves.
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
            // Called once more.
            return 0;
        }
        let has_jumped = match sites.target(call.parent_ip) {
            Some(target) if enters(target, call.ip) => false,
            Some(target) if enters(target, first.ip) => true,
            // An indirect call, or one of a function that is hidden.
            _ => sites.jumps(last.ip, call.ip),
        };
        match has_jumped {
            true => count,
            false => 0,
        }
    }
}
