//! Hits and misses of LRU caches against the definition: an access hits exactly when fewer than
//! `ways` distinct other lines of its set were accessed since the last access to its line.

use outlast_sim::{
    AtomicConfig, AtomicDriver, Cache, CacheConfig, Contents, HierarchyConfig, Inclusion, Preset,
};
use outlast_trace::{LaneId, LineAddr, Op, Sink};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// Hits by definition, in time quadratic in the trace; shares nothing with the caches.
fn hits_by_stack_distance(trace: &[u64], sets: u64, ways: u32) -> u64 {
    let mut hits = 0;
    for (now, &line) in trace.iter().enumerate() {
        let Some(last) = trace[..now].iter().rposition(|&other| other == line) else { continue };
        let between: BTreeSet<u64> = trace[last + 1..now]
            .iter()
            .copied()
            .filter(|other| other % sets == line % sets)
            .collect();
        hits += u64::from(between.len() < ways as usize);
    }
    hits
}

/// Lines with locality: runs, repetitions and jumps.
fn any_trace() -> impl Strategy<Value = Vec<u64>> {
    let piece = prop_oneof![
        (0..200u64, 1..30u64).prop_map(|(from, n)| (from..from + n).collect::<Vec<_>>()),
        (0..200u64, 1..6usize).prop_map(|(line, n)| vec![line; n]),
        proptest::collection::vec(0..64u64, 1..30),
    ];
    proptest::collection::vec(piece, 1..25).prop_map(|pieces| pieces.concat())
}

proptest! {
    #[test]
    fn one_cache_hits_when_the_stack_distance_says_so(
        trace in any_trace(), sets in 1..20u64, ways in 1..25u32,
    ) {
        let mut cache = Cache::new(CacheConfig::new(64 * sets * u64::from(ways), ways), 0).unwrap();
        for &line in &trace {
            if cache.access(LineAddr(line)).is_none() {
                let contents = Contents { data: [0; 64], dirty: false, owned: false, tag: () };
                cache.install(LineAddr(line), &contents);
            }
        }
        let hits = hits_by_stack_distance(&trace, sets, ways);
        prop_assert_eq!(cache.stats.hits, hits);
        prop_assert_eq!(cache.stats.misses, trace.len() as u64 - hits);
    }

    #[test]
    fn the_first_level_of_a_machine_does_too(
        trace in any_trace(), sets in 1..9u64, ways in 1..9u32, stores in any::<u64>(),
    ) {
        // Exclusive: no lower level takes lines out of the first one.
        let l1 = CacheConfig::new(64 * sets * u64::from(ways), ways);
        let caches = HierarchyConfig { l1, inclusion: Inclusion::Exclusive, ..Preset::Tiny.config() };
        let mut driver = AtomicDriver::new(&AtomicConfig::from(caches), 0, &[]).unwrap();
        for (number, &line) in trace.iter().enumerate() {
            let at = LineAddr(line).start();
            let op = match stores >> (number % 64) & 1 {
                0 => Op::Load { at, len: 8, depends: None },
                _ => Op::Store { at, bytes: &[1; 8] },
            };
            driver.op(LaneId(0), op);
        }
        let hits = hits_by_stack_distance(&trace, sets, ways);
        let stats = driver.stats();
        prop_assert_eq!(stats.l1.hits, hits);
        prop_assert_eq!(stats.l1.misses, trace.len() as u64 - hits);
        prop_assert_eq!(stats.llc.hits + stats.llc.misses, stats.l1.misses);
        prop_assert_eq!(stats.traffic.memory_reads, stats.llc.misses);
    }
}
