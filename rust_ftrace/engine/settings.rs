// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The settings of an instance that determine the functions that are hooked, and how.

use core::ops::Range;

use super::command_list::CommandList;
use super::errno::ErrnoSet;
use super::lists::{FunctionList, FunctionLists, KnownFunctions, ListError};
use super::options::{Options, TraceOption};
use crate::platform::AllocError;

/// The tracers by their names in `current_tracer`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tracer {
    /// Nothing is hooked.
    Nop,
    /// Entries of functions.
    Function,
    /// Entries of functions, shown as a tree of calls.
    CallTrace,
    /// Calls of functions: their entries and returns.
    FunctionGraph,
}

impl Tracer {
    /// All tracers, in the order of `available_tracers`.
    pub const ALL: [Self; 4] = [
        Self::FunctionGraph,
        Self::CallTrace,
        Self::Function,
        Self::Nop,
    ];

    /// The name that users write.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Nop => "nop",
            Self::Function => "function",
            Self::CallTrace => "calltrace",
            Self::FunctionGraph => "function_graph",
        }
    }

    /// The tracer of that name.
    pub fn from_name(name: &[u8]) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|tracer| tracer.name().as_bytes() == name)
    }
}

/// The settings of an instance. Every change is made to a copy, planned, and carried out; then the
/// copy takes their place.
///
/// `C` is the handle of a command's count, which copies share.
pub struct Settings<C> {
    /// The current tracer.
    pub tracer: Tracer,
    /// The tracer was started by writing a filter, not by name; clearing the filter stops it.
    pub implicit: bool,
    /// The lists of functions.
    pub lists: FunctionLists,
    /// The functions at whose calls commands act.
    pub commands: CommandList<C>,
    /// The options that are on.
    pub options: Options,
    /// Calls are counted: `function_profile_enabled`.
    pub profile: bool,
    /// The depth above which calls are traced, `None` for any: `max_depth`.
    pub max_depth: Option<u32>,
    /// The least time, in ns, of calls that are recorded: `tracing_thresh`.
    pub thresh: u64,
    /// The errors whose calls are recorded: `tracing_errno`.
    pub errnos: ErrnoSet,
}

impl<C: Clone> Settings<C> {
    /// The settings at the start: nothing is traced.
    pub const fn new() -> Self {
        Self {
            tracer: Tracer::Nop,
            implicit: false,
            lists: FunctionLists::new(),
            commands: CommandList::new(),
            options: Options::new(),
            profile: false,
            max_depth: None,
            thresh: 0,
            errnos: ErrnoSet::NONE,
        }
    }

    /// Makes a copy.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub fn duplicate(&self) -> Result<Self, AllocError> {
        Ok(Self {
            lists: self.lists.duplicate()?,
            commands: self.commands.duplicate()?,
            ..*self
        })
    }

    /// Edits a list, and for `filter` commands too, by the words that were written to its file: see
    /// [`FunctionLists::edit`]. A filter starts the `function` tracer if there is none, and
    /// clearing the filter stops a tracer that was so started.
    ///
    /// # Errors
    ///
    /// Those of the edit; the settings may be half edited then, which is why a copy is edited.
    #[inline(never)]
    pub fn edit_list(
        &mut self,
        list: FunctionList,
        text: &[u8],
        replace: bool,
        known: KnownFunctions<'_>,
        count: &dyn Fn(Option<u64>) -> Result<C, AllocError>,
    ) -> Result<(), ListError> {
        self.lists.edit(list, text, replace, known)?;
        if list == FunctionList::Filter {
            self.commands.edit(text, known, count)?;
        }
        match (self.lists.has(FunctionList::Filter), self.tracer) {
            (true, Tracer::Nop) if matches!(list, FunctionList::Filter | FunctionList::Notrace) => {
                if list == FunctionList::Filter {
                    self.tracer = Tracer::Function;
                    self.implicit = true;
                }
            }
            (false, Tracer::Function) if list == FunctionList::Filter && self.implicit => {
                self.tracer = Tracer::Nop;
                self.implicit = false;
            }
            _ => {}
        }
        Ok(())
    }

    /// Removes the functions at addresses `range` from all lists, which needs no memory: their
    /// module goes. Returns whether there were any.
    pub fn forget(&mut self, range: &Range<usize>) -> bool {
        let in_lists = self.lists.forget(range);
        self.commands.forget(range) || in_lists
    }

    /// Ends all recording, which needs no memory: lists and other settings stay, except for the
    /// commands.
    pub fn end_recording(&mut self) {
        self.tracer = Tracer::Nop;
        self.implicit = false;
        self.profile = false;
        self.commands.clear();
        self.options = self.options.with(TraceOption::FunctionFork, false);
    }

    /// Returns whether functions that come and go with modules must be hooked and unhooked
    /// explicitly, though no list names them.
    pub fn needs_news(&self) -> bool {
        let lists = &self.lists;
        let all = !lists.has(FunctionList::Filter);
        let is_narrowed =
            lists.has(FunctionList::Notrace) || self.options.has(TraceOption::FuncStackTrace);
        all && match self.tracer {
            Tracer::FunctionGraph => true,
            Tracer::Nop => self.profile,
            _ => is_narrowed || self.profile,
        }
    }
}
