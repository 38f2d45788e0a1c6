//! How many operations per second the atomic driver plays, on three kinds of stream.
//!
//! `cargo run --release -p outlast-sim --example atomic_speed -- [MILLIONS OF OPERATIONS]`
//!
//! - *friendly*: 3 loads for each store, 8 bytes each, at random over 16 KiB.
//! - *transactions*: 16 log bytes, a flush and a fence, 24 bytes of data, a flush and a fence
//!   after each 16 loads, over 2 MiB; three loads in four are in 16 hot KiB.
//! - *random*: 3 loads for each store, at random over 256 MiB.

use outlast_sim::{AtomicConfig, AtomicDriver, Policy, Preset};
use outlast_trace::{FlushKind, LaneId, Op, OpLog, PoolOffset, Random, Sink};
use std::time::Instant;

const LANE: LaneId = LaneId(0);

fn uniform(ops: usize, bytes: u64) -> OpLog {
    let (mut log, mut draw) = (OpLog::default(), Random::new(1));
    for n in 0..ops as u64 {
        let at = PoolOffset(8 * draw.below(bytes / 8));
        match n % 4 {
            0 => log.op(LANE, Op::Store { at, bytes: &n.to_le_bytes() }),
            _ => log.op(LANE, Op::Load { at, len: 8, depends: None }),
        }
    }
    log
}

fn transactions(ops: usize, bytes: u64) -> OpLog {
    let (mut log, mut draw) = (OpLog::default(), Random::new(1));
    let log_bytes = 1 << 20;
    let mut head = 0;
    while log.len() < ops {
        for n in 0..16 {
            let range = if n % 4 == 0 { bytes - log_bytes } else { 16 << 10 };
            let at = PoolOffset(log_bytes + 8 * draw.below(range / 8));
            log.op(LANE, Op::Load { at, len: 8, depends: None });
        }
        for (at, len) in [
            (PoolOffset(head), 16),
            (PoolOffset(log_bytes + 8 * draw.below((bytes - log_bytes) / 8 - 3)), 24),
        ] {
            let payload = [log.len() as u8; 24];
            log.op(LANE, Op::Store { at, bytes: &payload[..len] });
            log.op(LANE, Op::Flush { kind: FlushKind::Clwb, line: at.line() });
            log.op(LANE, Op::Sfence);
        }
        head = (head + 16) % log_bytes;
    }
    log
}

fn main() {
    let millions: usize = std::env::args().nth(1).map_or(4, |n| n.parse().expect("a number"));
    let ops = millions * 1_000_000;
    let streams = [
        ("friendly", uniform(ops, 16 << 10), 16 << 10),
        ("transactions", transactions(ops, 2 << 20), 2 << 20),
        ("random", uniform(ops, 256 << 20), 256 << 20),
    ];
    println!(
        "{:14}{:9}{:13}{:>8}{:>9}{:>12}",
        "stream", "preset", "policy", "Mops/s", "L1 hit", "entries"
    );
    for (name, log, bytes) in &streams {
        for preset in [Preset::Small, Preset::Server] {
            for (policy, policy_name, _) in Policy::ALL {
                let config = AtomicConfig::from(preset.config().with_policy(policy));
                let base = vec![1; *bytes as usize];
                let mut driver =
                    AtomicDriver::new(&config, 7, &base).expect("presets can be built");
                let start = Instant::now();
                for (lane, op) in log.iter() {
                    driver.op(lane, op);
                }
                let seconds = start.elapsed().as_secs_f64();
                let l1 = driver.stats().l1;
                println!(
                    "{name:14}{:9}{policy_name:13}{:8.1}{:9.4}{:12}",
                    preset.to_string(),
                    log.len() as f64 / seconds / 1e6,
                    l1.hits as f64 / (l1.hits + l1.misses) as f64,
                    driver.journal().len(),
                );
            }
        }
    }
}
