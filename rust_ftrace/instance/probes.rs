// SPDX-License-Identifier: GPL-2.0

//! The functions at whose calls something is done: the words `func:action[:count]` of `filter`.
//!
//! As in tracefs they are no part of the list itself: it is done whatever the list, `notrace` and the tracer say, and
//! `>` does not take it out, only `!func:action` does. But what `stacktrace` records is an entry with a stack, and if
//! only that was wanted of a function, no entries any more once all stacks that were wanted are there.

use core::ops::Range;

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::functions::{choose, Failure};
use super::{Control, Instance};
use crate::catalog::Catalog;
use crate::engine::command::{Action, Command};
use crate::engine::filter::words;
use crate::engine::function_set::FunctionSet;
use crate::tracer::commands::Serve;
use crate::tracer::function::Gate;
use crate::tracer::probes::{Probe, Probes, Ready};
use crate::tracer::Tracer;

/// Shows the trace of a CPU, or of all, on the console.
pub(crate) type Dump = fn(&Arc<Instance>, Option<CpuId>);

/// Does what commands have asked for.
pub(crate) struct Server {
    instance: Arc<Instance>,
    dump: Dump,
}

impl Serve for Server {
    fn stopped(&self) {
        self.instance.wake_readers();
    }

    fn snapshot(&self) {
        self.instance.take_asked_snapshot();
    }

    fn dump(&self, cpu: Option<CpuId>) {
        (self.dump)(&self.instance, cpu);
    }
}

/// Applies the commands among words to `probes`.
fn apply(catalog: &Catalog, probes: &mut Probes, text: &[u8]) -> Result<(), Failure> {
    for (at, word) in words(text) {
        let Some(command) = Command::parse(word) else {
            continue;
        };
        let command = command.map_err(|refusal| Failure::Word(at, refusal))?;
        let chosen = choose(catalog, &command.selector())?;
        let chosen = chosen.map_err(|refusal| Failure::Word(at, refusal))?;
        probes.retain(|probe| probe.action != command.action || !chosen.contains(probe.ip));
        if !command.remove {
            for ip in chosen.as_slice() {
                let probe = Probe::new(*ip, command.action, command.count);
                probes.push(probe, GFP_KERNEL)?;
            }
        }
    }
    probes.sort_unstable_by_key(Probe::key);
    Ok(())
}

impl Instance {
    /// Has `dump` show the trace when a command asks for that.
    pub(crate) fn serve_commands(self: &Arc<Self>, dump: Dump) {
        let instance = self.clone();
        let server = Server { instance, dump };
        let requests = self.commands.handler().requests();
        requests.set_server(Some(server));
    }

    /// Does no more what commands ask for. Must be called if [`Self::serve_commands`] was.
    pub(crate) fn leave_commands(&self) {
        self.commands.handler().requests().set_server(None);
    }

    /// A copy of the probes.
    fn duplicate_probes(&self) -> Result<Probes> {
        self.with_probes(|probes| {
            let mut new = Probes::new();
            for probe in probes.into_iter().flatten() {
                new.push(probe.duplicate(), GFP_KERNEL)?;
            }
            Ok(new)
        })
    }

    /// The probes that there are when `text` was written to `filter`.
    pub(super) fn edited_probes(&self, text: &[u8]) -> Result<Probes, Failure> {
        let mut probes = self.duplicate_probes()?;
        let mut failure = None;
        self.machine.with_catalog(|catalog| {
            match apply(catalog, &mut probes, text) {
                Err(Failure::Other(error)) => return Err(error),
                Err(other) => failure = Some(other),
                Ok(()) => {}
            }
            Ok(())
        })?;
        match failure {
            Some(failure) => Err(failure),
            None => Ok(probes),
        }
    }

    /// Puts other probes in the place of those that there are, and returns these.
    pub(super) fn replace_probes(&self, _control: &mut Control, new: Probes) -> Result<Probes> {
        let before = self.duplicate_probes()?;
        if new.is_empty() && before.is_empty() {
            return Ok(before);
        }
        let recorder = self.hook.handler();
        let (mut stacks, mut commands) = (Probes::new(), Probes::new());
        for probe in new {
            match probe.action {
                Action::Stacktrace => stacks.push(probe, GFP_KERNEL)?,
                _ => commands.push(probe, GFP_KERNEL)?,
            }
        }
        let mut commanded = commands.iter();
        let wants_snapshot = commanded.any(|probe| probe.action == Action::Snapshot);
        if !stacks.is_empty() {
            recorder.beside().make_room(self.machine.core_text())?;
        }
        if !stacks.is_empty() || wants_snapshot {
            self.make_buffers(|buffers| match wants_snapshot {
                true => buffers.make_spares(None),
                false => Ok(()),
            })?;
        }
        let (stacks, commands) = (Ready::new(stacks)?, Ready::new(commands)?);
        recorder.set_probes(stacks);
        self.commands.handler().probes().replace(commands);
        Ok(before)
    }

    /// The functions that the hook of entries is wanted for; `None` for all. Tells the probes which of them are theirs
    /// alone.
    pub(super) fn wanted_entries(&self, control: &Control) -> Result<Option<FunctionSet>> {
        let plain = match control.tracer {
            Tracer::Function | Tracer::CallTrace => control.lists.wanted(&self.machine)?,
            Tracer::Nop | Tracer::FunctionGraph => Some(FunctionSet::new()),
        };
        self.hook.handler().beside().probes().with(|probes| {
            for probe in probes {
                let plain = plain.as_ref();
                probe.set_alone(plain.is_some_and(|plain| !plain.contains(probe.ip)));
            }
            let Some(plain) = plain else {
                return Ok(None);
            };
            let probed = FunctionSet::from_sorted(probes.iter().map(|probe| probe.ip))?;
            Ok(Some(plain.union(&probed)?))
        })
    }

    /// The functions with other commands than `stacktrace`.
    pub(super) fn commanded(&self) -> Result<FunctionSet> {
        self.commands.handler().probes().with(|probes| {
            let mut last = None;
            let ips = probes.iter().map(|probe| probe.ip);
            let ips = ips.filter(|ip| last.replace(*ip) != Some(*ip));
            Ok(FunctionSet::from_sorted(ips)?)
        })
    }

    /// Calls `user` with the probes, those for stacks first. `control` is held.
    fn with_probes<R>(&self, user: impl FnOnce([&[Probe]; 2]) -> R) -> R {
        let stacks = self.hook.handler().beside().probes();
        let commands = self.commands.handler().probes();
        stacks.with(|stacks| commands.with(|commands| user([stacks, commands])))
    }

    /// The functions of probes, what is done at their calls, and how often yet; `None` for always.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn probes(&self) -> Result<KVVec<(usize, Action, Option<i64>)>> {
        let _control = self.control.lock();
        self.with_probes(|probes| {
            let mut list = KVVec::new();
            for probe in probes.into_iter().flatten() {
                list.push((probe.ip, probe.action, probe.left()), GFP_KERNEL)?;
            }
            Ok(list)
        })
    }

    /// Takes the probes of functions at addresses `range` out; whether there were any.
    pub(super) fn forget_probes(&self, control: &mut Control, range: &Range<usize>) -> bool {
        let has_any = |probes: [&[Probe]; 2]| {
            let mut probes = probes.into_iter().flatten();
            probes.any(|probe| range.contains(&probe.ip))
        };
        if !self.with_probes(has_any) {
            return false;
        }
        let rest = self.duplicate_probes().and_then(|mut rest| {
            rest.retain(|probe| !range.contains(&probe.ip));
            self.replace_probes(control, rest)
        });
        if rest.is_err() {
            pr_warn!("probes of a removed module are still there, for want of memory\n");
        }
        true
    }

    /// Takes the snapshot that recording waits for, and goes on. Without memory for one recording stops, so
    /// that what was to be kept is still there.
    fn take_asked_snapshot(&self) {
        let recorder = self.hook.handler();
        let _control = self.control.lock();
        let taken = self.buffers.lock().take_snapshot(None, recorder);
        if taken.is_err() {
            recorder.set_gate(Gate::Off, true);
            pr_warn!("no memory for a snapshot: recording is switched off\n");
        }
        recorder.set_gate(Gate::Snapshot, false);
        if let Ok(taken) = taken {
            self.end_snapshot(taken);
        }
    }
}
