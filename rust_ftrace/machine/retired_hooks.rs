// SPDX-License-Identifier: GPL-2.0

//! Hooks of calls whose instance was removed: calls that are open know them still.

use kernel::prelude::*;
use kernel::sync::{new_mutex, Mutex};

use crate::tracer::graph_hooks::GraphHooks;

/// The hooks, for the next instances.
#[pin_data]
pub(super) struct RetiredHooks {
    #[pin]
    hooks: Mutex<KVec<GraphHooks>>,
}

impl RetiredHooks {
    /// None yet.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            hooks <- new_mutex!(KVec::new()),
        })
    }

    /// Some of these, or new ones.
    pub(super) fn take(&self) -> GraphHooks {
        self.hooks.lock().pop().unwrap_or(GraphHooks::new())
    }

    /// Keeps hooks.
    pub(super) fn keep(&self, hooks: GraphHooks) {
        // (without memory they go: see `Place` of sys/fprobe)
        let _ = self.hooks.lock().push(hooks, GFP_KERNEL);
    }
}
