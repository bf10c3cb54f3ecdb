// SPDX-License-Identifier: GPL-2.0

//! The state of the machine, which all instances share.

mod btf;
mod catalog;
mod clock;
mod going;
mod retired_hooks;
mod writing_cost;

use core::ops::{DerefMut, Range};

use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

pub(crate) use self::btf::KernelBtf;
use self::btf::Types;
use self::catalog::CatalogCache;
use self::clock::Clocks;
use self::going::GoingModules;
use self::retired_hooks::RetiredHooks;
use self::writing_cost::WritingCost;
use crate::engine::catalog::{Catalog, MAX_LOCATION_OFFSET};
use crate::engine::clock::ClockKind;
use crate::engine::timeline::Timeline;
use crate::sys::private::{Addresses, FprobeNumber};
use crate::tracer::graph_hooks::GraphHooks;
use crate::tracer::own_call;

/// The state that all instances share.
///
/// The lock of the list of functions is taken before that of modules that go.
#[pin_data]
pub(crate) struct Machine {
    #[pin]
    functions: CatalogCache,
    #[pin]
    going: GoingModules,
    #[pin]
    clocks: Clocks,
    addresses: Addresses,
    writing_cost: WritingCost,
    #[pin]
    retired_hooks: RetiredHooks,
    #[pin]
    numbers: Mutex<FprobeNumber>,
    #[pin]
    types: Types,
}

impl Machine {
    /// Creates the state: looks at the clocks and at where things are in the kernel, and does
    /// nothing else yet.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        let mut addresses = Addresses::look_up();
        let numbers = FprobeNumber::new(addresses.take_numbers());
        try_pin_init!(Self {
            functions <- CatalogCache::new(),
            going <- GoingModules::new(),
            clocks <- Clocks::new(),
            addresses,
            writing_cost: WritingCost::new(),
            retired_hooks <- RetiredHooks::new(),
            numbers <- new_mutex!(numbers),
            types <- Types::new(),
        }? Error)
    }

    /// Returns whether events are stamped with cycles of the time stamp counter for this clock.
    pub(crate) fn is_counter(&self, kind: ClockKind) -> bool {
        self.clocks.is_counter(kind)
    }

    /// Returns the way from stamps of a clock to times, the same for every reader until the
    /// kernel's clock was adjusted or has slept.
    pub(crate) fn timeline(&self, kind: ClockKind) -> Timeline {
        self.clocks.timeline(kind)
    }

    /// Returns the ticks of a clock that last `ns`; 1 for a clock that does not count time.
    pub(crate) fn ticks(&self, kind: ClockKind, ns: u64) -> u64 {
        self.clocks.ticks(kind, ns)
    }

    /// Returns the greatest difference of times from those of the kernel's own `local` clock at the
    /// same moment, in ns, if times are converted; `None` if not.
    pub(crate) fn conversion_error(&self) -> Option<u64> {
        self.clocks.conversion_error()
    }

    /// Returns where the code lies that interrupts come in by; empty if the kernel does not say.
    pub(crate) fn irq_text(&self) -> Range<u64> {
        self.addresses.irq_text.clone()
    }

    /// Returns the address of the function that programs' markers are shown as.
    pub(crate) fn marker_ip(&self) -> u64 {
        self.addresses.marker_ip
    }

    /// Returns the types of the kernel; `None` if the kernel does not say, or there is no memory.
    pub(crate) fn btf(&self) -> Option<Arc<KernelBtf>> {
        self.types.get()
    }

    /// Returns the bytes of memory that the types take.
    pub(crate) fn btf_bytes(&self) -> usize {
        self.types.bytes()
    }

    /// Returns where the kernel's own text lies, without that of modules; empty if that is not
    /// known.
    pub(crate) fn core_text(&self) -> Range<u64> {
        self.addresses.core_text.clone()
    }

    /// Calls `user` with the list of functions.
    ///
    /// # Errors
    ///
    /// Those of [`read_lines`](crate::sys::private::read_lines), `EINVAL` if the list is not of the
    /// known form, and those of `user`.
    pub(crate) fn with_catalog<R>(&self, user: impl FnOnce(&Catalog) -> Result<R>) -> Result<R> {
        self.functions.with_catalog(&self.going, user)
    }

    /// Returns the addresses of a function whose calls must not be hooked by fprobe: called while
    /// fprobe moves its table, it would look into that table, and never find an end. See
    /// docs/upstream/fprobe-table-endless.md.
    pub(crate) fn never_called(&self) -> Range<usize> {
        match self.addresses.called_by_fprobe as usize {
            0 => 0..0,
            address => address..address.saturating_add(MAX_LOCATION_OFFSET + 1),
        }
    }

    /// Forgets the list of functions, as a module came or went.
    pub(crate) fn forget_catalog(&self) {
        self.functions.forget();
    }

    /// Returns the number of the list of functions, which is another one after a module came or
    /// went.
    pub(crate) fn catalog_generation(&self) -> u64 {
        self.functions.generation()
    }

    /// Notes that the functions at addresses `text` are no longer to be traced, as their module
    /// goes.
    pub(crate) fn module_leaves(&self, text: &[Range<usize>]) {
        self.going.leaves(text);
        self.forget_catalog();
    }

    /// Notes that a module is being loaded at addresses `text`, before any of its functions runs.
    pub(crate) fn module_loads(&self, text: &[Range<usize>]) {
        self.going.loads(text);
    }

    /// Returns the number of times that a module was loaded. A load counts before an event of it is
    /// seen.
    pub(crate) fn modules_loaded(&self) -> u64 {
        self.going.loaded()
    }

    /// Measures what writing an event takes, if that was not done yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn find_writing_ps(&self) -> Result {
        self.writing_cost.find(&self.addresses.core_text)
    }

    /// Returns the time that writing an event takes, in picoseconds; 0 if that was not measured.
    pub(crate) fn writing_ps(&self) -> u64 {
        self.writing_cost.ps()
    }

    /// Returns hooks of calls: those of an instance that was removed, or new ones.
    pub(crate) fn reuse_graph_hooks(&self) -> GraphHooks {
        self.retired_hooks.take()
    }

    /// Keeps hooks of calls for another instance.
    pub(crate) fn keep_graph_hooks(&self, hooks: GraphHooks) {
        self.retired_hooks.keep(hooks);
    }

    /// Looks whether the kernel keeps open calls in the form known here, if that was not done yet.
    ///
    /// # Errors
    ///
    /// Those of [`own_call::look`].
    pub(crate) fn look_at_shadow_stacks(&self) -> Result {
        own_call::look(&mut self.numbers.lock())
    }

    /// Takes the lock that is held while calls are hooked, after an instance's `control`: for
    /// [`Fprobes::prepare`](crate::sys::fprobe::Fprobes::prepare).
    pub(crate) fn hooks_calls(&self) -> impl DerefMut<Target = FprobeNumber> + '_ {
        self.numbers.lock()
    }

    /// Returns the bytes of memory that the list of functions takes now.
    pub(crate) fn catalog_bytes(&self) -> usize {
        self.functions.bytes()
    }
}
