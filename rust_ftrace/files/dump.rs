// SPDX-License-Identifier: GPL-2.0

//! The trace on the console, for the commands `func:dump` and `func:cpudump`.

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::str::BStr;
use kernel::sync::Arc;
use kernel::time::{delay::fsleep, Delta};

use super::attribute::no_memory;
use super::trace;
use crate::engine::text::Text;
use crate::instance::buffers::BufferKind;
use crate::instance::Instance;

/// Most events that are shown: the kernel's log has room for some more.
const MAX_EVENTS: u64 = 4096;

/// Shows the newest events of `cpu`, or of all CPUs, as `ftrace_dump()` does. They can still be
/// read.
pub(super) fn dump(instance: &Arc<Instance>, cpu: Option<CpuId>) {
    pr_emerg!("Dumping the trace:\n");
    pr_emerg!("---------------------------------\n");
    match show(instance, cpu) {
        Ok(0) => pr_emerg!("   (trace empty)\n"),
        Ok(_) => pr_emerg!("---------------------------------\n"),
        Err(error) => pr_emerg!("   (not shown: {error:?})\n"),
    }
}

/// Shows the newest events. Returns their number.
fn show(instance: &Arc<Instance>, cpu: Option<CpuId>) -> Result<u64> {
    let mut reading = trace::begin(instance, cpu, BufferKind::Live)?;
    let older = reading.present().saturating_sub(MAX_EVENTS);
    if older != 0 {
        pr_emerg!("   ({older} older events are not shown)\n");
    }
    for _ in 0..older {
        reading.skip_next();
    }
    let mut text = Text::new();
    let mut shown = 0;
    while shown < MAX_EVENTS {
        text.clear();
        if !reading.write_next(&mut text).map_err(no_memory)? {
            break;
        }
        let lines = text.as_bytes().split(|&byte| byte == b'\n');
        for line in lines.filter(|line| !line.is_empty()) {
            pr_emerg!("{}\n", BStr::from_bytes(line));
        }
        shown += 1;
        // A console can be slow, and other tasks need the CPU.
        if shown % 64 == 0 {
            fsleep(Delta::from_micros(50));
        }
    }
    Ok(shown)
}
