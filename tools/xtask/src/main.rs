// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Writes the manuals and the completions of the command into a folder, laid out as below
//! `PREFIX/share`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};

mod completions;
mod manual;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let mut words = std::env::args_os().skip(1);
    let folder = words.next().map(PathBuf::from);
    let folder = folder.context("usage: xtask FOLDER")?;
    let files = manual::pages()?.into_iter().chain(completions::scripts()?);
    for (path, text) in files {
        let path = folder.join(path);
        let parent = path.parent().unwrap_or(&folder);
        std::fs::create_dir_all(parent)
            .with_context(|| format!("cannot make {}", parent.display()))?;
        std::fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
