// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Recording, the tests: recordings that are cut off, and recordings that are spoilt.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::unix::fs::FileExt;

use rftrace_engine::engine::decode::Event;

use super::*;
use crate::sample::machine::{symbols, MachineStep, SampleMachine};
use crate::stream::Events;

/// Returns a small recording of two CPUs: its bytes, and the offsets of its chunks.
fn recording() -> (Vec<u8>, Vec<usize>) {
    let mut machine = SampleMachine::new(2, true);
    let mut file = tempfile::tempfile().unwrap();
    let writer = Writer::new(file.try_clone().unwrap(), &RecordingSettings::default()).unwrap();
    let mut ends = vec![0, writer.length() as usize];
    writer.symbols(&symbols()).unwrap();
    ends.push(writer.length() as usize);
    for number in 0..60_u8 {
        let (cpu, function) = (number % 2, number / 7);
        let step = match number % 5 {
            0..3 => MachineStep::Begin { cpu, function },
            _ => MachineStep::End { cpu },
        };
        machine.step(step, 100);
    }
    for (records, cpu) in machine.records().iter().zip(0..) {
        for _ in 0..2 {
            writer.events(cpu, records, 30).unwrap();
            ends.push(writer.length() as usize);
        }
    }
    writer.btf(b"types").unwrap();
    ends.push(writer.length() as usize);
    writer.end(&RecordingEnd::default()).unwrap();
    ends.push(writer.length() as usize);
    file.rewind().unwrap();
    let mut bytes = vec![0; writer.length() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    (bytes, ends)
}

fn file_of(bytes: &[u8]) -> File {
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(bytes).unwrap();
    file
}

/// Reads all of a recording, or returns the first error.
fn read(bytes: &[u8]) -> Result<(RecordingFile, Vec<Event>), String> {
    let say = |error: &dyn std::fmt::Display| error.to_string();
    let recording = RecordingFile::new(file_of(bytes)).map_err(|error| say(&error))?;
    recording.symbols().map_err(|error| say(&error))?;
    recording.btf().map_err(|error| say(&error))?;
    let mut merged = recording.events().map_err(|error| say(&error))?;
    let mut events = Vec::new();
    while let Some(item) = merged.next().map_err(|error| say(&error))? {
        events.push(item.event);
    }
    Ok((recording, events))
}

#[test]
fn what_is_before_a_cut_is_there() {
    let (bytes, ends) = recording();
    let (whole, all) = read(&bytes).unwrap();
    assert!(whole.cut_at().is_none() && whole.end().is_some() && all.len() > 60);
    let settings_end = ends[1];
    for cut in 0..bytes.len() {
        let read = read(&bytes[..cut]);
        if cut < settings_end {
            let error = read.unwrap_err();
            assert!(
                error.contains("not a recording") || error.contains("broken off"),
                "{error}"
            );
            continue;
        }
        let (recording, events) = read.unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
        let whole_chunks = ends.iter().filter(|end| **end <= cut).count();
        let begin = ends[whole_chunks - 1];
        let expected = (cut != begin).then_some(begin as u64);
        assert_eq!(recording.cut_at(), expected, "cut at {cut}");
        assert!(recording.end().is_none());
        // Two chunks of each CPU have the same events.
        let chunks = whole_chunks.saturating_sub(3).min(4);
        assert_eq!(
            events.len(),
            [0, 1, 2, 3, 4].map(|count| events_of(&all, count))[chunks]
        );
    }
}

/// Returns the events in the first chunks, of which CPU 0 has two, and then CPU 1.
fn events_of(all: &[Event], chunks: usize) -> usize {
    let (bytes, _) = recording();
    let recording = RecordingFile::new(file_of(&bytes)).unwrap();
    let mut merged = recording.events().unwrap();
    let mut counts = [0; 2];
    while let Some(item) = merged.next().unwrap() {
        counts[item.cpu as usize] += 1;
    }
    assert_eq!(counts[0] + counts[1], all.len());
    let [first, second] = counts.map(|count| count / 2);
    [0, first, 2 * first, 2 * first + second, all.len()][chunks]
}

#[test]
fn what_is_spoilt_is_told_with_its_place() {
    let (bytes, ends) = recording();
    let (_, all) = read(&bytes).unwrap();
    let mut told = 0;
    for place in 0..bytes.len() {
        for bit in [0, 6] {
            let mut spoilt = bytes.clone();
            spoilt[place] ^= 1 << bit;
            match read(&spoilt) {
                // Some bytes of the file's header have no meaning.
                Ok((_, events)) => {
                    assert!((12..16).contains(&place), "byte {place}");
                    assert_eq!(events, all);
                }
                Err(_) if place < 12 => {}
                Err(error) => {
                    // The settings begin behind the header of 16 bytes.
                    let chunk = ends.iter().rev().find(|end| **end <= place);
                    let begin = chunk.copied().unwrap_or(0).max(16);
                    assert!(error.contains(&format!("byte {begin}")), "{place}: {error}");
                    told += 1;
                }
            }
        }
    }
    assert_eq!(told, 2 * (bytes.len() - 16));
}

#[test]
fn records_that_are_wrong_are_told_with_their_place() {
    let (_, all) = read(&recording().0).unwrap();
    let mut machine = SampleMachine::new(1, true);
    machine.step(
        MachineStep::Begin {
            cpu: 0,
            function: 1,
        },
        5,
    );
    let records = machine.records().remove(0);
    let mut errors = 0;
    for place in 0..records.len() {
        let mut spoilt = records.clone();
        spoilt[place] ^= 0x5a;
        let file = tempfile::tempfile().unwrap();
        let writer = Writer::new(file.try_clone().unwrap(), &RecordingSettings::default()).unwrap();
        // The events before are shown.
        writer.events(0, &records, 1).unwrap();
        writer.events(0, &spoilt, 1).unwrap();
        let recording = RecordingFile::new(file).unwrap();
        let mut merged = recording.events().unwrap();
        assert!(merged.next().is_ok_and(|item| item.is_some()));
        if let Err(error) = merged.next() {
            let error = error.to_string();
            assert!(
                error.contains("record at byte 0 of CPU 0's events"),
                "{error}"
            );
            errors += 1;
        }
    }
    assert!(errors >= 12 && !all.is_empty(), "{errors}");
}
