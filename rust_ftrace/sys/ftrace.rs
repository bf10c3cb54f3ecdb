// SPDX-License-Identifier: GPL-2.0

//! Callbacks at the entry of kernel functions.
//!
//! C header: [`include/linux/ftrace.h`](srctree/include/linux/ftrace.h)

use core::marker::PhantomPinned;

use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::atomic::{Atomic, Relaxed};
use kernel::types::Opaque;

use super::{dead_ftrace, faults, rcu};
use crate::engine::extras::ARGS;
use crate::engine::ring::Call;

/// Called at the entry of traced functions.
pub(crate) trait EntryHandler: Send + Sync + 'static {
    /// A traced function was entered.
    ///
    /// Runs in any context, NMI included, with preemption on or off. What it calls may itself be
    /// traced, and would then come back here: so it calls nothing.
    fn entered(&self, site: FunctionEntry<'_>);
}

/// The entry of a traced function: its address, its caller and the registers.
#[derive(Clone, Copy)]
pub(crate) struct FunctionEntry<'a> {
    /// The function, by its ftrace location (its first instruction, or the one after `endbr64`),
    /// and its caller.
    pub(crate) call: Call,
    /// The registers that ftrace saved.
    pub(crate) registers: Registers<'a>,
}

/// The registers at a function's entry.
#[derive(Clone, Copy)]
pub(crate) struct Registers<'a>(&'a bindings::__arch_ftrace_regs);

impl<'a> Registers<'a> {
    /// Registers that ftrace saved.
    ///
    /// # Safety
    ///
    /// `regs` points to registers that are valid and not changed for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn from_raw(regs: *const bindings::__arch_ftrace_regs) -> Self {
        // SAFETY: `regs` is valid and not changed for `'a`, by caller precondition.
        Self(unsafe { &*regs })
    }

    /// The value that a function returns; only at its return.
    #[inline(always)]
    pub(crate) fn return_value(&self) -> u64 {
        self.0.regs.ax as u64
    }

    /// Stack pointer, where the return address lies.
    #[inline(always)]
    pub(crate) fn sp(&self) -> u64 {
        self.0.regs.sp as u64
    }

    /// The arguments of the function, as far as they are in registers.
    pub(crate) fn args(&self) -> [u64; ARGS] {
        let regs = &self.0.regs;
        [regs.di, regs.si, regs.dx, regs.cx, regs.r8, regs.r9].map(|value| value as u64)
    }

    /// All of them; the unwinder looks at `ip`, `sp`, `bp` and `cs`.
    pub(crate) fn as_ptr(&self) -> *mut bindings::pt_regs {
        (&raw const self.0.regs).cast_mut()
    }
}

/// The functions that are traced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Functions<'a> {
    /// Every function that can be, those of modules loaded later too.
    All,
    /// Those with these ftrace locations, none if empty.
    Only(&'a [usize]),
}

/// A set of traced functions and the handler called at their entries.
///
/// # Examples
///
/// ```ignore
/// use kernel::prelude::*;
///
/// use crate::platform::{AtomicU64, Ordering};
/// use crate::sys::ftrace::{EntryHandler, FunctionEntry, Functions, Registration};
///
/// /// Counts calls.
/// struct Counter(AtomicU64);
///
/// impl EntryHandler for Counter {
///     fn entered(&self, _entry: FunctionEntry<'_>) {
///         self.0.fetch_add(1, Ordering::Relaxed);
///     }
/// }
///
/// /// Returns how often the functions at `ips` are called while `body` runs.
/// fn calls_within(ips: &[usize], body: impl FnOnce()) -> Result<u64> {
///     let hook = KBox::pin_init(Registration::new(Counter(AtomicU64::new(0))), GFP_KERNEL)?;
///     hook.trace(Functions::Only(ips))?;
///     body();
///     hook.trace(Functions::Only(&[]))?;
///     Ok(hook.handler().0.load(Ordering::Relaxed))
/// }
/// ```
///
/// # Invariants
///
/// - `ops` was initialised by `new` and stays in place.
/// - `ops` is registered iff `registered` says so, unless `is_stuck`, and then its filter is empty
///   only for [`Functions::All`].
#[pin_data(PinnedDrop)]
pub(crate) struct Registration<T: EntryHandler> {
    #[pin]
    ops: Opaque<bindings::ftrace_ops>,
    #[pin]
    registered: kernel::sync::Mutex<bool>,
    /// ftrace died of registering it or before it was unregistered, and may use it for ever.
    is_stuck: Atomic<bool>,
    handler: T,
    /// ftrace keeps a list of the ops.
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: `ops` is only touched under ftrace's own locks, and its address by our callback.
unsafe impl<T: EntryHandler> Sync for Registration<T> {}
// SAFETY: Nothing in it belongs to a thread.
unsafe impl<T: EntryHandler> Send for Registration<T> {}

impl<T: EntryHandler> Registration<T> {
    /// A hook that traces nothing yet. Making it cannot fail.
    pub(crate) fn new(handler: T) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            ops <- Opaque::ffi_init(|ops: *mut bindings::ftrace_ops| {
                let value = bindings::ftrace_ops {
                    func: Some(callback::<T>),
                    ..Default::default()
                };
                // SAFETY: `ops` points to memory for the field.
                unsafe { ops.write(value) };
            }),
            registered <- kernel::new_mutex!(false),
            is_stuck: Atomic::new(false),
            handler,
            _pin: PhantomPinned,
        }? Error)
    }

    /// The handler.
    pub(crate) fn handler(&self) -> &T {
        &self.handler
    }

    /// Traces `functions`, and no others, from now on.
    ///
    /// When the last function is taken away, it returns only after every CPU has left the handler.
    ///
    /// # Errors
    ///
    /// Functions that were traced before are traced still.
    ///
    /// - `EINVAL` if one of the addresses is no ftrace location.
    /// - `ENOMEM` if there is no memory.
    /// - `ENODEV` if ftrace has disabled itself; the hook must not go any more then
    ///   ([`dead_ftrace`]).
    /// - `EBUSY` if another ops holds a function exclusively.
    pub(crate) fn trace(&self, functions: Functions<'_>) -> Result {
        let mut registered = self.registered.lock();
        if functions == Functions::Only(&[]) {
            return self.unregister(&mut registered);
        }
        self.set_filter(functions)?;
        if !*registered {
            faults::here("register_ftrace_function")?;
            // INVARIANT: The filter is set, so an empty one means all.
            //
            // SAFETY:
            // - `ops` is initialised and pinned by the type's invariants, and not registered.
            // - It is unregistered before it goes, or never goes.
            // - All that the callback touches is initialised.
            let result = to_result(unsafe { bindings::register_ftrace_function(self.ops.get()) });
            self.notice(result)?;
            *registered = true;
        }
        Ok(())
    }

    fn set_filter(&self, functions: Functions<'_>) -> Result {
        let ops = self.ops.get();
        faults::here("ftrace_set_filter")?;
        match functions {
            Functions::All => {
                let none = core::ptr::null_mut();
                // SAFETY: `ops` is initialised; without a pattern the filter is only emptied.
                to_result(unsafe { bindings::ftrace_set_filter(ops, none, 0, 1) })
            }
            Functions::Only(ips) => {
                let count = c_uint::try_from(ips.len())?;
                // CAST: `unsigned long` is as large as `usize`; C only reads the addresses.
                let ips = ips.as_ptr().cast_mut().cast::<c_ulong>();
                // SAFETY: `ops` is initialised; `ips` points to `count` addresses.
                to_result(unsafe { bindings::ftrace_set_filter_ips(ops, ips, count, 0, 1) })
            }
        }
    }

    fn unregister(&self, registered: &mut bool) -> Result {
        if *registered {
            // SAFETY: By the type's invariants `ops` is registered, as `registered` said so.
            let result = to_result(unsafe { bindings::unregister_ftrace_function(self.ops.get()) });
            self.notice(result)?;
            *registered = false;
        }
        Ok(())
    }

    fn notice(&self, result: Result) -> Result {
        if result == Err(ENODEV) {
            self.is_stuck.store(true, Relaxed);
        }
        dead_ftrace::notice(result)
    }
}

#[pinned_drop]
impl<T: EntryHandler> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // It returns only when no task is on its way through the trampoline: the ops is dynamic, so
        // ftrace waits for RCU-tasks.
        let result = self.unregister(&mut self.registered.lock());
        if let Err(error) = result {
            pr_err!("cannot unregister the function hook: {error:?}\n");
        }
        // Not so if ftrace died; the owner of such a hook drops it only when the module goes.
        if self.is_stuck.load(Relaxed) {
            dead_ftrace::never_return();
        }
        // And no CPU is in the callback: a task that is preempted in it, before it turns preemption
        // off, is on its way still for RCU-tasks, too.
        rcu::synchronize_preempt_off();
        // SAFETY: `ops` is not registered, so nothing uses its hashes.
        unsafe { bindings::ftrace_free_filter(self.ops.get()) };
    }
}

/// Passes an entry to the handler: ftrace's callback.
///
/// # Safety
///
/// - `ops` points to the `ops` of a `Registration<T>` that is valid during the call.
/// - `fregs` points to the registers at the entry of a function, saved by ftrace, which are valid
///   and not changed during the call.
unsafe extern "C" fn callback<T: EntryHandler>(
    ip: c_ulong,
    parent_ip: c_ulong,
    ops: *mut bindings::ftrace_ops,
    fregs: *mut bindings::ftrace_regs,
) {
    let ops = ops.cast_const().cast::<Opaque<bindings::ftrace_ops>>();
    // SAFETY: `ops` points to the field of a `Registration<T>`, by caller precondition.
    let hook = unsafe { kernel::container_of!(ops, Registration<T>, ops) };
    // SAFETY: The hook is valid during the call, by caller precondition: its drop waits until no
    // CPU and no task is on the way through here. It is only shared.
    let hook = unsafe { &*hook };
    let fregs = fregs.cast_const().cast::<bindings::__arch_ftrace_regs>();
    // SAFETY:
    // - On x86-64 `struct ftrace_regs` is what `arch_ftrace_regs()` casts it to.
    // - `fregs` is valid and not changed during the call, by caller precondition. `sp`, `ip`, `bp`,
    //   `cs` and those of arguments, which are looked at, are always saved.
    let registers = Registers(unsafe { &*fregs });
    let call = Call {
        ip: ip as u64,
        parent_ip: parent_ip as u64,
    };
    hook.handler.entered(FunctionEntry { call, registers });
}
