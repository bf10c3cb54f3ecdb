// SPDX-License-Identifier: GPL-2.0

use crate::engine::set_event::is_all_off;

#[test]
fn only_all_events_can_be_off() {
    for word in ["!*:*", "!:", "!*:", "!:*"] {
        assert!(is_all_off(word.as_bytes()), "{word}");
    }
    for word in [
        "",
        "!",
        "!*",
        "*",
        "*:*",
        ":",
        "!!*:*",
        "!sched",
        "!sched:*",
        "!*:sched_switch",
        "!*:*:*",
        "!:mod:x",
        "!*:*:mod:x",
        "sched:*",
        "ftrace:function",
    ] {
        assert!(!is_all_off(word.as_bytes()), "{word}");
    }
}
