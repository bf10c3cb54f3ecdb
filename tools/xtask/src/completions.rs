// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Completions: scripts that make shells ask the command for possible words.

use std::io::Result;

use clap_complete::env::{Bash, EnvCompleter, Fish, Zsh};
use rftrace_cli::cli::complete::VARIABLE;

/// The places where each shell finds its script, below `PREFIX/share`.
const PLACES: [(&dyn EnvCompleter, &str); 3] = [
    (&Bash, "bash-completion/completions/rftrace"),
    (&Zsh, "zsh/site-functions/_rftrace"),
    (&Fish, "fish/vendor_completions.d/rftrace.fish"),
];

/// Returns the scripts, with their paths.
pub(crate) fn scripts() -> Result<Vec<(String, Vec<u8>)>> {
    let script = |(shell, path): (&dyn EnvCompleter, &str)| {
        let mut text = Vec::new();
        shell.write_registration(VARIABLE, "rftrace", "rftrace", "rftrace", &mut text)?;
        Ok((path.into(), text))
    };
    PLACES.into_iter().map(script).collect()
}
