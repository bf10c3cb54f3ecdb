// SPDX-License-Identifier: GPL-2.0 OR MIT

//! Errors of functions: their names, and the set of them that `tracing_errno` asks for.

use super::parse::parse_word;

/// The kernel's greatest error code (MAX_ERRNO).
pub const MAX_ERRNO: u64 = 4095;

/// The errors that have names: those of include/uapi/asm-generic/errno.h, and those of
/// include/linux/errno.h that stay within the kernel.
#[rustfmt::skip]
const NAMES: &[(u16, &str)] = &[
    (1, "EPERM"),
    (2, "ENOENT"),
    (3, "ESRCH"),
    (4, "EINTR"),
    (5, "EIO"),
    (6, "ENXIO"),
    (7, "E2BIG"),
    (8, "ENOEXEC"),
    (9, "EBADF"),
    (10, "ECHILD"),
    (11, "EAGAIN"),
    (12, "ENOMEM"),
    (13, "EACCES"),
    (14, "EFAULT"),
    (15, "ENOTBLK"),
    (16, "EBUSY"),
    (17, "EEXIST"),
    (18, "EXDEV"),
    (19, "ENODEV"),
    (20, "ENOTDIR"),
    (21, "EISDIR"),
    (22, "EINVAL"),
    (23, "ENFILE"),
    (24, "EMFILE"),
    (25, "ENOTTY"),
    (26, "ETXTBSY"),
    (27, "EFBIG"),
    (28, "ENOSPC"),
    (29, "ESPIPE"),
    (30, "EROFS"),
    (31, "EMLINK"),
    (32, "EPIPE"),
    (33, "EDOM"),
    (34, "ERANGE"),
    (35, "EDEADLK"),
    (36, "ENAMETOOLONG"),
    (37, "ENOLCK"),
    (38, "ENOSYS"),
    (39, "ENOTEMPTY"),
    (40, "ELOOP"),
    (42, "ENOMSG"),
    (43, "EIDRM"),
    (44, "ECHRNG"),
    (45, "EL2NSYNC"),
    (46, "EL3HLT"),
    (47, "EL3RST"),
    (48, "ELNRNG"),
    (49, "EUNATCH"),
    (50, "ENOCSI"),
    (51, "EL2HLT"),
    (52, "EBADE"),
    (53, "EBADR"),
    (54, "EXFULL"),
    (55, "ENOANO"),
    (56, "EBADRQC"),
    (57, "EBADSLT"),
    (59, "EBFONT"),
    (60, "ENOSTR"),
    (61, "ENODATA"),
    (62, "ETIME"),
    (63, "ENOSR"),
    (64, "ENONET"),
    (65, "ENOPKG"),
    (66, "EREMOTE"),
    (67, "ENOLINK"),
    (68, "EADV"),
    (69, "ESRMNT"),
    (70, "ECOMM"),
    (71, "EPROTO"),
    (72, "EMULTIHOP"),
    (73, "EDOTDOT"),
    (74, "EBADMSG"),
    (75, "EOVERFLOW"),
    (76, "ENOTUNIQ"),
    (77, "EBADFD"),
    (78, "EREMCHG"),
    (79, "ELIBACC"),
    (80, "ELIBBAD"),
    (81, "ELIBSCN"),
    (82, "ELIBMAX"),
    (83, "ELIBEXEC"),
    (84, "EILSEQ"),
    (85, "ERESTART"),
    (86, "ESTRPIPE"),
    (87, "EUSERS"),
    (88, "ENOTSOCK"),
    (89, "EDESTADDRREQ"),
    (90, "EMSGSIZE"),
    (91, "EPROTOTYPE"),
    (92, "ENOPROTOOPT"),
    (93, "EPROTONOSUPPORT"),
    (94, "ESOCKTNOSUPPORT"),
    (95, "EOPNOTSUPP"),
    (96, "EPFNOSUPPORT"),
    (97, "EAFNOSUPPORT"),
    (98, "EADDRINUSE"),
    (99, "EADDRNOTAVAIL"),
    (100, "ENETDOWN"),
    (101, "ENETUNREACH"),
    (102, "ENETRESET"),
    (103, "ECONNABORTED"),
    (104, "ECONNRESET"),
    (105, "ENOBUFS"),
    (106, "EISCONN"),
    (107, "ENOTCONN"),
    (108, "ESHUTDOWN"),
    (109, "ETOOMANYREFS"),
    (110, "ETIMEDOUT"),
    (111, "ECONNREFUSED"),
    (112, "EHOSTDOWN"),
    (113, "EHOSTUNREACH"),
    (114, "EALREADY"),
    (115, "EINPROGRESS"),
    (116, "ESTALE"),
    (117, "EUCLEAN"),
    (118, "ENOTNAM"),
    (119, "ENAVAIL"),
    (120, "EISNAM"),
    (121, "EREMOTEIO"),
    (122, "EDQUOT"),
    (123, "ENOMEDIUM"),
    (124, "EMEDIUMTYPE"),
    (125, "ECANCELED"),
    (126, "ENOKEY"),
    (127, "EKEYEXPIRED"),
    (128, "EKEYREVOKED"),
    (129, "EKEYREJECTED"),
    (130, "EOWNERDEAD"),
    (131, "ENOTRECOVERABLE"),
    (132, "ERFKILL"),
    (133, "EHWPOISON"),
    (134, "EFTYPE"),
    (512, "ERESTARTSYS"),
    (513, "ERESTARTNOINTR"),
    (514, "ERESTARTNOHAND"),
    (515, "ENOIOCTLCMD"),
    (516, "ERESTART_RESTARTBLOCK"),
    (517, "EPROBE_DEFER"),
    (518, "EOPENSTALE"),
    (519, "ENOPARAM"),
    (521, "EBADHANDLE"),
    (522, "ENOTSYNC"),
    (523, "EBADCOOKIE"),
    (524, "ENOTSUPP"),
    (525, "ETOOSMALL"),
    (526, "ESERVERFAULT"),
    (527, "EBADTYPE"),
    (528, "EJUKEBOX"),
    (529, "EIOCBQUEUED"),
    (530, "ERECALLCONFLICT"),
    (531, "ENOGRACE"),
];

/// Other names of errors.
const ALIASES: [(u16, &str); 3] = [(11, "EWOULDBLOCK"), (35, "EDEADLOCK"), (95, "ENOTSUP")];

/// Words of a set: the greatest error that has a name is below 64 times as much.
pub const SET_WORDS: usize = 9;

/// A set of errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ErrnoSet {
    /// All errors, those without names, too.
    pub all: bool,
    /// A bit for each error that is named.
    pub words: [u64; SET_WORDS],
}

impl ErrnoSet {
    /// No errors.
    pub const NONE: Self = Self {
        all: false,
        words: [0; SET_WORDS],
    };

    /// Returns whether no error is in it.
    pub fn is_empty(&self) -> bool {
        !self.all && self.words == [0; SET_WORDS]
    }

    /// Returns whether `errno` is in it.
    pub fn has(&self, errno: u64) -> bool {
        let word = self.words.get((errno / 64) as usize).copied();
        self.all || word.is_some_and(|word| (word >> (errno % 64)) & 1 != 0)
    }

    /// Parses a set: 0 for none, 1 for all, or names with commas between them.
    ///
    /// # Errors
    ///
    /// The byte of `text` at which there is no such name.
    pub fn parse(text: &[u8]) -> Result<Self, usize> {
        let whole = parse_word(text);
        let mut set = Self::NONE;
        match whole {
            b"0" => return Ok(set),
            b"1" => {
                set.all = true;
                return Ok(set);
            }
            _ => {}
        }
        let offset = |part: &[u8]| (part.as_ptr() as usize).wrapping_sub(text.as_ptr() as usize);
        for part in whole.split(|byte| *byte == b',') {
            let name = parse_word(part);
            let mut names = NAMES.iter().chain(&ALIASES);
            let found = names.find(|(_, known)| known.as_bytes() == name);
            let (errno, _) = found.ok_or(offset(part))?;
            let word = set
                .words
                .get_mut(usize::from(errno / 64))
                .ok_or(offset(part))?;
            *word |= 1 << (errno % 64);
        }
        Ok(set)
    }

    /// The names of the errors in it.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        let named = NAMES.iter().filter(|(errno, _)| self.has((*errno).into()));
        named.map(|(_, name)| *name)
    }
}

/// The ways in which a function's result can be an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd)]
#[repr(u8)]
pub enum ResultKind {
    /// In none: it returns nothing, or what is not looked at, as a structure.
    None = 0,
    /// Its result is not known. The function counts as a part of its caller.
    #[default]
    Unknown = 1,
    /// In none: it returns a truth value or another byte.
    Byte = 2,
    /// In none: it returns an unsigned int or an enumeration, in the lower half of the register.
    Half = 3,
    /// As an int, in the lower half of the register.
    Int = 4,
    /// As 64 bits, of a number or a pointer: `IS_ERR_VALUE()`, `IS_ERR()`.
    Long = 5,
}

impl ResultKind {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 6] = [
        Self::None,
        Self::Unknown,
        Self::Byte,
        Self::Half,
        Self::Int,
        Self::Long,
    ];

    /// Returns whether its results can be errors.
    #[inline(always)]
    pub const fn can_fail(self) -> bool {
        matches!(self, Self::Int | Self::Long)
    }

    /// Returns whether it may return an error that something it calls has returned.
    #[inline(always)]
    pub const fn passes_on(self) -> bool {
        matches!(self, Self::Int | Self::Long | Self::Unknown)
    }

    /// Returns whether its results can be shown.
    #[inline(always)]
    pub const fn has_value(self) -> bool {
        !matches!(self, Self::None | Self::Unknown)
    }

    /// The kind of these three bits.
    #[inline(always)]
    pub(super) const fn from_bits(bits: u64) -> Self {
        match bits & 7 {
            0 => Self::None,
            1 => Self::Unknown,
            2 => Self::Byte,
            3 => Self::Half,
            4 => Self::Int,
            _ => Self::Long,
        }
    }

    /// The whole result, by what is in the register.
    #[inline(always)]
    pub const fn value(self, register: u64) -> u64 {
        match self {
            Self::Int => register as u32 as i32 as i64 as u64,
            Self::Byte => register as u8 as u64,
            Self::Half => register as u32 as u64,
            Self::None | Self::Long | Self::Unknown => register,
        }
    }

    /// The error that `value` is; 0 for none.
    #[inline(always)]
    pub const fn errno(self, value: u64) -> u64 {
        let error = value.wrapping_neg();
        if error <= MAX_ERRNO && self.can_fail() {
            error
        } else {
            0
        }
    }
}
