// SPDX-License-Identifier: GPL-2.0

//! `tracing_errno`, hook side: calls are recorded once the outermost one has returned an error that
//! is asked for, and of those within it the ones that the error came by.
//! [`errno_chain`](crate::engine::errno_chain) has what is kept until then.

use crate::engine::errno::ResultKind;
use crate::engine::errno_chain::{CallInfo, Chains, Ending, ErrnoLinks, Link, FRAME_WORDS};
use crate::engine::ring::{Call, OpenCall};
use crate::engine::shadow::{self, Shadow, ShadowFrame};
use crate::engine::slot::text_address;
use crate::sys::context::{Current, PreemptOff};
use crate::sys::fprobe::{frame_words, CallEntry, CallHandler, CallReturn, Interest};
use crate::tracer::call_role::CallRole;
use crate::tracer::cpu_context::{State, IN_FPROBE};
use crate::tracer::graph::{packed_call, unpacked_call};
use crate::tracer::graph_frames::TaggedFrame;
use crate::tracer::graph_settings::Want;
use crate::tracer::recorder::Recorder;

/// The frame of a call while errors are asked for.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct ErrnoFrame(TaggedFrame<FRAME_WORDS>);

/// The role of a function while errors are asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ErrnoRole {
    pub(crate) graph: CallRole,
    pub(crate) result: ResultKind,
}

/// The recorder, on the CPU where a call returns.
struct ErrnoRecorder<'a> {
    recorder: &'a Recorder,
    token: PreemptOff<'a>,
    /// The function of the call.
    ip: u64,
    /// The address of its words.
    address: *const u64,
}

impl Chains for ErrnoRecorder<'_> {
    #[inline(always)]
    fn asks_for(&self, errno: u64) -> bool {
        self.recorder.graph().asks_for(errno)
    }

    #[inline(always)]
    fn shows_handled(&self) -> bool {
        self.recorder.graph().wants(Want::Handled)
    }

    #[inline(always)]
    fn thresh(&self) -> u64 {
        self.recorder.graph().thresh()
    }

    #[inline(always)]
    fn now(&self) -> Option<u64> {
        self.recorder.now(self.token)
    }

    fn cpu(&self) -> u32 {
        self.token.cpu_number() as u32
    }

    fn misses(&self) -> bool {
        let is_shut = self.recorder.is_shut_here(self.token);
        if is_shut {
            self.recorder.miss_call(self.token);
        }
        is_shut
    }

    #[inline(always)]
    fn links(&self) -> Option<&ErrnoLinks> {
        self.recorder.graph().links()
    }

    fn place(&self) -> u64 {
        let current = self.token.current();
        let index = current.shadow_below(self.address).0.len();
        let parent_ip = Recorder::call_at(&current, index).map_or(0, |call| call.parent_ip);
        packed_call(Call {
            ip: self.ip,
            parent_ip,
        })
    }

    fn place_of(&self, frame: &ShadowFrame<'_>) -> Option<u64> {
        Recorder::call_at(&self.token.current(), frame.index()).map(packed_call)
    }

    fn entered(&self, start: u64, info: CallInfo, place: u64) {
        let open = OpenCall {
            start,
            token: info.of_entry().0,
        };
        let call = Some(unpacked_call(place));
        self.recorder.record_late_entry(self.token, open, call);
    }

    fn returned(&self, call: &Link, result: Option<u64>) {
        let ip = text_address(call.place);
        let info = call.info;
        // The time for which the task did not run does not count.
        let start = call.start.wrapping_add(call.slept);
        self.recorder.with_late_context(self.token, |ring, ctx| {
            // SAFETY:
            // - The ring is this CPU's, on which the thread stays: `token` proves that preemption
            //   is off.
            // - What interrupts this runs to its end before this goes on.
            //
            // An event that could not be written is counted.
            unsafe {
                let times = start..call.end;
                ring.write_late_return(ip, times, result, info.depth(), info.context(), ctx)
            };
        });
    }
}

impl Recorder {
    /// Returns the calls around the one whose words are `data`. (Calls that others watch, too, are
    /// none of them: none is begun while errors are asked for.)
    fn around_errno<'a>(
        &self,
        current: &'a Current<'_>,
        data: &TaggedFrame<FRAME_WORDS>,
    ) -> Shadow<'a> {
        let (words, base) = current.shadow_below(data.address());
        Shadow::new(words, base, self.secret::<FRAME_WORDS>())
    }

    /// Begins a call; returns whether its return is wanted.
    fn called_errno(&self, role: ErrnoRole, call: CallEntry<'_, ErrnoFrame>) -> bool {
        let CallEntry { token, data, .. } = call;
        let data = &mut data.0;
        // A word that was there before is no tag.
        data.set(0, 0);
        let current = token.current();
        let around = || {
            let around = self.around_errno(&current, data);
            around.innermost_from(frame_words(FRAME_WORDS))
        };
        let Some((flags, outer)) = self.admits_tagged(role.graph, token, around) else {
            return false;
        };
        if flags != shadow::SKIP {
            let Some(now) = self.now(token) else {
                return false;
            };
            let context = IN_FPROBE.word(&current);
            let depth = current.call_depth();
            let info = CallInfo::within(outer.as_ref(), depth, context, role.result);
            data.set(1, now);
            data.set(2, info.0);
            data.set(3, 0);
            data.set(4, 0);
            data.set(6, 0);
        }
        data.tag(self.secret::<FRAME_WORDS>(), flags);
        true
    }

    /// Ends a call.
    fn returned_errno(&self, call: CallReturn<'_, ErrnoFrame>) {
        let data = &mut call.data.0;
        let token = call.token;
        let Some(flags) = data.take_tag(self.secret::<FRAME_WORDS>()) else {
            return;
        };
        let current = token.current();
        let around = self.around_errno(&current, data);
        Self::hand_on_sleep(&around, data.word(4), None);
        let ending = Ending {
            words: data.words(),
            flags,
            ip: call.ip,
            register: call.registers.return_value(),
            around,
        };
        ending.end(&ErrnoRecorder {
            recorder: self,
            token,
            ip: call.ip,
            address: data.address(),
        });
    }
}

impl CallHandler<ErrnoFrame> for Recorder {
    type Role = ErrnoRole;

    #[inline(always)]
    fn called(&self, role: ErrnoRole, call: CallEntry<'_, ErrnoFrame>) -> Interest {
        Interest::of_return(self.called_errno(role, call))
    }

    #[inline(always)]
    fn returned(&self, call: CallReturn<'_, ErrnoFrame>) {
        self.returned_errno(call);
    }
}
