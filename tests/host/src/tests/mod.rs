// SPDX-License-Identifier: GPL-2.0

//! Tests of the engine: one file for each of its files, and `cpu`, which they write rings with.

mod cpu;
mod nesting;
mod ring;
