// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Terminal, the progress: a line that is replaced in place.

use std::fmt;
use std::io::{self, Stderr, Write};
use std::time::{Duration, Instant};

use super::{is_able_here, pager, width};

/// Time between two updates of the line.
const INTERVAL: Duration = Duration::from_millis(100);

/// Goes to the start of the line.
const RETURN: &str = "\r";

/// Erases the rest of the line.
const ERASE: &str = "\x1b[K";

/// A line on stderr that shows progress, if that is a terminal; gone when it ends.
#[derive(Debug)]
pub struct Progress {
    line: Option<ProgressLine<Stderr>>,
}

impl Progress {
    /// Returns an empty line; it stays empty if it is to be `quiet`.
    pub fn new(quiet: bool) -> Self {
        let is_shown = !quiet && is_able_here(&io::stderr());
        Self {
            line: is_shown.then(|| ProgressLine::new(io::stderr())),
        }
    }

    /// Shows `text` instead of the old one, ten times a second at most. Costs little where nothing
    /// is shown.
    pub fn update(&mut self, text: fmt::Arguments<'_>) {
        let Some(line) = &mut self.line else {
            return;
        };
        let now = Instant::now();
        if now >= line.next && !pager::is_at_work() {
            line.show(now, text, width(io::stderr()));
        }
    }

    /// Removes the line.
    pub fn finish(&mut self) {
        if let Some(line) = &mut self.line {
            line.erase();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.finish();
    }
}

#[derive(Debug)]
struct ProgressLine<W: Write> {
    to: W,
    /// Time at which it may be shown anew.
    next: Instant,
    is_shown: bool,
}

impl<W: Write> ProgressLine<W> {
    fn new(to: W) -> Self {
        Self {
            to,
            next: Instant::now(),
            is_shown: false,
        }
    }

    fn show(&mut self, now: Instant, text: fmt::Arguments<'_>, width: usize) {
        self.next = now + INTERVAL;
        self.is_shown = true;
        // A line that is wrapped could not be replaced, nor one of several.
        let text: String = text
            .to_string()
            .chars()
            .filter(|letter| !letter.is_control())
            .take(width.saturating_sub(1))
            .collect();
        // Progress that cannot be shown is no error.
        let _ = write!(self.to, "{RETURN}{text}{ERASE}");
        let _ = self.to.flush();
    }

    fn erase(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            let _ = write!(self.to, "{RETURN}{ERASE}");
            let _ = self.to.flush();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_replaced_cut_and_erased() {
        let mut line = ProgressLine::new(Vec::new());
        let begin = line.next;
        line.show(begin, format_args!("12345\n67890"), 8);
        assert_eq!(line.next, begin + INTERVAL);
        line.show(begin, format_args!("é"), 8);
        line.erase();
        line.erase();
        assert_eq!(
            String::from_utf8(line.to).unwrap(),
            "\r1234567\x1b[K\ré\x1b[K\r\x1b[K"
        );
    }
}
