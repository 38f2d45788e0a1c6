//! Random operations of several lanes, on machines so small that nearly every one of them moves
//! lines: what is loaded equals a flat memory, and C1 to C4 hold after each operation.

use super::*;
use crate::config::CacheConfig;
use outlast_trace::FlushKind;
use proptest::prelude::*;

const LINES: u64 = 12;

/// Memory that only counts and stores.
#[derive(Default)]
struct Flat {
    lines: Vec<LineBytes>,
    reads: u64,
    writes: Vec<(LineAddr, Cause)>,
}

impl Flat {
    fn new() -> Self {
        let lines = (0..LINES).map(|n| [n as u8; 64]).collect();
        Self { lines, ..Self::default() }
    }

    fn bytes(&self) -> &[u8] {
        self.lines.as_flattened()
    }
}

impl Backing for Flat {
    fn read(&mut self, line: LineAddr) -> LineBytes {
        self.reads += 1;
        self.lines[line.0 as usize]
    }

    fn write(&mut self, line: LineAddr, words: u8, data: &LineBytes, cause: Cause, _tag: ()) {
        let old = &mut self.lines[line.0 as usize];
        for word in (0..8).filter(|word| words >> word & 1 == 1) {
            old[8 * word..8 * word + 8].copy_from_slice(&data[8 * word..8 * word + 8]);
        }
        self.writes.push((line, cause));
    }
}

#[derive(Clone, Debug)]
enum Step {
    Load {
        at: u64,
        len: usize,
    },
    Store {
        at: u64,
        len: usize,
    },
    Stream {
        word: u64,
        words: usize,
    },
    StreamLine {
        line: u64,
    },
    Flush {
        kind: u8,
        line: u64,
    },
    Fence,
    /// Fetches a line for ownership with no store behind it, so that dirty data which came from
    /// elsewhere is not dirtied again by accident.
    Own {
        line: u64,
    },
}

fn any_step() -> impl Strategy<Value = Step> {
    let (bytes, words) = (LINES * 64, LINES * 8);
    prop_oneof![
        6 => (0..bytes, 1..100usize)
            .prop_map(move |(at, len)| Step::Load { at, len: len.min((bytes - at) as usize) }),
        8 => (0..bytes, 1..100usize)
            .prop_map(move |(at, len)| Step::Store { at, len: len.min((bytes - at) as usize) }),
        3 => (0..words, 1..12usize)
            .prop_map(move |(word, n)| Step::Stream { word, words: n.min((words - word) as usize) }),
        1 => (0..LINES).prop_map(|line| Step::StreamLine { line }),
        3 => (0..3u8, 0..LINES).prop_map(|(kind, line)| Step::Flush { kind, line }),
        1 => Just(Step::Fence),
        3 => (0..LINES).prop_map(|line| Step::Own { line }),
    ]
}

fn any_cache() -> impl Strategy<Value = CacheConfig> {
    (1..4u64, 1..5u32).prop_map(|(sets, ways)| CacheConfig::new(64 * sets * u64::from(ways), ways))
}

fn any_machine() -> impl Strategy<Value = HierarchyConfig> {
    let inclusion = prop_oneof![Just(Inclusion::Inclusive), Just(Inclusion::Exclusive)];
    let levels = (any_cache(), proptest::option::of(any_cache()), any_cache());
    (1..4u16, levels, inclusion, 1..4u16, 0..5usize, any::<bool>()).prop_map(
        |(lanes, (l1, l2, llc), inclusion, wc_lines, policy, through)| {
            let l1_write_through = through && inclusion == Inclusion::Inclusive;
            HierarchyConfig { lanes, l1, l2, llc, inclusion, wc_lines, l1_write_through }
                .with_policy(Policy::ALL[policy].0)
        },
    )
}

/// Asserts C1 to C5 for every line.
fn check_invariants(caches: &Hierarchy, memory: &Flat) {
    let streams: Vec<_> = caches.lanes.iter().flat_map(|lane| lane.wc.held()).collect();
    assert_eq!(streams.len(), caches.streaming);
    for line in (0..LINES).map(LineAddr) {
        let shared = caches.llc.probe(line);
        let below = match shared {
            Some(slot) => caches.llc.data(slot),
            None => &memory.lines[line.0 as usize],
        };
        if let Some(slot) = shared
            && !caches.llc.is_dirty(slot)
        {
            assert_eq!(below, &memory.lines[line.0 as usize], "C2: {line} in the llc");
        }
        let (mut holders, mut owners, mut copies) = (0, 0, usize::from(shared.is_some()));
        for lane in &caches.lanes {
            let Some(newest) = lane.newest(line) else { continue };
            holders += 1;
            owners += usize::from(newest.owned || newest.dirty);
            let mut below = below;
            if caches.write_through {
                let dirty = lane.l1.probe(line).is_some_and(|slot| lane.l1.is_dirty(slot));
                assert!(!dirty, "C5: {line} is dirty in a first level");
            }
            for cache in [Some(&lane.l1), lane.l2.as_ref()].into_iter().rev().flatten() {
                let Some(slot) = cache.probe(line) else { continue };
                copies += 1;
                assert!(cache.is_dirty(slot) || cache.data(slot) == below, "C2: {line}");
                assert_eq!(cache.is_owned(slot), newest.owned, "copies of {line} disagree");
                below = cache.data(slot);
            }
            if caches.inclusion == Inclusion::Inclusive {
                assert!(shared.is_some(), "C3: {line} is not in the llc");
                let middle = lane.l2.as_ref().map(|l2| l2.probe(line).is_some());
                assert_ne!(middle, Some(false), "C3: {line} is not in the l2");
            } else if newest.owned {
                assert_eq!(copies, 1, "C3: {line} is owned and in {copies} places");
            }
            assert!(newest.owned || !newest.dirty, "C1: {line} is dirty but shared");
        }
        assert!(owners == 0 || holders == 1, "C1: {line}: {owners} owners, {holders} holders");
        let streamed = streams.iter().filter(|held| **held == line).count();
        assert!(streamed <= 1, "C4: {line} is streamed twice");
        assert!(streamed == 0 || caches.newest(line).is_none(), "C4: {line} is also cached");
    }
}

fn run(config: &HierarchyConfig, seed: u64, steps: &[(u16, Step)]) {
    let mut caches = Hierarchy::new(config, seed).unwrap();
    let mut memory = Flat::new();
    let mut reference = memory.bytes().to_vec();
    for (number, (lane, step)) in steps.iter().enumerate() {
        let lane = LaneId(lane % config.lanes);
        let fresh: Vec<u8> = (0..100).map(|n| (number * 7 + n) as u8 | 0x40).collect();
        match *step {
            Step::Load { at, len } => {
                let mut loaded = vec![0; len];
                caches.load(lane, PoolOffset(at), &mut loaded, &mut memory);
                assert_eq!(loaded, reference[at as usize..][..len], "step {number}: {step:?}");
            }
            Step::Store { at, len } => {
                reference[at as usize..][..len].copy_from_slice(&fresh[..len]);
                caches.store(lane, PoolOffset(at), &fresh[..len], &mut memory);
            }
            Step::Stream { word, words } => {
                let (at, len) = (8 * word, 8 * words);
                reference[at as usize..][..len].copy_from_slice(&fresh[..len]);
                caches.stream(lane, PoolOffset(at), &fresh[..len], &mut memory);
            }
            Step::StreamLine { line } => {
                let data = fresh.first_chunk().unwrap();
                reference[64 * line as usize..][..64].copy_from_slice(data);
                caches.stream_line(lane, LineAddr(line), data, &mut memory);
            }
            Step::Flush { kind, line } => {
                let kind =
                    [FlushKind::Clwb, FlushKind::ClflushOpt, FlushKind::Clflush][usize::from(kind)];
                let line = LineAddr(line);
                caches.flush(kind, line, &mut memory);
                if caches.lanes.iter().all(|lane| !lane.wc.holds(line)) {
                    let at = line.start().0 as usize;
                    assert_eq!(memory.bytes()[at..at + 64], reference[at..at + 64], "{step:?}");
                }
                assert!(kind == FlushKind::Clwb || caches.newest(line).is_none());
            }
            Step::Fence => caches.drain_streams(lane, &mut memory),
            Step::Own { line } => {
                let lane = usize::from(lane.0);
                let slot = caches.acquire(lane, LineAddr(line), Want::Write, &mut memory);
                assert!(caches.lanes[lane].l1.is_owned(slot));
            }
        }
        check_invariants(&caches, &memory);
    }
    for lane in 0..config.lanes {
        caches.drain_streams(LaneId(lane), &mut memory);
    }
    for line in caches.dirty_lines() {
        caches.flush(FlushKind::Clwb, line, &mut memory);
    }
    assert_eq!(memory.bytes(), reference, "after everything was flushed");
    check_invariants(&caches, &memory);
    let traffic = caches.take_stats().traffic;
    assert_eq!(caches.stats(), HierarchyStats::default());
    assert_eq!(traffic.memory_reads, memory.reads);
    let evicted = memory.writes.iter().filter(|write| write.1 == Cause::Evicted).count() as u64;
    assert_eq!(traffic.memory_evictions, evicted);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    #[cfg_attr(miri, ignore = "caches of megabytes take minutes there")]
    fn caches_of_any_shape_behave_as_one_memory(
        config in any_machine(),
        seed in any::<u64>(),
        steps in proptest::collection::vec((0..4u16, any_step()), 1..200),
    ) {
        run(&config, seed, &steps);
    }
}

#[test]
fn dirty_data_goes_from_lane_to_lane_without_memory() {
    for inclusion in [Inclusion::Inclusive, Inclusion::Exclusive] {
        let config = crate::Preset::Small.config().with_lanes(3).with_inclusion(inclusion);
        let mut caches = Hierarchy::new(&config, 0).unwrap();
        let mut memory = Flat::new();
        let at = PoolOffset(64);
        caches.store(LaneId(0), at, &[0xaa], &mut memory);
        caches.store(LaneId(1), at.plus(1), &[0xbb], &mut memory);
        let mut loaded = [0; 3];
        caches.load(LaneId(2), at, &mut loaded, &mut memory);
        assert_eq!(loaded, [0xaa, 0xbb, 1]);
        assert_eq!(memory.reads, 1);
        assert_eq!(memory.writes, []);
        assert_eq!(caches.stats().traffic.transfers, 2);
        assert_eq!(caches.newest(LineAddr(1)).map(|(_, dirty)| dirty), Some(true));
    }
}

#[test]
#[should_panic(expected = "lane 2 in a machine of 2 lanes")]
fn a_lane_that_is_not_there_is_named() {
    let config = crate::Preset::Tiny.config().with_lanes(2);
    let mut caches = Hierarchy::new(&config, 0).unwrap();
    caches.store(LaneId(2), PoolOffset(0), &[1], &mut Flat::new());
}

#[test]
#[should_panic(expected = "not of whole words")]
fn a_stream_of_half_a_word_is_refused() {
    let mut caches = Hierarchy::new(&crate::Preset::Tiny.config(), 0).unwrap();
    caches.stream(LaneId(0), PoolOffset(8), &[1; 12], &mut Flat::new());
}
