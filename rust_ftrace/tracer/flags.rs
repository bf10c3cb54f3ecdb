// SPDX-License-Identifier: GPL-2.0

//! Flags: sets of them, and words of them that all CPUs share.

use core::marker::PhantomData;

use crate::platform::Word;

/// A kind of flags, each of which is a bit.
pub(crate) trait Flag: Copy {
    /// Returns the flag's bit.
    fn bit(self) -> u64;
}

/// Makes an enum a kind of flags; its values are their bits.
macro_rules! impl_flag {
    ($kind:ty) => {
        impl $crate::rust_ftrace::tracer::flags::Flag for $kind {
            #[inline(always)]
            fn bit(self) -> u64 {
                self as u64
            }
        }
    };
}
pub(super) use impl_flag;

/// A set of flags.
#[derive(Clone, Copy)]
pub(crate) struct FlagSet<F>(u64, PhantomData<F>);

impl<F: Flag> FlagSet<F> {
    /// The set without flags.
    pub(crate) const NONE: Self = Self(0, PhantomData);

    /// Returns the set with `flag` too, if it `is_set`.
    pub(crate) fn with(self, flag: F, is_set: bool) -> Self {
        Self(self.0 | (u64::from(is_set) * flag.bit()), PhantomData)
    }

    /// Returns whether `flag` is in the set.
    #[inline(always)]
    pub(super) fn has(self, flag: F) -> bool {
        self.0 & flag.bit() != 0
    }

    /// Returns whether no flag is in the set.
    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the bits of the flags.
    #[inline(always)]
    pub(super) fn bits(self) -> u64 {
        self.0
    }
}

/// The flags that are set, in a word that all CPUs read, and that is written rarely.
pub(crate) struct SharedFlags<F>(Word, PhantomData<F>);

impl<F: Flag> SharedFlags<F> {
    /// Creates a word with these flags.
    pub(super) const fn new(flags: FlagSet<F>) -> Self {
        Self(Word::new(flags.0), PhantomData)
    }

    /// Sets or clears a flag, fully ordered; false if it was so already.
    pub(super) fn change(&self, flag: F, set: bool) -> bool {
        let before = self.0.change_bits(flag.bit(), set);
        (before & flag.bit() != 0) != set
    }

    /// Replaces all flags, in no order to other accesses.
    pub(super) fn store(&self, flags: FlagSet<F>) {
        self.0.store_relaxed(flags.0);
    }

    /// Takes all flags out, fully ordered, and returns them.
    pub(super) fn take(&self) -> FlagSet<F> {
        FlagSet(self.0.swap(0), PhantomData)
    }

    /// Returns whether a flag is set.
    pub(super) fn has(&self, flag: F) -> bool {
        self.load().has(flag)
    }

    /// Returns all flags, by a load that the compiler may make part of a comparison.
    #[inline(always)]
    pub(super) fn load(&self) -> FlagSet<F> {
        FlagSet(self.0.load_relaxed(), PhantomData)
    }

    /// Returns all flags, by a load that comes before what follows it.
    pub(super) fn load_acquire(&self) -> FlagSet<F> {
        FlagSet(self.0.load_acquire(), PhantomData)
    }
}
