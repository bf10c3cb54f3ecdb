// SPDX-License-Identifier: GPL-2.0

//! Commands in `filter`.

use crate::engine::command::{Action, Command};
use crate::engine::filter::SelectorError;

fn wanted(
    names: &[u8],
    action: Action,
    count: Option<u64>,
) -> Option<Result<Command<'_>, SelectorError>> {
    let remove = names.starts_with(b"!");
    Some(Ok(Command {
        remove,
        names: names.strip_prefix(b"!").unwrap_or(names),
        action,
        count,
    }))
}

#[test]
fn commands() {
    use Action::{Cpudump, Dump, Snapshot, Stacktrace, Traceoff, Traceon};
    for (word, wanted) in [
        (&b"do_it:stacktrace"[..], wanted(b"do_it", Stacktrace, None)),
        (b"do_*:stacktrace:3", wanted(b"do_*", Stacktrace, Some(3))),
        (b"do_*:traceon:0x10", wanted(b"do_*", Traceon, Some(16))),
        (b"do_it:traceoff:0", wanted(b"do_it", Traceoff, Some(0))),
        (b"do_it:snapshot", wanted(b"do_it", Snapshot, None)),
        // Unless said otherwise, the console gets it once.
        (b"do_it:dump", wanted(b"do_it", Dump, Some(1))),
        (b"do_it:cpudump", wanted(b"do_it", Cpudump, Some(1))),
        (b"do_it:cpudump:7", wanted(b"do_it", Cpudump, Some(7))),
        // A command is removed by the text that shows it.
        (b"!do_it:stacktrace", wanted(b"!do_it", Stacktrace, None)),
        (b"!do_it:stacktrace:0", wanted(b"!do_it", Stacktrace, None)),
        (b"!*:traceoff:unlimited", wanted(b"!*", Traceoff, None)),
        (b"!*:dump:count=1", wanted(b"!*", Dump, None)),
        (b"do_it", None),
        (b"do_it:mod:stacktrace", None),
        (b"do_it:stacktraces", None),
        (b"do_it:", None),
        (b"stacktrace", None),
        (b":stacktrace", Some(Err(SelectorError::Empty))),
        (b"!:stacktrace", Some(Err(SelectorError::Empty))),
        (b"do_it:stacktrace:", Some(Err(SelectorError::BadCount))),
        (b"do_it:traceon:-1", Some(Err(SelectorError::BadCount))),
        (b"do_it:traceoff:1:2", Some(Err(SelectorError::BadCount))),
        (b"do\xff:stacktrace", Some(Err(SelectorError::BadCharacter))),
    ] {
        assert_eq!(Command::parse(word), wanted, "{}", word.escape_ascii());
    }
}

#[test]
fn every_action_has_its_word() {
    for action in Action::ALL {
        let word = format!("f:{}:5", action.name());
        assert_eq!(
            Command::parse(word.as_bytes()),
            wanted(b"f", action, Some(5))
        );
    }
}
