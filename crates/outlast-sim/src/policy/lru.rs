//! True least-recently-used replacement.

use super::recency::Recency;

/// The way that was used longest ago leaves.
#[derive(Clone, Debug)]
pub(crate) struct Lru(Recency);

impl Lru {
    pub(super) fn new(sets: usize, ways: usize) -> Self {
        Self(Recency::new(sets, ways))
    }

    #[inline]
    pub(super) fn hit(&mut self, set: usize, way: usize) {
        self.0.make_youngest(set, way);
    }

    #[inline]
    pub(super) fn victim(&self, set: usize) -> usize {
        self.0.oldest(set)
    }
}
