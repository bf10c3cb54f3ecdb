// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Terminal, the output: stdout or a pager, with or without colour.

use std::io::{self, BufWriter, Stdout, Write};

use super::pager::{self, Pager};

/// Destination of the text of a verb: stdout, by a pager if that is a terminal and the text is to
/// be read.
#[derive(Debug)]
pub struct Output {
    to: To,
    is_colored: bool,
}

#[derive(Debug)]
enum To {
    /// Nothing was written yet: the pager is started for the first text.
    Pager(String),
    Paged(Pager),
    Plain(BufWriter<Stdout>),
}

impl Output {
    /// Returns an output to stdout, coloured as `color` says; by a pager on a terminal, if it
    /// `is_paged`.
    pub fn new(color: clap::ColorChoice, is_paged: bool) -> Self {
        let pager = match is_paged && super::is_able_here(&io::stdout()) {
            true => pager::wanted(|name| std::env::var(name).ok()),
            false => None,
        };
        Self {
            to: pager.map_or_else(plain, To::Pager),
            is_colored: super::is_colored(color),
        }
    }

    /// Returns whether text is coloured.
    pub fn is_colored(&self) -> bool {
        self.is_colored
    }

    /// Returns the columns of the terminal.
    pub fn width(&self) -> usize {
        super::width(io::stdout())
    }

    /// Writes the rest, and waits for the pager.
    pub fn finish(mut self) -> io::Result<()> {
        match &mut self.to {
            To::Pager(_) => Ok(()),
            To::Paged(pager) => pager.finish(),
            To::Plain(out) => out.flush(),
        }
    }

    fn to(&mut self) -> io::Result<&mut dyn Write> {
        if let To::Pager(command_line) = &self.to {
            self.to = Pager::start(command_line)?.map_or_else(plain, To::Paged);
        }
        Ok(match &mut self.to {
            To::Plain(out) => out,
            To::Paged(pager) => pager,
            To::Pager(_) => return Err(io::ErrorKind::NotConnected.into()),
        })
    }
}

fn plain() -> To {
    To::Plain(BufWriter::new(io::stdout()))
}

impl Write for Output {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.to()?.write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &self.to {
            To::Pager(_) => Ok(()),
            _ => self.to()?.flush(),
        }
    }
}
