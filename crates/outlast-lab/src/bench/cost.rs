//! The cost of persistence: what a transaction takes beyond the same work without logging and
//! flushing, and how that compares with a peer's.
//!
//! Throughput ratios flatter every scheme: where the work itself dominates, all schemes look alike.
//! The cost leaves the work out. It is a difference of two measurements, so it is only formed
//! within a round, where both ran side by side; medians are taken last.

use super::outcome::{Outcome, Round, Timing};
use crate::stats::Spread;

/// One scheme's cost.
#[derive(Clone, PartialEq, Debug)]
pub struct Cost {
    /// Whose.
    pub scheme: String,
    /// Nanoseconds per transaction beyond the bound. May be negative where it is lost in noise.
    pub nanos: Spread,
    /// Against the better peer; `None` where no peer competed, or where that peer took no longer
    /// than the bound in half of the rounds: nothing can be related to a cost that is none.
    pub ratio: Option<Ratio>,
}

/// A cost relative to a peer's.
#[derive(Clone, PartialEq, Debug)]
pub struct Ratio {
    /// The peer with the lower median cost.
    pub peer: String,
    /// Own cost over the peer's, over the rounds in which the peer had one.
    pub spread: Spread,
}

/// By which clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Clock {
    /// Wall time: what a client sees, and what other programs on the machine disturb.
    Wall,
    /// CPU time of the whole process: fences wait in it, `msync` and sleep do not.
    Cpu,
}

impl Clock {
    /// Nanoseconds per transaction; `None` where the system has no such clock.
    fn tx_ns(self, round: &Round) -> Option<f64> {
        match self {
            Self::Wall => Some(round.tx_ns()),
            Self::Cpu => round.tx_cpu_ns(),
        }
    }
}

/// The cost of every subject but `bound`, in their order; nothing if `bound` did not compete
/// or the clock does not exist.
pub fn costs(outcome: &Outcome, clock: Clock, bound: &str, peers: &[&str]) -> Vec<Cost> {
    let Some(bound) = outcome.of(bound) else { return Vec::new() };
    let better = peers
        .iter()
        .filter_map(|peer| outcome.of(peer))
        .filter_map(|peer| Some((peer, beyond(peer, bound, clock)?)))
        .min_by(|a, b| median(&a.1).total_cmp(&median(&b.1)))
        .filter(|(_, costs)| median(costs) > 0.0);
    outcome
        .timings
        .iter()
        .filter(|timing| timing.scheme != bound.scheme)
        .filter_map(|timing| {
            let own = beyond(timing, bound, clock)?;
            let ratio = better.as_ref().and_then(|(peer, theirs)| {
                let by_round = own
                    .iter()
                    .zip(theirs)
                    .filter(|(_, peer)| **peer > 0.0)
                    .map(|(own, peer)| own / peer);
                Some(Ratio { peer: peer.scheme.clone(), spread: Spread::of(by_round)? })
            });
            let nanos = Spread::of(own)?;
            Some(Cost { scheme: timing.scheme.clone(), nanos, ratio })
        })
        .collect()
}

/// Round by round: nanoseconds per transaction more than `bound`'s.
fn beyond(timing: &Timing, bound: &Timing, clock: Clock) -> Option<Vec<f64>> {
    let pairs = timing.rounds.iter().zip(&bound.rounds);
    pairs.map(|(own, base)| Some(clock.tx_ns(own)? - clock.tx_ns(base)?)).collect()
}

fn median(values: &[f64]) -> f64 {
    Spread::of(values.iter().copied()).map_or(f64::INFINITY, |spread| spread.median)
}
