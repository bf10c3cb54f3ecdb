// SPDX-License-Identifier: GPL-2.0

//! The state of the machine, which all instances share.

mod btf;
pub(crate) mod call_hooks;
mod catalog;
mod clock;
mod going;
mod types_cache;
mod writing_cost;

use core::ops::Range;

use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex, MutexGuard};

use self::btf::Types;
pub(crate) use self::btf::{KernelBtf, TypesSize};
use self::call_hooks::CallHooks;
use self::catalog::CatalogCache;
use self::clock::Clocks;
use self::going::GoingModules;
pub(crate) use self::types_cache::TypesCache;
use self::writing_cost::WritingCost;
use crate::engine::catalog::{Catalog, MAX_LOCATION_OFFSET};
use crate::engine::clock::{ClockKind, Conversion};
use crate::engine::timeline::Timeline;
use crate::sys::private::{Addresses, FprobeNumber};

/// The lock of the hooks of calls, which is held.
pub(crate) type HooksGuard<'a> = MutexGuard<'a, CallHooks>;

/// The membership of an instance among those that have calls hooked. As this goes, all that is
/// hooked for it is unhooked.
pub(crate) struct HookMember {
    machine: Arc<Machine>,
    id: u64,
}

impl HookMember {
    /// Adds an instance.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn new(machine: Arc<Machine>) -> Result<Self> {
        let id = machine.hooks.lock().join()?;
        Ok(Self { machine, id })
    }

    /// Returns its number.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// Ends the membership; with `forgets`, the returns of calls that are open are ignored.
    pub(crate) fn leave(&self, forgets: bool) {
        let mut hooks = self.machine.hooks.lock();
        if forgets {
            hooks.forget_calls(self.id);
        }
        hooks.leave(self.id);
    }
}

impl Drop for HookMember {
    fn drop(&mut self) {
        self.leave(false);
    }
}

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
    hooks: Mutex<CallHooks>,
    #[pin]
    types: Types,
    profile_limits: ProfileLimits,
}

/// The bounds of what a profile keeps.
#[derive(Clone, Copy)]
pub(crate) struct ProfileLimits {
    /// The number of functions that may have a histogram, on each CPU.
    pub(crate) histograms: usize,
    /// The number of contexts that there may be.
    pub(crate) contexts: usize,
}

impl Machine {
    /// Creates the state: looks at the clocks and at where things are in the kernel, and does
    /// nothing else yet. Profiles are to have `profile_limits`.
    pub(crate) fn new(profile_limits: ProfileLimits) -> impl PinInit<Self, Error> {
        let mut addresses = Addresses::look_up();
        let numbers = FprobeNumber::new(addresses.take_numbers());
        try_pin_init!(Self {
            functions <- CatalogCache::new(),
            going <- GoingModules::new(),
            clocks <- Clocks::new(),
            addresses,
            writing_cost: WritingCost::new(),
            hooks <- new_mutex!(CallHooks::new(numbers)?),
            types <- Types::new(),
            profile_limits,
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

    /// Returns the conversion of cycles into times of the `local` clock, and its greatest error in
    /// ns, if there is one.
    pub(crate) fn conversion(&self) -> Option<(Conversion, u64)> {
        self.clocks.conversion()
    }

    /// Does as [`Machine::timeline`] without a lock, if `known` is what
    /// [`Machine::conversion`] said earlier.
    pub(crate) fn timeline_by_known(
        &self,
        kind: ClockKind,
        known: Option<(Conversion, u64)>,
    ) -> Timeline {
        self.clocks.timeline_by_known(kind, known)
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

    /// Returns the types of the kernel; `None` if the kernel does not say.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn btf(&self) -> Result<Option<Arc<KernelBtf>>> {
        self.types.get()
    }

    /// Returns the types of `module`, which go on from the kernel's; `None` if it has none.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn module_btf(&self, module: &[u8]) -> Result<Option<Arc<KernelBtf>>> {
        self.types.of_module(module)
    }

    /// Returns the memory that the types take.
    pub(crate) fn types_size(&self) -> TypesSize {
        self.types.size()
    }

    /// Returns where the kernel's own text lies, without that of modules; empty if that is not
    /// known.
    pub(crate) fn core_text(&self) -> Range<u64> {
        self.addresses.core_text.clone()
    }

    /// Returns the bounds of what a profile keeps.
    pub(crate) fn profile_limits(&self) -> ProfileLimits {
        self.profile_limits
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

    /// Returns the addresses of functions whose calls must not be hooked by fprobe. Called while
    /// fprobe moves its table, the one would look into that table, and never find an end; from the
    /// other lockdep hears a false alarm. See docs/upstream/fprobe-table-endless.md and
    /// fprobe-return-to-user.md.
    pub(crate) fn never_called(&self) -> [Range<usize>; 2] {
        let addresses = &self.addresses;
        [addresses.called_by_fprobe, addresses.returns_to_user].map(|address| match address {
            0 => 0..0,
            address => {
                let address = address as usize;
                address..address.saturating_add(MAX_LOCATION_OFFSET + 1)
            }
        })
    }

    /// Returns the addresses of the functions by which the machine begins to die, as far as they
    /// are known.
    pub(crate) fn deaths(&self) -> impl Iterator<Item = usize> {
        let known = self
            .addresses
            .deaths
            .into_iter()
            .filter(|address| *address != 0);
        known.map(|address| address as usize)
    }

    /// Has the hooks of calls forget the functions at addresses `text`, which go.
    pub(crate) fn hooks_forget(&self, text: &[Range<usize>]) {
        let mut hooks = self.hooks.lock();
        text.iter().for_each(|range| hooks.forget(range));
    }

    /// Notes that the functions at addresses `init`, by which a module was loaded, go.
    pub(crate) fn module_loaded(&self, init: &Range<usize>) {
        let init = core::slice::from_ref(init);
        self.going.leaves(init);
        self.forget_catalog();
        self.hooks_forget(init);
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
    /// `name` goes.
    pub(crate) fn module_leaves(&self, name: &[u8], text: &[Range<usize>]) {
        self.going.leaves(text);
        self.forget_catalog();
        self.types.forget(name);
        self.hooks_forget(text);
    }

    /// Notes that module `name` is being loaded at addresses `text`, before any of its functions
    /// runs. Its types can be read.
    pub(crate) fn module_loads(&self, name: &[u8], text: &[Range<usize>]) {
        self.types.forget(name);
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

    /// Looks whether the kernel keeps open calls in the form known here, if that was not done yet.
    ///
    /// # Errors
    ///
    /// Those of [`own_call::look`](crate::tracer::own_call::look).
    pub(crate) fn look_at_shadow_stacks(&self) -> Result {
        self.hooks.lock().look_at_shadow_stacks()
    }

    /// Takes the lock of the hooks of calls, after an instance's `control`.
    pub(crate) fn hooks(&self) -> HooksGuard<'_> {
        self.hooks.lock()
    }

    /// Returns the bytes of memory that the list of functions takes now.
    pub(crate) fn catalog_bytes(&self) -> usize {
        self.functions.bytes()
    }
}
