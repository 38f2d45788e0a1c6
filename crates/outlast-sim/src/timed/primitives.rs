//! Costs of the primitive durable operations: store, flush, fence.
//!
//! Each is repeated, on one core with nothing else to do, a number of times and then more often;
//! the difference is its cost, whatever beginning and end cost. The patterns are those of
//! `outlast bench floor`, which measures them on real memory.

use super::{
    config::{MachineConfig, MachineError},
    instr::Source,
    ops::LaneOps,
    ports::NonPers,
    system::{RunError, Setup, System},
};
use outlast_trace::Random;
use outlast_trace::{FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};
use std::sync::Arc;

/// An operation and what it costs on a machine.
#[derive(Clone, PartialEq, Debug)]
pub struct Primitive {
    /// Its name in results.
    pub name: &'static str,
    /// The operation, in one line.
    pub about: &'static str,
    /// Core cycles that one repetition takes.
    pub cycles: f64,
    /// The same in nanoseconds.
    pub ns: f64,
}

/// The reason for which it could not be measured.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PrimitiveError {
    /// There is no such machine.
    #[error(transparent)]
    Machine(#[from] MachineError),
    /// It came to a stop.
    #[error(transparent)]
    Run(#[from] RunError),
}

/// Records `repetitions` of a pattern, on a machine whose last level has `llc_lines` lines.
type Pattern = fn(log: &mut OpLog, repetitions: u64, llc_lines: u64);

const LANE: LaneId = LaneId(0);

/// The patterns: name, what they do, how.
const PATTERNS: &[(&str, &str, Pattern)] = &[
    ("load_l1", "a load that depends on the one before, in the first level", |log, n, _| {
        chase(log, n, 16);
    }),
    ("load_llc", "the same over half of the last level", |log, n, llc| chase(log, n, llc / 2)),
    ("load_memory", "the same over 16 times the last level", |log, n, llc| chase(log, n, 16 * llc)),
    ("store_l1", "a store to a line that is there", |log, n, _| {
        for k in 0..n {
            store(log, LineAddr(k % 16));
        }
    }),
    ("sfence", "a fence with nothing to wait for", |log, n, _| {
        for _ in 0..n {
            log.op(LANE, Op::Sfence);
        }
    }),
    ("clwb_clean", "a flush of a clean line, 16 and a fence", |log, n, _| {
        for k in 0..n {
            flush(log, LineAddr(k % 16));
            if k % 16 == 15 {
                log.op(LANE, Op::Sfence);
            }
        }
    }),
    (
        "persist_1_resident",
        "store, clwb and fence of one line that stays in the cache",
        |log, n, _| {
            persist(log, n, 1, |repetition, _| repetition % 16);
        },
    ),
    ("persist_8_resident", "the same of eight lines with one fence", |log, n, _| {
        persist(log, n, 8, |repetition, k| 8 * (repetition % 2) + k);
    }),
    (
        "persist_8_scattered",
        "eight lines far apart, loaded first, with one fence",
        |log, n, llc| {
            let mut rng = Random::from_state(1);
            for _ in 0..n {
                let lines: Vec<_> = (0..8).map(|_| LineAddr(rng.below(16 * llc))).collect();
                for &line in &lines {
                    load(log, line, None);
                }
                lines.iter().for_each(|&line| store(log, line));
                lines.iter().for_each(|&line| flush(log, line));
                log.op(LANE, Op::Sfence);
            }
        },
    ),
    ("stream_1", "a non-temporal line and a fence", |log, n, llc| stream(log, n, 1, llc)),
    ("stream_16", "sixteen non-temporal lines and a fence", |log, n, llc| stream(log, n, 16, llc)),
];

fn load(log: &mut OpLog, line: LineAddr, depends: Option<u32>) {
    log.op(LANE, Op::Load { at: line.start(), len: 8, depends });
}

fn store(log: &mut OpLog, line: LineAddr) {
    log.op(LANE, Op::Store { at: line.start(), bytes: &[7; 8] });
}

fn flush(log: &mut OpLog, line: LineAddr) {
    log.op(LANE, Op::Flush { kind: FlushKind::Clwb, line });
}

/// Loads that depend on each other, over `lines` lines in a random cycle through all of them.
fn chase(log: &mut OpLog, repetitions: u64, lines: u64) {
    // A full-period generator modulo a power of two visits every line once a round.
    let lines = lines.next_power_of_two();
    let mut line = 0u64;
    for _ in 0..repetitions {
        load(log, LineAddr(line), Some(1));
        line = line.wrapping_mul(0x5_deec_e66d).wrapping_add(11) % lines;
    }
}

fn persist(log: &mut OpLog, repetitions: u64, lines: u64, place: fn(u64, u64) -> u64) {
    for repetition in 0..repetitions {
        (0..lines).for_each(|k| store(log, LineAddr(place(repetition, k))));
        (0..lines).for_each(|k| flush(log, LineAddr(place(repetition, k))));
        log.op(LANE, Op::Sfence);
    }
}

fn stream(log: &mut OpLog, repetitions: u64, lines: u64, llc_lines: u64) {
    let mut next = 0;
    for _ in 0..repetitions {
        for _ in 0..lines {
            log.op(LANE, Op::StoreNt { at: PoolOffset(64 * next), bytes: &[9; 64] });
            next = (next + 1) % (16 * llc_lines);
        }
        log.op(LANE, Op::Sfence);
    }
}

/// Measures every primitive on a machine.
///
/// # Errors
/// When the machine cannot be built, or comes to a stop.
pub fn primitives(config: &MachineConfig) -> Result<Vec<Primitive>, PrimitiveError> {
    let llc_lines = config.llc.size.0 / 64;
    let mut measured = Vec::new();
    for &(name, about, pattern) in PATTERNS {
        // Patterns that need a warm cache get rounds enough through it.
        let warm = match name {
            "load_llc" => 2 * llc_lines,
            "load_memory" => 40_000, // The page table comes into the caches.
            _ => 2_000,
        };
        let cycles = |repetitions| -> Result<u64, PrimitiveError> {
            let mut log = OpLog::default();
            pattern(&mut log, repetitions, llc_lines);
            let source: Box<dyn Source> = Box::new(LaneOps::new(Arc::new(log), LANE));
            let mut system = System::new(config, NonPers, Setup::default(), vec![source])?;
            system.run_to_end()?;
            Ok(system.take_stats().cycles)
        };
        let more = 4_000;
        let cycles = (cycles(warm + more)? - cycles(warm)?) as f64 / more as f64;
        let ns = cycles * config.core.clock.period_fs() as f64 / 1e6;
        measured.push(Primitive { name, about, cycles, ns });
    }
    Ok(measured)
}
