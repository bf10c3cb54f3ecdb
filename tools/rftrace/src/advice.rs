// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Advice for functions that were named and never came: one line for each name.

use rftrace_engine::engine::glob;

use crate::functions::KernelFunctions;
use crate::selection;
use crate::why::Answer;

/// Returns lines that say why nothing came of `words`, as they were given for `filter`; none for
/// words of which no more is known than that they were not called.
pub fn advice(functions: &KernelFunctions, words: &[&str]) -> Vec<String> {
    words
        .iter()
        .filter_map(|word| Some(format!("{word}: {}", reason(functions, word)?)))
        .collect()
}

fn reason(functions: &KernelFunctions, word: &str) -> Option<String> {
    let name = word.split(':').next().unwrap_or(word);
    if glob::is_pattern(name.as_bytes()) {
        let meant = selection::functions(&functions.kernel.symbols, word);
        return match meant.is_disjoint(&functions.traceable) {
            true => Some("no function that can be traced matches it".into()),
            false => None,
        };
    }
    let answers = functions.why(name);
    // Where several functions have the name, one that can be entered is the one that did not come.
    if answers
        .iter()
        .any(|why| matches!(why.answer, Answer::Entered { .. }))
    {
        return None;
    }
    let reason = match &answers.first()?.answer {
        Answer::Missing { nearest } if nearest.is_empty() => "there is no such function".into(),
        Answer::Missing { nearest } => {
            format!("there is no such function; near it: {}", nearest.join(", "))
        }
        Answer::NotTraceable { reason } => format!("it cannot be traced: {reason}"),
        Answer::AtBoot { .. } => "it runs only while the machine boots".into(),
        Answer::NeverEntered {
            inlined_into,
            instead,
            ..
        } => {
            let part = inlined_into.first();
            let part = part.map_or(String::new(), |part| {
                format!("; it is part of {}", part.name)
            });
            let instead = instead.as_ref();
            let instead = instead.map_or(String::new(), |name| format!("; trace {name} instead"));
            format!("nothing can enter it{part}{instead}")
        }
        Answer::Entered { .. } => return None,
    };
    Some(reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::synthetic::{functions, SyntheticCode, SyntheticFunction};

    #[test]
    fn a_line_for_each_name_that_has_a_reason() {
        let functions = functions(&[
            SyntheticFunction::open("path_mount", &[SyntheticCode::Call("helper")]),
            SyntheticFunction::sealed("helper", &[]),
            SyntheticFunction::sealed("nobody", &[]),
            SyntheticFunction::sealed("early", &[]),
            SyntheticFunction::sealed("init", &[SyntheticCode::Call("early")]).at_boot(),
            SyntheticFunction::open("entry", &[]).notrace(),
        ]);
        let words = [
            "path_mount",
            "path_muont",
            "nobody",
            "early",
            "entry",
            "path_*",
            "vfs_*",
        ];
        let lines = advice(&functions, &words);
        assert_eq!(lines.len(), 5, "{lines:?}");
        assert_eq!(
            lines[0],
            "path_muont: there is no such function; near it: path_mount"
        );
        assert_eq!(lines[1], "nobody: nothing can enter it");
        assert_eq!(lines[2], "early: it runs only while the machine boots");
        assert!(lines[3].starts_with("entry: it cannot be traced: it was built without"));
        assert_eq!(lines[4], "vfs_*: no function that can be traced matches it");
    }
}
