//! Links that a damaged pool may have tied into a ring.

use super::damaged;
use crate::{Abort, PoolOffset};

/// Follows a chain of lines or blocks and notices a ring, after at most three times round: one place
/// is remembered for as long again as it took to get there (Brent's algorithm).
pub(crate) struct Chain {
    remembered: PoolOffset,
    steps: u64,
}

impl Chain {
    pub fn from(start: PoolOffset) -> Self {
        Self { remembered: start, steps: 0 }
    }

    /// Goes on to the next place of the chain.
    ///
    /// # Errors
    /// [`Abort::Damaged`] when the chain was there before.
    #[inline]
    pub fn follow(&mut self, next: PoolOffset) -> Result<(), Abort> {
        if next == self.remembered {
            return Err(damaged(next, "a chain that comes back to where it was"));
        }
        self.steps += 1;
        if self.steps.is_power_of_two() {
            self.remembered = next;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_ring_is_noticed_and_no_chain_without_one() {
        for (lead, ring) in (0..20).flat_map(|lead| (1..20).map(move |ring| (lead, ring))) {
            let place = |n: u64| PoolOffset(if n < lead { n } else { lead + (n - lead) % ring });
            let mut chain = Chain::from(place(0));
            let steps = (1..).take_while(|n| chain.follow(place(*n)).is_ok()).count() as u64;
            assert!(
                (lead + ring - 1..=3 * (lead + ring)).contains(&steps),
                "{lead}, {ring}: {steps}"
            );
        }
        let mut chain = Chain::from(PoolOffset(0));
        assert!((1..1000).all(|n| chain.follow(PoolOffset(n)).is_ok()));
    }
}
