// SPDX-License-Identifier: GPL-2.0

//! The hooks of an instance's calls: what is to be prepared for them.

use kernel::prelude::*;

use super::error_log::ErrorLog;
use super::Instance;
use crate::engine::clock::ClockKind;
use crate::engine::errno::ResultKind;
use crate::engine::plan::{Calls, CallsByResult, FrameKind};
use crate::engine::sharing::ShareError;
use crate::machine::call_hooks::{HookChange, WantedCalls, Watchers};
use crate::machine::{HookMember, HooksGuard, Machine, TypesCache};
use crate::sys::symbols::SymbolText;

/// The parts of an instance that take part in watching calls.
///
/// # Invariants
///
/// `watchers` are those of the instance that has `member`. They go after it.
pub(super) struct OwnCalls<'a> {
    machine: &'a Machine,
    member: &'a HookMember,
    watchers: Watchers,
    errors: &'a ErrorLog,
}

impl<'a> OwnCalls<'a> {
    /// Returns those of `instance`.
    pub(super) fn of(instance: &'a Instance) -> Self {
        // INVARIANT: In an instance `hooks` goes before recorder and profiler.
        Self {
            machine: &instance.machine,
            member: &instance.hooks,
            watchers: Watchers {
                recorder: instance.recording.hook.handler(),
                profiler: &instance.profiling.profiler,
            },
            errors: &instance.errors,
        }
    }

    /// Returns the functions of `calls` by how their results can be errors, if these are asked for.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory, `EOPNOTSUPP` if the kernel does not say what its functions
    /// return, and those of [`Machine::with_catalog`](crate::machine::Machine::with_catalog).
    #[inline(never)]
    pub(super) fn results(&self, calls: Option<&Calls>) -> Result<Option<KBox<CallsByResult>>> {
        let Some(calls) = calls.filter(|calls| calls.frames == FrameKind::Errno) else {
            return Ok(None);
        };
        if self.machine.btf()?.is_none() {
            return Err(EOPNOTSUPP);
        }
        let mut types = TypesCache::default();
        self.machine.with_catalog(|catalog| {
            let mut result = Ok(());
            let kind_of = |ip| {
                let Some(function) = catalog.at(ip) else {
                    return ResultKind::Unknown;
                };
                match types.find(self.machine, function.module) {
                    Ok(types) => {
                        types.map_or(ResultKind::Unknown, |types| types.result(function.name))
                    }
                    Err(error) => {
                        result = Err(error);
                        ResultKind::Unknown
                    }
                }
            };
            let results = KBox::new(CallsByResult::of(calls, kind_of)?, GFP_KERNEL)?;
            result.map(|()| Some(results))
        })
    }

    /// Returns for tracer and profile whether their times are not those of the time stamp counter,
    /// if `kind` is the tracer's clock.
    pub(super) fn own_start(&self, kind: ClockKind) -> [bool; 2] {
        [kind, ClockKind::Local].map(|kind| !self.machine.is_counter(kind))
    }

    /// Prepares the hooks of calls, which stay locked.
    ///
    /// # Errors
    ///
    /// Those of [`CallHooks::prepare`](crate::machine::call_hooks::CallHooks::prepare); nothing is
    /// changed then. The error log says which function too many parts want.
    pub(super) fn prepare(
        &self,
        wanted: WantedCalls<'_>,
    ) -> Result<(HooksGuard<'a>, KBox<HookChange>)> {
        let mut hooks = self.machine.hooks();
        // SAFETY: By the type's invariants they stay valid until `member`, which leaves, has gone.
        let change = unsafe { hooks.prepare(self.member.id(), self.watchers, wanted) };
        match change {
            Ok(change) => Ok((hooks, change)),
            Err(error) => {
                self.log_refusal(hooks.refusal());
                Err(error)
            }
        }
    }

    /// Notes in the error log that calls cannot be shared as wanted, if that is so.
    fn log_refusal(&self, refusal: Option<ShareError>) {
        match refusal {
            Some(ShareError::NoRoom(ip)) => {
                let reason = "Too many tracers and profiles want the calls of this function";
                let mut text = SymbolText::new().ok();
                let name = text.as_mut().map(|text| text.look_up(ip as u64));
                self.errors
                    .log("function_graph", reason, name.unwrap_or(b"?"));
            }
            Some(ShareError::NoSeat) => {
                let reason = "Too many tracers and profiles share functions";
                self.errors.log("function_graph", reason, b"?");
            }
            _ => {}
        }
    }
}
