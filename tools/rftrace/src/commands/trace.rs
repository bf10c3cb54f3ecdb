// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace trace`: prints calls as they are made.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;

use anyhow::Result;
use rftrace_engine::engine::text::Text;

use super::follow::{follow, Follower};
use super::replay::{options, time_column};
use super::tracing::{begin, btf, Ended, Hits, PreparedTracing};
use crate::cli::tracing::TraceArgs;
use crate::exit::Exit;
use crate::live::LiveEvents;
use crate::stream::Events;
use crate::symbolizer::Symbolizer;
use crate::terminal::Output;
use crate::text::{Joined, Lines};

/// Size of a piece of text that is written at once, in bytes.
const TEXT_BYTES: usize = 64 << 10;

/// Prints events as they come.
pub(super) fn run(arguments: &TraceArgs, out: &mut Output) -> Result<Exit> {
    let options = options(&arguments.look)?;
    let begun = begin(&arguments.tracing, None)?;
    let PreparedTracing {
        plan,
        mut session,
        symbols,
    } = begun;
    // Any event wakes readers.
    session.instance.write("buffer_percent", "0")?;
    let settings = session.settings(&plan, &symbols)?;
    let symbolizer = Rc::new(RefCell::new(Symbolizer::new(symbols)));
    let btf = plan.args.then(btf).flatten();
    let time = time_column(&arguments.look);
    let mut live = Live {
        events: Joined::live(LiveEvents::new(&session.instance)?),
        lines: Lines::new(&settings, symbolizer.clone(), btf, options, time),
        text: Text::new(),
        hits: Hits::default(),
        out,
    };
    live.lines.write_header(&mut live.text, None)?;
    live.put()?;
    let reason = follow(&arguments.tracing, &mut session, &mut live)?;
    live.events.flush();
    live.give_out()?;

    let ended = Ended::new(&session, live.events.events(), reason, live.hits)?;
    // Dropped before the session: its files keep the instance.
    drop(live.events);
    drop(session);
    Ok(ended.say(&plan, &symbolizer))
}

struct Live<'o> {
    events: Joined<LiveEvents>,
    lines: Lines,
    text: Text,
    hits: Hits,
    out: &'o mut Output,
}

impl Follower for Live<'_> {
    fn events(&mut self) -> &mut LiveEvents {
        self.events.events()
    }

    fn pass(&mut self) -> Result<bool> {
        let is_any = self.events.events().pass()?;
        if !is_any {
            // Calls that are open are shown.
            self.events.flush();
        }
        self.give_out()?;
        Ok(is_any)
    }
}

impl Live<'_> {
    /// Prints the events that are in order.
    fn give_out(&mut self) -> Result<()> {
        while let Some(item) = self.events.next()? {
            self.hits.count(item.event.ip);
            let owned_extras = self.events.owned_extras();
            self.lines.write(&mut self.text, &item, owned_extras)?;
            if self.text.as_bytes().len() >= TEXT_BYTES {
                self.put()?;
            }
        }
        self.put()
    }

    fn put(&mut self) -> Result<()> {
        self.out.write_all(self.text.as_bytes())?;
        self.out.flush()?;
        self.text.clear();
        Ok(())
    }
}
