//! Bimodal insertion (Qureshi et al., ISCA'07): LRU that resists streams.
//!
//! A hit makes a line the youngest, as in LRU. A new line enters as the *oldest*, so that a
//! stream replaces only itself, and as the youngest once in 32 times, so that a working set that
//! changes still gets in.

use super::recency::Recency;
use outlast_trace::Random;

/// How seldom a new line enters as the youngest (the paper's 1/32).
const YOUNG_ONE_IN: u64 = 32;

/// LRU with bimodal insertion.
#[derive(Clone, Debug)]
pub(crate) struct Bip {
    recency: Recency,
    rng: Random,
}

impl Bip {
    pub(super) fn new(sets: usize, ways: usize, rng: Random) -> Self {
        Self { recency: Recency::new(sets, ways), rng }
    }

    #[inline]
    pub(super) fn hit(&mut self, set: usize, way: usize) {
        self.recency.make_youngest(set, way);
    }

    #[inline]
    pub(super) fn filled(&mut self, set: usize, way: usize) {
        if self.rng.one_in(YOUNG_ONE_IN) {
            self.recency.make_youngest(set, way);
        } else {
            self.recency.make_oldest(set, way);
        }
    }

    #[inline]
    pub(super) fn victim(&self, set: usize) -> usize {
        self.recency.oldest(set)
    }
}
