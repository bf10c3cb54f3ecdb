// SPDX-License-Identifier: GPL-2.0

//! The directory of an instance, with all its files.

use kernel::prelude::*;
use kernel::str::CString;
use kernel::sync::Arc;

use super::context::FileContext;
use super::dump;
use super::event_pids::EventPids;
use super::spec::Spec;
use super::table::{INSTANCES, PER_CPU, TABLE, TOP_ONLY, TRACE_STAT_FUNCTION};
use crate::instance::{Instance, Instances};
use crate::sys::cpu;
use crate::sys::debugfs::{DirectoryId, FileTree};
use crate::sys::private::subdirectories::{Parent, Subdirectories};

/// The directory of an instance.
pub(crate) struct InstanceDirectory {
    _commands: DumpCommands,
    _tree: FileTree<FileContext>,
}

/// The commands of an instance that use files: `dump`.
struct DumpCommands(Arc<Instance>);

impl DumpCommands {
    fn serve(instance: &Arc<Instance>) -> Self {
        instance.serve_commands(dump::dump);
        Self(instance.clone())
    }
}

impl Drop for DumpCommands {
    fn drop(&mut self) {
        self.0.leave_commands();
    }
}

impl InstanceDirectory {
    /// Makes the top directory `name`, in which users make directories for other `instances`;
    /// `made` handles these.
    ///
    /// # Errors
    ///
    /// Those of [`FileTree::new`] and [`FileTree::file`]; nothing is left behind then.
    pub(crate) fn top<T: Subdirectories>(
        name: &CStr,
        instances: &Arc<Instances>,
        made: Arc<T>,
    ) -> Result<Self> {
        let mut tree = FileTree::new(name)?;
        fill(&mut tree, instances.top(), Some(instances))?;
        let place = tree.directory(FileTree::<FileContext>::TOP, c"instances")?;
        tree.serve(place, made)?;
        Ok(Self {
            _commands: DumpCommands::serve(instances.top()),
            _tree: tree,
        })
    }

    /// Makes the directory `name` for an instance that a user made.
    ///
    /// # Errors
    ///
    /// As for [`Self::top`].
    pub(crate) fn inside(
        parent: Parent<'_>,
        name: &CStr,
        instance: &Arc<Instance>,
    ) -> Result<Self> {
        let mut tree = FileTree::inside(parent, name)?;
        fill(&mut tree, instance, None)?;
        Ok(Self {
            _commands: DumpCommands::serve(instance),
            _tree: tree,
        })
    }
}

/// Makes all files for `instance`.
fn fill(
    tree: &mut FileTree<FileContext>,
    instance: &Arc<Instance>,
    instances: Option<&Arc<Instances>>,
) -> Result {
    let event_pids = EventPids::new()?;
    let context = |cpu| {
        let context = FileContext {
            instance: instance.clone(),
            cpu,
            instances: instances.cloned(),
            event_pids: event_pids.clone(),
        };
        Arc::new(context, GFP_KERNEL)
    };
    let is_here = |spec: &&Spec| instances.is_some() || !TOP_ONLY.contains(&spec.name);
    let all = context(None)?;
    let mut directories = KVec::new();
    for spec in TABLE.iter().filter(is_here) {
        if !spec.is_of_cpu() && spec.name != INSTANCES {
            let (path, name) = spec.name.rsplit_once('/').unwrap_or(("", spec.name));
            let place = place_of(tree, &mut directories, path)?;
            spec.make(tree, place, name, all.clone())?;
        }
    }
    let per_cpu = tree.directory(FileTree::<FileContext>::TOP, c"per_cpu")?;
    for cpu in cpu::possible() {
        let name = CString::try_from_fmt(fmt!("cpu{}", cpu.as_u32()))?;
        let place = tree.directory(per_cpu, &name)?;
        let context = context(Some(cpu))?;
        for spec in TABLE.iter().filter(is_here) {
            if let Some(name) = spec.name.strip_prefix(PER_CPU) {
                spec.make(tree, place, name, context.clone())?;
            } else if spec.name == TRACE_STAT_FUNCTION {
                let place = place_of(tree, &mut directories, "trace_stat")?;
                // As in tracefs, the name ends with the number.
                let name = CString::try_from_fmt(fmt!("function{}", cpu.as_u32()))?;
                spec.make(tree, place, name.to_str()?, context.clone())?;
            }
        }
    }
    Ok(())
}

/// Returns the directory `path`, which is made with its parents unless it is among those `made`.
fn place_of(
    tree: &mut FileTree<FileContext>,
    made: &mut KVec<(&'static str, DirectoryId)>,
    path: &'static str,
) -> Result<DirectoryId> {
    if path.is_empty() {
        return Ok(FileTree::<FileContext>::TOP);
    }
    if let Some((_, place)) = made.iter().find(|(known, _)| *known == path) {
        return Ok(*place);
    }
    let (parent, name) = path.rsplit_once('/').unwrap_or(("", path));
    let parent = place_of(tree, made, parent)?;
    let name = CString::try_from_fmt(fmt!("{name}"))?;
    let place = tree.directory(parent, &name)?;
    made.push((path, place), GFP_KERNEL)?;
    Ok(place)
}

impl Spec {
    /// Returns whether there is one such file for each CPU.
    fn is_of_cpu(&self) -> bool {
        self.name.starts_with(PER_CPU) || self.name == TRACE_STAT_FUNCTION
    }

    /// Makes the file, and its alias.
    fn make(
        &self,
        tree: &mut FileTree<FileContext>,
        place: DirectoryId,
        name: &str,
        context: Arc<FileContext>,
    ) -> Result {
        let name = CString::try_from_fmt(fmt!("{name}"))?;
        (self.make)(tree, place, &name, self.mode, context)?;
        if let Some(alias) = self.alias {
            let alias = CString::try_from_fmt(fmt!("{alias}"))?;
            tree.symlink(place, &alias, &name)?;
        }
        Ok(())
    }
}
