// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Arguments of `graph`.

use clap::Args;

use super::Source;

/// What its help ends with.
pub(super) const EXAMPLES: &str = "Examples:
  rftrace graph --static path_mount
  rftrace graph --static -D 4 tcp_ack
  rftrace graph --static --json --vmlinux /boot/vmlinuz-$(uname -r) path_mount";

/// Arguments of `graph`.
#[derive(Args, Debug)]
pub struct Graph {
    /// The function
    #[arg(value_name = "FUNC")]
    pub function: String,
    /// By the kernel's text: who could call it, and what it could call
    #[arg(long = "static", required = true)]
    pub is_static: bool,
    /// Go so many calls up and down [default: 1 up, 2 down]
    #[arg(short = 'D', long, value_name = "N")]
    pub depth: Option<usize>,
    /// The kernel.
    #[command(flatten)]
    pub source: Source,
    /// Print one JSON object a line
    #[arg(long)]
    pub json: bool,
}
