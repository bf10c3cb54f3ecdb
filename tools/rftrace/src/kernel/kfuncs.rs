// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Functions that BPF programs call by name: those that the kernel's BTF (Documentation/bpf/btf.rst) tags with
//! `bpf_kfunc`.

const MAGIC: u16 = 0xeb9f;
const TYPE_BYTES: usize = 12;
const FUNC: u32 = 12;
const DECL_TAG: u32 = 17;

/// Names of functions that are tagged so in `btf`; those that can be told where it is not as expected.
pub(super) fn kfuncs(btf: &[u8]) -> Vec<String> {
    types(btf).unwrap_or_default()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

/// The header: magic (u16 at 0), its length (u32 at 4), offsets behind it and lengths of types (8, 12) and of strings
/// (16, 20).
fn types(btf: &[u8]) -> Option<Vec<String>> {
    (u16::from_le_bytes(btf.get(..2)?.try_into().ok()?) == MAGIC).then_some(())?;
    let header = word(btf, 4)? as usize;
    let begin = header + word(btf, 8)? as usize;
    let types = btf.get(begin..begin + word(btf, 12)? as usize)?;
    let strings = btf.get(header + word(btf, 16)? as usize..)?;
    let text = |at: u32| {
        let text = strings.get(at as usize..)?;
        std::str::from_utf8(&text[..text.iter().position(|byte| *byte == 0)?]).ok()
    };
    // Name and kind of each type, from type 1 on, and which of them are tagged.
    let (mut all, mut tagged) = (vec![(0, 0)], Vec::new());
    let mut at = 0;
    while let (Some(name), Some(info), Some(size)) =
        (word(types, at), word(types, at + 4), word(types, at + 8))
    {
        let (kind, count) = ((info >> 24) & 0x1f, (info & 0xffff) as usize);
        all.push((name, kind));
        if kind == DECL_TAG && text(name) == Some("bpf_kfunc") {
            tagged.push(size as usize);
        }
        at += TYPE_BYTES
            + match kind {
                1 | 14 | DECL_TAG => 4,
                3 => 12,
                4 | 5 | 15 | 19 => 12 * count,
                6 | 13 => 8 * count,
                0..=19 => 0,
                // (a kind that is not known has an unknown length)
                _ => break,
            };
    }
    let name = |number: usize| {
        let (name, kind) = *all.get(number)?;
        (kind == FUNC).then(|| text(name).map(Into::into))?
    };
    Some(tagged.into_iter().filter_map(name).collect())
}
