// SPDX-License-Identifier: GPL-2.0 OR MIT

//! A profile for pprof: `profile.proto` (<https://github.com/google/pprof/tree/main/proto>),
//! compressed by gzip.

use std::io::Write;

use anyhow::Result;
use flate2::write::GzEncoder;
use flate2::Compression;
use rustc_hash::FxHashMap;

use super::protobuf::Message;
use super::stacks::{caveats, name, Stacks, Top};
use super::About;
use crate::calls::Label;

/// Fields of `PprofProfile`.
const SAMPLE_TYPE: u32 = 1;
const SAMPLE: u32 = 2;
const MAPPING: u32 = 3;
const LOCATION: u32 = 4;
const FUNCTION: u32 = 5;
const STRING: u32 = 6;
const TIME: u32 = 9;
const DURATION: u32 = 10;
const COMMENT: u32 = 13;
const DEFAULT_SAMPLE_TYPE: u32 = 14;

/// Number of the only mapping: the kernel.
const KERNEL: u64 = 1;

/// Strings, with their numbers.
struct Strings {
    numbers: FxHashMap<String, u64>,
    all: Vec<String>,
}

impl Strings {
    fn number(&mut self, text: &str) -> u64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.all.len() as u64;
        self.all.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }
}

/// A profile in the making.
struct PprofProfile<W: Write> {
    out: GzEncoder<W>,
    message: Message,
    strings: Strings,
    /// Functions by name; each has one location of the same number.
    functions: FxHashMap<String, u64>,
}

impl<W: Write> PprofProfile<W> {
    /// Writes the fields that have been made.
    fn put(&mut self) -> Result<()> {
        self.out.write_all(self.message.bytes())?;
        self.message.clear();
        Ok(())
    }

    /// Returns the location of a function: `name` or `name [module]`.
    fn location(&mut self, full_name: &str) -> u64 {
        if let Some(location) = self.functions.get(full_name) {
            return *location;
        }
        let id = self.functions.len() as u64 + 1;
        self.functions.insert(full_name.to_owned(), id);
        let (name, module) = match full_name.split_once(' ') {
            Some((name, module)) if !name.starts_with('[') => (name, module),
            _ => (full_name, ""),
        };
        let name = self.strings.number(name);
        let module = self.strings.number(module.trim_matches(['[', ']']));
        self.message.message(FUNCTION, |function| {
            function.uint(1, id);
            function.uint(2, name);
            function.uint(3, name);
            function.uint(4, module);
        });
        self.message.message(LOCATION, |location| {
            location.uint(1, id);
            location.uint(2, KERNEL);
            location.message(4, |line| line.uint(1, id));
        });
        id
    }

    fn sample(&mut self, top: Option<&Top>, way: &[u64], values: [u64; 2]) {
        let comm = top.map(Top::name);
        let mut labels = Vec::new();
        if let (Some(Top::Task { ids, .. }), Some(comm)) = (top, &comm) {
            labels.push((self.strings.number("comm"), self.strings.number(comm), 0));
            labels.push((self.strings.number("thread"), 0, ids & 0xffff_ffff));
            labels.push((self.strings.number("process"), 0, ids >> 32));
        }
        self.message.message(SAMPLE, |sample| {
            // The innermost comes first.
            sample.packed(1, way.iter().rev().copied());
            sample.packed(2, values);
            for (key, text, number) in labels {
                sample.message(3, |label| {
                    label.uint(1, key);
                    if text != 0 {
                        label.uint(2, text);
                    } else {
                        label.uint(3, number);
                    }
                });
            }
        });
    }
}

/// Writes all stacks, each with its calls and its time.
///
/// # Errors
///
/// If they cannot be written.
pub fn write(out: impl Write, about: &About<'_>, stacks: &Stacks) -> Result<()> {
    let mut profile = PprofProfile {
        out: GzEncoder::new(out, Compression::default()),
        message: Message::new(),
        strings: Strings {
            numbers: FxHashMap::default(),
            all: Vec::new(),
        },
        functions: FxHashMap::default(),
    };
    profile.strings.number("");
    let time = profile.strings.number("time");
    for (kind, unit) in [("calls", "count"), ("time", "nanoseconds")] {
        let (kind, unit) = (profile.strings.number(kind), profile.strings.number(unit));
        profile.message.message(SAMPLE_TYPE, |value| {
            value.uint(1, kind);
            value.uint(2, unit);
        });
    }
    let kernel = profile.strings.number("[kernel]");
    profile.message.message(MAPPING, |mapping| {
        mapping.uint(1, KERNEL);
        mapping.uint(5, kernel);
        // The mapping has the names of functions.
        mapping.uint(7, 1);
    });
    let symbolizer = about.symbolizer.borrow();
    stacks.visit(|top, way, calls, time| {
        let mut locations = Vec::new();
        if let Some(top @ (Top::Interrupt(_) | Top::Others)) = top {
            locations.push(profile.location(&top.name()));
        }
        locations.extend(
            way.iter()
                .map(|label: &Label| profile.location(name(label, &symbolizer))),
        );
        profile.sample(top, &locations, [calls, time]);
        profile.put()
    })?;
    let counts = stacks.counts();
    let start = about.settings.start;
    if start.realtime_ns != 0 {
        profile.message.uint(TIME, start.realtime(counts.first));
    }
    profile
        .message
        .uint(DURATION, counts.last.saturating_sub(counts.first));
    for said in caveats(about, counts) {
        let said = profile.strings.number(&said);
        profile.message.uint(COMMENT, said);
    }
    profile.message.uint(DEFAULT_SAMPLE_TYPE, time);
    for text in std::mem::take(&mut profile.strings.all) {
        profile.message.text(STRING, &text);
    }
    profile.put()?;
    Ok(profile.out.finish()?.flush()?)
}
