// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Arguments of `graph`.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::selection::SelectionArgs;
use super::{complete, KernelArgs};

/// Examples at the end of its help.
pub(super) const EXAMPLES: &str = "Examples:
  rftrace graph path_openat
  rftrace graph path_openat open.data -D 2 -n @noise
  rftrace graph --static path_mount
  rftrace graph --static -D 4 tcp_ack
  rftrace graph --static --json --vmlinux /boot/vmlinuz-$(uname -r) path_mount";

/// Arguments of `graph`.
#[derive(Args, Debug)]
pub struct GraphArgs {
    /// The function
    #[arg(value_name = "FUNC", add = complete::functions())]
    pub function: String,
    /// A recording
    #[arg(value_name = "FILE", default_value = "rftrace.data", value_hint = ValueHint::FilePath)]
    pub file: PathBuf,
    /// By the kernel's text instead of a recording: the functions that could call it, and those
    /// that it could call. -D then counts calls up and down [default: 1 up, 2 down]
    #[arg(long = "static")]
    pub is_static: bool,
    /// Functions, tasks, depth and threshold.
    #[command(flatten)]
    pub selection: SelectionArgs,
    /// The kernel.
    #[command(flatten)]
    pub source: KernelArgs,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}
