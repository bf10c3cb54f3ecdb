// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Durations as text of a fixed width (`trace_print_graph_duration()` of
//! kernel/trace/trace_functions_graph.c).

use super::line::Line;

/// Bytes of a duration that fits, with its unit and the blanks behind it.
const WIDTH: usize = 12;

/// Overhead marks, and the durations in ns above which they are due (`trace_find_mark()` of
/// kernel/trace/trace_output.c).
const MARKS: [(u64, u8); 6] = [
    (1_000_000_000, b'$'),
    (100_000_000, b'@'),
    (10_000_000, b'*'),
    (1_000_000, b'#'),
    (100_000, b'!'),
    (10_000, b'+'),
];

/// Returns the overhead mark of a duration of `ns`, a space if it is short.
#[inline(always)]
pub(super) fn overhead(ns: u64) -> u8 {
    if ns <= 10_000 {
        return b' ';
    }
    let due = MARKS.iter().find(|(above, _)| ns > *above);
    due.map_or(b' ', |(_, mark)| *mark)
}

/// Appends `ns` as microseconds, with as many decimals as seven digits leave room for. It takes 36
/// bytes of room.
#[inline(always)]
pub(super) fn write(line: &mut Line<'_>, ns: u64) {
    let start = line.length();
    line.number(ns / 1000, 1, b' ');
    let rest = ns % 1000;
    let (rest, digits) = match line.length().wrapping_sub(start) {
        0..=4 => (rest, 3),
        5 => (rest / 10, 2),
        6 => (rest / 100, 1),
        _ => (0, 0),
    };
    if digits != 0 {
        line.push(b'.');
        line.number(rest, digits, b'0');
    }
    let length = line.length().wrapping_sub(start);
    // No duration has less than five bytes.
    let behind = WIDTH.saturating_sub(length).clamp(4, 8);
    line.put(u64::from_le_bytes(*b" us     "), behind);
}
