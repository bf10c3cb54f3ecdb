// SPDX-License-Identifier: GPL-2.0

//! Fuzzes [`rust_ftrace_fuzz::names`].

#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| rust_ftrace_fuzz::names(data));
