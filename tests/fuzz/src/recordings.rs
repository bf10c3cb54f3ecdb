// SPDX-License-Identifier: GPL-2.0

//! Targets for recordings: files from anywhere that `rftrace` reads.

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;
use std::rc::Rc;

use rftrace_cli::calls::{Analysis, Assembler, GroupBy, MemoryLimits};
use rftrace_cli::export::stacks::{Stacks, Tops, Weight};
use rftrace_cli::export::{flamegraph, folded, perfetto, pprof, trace_dat, About};
use rftrace_cli::kernel::KernelSymbols;
use rftrace_cli::recording::{RecordingFile, RecordingSettings, Writer};
use rftrace_cli::stream::{Events, Globs, LongCalls, Selected, Selection};
use rftrace_cli::symbolizer::Symbolizer;
use rftrace_cli::text::{Joined, Lines, TimeColumn};

use crate::chunks::{file_of_chunks, record_header};
use crate::engine::btf::Btf;
use crate::engine::options::{Options, TraceOption};
use crate::engine::slot::SLOT_BYTES;
use crate::engine::text::Text;

/// Returns a file that is gone with its last user.
fn file(bytes: &[u8]) -> Option<File> {
    let mut file = tempfile::tempfile().ok()?;
    file.write_all(bytes).ok()?;
    Some(file)
}

/// Returns a recording: a whole file, the contents of a valid chunk, or several chunks.
fn recording(data: &[u8]) -> Option<RecordingFile> {
    let (kind, data) = data.split_first()?;
    let recording = match kind % 8 {
        0 => file(data).map(RecordingFile::new),
        4.. => file(&file_of_chunks(data)).map(RecordingFile::new),
        kind => file(&[]).map(|file| {
            if let Ok(writer) = Writer::new(
                file.try_clone().expect("a file"),
                &RecordingSettings::default(),
            ) {
                let _ = match kind {
                    1 => writer.events(0, data, 1),
                    2 => writer.symbols(&String::from_utf8_lossy(data)),
                    _ => writer.events(0, &record(data), 1),
                };
            }
            RecordingFile::new(file)
        }),
    };
    recording?.ok()
}

/// Reads a recording, and counts its events.
pub fn recordings(data: &[u8]) {
    let Some(recording) = recording(data) else {
        return;
    };
    let _ = recording.btf();
    let symbols = || recording.symbols().unwrap_or_default();
    if let Ok(events) = recording.events() {
        analyse(events, symbols(), GroupBy::Function);
    }
    let choice = data[0] / 8;
    let selection = selection(choice);
    let long = recording
        .events()
        .and_then(|mut events| LongCalls::find(&mut events, 100));
    if let (Ok(events), Ok(long)) = (recording.events(), long) {
        let symbolizer = Rc::new(RefCell::new(Symbolizer::new(symbols())));
        analyse(
            Selected::new(events, selection, long, symbolizer),
            symbols(),
            [GroupBy::Function, GroupBy::Caller, GroupBy::Comm][usize::from(choice % 3)],
        );
    }
}

/// Returns a selection; the bits of `choice` say of which parts.
fn selection(choice: u8) -> Selection {
    let has = |bit: u8| choice & bit == 0;
    let globs = |has: bool, glob: &str| match has {
        true => Globs::new([glob]),
        false => Globs::default(),
    };
    Selection {
        roots: globs(has(1), "*1*"),
        functions: globs(!has(16), "*2*"),
        not_functions: globs(has(2), "@noise"),
        pids: if has(16) { Vec::new() } else { vec![0, 1, 5] },
        depth: has(4).then_some(3),
        threshold: has(8).then_some(100),
    }
}

/// Returns a record with these slots.
fn record(slots: &[u8]) -> Vec<u8> {
    let count = slots.len() / SLOT_BYTES;
    let mut record = record_header(0, 1, count);
    // The number of events that were lost.
    record[32] = u8::from(slots.first().is_some_and(|first| first % 7 == 0));
    record.extend_from_slice(&slots[..count * SLOT_BYTES]);
    record
}

/// Counts calls: none is counted twice, whatever comes.
fn analyse(mut events: impl Events, symbols: KernelSymbols, by: GroupBy) {
    let symbolizer = Rc::new(RefCell::new(Symbolizer::new(symbols)));
    let limits = MemoryLimits {
        nodes: 10,
        groups: 20,
        comms: 5,
    };
    let analysis = Analysis::new(by, by != GroupBy::Caller, limits);
    let mut assembler = Assembler::new(analysis, symbolizer);
    let _ = assembler.run(&mut events, |_| {});
    let (analysis, counts) = assembler.finish();
    let tree = analysis.tree();
    assert!(tree.len() <= limits.nodes);
    let ended: u64 = tree
        .ids()
        .map(|id| tree.node(id))
        .map(|node| node.open + node.missed)
        .sum();
    assert_eq!(ended, counts.open + counts.missed);
    assert!(counts.self_unknown <= counts.returned);
}

/// Shows a recording as lines, and exports it in other programs' formats.
pub fn exports(data: &[u8]) {
    let Some(recording) = recording(data) else {
        return;
    };
    let symbols = recording.symbols().unwrap_or_default();
    let symbolizer = Rc::new(RefCell::new(Symbolizer::new(symbols)));
    let btf = recording.btf().ok().flatten();
    if let Ok(events) = recording.events() {
        let options = Options(u64::MAX).with(TraceOption::Verbose, data.len() & 1 != 0);
        let (settings, column) = (recording.settings(), TimeColumn::Wall);
        let mut lines = Lines::new(settings, symbolizer.clone(), btf.clone(), options, column);
        let mut events = Joined::new(events);
        let mut text = Text::new();
        lines.write_header(&mut text, None).expect("memory");
        while let Ok(Some(item)) = events.next() {
            let owned_extras = events.owned_extras();
            lines.write(&mut text, &item, owned_extras).expect("memory");
            text.clear();
        }
    }
    let types = btf.and_then(|bytes| Btf::new(bytes).ok().flatten());
    let about = About {
        settings: recording.settings(),
        end: recording.end(),
        symbolizer: &symbolizer,
        btf: types.as_ref(),
    };
    let mut out = Vec::new();
    if let Ok(mut events) = recording.events() {
        let _ = perfetto::write(&mut out, &about, &mut events);
    }
    if let (Ok(mut events), Some(mut file)) = (recording.events(), file(&[])) {
        let _ = trace_dat::write(&mut file, &std::env::temp_dir(), &about, &mut events);
    }
    for tops in [Tops::Comms, Tops::Threads] {
        let Ok(mut events) = recording.events() else {
            return;
        };
        let Ok(stacks) = Stacks::of(&mut events, tops, &symbolizer) else {
            return;
        };
        let _ = pprof::write(&mut out, &about, &stacks);
        for weight in [Weight::Time, Weight::Calls] {
            let _ = folded::write(&mut out, &about, &stacks, weight);
            let _ = flamegraph::write(&mut out, &about, &stacks, weight);
        }
    }
}
