// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace info`: prints how a recording was made, and what is in it.

use std::io::Write;

use anyhow::Result;
use serde::Serialize;

use super::recorded::open;
use crate::cli::tracing::Info;
use crate::recording::{RecordingEnd, RecordingFile, RecordingSettings};
use crate::units::{Size, Time};

/// A recording as JSON.
#[derive(Serialize)]
struct InfoJson<'a> {
    settings: &'a RecordingSettings,
    end: Option<&'a RecordingEnd>,
    events: u64,
    file_bytes: u64,
    record_bytes: u64,
    cut_at: Option<u64>,
}

/// Prints how a recording was made, and what is in it.
pub(super) fn run(arguments: &Info, out: &mut dyn Write) -> Result<()> {
    let recording = open(&arguments.file)?;
    let record_bytes = recording.sizes().map(|(_, _, bytes)| bytes).sum();
    if arguments.json {
        let json = InfoJson {
            settings: recording.settings(),
            end: recording.end(),
            events: recording.events_count(),
            file_bytes: recording.length(),
            record_bytes,
            cut_at: recording.cut_at(),
        };
        serde_json::to_writer(&mut *out, &json)?;
        writeln!(out)?;
        return Ok(());
    }
    print(&recording, record_bytes, out)
}

fn print(recording: &RecordingFile, record_bytes: u64, out: &mut dyn Write) -> Result<()> {
    let settings = recording.settings();
    let events = recording.events_count();
    let mut row = |key: &str, value: String| writeln!(out, "{key:<14} {value}");
    row("recorded by", format!("rftrace {}", settings.rftrace))?;
    row(
        "on",
        format!(
            "{}, Linux {} {} {}",
            settings.host, settings.release, settings.version, settings.machine
        ),
    )?;
    row("at", date(settings.start.realtime_ns))?;
    if !settings.arguments.is_empty() {
        row("by", format!("rftrace {}", settings.arguments.join(" ")))?;
    }
    row("tracer", settings.tracer.clone())?;
    row("clock", settings.clock.clone())?;
    for (file, text) in &settings.files {
        row("  wrote", format!("{} > {file}", text.trim_end()))?;
    }
    row(
        "events",
        format!(
            "{events} in {}; {} in the file, {:.2} bytes an event",
            Size(record_bytes),
            Size(recording.length()),
            recording.length() as f64 / events.max(1) as f64
        ),
    )?;
    for (cpu, events, bytes) in recording.sizes() {
        row(
            &format!("  cpu {cpu}"),
            format!("{events} in {}", Size(bytes)),
        )?;
    }
    match (recording.end(), recording.cut_at()) {
        (Some(end), _) => print_end(end, &mut row)?,
        (None, Some(offset)) => row("end", format!("none: cut off at byte {offset}"))?,
        (None, None) => row("end", "none: it was broken off".into())?,
    }
    Ok(())
}

fn print_end(
    end: &RecordingEnd,
    row: &mut impl FnMut(&str, String) -> std::io::Result<()>,
) -> std::io::Result<()> {
    row("time", Time(end.took_ns).to_string())?;
    row("recorder", format!("{} of CPU", Time(end.recorder_cpu_ns)))?;
    row("lost", end.lost().to_string())?;
    for cpu in end.cpus.iter().filter(|cpu| cpu.lost() != 0) {
        row(
            &format!("  cpu {}", cpu.cpu),
            format!(
                "{} overwritten, {} commit overruns, {} to full buffers",
                cpu.overwritten, cpu.commit_overrun, cpu.dropped
            ),
        )?;
    }
    for (name, count) in &end.lost {
        row("  ", format!("{count} {name}"))?;
    }
    if let Some(status) = end.status {
        row("command", format!("ended with {status}"))?;
    }
    if let Some(reason) = &end.stopped {
        row("stopped", reason.clone())?;
    }
    Ok(())
}

/// Returns `YYYY-MM-DD HH:MM:SS UTC` of a time in ns since 1970 (Howard Hinnant, "chrono-compatible
/// low-level date algorithms").
fn date(realtime_ns: u64) -> String {
    let seconds = realtime_ns / 1_000_000_000;
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year_of_era + era * 400 + u64::from(month <= 2);
    let (hour, minute) = (second / 3600, second / 60 % 60);
    format!(
        "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{:02} UTC",
        second % 60
    )
}

#[cfg(test)]
mod tests {
    use super::date;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let second = 1_000_000_000;
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_400 * second), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_795_430_605 * second), "2026-11-23 10:43:25 UTC");
    }
}
