// SPDX-License-Identifier: GPL-2.0

//! Profile, hook side: counts calls and how long they take in this CPU's table.

mod below;
mod contexts;
mod nested;
mod roots;
mod shared;
mod switches;

use core::ops::Range;

use kernel::alloc::AllocError;
use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::Arc;

use self::roots::Roots;
pub(super) use self::shared::SharedCall;
use crate::engine::plan::ProfiledCalls;
use crate::engine::profile::context_counts::CpuContexts;
use crate::engine::profile::contexts::{CallContext, Contexts};
use crate::engine::profile::frame::{
    self, Below, Frame, Outer, Timed, Times, CONTEXT, CONTEXT_WORDS,
};
use crate::engine::profile::histogram::{Chunk, Pool};
use crate::engine::profile::numbers::FunctionNumbers;
use crate::engine::profile::sleeps::Sleeps;
use crate::engine::profile::table::ProfileTable;
use crate::engine::profile::waits::Waits;
use crate::engine::ring::Call;
use crate::engine::shared_frame::Seat;
use crate::platform::{AtomicPtr, AtomicU64, Ordering, Vec, Word};
use crate::sys::context::{cycles, Current, PreemptOff};
use crate::sys::cpu;
use crate::sys::fprobe::{frame_words, CallEntry, CallHandler, CallReturn, Interest};
use crate::sys::ftrace::{FunctionEntry, Registers};
use crate::sys::percpu::PerCpu;
use crate::sys::random;
use crate::tracer::call_role::CallRole;
use crate::tracer::clock::SlowClock;
use crate::tracer::flags::{impl_flag, FlagSet, SharedFlags};
use crate::tracer::recorder::Recorder;
use crate::tracer::seat::OwnSeat;

/// The counts of a CPU for its functions.
pub(crate) type FunctionTable = ProfileTable<Arc<FunctionNumbers>, Arc<Chunk>>;

/// The counts of a CPU for contexts.
pub(crate) type ContextTable = CpuContexts<Arc<Contexts>>;

/// The counts of a CPU.
pub(crate) struct CpuTable {
    pub(crate) functions: FunctionTable,
    /// Those by contexts, if there are any.
    pub(crate) contexts: Option<Arc<ContextTable>>,
    /// The waits by contexts, if they are counted.
    pub(crate) waits: Option<Arc<Waits>>,
}

/// The ways in which calls are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
enum Counting {
    /// Without the time of calls within them that are profiled, too.
    WithoutCalls = 1 << 0,
    /// Without the time that the task was not running.
    WithoutSleep = 1 << 1,
    /// By their contexts, too.
    Contexts = 1 << 2,
    /// By frames that are [`Nested`].
    Nested = 1 << 3,
    /// With what they waited for.
    Waits = 1 << 4,
    /// By the roles of the functions of the calls around them.
    Marked = 1 << 5,
    /// Below roots only.
    Rooted = 1 << 6,
}

impl_flag!(Counting);

/// The frame of a call whose whole time counts, by the time stamp counter: see [`frame`].
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Began<const N: usize>([u64; N]);

impl<const N: usize> Began<N> {
    /// The distance of two such frames, in words, where nothing else hooks the calls.
    const STRIDE: usize = frame_words(N);

    #[inline(always)]
    fn words(&mut self) -> &[Word; N] {
        Word::array_of(&mut self.0)
    }
}

/// The words that all frames have, of which there are `N` in this one.
#[inline(always)]
fn frame_of<const N: usize>(words: &[Word; N]) -> &Frame {
    const { assert!(N >= frame::WORDS) };
    // SAFETY: There are at least as many words, as asserted, so that the first ones are an array of
    // that length, which lives as long as all.
    unsafe { &*words.as_ptr().cast() }
}

/// Forgets what was in the words before, as the call is not counted.
fn not_counted<const N: usize>(words: &[Word; N]) -> Interest {
    frame::forget(frame_of(words));
    Interest::Nothing
}

#[inline(always)]
fn address_of(frame: &Frame) -> u64 {
    frame.as_ptr() as u64
}

/// The frame of other calls, see [`shadow`]: the tag, the time of the entry, the number of the
/// function in the tables, the time of calls within it, the time that the task was not running, and
/// the context, if there is one; behind it the [`Wait`](crate::engine::waiting::Wait), if that is
/// counted.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Nested<const N: usize>([u64; N]);

/// The words of such a frame without a context, with one, and with a wait.
pub(crate) const NESTED_WORDS: [usize; 3] = [5, 6, 7];

/// Counts calls in the tables that it is given.
///
/// # Invariants
///
/// - A pointer in `tables` leads to `closed`, or to a live table of that CPU. One that was taken
///   away stays live until every CPU has left the code that it ran with preemption off.
/// - `bounds` leads to a recorder that lives for as long as calls are hooked.
/// - `sleeps` is null, or the pointer of a box that stays as long as the profiler.
pub(crate) struct Profiler {
    tables: PerCpu<AtomicPtr<CpuTable>>,
    /// The table of CPUs that have none, which knows no function.
    closed: KBox<CpuTable>,
    /// The number of calls that are in no table.
    lost: PerCpu<Word>,
    counting: SharedFlags<Counting>,
    /// Knows the tasks and CPUs whose calls are counted.
    bounds: AtomicPtr<Recorder>,
    /// The session's random words, which tags are made of: those of frames with contexts that are
    /// [`Began`], and those of others. So frames of another kind are not known.
    context_key: AtomicU64,
    key: AtomicU64,
    /// Times are those of the time stamp counter.
    by_counter: bool,
    clock: SlowClock,
    /// The seat in calls that others watch, too.
    seat: OwnSeat,
    roots: Roots,
    /// Tasks that sleep in calls; null until they are counted, and then for good.
    sleeps: AtomicPtr<Sleeps>,
}

impl Profiler {
    /// Creates a profiler without tables, which counts only the calls of tasks and on CPUs that
    /// `bounds` traces. Its clock is `local`, and `by_counter` says whether the time stamp counter
    /// will do for that. `text` is where the kernel's own text lies.
    ///
    /// # Errors
    ///
    /// [`AllocError`] if there is no memory.
    ///
    /// # Safety
    ///
    /// `bounds` is valid for as long as calls are hooked by what is returned.
    pub(crate) unsafe fn new(
        by_counter: bool,
        bounds: *const Recorder,
        text: Range<u64>,
    ) -> Result<Self, AllocError> {
        let places = Arc::new(FunctionNumbers::new(Vec::new())?, GFP_KERNEL)?;
        let closed = CpuTable {
            functions: ProfileTable::new(places, Pool::new(), 0)?,
            contexts: None,
            waits: None,
        };
        let closed = KBox::new(closed, GFP_KERNEL)?;
        let pointer: *const CpuTable = &*closed;
        // INVARIANT: `sleeps` is null. All tables are `closed`, which does not move with its box.
        // `bounds` is valid for as long as calls are hooked, by caller precondition.
        Ok(Self {
            tables: PerCpu::new(|_| AtomicPtr::new(pointer.cast_mut()))?,
            closed,
            lost: PerCpu::new(|_| Word::new(0))?,
            counting: SharedFlags::new(FlagSet::NONE),
            bounds: AtomicPtr::new(bounds.cast_mut()),
            context_key: AtomicU64::new(random::word()),
            key: AtomicU64::new(random::word()),
            by_counter,
            clock: SlowClock::new()?,
            seat: OwnSeat::new(),
            roots: Roots::new(text)?,
            sleeps: AtomicPtr::new(core::ptr::null_mut()),
        })
    }

    /// Gives the profile a seat in calls that others watch, too, whose tags are made with `secret`,
    /// or takes it away.
    pub(super) fn set_seat(&self, seat: Option<Seat>, secret: u64) {
        self.seat.set(seat, secret);
    }

    /// Begins another session, in which open calls of earlier ones are not known any more.
    pub(crate) fn new_session(&self) {
        for key in [&self.context_key, &self.key] {
            key.store(random::word(), Ordering::Relaxed);
        }
        if let Some(sleeps) = self.sleeps() {
            sleeps.clear();
        }
    }

    /// Begins to count calls that are in no table from 0.
    pub(crate) fn forget_lost(&self) {
        for cpu in cpu::possible() {
            self.lost.get(cpu).store_relaxed(0);
        }
    }

    /// Returns whether times are those of the time stamp counter.
    pub(crate) fn is_by_counter(&self) -> bool {
        self.by_counter
    }

    /// Has calls be counted in the ways of `counted`.
    pub(crate) fn set_counting(&self, counted: &ProfiledCalls) {
        let counting = FlagSet::NONE
            .with(Counting::WithoutCalls, counted.without_calls)
            .with(Counting::WithoutSleep, counted.without_sleep)
            .with(Counting::Contexts, counted.contexts)
            .with(Counting::Nested, counted.is_nested(!self.by_counter))
            .with(Counting::Waits, counted.waits)
            .with(Counting::Marked, counted.roles.is_marked())
            .with(Counting::Rooted, counted.roles.is_rooted);
        self.counting.store(counting);
    }

    /// Returns whether the frames of calls are [`Nested`].
    fn is_nested(&self) -> bool {
        self.counting.has(Counting::Nested)
    }

    /// Returns the recorder that knows the tasks and CPUs whose calls are counted. For hooks.
    #[inline(always)]
    fn bounds(&self) -> &Recorder {
        // SAFETY: By the type's invariants it leads to a recorder that lives for as long as calls
        // are hooked, and so now.
        unsafe { &*self.bounds.load(Ordering::Relaxed) }
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
    fn lose(&self, token: PreemptOff<'_>) {
        self.lost.this(token).local_add(1);
    }

    /// Returns the time now; `None` if the clock is being read already.
    fn now(&self, token: PreemptOff<'_>) -> Option<u64> {
        match self.by_counter {
            true => Some(cycles()),
            false => Some(self.clock.enter(token)?.now()),
        }
    }

    /// The secret of frames of so many words that are [`Began`].
    #[inline(always)]
    fn frame_secret(&self, words: usize) -> u64 {
        let key = match words == CONTEXT_WORDS {
            true => &self.context_key,
            false => &self.key,
        };
        key.load(Ordering::Relaxed)
    }

    /// Returns whether calls of the running task, or on this CPU, are not counted.
    fn is_left_out(&self, token: PreemptOff<'_>) -> bool {
        let bounds = self.bounds();
        bounds.is_bounded() && !bounds.is_within_bounds(token)
    }

    /// Counts the entry of a function, wherever it is. Returns the number by which its return is
    /// counted; `None` if that is not wanted.
    fn enter_behind(&self, token: PreemptOff<'_>, ip: u64) -> Option<u64> {
        if self.is_left_out(token) {
            self.unseen(token);
            return None;
        }
        let number = self.this_table(token).functions.enter_behind(ip);
        if number.is_none() {
            self.unseen(token);
            self.lose(token);
        }
        number
    }

    /// Counts the entry of a function that is not in its first place, or where only some are
    /// counted.
    #[cold]
    #[inline(never)]
    fn called_behind<const N: usize>(
        &self,
        token: PreemptOff<'_>,
        words: &[Word; N],
        call: Call,
        registers: Registers<'_>,
    ) -> Interest {
        let Some(number) = self.enter_behind(token, call.ip) else {
            return not_counted(words);
        };
        if let Some(all) = words.first_chunk() {
            if !self.enter_context(self.this_table(token), token, all, number) {
                return self.called_apart(token, words, call, registers, number);
            }
        }
        self.begin(token, words, number)
    }

    /// Begins a call that was counted, whose context is to be searched for, if it is to have one.
    #[cold]
    #[inline(never)]
    fn called_apart<const N: usize>(
        &self,
        token: PreemptOff<'_>,
        words: &[Word; N],
        call: Call,
        registers: Registers<'_>,
        number: u64,
    ) -> Interest {
        let site = FunctionEntry { call, registers };
        if let Some(words) = words.first_chunk::<CONTEXT_WORDS>() {
            let address = words.as_ptr() as u64;
            let below = self.context_below(&token.current(), words);
            let Some(context) = self.find_context(token, site, address, below, number) else {
                return not_counted(words);
            };
            words[CONTEXT].store_relaxed(context.0);
        }
        self.begin(token, words, number)
    }

    /// Begins a call that was counted.
    #[inline(always)]
    fn begin<const N: usize>(
        &self,
        token: PreemptOff<'_>,
        words: &[Word; N],
        number: u64,
    ) -> Interest {
        let frame = frame_of(words);
        let (address, secret) = (address_of(frame), self.frame_secret(N));
        if !frame::begin(frame, address, secret, number, cycles) {
            return self.began_between::<N>(token, frame);
        }
        Interest::Return
    }

    /// Begins a call anew, as an interrupt came in while it began.
    #[cold]
    #[inline(never)]
    fn began_between<const N: usize>(&self, token: PreemptOff<'_>, frame: &Frame) -> Interest {
        let current = token.current();
        let outer = self.search(&current, address_of(frame), N);
        frame::begin_again(frame, outer, cycles);
        Interest::Return
    }

    /// Counts the return of a call in whose end an interrupt came in, or for which time went back.
    #[cold]
    #[inline(never)]
    fn returned_between<const N: usize>(&self, token: PreemptOff<'_>, words: &[Word; N]) {
        let times = Timed::of(frame_of(words)).measure_again(cycles);
        self.returned_slow(token, words, times);
    }

    /// Counts the return of a call that is the first or the longest, or for which the one around
    /// it is to be searched for.
    #[cold]
    #[inline(never)]
    fn returned_slow<const N: usize>(
        &self,
        token: PreemptOff<'_>,
        words: &[Word; N],
        times: Times,
    ) {
        let frame = frame_of(words);
        let secret = self.frame_secret(N);
        let number = frame::number(frame, address_of(frame), secret);
        let table = self.this_table(token);
        let record = number.and_then(|number| table.functions.record(number));
        if let Some(record) = &record {
            if !record.is_usual(times.time) {
                record.note_longest(times.time);
            }
        }
        let current = token.current();
        let outer = self.search(&current, address_of(frame), N);
        let added = frame::end(frame, times);
        if let Some(outer) = outer {
            outer.local_add(added);
        }
        match record {
            Some(record) => record.add(times.time, times.within),
            // The CPU came when there was no memory for its table.
            None => self.lose(token),
        }
        if let Some(word) = words.get(CONTEXT) {
            table.leave_context(CallContext(word.load_relaxed()), times);
        }
    }

    /// Returns the word for the time of calls within the call around the one whose words lie at
    /// `address`, if its whole time counts. Frames have so many `words`.
    fn search<'a>(&self, current: &'a Current<'_>, address: u64, words: usize) -> Option<&'a Word> {
        let secret = self.frame_secret(words);
        let (words, base) = current.shadow_below(address as *const u64);
        Below::new(words, base, self.seat.known()).search(secret)
    }
}

impl CpuTable {
    /// Counts the return of a call by its context.
    fn leave_context(&self, context: CallContext, times: Times) {
        let contexts = self.contexts.as_ref();
        if let Some(returning) = contexts.and_then(|contexts| contexts.of(context)) {
            returning.add(times);
        }
    }

    /// Counts the waits in a call that returns by its context.
    fn wait_in_context(&self, context: CallContext, slept: u64, queued: u64) {
        // What is within another call of the node is in that one's time.
        if let Some(waits) = self.waits.as_ref().filter(|_| !context.is_nested()) {
            waits.add(context.node().index(), slept, queued);
        }
    }
}

impl<const N: usize> CallHandler<Began<N>> for Profiler {
    type Role = CallRole;

    #[inline(always)]
    fn called(&self, _role: CallRole, call: CallEntry<'_, Began<N>>) -> Interest {
        let CallEntry { site, token, data } = call;
        // As one value they would be in memory.
        let FunctionEntry { call, registers } = site;
        let words = data.words();
        if self.bounds().is_bounded() {
            return self.called_behind(token, words, call, registers);
        }
        let table = self.this_table(token);
        let Some(number) = table.functions.enter(call.ip) else {
            return self.called_behind(token, words, call, registers);
        };
        if let Some(all) = words.first_chunk() {
            if !self.enter_context(table, token, all, number) {
                return self.called_apart(token, words, call, registers, number);
            }
        }
        self.begin(token, words, number)
    }

    #[inline(always)]
    fn returned(&self, call: CallReturn<'_, Began<N>>) {
        let CallReturn { token, data, .. } = call;
        let words = data.words();
        let frame = frame_of(words);
        let secret = self.frame_secret(N);
        // This is checked before anything is written: only `called` can have left that here.
        let Some(number) = frame::number(frame, address_of(frame), secret) else {
            return;
        };
        let Some(times) = Timed::of(frame).measure(cycles) else {
            return self.returned_between(token, words);
        };
        let current = token.current();
        let next = current.shadow_words(frame, Began::<N>::STRIDE);
        let outer = match Outer::next(next, secret) {
            Outer::Known(outer) => Some(outer),
            Outer::None => None,
            Outer::Unknown => return self.returned_slow(token, words, times),
        };
        let table = self.this_table(token);
        let record = table.functions.record(number);
        let Some(record) = record.filter(|record| record.is_usual(times.time)) else {
            return self.returned_slow(token, words, times);
        };
        let added = frame::end(frame, times);
        if let Some(outer) = outer {
            outer.local_add(added);
        }
        record.add(times.time, times.within);
        if let Some(word) = words.get(CONTEXT) {
            table.leave_context(CallContext(word.load_relaxed()), times);
        }
    }
}
