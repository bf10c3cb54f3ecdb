// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Budget: limits of calls a second, and of a share of a CPU, that tracing may take; as users write
//! them, and as measured.
//!
//! Calls are counted when a sub-buffer is opened, so that counting costs an event nothing. Each CPU
//! has a [`CpuWindow`] of its own, from one opening to the first one that is [`WINDOW_NS`] later,
//! which makes its rate exact. The total rate is the sum of the latest ones. A CPU that has opened
//! no sub-buffer since counts with no more than it can have made.

use core::fmt::{self, Write};

use super::filter::words;
use super::parse::{parse_number, ParseError};
use crate::platform::Word;

/// Least length of a window, in ns: a shorter burst is judged by its mean over that time.
pub const WINDOW_NS: u64 = 100_000_000;

const SECOND_NS: u64 = 1_000_000_000;

/// Picoseconds in a second, a percent of which is the unit of [`BudgetLimits::cpu`].
const SECOND_PS: u64 = 1_000_000_000_000;

/// Limits that are set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BudgetLimits {
    /// Calls a second, of all CPUs; 0 for any number.
    pub calls: u64,
    /// Time that recording takes, in percent of one CPU; 0 for any.
    pub cpu: u64,
}

impl BudgetLimits {
    /// Returns whether any limit is set.
    pub const fn is_any(self) -> bool {
        self.calls != 0 || self.cpu != 0
    }

    /// Returns the limits after `text` was written: `calls N`, `cpu N`, or both, which leave what
    /// they do not name; `0`, or nothing but white space, allows all.
    ///
    /// # Errors
    ///
    /// The byte of `text` at which the first bad word is, and why it is bad.
    pub fn edited(self, text: &[u8]) -> Result<Self, (usize, ParseError)> {
        if text.is_empty() {
            return Err((0, ParseError::Invalid));
        }
        // A NUL ends words, and nothing may follow it here.
        if let Some(at) = text.iter().position(|byte| *byte == 0) {
            return Err((at, ParseError::Invalid));
        }
        let mut new = self;
        let mut rest = words(text);
        let Some((at, first)) = rest.next() else {
            return Ok(Self::default());
        };
        if first == b"0" {
            return match rest.next() {
                None => Ok(Self::default()),
                Some((at, _)) => Err((at, ParseError::Invalid)),
            };
        }
        let mut next = Some((at, first));
        while let Some((at, name)) = next {
            let limit = match name {
                b"calls" => &mut new.calls,
                b"cpu" => &mut new.cpu,
                _ => return Err((at, ParseError::Invalid)),
            };
            let (at, number) = rest.next().ok_or((at, ParseError::Invalid))?;
            *limit = parse_number(number).map_err(|error| (at, error))?;
            next = rest.next();
        }
        Ok(new)
    }

    /// Returns the limit that `measured` exceeds, if any.
    pub fn exceeded(self, measured: Measured) -> Option<Excess> {
        if self.calls != 0 && measured.calls > self.calls {
            return Some(Excess::Calls(self.calls));
        }
        let is_over = self.cpu != 0 && measured.ps() > self.cpu.saturating_mul(SECOND_PS / 100);
        is_over.then_some(Excess::Cpu(self.cpu))
    }
}

/// Rates as measured, with the time as an estimate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    /// Calls a second, of all CPUs.
    pub calls: u64,
    /// Cost of recording one, in picoseconds.
    pub cost_ps: u64,
}

impl Measured {
    /// Returns the time that recording takes, in picoseconds a second.
    const fn ps(self) -> u64 {
        self.calls.saturating_mul(self.cost_ps)
    }

    /// Returns the time that recording takes, in percent of one CPU.
    pub const fn percent(self) -> u64 {
        self.ps() / (SECOND_PS / 100)
    }

    /// Writes the rates as `budget` shows them.
    pub fn write(self, out: &mut impl Write) -> fmt::Result {
        let Self { calls, cost_ps } = self;
        let ns = cost_ps.div_ceil(1000);
        write!(
            out,
            "{calls} calls/s, about {} % of a CPU at {ns} ns a call",
            self.percent()
        )
    }
}

/// A limit that is exceeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// More calls a second than these.
    Calls(u64),
    /// More time than so many percent.
    Cpu(u64),
}

impl Excess {
    /// Writes why recording was stopped, as `status` shows it.
    pub fn write(self, measured: Measured, out: &mut impl Write) -> fmt::Result {
        match self {
            Self::Calls(allowed) => write!(out, "{} calls/s, {allowed} allowed", measured.calls),
            Self::Cpu(allowed) => {
                measured.write(out)?;
                write!(out, ", {allowed} % allowed")
            }
        }
    }
}

/// The calls of one CPU, which alone counts them; its interrupts may come in between.
pub struct CpuWindow {
    /// The setting of the budget that it counts for. Another one begins anew.
    session: Word,
    /// The time at which the window began, in ns.
    began: Word,
    /// Calls since then.
    calls: Word,
    /// The time at which calls were counted last, in ns.
    counted: Word,
    /// Most calls that there can be from one count to the next.
    room: Word,
    /// Calls a second in the last window that has ended.
    rate: Word,
}

impl CpuWindow {
    /// Makes a window of session 0, which is none.
    pub fn new() -> Self {
        Self {
            session: Word::new(0),
            began: Word::new(0),
            calls: Word::new(0),
            counted: Word::new(0),
            room: Word::new(0),
            rate: Word::new(0),
        }
    }

    /// Counts `calls`, which were made since the last time, at `now`; there are never more than
    /// `room` of them. Returns whether a window has ended, so that it is time to judge.
    pub fn count(&self, session: u64, calls: u64, room: u64, now: u64) -> bool {
        if self.session.load_relaxed() != session {
            self.calls.store_relaxed(0);
            self.rate.store_relaxed(0);
            self.began.store_relaxed(now);
            self.counted.store_relaxed(now);
            self.room.store_relaxed(room);
            self.session.store_release(session);
            // These calls were made before the session.
            return false;
        }
        self.calls.local_add(calls);
        self.counted.store_relaxed(now);
        self.room.store_relaxed(room);
        let began = self.began.load_relaxed();
        // An interrupt may have begun another window, later than `now`.
        let elapsed = now.saturating_sub(began);
        if elapsed < WINDOW_NS || !self.began.local_exchange(began, now) {
            return false;
        }
        let calls = self.calls.load_relaxed();
        self.calls.local_add(calls.wrapping_neg());
        self.rate.store_relaxed(per_second(calls, elapsed));
        true
    }

    /// Returns the calls a second on this CPU, as far as is known at `now`, on any CPU.
    pub fn rate(&self, session: u64, now: u64) -> u64 {
        if self.session.load_acquire() != session {
            return 0;
        }
        let rate = self.rate.load_relaxed();
        match now.saturating_sub(self.counted.load_relaxed()) {
            0 => rate,
            since => rate.min(per_second(self.room.load_relaxed(), since)),
        }
    }
}

impl Default for CpuWindow {
    fn default() -> Self {
        Self::new()
    }
}

/// Returns the calls a second, if there were so many in `ns`, which is not 0.
fn per_second(calls: u64, ns: u64) -> u64 {
    match calls.checked_mul(SECOND_NS) {
        Some(scaled) => scaled.checked_div(ns).unwrap_or(u64::MAX),
        // There are more than 2^34 calls.
        None => calls
            .checked_div(ns)
            .unwrap_or(u64::MAX)
            .saturating_mul(SECOND_NS),
    }
}

/// Instructions that `make bench` counts for what a call costs, beyond the call itself, in
/// hundredths.
mod instructions {
    /// Writing an event, as [`RecordedParts::cost_ps`] is given the time of.
    pub(super) const WRITING: u64 = 8800;
    /// `function`.
    pub(super) const FUNCTION: u64 = 9700;
    /// One with arguments.
    pub(super) const ARGS: u64 = 38910;
    /// One with a stack.
    pub(super) const STACK: u64 = 177_000;
    /// `function_graph`.
    pub(super) const GRAPH: u64 = 75800;
}

/// The parts of each call that are recorded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RecordedParts {
    /// Its return, too.
    pub graph: bool,
    /// Its arguments.
    pub args: bool,
    /// Its stack.
    pub stack: bool,
}

impl RecordedParts {
    /// Returns the cost of recording a call, in picoseconds, where writing an event takes
    /// `writing_ps`: an estimate, from the instructions that both take.
    pub const fn cost_ps(self, writing_ps: u64) -> u64 {
        use instructions::{ARGS, FUNCTION, GRAPH, STACK, WRITING};
        let mut cost = match self.graph {
            true => GRAPH,
            false => FUNCTION,
        };
        if self.args {
            cost += ARGS - FUNCTION;
        }
        if self.stack {
            cost += STACK - FUNCTION;
        }
        writing_ps.saturating_mul(cost) / WRITING
    }
}
