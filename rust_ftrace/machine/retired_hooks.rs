// SPDX-License-Identifier: GPL-2.0

//! The hooks of calls whose instance was removed, which open calls still refer to.

use kernel::prelude::*;
use kernel::sync::{new_mutex, Mutex};

use crate::tracer::graph_hooks::GraphHooks;

/// Hooks of calls, for the next instances.
#[pin_data]
pub(super) struct RetiredHooks {
    #[pin]
    hooks: Mutex<KVec<GraphHooks>>,
}

impl RetiredHooks {
    /// Creates the state without hooks.
    pub(super) fn new() -> impl PinInit<Self> {
        pin_init!(Self {
            hooks <- new_mutex!(KVec::new()),
        })
    }

    /// Takes hooks that were kept, or creates new ones.
    pub(super) fn take(&self) -> GraphHooks {
        self.hooks.lock().pop().unwrap_or(GraphHooks::new())
    }

    /// Keeps hooks for the next instance.
    pub(super) fn keep(&self, hooks: GraphHooks) {
        // Without memory they go: see `ProbePlace` of sys/fprobe.
        let _ = self.hooks.lock().push(hooks, GFP_KERNEL);
    }
}
