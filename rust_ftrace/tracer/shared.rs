// SPDX-License-Identifier: GPL-2.0

//! Calls that several parts of the module watch, hook side: passes each to the tracers and profiles
//! of instances that want it.
//!
//! The words of a call are those of [`shared_frame`]. Which parts watch a function is in its
//! probe's role, and which of them took a call is in the call's marks; so a call may return by
//! another probe than the one that it was entered by.

use super::call_role::CallRole;
use super::graph_frames::{FramePlace, TaggedReturn};
use super::profile::{Profiler, SharedCall};
use crate::engine::ring::OpenCall;
use crate::engine::shadow;
use crate::engine::shared_frame::{self, Frame, Seat, MARKS, SEATS, START, WORDS};
use crate::engine::sharing::{Part, Parts, Watch};
use crate::platform::{AtomicPtr, Ordering, Word};
use crate::sys::context::{cycles, PreemptOff};
use crate::sys::fprobe::{CallEntry, CallHandler, CallReturn, Interest};
use crate::sys::ftrace::{FunctionEntry, Registers};
use crate::sys::random;
use crate::tracer::recorder::Recorder;

/// The words of a shared call: see [`shared_frame`].
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct SharedFrame([u64; WORDS]);

impl SharedFrame {
    #[inline(always)]
    fn words(&mut self) -> &Frame {
        Word::array_of(&mut self.0)
    }
}

/// The part that has a seat.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Sitter {
    /// The tracer of an instance.
    Tracer(*const Recorder),
    /// The profile of an instance.
    Profile(*const Profiler),
}

/// A seat.
#[repr(align(64))]
struct SeatState {
    recorder: AtomicPtr<Recorder>,
    profiler: AtomicPtr<Profiler>,
    /// Bits 0-7: the [`Part`] that the sitter is, whichever the function; 16-31: the turn since
    /// when it is there.
    state: Word,
}

/// Passes calls on to the parts that watch them.
///
/// # Invariants
///
/// A pointer in `seats` is null, or leads to a live part. One that was taken away stays live until
/// every CPU has left the code that it ran with preemption off.
pub(crate) struct Switchboard {
    seats: [SeatState; SEATS],
    /// The turn of calls that are entered now.
    turn: Word,
    secret: u64,
}

/// The entry of a call, as it is passed to one part after the other.
struct SharedEntry<'a> {
    site: FunctionEntry<'a>,
    token: PreemptOff<'a>,
    words: &'a Frame,
}

impl SharedEntry<'_> {
    #[inline(always)]
    fn set(&self, index: usize, value: u64) {
        if let Some(word) = self.words.get(index) {
            word.store_relaxed(value);
        }
    }
}

/// The return of a call, as it is passed to one part after the other.
struct SharedReturn<'a> {
    ip: u64,
    registers: Registers<'a>,
    token: PreemptOff<'a>,
    words: &'a Frame,
    marks: u64,
}

impl<'a> SharedReturn<'a> {
    #[inline(always)]
    fn word(&self, index: usize) -> u64 {
        self.words.get(index).map_or(0, Word::load_relaxed)
    }

    #[inline(always)]
    fn of_profile(&self, seat: usize, part: Part) -> SharedCall<'a> {
        let first = shared_frame::first_word(self.marks, seat);
        SharedCall {
            ip: self.ip,
            words: self.words,
            marks: self.marks,
            seat,
            context: part.has_context().then(|| first + part.before_context()),
        }
    }
}

impl Switchboard {
    /// Creates the state in which no part has a seat.
    pub(crate) fn new() -> Self {
        // INVARIANT: All pointers are null.
        Self {
            seats: [const {
                SeatState {
                    recorder: AtomicPtr::new(core::ptr::null_mut()),
                    profiler: AtomicPtr::new(core::ptr::null_mut()),
                    state: Word::new(0),
                }
            }; SEATS],
            turn: Word::new(0),
            secret: shadow::secret(random::word(), WORDS),
        }
    }

    /// Returns the turn of calls that are entered now.
    pub(crate) fn turn(&self) -> u16 {
        self.turn.load_relaxed() as u16
    }

    /// Returns the marks of the shared call whose words begin `words`, at `address`; `None` if they
    /// are not those of one.
    pub(crate) fn marks_at(&self, words: &[Word], address: u64) -> Option<u64> {
        shadow::shared_marks(words, address, self.secret)
    }

    /// Returns whether open calls that the sitter knows have these marks.
    pub(crate) fn knows(&self, seat: usize, marks: u64) -> bool {
        let since = (self.seats.get(seat)).map_or(0, |seat| seat.state.load_relaxed() >> 16);
        shared_frame::is_taken(marks, seat) && shared_frame::is_since(marks, since as u16)
    }

    /// Gives `seat` to a part, to which calls that were entered before are not known. Needs no
    /// memory, and sleeps not.
    ///
    /// # Safety
    ///
    /// The part is valid until the seat was given to another or [vacated](Self::vacate), and every
    /// CPU has left the code that it ran with preemption off then.
    pub(crate) unsafe fn seat(&self, seat: usize, sitter: Sitter, part: Part) {
        self.vacate(seat);
        let Some(state) = self.seats.get(seat) else {
            return;
        };
        let turn = self.turn().wrapping_add(1);
        self.turn.store_relaxed(turn.into());
        state
            .state
            .store_release(u64::from(part.0) | u64::from(turn) << 16);
        let own = Seat {
            number: seat,
            own_start: part.own_start(),
            sleeps: part.sleeps(),
            since: turn,
        };
        // INVARIANT: The part is valid as long as it has the seat, and longer, by caller
        // precondition.
        match sitter {
            Sitter::Tracer(recorder) => {
                state.recorder.store(recorder.cast_mut(), Ordering::Release);
                // SAFETY: It is valid, by caller precondition.
                unsafe { &*recorder }
                    .graph()
                    .set_seat(Some(own), self.secret);
            }
            Sitter::Profile(profiler) => {
                state.profiler.store(profiler.cast_mut(), Ordering::Release);
                // SAFETY: It is valid, by caller precondition.
                unsafe { &*profiler }.set_seat(Some(own), self.secret);
            }
        }
    }

    /// Takes a seat from the part that has it, if one does. Needs no memory, and sleeps not. The
    /// part may be told of calls until every CPU has left the code that it ran with preemption off.
    pub(crate) fn vacate(&self, seat: usize) {
        let Some(state) = self.seats.get(seat) else {
            return;
        };
        // INVARIANT: Null is always right.
        let recorder = state
            .recorder
            .swap(core::ptr::null_mut(), Ordering::Relaxed);
        let profiler = state
            .profiler
            .swap(core::ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: By the type's invariants it is null or live.
        if let Some(recorder) = unsafe { recorder.as_ref() } {
            recorder.graph().set_seat(None, 0);
        }
        // SAFETY: By the type's invariants it is null or live.
        if let Some(profiler) = unsafe { profiler.as_ref() } {
            profiler.set_seat(None, 0);
        }
    }

    #[inline(always)]
    fn recorder<'a>(&'a self, seat: usize, _token: PreemptOff<'a>) -> Option<&'a Recorder> {
        let pointer = self.seats.get(seat)?.recorder.load(Ordering::Acquire);
        // SAFETY: By the type's invariants the pointer is null, or leads to a recorder that stays
        // live until this CPU has left the code that it runs with preemption off, as the token
        // proves that it is.
        unsafe { pointer.as_ref() }
    }

    #[inline(always)]
    fn profiler<'a>(&'a self, seat: usize, _token: PreemptOff<'a>) -> Option<&'a Profiler> {
        let pointer = self.seats.get(seat)?.profiler.load(Ordering::Acquire);
        // SAFETY: By the type's invariants the pointer is null, or leads to a profiler that stays
        // live until this CPU has left the code that it runs with preemption off, as the token
        // proves that it is.
        unsafe { pointer.as_ref() }
    }

    /// Returns the part in a seat, as its seat knows it.
    fn part(&self, seat: usize) -> Part {
        let state = self.seats.get(seat);
        Part(state.map_or(0, |state| state.state.load_acquire()) as u8)
    }

    /// Passes the entry of a call to the part in a seat. Returns the marks of the seat, if it took
    /// the call; 0 if not.
    #[inline(never)]
    fn enter_seat(&self, seat: usize, part: Part, entry: &SharedEntry<'_>) -> u64 {
        let token = entry.token;
        let place = part.place();
        match part.watch() {
            Watch::Plain => {
                let Some(recorder) = self.recorder(seat, token) else {
                    return 0;
                };
                let mut open = OpenCall::default();
                let address = entry.words.as_ptr().cast();
                if !recorder.enter_plain::<WORDS>(entry.site, token, &mut open, address) {
                    return 0;
                }
                entry.set(shared_frame::word_at(place), open.token);
                if part.own_start() {
                    entry.set(shared_frame::word_at(place) + 1, open.start);
                }
            }
            Watch::Counted => {
                let Some(profiler) = self.profiler(seat, token) else {
                    return 0;
                };
                if part.has_context() {
                    return self.enter_context(seat, part, entry, profiler, 0);
                }
                if !profiler.enter_shared(entry.site.call.ip, token) {
                    return 0;
                }
            }
            Watch::Not => return 0,
            _ => return self.enter_tagged(seat, part, entry),
        }
        shared_frame::mark(seat, 0, place)
    }

    /// Passes the entry of a call that is to be found by others to the part in a seat, as
    /// [`Self::enter_seat`] does.
    #[cold]
    #[inline(never)]
    fn enter_tagged(&self, seat: usize, part: Part, entry: &SharedEntry<'_>) -> u64 {
        let (token, site) = (entry.token, entry.site);
        let role = match part.watch() {
            Watch::Root => CallRole::Root,
            Watch::Skip => CallRole::Skip,
            Watch::NestedRole if part.is_root() => CallRole::Root,
            Watch::NestedRole => CallRole::Skip,
            _ => CallRole::Plain,
        };
        let part = match part.watch() {
            Watch::NestedRole => self.part(seat).at(part.place()),
            _ => part,
        };
        let first = shared_frame::word_at(part.place());
        let place = FramePlace {
            address: entry.words.as_ptr().cast(),
            length: WORDS,
        };
        let mut open = OpenCall::default();
        let flags = if part.watch() == Watch::Nested {
            let Some(profiler) = self.profiler(seat, token) else {
                return 0;
            };
            let Some(flags) = profiler.admits(role, place.address, token) else {
                return 0;
            };
            if flags & shadow::SKIP != 0 {
                return shared_frame::mark(seat, flags, part.place());
            }
            if part.has_context() {
                return self.enter_context(seat, part, entry, profiler, flags);
            }
            let Some(now) = profiler.enter_shared_nested(site.call.ip, token) else {
                return 0;
            };
            open.start = now;
            flags
        } else {
            let Some(recorder) = self.recorder(seat, token) else {
                return 0;
            };
            let flags = match part.is_long() {
                true => recorder.enter_tagged::<5>(role, site, token, place, &mut open),
                false => recorder.enter_tagged::<3>(role, site, token, place, &mut open),
            };
            let Some(flags) = flags else {
                return 0;
            };
            flags
        };
        entry.set(first, open.token);
        if part.own_start() {
            entry.set(first + 1, open.start);
        }
        shared_frame::mark(seat, flags, part.place())
    }

    /// Passes the entry of a call to a profile with contexts, as [`Self::enter_seat`] does; its
    /// tag has these `flags`.
    #[cold]
    #[inline(never)]
    fn enter_context(
        &self,
        seat: usize,
        part: Part,
        entry: &SharedEntry<'_>,
        profiler: &Profiler,
        flags: u64,
    ) -> u64 {
        let address = entry.words.as_ptr() as u64;
        let entered = profiler.enter_shared_context(entry.site, address, entry.token);
        let Some((context, now)) = entered else {
            return 0;
        };
        let first = shared_frame::word_at(part.place());
        if part.own_start() {
            entry.set(first + 1, now);
        }
        entry.set(first + part.before_context(), context.0);
        shared_frame::mark(seat, flags, part.place())
    }

    /// Begins a call anew, as an interrupt came in while it began. Its profiles have these `marks`.
    #[cold]
    #[inline(never)]
    fn begin_again(&self, parts: Parts, marks: u64, words: &Frame, token: PreemptOff<'_>) {
        let pass_on = |seat, time| {
            if let Some(profiler) = self.profiler(seat, token) {
                let is_nested = parts.of(seat).watch() != Watch::Counted;
                profiler.pass_on(words, is_nested, time, token);
            }
        };
        shared_frame::begin_again(words, marks, pass_on, cycles);
    }

    /// Passes the return of a call to the part in a seat, which took it.
    #[inline(never)]
    fn leave_seat(&self, seat: usize, call: &SharedReturn<'_>) {
        let Some(state) = self.seats.get(seat) else {
            return;
        };
        let (token, marks) = (call.token, call.marks);
        let state = state.state.load_acquire();
        if !shared_frame::is_since(marks, (state >> 16) as u16) {
            return;
        }
        let part = Part(state as u8);
        let first = shared_frame::first_word(marks, seat);
        match part.watch() {
            Watch::Plain => {
                let Some(recorder) = self.recorder(seat, token) else {
                    return;
                };
                let start = match part.own_start() {
                    true => call.word(first + 1),
                    false => call.word(START),
                };
                let open = OpenCall {
                    start,
                    token: call.word(first),
                };
                recorder.leave_plain(&open, call.ip, call.registers, token);
            }
            Watch::Counted => {
                let Some(profiler) = self.profiler(seat, token) else {
                    return;
                };
                profiler.leave_shared(&call.of_profile(seat, part), token);
            }
            _ => self.leave_tagged(seat, part, call),
        }
    }

    /// Passes the return of a call that others may have found to the part in a seat.
    #[cold]
    #[inline(never)]
    fn leave_tagged(&self, seat: usize, part: Part, call: &SharedReturn<'_>) {
        let token = call.token;
        if part.watch() == Watch::Nested {
            if let Some(profiler) = self.profiler(seat, token) {
                profiler.leave_shared_nested(&call.of_profile(seat, part), part, token);
            }
            return;
        }
        let Some(recorder) = self.recorder(seat, token) else {
            return;
        };
        shared_frame::leave(call.words, seat);
        // Calls within this one may have set flags, in interrupts until now.
        let marks = call.word(MARKS);
        let own_start = usize::from(part.own_start());
        let first = shared_frame::first_word(marks, seat);
        let returned = TaggedReturn {
            flags: shared_frame::flags(marks, seat),
            open: OpenCall {
                start: match part.own_start() {
                    true => call.word(first + 1),
                    false => call.word(START),
                },
                token: call.word(first),
            },
            wait: None,
            slept: match part.sleeps() {
                true => call.word(first + 1 + own_start),
                false => 0,
            },
            address: call.words.as_ptr().cast(),
            call: None,
        };
        match part.is_long() {
            true => recorder.leave_tagged::<5>(returned, call.ip, call.registers, token),
            false => recorder.leave_tagged::<3>(returned, call.ip, call.registers, token),
        }
    }
}

/// Does the same for each seat, without a loop.
macro_rules! for_each_seat {
    ($seat:ident => $body:expr) => {
        for_each_seat!($seat => $body, 0, 1, 2, 3, 4, 5, 6, 7)
    };
    ($seat:ident => $body:expr, $($number:literal),*) => {{
        $({
            const $seat: usize = $number;
            $body
        })*
    }};
}

const _: () = assert!(SEATS == 8);

impl CallHandler<SharedFrame> for Switchboard {
    type Role = Parts;

    #[inline(always)]
    fn called(&self, parts: Parts, call: CallEntry<'_, SharedFrame>) -> Interest {
        let CallEntry { site, token, data } = call;
        let words = data.words();
        shared_frame::clear(words);
        let mut marks = shared_frame::marks(self.turn());
        let entry = SharedEntry { site, token, words };
        let (profiles, tracers) = parts.split();
        if profiles.0 != 0 {
            for_each_seat!(SEAT => {
                let part = profiles.of(SEAT);
                if part.0 != 0 {
                    marks |= self.enter_seat(SEAT, part, &entry);
                }
            });
        }
        let tag = shadow::tag(words.as_ptr() as u64, self.secret, 0);
        if !shared_frame::begin(words, tag, marks, cycles) {
            self.begin_again(profiles, marks, words, token);
        }
        for_each_seat!(SEAT => {
            let part = tracers.of(SEAT);
            if part.0 != 0 {
                marks |= self.enter_seat(SEAT, part, &entry);
            }
        });
        if !shared_frame::is_any_taken(marks) {
            shared_frame::forget(words);
            return Interest::Nothing;
        }
        // An interrupt that finds a mark finds what belongs to it. Until now it has set none.
        words[MARKS].store_release(marks);
        Interest::Return
    }

    #[inline(always)]
    fn returned(&self, call: CallReturn<'_, SharedFrame>) {
        let CallReturn {
            ip,
            registers,
            token,
            data,
        } = call;
        let words = data.words();
        let address = words.as_ptr() as u64;
        // This is checked before anything is written: only `called` can have left that here.
        let Some(marks) = shadow::shared_marks(words, address, self.secret) else {
            return;
        };
        let call = SharedReturn {
            ip,
            registers,
            token,
            words,
            marks,
        };
        for_each_seat!(SEAT => {
            if shared_frame::is_taken(marks, SEAT) {
                self.leave_seat(SEAT, &call);
            }
        });
        shared_frame::forget(words);
    }
}
