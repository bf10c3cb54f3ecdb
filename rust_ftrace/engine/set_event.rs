// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Words that are written to `set_event`: those that switch events on, or off after an exclamation
//! mark.
//!
//! ```text
//! word   = ["!"] (system | event | [system] ":" [event] | ...)
//! ```

/// Returns whether a word switches off all events, which can be done where there are none. Any
/// other word names some, as `ftrace_set_clr_event()` of kernel/trace/trace_events.c has it.
pub fn is_all_off(word: &[u8]) -> bool {
    let Some(events) = word.strip_prefix(b"!") else {
        return false;
    };
    let mut parts = events.splitn(2, |&byte| byte == b':');
    let is_any = |part: Option<&[u8]>| matches!(part, Some(b"" | b"*"));
    is_any(parts.next()) && is_any(parts.next())
}
