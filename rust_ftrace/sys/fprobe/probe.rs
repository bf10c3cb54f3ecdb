// SPDX-License-Identifier: GPL-2.0

//! An fprobe, and the handler that it calls.

use core::marker::{PhantomData, PhantomPinned};
use core::sync::atomic::AtomicU32;

use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::types::Opaque;

use crate::engine::ring::Call;
use crate::sys::context::PreemptOff;
use crate::sys::ftrace::{Registers, Site};
use crate::sys::{dead_ftrace, faults, ffi};

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

/// An fprobe.
///
/// # Invariants
///
/// - `registered` says whether the fprobe is.
/// - `handler` is valid while it is.
#[repr(C)]
pub(super) struct Probe<T: CallHandler<D>, D: Copy + 'static> {
    fprobe: Opaque<ffi::fprobe>,
    handler: *const T,
    pub(super) role: T::Role,
    pub(super) ips: KVVec<usize>,
    registered: bool,
    _data: PhantomData<fn(D)>,
    /// fprobe keeps its address.
    _pin: PhantomPinned,
}

impl<T: CallHandler<D>, D: Copy + 'static> Probe<T, D> {
    /// A probe of `ips`.
    pub(super) fn new(role: T::Role, ips: &[usize]) -> Result<Self> {
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
    pub(super) unsafe fn register(self: Pin<&mut Self>, handler: *const T) -> Result {
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

    pub(super) fn flags(&self) -> &AtomicU32 {
        // SAFETY: The fprobe is initialised.
        let flags = unsafe { &raw mut (*self.fprobe.get()).flags };
        // SAFETY: A valid, aligned int; fprobe only reads it once it is registered.
        unsafe { AtomicU32::from_ptr(flags) }
    }

    /// Returns once the handler is not called any more.
    pub(super) fn unregister(&mut self) {
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

    pub(super) fn missed(&self) -> u64 {
        // SAFETY: The fprobe is initialised.
        let missed = unsafe { &raw const (*self.fprobe.get()).nmissed };
        // SAFETY: A valid, aligned word that others may count up meanwhile.
        unsafe { missed.read_volatile() as u64 }
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
