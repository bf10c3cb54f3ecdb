// SPDX-License-Identifier: GPL-2.0 OR MIT

//! `rftrace trace`.

use std::cell::RefCell;
use std::io::Write;
use std::rc::Rc;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result};
use rustix::event::Timespec;

use super::replay::{options, time_column};
use super::tracing::{begin, btf, deadline, summary, Begun, Hits, Reason};
use crate::cli::tracing::Trace;
use crate::exit::Exit;
use crate::live::wake::{self, Wake};
use crate::live::{Bell, LiveEvents, Session};
use crate::stream::Events;
use crate::symbolizer::Symbolizer;
use crate::terminal::Output;
use crate::text::{Joined, Lines, TextBuffer};

/// Time until it is looked again whether a call that is open has ended, in ns.
const SOON: i64 = 20_000_000;
/// Time between two looks at whether recording goes on, in ns.
const TICK: i64 = 250_000_000;
/// Bytes of text that are written at once.
const TEXT_BYTES: usize = 64 << 10;

/// Prints events as they come.
pub(super) fn run(arguments: &Trace, out: &mut Output) -> Result<Exit> {
    let options = options(&arguments.look)?;
    let begun = begin(&arguments.tracing, None)?;
    let Begun {
        plan,
        mut session,
        symbols,
    } = begun;
    // (readers are woken by any event)
    session.instance.write("buffer_percent", "0")?;
    let settings = session.settings(&plan, &symbols)?;
    let symbolizer = Rc::new(RefCell::new(Symbolizer::new(symbols)));
    let btf = plan.args.then(btf).flatten();
    let time = time_column(&arguments.look);
    let mut live = Live {
        events: Joined::live(LiveEvents::new(&session.instance)?),
        lines: Lines::new(&settings, symbolizer.clone(), btf, options, time),
        text: TextBuffer::default(),
        hits: Hits::default(),
        printed: 0,
    };
    live.lines.write_header(&mut live.text, None)?;
    live.put(out)?;

    let bell = Arc::new(Bell::new()?);
    let (sender, wakes) = channel();
    wake::on_signals(ringing(sender.clone(), bell.clone()))?;
    if let Some(child) = session.start()? {
        wake::on_end(child, ringing(sender, bell.clone()));
    }
    let result = live.follow(arguments, &session, &bell, &wakes, out);
    session.stop()?;
    let reason = result?;
    while live.pass(out)? {}
    live.events.flush();
    live.give_out(out)?;
    out.flush()?;

    let end = session.end()?;
    let (events, _) = live.events.events().counts();
    let hits = live.hits;
    // (before the session: its files keep the instance)
    drop(live.events);
    drop(session);
    let said = summary(&end, events, &reason);
    eprintln!("rftrace: {said}");
    if let Reason::Stopped(_) = &reason {
        eprintln!("rftrace: {}", hits.advice(&mut symbolizer.borrow_mut()));
    }
    Ok(reason.exit())
}

/// A sender whose words also ring the bell.
fn ringing(to: Sender<Wake>, bell: Arc<Bell>) -> Sender<Wake> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        for word in receiver {
            let is_heard = to.send(word).is_ok();
            bell.ring();
            if !is_heard {
                break;
            }
        }
    });
    sender
}

struct Live {
    events: Joined<LiveEvents>,
    lines: Lines,
    text: TextBuffer,
    hits: Hits,
    printed: u64,
}

impl Live {
    /// Prints events until the end: the reason.
    fn follow(
        &mut self,
        arguments: &Trace,
        session: &Session,
        bell: &Bell,
        wakes: &Receiver<Wake>,
        out: &mut Output,
    ) -> Result<Reason> {
        let deadline = deadline(&arguments.tracing);
        let mut stopped: Option<String> = None;
        let mut looked = Instant::now();
        loop {
            // What has just come is only in order with what comes next.
            let is_any = self.pass(out)?;
            out.flush()?;
            let until = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            let most = if is_any { SOON } else { TICK };
            let left = until.map_or(most, |left| (left.as_nanos() as i64).min(most));
            let timeout = Timespec {
                tv_sec: 0,
                tv_nsec: left,
            };
            let files = self.events.events().files();
            if bell.wait(files, Some(timeout)).context("cannot wait")? {
                match wakes.try_recv() {
                    Ok(Wake::Ended(exit)) => {
                        return Ok(stopped.map_or(Reason::Ended(exit), Reason::Stopped))
                    }
                    Ok(_) => return Ok(Reason::Asked),
                    Err(_) => {}
                }
            }
            if until.is_some_and(|left| left.is_zero()) {
                return Ok(Reason::Time);
            }
            if stopped.is_none() && looked.elapsed().as_nanos() as i64 >= TICK {
                looked = Instant::now();
                stopped = session.stopped();
                // A command that runs is not left alone.
                let is_alone = arguments.tracing.command.is_empty();
                if let Some(reason) = stopped.as_ref().filter(|_| is_alone) {
                    return Ok(Reason::Stopped(reason.clone()));
                }
            }
        }
    }

    /// Takes out what there is, and prints what is in order; whether there was anything.
    fn pass(&mut self, out: &mut Output) -> Result<bool> {
        let is_any = self.events.events().pass()?;
        if !is_any {
            // (calls that are open are shown)
            self.events.flush();
        }
        self.give_out(out)?;
        Ok(is_any)
    }

    fn give_out(&mut self, out: &mut Output) -> Result<()> {
        while let Some(item) = self.events.next()? {
            self.hits.count(item.event.ip);
            self.printed += item.event.count();
            self.lines
                .write(&mut self.text, &item, self.events.beside())?;
            if self.text.as_bytes().len() >= TEXT_BYTES {
                self.put(out)?;
            }
        }
        self.put(out)
    }

    fn put(&mut self, out: &mut Output) -> Result<()> {
        out.write_all(self.text.as_bytes())?;
        self.text.clear();
        Ok(())
    }
}
