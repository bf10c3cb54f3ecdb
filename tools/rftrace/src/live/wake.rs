// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Reasons to wake up from recording: signals, the end of a command, and words of a control file.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::Child;
use std::sync::mpsc::{Receiver, Sender};
use std::thread;

use rustix::pipe::{pipe_with, PipeFlags};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::exit::Exit;

/// A reason to wake up.
#[derive(Debug)]
pub enum Wake {
    /// The command has ended.
    Ended(Exit),
    /// A signal asks for the end.
    Signal,
    /// A thread that records has failed.
    Failed(String),
    /// A word came by the control file.
    Control(ControlCommand),
}

/// A word of a control file, as in perf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlCommand {
    /// Starts recording (again).
    Enable,
    /// Stops recording for now.
    Disable,
    /// Ends the recording.
    Stop,
    /// Asks for an answer.
    Ping,
}

impl ControlCommand {
    fn parse(word: &str) -> Option<Self> {
        match word.trim_end_matches(['\0', '\n']).trim() {
            "enable" => Some(Self::Enable),
            "disable" => Some(Self::Disable),
            "stop" => Some(Self::Stop),
            "ping" => Some(Self::Ping),
            _ => None,
        }
    }
}

/// Sends signals that ask for an end to `wake`; the second one ends the process at once.
///
/// # Errors
///
/// Errors of installing handlers.
pub fn on_signals(wake: Sender<Wake>) -> io::Result<()> {
    // A pipe, as not every kernel has sockets.
    let (signals, write_end) = pipe_with(PipeFlags::CLOEXEC)?;
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        pipe::register(signal, write_end.try_clone()?)?;
    }
    thread::spawn(move || {
        let mut is_second = false;
        for _ in File::from(signals).bytes() {
            if is_second || wake.send(Wake::Signal).is_err() {
                std::process::exit(128 + SIGINT);
            }
            is_second = true;
        }
    });
    Ok(())
}

/// Sends the end of a command to `wake`.
pub fn on_end(mut child: Child, wake: Sender<Wake>) {
    thread::spawn(move || {
        let exit = child.wait().map_or(Exit::FAILURE, Exit::of_program);
        // If the receiver is gone, it has ended for another reason.
        let _ = wake.send(Wake::Ended(exit));
    });
}

/// A control file to read commands from, and one to write answers to.
#[derive(Debug)]
pub struct ControlFiles {
    commands: File,
    acknowledged: Option<File>,
}

impl ControlFiles {
    /// Opens the files of `fd:CTL[,ACK]` or `fifo:CTL[,ACK]`: numbers of open files, or paths.
    ///
    /// # Errors
    ///
    /// Errors of opening them; `InvalidInput` if it is neither.
    pub fn open(text: &str) -> io::Result<Self> {
        let (folder, names) = match text.split_once(':') {
            Some(("fd", names)) => ("/proc/self/fd/", names),
            Some(("fifo", names)) => ("", names),
            _ => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "write it as fd:CTL[,ACK] or fifo:CTL[,ACK]",
                ))
            }
        };
        let (commands, acknowledged) = match names.split_once(',') {
            Some((commands, acknowledged)) => (commands, Some(acknowledged)),
            None => (names, None),
        };
        let open = |name: &str, is_write: bool| {
            OpenOptions::new()
                .read(!is_write)
                .write(is_write)
                .open(format!("{folder}{name}"))
        };
        Ok(Self {
            acknowledged: acknowledged.map(|name| open(name, true)).transpose()?,
            commands: open(commands, false)?,
        })
    }

    /// Sends the words of the file to `wake`; returns the file for the answers.
    ///
    /// # Errors
    ///
    /// Errors of duplicating a file.
    pub fn listen(self, wake: Sender<Wake>) -> Answers {
        let commands = BufReader::new(self.commands);
        thread::spawn(move || {
            for line in commands.lines() {
                let Ok(line) = line else {
                    break;
                };
                if let Some(command) = ControlCommand::parse(&line) {
                    if wake.send(Wake::Control(command)).is_err() {
                        break;
                    }
                }
            }
        });
        Answers(self.acknowledged)
    }
}

/// The other end of a control file, which answers go to.
#[derive(Debug, Default)]
pub struct Answers(Option<File>);

impl Answers {
    /// Writes a word.
    pub fn say(&mut self, word: &str) {
        if let Some(file) = &mut self.0 {
            // The other side may be gone.
            let _ = writeln!(file, "{word}");
        }
    }
}

/// Waits for a reason, at most until `timeout` ends.
pub fn next(wakes: &Receiver<Wake>, timeout: std::time::Duration) -> Option<Wake> {
    wakes.recv_timeout(timeout).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_control_file() {
        assert_eq!(ControlCommand::parse("stop\n"), Some(ControlCommand::Stop));
        assert_eq!(
            ControlCommand::parse("enable\0"),
            Some(ControlCommand::Enable)
        );
        assert_eq!(ControlCommand::parse("nonsense"), None);
    }

    #[test]
    fn a_control_file_is_named_by_its_kind() {
        let error = ControlFiles::open("3").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput);
        let error = ControlFiles::open("fd:999").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
