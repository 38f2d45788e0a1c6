//! Sequence numbers: the order of commits, and the lap tags of the log.

use std::fmt;

/// Bits of the counter; the 12 above it are the generation.
const COUNTER_BITS: u32 = 44;

/// The first generation at which recovery scrubs the logs and starts again from 1.
pub const GENERATION_LAST: u64 = (1 << 12) - 1;

/// A generation (one per opening of a pool) and a counter within it, in 56 bits.
///
/// No lane draws a number twice, and the generation grows durably at each opening, so a line
/// that a crash left unfinished can never pass for part of a later record. 2⁴⁴ numbers last 203
/// days at a million transactions a second; running out is an error that reopening cures.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Hash)]
pub struct Seq(u64);

impl Seq {
    /// The last counter of a generation.
    pub const COUNTER_MAX: u64 = (1 << COUNTER_BITS) - 1;

    /// The number `counter` of `generation`.
    pub const fn new(generation: u64, counter: u64) -> Self {
        assert!(generation <= GENERATION_LAST && counter >> COUNTER_BITS == 0);
        Self(generation << COUNTER_BITS | counter)
    }

    /// From the 56 bits that stand on media.
    pub const fn from_bits(bits: u64) -> Self {
        Self(bits)
    }

    /// The 56 bits.
    pub const fn bits(self) -> u64 {
        self.0
    }

    /// Which opening of the pool drew it.
    pub const fn generation(self) -> u64 {
        self.0 >> COUNTER_BITS
    }

    /// Its place within the generation.
    pub const fn counter(self) -> u64 {
        self.0 & ((1 << COUNTER_BITS) - 1)
    }

    /// The number after this one; `None` when the generation has no more.
    pub const fn next(self) -> Option<Self> {
        if (self.counter() + 1) >> COUNTER_BITS != 0 { None } else { Some(Self(self.0 + 1)) }
    }
}

impl fmt::Debug for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.generation(), self.counter())
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_is_by_generation_and_then_by_counter() {
        assert!(Seq::new(2, 0) > Seq::new(1, 999));
        assert_eq!(Seq::new(1, 5).next(), Some(Seq::new(1, 6)));
        assert_eq!(Seq::new(1, (1 << COUNTER_BITS) - 1).next(), None);
    }
}
