// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Events as text: by the module's own renderer, so that lines are those of its `trace`.

mod join;
mod lines;

pub use join::Joined;
pub use lines::{Lines, TimeColumn};
