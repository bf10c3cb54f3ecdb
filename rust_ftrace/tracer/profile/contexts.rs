// SPDX-License-Identifier: GPL-2.0

//! Profile, hook side: the context of a call, its place in the tree of what was called from where.
//!
//! As a rule the call around is right below, in the same interrupts or none; or there is none
//! around, and the task is known to have no calls open that were not seen. And the node is in one
//! of the first slots that it can be in. All else is looked for out of the way.

use super::roots::RootFlag;
use super::{CpuTable, Profiler};
use crate::engine::context::Level;
use crate::engine::profile::contexts::{CallContext, Contexts, Node};
use crate::engine::profile::extents::Extents;
use crate::engine::profile::frame::{self, Below, CONTEXT, CONTEXT_WORDS};
use crate::platform::Word;
use crate::sys::context::{level, Current, PreemptOff};
use crate::sys::fprobe::frame_words;
use crate::sys::ftrace::FunctionEntry;
use crate::sys::unwind;

/// The distance of two frames with contexts, in words, where nothing else hooks the calls.
const STRIDE: usize = frame_words(CONTEXT_WORDS);

impl Profiler {
    /// Tells apart the roots of tasks by their names, or no more.
    pub(crate) fn set_by_task(&self, by_task: bool) {
        self.roots.update(RootFlag::ByTask, by_task);
    }

    /// Has all roots looked at, as other functions are going to be counted. Interrupts begin by the
    /// function `interrupt_entry`, 0 for none.
    pub(crate) fn unsettle(&self, interrupt_entry: usize) {
        self.roots.update(RootFlag::Settled, false);
        self.roots.set_hooked(false);
        self.roots.set_interrupt_entry(interrupt_entry);
    }

    /// Has `extents` be those of the functions that are counted.
    ///
    /// # Safety
    ///
    /// They are valid until others were given, or the profiler was unhooked, and every CPU has left
    /// the code that it ran with preemption off then.
    pub(crate) unsafe fn set_extents(&self, extents: Option<&Extents>) {
        // SAFETY: They are valid for as long, by caller precondition.
        unsafe { self.roots.set_extents(extents) };
    }

    /// Notes that all that is counted is hooked.
    pub(crate) fn hooked(&self) {
        self.roots.set_hooked(true);
    }

    /// Notes that every CPU has left the code that it ran with preemption off since then. Forgets
    /// which tasks of `contexts` were known to be clean.
    pub(crate) fn settle(&self, contexts: &Contexts) {
        contexts.clean.clear();
        self.roots.update(RootFlag::Settled, true);
    }

    /// Counts a call by its context, if that is found at once, and notes it in the frame. Returns
    /// whether it was.
    #[inline(always)]
    pub(super) fn enter_context(
        &self,
        table: &CpuTable,
        token: PreemptOff<'_>,
        words: &[Word; CONTEXT_WORDS],
        number: u64,
    ) -> bool {
        let Some(contexts) = table.contexts.as_deref() else {
            return false;
        };
        let current = token.current();
        let around = match self.word_below(&current, words) {
            Some(Some(word)) => word,
            Some(None) => return false,
            None => {
                if !contexts.tree().clean.has(current.pid()) {
                    return false;
                }
                &self.roots.tasks
            }
        };
        let around = CallContext(around.load_relaxed());
        if around.interrupts() != current.interrupts() {
            return false;
        }
        let Some(context) = contexts.enter_near(around, number) else {
            return false;
        };
        words[CONTEXT].store_relaxed(context.0);
        true
    }

    /// Returns the word with the context of the call whose words are right below those of another;
    /// `None` if there is no room for one, and `None` in it if there is none that is known.
    #[inline(always)]
    fn word_below<'a>(
        &self,
        current: &'a Current<'_>,
        words: &[Word; CONTEXT_WORDS],
    ) -> Option<Option<&'a Word>> {
        let (below, address) = current.shadow_words(words, STRIDE)?;
        let secret = self.frame_secret(CONTEXT_WORDS);
        let frame = below.first_chunk();
        let is_known = frame.is_some_and(|frame| frame::number(frame, address, secret).is_some());
        Some(is_known.then_some(&below[CONTEXT]))
    }

    /// Returns the context of the call around another, if its words are right below.
    pub(super) fn context_below(
        &self,
        current: &Current<'_>,
        words: &[Word; CONTEXT_WORDS],
    ) -> Option<CallContext> {
        let word = self.word_below(current, words)??;
        Some(CallContext(word.load_relaxed()))
    }

    /// Counts a call by its context, wherever the call around is. Its words lie at `address`;
    /// `around` is the context of the call around, if that is known without a search. Returns the
    /// context; `None` if the call is one of this code's own, and is not to be counted: what was
    /// counted for it is taken back.
    #[cold]
    #[inline(never)]
    pub(super) fn find_context(
        &self,
        token: PreemptOff<'_>,
        site: FunctionEntry<'_>,
        address: u64,
        around: Option<CallContext>,
        number: u64,
    ) -> Option<CallContext> {
        let table = self.this_table(token);
        let Some(contexts) = table.contexts.as_deref() else {
            // The CPU came when there was no memory.
            return Some(CallContext::NOWHERE);
        };
        let current = token.current();
        let interrupts = current.interrupts();
        let around = around.or_else(|| self.context_around(&current, address));
        // Below a root it is what all else is that is called before the kernel says so.
        let begins = !self.is_rooted() && self.roots.is_interrupt_entry(site.call.ip);
        let level = match begins {
            true => Level::Hardirq,
            false => level(interrupts),
        };
        // An interrupt's count may end before its last functions do: these are within it.
        let is_below = |around: &CallContext| level <= self::level(around.interrupts());
        let around = around.filter(|around| !begins && is_below(around));
        let above = match around {
            Some(around) => Some(around.node()),
            None => self.root(contexts.tree(), &current, site, token, level),
        };
        if above.is_none() {
            table.functions.take_back(number);
        }
        Some(contexts.enter(above?, number, interrupts))
    }

    /// Returns the context of the call around the one whose words lie at `address`.
    fn context_around(&self, current: &Current<'_>, address: u64) -> Option<CallContext> {
        if self.is_nested() {
            let outer = self.outer(current, address as *const u64)?;
            return Some(outer.context());
        }
        let (words, base) = current.shadow_below(address as *const u64);
        let below = Below::new(words, base, self.seat.known());
        below.search_context(self.frame_secret(CONTEXT_WORDS))
    }

    /// Returns the root of a call around which none is open that was seen; `None` if it is one that
    /// unwinding makes.
    fn root(
        &self,
        tree: &Contexts,
        current: &Current<'_>,
        site: FunctionEntry<'_>,
        token: PreemptOff<'_>,
        level: Level,
    ) -> Option<Node> {
        if level != Level::Task {
            let began_before = !self.is_rooted() && self.roots.may_have_begun_before(token);
            return Some(Node::root(level, began_before));
        }
        let is_settled = self.roots.flags.has(RootFlag::Settled);
        if !is_settled {
            self.roots.see_task(token);
        }
        let unwinding = self.roots.unwinding.this(token);
        if unwinding.is_within(token) {
            return None;
        }
        // What a root was called from does not count.
        let is_clean = self.is_rooted() || is_settled && tree.clean.has(current.pid());
        let began_before = !is_clean && {
            let _within = unwinding.enter(token);
            self.has_unseen_callers(tree, current, site, token)
        };
        let root = Node::root(level, began_before);
        Some(match self.roots.flags.has(RootFlag::ByTask) {
            true => tree.named(root, current.identity().comm),
            false => root,
        })
    }

    /// Returns whether calls are open that are counted, and were not seen, by the stack. Once the
    /// task has none, it never has again.
    fn has_unseen_callers(
        &self,
        tree: &Contexts,
        current: &Current<'_>,
        site: FunctionEntry<'_>,
        token: PreemptOff<'_>,
    ) -> bool {
        let is_settled = self.roots.flags.has(RootFlag::Settled);
        let extents = self.roots.extents(token);
        // A function that never returns is called by the last instruction of another.
        let is_counted = |address: u64| extents.contain(address.wrapping_sub(1));
        if is_counted(site.call.parent_ip) {
            return true;
        }
        let mut is_found = false;
        let text = self.roots.text.clone();
        let is_whole = unwind::walk(token, site.registers, text, |address| {
            is_found = is_counted(address);
            !is_found
        });
        if is_whole && is_settled {
            tree.clean.add(current.pid());
        }
        is_found
    }

    /// Notes that a call of the running task was not counted.
    pub(super) fn unseen(&self, token: PreemptOff<'_>) {
        if let Some(contexts) = self.this_table(token).contexts.as_deref() {
            contexts.tree().clean.forget(token.current().pid());
        }
    }
}
