// SPDX-License-Identifier: GPL-2.0

//! Notices of modules that come and go.
//!
//! C header: [`include/linux/module.h`](srctree/include/linux/module.h)

use core::marker::PhantomPinned;
use core::ops::Range;

use kernel::bindings;
use kernel::error::to_result;
use kernel::prelude::*;
use kernel::sync::Arc;
use kernel::types::Opaque;

use super::faults;

/// Is told of modules.
pub(crate) trait ModuleWatcher: Send + Sync {
    /// The functions of module `name` are in their place, at addresses `text`, have names, and can
    /// be traced; none has run yet.
    fn loads(&self, name: &[u8], text: &[Range<usize>]);

    /// A module is loaded; its functions for that, at addresses `init`, will not run any more, and
    /// go.
    fn coming(&self, init: &Range<usize>);

    /// Module `name`, whose functions lie at addresses `text`, is being removed; they can still be
    /// traced, but not for long.
    fn going(&self, name: &[u8], text: &[Range<usize>]);
}

/// Has a watcher told of modules until dropped.
///
/// # Invariants
///
/// `block` is registered.
#[pin_data(PinnedDrop)]
pub(crate) struct Notifier<T: ModuleWatcher> {
    #[pin]
    block: Opaque<bindings::notifier_block>,
    watcher: Arc<T>,
    /// The kernel's chain leads here.
    #[pin]
    _pin: PhantomPinned,
}

// SAFETY: `block` is only touched by the kernel, under the chain's lock.
unsafe impl<T: ModuleWatcher> Sync for Notifier<T> {}
// SAFETY: Nothing in it belongs to a thread.
unsafe impl<T: ModuleWatcher> Send for Notifier<T> {}

impl<T: ModuleWatcher> Notifier<T> {
    /// Begins to watch.
    ///
    /// # Errors
    ///
    /// Those of `register_module_notifier`.
    pub(crate) fn new(watcher: Arc<T>) -> impl PinInit<Self, Error> {
        try_pin_init!(&this in Self {
            block <- Opaque::ffi_init(|block: *mut bindings::notifier_block| {
                let value = bindings::notifier_block {
                    notifier_call: Some(notified::<T>),
                    ..Default::default()
                };
                // SAFETY: `block` points to memory for the field.
                unsafe { block.write(value) };
            }),
            watcher,
            _pin: PhantomPinned,
            _: {
                faults::here("register_module_notifier")?;
                // SAFETY: `this` points to the value being initialised.
                let block = unsafe { &raw mut (*this.as_ptr()).block };
                // SAFETY: The block is initialised, pinned, and unregistered before it goes.
                to_result(unsafe { bindings::register_module_notifier(block.cast()) })?;
            },
        }? Error)
    }
}

#[pinned_drop]
impl<T: ModuleWatcher> PinnedDrop for Notifier<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type's invariants the block is registered. This waits for a notice that is
        // being given, so it may go afterwards.
        unsafe { bindings::unregister_module_notifier(self.block.get()) };
    }
}

/// # Safety
///
/// - `block` is the `block` of a live `Notifier<T>`.
/// - `module` points to a module.
unsafe extern "C" fn notified<T: ModuleWatcher>(
    block: *mut bindings::notifier_block,
    state: c_ulong,
    module: *mut c_void,
) -> c_int {
    let block = block.cast::<Opaque<bindings::notifier_block>>();
    // SAFETY: `block` is that of a live `Notifier<T>`, by caller precondition; that is only shared.
    let notifier = unsafe { &*kernel::container_of!(block, Notifier<T>, block) };
    let module = module.cast::<bindings::module>();
    // SAFETY: The module is there during the notice, and its memory does not change now.
    let memory = unsafe { &(*module).mem };
    let text = [
        range(&memory[bindings::mod_mem_type_MOD_TEXT as usize]),
        range(&memory[bindings::mod_mem_type_MOD_INIT_TEXT as usize]),
    ];
    // SAFETY: The module is there during the notice; the name is an array of chars with a zero at
    // its end.
    let name = unsafe { CStr::from_char_ptr((&raw const (*module).name).cast()) };
    let name = name.to_bytes();
    match state as bindings::module_state {
        bindings::module_state_MODULE_STATE_COMING => notifier.watcher.loads(name, &text),
        bindings::module_state_MODULE_STATE_LIVE => notifier.watcher.coming(&text[1]),
        bindings::module_state_MODULE_STATE_GOING => notifier.watcher.going(name, &text),
        _ => {}
    }
    bindings::NOTIFY_DONE as c_int
}

fn range(memory: &bindings::module_memory) -> Range<usize> {
    let start = memory.base as usize;
    start..start.saturating_add(memory.size as usize)
}
