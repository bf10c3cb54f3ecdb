// SPDX-License-Identifier: GPL-2.0

//! Callbacks at the entry and at the return of kernel functions.
//!
//! C header: [`include/linux/fprobe.h`](srctree/include/linux/fprobe.h)

mod place;
mod probe;

use kernel::bindings;
use kernel::prelude::*;

use self::place::{take_left_behind, ProbePlace};
use self::probe::Fprobe;
pub(crate) use self::probe::{CallEntry, CallHandler, CallReturn, Interest};
use super::private::numbers::{self, FprobeNumber};
use super::{ffi, rcu};

/// Most functions of a probe: fprobe asks for 32 bytes of contiguous memory for each.
const MAX_FUNCTIONS: usize = 16384;

/// Functions this many bytes apart are not of one probe, as modules are from the kernel itself.
const FAR: usize = 1 << 24;

/// Bytes from a function's symbol to its ftrace location: those of `endbr64`.
const LOCATION: usize = if cfg!(CONFIG_X86_KERNEL_IBT) { 4 } else { 0 };

/// Returns the ftrace location of `sprint_symbol_no_offset()`, a function that is exported, rarely
/// called, and has no effect.
pub(crate) fn quiet_function() -> usize {
    bindings::sprint_symbol_no_offset as *const () as usize + LOCATION
}

/// Returns the words that a call takes of the shadow stack, of which a probe keeps `data` words,
/// if nothing else hooks it: fgraph's frame, the words by which it knows its users and their data
/// (`fgraph_reserve_data()` of kernel/trace/fgraph.c), fprobe's header, and the data.
pub(crate) const fn frame_words(data: usize) -> usize {
    size_of::<bindings::ftrace_ret_stack>() / 8 + 3 + data
}

/// The fate of calls that are open when their probe goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OpenCalls {
    /// They are told of their returns, by another probe, where it is known how fgraph keeps calls.
    Kept,
    /// They are not told of their returns.
    Lost,
    /// Nothing goes on as it is, and no call that is open is taken for one of what is new.
    Forgotten,
}

/// The functions of one role.
pub(crate) struct RoleFunctions<'a, R> {
    pub(crate) role: R,
    /// Their ftrace locations, in order.
    pub(crate) ips: &'a [usize],
}

/// Traced functions.
///
/// # Examples
///
/// ```ignore
/// use kernel::prelude::*;
///
/// use crate::platform::{AtomicU64, Ordering};
/// use crate::sys::clock::local_ns;
/// use crate::sys::fprobe::{
///     CallEntry, CallHandler, CallReturn, Fprobes, Interest, OpenCalls, RoleFunctions,
/// };
/// use crate::sys::private::FprobeNumber;
///
/// /// Adds up how long calls take.
/// struct Durations(AtomicU64);
///
/// impl CallHandler<u64> for Durations {
///     type Role = ();
///
///     fn called(&self, _role: (), call: CallEntry<'_, u64>) -> Interest {
///         *call.data = local_ns();
///         Interest::Return
///     }
///
///     fn returned(&self, call: CallReturn<'_, u64>) {
///         let duration = local_ns().saturating_sub(*call.data);
///         self.0.fetch_add(duration, Ordering::Relaxed);
///     }
/// }
///
/// /// Returns how long calls of the functions at `ips` take while `body` runs, in ns.
/// fn time_within(numbers: &mut FprobeNumber, ips: &[usize], body: impl FnOnce()) -> Result<u64> {
///     let durations = KBox::new(Durations(AtomicU64::new(0)), GFP_KERNEL)?;
///     let mut probes = Fprobes::new();
///     let groups = [RoleFunctions { role: (), ips }];
///     // SAFETY: `durations` stays valid until nothing is traced any more: `probes` was made after
///     // it, so its drop, which ends tracing, comes first.
///     let change = unsafe { probes.prepare(numbers, &*durations, &groups, OpenCalls::Lost)? };
///     probes.turn(&change);
///     probes.finish(change);
///     body();
///     probes.clear();
///     Ok(durations.0.load(Ordering::Relaxed))
/// }
/// ```
///
/// # Invariants
///
/// All of `live` are registered, and `keeper`; none of `idle` is.
pub(crate) struct Fprobes<T: CallHandler<D>, D: Copy + 'static> {
    live: KVec<ProbePlace<T, D>>,
    /// A probe that takes no calls, and is told of the returns of those that others took, which are
    /// gone.
    keeper: Option<ProbePlace<T, D>>,
    /// Calls may still be open that know the address of one of these. So they are used for nothing
    /// else.
    idle: KVec<ProbePlace<T, D>>,
    /// Places that open calls know, where these calls are to be taken for no probe's.
    worn: KVec<ProbePlace<T, D>>,
    /// Calls whose return was missed by probes that are gone.
    missed: u64,
}

// SAFETY: Probes are only changed under exclusive access; what callbacks read of them does not
// change while they are registered.
unsafe impl<T: CallHandler<D>, D: Copy + 'static> Send for Fprobes<T, D> {}
// SAFETY: What shared references change are flags, by single stores.
unsafe impl<T: CallHandler<D>, D: Copy + 'static> Sync for Fprobes<T, D> {}

impl<T: CallHandler<D>, D: Copy + 'static> Fprobes<T, D> {
    /// Nothing is traced.
    pub(crate) const fn new() -> Self {
        Self {
            live: KVec::new(),
            keeper: None,
            idle: KVec::new(),
            worn: KVec::new(),
            missed: 0,
        }
    }

    /// Has fprobe a number that will do, as long as what is returned is kept and others are
    /// registered before it goes. Nothing is called by it; `ip` is any function.
    ///
    /// A number is kept as long as there is a user of it. If another user of fgraph was faster, and
    /// the number will not do, one is asked for once more. If another user of fprobe holds it, that
    /// is in vain, and not this module's fault.
    fn hold_number(
        numbers: &mut FprobeNumber,
        handler: *const T,
        role: T::Role,
        ip: usize,
    ) -> Result<ProbePlace<T, D>> {
        let mut holder = ProbePlace::new(Fprobe::new(role, &[ip])?)?;
        let mut before = None;
        for _ in 0..numbers::NUMBERS {
            numbers.make_ready()?;
            // SAFETY: It is silent for as long as it is there, so the handler is never used.
            let result = unsafe { holder.probe_mut().register(handler) };
            result.inspect_err(|_| numbers.forget_failure())?;
            let number = numbers.number();
            if number == before || number.is_none_or(|number| numbers.will_do(number)) {
                return Ok(holder);
            }
            before = number;
            holder.unregister();
        }
        Err(EBUSY)
    }

    /// Calls whose return could not be watched.
    pub(crate) fn missed(&self) -> u64 {
        let live = self.live.iter().map(|probe| probe.missed());
        live.fold(self.missed, u64::wrapping_add)
    }

    /// The address by which fprobe knows the first of them.
    pub(crate) fn address(&self) -> Option<u64> {
        Some(self.live.first()?.address())
    }

    /// The roles of functions that are traced.
    pub(crate) fn roles(&self) -> impl Iterator<Item = T::Role> + '_ {
        self.live.iter().map(|probe| probe.role)
    }

    /// Counts [`Self::missed`] from 0 on. Nothing is traced.
    pub(crate) fn forget_missed(&mut self) {
        self.missed = 0;
    }

    /// Prepares to trace the functions of `groups`, and no others: registers what is missing, which
    /// calls nothing yet. [`Self::finish`] or [`Self::give_up`] is to follow.
    ///
    /// # Errors
    ///
    /// Nothing is changed then.
    ///
    /// - `ENOENT` if one of the addresses is no ftrace location.
    /// - `ENOMEM` if there is no memory.
    /// - `ENOSPC` if fgraph has as many users as it can have.
    /// - `EBUSY` if other users have left calls open for which each of its numbers is of no use.
    ///
    /// # Safety
    ///
    /// `handler` stays valid until nothing is traced any more.
    #[inline(never)]
    pub(crate) unsafe fn prepare(
        &mut self,
        numbers: &mut FprobeNumber,
        handler: *const T,
        groups: &[RoleFunctions<'_, T::Role>],
        open_calls: OpenCalls,
    ) -> Result<ProbeChange<T, D>> {
        let anew = open_calls == OpenCalls::Forgotten;
        let is_wanted = |role: T::Role, ip: &usize| {
            let mut of_role = groups.iter().filter(|group| group.role == role);
            of_role.any(|group| group.ips.binary_search(ip).is_ok())
        };
        let mut keep = KVec::with_capacity(self.live.len(), GFP_KERNEL)?;
        for probe in &self.live {
            let all = !anew && probe.ips.iter().all(|ip| is_wanted(probe.role, ip));
            keep.push(all, GFP_KERNEL)?;
        }
        let mut change = ProbeChange {
            keep,
            new: KVec::new(),
            holder: None,
            keeper: None,
            open_calls,
        };
        let kept = |role: T::Role, ip: &usize| {
            let mut kept = self
                .live
                .iter()
                .zip(&change.keep)
                .filter(|(_, keep)| **keep);
            kept.any(|(probe, _)| probe.role == role && probe.ips.binary_search(ip).is_ok())
        };
        let mut missing = KVec::new();
        for group in groups {
            let mut ips = KVVec::new();
            for ip in group.ips {
                if !kept(group.role, ip) {
                    ips.push(*ip, GFP_KERNEL)?;
                }
            }
            missing.push((group.role, ips), GFP_KERNEL)?;
        }
        let first = groups
            .iter()
            .find_map(|group| Some((group.role, *group.ips.first()?)));
        if let (Some((role, ip)), true) = (first, self.live.is_empty()) {
            change.holder = Some(Self::hold_number(numbers, handler, role, ip)?);
        }
        // SAFETY: `handler` stays valid until nothing is traced any more, by caller precondition.
        let result = unsafe { self.register(&mut change, numbers, handler, &missing) };
        match result {
            Ok(()) => Ok(change),
            Err(error) => {
                self.give_up(change);
                Err(error)
            }
        }
    }

    /// Registers probes of `missing`, which call nothing yet, and makes room for them. If that
    /// fails, some may be there.
    ///
    /// # Safety
    ///
    /// As for [`Self::prepare`].
    unsafe fn register(
        &mut self,
        change: &mut ProbeChange<T, D>,
        numbers: &mut FprobeNumber,
        handler: *const T,
        missing: &[(T::Role, KVVec<usize>)],
    ) -> Result {
        for (role, ips) in missing {
            // Functions that lie far apart come and go at different times, with modules.
            let near = ips.chunk_by(|a, b| b.wrapping_sub(*a) < FAR);
            for ips in near.flat_map(|ips| ips.chunks(MAX_FUNCTIONS)) {
                change.new.reserve(1, GFP_KERNEL)?;
                let mut place = self.place(Fprobe::new(*role, ips)?, change.open_calls)?;
                // Probes that are registered may have gone with a module meanwhile, and the number
                // with them.
                let result = numbers.make_ready().and_then(|()| {
                    // SAFETY: `handler` stays valid until nothing is traced any more, by caller
                    // precondition, and so until the probe is unregistered.
                    unsafe { place.probe_mut().register(handler) }
                });
                let _ = change.new.push(place, GFP_KERNEL);
                result.inspect_err(|_| numbers.forget_failure())?;
            }
        }
        if let (Some(role), true) = (change.needs_keeper(&self.live), self.keeper.is_none()) {
            let mut place = self.place(Fprobe::new(role, &[quiet_function()])?, OpenCalls::Kept)?;
            place.shut();
            let result = numbers.make_ready().and_then(|()| {
                // SAFETY: `handler` stays valid until nothing is traced any more, by caller
                // precondition, and so until the probe is unregistered.
                unsafe { place.probe_mut().register(handler) }
            });
            change.keeper = Some(place);
            result.inspect_err(|_| numbers.forget_failure())?;
        }
        // One more for the keeper.
        let idle = self.live.len().saturating_add(1);
        self.idle.reserve(idle, GFP_KERNEL)?;
        if change.open_calls == OpenCalls::Forgotten {
            let places = self.live.len().saturating_add(self.idle.len());
            let places = places.saturating_add(1);
            self.worn.reserve(places, GFP_KERNEL)?;
        }
        Ok(self.live.reserve(change.new.len(), GFP_KERNEL)?)
    }

    /// A place with `probe` in it.
    fn place(&mut self, probe: Fprobe<T, D>, open: OpenCalls) -> Result<ProbePlace<T, D>> {
        let idle = match open == OpenCalls::Forgotten {
            true => None,
            false => self.idle.pop(),
        };
        match idle {
            Some(mut place) => {
                place.reuse(probe);
                Ok(place)
            }
            None => ProbePlace::new(probe),
        }
    }

    /// Has those that go call nothing any more, and those that are new call from now on. Needs no
    /// memory, and sleeps not: where a function goes from one to another, it may be called where
    /// all CPUs stand still, so that no call is missed or told of twice.
    pub(crate) fn turn(&self, change: &ProbeChange<T, D>) {
        let live = self.live.iter().zip(&change.keep);
        for (probe, _) in live.filter(|(_, keep)| !**keep) {
            match change.open_calls == OpenCalls::Kept {
                true => probe.shut(),
                false => probe.set_flags(ffi::FPROBE_FL_DISABLED),
            }
        }
        change.new.iter().for_each(|place| place.set_flags(0));
        change.keeper.iter().for_each(|place| place.set_flags(0));
    }

    /// Ends the change that was prepared, after [`Self::turn`]. Needs no memory.
    pub(crate) fn finish(&mut self, change: ProbeChange<T, D>) {
        self.hand_over(&change);
        let ProbeChange {
            keep,
            mut new,
            keeper,
            open_calls,
            ..
        } = change;
        for (index, keep) in keep.iter().enumerate().rev() {
            if !keep {
                if let Ok(probe) = self.live.remove(index) {
                    self.retire(probe);
                }
            }
        }
        if let Some(mut keeper) = keeper {
            keeper.was_enabled = true;
            self.keeper = Some(keeper);
        }
        if open_calls == OpenCalls::Forgotten {
            self.retire_keeper();
            self.wear_out();
        } else if (self.keeper.as_ref()).is_some_and(|keeper| !keeper.is_known()) {
            self.retire_keeper();
        }
        while let Some(mut probe) = new.pop() {
            probe.was_enabled = true;
            // Room was reserved.
            let _ = self.live.push(probe, GFP_KERNEL);
        }
    }

    /// Has the open calls of probes that go belong to others of the same kind, if they are to be
    /// kept.
    fn hand_over(&self, change: &ProbeChange<T, D>) {
        if change.open_calls != OpenCalls::Kept || !change.has_old() {
            return;
        }
        let live = || self.live.iter().zip(&change.keep);
        let mut stay = live().filter(|(_, keep)| **keep).map(|(place, _)| place);
        let heir = (stay.next())
            .or(change.new.first())
            .or(change.keeper.as_ref())
            .or(self.keeper.as_ref());
        let Some(heir) = heir else {
            return;
        };
        // Each call that one of them took has its words then.
        rcu::synchronize_preempt_off();
        let mut any = false;
        for (place, _) in live().filter(|(_, keep)| !**keep) {
            any |= place.hand_over(heir);
        }
        if any {
            // Returns that have just found one of them have been told to it then.
            rcu::synchronize_preempt_off();
        }
    }

    fn retire_keeper(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            keeper.unregister();
            // Without memory it goes.
            let _ = self.idle.push(keeper, GFP_KERNEL);
        }
    }

    /// Takes back what was prepared. Needs no memory.
    pub(crate) fn give_up(&mut self, change: ProbeChange<T, D>) {
        let mut new = change.new;
        let mut keeper = change.keeper;
        while let Some(mut place) = new.pop().or_else(|| keeper.take()) {
            place.unregister();
            if place.was_enabled {
                // It had a place there, so this does not fail.
                let _ = self.idle.push(place, GFP_KERNEL);
            }
        }
    }

    fn retire(&mut self, mut place: ProbePlace<T, D>) {
        place.unregister();
        self.missed = self.missed.wrapping_add(place.missed());
        // Without memory it goes.
        let _ = self.idle.push(place, GFP_KERNEL);
    }

    /// Ends tracing. Needs no memory.
    pub(crate) fn clear(&mut self) {
        while let Some(probe) = self.live.pop() {
            self.retire(probe);
        }
        self.retire_keeper();
    }

    /// Makes sure that no call that is open now is ever taken for one of a later probe. Nothing is
    /// traced.
    fn wear_out(&mut self) {
        self.worn.retain(|place| place.is_known());
        while let Some(mut place) = self.idle.pop() {
            if place.is_known() {
                place.forget_functions();
                // Without memory it goes.
                let _ = self.worn.push(place, GFP_KERNEL);
            }
        }
    }

    /// Ends tracing, and makes sure that no call that is open now is ever taken for one of a later
    /// probe.
    pub(crate) fn forget_calls(&mut self) {
        self.clear();
        self.wear_out();
    }
}

/// A change of what is traced that was prepared.
#[must_use]
pub(crate) struct ProbeChange<T: CallHandler<D>, D: Copy + 'static> {
    /// Of each that is live, whether it stays.
    keep: KVec<bool>,
    /// Those that are registered, and call nothing yet.
    new: KVec<ProbePlace<T, D>>,
    /// Has fprobe keep its number until they are.
    holder: Option<ProbePlace<T, D>>,
    /// The one that open calls are to belong to, if no other is there.
    keeper: Option<ProbePlace<T, D>>,
    open_calls: OpenCalls,
}

// SAFETY: Its probes are only changed under exclusive access; what callbacks read of them does not
// change while they are registered.
unsafe impl<T: CallHandler<D>, D: Copy + 'static> Send for ProbeChange<T, D> {}
// SAFETY: What shared references change are the flags of its probes, by single stores.
unsafe impl<T: CallHandler<D>, D: Copy + 'static> Sync for ProbeChange<T, D> {}

impl<T: CallHandler<D>, D: Copy + 'static> ProbeChange<T, D> {
    /// Returns whether anything goes.
    pub(crate) fn has_old(&self) -> bool {
        self.keep.contains(&false)
    }

    /// Returns the role of one that goes, if open calls are to be kept and none is there that they
    /// could belong to.
    fn needs_keeper(&self, live: &[ProbePlace<T, D>]) -> Option<T::Role> {
        let is_meant = self.open_calls == OpenCalls::Kept
            && self.has_old()
            && !self.keep.contains(&true)
            && self.new.is_empty();
        live.first().filter(|_| is_meant).map(|place| place.role)
    }

    /// Returns whether anything is new.
    pub(crate) fn has_new(&self) -> bool {
        !self.new.is_empty()
    }
}

impl<T: CallHandler<D>, D: Copy + 'static> Drop for Fprobes<T, D> {
    fn drop(&mut self) {
        self.clear();
        self.idle.clear();
        self.worn.clear();
        match take_left_behind() {
            0 => {}
            left => pr_info!("{left} probes stay in memory: calls are open that know them\n"),
        }
    }
}
