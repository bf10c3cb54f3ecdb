// SPDX-License-Identifier: GPL-2.0 OR MIT

//! The build ID of a kernel, which tells its files from those of other builds.

/// `NT_GNU_BUILD_ID`.
const BUILD_ID: u32 = 3;

/// Returns the build ID among ELF notes: each has the lengths of its name and of its data and its
/// type (u32 each), the name, and the data, both padded to 4 bytes.
pub(super) fn of_notes(mut notes: &[u8]) -> Option<Vec<u8>> {
    loop {
        let word = |at: usize| {
            let bytes = notes.get(at..at + 4)?;
            Some(u32::from_le_bytes(bytes.try_into().ok()?))
        };
        let (name_bytes, data_bytes) = (word(0)? as usize, word(4)? as usize);
        let kind = word(8)?;
        let name = notes.get(12..12 + name_bytes)?;
        let data_begin = 12 + name_bytes.next_multiple_of(4);
        let data = notes.get(data_begin..data_begin.checked_add(data_bytes)?)?;
        if kind == BUILD_ID && name == b"GNU\0" {
            return Some(data.to_vec());
        }
        notes = notes.get(data_begin + data_bytes.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(name: &[u8], kind: u8, data: &[u8]) -> Vec<u8> {
        let mut note = vec![
            name.len() as u8,
            0,
            0,
            0,
            data.len() as u8,
            0,
            0,
            0,
            kind,
            0,
            0,
            0,
        ];
        for part in [name, data] {
            note.extend(part);
            note.resize(note.len().next_multiple_of(4), 0);
        }
        note
    }

    #[test]
    fn it_is_found_among_other_notes() {
        let notes = [
            note(b"Linux\0", 3, b"7.3"),
            note(b"GNU\0", 1, b"x"),
            note(b"GNU\0", 3, b"12345"),
        ];
        let notes = notes.concat();
        assert_eq!(of_notes(&notes).as_deref(), Some(&b"12345"[..]));
        for length in 0..notes.len() - 3 {
            assert_eq!(of_notes(&notes[..length]), None);
        }
    }
}
