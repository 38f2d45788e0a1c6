//! How long a lane stays away after a conflict.
//!
//! Two lanes that want the same line get on best one after the other, each for a while: a line that
//! changes hands with each transaction is not in the cache of whoever wants it next, and what a
//! transaction has read of it meanwhile is no longer so. Therefore a lane remembers how often it has
//! met others lately. Where conflicts are rare it comes back at once; on a line that all want it
//! stays away while the other commits some hundred times.

/// By so much a conflict heats a lane; a commit cools it by one.
const CONFLICT_HEATS: u32 = 32;

/// 8 << 9 pauses are a hundred microseconds or two.
const DOUBLINGS_MAX: u32 = 9;

/// As many where nothing is remembered from one transaction to the next.
const DOUBLINGS_OF_ONE_MAX: u32 = 7;

/// A lane's memory of its conflicts.
pub(super) struct BackOff {
    random: u64,
    heat: u32,
}

impl BackOff {
    pub fn new(lane: usize) -> Self {
        Self { random: lane as u64 * 2 + 1, heat: 0 }
    }

    /// For how many rounds to wait for others. At least one, at random up to a limit that doubles
    /// with each conflict and halves with every 32 commits.
    pub fn rounds(&mut self) -> u64 {
        self.below(8 << (self.heat / CONFLICT_HEATS))
    }

    /// The lane met others, and its transaction starts over.
    pub fn conflict(&mut self) {
        self.heat = (self.heat + CONFLICT_HEATS).min(DOUBLINGS_MAX * CONFLICT_HEATS);
    }

    /// As [`BackOff::rounds`], where only the conflicts of the transaction itself count.
    pub fn rounds_after(&mut self, conflicts: u32) -> u64 {
        self.below(8 << conflicts.min(DOUBLINGS_OF_ONE_MAX))
    }

    /// A transaction of the lane got through.
    #[inline]
    pub fn committed(&mut self) {
        // Behind a fence a store is dear, and nearly always nothing has changed.
        if self.heat > 0 {
            self.heat -= 1;
        }
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % limit + 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The mean of a thousand waits, with so many commits before each.
    fn mean(commits: u32) -> u64 {
        let mut lane = BackOff::new(3);
        let waits = (0..1000).map(|_| {
            (0..commits).for_each(|_| lane.committed());
            lane.conflict();
            lane.rounds()
        });
        waits.sum::<u64>() / 1000
    }

    #[test]
    fn rare_conflicts_are_waited_for_shortly_and_frequent_ones_long() {
        assert!(mean(100) <= 16, "{}", mean(100));
        assert!(mean(32) <= 16, "{}", mean(32));
        assert!(mean(8) > 200, "{}", mean(8));
        assert!(mean(0) > 300, "{}", mean(0));
    }
}
