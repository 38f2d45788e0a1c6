//! Tree pseudo-LRU and bimodal insertion against models written another way.

use outlast_sim::{Cache, CacheConfig, Contents, Policy};
use outlast_trace::LineAddr;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn one_set(policy: Policy, ways: u32, seed: u64) -> Cache {
    Cache::new(CacheConfig { size_bytes: 64 * u64::from(ways), ways, policy }, seed).unwrap()
}

/// Accesses a line; `Some` with what had to leave when it was not there.
fn access(cache: &mut Cache, line: u64) -> Option<Option<u64>> {
    match cache.access(LineAddr(line)) {
        Some(_) => None,
        None => {
            let contents = Contents { data: [0; 64], dirty: false, owned: false, tag: () };
            let (_, evicted) = cache.install(LineAddr(line), &contents);
            Some(evicted.map(|evicted| evicted.line.0))
        }
    }
}

/// A binary tree over a slice of ways that remembers which half was used last.
enum Tree {
    Way(Option<u64>),
    Node { used_right: Option<bool>, halves: Box<[Tree; 2]> },
}

impl Tree {
    fn new(ways: u32) -> Self {
        match ways {
            1 => Tree::Way(None),
            _ => Tree::Node {
                used_right: None,
                halves: Box::new([Tree::new(ways / 2), Tree::new(ways / 2)]),
            },
        }
    }

    /// Uses the line if it is here.
    fn hit(&mut self, line: u64) -> bool {
        match self {
            Tree::Way(held) => *held == Some(line),
            Tree::Node { used_right, halves } => {
                for right in [false, true] {
                    if halves[usize::from(right)].hit(line) {
                        *used_right = Some(right);
                        return true;
                    }
                }
                false
            }
        }
    }

    /// Puts the line into the first empty way, going left to right.
    fn fill_empty(&mut self, line: u64) -> bool {
        match self {
            Tree::Way(held @ None) => {
                *held = Some(line);
                true
            }
            Tree::Way(Some(_)) => false,
            Tree::Node { used_right, halves } => {
                for right in [false, true] {
                    if halves[usize::from(right)].fill_empty(line) {
                        *used_right = Some(right);
                        return true;
                    }
                }
                false
            }
        }
    }

    /// Puts the line where the less recently used halves lead; returns what was there.
    fn replace(&mut self, line: u64) -> Option<u64> {
        match self {
            Tree::Way(held) => held.replace(line),
            Tree::Node { used_right, halves } => {
                let right = *used_right == Some(false);
                *used_right = Some(right);
                halves[usize::from(right)].replace(line)
            }
        }
    }
}

proptest! {
    #[test]
    fn tree_plru_follows_its_tree(
        log_ways in 0..6u32, trace in proptest::collection::vec(0..80u64, 1..600),
    ) {
        let ways = 1 << log_ways;
        let mut cache = one_set(Policy::Plru, ways, 0);
        let mut tree = Tree::new(ways);
        for &line in &trace {
            let line = line % (2 * u64::from(ways) + 1);
            let expected = if tree.hit(line) {
                None
            } else if tree.fill_empty(line) {
                Some(None)
            } else {
                Some(tree.replace(line))
            };
            prop_assert_eq!(access(&mut cache, line), expected);
        }
    }

    #[test]
    fn tree_plru_of_any_width_spares_the_last_used(
        ways in 2..24u32, trace in proptest::collection::vec(0..40u64, 1..400),
    ) {
        let mut cache = one_set(Policy::Plru, ways, 0);
        let mut last = None;
        for &line in &trace {
            if let Some(Some(evicted)) = access(&mut cache, line) {
                prop_assert_ne!(Some(evicted), last);
            }
            last = Some(line);
        }
    }

    #[test]
    fn bip_inserts_at_one_end_or_the_other(
        ways in 2..12usize, seed in any::<u64>(),
        trace in proptest::collection::vec(0..24u64, 1..500),
    ) {
        // Each fill goes to the old end or to the young one. The model follows both, and what
        // is evicted must agree with at least one history.
        let mut cache = one_set(Policy::Bip, ways as u32, seed);
        let mut orders = BTreeSet::from([Vec::<u64>::new()]); // oldest first
        for &line in &trace {
            let outcome = access(&mut cache, line);
            let mut next = BTreeSet::new();
            for mut order in std::mem::take(&mut orders) {
                match (outcome, order.iter().position(|&held| held == line)) {
                    (None, Some(at)) => {
                        order.remove(at);
                        order.push(line);
                        next.insert(order);
                    }
                    (Some(evicted), None) => {
                        if (order.len() < ways) != evicted.is_none() {
                            continue;
                        }
                        if let Some(evicted) = evicted && order.remove(0) != evicted {
                            continue;
                        }
                        let mut young = order.clone();
                        young.push(line);
                        order.insert(0, line);
                        next.extend([young, order]);
                    }
                    _ => {}
                }
            }
            prop_assert!(!next.is_empty(), "no history explains {:?} at {}", outcome, line);
            orders = next;
        }
    }
}

#[test]
fn bip_keeps_part_of_a_loop_that_lru_loses() {
    let (ways, rounds) = (16, 400);
    let hits = |policy| {
        let mut cache = one_set(policy, ways, 7);
        for line in (0..rounds).flat_map(|_| 0..2 * u64::from(ways)) {
            access(&mut cache, line);
        }
        cache.stats.hits
    };
    assert_eq!(hits(Policy::Lru), 0);
    // At best 15 of 32 accesses hit; nearly that share must, once lines have got in.
    let accesses = rounds * 2 * u64::from(ways);
    let share = hits(Policy::Bip) as f64 / accesses as f64;
    assert!((0.35..15.0 / 32.0).contains(&share), "{share}");
}

#[test]
fn bip_lets_one_fill_in_thirty_two_enter_young() {
    // With two ways, of which one is kept young by hits, a fill that entered young is seen at
    // once: the next fill evicts the other line.
    let mut cache = one_set(Policy::Bip, 2, 11);
    let fills = 64_000;
    let mut young = 0;
    let mut kept = 0;
    access(&mut cache, 0);
    access(&mut cache, 1);
    access(&mut cache, kept);
    for line in 2..fills {
        let evicted = access(&mut cache, line).flatten().unwrap();
        if evicted == kept {
            // The one before had entered young, so the kept line was the oldest.
            young += 1;
            kept = line - 1;
        }
    }
    let share = young as f64 / fills as f64;
    assert!((0.025..0.038).contains(&share), "{young} of {fills}");
}

#[test]
fn random_spares_no_way_and_follows_its_seed() {
    let run = |seed| {
        let mut cache = one_set(Policy::Random, 8, seed);
        (0..4000).filter_map(|line| access(&mut cache, line).flatten()).collect::<Vec<_>>()
    };
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
    // Lines stay for a geometric time with mean 8 fills: some leave at once, some stay long.
    let ages: Vec<u64> =
        run(3).iter().enumerate().map(|(nth, line)| nth as u64 + 8 - line).collect();
    let mean = ages.iter().sum::<u64>() as f64 / ages.len() as f64;
    assert!((7.0..9.0).contains(&mean), "{mean}");
    assert!(ages.contains(&1) && ages.iter().any(|&age| age > 24));
}
