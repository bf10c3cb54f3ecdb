// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace profile` of events: calls are recorded, and counted here.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;

use anyhow::Result;

use super::super::follow::{follow, Follower};
use super::super::tracing::{begin_in, Ended, Hits, PreparedTracing};
use crate::calls::{Analysis, Assembler, MemoryLimits};
use crate::cli::profile::ProfileArgs;
use crate::exit::Exit;
use crate::live::{Directory, LiveEvents};
use crate::report::{Rows, Summary};
use crate::stream::Events;
use crate::symbolizer::Symbolizer;
use crate::terminal::Progress;
use crate::units::Count;

/// Records calls until the end, and prints a table of the functions.
pub(super) fn run(
    arguments: &ProfileArgs,
    directory: &Directory,
    out: &mut dyn Write,
) -> Result<Exit> {
    let begun = begin_in(directory, &arguments.tracing, None)?;
    let PreparedTracing {
        plan,
        mut session,
        symbols,
    } = begun;
    let symbolizer = Rc::new(RefCell::new(Symbolizer::new(symbols)));
    let analysis = Analysis::new(arguments.table.by.into(), false, MemoryLimits::default());
    let mut counting = Counting {
        events: LiveEvents::new(&session.instance)?,
        calls: Assembler::new(analysis, symbolizer.clone()),
        hits: Hits::default(),
        progress: Progress::new(false),
    };
    let reason = follow(&arguments.tracing, &mut session, &mut counting)?;
    counting.progress.finish();

    let ended = Ended::new(&session, &counting.events, reason, counting.hits)?;
    // Dropped before the session: its files keep the instance.
    drop(counting.events);
    drop(session);
    let (analysis, counts) = counting.calls.finish();
    {
        let symbolizer = symbolizer.borrow();
        let rows = Rows::new(&analysis, &symbolizer, &arguments.table);
        let summary = Summary::new(&analysis, &counts, &symbolizer);
        summary.write_with(&rows, arguments.json, out)?;
        out.flush()?;
    }
    Ok(ended.say(&plan, &symbolizer))
}

struct Counting {
    events: LiveEvents,
    calls: Assembler<Analysis>,
    hits: Hits,
    progress: Progress,
}

impl Follower for Counting {
    fn events(&mut self) -> &mut LiveEvents {
        &mut self.events
    }

    fn pass(&mut self) -> Result<bool> {
        let is_any = self.events.pass()?;
        self.events.for_each(|seen| {
            self.hits.count(seen.event.ip);
            self.calls.add(&seen);
        })?;
        let (events, lost) = self.events.counts();
        self.progress.update(format_args!(
            "rftrace: {} events, {} lost",
            Count(events),
            Count(lost)
        ));
        Ok(is_any)
    }
}
