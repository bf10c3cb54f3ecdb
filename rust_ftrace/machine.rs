// SPDX-License-Identifier: GPL-2.0

//! State of the machine, not of an instance: the list of functions, and the clock.

use core::ops::{DerefMut, Range};
use core::sync::atomic::{AtomicU64, Ordering};

use kernel::prelude::*;
use kernel::sync::{new_mutex, Arc, Mutex};

use crate::engine::btf::Btf;
use crate::engine::catalog::{BadLine, Catalog, MAX_LOCATION_OFFSET};
use crate::engine::clock::{ClockKind, Conversion};
use crate::engine::raw::TimeFormat;
use crate::engine::render::TimeUnit;
use crate::sys::clock;
use crate::sys::context::cycles;
use crate::sys::own_call;
use crate::sys::private::{read_btf, read_lines, Addresses, List, Numbers};
use crate::tracer::cost;
use crate::tracer::graph_hooks::GraphHooks;

/// The most that two calibrations may differ, in ns beyond their own errors, for the time stamp counter
/// to be taken for what the `local` clock is made of.
const MAX_DRIFT_NS: u64 = 500;

/// Cycles (some milliseconds) after which the conversion is compared with the clock again: reads follow
/// each other faster.
const LOOK_AGAIN: u64 = 1 << 24;

/// A conversion of cycles into times of the `local` clock.
#[derive(Clone, Copy)]
struct Calibration {
    conversion: Conversion,
    /// Its greatest error in ns when it was made.
    error: u64,
    /// Its greatest error in ns as seen at `at`.
    seen_error: u64,
    /// When it was last compared with the clock, in cycles.
    at: u64,
}

/// From stamps to the time that is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timeline {
    /// The stamp is shown as it is.
    Plain(TimeUnit),
    /// Cycles are shown as time of the `local` clock.
    Converted(Conversion),
    /// Cycles are shown as they are, but how long they last is known.
    Cycles(Conversion),
}

impl Timeline {
    /// The time of `stamp` and its unit.
    #[inline]
    pub(crate) fn time(&self, stamp: u64) -> (u64, TimeUnit) {
        match self {
            Self::Plain(unit) => (stamp, *unit),
            Self::Converted(conversion) => (conversion.to_ns(stamp), TimeUnit::Nanoseconds),
            Self::Cycles(_) => (stamp, TimeUnit::Counts),
        }
    }

    /// The time that `ticks` between two stamps last, in ns; `None` if the clock does not tell.
    pub(crate) fn duration(&self, ticks: u64) -> Option<u64> {
        match self {
            Self::Plain(TimeUnit::Nanoseconds) => Some(ticks),
            Self::Plain(TimeUnit::Counts) => None,
            Self::Converted(conversion) | Self::Cycles(conversion) => {
                Some(conversion.duration(ticks))
            }
        }
    }

    /// The conversion of stamps of `clock` to times, for other programs to do.
    pub(crate) fn format(&self, clock: ClockKind) -> TimeFormat {
        let (is_ns, (mult, shift, offset)) = match self {
            Self::Plain(unit) => (*unit == TimeUnit::Nanoseconds, (1, 0, 0)),
            Self::Converted(conversion) => (true, conversion.parts()),
            Self::Cycles(_) => (false, (1, 0, 0)),
        };
        TimeFormat {
            clock: clock as u32,
            is_ns,
            mult,
            shift,
            offset,
        }
    }
}

/// The state that all instances share.
#[pin_data]
pub(crate) struct Machine {
    /// Read when first needed, and again after a module came or went.
    #[pin]
    catalog: Mutex<Option<Catalog>>,
    /// Counts how often it was forgotten.
    catalog_generation: AtomicU64,
    /// Where the functions of modules lie that were going when last heard of. ftrace lists those for some time yet.
    #[pin]
    leaving: Mutex<KVec<Range<usize>>>,
    /// The number of times that a module was loaded.
    modules_loaded: AtomicU64,
    /// The kernel's `local` clock is made of the time stamp counter.
    local_is_counter: bool,
    /// The conversion in use.
    #[pin]
    conversion: Mutex<Option<Calibration>>,
    addresses: Addresses,
    /// Cost of writing an event, in picoseconds; 0 until that is asked for.
    writing_ps: AtomicU64,
    /// Hooks of calls whose instance was removed.
    #[pin]
    graph_hooks: Mutex<KVec<GraphHooks>>,
    #[pin]
    numbers: Mutex<Numbers>,
    /// Read when it is first asked for.
    #[pin]
    btf: Mutex<Option<Option<Arc<KernelBtf>>>>,
}

impl Machine {
    /// Looks at the clocks, and where things are in the kernel; nothing else is done yet.
    pub(crate) fn new() -> impl PinInit<Self, Error> {
        let mut addresses = Addresses::look_up();
        let numbers = Numbers::new(&mut addresses);
        try_pin_init!(Self {
            catalog <- new_mutex!(None),
            catalog_generation: AtomicU64::new(0),
            leaving <- new_mutex!(KVec::new()),
            modules_loaded: AtomicU64::new(0),
            local_is_counter: Self::look_at_clocks(),
            conversion <- new_mutex!(None),
            addresses,
            writing_ps: AtomicU64::new(0),
            graph_hooks <- new_mutex!(KVec::new()),
            numbers <- new_mutex!(numbers),
            btf <- new_mutex!(None),
        }? Error)
    }

    fn look_at_clocks() -> bool {
        let agrees = || {
            let (first, first_error) = clock::calibrate(clock::SAMPLES)?;
            kernel::time::delay::fsleep(kernel::time::Delta::from_millis(2));
            let (second, second_error) = clock::calibrate(clock::SAMPLES)?;
            let now = cycles();
            let tolerance = MAX_DRIFT_NS + first_error + second_error;
            Some(first.agrees_with(&second, now, tolerance))
        };
        agrees() == Some(true)
    }

    /// Returns whether events are stamped with cycles of the time stamp counter for this clock.
    pub(crate) fn is_counter(&self, kind: ClockKind) -> bool {
        match kind {
            ClockKind::Local => self.local_is_counter,
            kind => kind == ClockKind::X86Tsc,
        }
    }

    /// The way from stamps of a clock to times: the same for every reader, until the kernel's clock
    /// was adjusted or has slept.
    pub(crate) fn timeline(&self, kind: ClockKind) -> Timeline {
        let to_timeline = match kind {
            ClockKind::Local if self.local_is_counter => Timeline::Converted,
            ClockKind::X86Tsc if self.local_is_counter => Timeline::Cycles,
            _ => return Timeline::Plain(kind.unit()),
        };
        match self.conversion() {
            Some((conversion, _)) => to_timeline(conversion),
            None => Timeline::Plain(TimeUnit::Counts),
        }
    }

    /// The ticks of a clock that `ns` are; 1 for a clock that does not count time.
    pub(crate) fn ticks(&self, kind: ClockKind, ns: u64) -> u64 {
        match self.is_counter(kind) {
            true => (self.conversion()).map_or(ns, |(conversion, _)| conversion.to_cycles(ns)),
            false if kind.unit() == TimeUnit::Nanoseconds => ns,
            false => ns.min(1),
        }
    }

    /// The most that times may be from those of the kernel's own `local` clock at the same moment, in ns,
    /// if they are converted; `None` if not.
    pub(crate) fn conversion_error(&self) -> Option<u64> {
        match self.local_is_counter {
            true => self.conversion().map(|(_, error)| error),
            false => None,
        }
    }

    /// The conversion in use, and its greatest error when it was last looked at.
    fn conversion(&self) -> Option<(Conversion, u64)> {
        let mut kept = self.conversion.lock();
        let at = cycles();
        let (samples, before) = match *kept {
            Some(ref before) if at.wrapping_sub(before.at) < LOOK_AGAIN => {
                return Some((before.conversion, before.seen_error));
            }
            Some(before) => (clock::FEW_SAMPLES, Some(before)),
            None => (clock::SAMPLES, None),
        };
        let (now, error) = clock::calibrate(samples)?;
        let looked_at = match before {
            Some(before)
                if before
                    .conversion
                    .agrees_with(&now, cycles(), before.error + error) =>
            {
                Calibration {
                    at,
                    seen_error: before.error + 2 * error,
                    ..before
                }
            }
            _ => Calibration {
                at,
                conversion: now,
                error,
                seen_error: error,
            },
        };
        *kept = Some(looked_at);
        Some((looked_at.conversion, looked_at.seen_error))
    }

    /// Where the code lies that interrupts come in by; nowhere if the kernel does not say.
    pub(crate) fn irq_text(&self) -> Range<u64> {
        self.addresses.irq_text.clone()
    }

    /// The address whose function programs' marks are shown as.
    pub(crate) fn marker_ip(&self) -> u64 {
        self.addresses.marker_ip
    }

    /// The types of the kernel; `None` if it does not say, or there is no memory.
    pub(crate) fn btf(&self) -> Option<Arc<KernelBtf>> {
        let mut kept = self.btf.lock();
        let found = kept.get_or_insert_with(|| {
            let btf = Btf::new(Bytes(read_btf().ok()?)).ok()??;
            Arc::new(btf, GFP_KERNEL).ok()
        });
        found.clone()
    }

    /// Bytes of memory that they take.
    pub(crate) fn btf_bytes(&self) -> usize {
        let kept = self.btf.lock();
        let found = kept.as_ref().and_then(Option::as_ref);
        found.map_or(0, |btf| btf.bytes())
    }

    /// Where the kernel's own text lies, without that of modules; empty if that is not known.
    pub(crate) fn core_text(&self) -> Range<u64> {
        self.addresses.core_text.clone()
    }

    /// Calls `user` with the list of functions.
    ///
    /// # Errors
    ///
    /// Those of [`read_lines`], `EINVAL` if the list is not of the known form, and those of `user`.
    pub(crate) fn with_catalog<R>(&self, user: impl FnOnce(&Catalog) -> Result<R>) -> Result<R> {
        let mut slot = self.catalog.lock();
        if slot.is_none() {
            let leaving = self.leaving.lock();
            let is_leaving = |ip| leaving.iter().any(|range| range.contains(&ip));
            *slot = Some(read_catalog(is_leaving)?);
        }
        user(slot.as_ref().ok_or(ENODEV)?)
    }

    /// Addresses of a function whose calls must not be hooked by fprobe: called while fprobe moves its table, it would look
    /// into that table, and never find an end. See docs/upstream/fprobe-table-endless.md.
    pub(crate) fn never_called(&self) -> Range<usize> {
        match self.addresses.called_by_fprobe as usize {
            0 => 0..0,
            address => address..address.saturating_add(MAX_LOCATION_OFFSET + 1),
        }
    }

    /// Forgets the list of functions: a module came or went.
    pub(crate) fn forget_catalog(&self) {
        let old = self.catalog.lock().take();
        self.catalog_generation.fetch_add(1, Ordering::Relaxed);
        drop(old);
    }

    /// The number of the list of functions, another one after a module came or went.
    pub(crate) fn catalog_generation(&self) -> u64 {
        self.catalog_generation.load(Ordering::Relaxed)
    }

    /// The functions at addresses `text` are no longer to be traced: their module goes.
    pub(crate) fn module_leaves(&self, text: &[Range<usize>]) {
        let mut leaving = self.leaving.lock();
        for range in text.iter().filter(|range| !range.is_empty()) {
            if leaving.push(range.clone(), GFP_KERNEL).is_err() {
                pr_warn!("functions of a removed module are listed, for want of memory\n");
            }
        }
        drop(leaving);
        self.forget_catalog();
    }

    /// Notes that a module is being loaded at addresses `text`, before any of its functions runs.
    pub(crate) fn module_loads(&self, text: &[Range<usize>]) {
        let overlaps = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        let mut leaving = self.leaving.lock();
        leaving.retain(|old| !text.iter().any(|new| overlaps(old, new)));
        drop(leaving);
        self.modules_loaded.fetch_add(1, Ordering::Release);
    }

    /// The number of times that a module was loaded: after an event of the last one is seen, it is among them.
    pub(crate) fn modules_loaded(&self) -> u64 {
        self.modules_loaded.load(Ordering::Acquire)
    }

    /// Finds out what writing an event takes, if nobody has yet.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(crate) fn find_writing_ps(&self) -> Result {
        if self.writing_ps() == 0 {
            let found = cost::writing_ps(&self.addresses.core_text)?;
            self.writing_ps.store(found, Ordering::Relaxed);
        }
        Ok(())
    }

    /// That cost, in picoseconds; 0 if nobody has found out.
    pub(crate) fn writing_ps(&self) -> u64 {
        self.writing_ps.load(Ordering::Relaxed)
    }

    /// Hooks of calls: those of an instance that was removed, or new ones.
    pub(crate) fn reuse_graph_hooks(&self) -> GraphHooks {
        self.graph_hooks.lock().pop().unwrap_or(GraphHooks::new())
    }

    /// Keeps hooks of calls for another instance.
    pub(crate) fn keep_graph_hooks(&self, hooks: GraphHooks) {
        // (without memory they go: see `Place` of sys/fprobe)
        let _ = self.graph_hooks.lock().push(hooks, GFP_KERNEL);
    }

    /// Looks at whether the kernel keeps calls that are open as is known here, if that was not done yet.
    ///
    /// # Errors
    ///
    /// Those of [`own_call::look`].
    pub(crate) fn look_at_shadow_stacks(&self) -> Result {
        own_call::look(&mut self.numbers.lock())
    }

    /// Held while calls are hooked, after an instance's `control`: for
    /// [`Probes::trace`](crate::sys::fprobe::Probes::trace).
    pub(crate) fn hooks_calls(&self) -> impl DerefMut<Target = Numbers> + '_ {
        self.numbers.lock()
    }

    /// Bytes of memory that the list takes now.
    pub(crate) fn catalog_bytes(&self) -> usize {
        self.catalog.lock().as_ref().map_or(0, Catalog::bytes)
    }
}

/// Reads the functions that can be traced from tracefs, without those whose ftrace location `is_left_out`.
fn read_catalog(is_left_out: impl Fn(usize) -> bool) -> Result<Catalog> {
    let mut catalog = Catalog::new();
    read_lines(List::FilterFunctions, |line| {
        catalog.add(line).map_err(|bad| match bad {
            BadLine::Form => EINVAL,
            BadLine::NoMemory => ENOMEM,
        })
    })?;
    catalog.finish(is_left_out);
    Ok(catalog)
}

/// Bytes of a file.
pub(crate) struct Bytes(KVVec<u8>);

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The kernel's types.
pub(crate) type KernelBtf = Btf<Bytes>;
