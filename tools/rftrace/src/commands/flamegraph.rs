// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace flamegraph`: draws a recording, or folded stacks, as a flame graph.

use std::fs::File;
use std::io::{stdin, BufRead, BufReader, BufWriter, Read};
use std::path::Path;

use anyhow::{bail, Result};

use super::export::{weight, ExportSource};
use super::recorded::say_end;
use crate::cli::exporting::FlameGraph;
use crate::export::flamegraph;
use crate::export::output::OutputFile;
use crate::export::stacks::Tops;

/// Most bytes of a line of folded stacks, with room to spare.
const MOST_OF_LINE: u64 = 1 << 16;

/// Draws the time of a recording, or of folded stacks.
pub(super) fn run(arguments: &FlameGraph) -> Result<()> {
    let is_stdin = arguments.file == Path::new("-");
    let lines = match is_stdin {
        true => folded_lines(&mut stdin().lock()),
        false => folded(&arguments.file),
    };
    if is_stdin && lines.is_none() {
        bail!("stdin has no folded stacks");
    }
    if let Some(lines) = lines {
        if arguments.selection.is_any() {
            bail!(
                "{} has stacks, and no calls that could be chosen from",
                arguments.file.display()
            );
        }
        let output = OutputFile::new(&arguments.output, &arguments.file)?;
        return output.fill(|output| {
            let out = BufWriter::new(output.file());
            flamegraph::draw(out, &lines, weight(arguments.by), Vec::new())
        });
    }
    let source = ExportSource::open(&arguments.file)?;
    let output = OutputFile::new(&arguments.output, &arguments.file)?;
    let about = source.about();
    output.fill(|output| {
        let stacks = source.stacks(&arguments.selection, Tops::Comms)?;
        let out = BufWriter::new(output.file());
        flamegraph::write(out, &about, &stacks, weight(arguments.by))
    })?;
    say_end(source.recording(), &arguments.file);
    Ok(())
}

/// Returns the lines of a file of folded stacks, as `trace_stat/function_folded` is one; `None` if
/// it is something else, or has none.
fn folded(path: &Path) -> Option<Vec<String>> {
    folded_lines(&mut BufReader::new(File::open(path).ok()?))
}

fn folded_lines(file: &mut impl BufRead) -> Option<Vec<String>> {
    let mut lines = Vec::new();
    loop {
        let mut line = Vec::new();
        // A recording may be large, and has no lines.
        let read = file.take(MOST_OF_LINE).read_until(b'\n', &mut line);
        if read.ok()? == 0 {
            return Some(lines).filter(|lines| !lines.is_empty());
        }
        let line = String::from_utf8(line).ok()?;
        let line = line.strip_suffix('\n')?;
        line.rsplit_once(' ')?.1.parse::<u64>().ok()?;
        lines.push(line.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn read(bytes: &[u8]) -> Option<Vec<String>> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        folded(file.path())
    }

    #[test]
    fn folded_stacks_are_told_from_recordings() {
        let lines = read(b"a;b 5\na 0\n[before];c d 12\n").unwrap();
        assert_eq!(lines, ["a;b 5", "a 0", "[before];c d 12"]);
        for other in [
            &b""[..],
            b"a;b\n",
            b"a;b x\n",
            b"a;b 5",
            b"a;b 5\n\xff 6\n",
            b"RFTRACE1\0\0 5\n\n",
            &[b'a'; 1 << 17],
        ] {
            assert_eq!(read(other), None);
        }
        assert_eq!(folded(Path::new("/nowhere")), None);
    }
}
