// SPDX-License-Identifier: GPL-2.0

//! The hooks of calls of one instance, and the calls that it wants.

use kernel::prelude::*;

use crate::engine::account::Growth;
use crate::engine::plan::{Calls, CallsByResult, ProfiledCalls};
use crate::engine::sharing::{Part, Subscriber};
use crate::tracer::graph_hooks::{GraphChange, GraphHooks};
use crate::tracer::profile::Profiler;
use crate::tracer::profile_hooks::{ProfileChange, ProfileHooks};
use crate::tracer::recorder::Recorder;
use crate::tracer::shared::Sitter;

/// The parts of an instance that are told of calls.
#[derive(Clone, Copy)]
pub(crate) struct Watchers {
    pub(crate) recorder: *const Recorder,
    pub(crate) profiler: *const Profiler,
}

// SAFETY: Both may be shared, and the pointers are used as references only.
unsafe impl Send for Watchers {}
// SAFETY: As for `Send`.
unsafe impl Sync for Watchers {}

/// The calls that an instance wants.
pub(crate) struct WantedCalls<'a> {
    /// Those of the tracer.
    pub(crate) calls: Option<&'a Calls>,
    /// Their functions by the results, if errors are asked for.
    pub(crate) results: Option<KBox<CallsByResult>>,
    /// Those of the profile.
    pub(crate) counted: Option<&'a ProfiledCalls>,
    /// The clock of tracer and profile is not the time stamp counter.
    pub(crate) own_start: [bool; 2],
    /// No call of tracer and profile that is open is known any more.
    pub(crate) anew: [bool; 2],
}

/// An instance's hooks, and what it wants.
pub(super) struct Member {
    pub(super) id: u64,
    /// The parts that are told; none before anything was hooked.
    pub(super) watchers: Option<Watchers>,
    pub(super) graph: GraphHooks,
    pub(super) profile: ProfileHooks,
    pub(super) calls: Option<Calls>,
    pub(super) results: Option<KBox<CallsByResult>>,
    pub(super) counted: Option<ProfiledCalls>,
    pub(super) own_start: [bool; 2],
    /// The seats of tracer and profile.
    pub(super) seats: [Option<usize>; 2],
    /// The parts as their seats know them.
    pub(super) parts: [Part; 2],
    /// The calls that shared hooks missed while there was a seat.
    pub(super) missed: [Growth; 2],
}

/// The calls of an instance as they are to be.
pub(super) struct New {
    /// The number of the member.
    pub(super) index: usize,
    pub(super) calls: Option<Calls>,
    pub(super) results: Option<KBox<CallsByResult>>,
    pub(super) counted: Option<ProfiledCalls>,
    pub(super) own_start: [bool; 2],
    pub(super) anew: [bool; 2],
}

/// A prepared change of a member's hooks. (it is too large for the stack)
pub(super) struct MemberChange {
    pub(super) graph: GraphChange,
    pub(super) profile: ProfileChange,
}

impl MemberChange {
    /// Creates a change of nothing.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    #[inline(never)]
    pub(super) fn none() -> Result<KBox<Self>> {
        let none = Self {
            graph: GraphChange::none(),
            profile: ProfileChange::none(),
        };
        Ok(KBox::new(none, GFP_KERNEL)?)
    }
}

impl Member {
    /// Creates a member that hooks nothing yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    #[inline(never)]
    pub(super) fn boxed(id: u64) -> Result<KBox<Self>> {
        let new = Self {
            id,
            watchers: None,
            graph: GraphHooks::new(),
            profile: ProfileHooks::new(),
            calls: None,
            results: None,
            counted: None,
            own_start: [false; 2],
            seats: [None; 2],
            parts: [Part(0); 2],
            missed: [Growth::new(), Growth::new()],
        };
        Ok(KBox::new(new, GFP_KERNEL)?)
    }

    pub(super) fn subscribers<'a>(&'a self, new: Option<&'a New>) -> [Subscriber<'a>; 2] {
        let (calls, counted, own_start) = match new {
            Some(new) => (&new.calls, &new.counted, new.own_start),
            None => (&self.calls, &self.counted, self.own_start),
        };
        let tracer = calls.as_ref();
        let profile = counted.as_ref();
        [
            tracer.map(|calls| Subscriber::tracer(calls, own_start[0])),
            profile.map(|counted| Subscriber::profile(counted, own_start[1])),
        ]
        .map(|subscriber| subscriber.unwrap_or(Subscriber::none()))
    }

    pub(super) fn sitters(&self) -> Option<[Sitter; 2]> {
        let watchers = self.watchers?;
        Some([
            Sitter::Tracer(watchers.recorder),
            Sitter::Profile(watchers.profiler),
        ])
    }
}
