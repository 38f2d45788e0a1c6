//! Random streams of operations of several lanes, over a few lines, for the integration tests.

use outlast_sim::{
    AtomicConfig, CacheConfig, Domain, FlushCompletion, HierarchyConfig, Inclusion, Policy,
};
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink, TxId};
use proptest::prelude::*;

/// Lines that the streams touch: few, so that they meet.
pub const LINES: u64 = 8;

/// The bytes at the start: no word looks like one that a stream stores.
pub fn base() -> Vec<u8> {
    vec![0xee; (LINES * 64) as usize]
}

/// One operation without its data, which its position in the stream decides.
#[derive(Clone, Copy, Debug)]
enum Draw {
    Load { at: u64, len: u64 },
    Store { at: u64, len: u64 },
    Stream { word: u64, words: u64 },
    StreamLine { line: u64 },
    Rmw { word: u64 },
    Flush { kind: FlushKind, line: u64 },
    Sfence,
    Mfence,
    Ack,
}

fn any_draw() -> impl Strategy<Value = Draw> {
    let (bytes, words) = (LINES * 64, LINES * 8);
    let kind =
        prop_oneof![Just(FlushKind::Clwb), Just(FlushKind::ClflushOpt), Just(FlushKind::Clflush),];
    prop_oneof![
        3 => (0..bytes, 1..80u64)
            .prop_map(move |(at, len)| Draw::Load { at, len: len.min(bytes - at) }),
        9 => (0..bytes, prop_oneof![3 => 1..12u64, 1 => 12..80u64])
            .prop_map(move |(at, len)| Draw::Store { at, len: len.min(bytes - at) }),
        2 => (0..words, 1..11u64)
            .prop_map(move |(word, n)| Draw::Stream { word, words: n.min(words - word) }),
        1 => (0..LINES).prop_map(|line| Draw::StreamLine { line }),
        1 => (0..words).prop_map(|word| Draw::Rmw { word }),
        5 => (kind, 0..LINES).prop_map(|(kind, line)| Draw::Flush { kind, line }),
        2 => Just(Draw::Sfence),
        1 => Just(Draw::Mfence),
        1 => Just(Draw::Ack),
    ]
}

/// A stream of up to `ops_max` operations by lanes 0 to 2. Each byte that it stores depends on
/// the operation and the position, so that contents of different times differ.
pub fn any_log(ops_max: usize) -> impl Strategy<Value = OpLog> {
    proptest::collection::vec((0..3u16, any_draw()), 1..ops_max).prop_map(|draws| {
        let mut log = OpLog::default();
        for (number, (lane, draw)) in draws.into_iter().enumerate() {
            let fresh: Vec<u8> = (0..88).map(|n| ((number * 31 + n / 8 * 5) % 200) as u8).collect();
            let data = |len: u64| &fresh[..len as usize];
            let op = match draw {
                Draw::Load { at, len } => {
                    Op::Load { at: PoolOffset(at), len: len as u32, depends: None }
                }
                Draw::Store { at, len } => Op::Store { at: PoolOffset(at), bytes: data(len) },
                Draw::Stream { word, words } => {
                    Op::StoreNt { at: PoolOffset(8 * word), bytes: data(8 * words) }
                }
                Draw::StreamLine { line } => {
                    Op::Store64 { line: LineAddr(line), bytes: fresh.first_chunk().unwrap() }
                }
                Draw::Rmw { word } => Op::Rmw { at: PoolOffset(8 * word), bytes: data(8) },
                Draw::Flush { kind, line } => Op::Flush { kind, line: LineAddr(line) },
                Draw::Sfence => Op::Sfence,
                Draw::Mfence => Op::Mfence,
                Draw::Ack => Op::Ack(TxId(number as u64)),
            };
            log.op(LaneId(lane), op);
        }
        log
    })
}

fn any_cache() -> impl Strategy<Value = CacheConfig> {
    (1..4u64, 1..4u32).prop_map(|(sets, ways)| CacheConfig::new(64 * sets * u64::from(ways), ways))
}

/// Machines of three lanes with caches of a few lines: every policy, both inclusions, both ways
/// to complete a flush, over `domain`.
pub fn any_machine(domain: Domain) -> impl Strategy<Value = AtomicConfig> {
    let inclusion = prop_oneof![Just(Inclusion::Inclusive), Just(Inclusion::Exclusive)];
    let completion = prop_oneof![Just(FlushCompletion::AtFlush), Just(FlushCompletion::AtFence)];
    let levels = (any_cache(), proptest::option::of(any_cache()), any_cache());
    (levels, inclusion, completion, 1..4u16, 0..Policy::ALL.len()).prop_map(
        move |((l1, l2, llc), inclusion, completion, wc_lines, policy)| AtomicConfig {
            caches: HierarchyConfig {
                lanes: 3,
                l1,
                l2,
                llc,
                inclusion,
                wc_lines,
                l1_write_through: false,
            }
            .with_policy(Policy::ALL[policy].0),
            domain,
            completion,
        },
    )
}
