// SPDX-License-Identifier: GPL-2.0

use proptest::prelude::*;

use super::cases;
use crate::engine::nearest::Nearest;

fn nearest<'a>(wanted: &'a str, names: &[&'a str]) -> Vec<&'a str> {
    let mut nearest = Nearest::to(wanted.as_bytes());
    for name in names {
        nearest.offer(name.as_bytes());
    }
    (nearest.names())
        .map(|name| std::str::from_utf8(name).expect("ASCII"))
        .collect()
}

/// Some names of the kernel.
const NAMES: &[&str] = &[
    "vfs_read",
    "vfs_readv",
    "vfs_write",
    "vfs_open",
    "do_sys_open",
    "do_sys_openat2",
    "__x64_sys_openat",
    "__kfree_skb",
    "kfree_skb_partial",
    "kfree_skb_list_reason",
    "kfree_skbmem",
    "consume_skb",
    "skb_release_data",
    "sk_skb_reason_drop",
    "schedule",
    "__schedule",
    "schedule_timeout",
    "tcp_v4_rcv",
    "tcp_ack",
    "cleanup.isra.0",
    "path_mount",
    "security_sb_mount",
];

#[test]
fn table() {
    for (wanted, names) in [
        // Other words around it, and another word in place of one.
        (
            "kfree_skb",
            ["__kfree_skb", "kfree_skbmem", "kfree_skb_partial"].as_slice(),
        ),
        ("skb_consume", &["consume_skb"]),
        ("do_mount", &["path_mount", "security_sb_mount"]),
        // A letter too many, too few, another, two that are swapped, the other case.
        ("vfs_reead", &["vfs_read", "vfs_readv"]),
        ("vfs_rea", &["vfs_read", "vfs_readv"]),
        ("vfs_rexd", &["vfs_read", "vfs_readv"]),
        ("vfs_raed", &["vfs_read", "vfs_readv"]),
        ("TCP_ACK", &["tcp_ack", "tcp_v4_rcv"]),
        ("vfsread", &["vfs_read", "vfs_readv"]),
        ("tcp_v4_recv", &["tcp_v4_rcv"]),
        ("path_mont", &["path_mount"]),
        // Suffixes that compilers append do not count.
        ("cleanip", &["cleanup.isra.0"]),
        ("no_such_function", &[]),
        ("x", &[]),
        ("", &[]),
        ("_", &[]),
    ] {
        let found = nearest(wanted, NAMES);
        assert!(
            found.starts_with(names) && (!names.is_empty() || found.is_empty()),
            "{wanted}: {found:?}"
        );
    }
}

/// Words in any order and any case, and bits that letters share with others.
#[test]
fn words_of_names() {
    for (wanted, name, is_near) in [
        ("a_b_c_d", "d_c_b_a", true),
        ("SKB_kfree", "kfree_skb", true),
        ("skb", "kfree_skbmem", true),
        ("skbmem", "kfree_skb", false),
        ("sk", "kfree_skbmem", false),
        ("aaaa_bbbb", "cccc_bbbb", true),
        ("aaaa_bb", "cccc_bb", true),
        ("aaaaa_bb", "cccc_bb", false),
        ("one_two_six", "six_four_five", false),
        ("one_two_six", "two_four_one", true),
        ("a_b_c_d_e_f_g_h_i_j", "a_b_c_d_e_f_g_h", true),
        ("ppp", "000", false),
    ] {
        assert_eq!(
            !nearest(wanted, &[name]).is_empty(),
            is_near,
            "{wanted} {name}"
        );
    }
}

#[test]
fn long_names() {
    let long = "a".repeat(128);
    let longer = "a".repeat(129);
    assert_eq!(nearest(&long, &[&longer]), [&longer]);
    assert!(nearest(&longer, &[&longer, &long]).is_empty());
    assert!(nearest("vfs_read", &["a".repeat(5000).as_str()]).is_empty());
}

/// Returns the distance of optimal string alignment, by the book.
fn edits(one: &[u8], other: &[u8]) -> usize {
    let mut table = vec![vec![0; other.len() + 1]; one.len() + 1];
    for i in 0..=one.len() {
        for j in 0..=other.len() {
            table[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let is_other = usize::from(one[i - 1] != other[j - 1]);
                let mut least = (table[i - 1][j] + 1)
                    .min(table[i][j - 1] + 1)
                    .min(table[i - 1][j - 1] + is_other);
                if i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1] {
                    least = least.min(table[i - 2][j - 2] + 1);
                }
                least
            };
        }
    }
    table[one.len()][other.len()]
}

/// Returns one word of letters: only they decide.
fn word() -> impl Strategy<Value = String> {
    "[a-d]{1,14}"
}

proptest! {
    #![proptest_config(cases(2000))]

    /// Names are near exactly if few letters differ, by the book; or if they begin or end with the
    /// word.
    #[test]
    fn near_if_few_letters_differ(wanted in word(), name in word()) {
        let limit = (wanted.len() / 3).min(3);
        let by_letters = edits(wanted.as_bytes(), name.as_bytes()) <= limit;
        let is_part = wanted.len() >= 3 && (name.starts_with(&wanted) || name.ends_with(&wanted));
        let is_near = by_letters || is_part || wanted == name;
        prop_assert_eq!(nearest(&wanted, &[&name]).len(), usize::from(is_near));
    }

    /// The nearer comes first, none that is left out is nearer than the last, and none is there
    /// twice.
    #[test]
    fn the_nearest_remain(wanted in "[ab_]{6,9}", names in proptest::collection::vec("[ab_]{4,12}", 0..12)) {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let is_as_near = |one, other| nearest(&wanted, &[one, other]).first() == Some(&one);
        let found = nearest(&wanted, &names);
        let near: std::collections::BTreeSet<_> =
            names.iter().filter(|name| !nearest(&wanted, &[name]).is_empty()).collect();
        prop_assert_eq!(found.len(), near.len().min(3));
        for (index, name) in found.iter().enumerate() {
            for farther in &found[index + 1..] {
                prop_assert!(name != farther && is_as_near(name, farther), "{:?}", found);
            }
        }
        for name in near.into_iter().filter(|name| !found.contains(name)) {
            prop_assert!(is_as_near(found[2], name), "{:?}, without {}", found, name);
        }
    }

    /// Any bytes are accepted.
    #[test]
    fn any_bytes(
        wanted in proptest::collection::vec(any::<u8>(), 0..140),
        names in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..140), 0..6),
    ) {
        let mut nearest = Nearest::to(&wanted);
        for name in &names {
            nearest.offer(name);
        }
        prop_assert!(nearest.names().count() <= 3);
    }

    /// A typing error in a name that has words is found among others.
    #[test]
    fn a_typing_error_is_found(
        index in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        kind in 0..4,
    ) {
        let name = NAMES[index.index(NAMES.len())];
        let mut wrong = name.split('.').next().expect("a part").to_owned();
        let at = at.index(wrong.len() - 1);
        match kind {
            0 => wrong.insert(at, 'x'),
            1 => drop(wrong.remove(at)),
            2 => wrong.replace_range(at..=at, "x"),
            _ => {
                let letter = wrong.remove(at);
                wrong.insert(at + 1, letter);
            }
        }
        prop_assert!(nearest(&wrong, NAMES).contains(&name), "{}: {:?}", wrong, nearest(&wrong, NAMES));
    }
}
