// SPDX-License-Identifier: GPL-2.0

//! The roles of functions for the calls below theirs.

use crate::engine::function_set::FunctionSet;
use crate::sys::fprobe::RoleFunctions;

/// The role of a function, for the tracer `function_graph` or for the profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallRole {
    /// Its calls are taken as all are.
    Plain,
    /// It is in `graph_function`: all calls below its calls are taken.
    Root,
    /// It is in `graph_notrace`: neither its calls nor those below are taken.
    Skip,
}

impl CallRole {
    const ALL: [Self; 3] = [Self::Plain, Self::Root, Self::Skip];

    /// Returns the groups of functions in `sets`, which are in the order of
    /// [`Roles::sets`](crate::engine::plan::Roles::sets).
    pub(super) fn groups(sets: [&FunctionSet; 3]) -> [RoleFunctions<'_, Self>; 3] {
        let mut roles = Self::ALL.into_iter();
        sets.map(|set| RoleFunctions {
            role: roles.next().unwrap_or(Self::Plain),
            ips: set.as_slice(),
        })
    }
}
