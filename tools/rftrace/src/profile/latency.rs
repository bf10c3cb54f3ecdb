// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the histograms: `trace_stat/function_latency`, a picture for each function.

/// The line that a function's histogram begins with, up to its name.
const BEGIN: &str = "# function: ";

/// Returns the histograms of `trace_stat/function_latency`, each a text of lines, in its order.
pub fn histograms(text: &str) -> Vec<&str> {
    let begins = text.match_indices(BEGIN).map(|(place, _)| place);
    let mut begins: Vec<usize> = begins
        .filter(|place| *place == 0 || text.as_bytes()[place - 1] == b'\n')
        .collect();
    begins.push(text.len());
    begins
        .windows(2)
        .map(|ends| &text[ends[0]..ends[1]])
        .collect()
}

#[cfg(test)]
mod tests {
    use rftrace_engine::engine::profile::text as lines;
    use rftrace_engine::engine::text::Text;

    use super::*;

    fn of(name: &str) -> String {
        let mut text = Text::new();
        lines::write_histogram_header(&mut text, name.as_bytes()).unwrap();
        lines::write_bucket(&mut text, 3, 5, 7, |ticks| ticks).unwrap();
        lines::write_statistics(&mut text, &lines::Summary::default(), 3).unwrap();
        String::from_utf8(text.as_bytes().to_vec()).unwrap()
    }

    #[test]
    fn each_function_has_its_lines() {
        assert_eq!(histograms(""), [""; 0]);
        let (read, write) = (of("vfs_read"), of("vfs_write"));
        assert_eq!(histograms(&read), [&read]);
        assert_eq!(histograms(&format!("{read}{write}")), [&read, &write]);
        // As its name, or that of a task.
        assert_eq!(histograms("# function: # function: x\ny\n").len(), 1);
    }
}
