// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Follows events while they are recorded, until the end.

use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::event::Timespec;

use super::tracing::{deadline, EndReason};
use crate::cli::tracing::Tracing;
use crate::live::wake::{self, Wake};
use crate::live::{Bell, LiveEvents, Session};

/// Time until events behind the last ones are looked for again.
const SOON: Duration = Duration::from_millis(20);
/// Time between two checks that recording goes on.
const TICK: Duration = Duration::from_millis(250);

/// Receives events as they come.
pub(super) trait Follower {
    /// Returns the source of the events.
    fn events(&mut self) -> &mut LiveEvents;

    /// Takes out the events that there are, and processes them; returns false if there were none.
    fn pass(&mut self) -> Result<bool>;
}

/// Starts recording, and makes `follower` take the events until the end, and those that are there
/// then. Returns the reason for the end.
pub(super) fn follow(
    tracing: &Tracing,
    session: &mut Session,
    follower: &mut impl Follower,
) -> Result<EndReason> {
    let bell = Arc::new(Bell::new()?);
    let (sender, wakes) = channel();
    wake::on_signals(ringing(sender.clone(), bell.clone()))?;
    if let Some(child) = session.start()? {
        wake::on_end(child, ringing(sender, bell.clone()));
    }
    let result = until_end(tracing, session, follower, &bell, &wakes);
    session.stop()?;
    let reason = result?;
    while follower.pass()? {}
    Ok(reason)
}

/// Returns a sender whose messages also ring the bell.
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

fn until_end(
    tracing: &Tracing,
    session: &Session,
    follower: &mut impl Follower,
    bell: &Bell,
    wakes: &Receiver<Wake>,
) -> Result<EndReason> {
    let deadline = deadline(tracing);
    let mut stopped: Option<String> = None;
    let mut looked = Instant::now();
    loop {
        // The last events are in order only with those that come next.
        let is_any = follower.pass()?;
        let until = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let most = if is_any { SOON } else { TICK };
        let left = until.map_or(most, |left| left.min(most));
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: left.subsec_nanos().into(),
        };
        let files = follower.events().files();
        if bell.wait(files, Some(timeout)).context("cannot wait")? {
            match wakes.try_recv() {
                Ok(Wake::Ended(exit)) => {
                    return Ok(stopped.map_or(EndReason::Ended(exit), EndReason::Stopped))
                }
                Ok(_) => return Ok(EndReason::Asked),
                Err(_) => {}
            }
        }
        if until.is_some_and(|left| left.is_zero()) {
            return Ok(EndReason::Time);
        }
        if stopped.is_none() && looked.elapsed() >= TICK {
            looked = Instant::now();
            stopped = session.stopped();
            // A command that runs is not left alone.
            if let Some(reason) = stopped.as_ref().filter(|_| tracing.command.is_empty()) {
                return Ok(EndReason::Stopped(reason.clone()));
            }
        }
    }
}
