// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The kernel's lockdown, which denies debugfs to root, too.

use std::path::Path;

/// Returns the mode of lockdown, if there is one: `integrity` or `confidentiality`; `root` is `/`,
/// but for tests.
///
/// `/sys/kernel/security/lockdown` has the mode that holds in brackets.
pub fn lockdown(root: &Path) -> Option<String> {
    let text = std::fs::read_to_string(root.join("sys/kernel/security/lockdown")).ok()?;
    let mode = text.split(['[', ']']).nth(1)?;
    (mode != "none").then(|| mode.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mode_in_brackets_holds() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("sys/kernel/security/lockdown");
        assert_eq!(lockdown(root.path()), None);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        for (text, mode) in [
            ("[none] integrity confidentiality\n", None),
            ("none [integrity] confidentiality\n", Some("integrity")),
            (
                "none integrity [confidentiality]\n",
                Some("confidentiality"),
            ),
            ("", None),
        ] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(lockdown(root.path()).as_deref(), mode);
        }
    }
}
