//! How long a lane backs off after a conflict.
//!
//! Two lanes that want the same line get on best one after the other, each for a while: a line that
//! changes hands with each transaction is not in the cache of the lane that wants it next, and what a
//! transaction has read of it meanwhile is no longer so. Therefore a lane remembers how often it has
//! met others lately. Where conflicts are rare it comes back at once; on a line that all want it
//! [backs off](crate::solo) while the other commits some hundred times.

use std::sync::atomic::Ordering;
use std::time::Duration;

use outlast_pmem::Medium;

use crate::spin::wait;
use crate::tx::Tx;

/// By so much a conflict heats a lane; a commit cools it by one.
const CONFLICT_HEATS: u32 = 32;

/// From here on a wait is long, and the waiting lane does nothing else meanwhile.
const HOT: u32 = 6 * CONFLICT_HEATS;

/// 8 << 9 pauses are a hundred microseconds or two.
const DOUBLINGS_MAX: u32 = 9;

/// As many where nothing is remembered from one transaction to the next.
const DOUBLINGS_OF_ONE_MAX: u32 = 7;

/// A lane that waits for this many rounds outside has backed off: it would yield, and may come back much later.
const AWAY_FROM: u64 = 64;

/// The same under a scheduler, so that it backs off sometimes.
const AWAY_FROM_OBSERVED: u64 = 5;

/// Rounds from which on a lane that has backed off sleeps.
const SLEEPS_FROM: u64 = 512;

/// About as long as a round takes.
const ROUND: Duration = Duration::from_nanos(25);

/// A lane's memory of its conflicts.
pub(crate) struct BackOff {
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

    /// Whether the lane has met others so often that it had better [back off](crate::solo), outside.
    pub fn is_hot(&self) -> bool {
        self.heat >= HOT
    }

    /// The lane met others, and its transaction starts over.
    pub fn conflict(&mut self) {
        self.heat = (self.heat + CONFLICT_HEATS).min(DOUBLINGS_MAX * CONFLICT_HEATS);
    }

    /// As [`BackOff::rounds`], where only the conflicts of the transaction itself count.
    pub fn rounds_after(&mut self, conflicts: u32) -> u64 {
        self.below(8 << conflicts.min(DOUBLINGS_OF_ONE_MAX))
    }

    /// A transaction of the lane got through beside others.
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

impl<M: Medium> Tx<'_, M> {
    /// As [`back_off`](Self::back_off), outside. Where that takes long, the lane that is left alone meanwhile
    /// runs without locks (SOLO-3). The last one who is awake does not wait long (SOLO-4), nor does one for
    /// which all others wait.
    pub(super) fn stay_away(&mut self, conflicts: u32) {
        let rounds = self.rounds_of_back_off(conflicts);
        let is_short = rounds < if M::OBSERVED { AWAY_FROM_OBSERVED } else { AWAY_FROM };
        let is_privileged = self.pool.privileged.load(Ordering::Relaxed) == self.lane.id as u64 + 1;
        let goes = !is_short && !is_privileged;
        let apart = if goes { self.pool.solo.back_off() } else { None };
        match apart {
            Some(_apart) if !M::OBSERVED && rounds >= SLEEPS_FROM => {
                std::thread::sleep(ROUND * rounds as u32);
            }
            Some(_apart) => self.pause(rounds),
            None => self.pause(rounds.min(AWAY_FROM - 1)),
        }
    }

    /// Lets others go ahead. A scheduler gives them their time by itself, so that under one only
    /// the conflicts of this transaction count.
    pub(crate) fn back_off(&mut self, conflicts: u32) {
        let rounds = self.rounds_of_back_off(conflicts);
        self.pause(rounds);
    }

    fn rounds_of_back_off(&mut self, conflicts: u32) -> u64 {
        let backoff = &mut self.lane.backoff;
        if M::OBSERVED { backoff.rounds_after(conflicts) } else { backoff.rounds() }
    }

    fn pause(&self, rounds: u64) {
        let mut tries = 0;
        for _ in 0..rounds {
            wait(&self.pool.medium, &mut tries);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use outlast_pmem::Heap;

    use super::*;
    use crate::medium::{CreateOptions, OpenOptions};
    use crate::pool::{Lane, Pool};
    use crate::{BlockKind, Runner, Transact};

    /// The mean of a thousand waits, with `commits` commits before each.
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

    fn runs_alone(lane: &mut Lane<'_, Heap>) -> bool {
        lane.run(|tx| tx.alloc(64, BlockKind::General).and_then(|block| tx.free(block))).unwrap();
        lane.tx.as_ref().unwrap().is_alone()
    }

    #[test]
    fn whoever_is_left_by_a_lane_with_many_conflicts_runs_alone() {
        let create = CreateOptions { lanes: 2, ..CreateOptions::default() };
        let open = OpenOptions { lock_stripes: 1 << 10, ..OpenOptions::default() };
        let pool = Pool::create_on(Heap::new(1 << 20), &create, &open).unwrap();
        let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
        assert!(runs_alone(&mut one), "the other has begun nothing");
        assert!(!runs_alone(&mut two) && !runs_alone(&mut one));
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    two.tx.as_mut().unwrap().give_way(1);
                }
            });
            let was_alone = (0..100_000).any(|_| runs_alone(&mut one));
            over.store(true, Ordering::Relaxed);
            assert!(was_alone, "it is never left alone");
        });
        assert!(!runs_alone(&mut two) && !runs_alone(&mut one), "both are back");
    }
}
