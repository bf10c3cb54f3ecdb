// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The end of a call, while errors are asked for: its caller remembers it, and if it is the root,
//! the chain is shown.

use super::{
    pack_duration, CallInfo, ErrnoLinks, LastCallee, Link, LinkReference, FAILED, FAILED_ONE,
    FRAME_WORDS, INFO, IP_MASK, LAST, RESULT, SLEEP, START,
};
use crate::engine::errno::ResultKind;
use crate::engine::shadow::{self, Shadow, ShadowFrame};
use crate::platform::Word;

/// Most calls of a chain: more than fit on a shadow stack.
const MOST_LINKS: usize = 40;

/// The errors that are asked for, and the events of calls that are shown.
pub trait Chains {
    /// Returns whether calls that return `errno` are shown.
    fn asks_for(&self, errno: u64) -> bool;

    /// Returns whether errors that callers have handled are shown, too.
    fn shows_handled(&self) -> bool;

    /// The least time that a call takes that is shown, in ticks.
    fn thresh(&self) -> u64;

    /// Returns the time, in ticks; `None` if the clock cannot be read.
    fn now(&self) -> Option<u64>;

    /// The CPU.
    fn cpu(&self) -> u32;

    /// Returns whether nothing is to be recorded; the call at hand is counted then.
    fn misses(&self) -> bool;

    /// The room for links.
    fn links(&self) -> Option<&ErrnoLinks>;

    /// Returns the place of the call that returns: low half `ip`, high half `parent_ip`.
    fn place(&self) -> u64;

    /// Returns that of a call around it; `None` if it is not known.
    fn place_of(&self, frame: &ShadowFrame<'_>) -> Option<u64>;

    /// Records the entry of a call that began at `start`.
    fn entered(&self, start: u64, info: CallInfo, place: u64);

    /// Records the return of a call that has ended, and its result, if it has one.
    fn returned(&self, call: &Link, result: Option<u64>);
}

/// A call that returns.
pub struct Ending<'a> {
    /// The words of its frame.
    pub words: &'a [u64; FRAME_WORDS],
    /// The flags of its tag.
    pub flags: u64,
    /// Its function.
    pub ip: u64,
    /// The register that its result is in.
    pub register: u64,
    /// The calls around it.
    pub around: Shadow<'a>,
}

/// The words of the call from which another was called.
#[derive(Clone, Copy)]
struct Caller<'a>(&'a [Word; FRAME_WORDS]);

impl Caller<'_> {
    #[inline(always)]
    fn info(self) -> CallInfo {
        CallInfo(self.0[INFO].load_relaxed())
    }

    #[inline(always)]
    fn start(self) -> u64 {
        self.0[START].load_relaxed()
    }

    /// Returns whether its last callee has failed.
    #[inline(always)]
    fn has_failed(self) -> bool {
        self.0[LAST].load_relaxed() & FAILED != 0
    }

    /// Remembers `last` as the last callee, which ended so many ticks after the call began.
    #[inline(always)]
    fn remember(self, last: u64, ticks: u64) {
        self.0[INFO].store_relaxed(self.info().with_end(ticks).0);
        self.0[LAST].store_relaxed(last);
    }
}

impl<'a> Ending<'a> {
    /// Ends the call: has its caller remember it, and shows the chain if it is wanted.
    #[inline(always)]
    pub fn end(self, chains: &impl Chains) {
        let info = CallInfo(self.words[INFO]);
        let kind = info.kind();
        let result = kind.value(self.register);
        if self.flags & shadow::SHOWN == 0 {
            if kind == ResultKind::None {
                return;
            }
            if kind != ResultKind::Unknown && kind.errno(result) == 0 {
                if let Some(caller) = self.caller(info) {
                    self.succeed(caller, kind, result, chains);
                }
                return;
            }
        }
        // A copy, so that the usual way needs no memory for it.
        let copy = Ending { ..self };
        copy.end_other(chains);
    }

    #[inline(always)]
    fn caller(&self, info: CallInfo) -> Option<Caller<'a>> {
        match info.distance() {
            0 => None,
            distance => self.around.at_distance(distance)?.words().map(Caller),
        }
    }

    /// Has the caller remember the call, which has returned no error that is asked for.
    #[inline(always)]
    fn succeed(&self, caller: Caller<'_>, kind: ResultKind, result: u64, chains: &impl Chains) {
        // A truth value that comes after an error is not what the error began with.
        let is_of_use = kind.can_fail() || !caller.has_failed();
        if is_of_use && caller.info().kind().passes_on() {
            if let Some(now) = chains.now() {
                caller.0[RESULT].store_relaxed(result);
                self.be_remembered(caller, now, 0);
            }
        }
    }

    /// Has the caller remember the call as the last one, which ended `now`.
    #[inline(always)]
    fn be_remembered(&self, caller: Caller<'_>, now: u64, failed: u64) {
        let duration = pack_duration(now.saturating_sub(self.words[START]));
        let ip = self.ip & IP_MASK;
        let ticks = now.saturating_sub(caller.start());
        caller.remember(ip | (u64::from(duration) << 32) | failed, ticks);
    }

    /// Ends a call that has returned an error, whose entry was recorded, or whose result is not
    /// known.
    #[inline(never)]
    fn end_other(&self, chains: &impl Chains) {
        let info = CallInfo(self.words[INFO]);
        let kind = info.kind();
        let is_shown = self.flags & shadow::SHOWN != 0;
        let caller = self.caller(info);
        // One that cannot return an error has handled it.
        let through = caller.filter(|caller| caller.info().kind().passes_on());
        if let (ResultKind::Unknown, Some(caller)) = (kind, through) {
            self.hand_on(caller);
        }
        if kind == ResultKind::Unknown && !is_shown {
            return;
        }
        let Some(now) = chains.now() else {
            return;
        };
        let result = kind.value(self.register);
        let errno = kind.errno(result);
        let is_asked_for = errno != 0 && chains.asks_for(errno);
        let mut reference = LinkReference::without_link(errno);
        let call = self.ended(now, chains);
        if is_asked_for
            && (caller.is_none() || chains.shows_handled())
            && call.ticks() >= chains.thresh()
        {
            // If it is missed, neither its entry nor its return is recorded.
            if !chains.misses() {
                self.show(chains, &call, errno);
            }
        } else if is_shown {
            chains.returned(&call, Some(result).filter(|_| kind.has_value()));
        } else if let (true, Some(_), Some(links)) = (is_asked_for, through, chains.links()) {
            // It runs at the level at which it was called.
            reference = links.keep(chains.cpu(), info.level(), errno, &call);
        }
        match through.filter(|_| kind.has_value()) {
            Some(caller) if is_asked_for => {
                caller.0[FAILED_ONE].store_relaxed(reference.0);
                self.be_remembered(caller, now, FAILED);
            }
            Some(caller) => self.succeed(caller, kind, result, chains),
            None => {}
        }
    }

    /// The call, which ended `now`.
    fn ended(&self, now: u64, chains: &impl Chains) -> Link {
        Link {
            start: self.words[START],
            end: now,
            slept: self.words[SLEEP],
            info: CallInfo(self.words[INFO]),
            place: chains.place(),
            last: self.last(),
        }
    }

    fn last(&self) -> LastCallee {
        LastCallee {
            packed: self.words[LAST],
            result: self.words[RESULT],
            failed: LinkReference(self.words[FAILED_ONE]),
        }
    }

    /// Has the caller remember the callees of the call: its result is not known, and it counts as a
    /// part of that.
    fn hand_on(&self, caller: Caller<'_>) {
        let last = self.last();
        if !last.is_any() {
            return;
        }
        caller.0[RESULT].store_relaxed(last.result);
        if last.failed.errno() != 0 {
            caller.0[FAILED_ONE].store_relaxed(last.failed.0);
        }
        let began = self.words[START].saturating_sub(caller.start());
        let ticks = CallInfo(self.words[INFO]).end();
        caller.remember(last.packed, began.saturating_add(ticks));
    }

    /// Shows the call, with the calls by which its error came.
    fn show(&self, chains: &impl Chains, root: &Link, errno: u64) {
        if chains.shows_handled() {
            for frame in self.around.frames() {
                if frame.flags() & (shadow::SKIP | shadow::SHOWN) != 0 {
                    continue;
                }
                if let Some(place) = chains.place_of(&frame) {
                    chains.entered(frame.word(START), CallInfo(frame.word(INFO)), place);
                    frame.set(shadow::SHOWN);
                }
            }
        }
        if self.flags & shadow::SHOWN == 0 {
            entered(chains, root);
        }
        let links = chains.links();
        let find = |reference| links?.find(reference);
        let mut references = [LinkReference::default(); MOST_LINKS];
        let mut count = 0_usize;
        let mut innermost = *root;
        let mut is_cut = false;
        for place in &mut references {
            // One that was shown when it returned has no link.
            let next = innermost.last.link(errno);
            let Some(reference) = next.filter(|reference| reference.has_link()) else {
                break;
            };
            let Some(found) = find(reference) else {
                is_cut = true;
                break;
            };
            *place = reference;
            count = count.wrapping_add(1);
            innermost = found;
            entered(chains, &innermost);
        }
        // The one that the chain does not go on with, although it should, is shown all the same.
        if !innermost.last.has_failed() || innermost.last.failed.has_link() {
            show_last(chains, &innermost);
        }
        let result = Some(errno.wrapping_neg());
        let mut is_innermost = true;
        for reference in references.iter().take(count).rev() {
            match find(*reference) {
                Some(call) => {
                    if !is_innermost {
                        show_what_followed(chains, &call);
                    }
                    chains.returned(&call, result);
                }
                None => is_cut = true,
            }
            is_innermost = false;
        }
        if !is_innermost {
            show_what_followed(chains, root);
        }
        chains.returned(root, result);
        if let (true, Some(links)) = (is_cut, links) {
            links.count_cut(chains.cpu());
        }
    }
}

/// Shows the last callee of a call whose callee before it is a part of the chain.
fn show_what_followed(chains: &impl Chains, call: &Link) {
    if !call.last.has_failed() {
        show_last(chains, call);
    }
}

/// Shows the last callee of a call, if there was one.
fn show_last(chains: &impl Chains, within: &Link) {
    if !within.last.is_any() {
        return;
    }
    let (start, end) = within.last.times(within.info, within.start, within.end);
    let depth = within.info.depth().saturating_add(1);
    let called = Link {
        start,
        end,
        slept: 0,
        info: CallInfo::new(depth, within.info.context(), ResultKind::None, 0),
        place: within.last.ip() & 0xffff_ffff | (within.place << 32),
        last: LastCallee::default(),
    };
    entered(chains, &called);
    chains.returned(&called, Some(within.last.value()));
}

/// Records the entry of a call that has ended.
fn entered(chains: &impl Chains, ended: &Link) {
    chains.entered(ended.start, ended.info, ended.place);
}
