// SPDX-License-Identifier: GPL-2.0 OR MIT

//! BTF, the functions: declarations as C has them.

use super::btf::{kind, KernelTypes};

/// Maximum number of types in a chain: a longer one leads round in a circle.
const DEEPEST: usize = 64;

/// Maximum number of types and bytes of names that a declaration takes. Where two parameters each
/// lead to two others and so on, even [`DEEPEST`] has no end.
const MOST: usize = 1 << 16;

/// Types as compilers name them, and as people do.
const SHORTER: [(&str, &str); 7] = [
    ("short int", "short"),
    ("short unsigned int", "unsigned short"),
    ("long int", "long"),
    ("long unsigned int", "unsigned long"),
    ("long long int", "long long"),
    ("long long unsigned int", "unsigned long long"),
    ("_Bool", "bool"),
];

impl KernelTypes {
    /// Returns the declaration of the function `name`, such as `int kill(pid_t pid, int sig)`.
    /// `None` if it is not known.
    pub fn prototype(&self, name: &str) -> Option<String> {
        let function = self.get(self.function(name)?)?;
        let prototype = self.get(function.size)?;
        (prototype.kind == kind::FUNC_PROTO).then_some(())?;
        let mut left = MOST;
        self.declare(function.size, name.into(), DEEPEST, &mut left)
    }

    /// Writes a declaration: the type `number` around `inner`, the part that has the name.
    fn declare(
        &self,
        number: u32,
        inner: String,
        deepest: usize,
        left: &mut usize,
    ) -> Option<String> {
        let deeper = deepest.checked_sub(1)?;
        *left = left.checked_sub(1 + inner.len())?;
        let join = |left: String| match inner.is_empty() {
            true => left,
            false => format!("{left} {inner}"),
        };
        if number == 0 {
            return Some(join("void".into()));
        }
        let found = self.get(number)?;
        *left = left.checked_sub(self.text(found.name).len())?;
        let name = || match self.text(found.name) {
            "" => "{...}",
            name => {
                let shorter = SHORTER.iter().find(|(long, _)| *long == name);
                shorter.map_or(name, |(_, short)| short)
            }
        };
        let after = self.get(found.size).map(|after| after.kind);
        match found.kind {
            kind::PTR => {
                let pointer = match after {
                    Some(kind::ARRAY | kind::FUNC_PROTO) => format!("(*{inner})"),
                    _ => format!("*{inner}"),
                };
                self.declare(found.size, pointer, deeper, left)
            }
            kind::CONST | kind::VOLATILE | kind::RESTRICT => {
                let word = match found.kind {
                    kind::CONST => "const",
                    kind::VOLATILE => "volatile",
                    _ => "restrict",
                };
                // The name of a pointer is behind its star.
                match after {
                    Some(kind::PTR) if inner.is_empty() => {
                        self.declare(found.size, word.into(), deeper, left)
                    }
                    Some(kind::PTR) => {
                        self.declare(found.size, format!("{word} {inner}"), deeper, left)
                    }
                    _ => Some(format!(
                        "{word} {}",
                        self.declare(found.size, inner, deeper, left)?
                    )),
                }
            }
            kind::TYPE_TAG => {
                let tagged = format!("__{}", name());
                let inner = if inner.is_empty() {
                    tagged
                } else {
                    format!("{tagged} {inner}")
                };
                self.declare(found.size, inner, deeper, left)
            }
            kind::ARRAY => {
                let (element, length) =
                    (self.word(number, &found, 0)?, self.word(number, &found, 2)?);
                self.declare(element, format!("{inner}[{length}]"), deeper, left)
            }
            kind::FUNC_PROTO => {
                let mut parameters = Vec::new();
                for index in 0..found.count {
                    *left = left.checked_sub(1)?;
                    let name = self.word(number, &found, 2 * index)?;
                    parameters.push(match self.word(number, &found, 2 * index + 1)? {
                        0 => "...".into(),
                        parameter => {
                            self.declare(parameter, self.text(name).into(), deeper, left)?
                        }
                    });
                }
                if parameters.is_empty() {
                    parameters.push("void".into());
                }
                let inner = format!("{inner}({})", parameters.join(", "));
                self.declare(found.size, inner, deeper, left)
            }
            kind::STRUCT => Some(join(format!("struct {}", name()))),
            kind::UNION => Some(join(format!("union {}", name()))),
            kind::ENUM | kind::ENUM64 => Some(join(format!("enum {}", name()))),
            kind::FWD if found.flag => Some(join(format!("union {}", name()))),
            kind::FWD => Some(join(format!("struct {}", name()))),
            _ => Some(join(name().into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    /// Returns BTF as bytes: types of name, kind, size or type, and what follows; with the table of
    /// sizes if it has one.
    fn bytes(first_string: usize, types: &[(&str, u32, u32, &[Word])], layout: &[u8]) -> Vec<u8> {
        let mut strings = if first_string == 0 {
            vec![0]
        } else {
            Vec::new()
        };
        let mut string = |text: &str| {
            if text.is_empty() {
                return 0;
            }
            let at = first_string + strings.len();
            strings.extend(text.bytes().chain([0]));
            at as u32
        };
        let mut all = Vec::new();
        for (name, kind, size, rest) in types {
            let count = if *kind == kind::FUNC_PROTO {
                rest.len() as u32 / 2
            } else {
                0
            };
            for word in [string(name), (kind << 24) | count, *size] {
                all.extend(word.to_le_bytes());
            }
            for word in *rest {
                let word = match word {
                    Word::Number(number) => *number,
                    Word::Name(name) => string(name),
                };
                all.extend(word.to_le_bytes());
            }
        }
        let header: usize = if layout.is_empty() { 24 } else { 32 };
        let mut bytes = vec![0x9f, 0xeb, 1, 0];
        let lengths = [all.len(), strings.len(), layout.len()];
        let words = [
            header,
            0,
            lengths[0],
            lengths[0],
            lengths[1],
            lengths[0] + lengths[1],
            lengths[2],
        ];
        bytes.extend(words.iter().flat_map(|word| (*word as u32).to_le_bytes()));
        bytes.truncate(header);
        bytes.extend(all.into_iter().chain(strings).chain(layout.iter().copied()));
        bytes
    }

    #[derive(Clone, Copy)]
    enum Word {
        Number(u32),
        Name(&'static str),
    }
    use Word::{Name, Number};

    const LONG: (&str, u32, u32, &[Word]) = ("long unsigned int", 1, 8, &[Number(64)]);
    const CHAR: (&str, u32, u32, &[Word]) = ("char", 1, 1, &[Number(8)]);

    fn base() -> Vec<u8> {
        bytes(
            0,
            &[
                CHAR,
                ("", kind::CONST, 1, &[]),
                ("", kind::PTR, 2, &[]),
                // 4: char (*)(char *const)
                ("", kind::FUNC_PROTO, 1, &[Name(""), Number(5)]),
                ("", kind::CONST, 6, &[]),
                ("", kind::PTR, 1, &[]),
                ("", kind::PTR, 4, &[]),
                ("pair", kind::STRUCT, 8, &[]),
                // 9: struct pair, 4 of them, and a pointer there
                ("", kind::ARRAY, 0, &[Number(8), Number(1), Number(4)]),
                ("", kind::PTR, 9, &[]),
                (
                    "",
                    kind::FUNC_PROTO,
                    0,
                    &[
                        Name("text"),
                        Number(3),
                        Name("call"),
                        Number(7),
                        Name("all"),
                        Number(10),
                        Name(""),
                        Number(0),
                    ],
                ),
                ("print", kind::FUNC, 11, &[]),
                ("", kind::FUNC_PROTO, 6, &[]),
                ("next", kind::FUNC, 13, &[]),
                ("bpf_kfunc", kind::DECL_TAG, 14, &[Number(u32::MAX)]),
            ],
            &[],
        )
    }

    #[test]
    fn functions_are_declared_as_c_does() {
        let btf = KernelTypes::new(base(), None).unwrap();
        assert_eq!(
            btf.prototype("print").unwrap(),
            "void print(const char *text, char (*call)(char *const), struct pair (*all)[4], ...)"
        );
        assert_eq!(btf.prototype("next").unwrap(), "char *next(void)");
        assert_eq!(btf.prototype("char"), None);
        assert_eq!(btf.kfuncs(), ["next"]);
    }

    #[test]
    fn a_module_goes_on_where_the_kernel_ends() {
        let base = Arc::new(KernelTypes::new(base(), None).unwrap());
        let first = base.string_bytes();
        let own = bytes(
            first,
            &[
                ("", kind::FUNC_PROTO, 8, &[Name("from"), Number(18)]),
                ("load", kind::FUNC, 16, &[]),
                ("", kind::PTR, 3, &[]),
            ],
            &[],
        );
        let module = KernelTypes::new(own, Some(base)).unwrap();
        let load = "struct pair load(const char **from)";
        assert_eq!(module.prototype("load").unwrap(), load);
        assert_eq!(module.prototype("next").unwrap(), "char *next(void)");
    }

    #[test]
    fn kinds_of_a_later_kernel_are_skipped_by_their_sizes() {
        let types: &[(&str, u32, u32, &[Word])] = &[
            ("", 20, 0, &[Number(1), Number(2)]),
            LONG,
            ("", kind::FUNC_PROTO, 2, &[]),
            ("next", kind::FUNC, 3, &[]),
        ];
        let mut layout = vec![0; 4 * 21];
        layout[4 * 20] = 8;
        let btf = KernelTypes::new(bytes(0, types, &layout), None).unwrap();
        assert_eq!(btf.prototype("next").unwrap(), "unsigned long next(void)");
        assert!(KernelTypes::new(bytes(0, types, &[]), None).is_none());
    }

    /// BTF that is cut, spoilt, or led round in a circle ends without a panic.
    #[test]
    fn what_is_no_btf_is_survived() {
        let good = base();
        for length in 0..good.len() {
            assert!(
                KernelTypes::new(good[..length].to_vec(), None).is_none(),
                "{length}"
            );
        }
        for at in 0..good.len() {
            for byte in [0, 1, 0x0a, 0xff] {
                let mut spoilt = good.clone();
                spoilt[at] = byte;
                if let Some(btf) = KernelTypes::new(spoilt, None) {
                    let _ = (btf.prototype("print"), btf.prototype("next"), btf.kfuncs());
                }
            }
        }
        let circle = bytes(
            0,
            &[("", kind::FUNC_PROTO, 1, &[]), ("f", kind::FUNC, 1, &[])],
            &[],
        );
        assert_eq!(KernelTypes::new(circle, None).unwrap().prototype("f"), None);
        // With two ways on at each step, a bound of the depth alone would not end in a lifetime.
        let two = [Name("a"), Number(2), Name("b"), Number(2)];
        let bush = bytes(
            0,
            &[
                ("", kind::FUNC_PROTO, 0, &two),
                ("", kind::PTR, 1, &[]),
                ("f", kind::FUNC, 1, &[]),
            ],
            &[],
        );
        assert_eq!(KernelTypes::new(bush, None).unwrap().prototype("f"), None);
    }
}
