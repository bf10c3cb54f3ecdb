// SPDX-License-Identifier: GPL-2.0

//! Memory that is set aside for the end of a recording, where no error could be reported.

use kernel::cpu::CpuId;
use kernel::prelude::*;
use kernel::sync::Arc;

use super::buffer::Buffer;
use super::buffers::{rounded, Buffers, OldBuffers};
use super::counted_buffer::OldBuffer;
use crate::sys::cpu;
use crate::sys::memory::Room;
use crate::tracer::recorder::Recorder;

/// The smallest buffers, and a list for those that they replace.
pub(super) struct Reserve {
    small: KVec<(CpuId, Arc<Buffer>)>,
    /// An empty list, with room for one buffer of each CPU.
    old: KVec<OldBuffer>,
}

impl Buffers {
    /// Sets aside what [`Self::shrink`] and [`Self::take_all`] need, for sub-buffers of `subbuf_kb`
    /// KiB.
    ///
    /// # Errors
    ///
    /// `ENOMEM` if there is no memory.
    pub(super) fn set_aside(&self, subbuf_kb: usize) -> Result<Reserve> {
        let size_kb = rounded(1, subbuf_kb);
        let count = cpu::possible().count();
        let room = Room::new(count.saturating_mul(size_kb).saturating_mul(1024), 0)?;
        let mut small = KVec::with_capacity(count, GFP_KERNEL)?;
        for cpu in cpu::possible() {
            let buffer = self.make_one(cpu, size_kb, subbuf_kb, &room)?;
            small.push((cpu, buffer), GFP_KERNEL)?;
        }
        Ok(Reserve {
            small,
            old: KVec::with_capacity(self.cpus.len(), GFP_KERNEL)?,
        })
    }

    /// Resizes all to the smallest size. What is in them goes, and counts as overwritten. Needs no
    /// memory.
    ///
    /// The buffers that are no longer written to are returned; see [`OldBuffers`].
    pub(super) fn shrink(&mut self, reserve: Reserve, recorder: &Recorder) -> OldBuffers {
        let Reserve { small, mut old } = reserve;
        for (cpu, buffer) in small {
            self.settings.apply(buffer.ring());
            let size_kb = buffer.size_kb();
            let Some(buffers) = self.of_mut(cpu) else {
                continue;
            };
            let is_larger = core::mem::replace(&mut buffers.size_kb, size_kb) != size_kb;
            if is_larger && buffers.live.buffer.is_some() {
                if let Some(replaced) = self.replace(cpu, buffer, recorder, false) {
                    // Room was reserved.
                    let _ = old.push(replaced, GFP_KERNEL);
                }
            }
        }
        OldBuffers(old)
    }

    /// Takes all buffers away; those that are made next are of the smallest size. Nothing may be
    /// hooked any more. Needs no memory.
    ///
    /// The buffers that may still be written to are returned; see [`OldBuffers`].
    pub(super) fn take_all(&mut self, reserve: Reserve, recorder: &Recorder) -> OldBuffers {
        let Reserve { small, mut old } = reserve;
        self.made = false;
        for (cpu, buffer) in small {
            let Some(buffers) = self.of_mut(cpu) else {
                continue;
            };
            buffers.size_kb = buffer.size_kb();
            // SAFETY:
            // - There is no ring that is to stay valid; the old one lives on in `old`, an
            //   `OldBuffers`, which waits until nothing writes to it.
            // - None is given for another CPU.
            unsafe { recorder.set_ring(cpu, None) };
            if let Some(taken) = buffers.live.replace(cpu, None, false) {
                // Room was reserved.
                let _ = old.push(taken, GFP_KERNEL);
            }
            // A reader that waits for a part of the buffer looks again.
            buffers.waker.wake();
        }
        OldBuffers(old)
    }
}
