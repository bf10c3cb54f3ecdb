// SPDX-License-Identifier: GPL-2.0

//! Names of errors, and results that are errors.

use proptest::prelude::*;

use crate::engine::errno::{ErrnoSet, ResultKind, MAX_ERRNO};

fn parsed(text: &str) -> Result<ErrnoSet, usize> {
    ErrnoSet::parse(text.as_bytes())
}

fn names(set: &ErrnoSet) -> String {
    set.names().collect::<Vec<_>>().join(",")
}

/// A set is none, all, or of names.
#[test]
fn sets() {
    let none = parsed("0\n").unwrap();
    assert!(none.is_empty() && !none.has(1) && !none.has(MAX_ERRNO));
    let all = parsed("1").unwrap();
    assert!(!all.is_empty() && all.has(1) && all.has(100) && all.has(MAX_ERRNO));
    let some = parsed("ENOMEM, EINVAL,ENOTSUPP\n").unwrap();
    assert_eq!(names(&some), "ENOMEM,EINVAL,ENOTSUPP");
    let has: Vec<u64> = (0..=MAX_ERRNO).filter(|errno| some.has(*errno)).collect();
    assert_eq!(has, [12, 22, 524]);
    assert_eq!(
        names(&parsed("EWOULDBLOCK,ENOTSUP").unwrap()),
        "EAGAIN,EOPNOTSUPP"
    );
}

/// A word that is no name is told by its place, and there is none in what is not there.
#[test]
fn no_names() {
    for (text, at) in [
        ("", 0),
        ("2", 0),
        ("-22", 0),
        ("einval", 0),
        ("EINVAL,", 7),
        ("EINVAL,ENOSUCH,EIO", 7),
        ("EINVAL EIO", 0),
        (" EINVAL,,EIO", 8),
        ("0,EIO", 0),
    ] {
        assert_eq!(parsed(text), Err(at), "{text:?}");
    }
}

proptest! {
    /// A set is shown by names that mean it.
    #[test]
    fn names_mean_the_set(errnos in prop::collection::vec(0..600_u64, 1..9)) {
        let all = (1..600).filter_map(|errno| {
            let mut set = ErrnoSet::NONE;
            *set.words.get_mut(errno / 64)? |= 1 << (errno % 64);
            let name = set.names().next()?;
            Some((errno as u64, name))
        });
        let known: std::collections::BTreeMap<u64, &str> = all.collect();
        let chosen: Vec<&str> = errnos.iter().filter_map(|errno| known.get(errno).copied()).collect();
        prop_assume!(!chosen.is_empty());
        let set = parsed(&chosen.join(",")).unwrap();
        let again = parsed(&names(&set)).unwrap();
        prop_assert_eq!(set, again);
        for errno in 0..600 {
            prop_assert_eq!(set.has(errno), errnos.contains(&errno) && known.contains_key(&errno));
        }
    }
}

/// An int is in the lower half, whatever is in the upper one.
#[test]
fn results() {
    let errno = |kind: ResultKind, register| kind.errno(kind.value(register));
    for (register, int, long) in [
        (0, 0, 0),
        (u64::MAX, 1, 1),
        (-22_i64 as u64, 22, 22),
        (0xffff_ffea, 22, 0),
        (0xdead_beef_ffff_ffea, 22, 0),
        (-4095_i64 as u64, 4095, 4095),
        (-4096_i64 as u64, 0, 0),
        (0xffff_ffff_0000_0000, 0, 0),
        (0x7fff_ffff, 0, 0),
        (0x8000_0000, 0, 0),
    ] {
        assert_eq!(errno(ResultKind::Int, register), int, "{register:#x}");
        assert_eq!(errno(ResultKind::Long, register), long, "{register:#x}");
        for none in [
            ResultKind::None,
            ResultKind::Unknown,
            ResultKind::Byte,
            ResultKind::Half,
        ] {
            assert_eq!(errno(none, register), 0, "{register:#x}");
        }
    }
    let register = 0xdead_beef_ffff_ffea;
    assert_eq!(ResultKind::Byte.value(register), 0xea);
    assert_eq!(ResultKind::Half.value(register), 0xffff_ffea);
    assert!(ResultKind::Byte.has_value() && !ResultKind::Unknown.has_value());
    assert!(!ResultKind::Byte.passes_on() && ResultKind::Unknown.passes_on());
}
