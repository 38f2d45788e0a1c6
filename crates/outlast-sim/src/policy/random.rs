//! Random replacement.

use crate::rng::Rng;

/// A way drawn evenly leaves.
#[derive(Clone, Debug)]
pub(crate) struct RandomVictim(Rng);

impl RandomVictim {
    pub(super) fn new(rng: Rng) -> Self {
        Self(rng)
    }

    #[inline]
    pub(super) fn victim(&mut self, ways: usize) -> usize {
        self.0.below(ways as u64) as usize
    }
}
