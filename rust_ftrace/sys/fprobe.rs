// SPDX-License-Identifier: GPL-2.0

//! Callbacks at the entry and at the return of kernel functions.
//!
//! C header: [`include/linux/fprobe.h`](srctree/include/linux/fprobe.h)

use core::marker::{PhantomData, PhantomPinned};
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::types::Opaque;

use super::context::PreemptOff;
use super::fgraph::{self, Numbers};
use super::ftrace::{Registers, Site};
use super::{dead_ftrace, faults, ffi, shadow_stacks};
use crate::engine::ring::Call;

/// Called at the entry and the return of traced functions.
///
/// `D` is what is kept of a call between the two, on the task's shadow stack. It is of plain words, for which
/// any bits will do.
pub(crate) trait CallHandler<D: Copy>: Send + Sync + 'static {
    /// The role that the functions of a probe have in common.
    type Role: Copy + Send + Sync + Eq;

    /// A traced function was entered; whether its return is of interest. `data` is not initialised.
    ///
    /// Runs in any context, NMI included, with preemption off. What it calls may be traced; fgraph does
    /// not come back here from it, but the hooks of others may.
    fn called(&self, role: Self::Role, call: Called<'_, D>) -> bool;

    /// A traced function returns. `data` is what `called` left there, perhaps of an earlier probe with the
    /// same `D`.
    fn returned(&self, call: Returned<'_, D>);
}

/// The entry of a function.
pub(crate) struct Called<'a, D> {
    pub(crate) site: Site<'a>,
    pub(crate) token: PreemptOff<'a>,
    pub(crate) data: &'a mut D,
}

/// The return of a function.
pub(crate) struct Returned<'a, D> {
    /// The function's ftrace location.
    pub(crate) ip: u64,
    pub(crate) registers: Registers<'a>,
    pub(crate) token: PreemptOff<'a>,
    pub(crate) data: &'a mut D,
}

/// Most functions of a probe: fprobe asks for 32 bytes of contiguous memory for each.
const MAX_FUNCTIONS: usize = 16384;

/// Functions this many bytes apart are not of one probe, as modules are from the kernel itself.
const FAR: usize = 1 << 24;

/// An fprobe.
///
/// # Invariants
///
/// - `registered` says whether the fprobe is.
/// - `handler` is valid while it is.
#[repr(C)]
struct Probe<T: CallHandler<D>, D: Copy + 'static> {
    fprobe: Opaque<ffi::fprobe>,
    handler: *const T,
    role: T::Role,
    ips: KVVec<usize>,
    registered: bool,
    _data: PhantomData<fn(D)>,
    /// fprobe keeps its address.
    _pin: PhantomPinned,
}

/// The functions of one role.
pub(crate) struct Group<'a, R> {
    pub(crate) role: R,
    /// Their ftrace locations, in order.
    pub(crate) ips: &'a [usize],
}

/// Traced functions.
///
/// # Invariants
///
/// All of `live` are registered, none of `idle` is.
pub(crate) struct Probes<T: CallHandler<D>, D: Copy + 'static> {
    live: KVec<Place<T, D>>,
    /// Calls may still be open that know the address of one of these. So they are used for nothing else.
    idle: KVec<Place<T, D>>,
    /// Of these, those that calls know which are to be taken for nobody's.
    worn: KVec<Place<T, D>>,
    /// Calls whose return was missed by probes that are gone.
    missed: u64,
}

// SAFETY: Probes are only changed under exclusive access; what callbacks read of them does not change while
// they are registered.
unsafe impl<T: CallHandler<D>, D: Copy + 'static> Send for Probes<T, D> {}

impl<T: CallHandler<D>, D: Copy + 'static> Probe<T, D> {
    /// A probe of `ips`.
    fn new(role: T::Role, ips: &[usize]) -> Result<Self> {
        let mut own = KVVec::new();
        own.extend_from_slice(ips, GFP_KERNEL)?;
        Ok(Self {
            fprobe: Opaque::new(ffi::fprobe {
                // (so it begins silent, see `Place::enable`)
                flags: ffi::FPROBE_FL_DISABLED,
                entry_data_size: core::mem::size_of::<D>(),
                entry_handler: Some(entry::<T, D>),
                exit_handler: Some(exit::<T, D>),
                ..Default::default()
            }),
            handler: core::ptr::null(),
            role,
            ips: own,
            registered: false,
            _data: PhantomData,
            _pin: PhantomPinned,
        })
    }

    /// Registers it; it calls nothing yet.
    ///
    /// # Safety
    ///
    /// `handler` stays valid until the probe is unregistered.
    unsafe fn register(self: Pin<&mut Self>, handler: *const T) -> Result {
        // SAFETY: Nothing is moved.
        let this = unsafe { self.get_unchecked_mut() };
        // INVARIANT: The caller promises it.
        this.handler = handler;
        let count = c_int::try_from(this.ips.len())?;
        // CAST: `unsigned long` is as large as `usize`; C only reads the addresses.
        let ips = this.ips.as_ptr().cast_mut().cast::<c_ulong>();
        faults::here("register_fprobe_ips")?;
        // SAFETY: The fprobe is initialised, pinned, and unregistered before it goes; `ips` points to
        // `count` addresses.
        let result = to_result(unsafe { ffi::register_fprobe_ips(this.fprobe.get(), ips, count) });
        dead_ftrace::notice(result)?;
        // INVARIANT: It is from here on.
        this.registered = true;
        Ok(())
    }

    fn flags(&self) -> &AtomicU32 {
        // SAFETY: The fprobe is initialised.
        let flags = unsafe { &raw mut (*self.fprobe.get()).flags };
        // SAFETY: A valid, aligned int; fprobe only reads it once it is registered.
        unsafe { AtomicU32::from_ptr(flags) }
    }

    /// Returns once the handler is not called any more.
    fn unregister(&mut self) {
        if !core::mem::take(&mut self.registered) {
            return;
        }
        // SAFETY: It is registered.
        let result = to_result(unsafe { ffi::unregister_fprobe(self.fprobe.get()) });
        let result = dead_ftrace::notice(result);
        if let Err(error) = result {
            pr_err!("cannot unregister an fprobe: {error:?}\n");
        }
    }

    fn missed(&self) -> u64 {
        // SAFETY: The fprobe is initialised.
        let missed = unsafe { &raw const (*self.fprobe.get()).nmissed };
        // SAFETY: A valid, aligned word that others may count up meanwhile.
        unsafe { missed.read_volatile() as u64 }
    }
}

/// A probe where fprobe knows it.
///
/// Calls that are open know a probe by its address, and fprobe hands what was kept of a call to whoever has that
/// address when it returns, whatever it is. So what lies there may not become another kind of probe, ours or
/// anybody's, while such a call is open: a task may sleep in one for ever.
///
/// # Invariants
///
/// No call that is open knows the address but from probes with the same `T` and `D` that were here.
struct Place<T: CallHandler<D>, D: Copy + 'static> {
    probe: ManuallyDrop<Pin<KBox<Probe<T, D>>>>,
    /// A probe here has called its handler.
    was_enabled: bool,
}

/// Places that calls know which were open when these were given up.
static LEFT_BEHIND: AtomicUsize = AtomicUsize::new(0);

impl<T: CallHandler<D>, D: Copy + 'static> Place<T, D> {
    /// A place for `probe` that no call knows.
    fn new(probe: Probe<T, D>) -> Result<Self> {
        let mut known = KVec::new();
        loop {
            let place = KBox::<Probe<T, D>>::new_uninit(GFP_KERNEL)?;
            // (from now on it is ours, so that nobody comes to know it but by us)
            if !shadow_stacks::know(place.as_ptr() as u64, false) {
                // INVARIANT: As was just seen.
                return Ok(Self {
                    probe: ManuallyDrop::new(Pin::from(KBox::write(place, probe))),
                    was_enabled: false,
                });
            }
            known.push(place, GFP_KERNEL)?;
        }
    }

    fn probe_mut(&mut self) -> Pin<&mut Probe<T, D>> {
        self.probe.as_mut()
    }

    /// Has the probe call the handler.
    fn enable(&mut self) {
        self.was_enabled = true;
        self.flags().store(0, Ordering::Release);
    }

    /// Returns once the handler is not called any more.
    fn unregister(&mut self) {
        // SAFETY: Nothing is moved.
        unsafe { self.probe_mut().get_unchecked_mut() }.unregister();
    }

    /// Returns whether a call may be open that knows the address.
    fn is_known(&self) -> bool {
        let address: *const Probe<T, D> = &**self.probe;
        self.was_enabled && shadow_stacks::know(address as u64, true)
    }

    /// Frees what is not needed any more of a probe that is not registered.
    fn forget_functions(&mut self) {
        // SAFETY: Nothing is moved but the list, which fprobe does not know.
        let probe = unsafe { self.probe_mut().get_unchecked_mut() };
        drop(core::mem::take(&mut probe.ips));
    }

    /// Puts `probe` in the place of the one that is there, and is not registered.
    fn reuse(&mut self, probe: Probe<T, D>) {
        // INVARIANT: Of the same kind.
        self.probe_mut().set(probe);
    }
}

impl<T: CallHandler<D>, D: Copy + 'static> Deref for Place<T, D> {
    type Target = Probe<T, D>;

    fn deref(&self) -> &Probe<T, D> {
        &self.probe
    }
}

impl<T: CallHandler<D>, D: Copy + 'static> Drop for Place<T, D> {
    fn drop(&mut self) {
        self.unregister();
        if self.is_known() {
            self.forget_functions();
            let address: *const Probe<T, D> = &**self.probe;
            leave_behind(address.cast());
            return;
        }
        // SAFETY: It is not used any more.
        unsafe { ManuallyDrop::drop(&mut self.probe) };
    }
}

/// Notes that the memory at `place` is never to be freed.
fn leave_behind(place: *const c_void) {
    LEFT_BEHIND.fetch_add(1, Ordering::Relaxed);
    #[cfg(CONFIG_DEBUG_KMEMLEAK)]
    // SAFETY: It was allocated, and not freed.
    unsafe {
        ffi::kmemleak_not_leak(place);
    }
    let _ = place;
}

impl<T: CallHandler<D>, D: Copy + 'static> Probes<T, D> {
    /// Nothing is traced.
    pub(crate) const fn new() -> Self {
        Self {
            live: KVec::new(),
            idle: KVec::new(),
            worn: KVec::new(),
            missed: 0,
        }
    }

    /// Has fprobe a number that will do, as long as what is returned is kept and others are registered before it goes.
    /// Nothing is called by it; `ip` is any function.
    ///
    /// A number is kept as long as anybody uses it. If another user of fgraph was faster than we, and it will not do,
    /// one is asked for once more. If somebody else has fprobe hold it, that is in vain, and it is theirs to answer for.
    fn hold_number(
        numbers: &mut Numbers,
        handler: *const T,
        role: T::Role,
        ip: usize,
    ) -> Result<Place<T, D>> {
        let mut holder = Place::new(Probe::new(role, &[ip])?)?;
        let mut before = None;
        for _ in 0..fgraph::NUMBERS {
            numbers.make_ready()?;
            // SAFETY: It is silent for as long as it is there, so the handler is never used.
            unsafe { holder.probe_mut().register(handler)? };
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

    /// Counts [`Self::missed`] from 0 on. Nothing is traced.
    pub(crate) fn forget_missed(&mut self) {
        self.missed = 0;
    }

    /// Traces the functions of `groups`, and no others, from now on. Open calls of functions that go are not
    /// told of their return; nor are some others.
    ///
    /// # Errors
    ///
    /// Functions that were traced before are traced still.
    ///
    /// - `ENOENT` if one of the addresses is no ftrace location.
    /// - `ENOMEM` if there is no memory.
    /// - `ENOSPC` if fgraph has as many users as it can have.
    /// - `EBUSY` if other users have left calls open for which each of its numbers is of no use.
    ///
    /// # Safety
    ///
    /// `handler` stays valid until nothing is traced any more.
    pub(crate) unsafe fn trace(
        &mut self,
        numbers: &mut Numbers,
        handler: *const T,
        groups: &[Group<'_, T::Role>],
    ) -> Result {
        let is_wanted = |role: T::Role, ip: &usize| {
            let mut of_role = groups.iter().filter(|group| group.role == role);
            of_role.any(|group| group.ips.binary_search(ip).is_ok())
        };
        let mut keep = KVec::with_capacity(self.live.len(), GFP_KERNEL)?;
        for probe in &self.live {
            let all = probe.ips.iter().all(|ip| is_wanted(probe.role, ip));
            keep.push(all, GFP_KERNEL)?;
        }
        let kept = |role: T::Role, ip: &usize| {
            let mut kept = self.live.iter().zip(&keep).filter(|(_, keep)| **keep);
            kept.any(|(probe, _)| probe.role == role && probe.ips.binary_search(ip).is_ok())
        };
        let first = groups
            .iter()
            .find_map(|group| Some((group.role, *group.ips.first()?)));
        let _number = match first {
            Some((role, ip)) if self.live.is_empty() => {
                Some(Self::hold_number(numbers, handler, role, ip)?)
            }
            _ => None,
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
        let mut new = KVec::new();
        // SAFETY: The caller promises it.
        let result = unsafe { self.register(&mut new, numbers, handler, &missing) };
        if let Err(error) = result {
            while let Some(probe) = new.pop() {
                self.put_back(probe);
            }
            return Err(error);
        }
        // Nothing fails from here on.
        for (index, keep) in keep.iter().enumerate().rev() {
            if !keep {
                if let Ok(probe) = self.live.remove(index) {
                    self.retire(probe);
                }
            }
        }
        while let Some(mut probe) = new.pop() {
            probe.enable();
            let _ = self.live.push(probe, GFP_KERNEL);
        }
        Ok(())
    }

    /// Registers probes of `missing` into `new`, which call nothing yet, and makes room for them. If that fails, some
    /// may be there.
    ///
    /// # Safety
    ///
    /// As for [`Self::trace`].
    unsafe fn register(
        &mut self,
        new: &mut KVec<Place<T, D>>,
        numbers: &mut Numbers,
        handler: *const T,
        missing: &[(T::Role, KVVec<usize>)],
    ) -> Result {
        for (role, ips) in missing {
            // (what lies far apart comes and goes at different times: modules)
            let near = ips.chunk_by(|a, b| b.wrapping_sub(*a) < FAR);
            for ips in near.flat_map(|ips| ips.chunks(MAX_FUNCTIONS)) {
                new.reserve(1, GFP_KERNEL)?;
                let mut place = self.place(Probe::new(*role, ips)?)?;
                // (those that are registered may have gone out with a module meanwhile, and the number with them)
                numbers.make_ready()?;
                // SAFETY: The caller promises it.
                let result = unsafe { place.probe_mut().register(handler) };
                let _ = new.push(place, GFP_KERNEL);
                result?;
            }
        }
        self.idle.reserve(self.live.len(), GFP_KERNEL)?;
        Ok(self.live.reserve(new.len(), GFP_KERNEL)?)
    }

    /// A place with `probe` in it.
    fn place(&mut self, probe: Probe<T, D>) -> Result<Place<T, D>> {
        match self.idle.pop() {
            Some(mut place) => {
                place.reuse(probe);
                Ok(place)
            }
            None => Place::new(probe),
        }
    }

    /// Keeps a place whose probe was not used after all.
    fn put_back(&mut self, mut place: Place<T, D>) {
        place.unregister();
        if place.was_enabled {
            let _ = self.idle.push(place, GFP_KERNEL);
        }
    }

    /// Has the probes call nothing for the moment, or call again.
    pub(crate) fn silence(&self, silent: bool) {
        let flags = if silent { ffi::FPROBE_FL_DISABLED } else { 0 };
        for probe in &self.live {
            probe.flags().store(flags, Ordering::Release);
        }
    }

    fn retire(&mut self, mut place: Place<T, D>) {
        place.unregister();
        self.missed = self.missed.wrapping_add(place.missed());
        // (without memory it goes)
        let _ = self.idle.push(place, GFP_KERNEL);
    }

    /// Ends tracing.
    pub(crate) fn clear(&mut self) {
        while let Some(probe) = self.live.pop() {
            self.retire(probe);
        }
    }

    /// Ends tracing, and makes sure that no call that is open now is ever taken for one of a later probe.
    pub(crate) fn forget_calls(&mut self) {
        self.clear();
        self.worn.retain(|place| place.is_known());
        while let Some(mut place) = self.idle.pop() {
            if place.is_known() {
                place.forget_functions();
                // (without memory it goes)
                let _ = self.worn.push(place, GFP_KERNEL);
            }
        }
    }
}

impl<T: CallHandler<D>, D: Copy + 'static> Drop for Probes<T, D> {
    fn drop(&mut self) {
        self.clear();
        self.idle.clear();
        self.worn.clear();
        match LEFT_BEHIND.swap(0, Ordering::Relaxed) {
            0 => {}
            left => pr_info!("{left} probes stay in memory: calls are open that know them\n"),
        }
    }
}

/// The probe of an fprobe.
///
/// # Safety
///
/// `fprobe` points to that of a `Probe<T, D>` that lives as long as `'a`.
unsafe fn probe_of<'a, T: CallHandler<D>, D: Copy + 'static>(
    fprobe: *mut ffi::fprobe,
) -> &'a Probe<T, D> {
    // SAFETY: The caller promises it; the fprobe is the first field.
    unsafe { &*fprobe.cast::<Probe<T, D>>() }
}

/// Passes the entry of a function to the handler: fprobe's callback.
///
/// # Safety
///
/// - `fprobe` is registered, and that of a `Probe<T, D>`.
/// - `regs` points to the registers at the entry, `data` to memory for a `D` that is the call's own.
/// - Preemption is off.
unsafe extern "C" fn entry<T: CallHandler<D>, D: Copy + 'static>(
    fprobe: *mut ffi::fprobe,
    ip: c_ulong,
    parent_ip: c_ulong,
    regs: *mut ffi::ftrace_regs,
    data: *mut c_void,
) -> c_int {
    // SAFETY: The caller promises it; who unregisters the fprobe waits for a grace period.
    let probe = unsafe { probe_of::<T, D>(fprobe) };
    // SAFETY: By the type's invariant, as it is registered.
    let handler = unsafe { &*probe.handler };
    // SAFETY: On x86-64 `struct ftrace_regs` is what `arch_ftrace_regs()` casts it to.
    let registers = unsafe { Registers::from_raw(regs.cast()) };
    // SAFETY: The caller promises it; any bits will do for a `D`.
    let data = unsafe { &mut *data.cast::<D>() };
    let call = Call {
        ip: ip as u64,
        parent_ip: parent_ip as u64,
    };
    let called = Called {
        site: Site { call, registers },
        // SAFETY: The caller promises it, and the token does not outlive the call.
        token: unsafe { PreemptOff::assume() },
        data,
    };
    c_int::from(!handler.called(probe.role, called))
}

/// Passes the return of a function to the handler: fprobe's callback.
///
/// # Safety
///
/// As for [`entry`]; `data` was handed to it by a call of `entry` for the same `D`.
unsafe extern "C" fn exit<T: CallHandler<D>, D: Copy + 'static>(
    fprobe: *mut ffi::fprobe,
    ip: c_ulong,
    _ret_ip: c_ulong,
    regs: *mut ffi::ftrace_regs,
    data: *mut c_void,
) {
    // SAFETY: As in `entry`.
    let probe = unsafe { probe_of::<T, D>(fprobe) };
    // SAFETY: As in `entry`.
    let handler = unsafe { &*probe.handler };
    // SAFETY: As in `entry`.
    let registers = unsafe { Registers::from_raw(regs.cast()) };
    // SAFETY: As in `entry`.
    let data = unsafe { &mut *data.cast::<D>() };
    handler.returned(Returned {
        ip: ip as u64,
        registers,
        // SAFETY: As in `entry`.
        token: unsafe { PreemptOff::assume() },
        data,
    });
}

const _: () = assert!(size_of::<bindings::ftrace_regs>() == size_of::<ffi::ftrace_regs>());
