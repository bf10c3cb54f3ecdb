// SPDX-License-Identifier: GPL-2.0

//! Profile, hook side: counts calls and how long they take in this CPU's table.

use kernel::alloc::AllocError;
use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::Arc;

use crate::engine::profile::{FunctionNumbers, ProfileTable};
use crate::engine::shadow::{self, Shadow, ShadowFrame};
use crate::platform::{AtomicPtr, AtomicU64, Ordering, Vec, Word};
use crate::sys::context::{cycles, Current, PreemptOff};
use crate::sys::cpu;
use crate::sys::fprobe::{CallEntry, CallHandler, CallReturn};
use crate::sys::percpu::PerCpu;
use crate::sys::random;
use crate::sys::sched_switch::{ShadowStack, SwitchHandler};
use crate::tracer::clock::SlowClock;
use crate::tracer::flags::{impl_flag, FlagSet, SharedFlags};

/// The counts of a CPU.
pub(crate) type CpuTable = ProfileTable<Arc<FunctionNumbers>>;

/// The parts of a call's time that do not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Without {
    /// The time of calls within it that are profiled, too.
    Calls = 1 << 0,
    /// The time that the task was not running.
    Sleep = 1 << 1,
}

impl_flag!(Without);

/// The frame of a call whose whole time counts.
#[derive(Clone, Copy)]
pub(crate) struct Began {
    start: u64,
    /// The number of the call's function in the tables.
    call: u64,
}

/// The frame of other calls, see [`shadow`]: the tag, the time of the entry, the number of the
/// function in the tables, the time of calls within it, and the time that the task was not running.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Nested([u64; 5]);

/// The index of the word with the time of calls within a call.
const WITHIN: usize = 3;

/// Counts calls in the tables that it is given.
///
/// # Invariants
///
/// A pointer in `tables` leads to `closed`, or to a live table of that CPU. One that was taken away
/// stays live until every CPU has left the code that it ran with preemption off.
pub(crate) struct Profiler {
    tables: PerCpu<AtomicPtr<CpuTable>>,
    /// The table of CPUs that have none, which knows no function.
    closed: KBox<CpuTable>,
    /// The number of calls that are in no table.
    lost: PerCpu<Word>,
    without: SharedFlags<Without>,
    session: AtomicU64,
    /// The session's random word, which tags are made of: see [`shadow::secret`].
    key: AtomicU64,
    /// Times are those of the time stamp counter.
    by_counter: bool,
    clock: SlowClock,
}

impl Profiler {
    /// Creates a profiler without tables. Its clock is `local`, and `by_counter` says whether the
    /// time stamp counter will do for that.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    pub(crate) fn new(by_counter: bool) -> Result<Self, AllocError> {
        let places = Arc::new(FunctionNumbers::new(Vec::new())?, GFP_KERNEL)?;
        let closed = KBox::new(ProfileTable::new(places, 0)?, GFP_KERNEL)?;
        let pointer: *const CpuTable = &*closed;
        // INVARIANT: All lead to `closed`, which does not move with its box.
        Ok(Self {
            tables: PerCpu::new(|_| AtomicPtr::new(pointer.cast_mut()))?,
            closed,
            lost: PerCpu::new(|_| Word::new(0))?,
            without: SharedFlags::new(FlagSet::NONE),
            session: AtomicU64::new(0),
            key: AtomicU64::new(random::word()),
            by_counter,
            clock: SlowClock::new()?,
        })
    }

    /// Begins another session, in which open calls of earlier ones are not known any more.
    pub(crate) fn new_session(&self) {
        self.key.store(random::word(), Ordering::Relaxed);
        self.session.fetch_add(1, Ordering::Relaxed);
    }

    /// Begins to count calls that are in no table from 0.
    pub(crate) fn forget_lost(&self) {
        for cpu in cpu::possible() {
            self.lost.get(cpu).store_relaxed(0);
        }
    }

    /// Returns the session's number.
    pub(crate) fn session(&self) -> u32 {
        self.session.load(Ordering::Relaxed) as u32
    }

    /// Sets the parts of a call's time that do not count.
    pub(crate) fn set_without(&self, without: FlagSet<Without>) {
        self.without.store(without);
    }

    /// Returns the number of calls in this session that are in no table, as there was no memory for
    /// one.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.sum(Word::load_relaxed)
    }

    /// Makes `table` the one that `cpu` counts in, `None` for none.
    ///
    /// # Safety
    ///
    /// - `table` is valid until another one was given for `cpu`, or the profiler was unhooked, and
    ///   every CPU has left the code that it ran with preemption off then.
    /// - It is given for one CPU only.
    pub(crate) unsafe fn set_table(&self, cpu: CpuId, table: Option<&CpuTable>) {
        let table: *const CpuTable = table.unwrap_or(&self.closed);
        let pointer = self.tables.get(cpu);
        pointer.store(table.cast_mut(), Ordering::Release);
    }

    #[inline(always)]
    fn this_table<'a>(&'a self, token: PreemptOff<'a>) -> &'a CpuTable {
        // SAFETY: By the type's invariants the pointer leads to a table that stays live until this
        // CPU has left the code that it runs with preemption off, as the token proves that it is.
        unsafe { &*self.tables.load(token) }
    }

    #[cold]
    #[inline(never)]
    fn lose(&self, token: PreemptOff<'_>) -> bool {
        self.lost.this(token).local_add(1);
        false
    }

    /// Returns the time now; `None` if the clock is being read already.
    fn now(&self, token: PreemptOff<'_>) -> Option<u64> {
        match self.by_counter {
            true => Some(cycles()),
            false => Some(self.clock.enter(token)?.now()),
        }
    }

    #[cold]
    #[inline(never)]
    fn began_slow(&self, token: PreemptOff<'_>, began: &mut Began) -> bool {
        let now = self.now(token);
        began.start = now.unwrap_or(0);
        now.is_some()
    }

    #[cold]
    #[inline(never)]
    fn ended_slow(&self, token: PreemptOff<'_>, began: &Began) {
        if let Some(now) = self.now(token) {
            let time = now.saturating_sub(began.start);
            self.this_table(token).leave(began.call, time);
        }
    }

    fn secret(&self) -> u64 {
        let key = self.key.load(Ordering::Relaxed);
        shadow::secret(key, size_of::<Nested>() / 8)
    }

    /// Returns the innermost of the calls around the one whose words are `data`.
    fn outer<'a>(&self, current: &'a Current<'_>, data: &Nested) -> Option<ShadowFrame<'a>> {
        let (words, base) = current.shadow_below(data.0.as_ptr());
        Shadow::new(words, base, self.secret()).innermost()
    }
}

impl CallHandler<Began> for Profiler {
    type Role = ();

    #[inline(always)]
    fn called(&self, _role: (), call: CallEntry<'_, Began>) -> bool {
        let CallEntry { site, token, data } = call;
        let Some(known) = self.this_table(token).enter(site.call.ip) else {
            return self.lose(token);
        };
        data.call = known;
        if !self.by_counter {
            return self.began_slow(token, data);
        }
        data.start = cycles();
        true
    }

    #[inline(always)]
    fn returned(&self, call: CallReturn<'_, Began>) {
        let CallReturn { token, data, .. } = call;
        if !self.by_counter {
            return self.ended_slow(token, data);
        }
        // The counters of two CPUs may differ a little.
        let time = cycles().saturating_sub(data.start);
        self.this_table(token).leave(data.call, time);
    }
}

impl CallHandler<Nested> for Profiler {
    type Role = ();

    fn called(&self, _role: (), call: CallEntry<'_, Nested>) -> bool {
        let CallEntry { site, token, data } = call;
        // A word that was there before is no tag.
        *data = Nested([0; 5]);
        let Some(known) = self.this_table(token).enter(site.call.ip) else {
            return self.lose(token);
        };
        let Some(now) = self.now(token) else {
            return false;
        };
        let tag = shadow::tag(data.0.as_ptr() as u64, self.secret(), 0);
        *data = Nested([tag, now, known, 0, 0]);
        true
    }

    fn returned(&self, call: CallReturn<'_, Nested>) {
        let CallReturn { token, data, .. } = call;
        let now = self.now(token);
        let address = data.0.as_ptr() as u64;
        // This is checked before anything is written: only `called` can have left that here.
        if shadow::flags_of(data.0[0], address, self.secret()).is_none() {
            return;
        }
        let [_, start, known, within, slept] = core::mem::replace(data, Nested([0; 5])).0;
        // The highest bit says that the task stopped running, and was not seen to go on: switches
        // are watched no more.
        let slept = if slept >> 63 == 0 { slept } else { 0 };
        let current = token.current();
        let outer = self.outer(&current, data);
        let without = |what, time| if self.without.has(what) { time } else { 0 };
        if slept != 0 {
            if let Some(outer) = outer {
                outer.add_sleep(slept);
            }
        }
        let Some(now) = now else {
            return;
        };
        let awake = now.saturating_sub(start);
        let awake = awake.saturating_sub(without(Without::Sleep, slept));
        if let Some(outer) = outer {
            outer.add(WITHIN, awake);
        }
        let time = awake.saturating_sub(without(Without::Calls, within));
        self.this_table(token).leave(known, time);
    }
}

impl SwitchHandler for Profiler {
    /// Adds up the time for which tasks do not run.
    fn switched(&self, prev: ShadowStack<'_>, next: ShadowStack<'_>, token: PreemptOff<'_>) {
        let secret = self.secret();
        shadow::switched(prev.tagged(secret), next.tagged(secret), || self.now(token));
    }
}
