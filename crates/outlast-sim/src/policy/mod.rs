//! Replacement policies: which line of a full set leaves.
//!
//! One policy is one file; [`Policy::ALL`] and the `match`es of `Replacement` are the table that
//! knows them all. A policy hears of every hit, fill and store in its cache, and is asked for a
//! victim only when all ways of a set are taken.

mod adversarial;
mod bip;
mod lru;
mod plru;
mod random;
mod recency;

pub(crate) use adversarial::Temper;

use crate::config::ConfigError;
use adversarial::Adversarial;
use bip::Bip;
use lru::Lru;
use outlast_trace::Random;
use plru::TreePlru;
use random::RandomVictim;
use std::{fmt, str::FromStr};

/// The replacement policies there are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum Policy {
    /// True least-recently-used order.
    #[default]
    Lru,
    /// Tree pseudo-LRU: one bit per inner node of a binary tree over the ways.
    Plru,
    /// Bimodal insertion: LRU, but a new line enters at the old end 31 times out of 32.
    Bip,
    /// A random way.
    Random,
    /// Chooses what hurts crash consistency: newest dirty lines leave first, at once and
    /// unasked; older ones are held back.
    Adversarial,
}

impl Policy {
    /// Every policy: its name on the command line and what it does, in one line.
    pub const ALL: [(Policy, &str, &str); 5] = [
        (Policy::Lru, "lru", "true least recently used"),
        (Policy::Plru, "plru", "tree pseudo-LRU"),
        (
            Policy::Bip,
            "bip",
            "bimodal insertion: new lines enter at the LRU end, 1 in 32 at the other",
        ),
        (Policy::Random, "random", "a random way"),
        (
            Policy::Adversarial,
            "adversarial",
            "newest dirty lines leave first, at once and unasked; older ones are held back",
        ),
    ];
}

impl fmt::Display for Policy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::ALL[*self as usize].1)
    }
}

impl FromStr for Policy {
    type Err = ConfigError;

    fn from_str(name: &str) -> Result<Self, ConfigError> {
        Self::ALL
            .iter()
            .find(|row| row.1 == name)
            .map(|row| row.0)
            .ok_or_else(|| ConfigError::UnknownPolicy { name: name.to_owned() })
    }
}

/// The state of one cache's policy.
#[derive(Clone, Debug)]
pub(crate) enum Replacement {
    Lru(Lru),
    Plru(TreePlru),
    Bip(Bip),
    Random(RandomVictim),
    Adversarial(Adversarial),
}

impl Replacement {
    pub(crate) fn new(policy: Policy, sets: usize, ways: usize, seed: u64) -> Self {
        let rng = Random::from_state(seed);
        match policy {
            Policy::Lru => Self::Lru(Lru::new(sets, ways)),
            Policy::Plru => Self::Plru(TreePlru::new(sets, ways)),
            Policy::Bip => Self::Bip(Bip::new(sets, ways, rng)),
            Policy::Random => Self::Random(RandomVictim::new(rng)),
            Policy::Adversarial => Self::Adversarial(Adversarial::new(sets, ways, rng)),
        }
    }

    /// A load or store found its line here.
    #[inline]
    pub(crate) fn hit(&mut self, set: usize, way: usize) {
        match self {
            Self::Lru(policy) => policy.hit(set, way),
            Self::Plru(policy) => policy.hit(set, way),
            Self::Bip(policy) => policy.hit(set, way),
            Self::Random(_) | Self::Adversarial(_) => {}
        }
    }

    /// A line was put here.
    #[inline]
    pub(crate) fn filled(&mut self, set: usize, way: usize) {
        match self {
            Self::Lru(policy) => policy.hit(set, way),
            Self::Plru(policy) => policy.hit(set, way),
            Self::Bip(policy) => policy.filled(set, way),
            Self::Random(_) => {}
            Self::Adversarial(policy) => policy.filled(set, way),
        }
    }

    /// The line here took a store, or newer data from above.
    #[inline]
    pub(crate) fn stored(&mut self, set: usize, way: usize) {
        if let Self::Adversarial(policy) = self {
            policy.stored(set, way);
        }
    }

    /// The way whose line leaves; every way of the set holds one. `dirty` tells of a way
    /// whether its line is dirty.
    #[inline]
    pub(crate) fn victim(
        &mut self,
        set: usize,
        ways: usize,
        dirty: impl Fn(usize) -> bool,
    ) -> usize {
        match self {
            Self::Lru(policy) => policy.victim(set),
            Self::Plru(policy) => policy.victim(set),
            Self::Bip(policy) => policy.victim(set),
            Self::Random(policy) => policy.victim(ways),
            Self::Adversarial(policy) => policy.victim(set, dirty),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_policy_is_found_by_the_name_it_prints() {
        for (policy, name, _) in Policy::ALL {
            assert_eq!(policy.to_string(), name);
            assert_eq!(name.parse::<Policy>(), Ok(policy));
        }
        let message = "fifo".parse::<Policy>().unwrap_err().to_string();
        for (_, name, _) in Policy::ALL {
            assert!(message.contains(name), "{message}");
        }
    }
}
