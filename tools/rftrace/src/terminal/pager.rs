// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Terminal, the pager: the program that shows long text page by page.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;

/// Options of less where the user has none: it ends where all fits on the screen, shows colours,
/// and leaves the text.
const LESS: &str = "FRX";

/// True while a pager is at work, and owns the terminal.
static IS_AT_WORK: AtomicBool = AtomicBool::new(false);

/// Returns the command line that the user wants: `RFTRACE_PAGER`, or `PAGER`, or less. `None` if
/// that is empty, or `cat`.
pub(super) fn wanted(variable: impl Fn(&str) -> Option<String>) -> Option<String> {
    let pager = variable("RFTRACE_PAGER")
        .or_else(|| variable("PAGER"))
        .unwrap_or_else(|| "less".into());
    let pager = pager.trim();
    (!pager.is_empty() && pager != "cat").then(|| pager.into())
}

/// Returns whether a pager is at work, and owns the terminal.
pub(super) fn is_at_work() -> bool {
    IS_AT_WORK.load(Ordering::Relaxed)
}

/// A pager that runs.
#[derive(Debug)]
pub(super) struct Pager {
    child: Child,
    /// The pager's input; `None` once it was closed.
    to: Option<BufWriter<ChildStdin>>,
    /// True once the user has pressed Ctrl-C, which the pager outlives.
    is_interrupted: Arc<AtomicBool>,
}

impl Pager {
    /// Starts the pager; returns `None` if there is no such program.
    pub(super) fn start(command_line: &str) -> io::Result<Option<Self>> {
        let mut words = command_line.split_ascii_whitespace();
        let needs_shell = command_line.contains(|letter| "|&;<>()$`\\\"'*?[#~=%".contains(letter));
        let mut command = match words.next() {
            Some(program) if !needs_shell => {
                let mut command = Command::new(program);
                command.args(words);
                command
            }
            _ => {
                let mut command = Command::new("sh");
                command.args(["-c", command_line]);
                command
            }
        };
        if std::env::var_os("LESS").is_none() {
            command.env("LESS", LESS);
        }
        let mut child = match command.stdin(Stdio::piped()).spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let is_interrupted = Arc::new(AtomicBool::new(false));
        // Otherwise Ctrl-C would end this process, and leave the pager alone with the shell.
        signal_hook::flag::register(signal_hook::consts::SIGINT, is_interrupted.clone())?;
        IS_AT_WORK.store(true, Ordering::Relaxed);
        let to = child.stdin.take().map(BufWriter::new);
        Ok(Some(Self {
            child,
            to,
            is_interrupted,
        }))
    }

    /// Ends the text, and waits until the user has left the pager.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        let flushed = match self.to.take() {
            Some(mut to) if !self.is_interrupted() => to.flush(),
            _ => Ok(()),
        };
        self.child.wait()?;
        IS_AT_WORK.store(false, Ordering::Relaxed);
        flushed
    }

    fn is_interrupted(&self) -> bool {
        self.is_interrupted.load(Ordering::Relaxed)
    }

    fn to(&mut self) -> io::Result<&mut BufWriter<ChildStdin>> {
        match &mut self.to {
            Some(to) if !self.is_interrupted.load(Ordering::Relaxed) => Ok(to),
            // As if the user had left the pager.
            _ => Err(ErrorKind::BrokenPipe.into()),
        }
    }
}

impl Write for Pager {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.to()?.write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to()?.flush()
    }
}

impl Drop for Pager {
    /// Waits for the pager, which owns the terminal until it ends.
    fn drop(&mut self) {
        let _ = self.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pager_is_chosen() {
        let wanted = |ours: Option<&str>, all: Option<&str>| {
            super::wanted(|name| match name {
                "RFTRACE_PAGER" => ours.map(Into::into),
                _ => all.map(Into::into),
            })
        };
        assert_eq!(wanted(None, None).as_deref(), Some("less"));
        assert_eq!(wanted(None, Some("more -x")).as_deref(), Some("more -x"));
        assert_eq!(wanted(Some("less"), Some("more")).as_deref(), Some("less"));
        assert_eq!(wanted(Some(""), Some("more")), None);
        assert_eq!(wanted(None, Some(" cat ")), None);
    }

    #[test]
    fn it_gets_all_and_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("text");
        let mut pager = Pager::start(&format!("cat > {}", file.display()))
            .unwrap()
            .unwrap();
        assert!(is_at_work());
        for _ in 0..10_000 {
            pager.write_all(b"some line\n").unwrap();
        }
        pager.finish().unwrap();
        assert!(!is_at_work());
        assert_eq!(std::fs::metadata(file).unwrap().len(), 100_000);
        assert!(Pager::start("/no/such/pager -x").unwrap().is_none());

        // A pager that is left early is a reader that has gone.
        let mut pager = Pager::start("true").unwrap().unwrap();
        let mut write = || (0..100_000).try_for_each(|_| pager.write_all(b"some line\n"));
        assert_eq!(write().unwrap_err().kind(), ErrorKind::BrokenPipe);
    }
}
