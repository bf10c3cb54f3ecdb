// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The plan of an instance: the functions that are hooked, and how, as settings have it.
//!
//! It is made of settings and the catalog alone, so that it can be tested without a kernel. It
//! alone is carried out: exactly the functions of the plan are hooked, and code that needs to know
//! them reads it.

use core::ops::Range;

use super::catalog::Catalog;
use super::errno::ResultKind;
use super::filter::Selector;
use super::function_set::FunctionSet;
use super::lists::{FunctionList, FunctionLists};
use super::options::TraceOption;
use super::settings::{Settings, Tracer};
use crate::platform::AllocError;

/// Functions whose entries are hooked.
pub enum Entries {
    /// All that can be traced, those of modules loaded later too.
    All,
    /// The functions in this set.
    Only(FunctionSet),
}

impl Entries {
    /// No functions.
    pub const fn none() -> Self {
        Self::Only(FunctionSet::new())
    }

    /// The functions; `None` for all.
    pub fn set(&self) -> Option<&FunctionSet> {
        match self {
            Self::All => None,
            Self::Only(set) => Some(set),
        }
    }

    /// Returns whether no function is hooked.
    pub fn is_none(&self) -> bool {
        self.set().is_some_and(FunctionSet::is_empty)
    }

    /// Returns whether both are the same functions.
    pub fn is(&self, other: &Self) -> bool {
        match (self.set(), other.set()) {
            (None, None) => true,
            (Some(one), Some(other)) => one.as_slice() == other.as_slice(),
            _ => false,
        }
    }

    fn forget(&mut self, range: &Range<usize>) {
        if let Self::Only(set) = self {
            set.remove_range(range);
        }
    }
}

/// The frames that calls have, by what is kept of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// The time and the place of the entry.
    Plain,
    /// As `Plain`, and a tag.
    Tagged,
    /// As `Tagged`, and the data for an entry that is recorded later, and the time for which the
    /// task did not run.
    Long,
    /// As `Long`, and what the task waited for.
    Waits,
    /// As `Long`, and the last call within the call.
    Errno,
}

/// Functions whose calls are hooked, by what they mean for the calls below theirs.
pub struct Roles {
    /// Functions whose calls are taken, and no more.
    pub plain: FunctionSet,
    /// Functions below which all calls are taken.
    pub roots: FunctionSet,
    /// Functions whose calls are not taken, nor any call below them.
    pub skip: FunctionSet,
    /// Calls are taken only if they are those of roots, or below these.
    pub is_rooted: bool,
}

impl Roles {
    /// No functions.
    pub const fn none() -> Self {
        Self {
            plain: FunctionSet::new(),
            roots: FunctionSet::new(),
            skip: FunctionSet::new(),
            is_rooted: false,
        }
    }

    fn of(lists: &FunctionLists, surroundings: &Surroundings<'_>) -> Result<Self, AllocError> {
        let mut plain = surroundings.callable(lists)?;
        let mut roots = FunctionSet::new();
        if let Some(wanted) = lists.get(FunctionList::GraphFunction) {
            // A root is traced even if the filter does not have it.
            roots = match lists.get(FunctionList::Notrace) {
                Some(unwanted) => wanted.difference(unwanted)?,
                None => wanted.duplicate()?,
            };
            surroundings.leave_out(&mut roots);
            plain = plain.difference(&roots)?;
        }
        let mut skip = FunctionSet::new();
        if let Some(unwanted) = lists.get(FunctionList::GraphNotrace) {
            let all = plain.union(&roots)?;
            skip = all.difference(&all.difference(unwanted)?)?;
            plain = plain.difference(&skip)?;
            roots = roots.difference(&skip)?;
        }
        Ok(Self {
            plain,
            roots,
            skip,
            is_rooted: lists.has(FunctionList::GraphFunction),
        })
    }

    /// Returns whether it depends on the calls around a call if it is taken.
    pub fn is_marked(&self) -> bool {
        self.is_rooted || !self.skip.is_empty()
    }

    /// The functions by their roles: plain, roots, skipped.
    pub const fn sets(&self) -> [&FunctionSet; 3] {
        [&self.plain, &self.roots, &self.skip]
    }

    fn sets_mut(&mut self) -> [&mut FunctionSet; 3] {
        [&mut self.plain, &mut self.roots, &mut self.skip]
    }

    /// Makes the set of all functions whose calls can be taken.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn taken(&self) -> Result<FunctionSet, AllocError> {
        self.plain.union(&self.roots)
    }

    /// Makes the set of all functions.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn hooked(&self) -> Result<FunctionSet, AllocError> {
        self.taken()?.union(&self.skip)
    }

    /// Returns whether the same calls are taken of the same functions.
    pub fn is(&self, other: &Self) -> bool {
        let mut sets = self.sets().into_iter().zip(other.sets());
        self.is_rooted == other.is_rooted
            && sets.all(|(one, other)| one.as_slice() == other.as_slice())
    }

    /// Makes a copy.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn duplicate(&self) -> Result<Self, AllocError> {
        Ok(Self {
            plain: self.plain.duplicate()?,
            roots: self.roots.duplicate()?,
            skip: self.skip.duplicate()?,
            is_rooted: self.is_rooted,
        })
    }

    /// Removes the functions at addresses `range`, which needs no memory.
    pub fn forget(&mut self, range: &Range<usize>) {
        for set in self.sets_mut() {
            set.remove_range(range);
        }
    }
}

/// Calls that are hooked.
pub struct Calls {
    /// The frames that the calls have.
    pub frames: FrameKind,
    /// The functions.
    pub roles: Roles,
    /// The time for which tasks do not run is measured.
    pub takes_sleep: bool,
}

impl Calls {
    fn of(
        settings: &Settings<impl Clone>,
        surroundings: &Surroundings<'_>,
    ) -> Result<Self, AllocError> {
        let roles = Roles::of(&settings.lists, surroundings)?;
        let waits = settings.options.has(TraceOption::GraphWait) && settings.errnos.is_empty();
        let takes_sleep = waits || !settings.options.has(TraceOption::SleepTime);
        let frames = match settings.thresh != 0 || takes_sleep {
            _ if !settings.errnos.is_empty() => FrameKind::Errno,
            _ if waits => FrameKind::Waits,
            true => FrameKind::Long,
            false if roles.is_marked() => FrameKind::Tagged,
            false => FrameKind::Plain,
        };
        Ok(Self {
            frames,
            roles,
            takes_sleep,
        })
    }

    /// Returns whether both hook the same functions in the same way.
    pub fn is(&self, other: &Self) -> bool {
        self.frames == other.frames
            && self.takes_sleep == other.takes_sleep
            && self.roles.is(&other.roles)
    }

    /// Makes a copy.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn duplicate(&self) -> Result<Self, AllocError> {
        Ok(Self {
            roles: self.roles.duplicate()?,
            ..*self
        })
    }
}

/// The functions of [`Calls`] by the ways in which their results can be errors.
pub struct CallsByResult {
    /// Those of [`Roles::plain`], by [`ResultKind`].
    pub plain: [FunctionSet; ResultKind::ALL.len()],
    /// Those of [`Roles::roots`].
    pub roots: [FunctionSet; ResultKind::ALL.len()],
}

impl CallsByResult {
    /// Divides `calls` by what `kind_of` says of each function.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn of(
        calls: &Calls,
        mut kind_of: impl FnMut(usize) -> ResultKind,
    ) -> Result<Self, AllocError> {
        let mut divide = |set: &FunctionSet| {
            let mut sets = [const { FunctionSet::new() }; ResultKind::ALL.len()];
            for ip in set.as_slice() {
                if let Some(set) = sets.get_mut(kind_of(*ip) as usize) {
                    set.append(*ip)?;
                }
            }
            Ok(sets)
        };
        Ok(Self {
            plain: divide(&calls.roles.plain)?,
            roots: divide(&calls.roles.roots)?,
        })
    }

    /// Forgets the functions at addresses `range`. Needs no memory.
    pub fn forget(&mut self, range: &Range<usize>) {
        for set in self.plain.iter_mut().chain(&mut self.roots) {
            set.remove_range(range);
        }
    }
}

/// The calls that the profile counts.
pub struct ProfiledCalls {
    /// The functions.
    pub roles: Roles,
    /// The time of calls within a call does not count.
    pub without_calls: bool,
    /// The time for which the task did not run does not count.
    pub without_sleep: bool,
    /// The calls are counted by their contexts, too.
    pub contexts: bool,
    /// It is counted for how long tasks were asleep, and for how long they could have run.
    pub waits: bool,
}

impl ProfiledCalls {
    /// No calls.
    pub const fn none() -> Self {
        Self {
            roles: Roles::none(),
            without_calls: false,
            without_sleep: false,
            contexts: false,
            waits: false,
        }
    }

    /// Returns whether the time for which tasks do not run is measured.
    pub const fn takes_sleep(&self) -> bool {
        self.without_sleep || self.waits
    }

    /// Returns whether calls need more than the time by the time stamp counter; `own_start` if
    /// their clock is another.
    pub fn is_nested(&self, own_start: bool) -> bool {
        own_start || self.without_calls || self.takes_sleep() || self.roles.is_marked()
    }

    /// Makes a copy.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn duplicate(&self) -> Result<Self, AllocError> {
        Ok(Self {
            roles: self.roles.duplicate()?,
            ..*self
        })
    }

    /// Returns whether both hook the same functions in the same way.
    pub fn is(&self, other: &Self) -> bool {
        (self.without_calls, self.without_sleep) == (other.without_calls, other.without_sleep)
            && (self.contexts, self.waits) == (other.contexts, other.waits)
            && self.roles.is(&other.roles)
    }
}

/// Memory that must be there before anything is hooked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NeededMemory {
    /// A buffer for each CPU.
    pub buffers: bool,
    /// A second one, for snapshots.
    pub snapshots: bool,
    /// Room for the stacks that are unwound.
    pub stacks: bool,
    /// Room for calls that have returned errors.
    pub links: bool,
    /// Room for the wakers of tasks.
    pub wakers: bool,
    /// Room for the tasks that sleep in calls that are counted.
    pub sleeps: bool,
}

/// The plan: all functions to hook, and the memory that they need.
pub struct HookPlan {
    /// Functions whose entries the recorder hooks.
    pub entries: Entries,
    /// Functions among `entries` whose entries are recorded only with a stack.
    pub stack_only: FunctionSet,
    /// Functions at whose calls commands act.
    pub commanded: FunctionSet,
    /// The calls that `function_graph` hooks, if it is the tracer.
    pub calls: Option<Calls>,
    /// The calls that the profile hooks, if it is on.
    pub counted: Option<ProfiledCalls>,
    /// The memory that is needed.
    pub memory: NeededMemory,
}

/// The properties of a machine that plans depend on.
pub struct Surroundings<'a> {
    /// The functions that can be traced; `None` if [`Settings::need_catalog`] says that they are
    /// not needed.
    pub catalog: Option<&'a Catalog>,
    /// Addresses of functions whose calls must not be hooked.
    pub never_called: [Range<usize>; 2],
    /// Patterns of the functions that unwinding a stack calls.
    pub unwinder: &'a [&'a [u8]],
}

impl Surroundings<'_> {
    fn all(&self) -> Result<FunctionSet, AllocError> {
        match self.catalog {
            Some(catalog) => catalog.all(),
            None => Ok(FunctionSet::new()),
        }
    }

    /// Returns the functions in lists whose calls are hooked.
    fn callable(&self, lists: &FunctionLists) -> Result<FunctionSet, AllocError> {
        let mut wanted = match lists.wanted(self.catalog)? {
            Some(wanted) => wanted,
            None => self.all()?,
        };
        self.leave_out(&mut wanted);
        Ok(wanted)
    }

    /// Leaves out of `calls` what must not be hooked.
    fn leave_out(&self, calls: &mut FunctionSet) {
        for range in &self.never_called {
            calls.remove_range(range);
        }
    }

    /// Returns `entries` without the functions of the unwinder.
    fn without_unwinder(&self, entries: Entries) -> Result<Entries, AllocError> {
        let Some(catalog) = self.catalog else {
            return Ok(entries);
        };
        let mut own = FunctionSet::new();
        for pattern in self.unwinder {
            if let Ok(selector) = Selector::parse(pattern) {
                own = own.union(&catalog.select(&selector)?)?;
            }
        }
        Ok(Entries::Only(match &entries {
            Entries::All => catalog.all()?.difference(&own)?,
            Entries::Only(set) => set.difference(&own)?,
        }))
    }
}

impl<C: Clone> Settings<C> {
    fn records_entries(&self) -> bool {
        matches!(self.tracer, Tracer::Function | Tracer::CallTrace)
    }

    /// Returns whether a plan of these settings needs the catalog.
    pub fn need_catalog(&self) -> bool {
        let lists = &self.lists;
        let leaves_out_unwinder = self.options.has(TraceOption::FuncStackTrace)
            && (self.records_entries() || self.commands.of(true).next().is_some());
        let names_all = self.tracer == Tracer::FunctionGraph
            || self.profile
            || (self.records_entries() && lists.has(FunctionList::Notrace));
        leaves_out_unwinder || (names_all && !lists.has(FunctionList::Filter))
    }
}

impl HookPlan {
    /// A plan that hooks nothing.
    pub const fn none() -> Self {
        Self {
            entries: Entries::none(),
            stack_only: FunctionSet::new(),
            commanded: FunctionSet::new(),
            calls: None,
            counted: None,
            memory: NeededMemory {
                buffers: false,
                snapshots: false,
                stacks: false,
                links: false,
                wakers: false,
                sleeps: false,
            },
        }
    }

    /// Makes the plan of `settings`.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn of(
        settings: &Settings<impl Clone>,
        surroundings: &Surroundings<'_>,
    ) -> Result<Self, AllocError> {
        let lists = &settings.lists;
        let plain = match settings.records_entries() {
            true => match lists.wanted(surroundings.catalog)? {
                Some(wanted) => Entries::Only(wanted),
                None => Entries::All,
            },
            false => Entries::none(),
        };
        let with_stacks = settings.commands.functions(true)?;
        let mut stack_only = FunctionSet::new();
        let mut entries = plain;
        if let Entries::Only(plain) = &entries {
            stack_only = with_stacks.difference(plain)?;
            entries = Entries::Only(plain.union(&stack_only)?);
        }
        let unwinds_all = settings.options.has(TraceOption::FuncStackTrace);
        if unwinds_all && !entries.is_none() {
            entries = surroundings.without_unwinder(entries)?;
        }
        let calls = match settings.tracer == Tracer::FunctionGraph {
            true => Some(Calls::of(settings, surroundings)?),
            false => None,
        };
        let counted = match settings.profile {
            true => Some(ProfiledCalls {
                roles: Roles::of(lists, surroundings)?,
                without_calls: !settings.options.has(TraceOption::GraphTime),
                without_sleep: !settings.options.has(TraceOption::SleepTime),
                contexts: settings.options.has(TraceOption::ProfileContexts),
                waits: settings.options.has(TraceOption::ProfileWait),
            }),
            false => None,
        };
        let sleeps = counted.as_ref().is_some_and(|counted| counted.waits);
        let frames = calls.as_ref().map(|calls| calls.frames);
        let has_frames = |kind| frames == Some(kind);
        let snapshots = settings.commands.has_snapshot();
        let stacks = !with_stacks.is_empty();
        Ok(Self {
            entries,
            stack_only,
            commanded: settings.commands.functions(false)?,
            calls,
            counted,
            memory: NeededMemory {
                buffers: settings.tracer != Tracer::Nop || stacks || snapshots,
                snapshots,
                stacks: stacks || unwinds_all,
                links: has_frames(FrameKind::Errno),
                wakers: has_frames(FrameKind::Waits),
                sleeps,
            },
        })
    }

    /// Returns the functions that the tracer and commands hook; `None` for all.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn traced(&self) -> Result<Option<FunctionSet>, AllocError> {
        let Some(entries) = self.entries.set() else {
            return Ok(None);
        };
        let traced = entries.union(&self.commanded)?;
        Ok(Some(match &self.calls {
            Some(calls) => traced.union(&calls.roles.hooked()?)?,
            None => traced,
        }))
    }

    /// Returns the functions that are hooked; `None` for all.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn hooked(&self) -> Result<Option<FunctionSet>, AllocError> {
        match (self.traced()?, &self.counted) {
            (Some(traced), Some(counted)) => traced.union(&counted.roles.hooked()?).map(Some),
            (traced, _) => Ok(traced),
        }
    }

    /// Returns whether a profile that goes on from the plan `before` has open calls that are not
    /// below roots, as there were none, and are not to be taken for such.
    pub fn is_newly_rooted(&self, before: &Self) -> bool {
        match (&before.counted, &self.counted) {
            (Some(before), Some(counted)) => !before.roles.is_rooted && counted.roles.is_rooted,
            _ => false,
        }
    }

    /// Removes the functions at addresses `range`, which needs no memory: their module goes, and
    /// the kernel unhooks them.
    pub fn forget(&mut self, range: &Range<usize>) {
        self.entries.forget(range);
        self.stack_only.remove_range(range);
        self.commanded.remove_range(range);
        if let Some(calls) = &mut self.calls {
            calls.roles.forget(range);
        }
        if let Some(counted) = &mut self.counted {
            counted.roles.forget(range);
        }
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        let entries = self.entries.set().map_or(0, FunctionSet::bytes);
        let calls = self.calls.iter().flat_map(|calls| calls.roles.sets());
        let counted = self.counted.iter().flat_map(|counted| counted.roles.sets());
        let sets = calls
            .chain(counted)
            .chain([&self.stack_only, &self.commanded]);
        entries + sets.map(FunctionSet::bytes).sum::<usize>()
    }
}
