// SPDX-License-Identifier: GPL-2.0 OR MIT

//! All that a kernel's symbols and text say of its functions.

use std::collections::{BTreeSet, HashSet};
use std::sync::OnceLock;

use crate::call_graph::CallGraph;
use crate::kernel::{self, Kernel};
use crate::reach::{Reach, Reachable};

/// All that is known of a kernel's functions.
#[derive(Debug)]
pub struct KernelFunctions {
    /// The kernel.
    pub kernel: Kernel,
    /// Its call graph.
    pub graph: CallGraph,
    /// Functions that ftrace can trace.
    pub traceable: BTreeSet<u64>,
    /// Functions that can run at all.
    pub reachable: Reachable,
    /// The graph of the file of the kernel that runs, once that has been looked for.
    pub(crate) file: OnceLock<Option<Box<KernelFunctions>>>,
}

impl KernelFunctions {
    /// Looks at all of `kernel`.
    pub fn new(kernel: Kernel) -> Result<Self, kernel::Error> {
        let texts = kernel.texts()?;
        let graph = CallGraph::new(
            &kernel.symbols,
            &texts,
            &kernel.alternatives()?,
            |address| kernel.pointer(address),
        );
        let traceable = kernel::traceable(&kernel)?;
        let kfuncs = kernel.kfuncs()?;
        let kfuncs: HashSet<u64> = kfuncs
            .iter()
            .flat_map(|name| kernel.symbols.places(name))
            .copied()
            .collect();
        let reachable = Reachable::new(&kernel, &graph, &texts, &traceable, &kfuncs);
        Ok(Self {
            kernel,
            graph,
            traceable,
            reachable,
            file: OnceLock::new(),
        })
    }

    /// Functions that ftrace can trace, and that can never run.
    pub fn unreachable(&self) -> impl Iterator<Item = u64> + '_ {
        let never = |address: &u64| self.reachable.reach(*address) == Some(Reach::Never);
        self.traceable.iter().copied().filter(never)
    }
}
