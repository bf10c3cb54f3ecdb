// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Terminal: colour, a pager, and a line that shows progress.
//!
//! Text goes to [`Output`], which pages and colours it where a user reads it; [`Progress`] is for
//! stderr.

use std::io::{self, IsTerminal};
use std::os::fd::AsFd;

mod output;
mod pager;
mod progress;

pub use output::Output;
pub use progress::Progress;

/// Columns of an output that is no terminal.
const WIDTH: usize = 80;

/// Returns the columns of a terminal; for anything else the value of `COLUMNS`, or 80.
pub fn width(of: impl AsFd) -> usize {
    let columns = || std::env::var("COLUMNS").ok()?.parse().ok();
    let size = rustix::termios::tcgetwinsize(of).ok();
    let size = size.map(|size| usize::from(size.ws_col));
    let is_sane = |width: &usize| *width > 0;
    size.filter(is_sane)
        .or_else(columns)
        .filter(is_sane)
        .unwrap_or(WIDTH)
}

/// Returns whether it is a terminal that can do more than print.
fn is_able(terminal: &impl IsTerminal, kind: Option<&str>) -> bool {
    terminal.is_terminal() && kind.is_none_or(|kind| kind != "dumb")
}

fn is_able_here(terminal: &impl IsTerminal) -> bool {
    is_able(terminal, std::env::var("TERM").ok().as_deref())
}

/// Returns whether text to stdout is coloured: as asked for, or on a terminal unless `NO_COLOR` is
/// set.
fn is_colored(choice: clap::ColorChoice) -> bool {
    match choice {
        clap::ColorChoice::Always => true,
        clap::ColorChoice::Never => false,
        clap::ColorChoice::Auto => {
            let is_forbidden = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
            !is_forbidden && is_able_here(&io::stdout())
        }
    }
}
