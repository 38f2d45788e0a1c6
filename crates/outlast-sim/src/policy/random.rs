//! Random replacement.

use outlast_trace::Random;

/// A way drawn evenly leaves.
#[derive(Clone, Debug)]
pub(crate) struct RandomVictim(Random);

impl RandomVictim {
    pub(super) fn new(rng: Random) -> Self {
        Self(rng)
    }

    #[inline]
    pub(super) fn victim(&mut self, ways: usize) -> usize {
        self.0.below(ways as u64) as usize
    }
}
