// SPDX-License-Identifier: GPL-2.0

//! Tests of the engine. Those of `engine/x.rs` are in `x.rs`; what has no file of its name is
//! tested by others, and some tests are of several files:
//!
//! | tests | files of the engine |
//! |---|---|
//! | [`blocks`] | none: platform/blocks.rs |
//! | [`account`], [`nesting`], [`marker`] | `ring/cold`, `ring/group`, `consumer`, `decode` |
//! | [`call_trees`], [`replay`] | `replay`, `frames`, `call_sites`, `context` |
//! | [`errno_chain`], [`errno_ending`] | `errno_chain`, `errno_chain/ending`, `errno_chain/links` |
//! | [`graph`], [`style`] | `graph`, `graph_header`, `duration` |
//! | [`kernel_page`] | `kernel_page`, `event_format` |
//! | [`lines`] | `lines`, `text`, `render`, `header`, `graph_header` |
//! | [`pids`] | `pids`, `outsider` |
//! | [`profile`] | `profile/numbers`, `profile/table`, `profile/text`, `profile/totals` |
//! | [`profile`], contexts | `profile/clean_tasks`, `profile/context_counts`, `profile/extents` |
//! | [`profile`], contexts | `profile/folded`, `profile/waits` |
//! | [`profile`], sleeps | `profile/sleeps`, `profile/task_names`, `profile/waits` |
//! | [`plan`] | `plan`, `settings`, `lists`, `catalog`, `command_list`, `options` |
//! | [`raw_pages`] | `kernel_page`, `consumer` |
//! | [`render`], [`style`] | `render`, `header`, `line` |
//! | [`ring`] | `ring`, `reader` |
//! | [`shared_calls`] | `profile/frame`, `shared_frame` |
//!
//! [`cpu`] is what they write rings with. `make check` looks that no file is left out.

use std::cell::Cell;
use std::rc::Rc;

use proptest::test_runner::Config;

use crate::platform::preempt;

mod account;
mod blocks;
mod btf;
mod budget;
mod call_sites;
mod call_trees;
mod cgroups;
mod clock;
mod command;
mod context;
mod cpu;
mod dump_on_oops;
mod errno;
mod errno_chain;
mod errno_ending;
mod extras;
mod fgraph;
mod filter;
mod function_set;
mod glob;
mod graph;
mod kernel_page;
mod lines;
mod marker;
mod merge;
mod module_cache;
mod name_cache;
mod nearest;
mod nesting;
mod parse;
mod pending;
mod pids;
mod plan;
mod profile;
mod raw;
mod raw_pages;
mod render;
mod replay;
mod ring;
mod set_event;
mod shadow;
mod shared_calls;
mod shared_frame;
mod sharing;
mod slot;
mod sort;
mod style;
mod timeline;
mod trace_reader;
mod waiting;
mod wakers;

/// Returns how often a loop of so many rounds goes round: less often under Miri, which takes some
/// hundred times as long.
const fn rounds(rounds: usize) -> usize {
    if cfg!(miri) {
        rounds.div_ceil(256)
    } else {
        rounds
    }
}

/// Returns all of them; under Miri the first, and one in so many after it.
fn some_under_miri<T: Iterator>(all: T, one_in: usize) -> impl Iterator<Item = T::Item> {
    all.step_by(if cfg!(miri) { one_in } else { 1 })
}

/// Returns the points at which an interrupt is tried: all, or ever fewer under Miri, where each
/// takes a second.
fn points() -> impl Iterator<Item = u32> {
    points_from(0)
}

/// Returns those from that one on.
fn points_from(first: u32) -> impl Iterator<Item = u32> {
    (0..).map(move |n| first + if cfg!(miri) { 5u32.pow(n) - 1 } else { n })
}

/// Returns the configuration of a property with so many cases ([`rounds`]); those that fail are
/// shown, not stored in the tree.
fn cases(cases: u32) -> Config {
    Config {
        cases: rounds(cases as usize) as u32,
        failure_persistence: None,
        ..Config::default()
    }
}

/// Runs `body` with `interrupt(i)` at the preemption point `points[i]`; returns whether all came.
///
/// Points are ascending, and counted from 0 outside of interrupts.
fn interrupted<const N: usize>(
    points: [u32; N],
    mut interrupt: impl FnMut(usize) + 'static,
    body: impl FnOnce(),
) -> bool {
    let next = Rc::new(Cell::new(0));
    let done = next.clone();
    let mut now = 0;
    let handler = move || {
        if points.get(next.get()) == Some(&now) {
            let this = next.get();
            next.set(this + 1);
            interrupt(this);
        }
        now += 1;
    };
    preempt::with_handler(handler, body);
    done.get() == N
}
