// SPDX-License-Identifier: GPL-2.0

//! Things that are private to the kernel: symbols that it does not export, and the layout of what
//! it keeps for itself.
//!
//! Nothing else relies on such. docs/private.md has the list: what each is for, how it is found and
//! checked, and what happens where a kernel does not have it as it is known here.

mod addresses;
pub(crate) mod numbers;
mod own_mount;
pub(crate) mod part;
mod peek;
pub(crate) mod seq_reader;
pub(crate) mod shadow_stacks;
pub(crate) mod subdirectories;
pub(crate) mod tasks;

// For users outside of `sys`.
pub(crate) use addresses::{address_of, Addresses};
pub(crate) use numbers::FprobeNumber;
pub(crate) use part::PrivatePart;
pub(crate) use seq_reader::{has, look_at, read_btf, read_lines, KernelFile};
