// SPDX-License-Identifier: GPL-2.0

//! The files that list functions: `filter`, `notrace`, `enabled_functions`,
//! `available_filter_functions`.

use core::fmt::Write;

use kernel::page::PAGE_SIZE;
use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use super::attribute::{no_memory, Attribute};
use super::context::FileContext;
use super::word_file::Writing;
use crate::engine::catalog::{Catalog, Function};
use crate::engine::command::Action;
use crate::engine::function_set::FunctionSet;
use crate::engine::lists::FunctionList;
use crate::engine::pending::PendingWords;
use crate::engine::text::Text;
use crate::instance::enabled_functions::Enabled;
use crate::instance::hooked::Hooked;
use crate::instance::list_edit::ListEdit;
use crate::sys::debugfs::{File, OpenMode, Records};

/// The list that a file is for.
pub(super) trait FunctionListFile: Send + Sync + 'static {
    /// The list.
    const LIST: FunctionList;
    /// The line that is shown if nothing was said.
    const EMPTY: &'static str;
}

/// `filter`.
pub(super) struct FilterList;

impl FunctionListFile for FilterList {
    const LIST: FunctionList = FunctionList::Filter;
    const EMPTY: &'static str = "#### all functions enabled ####\n";
}

/// `notrace`.
pub(super) struct NotraceList;

impl FunctionListFile for NotraceList {
    const LIST: FunctionList = FunctionList::Notrace;
    const EMPTY: &'static str = "#### no functions disabled ####\n";
}

/// `filter` and `notrace`.
pub(super) struct ListFile<W> {
    writing: Pin<KBox<Mutex<Writing>>>,
    _kind: core::marker::PhantomData<W>,
}

impl<W: FunctionListFile> File for ListFile<W> {
    type Context = FileContext;
    type Records = FunctionLines;

    fn open(_context: &Arc<FileContext>, mode: OpenMode) -> Result<Self> {
        Ok(Self {
            writing: KBox::pin_init(new_mutex!(Writing::new(mode)), GFP_KERNEL)?,
            _kind: core::marker::PhantomData,
        })
    }

    fn records(&self, context: &Arc<FileContext>) -> FunctionLines {
        FunctionLines::new(context, FunctionSource::List(W::LIST, W::EMPTY))
    }

    fn write(&self, context: &FileContext, data: &[u8]) -> Result {
        // Any name or pattern may be the beginning of a longer one.
        let edit = |text: &[u8], replace| edit::<W>(context, text, replace);
        self.writing.lock().write(data, |_| true, edit)
    }

    fn release(&self, context: &FileContext) {
        let edit = |text: &[u8], replace| edit::<W>(context, text, replace);
        self.writing.lock().finish(edit);
    }
}

fn edit<W: FunctionListFile>(context: &FileContext, text: &[u8], replace: bool) -> Result {
    let edit = ListEdit {
        list: W::LIST,
        text,
        replace,
    };
    edit.apply(&context.instance)
}

/// The sources of lines.
#[derive(Clone, Copy)]
enum FunctionSource {
    /// A list, or this line if nothing was said.
    List(FunctionList, &'static str),
    /// Functions that are hooked now.
    Enabled,
    /// Functions that can be.
    Available,
    /// Functions that can be, with addresses.
    Addresses,
}

/// A function a line.
pub(super) struct FunctionLines {
    context: Arc<FileContext>,
    source: FunctionSource,
    /// The functions as they were when reading began; `None` for all there are.
    functions: Option<FunctionSet>,
    /// A line to be shown instead.
    instead: Option<&'static str>,
    /// Lines of words that wait for modules; shown behind that.
    pending: KVVec<u8>,
    /// Functions with commands, and how often these are carried out yet; shown behind that.
    probes: KVVec<(usize, Action, Option<i64>)>,
    /// The users of the functions, for `enabled_functions`.
    enabled: KVec<Enabled>,
    next: usize,
}

impl FunctionLines {
    fn new(context: &Arc<FileContext>, source: FunctionSource) -> Self {
        Self {
            context: context.clone(),
            source,
            functions: None,
            instead: None,
            pending: KVVec::new(),
            probes: KVVec::new(),
            enabled: KVec::new(),
            next: 0,
        }
    }

    /// Takes stock.
    fn load(&mut self) -> Result {
        let instance = &self.context.instance;
        if let FunctionSource::List(FunctionList::Filter, _) = self.source {
            self.probes = Hooked::by(instance).commanded()?;
        }
        self.pending.clear();
        if let FunctionSource::List(list, _) = self.source {
            instance.with_settings(|settings| {
                let words = settings
                    .lists
                    .pending(list)
                    .map_or(&[][..], PendingWords::text);
                self.pending.extend_from_slice(words, GFP_KERNEL)
            })?;
        }
        (self.functions, self.instead) = match self.source {
            FunctionSource::Available | FunctionSource::Addresses => (None, None),
            FunctionSource::List(list, empty) => {
                instance.with_settings(|settings| match settings.lists.get(list) {
                    None => Ok((Some(FunctionSet::new()), Some(empty))),
                    Some(set) => Ok::<_, Error>((Some(set.duplicate()?), None)),
                })?
            }
            FunctionSource::Enabled => {
                (self.functions, self.enabled) = enabled(&self.context)?;
                return Ok(());
            }
        };
        Ok(())
    }

    /// Writes the next probe, behind the first `length` lines; false if there is none.
    fn next_probe(&mut self, text: &mut Text, length: usize) -> Result<bool> {
        let Some(probe) = self.probes.get(self.next - length).copied() else {
            return Ok(false);
        };
        self.next += 1;
        let machine = self.context.instance.machine();
        machine.with_catalog(|catalog| write_probe(text, catalog, probe).map_err(no_memory))?;
        Ok(true)
    }

    fn line(&self, catalog: &Catalog, text: &mut Text) -> Result<bool> {
        let function = match &self.functions {
            None => catalog.get(self.next),
            Some(set) => set.as_slice().get(self.next).map(|&ip| {
                // A function whose module has gone since then has no name any more.
                catalog.at(ip).unwrap_or(Function {
                    ip,
                    name: b"",
                    module: None,
                })
            }),
        };
        let Some(function) = function else {
            return Ok(false);
        };
        let write = |text: &mut Text| {
            if matches!(self.source, FunctionSource::Addresses) {
                write!(text, "{:x} ", function.ip)?;
            }
            write_name(text, &function)?;
            if !self.enabled.is_empty() {
                let counts = self.enabled.iter().map(|by| by.count(function.ip));
                write!(text, " ({})", counts.fold(0, usize::wrapping_add))?;
                let mut hits = self.enabled.iter().filter_map(|by| by.hits(function.ip));
                if let Some(hits) = hits.next() {
                    write!(text, "  hits: {hits}")?;
                }
            }
            text.push_bytes(b"\n")
        };
        write(text).map_err(no_memory)?;
        Ok(true)
    }
}

/// The functions that are hooked by any of the context's instances, `None` for all; and the
/// instances that hook them.
fn enabled(context: &FileContext) -> Result<(Option<FunctionSet>, KVec<Enabled>)> {
    let mut all = Some(FunctionSet::new());
    let mut by = KVec::new();
    context.try_for_each(|instance| {
        let mut enabled = Enabled::by(instance)?;
        all = match (all.take(), enabled.functions.take()) {
            (Some(all), Some(more)) => Some(all.union(&more)?),
            _ => None,
        };
        by.push(enabled, GFP_KERNEL)?;
        Ok(())
    })?;
    Ok((all, by))
}

/// Writes a probe as tracefs does.
fn write_probe(
    text: &mut Text,
    catalog: &Catalog,
    (ip, action, left): (usize, Action, Option<i64>),
) -> core::fmt::Result {
    match catalog.at(ip) {
        Some(function) => write_name(text, &function)?,
        None => write!(text, "{ip:#x}")?,
    }
    let name = action.name();
    match left {
        Some(left) => writeln!(text, ":{name}:count={left}"),
        None => writeln!(text, ":{name}:unlimited"),
    }
}

/// Writes a function's name, and its module's.
fn write_name(text: &mut Text, function: &Function<'_>) -> core::fmt::Result {
    if function.name.is_empty() {
        write!(text, "{:#x}", function.ip)?;
    }
    text.push_bytes(function.name)?;
    if let Some(module) = function.module {
        text.write_str(" [")?;
        text.push_bytes(module)?;
        text.write_str("]")?;
    }
    Ok(())
}

/// The lines that are made at a time, as the list of functions is locked for each.
const AT_A_TIME: usize = 64;

impl Records for FunctionLines {
    fn rewind(&mut self) -> Result {
        self.next = 0;
        self.load()
    }

    fn next(&mut self, text: &mut Text) -> Result<bool> {
        let length = match (self.instead, &self.functions) {
            (Some(_), _) => Some(1),
            (None, functions) => functions.as_ref().map(FunctionSet::len),
        };
        if let Some(length) = length.filter(|length| self.next >= *length) {
            if !self.pending.is_empty() {
                text.push_bytes(&self.pending).map_err(no_memory)?;
                self.pending.clear();
                return Ok(true);
            }
            return self.next_probe(text, length);
        }
        if let Some(instead) = self.instead {
            self.next += 1;
            text.write_str(instead).map_err(no_memory)?;
            return Ok(true);
        }
        let machine = self.context.instance.machine().clone();
        let before = self.next;
        machine.with_catalog(|catalog| {
            while self.next - before < AT_A_TIME && self.line(catalog, text)? {
                self.next += 1;
            }
            Ok(())
        })?;
        Ok(self.next != before)
    }
}

/// Makes a file of functions that is only read.
macro_rules! function_file {
    ($(#[$doc:meta])* $name:ident, $source:expr) => {
        $(#[$doc])*
        pub(super) struct $name;

        impl File for $name {
            type Context = FileContext;
            type Records = FunctionLines;

            fn open(_context: &Arc<FileContext>, _mode: OpenMode) -> Result<Self> {
                Ok(Self)
            }

            fn records(&self, context: &Arc<FileContext>) -> FunctionLines {
                FunctionLines::new(context, $source)
            }
        }
    };
}

function_file! {
    /// `enabled_functions`.
    EnabledFile, FunctionSource::Enabled
}

function_file! {
    /// `available_filter_functions`.
    AvailableFile, FunctionSource::Available
}

function_file! {
    /// `available_filter_functions_addrs`.
    AddressesFile, FunctionSource::Addresses
}

/// `dyn_ftrace_total_info`, as tracing_read_dyn_info() of kernel/trace/trace.c has its first line.
pub(super) struct TotalInfo;

impl Attribute for TotalInfo {
    fn show(context: &FileContext, text: &mut Text) -> Result {
        let size = |catalog: &Catalog| Ok((catalog.len(), catalog.bytes()));
        let (functions, bytes) = context.instance.machine().with_catalog(size)?;
        let pages = bytes.div_ceil(PAGE_SIZE);
        writeln!(text, "{functions} pages:{pages} groups: 1").map_err(no_memory)
    }
}
