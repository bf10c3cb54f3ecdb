// SPDX-License-Identifier: GPL-2.0

//! The running kernel, as lines tell of it: its names, its calls and its types.

use kernel::prelude::*;
use kernel::sync::Arc;

use super::call_sites::KernelSites;
use crate::engine::btf;
use crate::engine::extras::ARGS;
use crate::engine::lines::{KernelLayout, LineMaker, LineSettings, TracedKernel};
use crate::engine::name_cache::NameCache;
use crate::engine::render::SymbolNames;
use crate::engine::text::Text;
use crate::instance::Instance;
use crate::machine::{Machine, TypesCache};
use crate::sys::context::THREAD_SIZE;
use crate::sys::cpu;
use crate::sys::symbols::SymbolText;

/// Lines of events of the running kernel, as the settings of `instance` say.
pub(super) fn line_maker(instance: &Instance) -> LineMaker {
    let layout = KernelLayout {
        cpus: cpu::end(),
        irq_text: instance.machine().irq_text(),
        stack_bytes: THREAD_SIZE as u32,
    };
    LineMaker::new(layout, settings_of(instance))
}

/// The settings of `instance` that its lines follow from.
pub(super) fn settings_of(instance: &Instance) -> LineSettings {
    LineSettings {
        options: instance.options(),
        tracer: instance.tracer(),
        timeline: instance.recording().timeline(),
        began: instance.recording().began(),
    }
}

/// The names, calls and types of the running kernel.
pub(super) struct RunningKernel {
    symbols: SymbolCache,
    sites: KernelSites,
    /// The [modules](Machine::modules_loaded) that the names are of.
    modules_loaded: u64,
    machine: Arc<Machine>,
    types: TypesCache,
}

impl RunningKernel {
    /// Nothing was looked up yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn new(instance: &Arc<Instance>) -> Result<Self> {
        Ok(Self {
            symbols: SymbolCache::new()?,
            sites: KernelSites::new(instance)?,
            modules_loaded: instance.machine().modules_loaded(),
            machine: instance.machine().clone(),
            types: TypesCache::default(),
        })
    }

    /// Forgets what may be another's.
    pub(super) fn forget_passing(&mut self) {
        self.symbols.forget_passing();
        self.sites.forget_passing();
        self.types.forget_passing();
    }

    /// Forgets names that may not be right for an event that has just been looked at; none can be
    /// wrong for one that was there before anything was looked up.
    pub(super) fn follow_modules(&mut self) {
        let modules_loaded = self.machine.modules_loaded();
        if self.modules_loaded != modules_loaded {
            self.modules_loaded = modules_loaded;
            self.forget_passing();
        }
    }
}

impl TracedKernel for RunningKernel {
    type Symbols = SymbolCache;
    type Sites = KernelSites;

    #[inline(always)]
    fn symbols(&mut self) -> &mut SymbolCache {
        &mut self.symbols
    }

    fn sites(&mut self) -> &mut KernelSites {
        &mut self.sites
    }

    fn write_args(
        &mut self,
        text: &mut Text,
        ip: u64,
        args: &[u64; ARGS],
    ) -> core::result::Result<bool, core::fmt::Error> {
        let (name, module) = btf::name_and_module(self.symbols.name(ip));
        match self.types.find(&self.machine, module) {
            Ok(Some(types)) => types.write_args(text, name, args),
            // No memory, or no types.
            _ => Ok(false),
        }
    }
}

/// Names of addresses that were looked up.
pub(super) struct SymbolCache {
    names: Cache,
    places: Cache,
    text: SymbolText,
}

impl SymbolCache {
    fn new() -> Result<Self> {
        Ok(Self {
            names: Cache::new(),
            places: Cache::new(),
            text: SymbolText::new()?,
        })
    }

    /// Forgets names that may be another's.
    fn forget_passing(&mut self) {
        self.names.passing.clear();
        self.places.passing.clear();
    }
}

impl SymbolNames for SymbolCache {
    fn name(&mut self, address: u64) -> &[u8] {
        let text = &mut self.text;
        self.names.find(address, || text.look_up(address))
    }

    fn place(&mut self, address: u64) -> &[u8] {
        let text = &mut self.text;
        self.places.find(address, || text.look_up_place(address))
    }
}

/// Texts of addresses.
///
/// An address of the kernel proper is always the same function's. Those of modules, and of BPF
/// programs and trampolines, which come and go without a notice, can be another's the next time.
struct Cache {
    lasting: NameCache,
    passing: NameCache,
}

impl Cache {
    const fn new() -> Self {
        Self {
            lasting: NameCache::new(),
            passing: NameCache::new(),
        }
    }

    /// The text of `address`, which `look_up` gives if it is not known.
    #[inline(always)]
    fn find<'a>(&'a mut self, address: u64, look_up: impl FnOnce() -> &'a [u8]) -> &'a [u8] {
        if let Some(found) = self.lasting.find(address) {
            return self.lasting.text(found);
        }
        if let Some(found) = self.passing.find(address) {
            return self.passing.text(found);
        }
        let text = look_up();
        let is_lasting = !text.ends_with(b"]") && !text.starts_with(b"0x");
        let names = match is_lasting {
            true => &mut self.lasting,
            false => &mut self.passing,
        };
        // Without memory it is looked up again the next time.
        let _ = names.keep(address, text);
        text
    }
}
