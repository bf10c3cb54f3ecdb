// SPDX-License-Identifier: GPL-2.0

//! Addresses of symbols that the kernel does not export, looked up once: that waits for CPUs and
//! RCU.
//!
//! C header: [`include/linux/kprobes.h`](srctree/include/linux/kprobes.h)

use core::ops::Range;

use kernel::prelude::*;
use kernel::str::CString;

use super::numbers::FprobeVariables;
use super::part::PrivatePart;
use super::tasks;
use crate::sys::{code, ffi, lockdep};

/// Addresses of things in the kernel. Ranges are empty and addresses 0 where it does not say.
pub(crate) struct Addresses {
    /// `_stext` to `_etext`.
    pub(crate) core_text: Range<u64>,
    /// `__irqentry_text_start` to `__irqentry_text_end`.
    pub(crate) irq_text: Range<u64>,
    /// The kernel's own function for markers: programs' markers are shown as its, as in ftrace.
    pub(crate) marker_ip: u64,
    /// A function that fprobe calls while it moves its own table, where that is a function; else 0.
    pub(crate) called_by_fprobe: u64,
    /// A function that returns when lockdep takes the task for one in user mode, where there is
    /// lockdep; else 0.
    pub(crate) returns_to_user: u64,
    /// The functions by which the machine begins to die: of an oops, and of a panic.
    pub(crate) deaths: [u64; 2],
    numbers: Option<FprobeVariables>,
}

impl Addresses {
    /// Looks them up, and notes which of the parts are not there.
    pub(crate) fn look_up() -> Self {
        let [text, text_end, irq_text, irq_text_end, marker, called_by_fprobe, to_user, idle_threads, fprobe, lock, table, next, used, users, switched, oops, panic] =
            addresses_of([
                b"_stext".as_slice(),
                b"_etext",
                b"__irqentry_text_start",
                b"__irqentry_text_end",
                b"tracing_mark_write",
                b"preempt_count_sub",
                b"ret_from_fork",
                b"idle_threads",
                b"fprobe_graph_ops",
                b"ftrace_lock",
                b"fgraph_lru_table",
                b"fgraph_lru_next",
                b"fgraph_array_bitmask",
                b"fgraph_array",
                b"ftrace_graph_probe_sched_switch",
                b"oops_enter",
                b"vpanic",
            ]);
        let idle_threads = PrivatePart::IdleTasks.at(idle_threads.map(pointer_of));
        // SAFETY: It is the address of the kernel's `idle_threads`, or none.
        unsafe { tasks::set_idle_threads(idle_threads) };
        let numbers = || Some([fprobe?, lock?, table?, next?, used?, users?]);
        let numbers = numbers();
        let has_numbers = PrivatePart::Numbers
            .at(numbers.map(|[first, ..]| first))
            .is_some();
        let numbers = numbers.filter(|_| has_numbers);
        Self {
            core_text: range(PrivatePart::Text, text, text_end),
            irq_text: range(PrivatePart::IrqText, irq_text, irq_text_end),
            marker_ip: PrivatePart::Marker.at(marker).unwrap_or(0),
            called_by_fprobe: called_by_fprobe.unwrap_or(0),
            returns_to_user: to_user.filter(|_| cfg!(CONFIG_PROVE_LOCKING)).unwrap_or(0),
            deaths: [oops, panic].map(|address| PrivatePart::Deaths.at(address).unwrap_or(0)),
            numbers: numbers.map(|addresses| {
                // SAFETY: They are what the kernel has by these names.
                unsafe { FprobeVariables::at(addresses, switched.map_or(0, entry_of)) }
            }),
        }
    }

    /// Takes where fgraph's numbers are.
    pub(crate) fn take_numbers(&mut self) -> Option<FprobeVariables> {
        self.numbers.take()
    }
}

/// The address of a function by that which a kprobe has for it: an `endbr64` at its begin is left
/// out there.
fn entry_of(address: u64) -> u64 {
    /// `endbr64`.
    const ENDBR: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];
    let before = address.wrapping_sub(ENDBR.len() as u64);
    let mut bytes = [0; ENDBR.len()];
    match code::read(before, &mut bytes) && bytes == ENDBR {
        true => before,
        false => address,
    }
}

/// The address of a pointer by that which a kprobe has for it: as `entry_of`, but for memory that
/// may be used for anything since, so that it does not say whether an `endbr64` was left out. That
/// of variables of each CPU is, when the kernel has booted.
const fn pointer_of(address: u64) -> u64 {
    address & !(align_of::<*const u8>() as u64 - 1)
}

/// The addresses from `start` to `end`, where `part` lies; empty if they are not known, or none
/// such.
fn range(part: PrivatePart, start: Option<u64>, end: Option<u64>) -> Range<u64> {
    let start = part.at(start.filter(|start| end.is_some_and(|end| *start < end)));
    match (start, end) {
        (Some(start), Some(end)) => start..end,
        _ => 0..0,
    }
}

/// Without kprobes only the names that ftrace lists are known.
#[cfg(not(CONFIG_KPROBES))]
fn addresses_of<const N: usize>(_names: [&[u8]; N]) -> [Option<u64>; N] {
    [None; N]
}

/// The addresses of symbols, aliases included; `None` for one of which the kernel knows none that
/// is unique. Waits for CPUs and RCU.
///
/// A disabled kprobe finds it: `register_kprobe` resolves the name before it looks at anything
/// else, and a disabled one changes no code.
#[cfg(CONFIG_KPROBES)]
fn addresses_of<const N: usize>(names: [&[u8]; N]) -> [Option<u64>; N] {
    lockdep::waits();
    let mut registered = KVec::new();
    let addresses = names.map(|name| {
        let name = CString::try_from_fmt(fmt!("{}", kernel::str::BStr::from_bytes(name))).ok()?;
        let mut probe = KBox::new(ffi::kprobe::default(), GFP_KERNEL).ok()?;
        registered.reserve(1, GFP_KERNEL).ok()?;
        probe.symbol_name = name.as_char_ptr();
        probe.flags = ffi::KPROBE_FLAG_DISABLED;
        // SAFETY: The probe and the name live until it is unregistered, below.
        let result = unsafe { ffi::register_kprobe(&mut *probe) };
        let address = probe.addr as u64;
        if result == 0 {
            // There is room, so this does not fail.
            let _ = registered.push((KBox::into_raw(probe), name), GFP_KERNEL);
        }
        (address != 0).then_some(address)
    });
    // One grace period for all.
    let mut probes = [core::ptr::null_mut(); N];
    let mut count = 0;
    for ((probe, _), slot) in registered.iter().zip(&mut probes) {
        *slot = *probe;
        count += 1;
    }
    // SAFETY: `probes` begins with `count` probes, all of them registered. Waits until none is in
    // use.
    unsafe { ffi::unregister_kprobes(probes.as_mut_ptr(), count) };
    for (probe, _) in registered {
        // SAFETY: From `into_raw`, and the kernel does not know of it any more.
        drop(unsafe { KBox::from_raw(probe) });
    }
    addresses
}

/// The address of symbol `name`; as for [`addresses_of`].
pub(crate) fn address_of(name: &[u8]) -> Option<u64> {
    let [address] = addresses_of([name]);
    address
}
