// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Profile, the table: `trace_stat/function`, a function a line.
//!
//! Columns are found by their names above them, so that the module may have more of them.

use super::Error;

/// The times for which tasks did not run in calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountedWaits {
    /// Time asleep, in ns.
    pub asleep_ns: u64,
    /// Time in queues for a CPU, in ns.
    pub queued_ns: u64,
}

/// The calls of a function, on all CPUs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedFunction {
    /// The function.
    pub name: String,
    /// Number of calls that were entered.
    pub calls: u64,
    /// Time of those that have returned, in ns.
    pub total_ns: u64,
    /// The part of it in the function itself, in ns.
    pub self_ns: u64,
    /// The mean duration, in ns.
    pub avg_ns: u64,
    /// The durations that 50, 90 and 99 % of the calls do not exceed, in ns, if they are known.
    pub percentiles_ns: Option<[u64; 3]>,
    /// The longest duration, in ns; 0 if no call has returned.
    pub max_ns: u64,
    /// The times without a CPU, if they were counted.
    pub waits: Option<CountedWaits>,
    /// The task or interrupt that ended the longest of them, if that is known.
    pub woken_by: Option<String>,
}

/// The places of columns, by the names above them.
struct Columns<'t>(Vec<&'t str>);

impl<'t> Columns<'t> {
    /// Takes the columns from the first line; two blanks or more are between them.
    fn new(header: &'t str) -> Self {
        let names = header.split_once('|').map_or("", |(_, names)| names);
        let names = names.split("  ").map(str::trim);
        Self(names.filter(|name| !name.is_empty()).collect())
    }

    fn find(&self, name: &str) -> Option<usize> {
        self.0.iter().position(|column| *column == name)
    }

    fn place(&self, name: &'static str) -> Result<usize, Error> {
        self.find(name).ok_or(Error::NoColumn(name))
    }
}

/// Returns the functions of `trace_stat/function`, in its order.
///
/// # Errors
///
/// [`Error`] if the text is none of that file.
pub fn parse(text: &str) -> Result<Vec<CountedFunction>, Error> {
    let mut lines = text.lines();
    let columns = Columns::new(lines.next().unwrap_or_default());
    let calls = columns.place("Calls")?;
    let [total, own, average, longest] = [
        columns.place("Total us")?,
        columns.place("Self us")?,
        columns.place("Avg us")?,
        columns.place("Max us")?,
    ];
    let percentiles = [
        columns.place("p50 us")?,
        columns.place("p90 us")?,
        columns.place("p99 us")?,
    ];
    let waits = columns.find("Asleep us").zip(columns.find("Queued us"));
    let waker = columns.find("Woken by");

    let function = |line: &str| {
        let (name, counts) = line.split_once(" | ")?;
        let name = name.trim();
        let counts: Vec<&str> = counts.split_ascii_whitespace().collect();
        let time = |column: usize| nanoseconds(counts.get(column)?);
        let percentiles_ns = match percentiles.map(|column| counts.get(column).copied()) {
            [Some("-"), ..] => None,
            [p50, p90, p99] => Some([nanoseconds(p50?)?, nanoseconds(p90?)?, nanoseconds(p99?)?]),
        };
        let waits = match waits {
            Some((asleep, queued)) => Some(CountedWaits {
                asleep_ns: time(asleep)?,
                queued_ns: time(queued)?,
            }),
            None => None,
        };
        let waker = waker.and_then(|column| counts.get(column).copied());
        (!name.is_empty()).then_some(CountedFunction {
            name: name.into(),
            calls: counts.get(calls)?.parse().ok()?,
            total_ns: time(total)?,
            self_ns: time(own)?,
            avg_ns: time(average)?,
            percentiles_ns,
            max_ns: time(longest)?,
            waits,
            woken_by: waker.filter(|waker| *waker != "-").map(str::to_owned),
        })
    };
    // A line below the names of columns underlines them.
    lines
        .skip(1)
        .map(|line| function(line).ok_or_else(|| Error::Line(line.into())))
        .collect()
}

/// Returns a number of microseconds with three decimals in ns.
fn nanoseconds(text: &str) -> Option<u64> {
    let (us, ns) = text.split_once('.')?;
    let is_number = |text: &str| text.bytes().all(|digit| digit.is_ascii_digit());
    if ns.len() != 3 || !is_number(us) || !is_number(ns) {
        return None;
    }
    let (us, ns): (u64, u64) = (us.parse().ok()?, ns.parse().ok()?);
    us.checked_mul(1000)?.checked_add(ns)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rftrace_engine::engine::profile::task_names::WokenBy;
    use rftrace_engine::engine::profile::text as lines;
    use rftrace_engine::engine::text::Text;

    use super::*;

    /// Up to 2 years, in ns.
    const TIMES: std::ops::Range<u64> = 0..1 << 56;

    fn counted() -> impl Strategy<Value = CountedFunction> {
        let times = [TIMES, TIMES, TIMES, TIMES];
        let percentiles = proptest::option::of([TIMES, TIMES, TIMES]);
        (
            "[a-zA-Z_][a-zA-Z0-9_.]{0,60}",
            any::<u64>(),
            times,
            percentiles,
            [TIMES, TIMES],
            proptest::option::of("[a-zA-Z0-9/:_]{1,15}"),
        )
            .prop_map(|(name, calls, times, percentiles_ns, waits, woken_by)| {
                let [total_ns, self_ns, avg_ns, max_ns] = times;
                let [asleep_ns, queued_ns] = waits;
                CountedFunction {
                    name,
                    calls,
                    total_ns,
                    self_ns,
                    avg_ns,
                    percentiles_ns,
                    max_ns,
                    waits: Some(CountedWaits {
                        asleep_ns,
                        queued_ns,
                    }),
                    woken_by,
                }
            })
    }

    /// Returns the text that the module writes of them.
    fn written(functions: &[CountedFunction], has_waits: bool) -> String {
        let mut text = Text::new();
        for function in functions {
            let waker = match &function.woken_by {
                Some(name) => {
                    let mut bytes = [0; 16];
                    bytes[..name.len()].copy_from_slice(name.as_bytes());
                    WokenBy::Task(bytes)
                }
                None => WokenBy::Unknown,
            };
            let summary = lines::Summary {
                calls: function.calls,
                total: function.total_ns,
                own: function.self_ns,
                average: function.avg_ns,
                percentiles: function.percentiles_ns,
                max: function.max_ns,
                waits: (function.waits.filter(|_| has_waits))
                    .map(|waits| ([waits.asleep_ns, waits.queued_ns], waker)),
            };
            lines::write_summary(&mut text, function.name.as_bytes(), &summary).unwrap();
        }
        let header = match has_waits {
            true => lines::WAITS_HEADER,
            false => lines::SUMMARY_HEADER,
        };
        format!("{header}{}", std::str::from_utf8(text.as_bytes()).unwrap())
    }

    proptest! {
        #[test]
        fn what_the_module_writes_is_read(
            functions in prop::collection::vec(counted(), 0..5),
            has_waits in any::<bool>(),
        ) {
            let text = written(&functions, has_waits);
            let mut wanted = functions;
            if !has_waits {
                for function in &mut wanted {
                    (function.waits, function.woken_by) = (None, None);
                }
            }
            prop_assert_eq!(parse(&text), Ok(wanted));
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC*", rest in "[ |0-9.\\n-]*") {
            let _ = parse(&text);
            let _ = parse(&format!("{}{rest}", lines::SUMMARY_HEADER));
        }
    }

    const HEADER: &str =
        "  Function | Calls  Total us  Self us  Avg us  p50 us  p90 us  p99 us  Max us";
    const COUNTS: &str = "  vfs_read | 2  3.500  1.002  1.750  1.000  2.500  2.500  2.500";

    #[test]
    fn columns_may_be_added_and_moved() {
        let plain = parse(&format!("{HEADER}\n--\n{COUNTS}\n")).unwrap();
        assert_eq!(plain[0].percentiles_ns, Some([1000, 2500, 2500]));
        assert_eq!(plain[0].waits, None);

        let more = format!(
            "{HEADER}  Asleep us  Queued us  Woken by\n--\n{COUNTS}  1.000  0.500  kworker/u8:1 [hardirq]\n\
             {COUNTS}  1.000  0.500\n"
        );
        let waits = CountedWaits {
            asleep_ns: 1000,
            queued_ns: 500,
        };
        let wakers = [Some("kworker/u8:1"), None];
        for (function, waker) in parse(&more).unwrap().into_iter().zip(wakers) {
            assert_eq!(function.waits, Some(waits));
            assert_eq!(function.woken_by.as_deref(), waker);
            let (waits, woken_by) = (None, None);
            let without = CountedFunction {
                waits,
                woken_by,
                ..function
            };
            assert_eq!(without, plain[0]);
        }

        let moved = "  Function | Max us  p99 us  p90 us  p50 us  New us  Avg us  Self us  Total us  Calls\n--\n  \
                     vfs_read | 2.500  2.500  2.500  1.000  7.000  1.750  1.002  3.500  2\n";
        assert_eq!(parse(moved).unwrap(), plain);
    }

    #[test]
    fn what_is_not_of_the_file_is_refused() {
        assert_eq!(parse(""), Err(Error::NoColumn("Calls")));
        let without = HEADER.replace("Self us", "Own us");
        assert_eq!(parse(&without), Err(Error::NoColumn("Self us")));
        for line in [
            "",
            "vfs_read",
            "  vfs_read | 2  3.500",
            " | 2  3.500  1.002  1.750  1.000  2.500  2.500  2.500",
            "  vfs_read | x  3.500  1.002  1.750  1.000  2.500  2.500  2.500",
            "  vfs_read | 2  3.5  1.002  1.750  1.000  2.500  2.500  2.500",
            "  vfs_read | 2  3.500  +1.002  1.750  1.000  2.500  2.500  2.500",
            "  vfs_read | 2  3.500  1.002  1.750  1.000  -  2.500  2.500",
            "  vfs_read | 2  18446744073709551.616  1.002  1.750  1.000  2.500  2.500  2.500",
        ] {
            let refused = parse(&format!("{HEADER}\n--\n{line}\n"));
            assert_eq!(refused, Err(Error::Line(line.into())));
        }
    }
}
