// SPDX-License-Identifier: GPL-2.0

//! A call of the module's own, which shows whether fgraph keeps open calls in the form known here.
//!
//! A function of the kernel is hooked for a moment and called. What the probe's handlers know of
//! the call anyway is compared with what the shadow stack has of it.

use kernel::bindings;
use kernel::prelude::*;

use crate::engine::fgraph::{self, Unlike};
use crate::platform::Word;
use crate::sys::context::PreemptOff;
use crate::sys::fprobe::{
    quiet_function, CallEntry, CallHandler, CallReturn, Fprobes, Interest, OpenCalls, RoleFunctions,
};
use crate::sys::private::shadow_stacks::ShadowStack;
use crate::sys::private::{FprobeNumber, PrivatePart};
use crate::sys::symbols::SymbolText;

/// The data that is kept of the call, which is known at both ends.
type Kept = [u64; 3];

const KEPT: Kept = [0x6f77_6e5f_6361_6c6c, 1, u64::MAX];

/// An end of the call was not seen.
const NOT_SEEN: u64 = 0;
/// The end was seen, and all is in the known form.
const AS_KNOWN: u64 = 1;
/// Only the number of fprobe is another one.
const OTHER_NUMBER: u64 = 2;
/// The frame is not in the known form.
const OTHER_FRAME: u64 = 3;

/// The number of fprobe is not known.
const NO_NUMBER: u64 = u64::MAX;

/// The call as it is known beforehand, and what was seen of it.
struct OwnCall {
    /// The task that makes it.
    task: *const bindings::task_struct,
    parent_ip: Word,
    probe: Word,
    number: Word,
    entry: Word,
    exit: Word,
}

// SAFETY: The task is only compared, not accessed by its pointer; all else is atomic.
unsafe impl Send for OwnCall {}
// SAFETY: As its task is only compared, nothing but atomic words is shared.
unsafe impl Sync for OwnCall {}

impl OwnCall {
    /// Compares the shadow stack with the call, which this task must be making.
    fn compare(
        &self,
        token: PreemptOff<'_>,
        ip: u64,
        data: *const Kept,
        returns: bool,
    ) -> Result<(), Unlike> {
        let current = token.current();
        let call = fgraph::OwnCallFrame {
            ip,
            parent_ip: self.parent_ip.load_relaxed(),
            depth: current.call_depth(),
            probe: self.probe.load_relaxed(),
            number: match self.number.load_relaxed() {
                NO_NUMBER => None,
                number => Some(number as u32),
            },
            data: (data as u64, size_of::<Kept>() / 8),
            returns,
        };
        // SAFETY: It is the running task, which is valid as long as it runs this.
        let stack = unsafe { ShadowStack::of(current.as_ptr()) };
        stack.compare(&call)
    }
}

/// Returns the word that notes the result of a comparison.
fn noted(result: Result<(), Unlike>) -> u64 {
    match result {
        Ok(()) => AS_KNOWN,
        Err(Unlike::Number) => OTHER_NUMBER,
        Err(Unlike::Frame) => OTHER_FRAME,
    }
}

impl CallHandler<Kept> for OwnCall {
    type Role = ();

    fn called(&self, (): (), call: CallEntry<'_, Kept>) -> Interest {
        let CallEntry { site, token, data } = call;
        if token.current().as_ptr() != self.task || self.entry.load_relaxed() != NOT_SEEN {
            return Interest::Nothing;
        }
        self.parent_ip.store_relaxed(site.call.parent_ip);
        let result = self.compare(token, site.call.ip, data, false);
        self.entry.store_relaxed(noted(result));
        *data = KEPT;
        Interest::Return
    }

    fn returned(&self, call: CallReturn<'_, Kept>) {
        if call.token.current().as_ptr() != self.task {
            return;
        }
        let mut result = self.compare(call.token, call.ip, call.data, true);
        if *call.data != KEPT {
            result = Err(Unlike::Frame);
        }
        self.exit.store_relaxed(noted(result));
    }
}

/// Makes a call and looks at it, if that was not done yet, and notes what is not in the known form.
///
/// # Errors
///
/// The look is to be tried again after an error.
///
/// - `ENOMEM` if there is no memory, `EAGAIN` if the call was not seen.
/// - Those of [`Fprobes::prepare`].
pub(crate) fn look(numbers: &mut FprobeNumber) -> Result {
    if !PrivatePart::ShadowStacks.is_unseen() {
        return Ok(());
    }
    let mut text = SymbolText::new()?;
    let own = KBox::new(
        OwnCall {
            // SAFETY: Has no preconditions: it reads a per-CPU variable.
            task: unsafe { bindings::get_current() }.cast_const(),
            parent_ip: Word::new(0),
            probe: Word::new(0),
            number: Word::new(NO_NUMBER),
            entry: Word::new(NOT_SEEN),
            exit: Word::new(NOT_SEEN),
        },
        GFP_KERNEL,
    )?;
    let mut probes = Fprobes::new();
    let ips = [quiet_function()];
    let groups = [RoleFunctions {
        role: (),
        ips: &ips,
    }];
    // SAFETY: `own` stays valid until nothing is traced any more: `probes` was made after it, so
    // its drop, which ends tracing, comes first.
    let change = unsafe { probes.prepare(numbers, &*own, &groups, OpenCalls::Lost)? };
    probes.turn(&change);
    probes.finish(change);
    own.probe.store_relaxed(probes.address().unwrap_or(0));
    own.number
        .store_relaxed(numbers.number().map_or(NO_NUMBER, u64::from));
    text.look_up(0);
    probes.clear();
    let seen = [&own.entry, &own.exit].map(|end| end.load_relaxed());
    match seen {
        [AS_KNOWN, AS_KNOWN] => {}
        [NOT_SEEN, _] => return Err(EAGAIN),
        [AS_KNOWN | OTHER_NUMBER, AS_KNOWN | OTHER_NUMBER] => {
            PrivatePart::Numbers.is_not_as_known()
        }
        _ => PrivatePart::ShadowStacks.is_not_as_known(),
    }
    PrivatePart::ShadowStacks.is_seen();
    Ok(())
}

/// Looks whether fgraph keeps open calls in the form known here.
///
/// # Errors
///
/// `EOPNOTSUPP` if not; those of [`look`].
pub(crate) fn need_shadow_stacks(numbers: &mut FprobeNumber) -> Result {
    look(numbers)?;
    match PrivatePart::ShadowStacks.is_as_known() {
        true => Ok(()),
        false => Err(EOPNOTSUPP),
    }
}
