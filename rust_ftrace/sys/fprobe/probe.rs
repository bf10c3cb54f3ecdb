// SPDX-License-Identifier: GPL-2.0

//! An fprobe, and the handler that it calls.

use core::marker::{PhantomData, PhantomPinned};

use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::types::Opaque;

use crate::engine::ring::Call;
use crate::platform::fence_release;
use crate::sys::context::PreemptOff;
use crate::sys::ftrace::{FunctionEntry, Registers};
use crate::sys::{dead_ftrace, faults, ffi};

/// The parts of a call that are of interest once it was entered; as fprobe takes it.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub(crate) enum Interest {
    /// Its return.
    Return = 0,
    /// Nothing more.
    Nothing = 1,
}

impl Interest {
    /// That in the return of a call, if it `is_of_interest`.
    #[inline(always)]
    pub(crate) fn of_return(is_of_interest: bool) -> Self {
        match is_of_interest {
            true => Self::Return,
            false => Self::Nothing,
        }
    }
}

/// Called at the entry and the return of traced functions.
///
/// `D` is what is kept of a call between the two, on the task's shadow stack. It is of plain words,
/// for which any bits will do.
pub(crate) trait CallHandler<D: Copy>: Send + Sync + 'static {
    /// The role that the functions of a probe have in common.
    type Role: Copy + Send + Sync + Eq;

    /// A traced function was entered. Returns what else of the call is of interest. `data` is not
    /// initialised.
    ///
    /// Runs in any context, NMI included, with preemption off. What it calls may be traced; fgraph
    /// does not come back here from it, but the hooks of others may.
    fn called(&self, role: Self::Role, call: CallEntry<'_, D>) -> Interest;

    /// A traced function returns. `data` is what `called` left there, perhaps of an earlier probe
    /// with the same `D`.
    fn returned(&self, call: CallReturn<'_, D>);
}

/// The entry of a function.
pub(crate) struct CallEntry<'a, D> {
    pub(crate) site: FunctionEntry<'a>,
    pub(crate) token: PreemptOff<'a>,
    pub(crate) data: &'a mut D,
}

/// The return of a function.
pub(crate) struct CallReturn<'a, D> {
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
pub(super) struct Fprobe<T: CallHandler<D>, D: Copy + 'static> {
    fprobe: Opaque<ffi::fprobe>,
    handler: *const T,
    pub(super) role: T::Role,
    pub(super) ips: KVVec<usize>,
    registered: bool,
    _data: PhantomData<fn(D)>,
    /// fprobe keeps its address.
    _pin: PhantomPinned,
}

impl<T: CallHandler<D>, D: Copy + 'static> Fprobe<T, D> {
    /// A probe of `ips`.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new(role: T::Role, ips: &[usize]) -> Result<Self> {
        let mut own = KVVec::new();
        own.extend_from_slice(ips, GFP_KERNEL)?;
        Ok(Self {
            fprobe: Opaque::new(ffi::fprobe {
                // So it begins silent: see `ProbePlace::enable`.
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
    /// # Errors
    ///
    /// Nothing is registered then; they are those of `register_fprobe_ips()`.
    ///
    /// - `ENOENT` if one of the addresses is no ftrace location.
    /// - `ENOMEM` if there is no memory.
    /// - `ENOSPC` if fgraph has as many users as it can have.
    /// - `ENODEV` if ftrace is dead.
    ///
    /// # Safety
    ///
    /// `handler` stays valid until the probe is unregistered.
    pub(super) unsafe fn register(self: Pin<&mut Self>, handler: *const T) -> Result {
        // SAFETY: Only fields are stored to, and the list is read: nothing is moved out of `self`.
        let this = unsafe { self.get_unchecked_mut() };
        // INVARIANT: It stays valid until the probe is unregistered, by caller precondition.
        this.handler = handler;
        let count = c_int::try_from(this.ips.len())?;
        // CAST: `unsigned long` is as large as `usize`; C only reads the addresses.
        let ips = this.ips.as_ptr().cast_mut().cast::<c_ulong>();
        faults::here("register_fprobe_ips")?;
        // SAFETY:
        // - `fprobe` is initialised, as `new` did that, and not registered.
        // - It is pinned, and `Place` unregisters it before it goes.
        // - `ips` points to `count` addresses, which are only read during the call.
        let result = to_result(unsafe { ffi::register_fprobe_ips(this.fprobe.get(), ips, count) });
        dead_ftrace::notice(result)?;
        // INVARIANT: It is from here on.
        this.registered = true;
        Ok(())
    }

    /// Sets its flags, as `smp_store_release()`: after all that was changed before. It is called
    /// where all CPUs stand still, and so calls nothing.
    pub(super) fn set_flags(&self, value: c_uint) {
        // SAFETY: `fprobe` is initialised, as `new` did that.
        let flags: *mut c_uint = unsafe { &raw mut (*self.fprobe.get()).flags };
        fence_release();
        // SAFETY:
        // - `flags` points to a live, aligned int.
        // - fprobe only reads it once it is registered: a volatile store does not tear.
        unsafe { flags.write_volatile(value) };
    }

    /// Has it take no calls from now on; it is still told of the returns of those that it took.
    pub(super) fn shut(&self) {
        // SAFETY: `fprobe` is initialised, as `new` did that.
        let handler: *mut ffi::fprobe_entry_cb =
            unsafe { &raw mut (*self.fprobe.get()).entry_handler };
        // SAFETY:
        // - `handler` points to a live, aligned pointer.
        // - fprobe only reads it, and calls the one function or the other: a volatile store does
        //   not tear.
        unsafe { handler.write_volatile(Some(shut)) };
    }

    /// Its address, by which calls know it.
    pub(super) fn address(&self) -> u64 {
        let address: *const Self = self;
        address as u64
    }

    /// Returns once the handler is not called any more.
    pub(super) fn unregister(&mut self) {
        if !core::mem::take(&mut self.registered) {
            return;
        }
        // SAFETY: By the type's invariants `fprobe` is registered, as `registered` said so.
        let result = to_result(unsafe { ffi::unregister_fprobe(self.fprobe.get()) });
        let result = dead_ftrace::notice(result);
        if let Err(error) = result {
            pr_err!("cannot unregister an fprobe: {error:?}\n");
        }
    }

    pub(super) fn missed(&self) -> u64 {
        // SAFETY: `fprobe` is initialised, as `new` did that.
        let missed: *const c_ulong = unsafe { &raw const (*self.fprobe.get()).nmissed };
        // SAFETY: `missed` points to a live, aligned word. fprobe counts it up meanwhile: a
        // volatile load does not tear.
        unsafe { missed.read_volatile() as u64 }
    }
}

/// The probe of an fprobe.
///
/// # Safety
///
/// `fprobe` points to that of a `Fprobe<T, D>` that lives as long as `'a`.
unsafe fn probe_of<'a, T: CallHandler<D>, D: Copy + 'static>(
    fprobe: *mut ffi::fprobe,
) -> &'a Fprobe<T, D> {
    // SAFETY: `fprobe` is that of a `Fprobe<T, D>`, by caller precondition, which is `repr(C)` and
    // begins with it, and lives as long as `'a`; it is only shared.
    unsafe { &*fprobe.cast::<Fprobe<T, D>>() }
}

/// Passes the entry of a function to the handler: fprobe's callback.
///
/// # Safety
///
/// - `fprobe` is registered, that of a `Fprobe<T, D>`, and valid during the call.
/// - `regs` points to the registers that were saved, which are valid and not changed during the
///   call.
/// - `data` points to memory for a `D`, aligned for it, that nothing else uses during the call.
/// - Preemption is off during the call.
unsafe extern "C" fn entry<T: CallHandler<D>, D: Copy + 'static>(
    fprobe: *mut ffi::fprobe,
    ip: c_ulong,
    parent_ip: c_ulong,
    regs: *mut ffi::ftrace_regs,
    data: *mut c_void,
) -> c_int {
    // SAFETY: `fprobe` is that of a `Fprobe<T, D>`, and valid during the call, by caller
    // precondition.
    let probe = unsafe { probe_of::<T, D>(fprobe) };
    // SAFETY: By the type's invariants `handler` is valid, as `fprobe` is registered by caller
    // precondition.
    let handler = unsafe { &*probe.handler };
    // SAFETY:
    // - On x86-64 `struct ftrace_regs` is what `arch_ftrace_regs()` casts it to.
    // - `regs` is valid and not changed during the call, by caller precondition.
    let registers = unsafe { Registers::from_raw(regs.cast()) };
    // SAFETY:
    // - `data` points to aligned memory for a `D` that nothing else uses during the call, by caller
    //   precondition.
    // - Any bits are a `D`, as `CallHandler` asks.
    let data = unsafe { &mut *data.cast::<D>() };
    let call = Call {
        ip: ip as u64,
        parent_ip: parent_ip as u64,
    };
    let called = CallEntry {
        site: FunctionEntry { call, registers },
        // SAFETY: Preemption is off during the call, by caller precondition, and the token does not
        // outlive it.
        token: unsafe { PreemptOff::assume() },
        data,
    };
    handler.called(probe.role, called) as c_int
}

/// Takes no call: fprobe's callback for probes that are only told of returns.
///
/// # Safety
///
/// None beyond fprobe's: it looks at nothing.
unsafe extern "C" fn shut(
    _fprobe: *mut ffi::fprobe,
    _ip: c_ulong,
    _parent_ip: c_ulong,
    _regs: *mut ffi::ftrace_regs,
    _data: *mut c_void,
) -> c_int {
    Interest::Nothing as c_int
}

/// Passes the return of a function to the handler: fprobe's callback.
///
/// # Safety
///
/// - `fprobe` is registered, that of a `Fprobe<T, D>`, and valid during the call.
/// - `regs` points to the registers that were saved, which are valid and not changed during the
///   call.
/// - `data` points to what [`entry`] was given for the call, by a probe with the same `D`, that
///   nothing else uses during this one.
/// - Preemption is off during the call.
unsafe extern "C" fn exit<T: CallHandler<D>, D: Copy + 'static>(
    fprobe: *mut ffi::fprobe,
    ip: c_ulong,
    _ret_ip: c_ulong,
    regs: *mut ffi::ftrace_regs,
    data: *mut c_void,
) {
    // SAFETY: `fprobe` is that of a `Fprobe<T, D>`, and valid during the call, by caller
    // precondition.
    let probe = unsafe { probe_of::<T, D>(fprobe) };
    // SAFETY: By the type's invariants `handler` is valid, as `fprobe` is registered by caller
    // precondition.
    let handler = unsafe { &*probe.handler };
    // SAFETY:
    // - On x86-64 `struct ftrace_regs` is what `arch_ftrace_regs()` casts it to.
    // - `regs` is valid and not changed during the call, by caller precondition.
    let registers = unsafe { Registers::from_raw(regs.cast()) };
    // SAFETY:
    // - `data` points to aligned memory for a `D` that nothing else uses during the call, by caller
    //   precondition.
    // - Any bits are a `D`, as `CallHandler` asks.
    let data = unsafe { &mut *data.cast::<D>() };
    handler.returned(CallReturn {
        ip: ip as u64,
        registers,
        // SAFETY: Preemption is off during the call, by caller precondition, and the token does not
        // outlive it.
        token: unsafe { PreemptOff::assume() },
        data,
    });
}

const _: () = assert!(size_of::<bindings::ftrace_regs>() == size_of::<ffi::ftrace_regs>());
