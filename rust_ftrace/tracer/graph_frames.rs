// SPDX-License-Identifier: GPL-2.0

//! `function_graph`, the words that are kept of a call on the shadow stack.

use crate::engine::errno_chain::FRAME_WORDS;
use crate::engine::fgraph;
use crate::engine::ring::{Call, OpenCall};
use crate::engine::shadow::{self, WAIT_WORDS};
use crate::engine::waiting::Wait;
use crate::sys::context::{PreemptOff, SHADOW_STACK_SIZE};

/// The frame of a tagged call, see [`shadow`](crate::engine::shadow): three words, or five if its
/// entry may be recorded late, or if the time is measured for which the task does not run; six if
/// it is recorded what it waits for; seven if errors are asked for.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct TaggedFrame<const N: usize>([u64; N]);

impl<const N: usize> TaggedFrame<N> {
    const _LONG_ENOUGH: () = assert!(N == 3 || N == 5 || N == WAIT_WORDS || N == FRAME_WORDS);

    pub(super) fn word(&self, index: usize) -> u64 {
        self.0.get(index).copied().unwrap_or(0)
    }

    pub(super) fn set(&mut self, index: usize, value: u64) {
        if let Some(word) = self.0.get_mut(index) {
            *word = value;
        }
    }

    pub(super) fn address(&self) -> *const u64 {
        self.0.as_ptr()
    }

    pub(super) fn words(&self) -> &[u64; N] {
        &self.0
    }

    /// Makes it that of a tagged call.
    #[inline(always)]
    pub(super) fn tag(&mut self, secret: u64, flags: u64) {
        let address = self.address() as u64;
        self.set(0, shadow::tag(address, secret, flags));
    }

    /// Takes the tag away, and returns its flags; `None` if nothing is to be done at the return of
    /// the call.
    #[inline(always)]
    pub(super) fn take_tag(&mut self, secret: u64) -> Option<u64> {
        // This is checked before anything is written: only a call's entry can have left that here.
        let flags = shadow::flags_of(self.word(0), self.address() as u64, secret)?;
        self.set(0, 0);
        (flags & shadow::SKIP == 0).then_some(flags)
    }
}

/// The place of a call's words on the running task's shadow stack.
#[derive(Clone, Copy)]
pub(super) struct FramePlace {
    /// The address of the first.
    pub(super) address: *const u64,
    /// The number of words.
    pub(super) length: usize,
}

impl FramePlace {
    /// Returns whether no such call may have room within this one. Shadow stacks are aligned to
    /// their size, so that the address says where on it the words are.
    #[inline(always)]
    pub(super) fn may_be_deepest(self) -> bool {
        fgraph::is_deepest(self.address as usize % SHADOW_STACK_SIZE / 8, self.length)
    }

    /// Returns whether no such call has room within this one.
    pub(super) fn is_deepest(self, token: PreemptOff<'_>) -> bool {
        let below = token.current().shadow_below(self.address).0.len();
        fgraph::is_deepest(below, self.length)
    }
}

/// A tagged call that returns.
pub(super) struct TaggedReturn {
    /// The flags of its tag.
    pub(super) flags: u64,
    /// The time and token of its entry, or what a late entry needs.
    pub(super) open: OpenCall,
    /// The time for which the task did not run.
    pub(super) slept: u64,
    /// Its waits, of a call with a word for that.
    pub(super) wait: Option<Wait>,
    /// The address of its words.
    pub(super) address: *const u64,
    /// The call, if the words say which it is.
    pub(super) call: Option<Call>,
}
