//! Schemes side by side on bare transactions: equal work, each with what it promises.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use outlast_schemes::hwl::{Commit, Hwl, HwlConfig, LogPlace, flush_at_commit};
use outlast_schemes::software::{Logging, SoftwareLog};
use outlast_sim::timed::{
    LaneOps, MachineConfig, NonPers, RunStats, Scheme, Setup, Source, System, WritesByCause,
};
use outlast_trace::{LaneId, LineAddr, Op, OpLog, PoolOffset, Sink, TxId};

use crate::record::{Kind, Metric, Record};

/// The schemes that the timed machine has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SimScheme {
    /// Nothing: plain memory.
    NonPers,
    /// Software undo logging with `clwb`.
    UndoClwb,
    /// Software redo logging with `clwb`.
    RedoClwb,
    /// Hardware undo+redo logging, `clwb` at commit.
    Hwl,
    /// Hardware undo+redo logging, lines forced out by age.
    Fwb,
    /// The same, with a commit as the paper has it: issued, not durable.
    FwbBuffered,
}

impl SimScheme {
    /// Every scheme: its name, what it promises, what it is.
    pub const ALL: [(SimScheme, &str, &str, &str); 6] = [
        (SimScheme::NonPers, "non-pers", "none", "persistent memory as plain working memory"),
        (SimScheme::UndoClwb, "undo-clwb", "durable", "software undo log, data flushed at commit"),
        (SimScheme::RedoClwb, "redo-clwb", "durable", "software redo log, data flushed behind it"),
        (SimScheme::Hwl, "hwl", "durable", "hardware undo+redo log, data flushed at commit"),
        (SimScheme::Fwb, "fwb", "durable", "hardware undo+redo log, data forced out by age"),
        (SimScheme::FwbBuffered, "fwb:buffered", "buffered", "fwb whose commit is only issued"),
    ];

    fn row(self) -> &'static (SimScheme, &'static str, &'static str, &'static str) {
        &Self::ALL[self as usize]
    }
}

impl fmt::Display for SimScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().1)
    }
}

impl FromStr for SimScheme {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.iter().find(|row| row.1 == name).map(|row| row.0).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|row| row.1).collect();
            format!("the machine has no scheme '{name}'; there are {}", names.join(", "))
        })
    }
}

/// Random swaps of words in one vector: the paper's SPS with integer elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Swaps {
    /// Words of the vector, of all threads together; each swaps within its own part.
    pub words: u64,
    /// Transactions of each thread before counting starts, and those that count.
    pub warm_up: u64,
    /// Transactions of each thread that count.
    pub transactions: u64,
    /// Threads, each on a core of its own.
    pub threads: u32,
    /// Feeds what is drawn.
    pub seed: u64,
}

/// Instructions around a swap: drawing two indices, the loop, the call.
const WORK_INSTRUCTIONS: u32 = 40;
/// Slots of the hardware log: 4 MB, as the paper has it.
const LOG_SLOTS: u64 = 65_536;
/// Cycles from one scan to the next for such a log (paper, section VI).
const SCAN_PERIOD: u64 = 3_000_000;
/// Records of the log buffer in the controller (paper, section IV-C).
const LOG_BUFFER: usize = 15;
/// Lines of a lane's software log: a swap needs two.
const SOFTWARE_LOG_LINES: u64 = 64;

impl Swaps {
    /// The bare transactions of each thread, `count` of them.
    fn operations(&self, count: u64) -> OpLog {
        let mut log = OpLog::default();
        let part = self.words / u64::from(self.threads);
        let mut random = self.seed;
        let mut draw = |bound: u64| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            ((u128::from(random ^ (random >> 29)) * u128::from(bound)) >> 64) as u64
        };
        for tx in 0..count {
            for lane in 0..self.threads {
                let lane = LaneId(lane as u16);
                let place = |word| PoolOffset(8 * (u64::from(lane.0) * part + word));
                let (a, b) = (place(draw(part)), place(draw(part)));
                log.op(lane, Op::Compute(WORK_INSTRUCTIONS));
                log.op(lane, Op::TxBegin);
                log.op(lane, Op::Load { at: a, len: 8, depends: None });
                log.op(lane, Op::Load { at: b, len: 8, depends: None });
                log.op(lane, Op::Store { at: a, bytes: &(2 * tx).to_le_bytes() });
                log.op(lane, Op::Store { at: b, bytes: &(2 * tx + 1).to_le_bytes() });
                log.op(lane, Op::TxEnd);
                log.op(lane, Op::Ack(TxId(tx)));
            }
        }
        log
    }

    fn log_base(&self) -> LineAddr {
        LineAddr((8 * self.words).div_ceil(64) + 1)
    }
}

/// Runs the swaps under a scheme on a machine, and returns what was counted behind the warm-up.
///
/// # Errors
/// When the machine cannot be built or comes to a stop.
pub fn run_swaps(
    machine: &MachineConfig,
    scheme: SimScheme,
    swaps: &Swaps,
) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
    if swaps.threads == 0 || swaps.words < 8 * u64::from(swaps.threads) {
        return Err("swaps need a thread, and at least 8 words for each".into());
    }
    let base = swaps.log_base();
    let bare = swaps.operations(swaps.warm_up + swaps.transactions);
    let hwl = |scan_period, commit| HwlConfig {
        log: LogPlace { base, slots: LOG_SLOTS },
        tx_records_max: 64,
        buffer: LOG_BUFFER,
        scan_period,
        commit,
        ordered: true,
    };
    let software = SoftwareLog { base, lines: SOFTWARE_LOG_LINES };
    let (stats, log_full) = match scheme {
        SimScheme::NonPers => (measure(machine, NonPers, swaps, bare)?.0, 0),
        SimScheme::UndoClwb => {
            (measure(machine, NonPers, swaps, software.apply(Logging::Undo, &bare)?)?.0, 0)
        }
        SimScheme::RedoClwb => {
            (measure(machine, NonPers, swaps, software.apply(Logging::Redo, &bare)?)?.0, 0)
        }
        SimScheme::Hwl => {
            let scheme = Hwl::new(hwl(None, Commit::Durable));
            let (stats, scheme) = measure(machine, scheme, swaps, flush_at_commit(&bare))?;
            (stats, scheme.log_full)
        }
        SimScheme::Fwb | SimScheme::FwbBuffered => {
            let durable = scheme == SimScheme::Fwb;
            let commit = if durable { Commit::Durable } else { Commit::Buffered };
            let scheme = Hwl::new(hwl(Some(SCAN_PERIOD), commit));
            let (stats, scheme) = measure(machine, scheme, swaps, bare)?;
            (stats, scheme.log_full)
        }
    };
    Ok(records(machine, scheme, swaps, &stats, log_full))
}

/// What a scheme counted beside the machine.
trait Counted {
    fn counted(&self) -> outlast_schemes::hwl::HwlStats;
}

impl Counted for NonPers {
    fn counted(&self) -> outlast_schemes::hwl::HwlStats {
        outlast_schemes::hwl::HwlStats::default()
    }
}

impl Counted for Hwl {
    fn counted(&self) -> outlast_schemes::hwl::HwlStats {
        self.stats
    }
}

fn measure<S: Scheme + Counted>(
    machine: &MachineConfig,
    scheme: S,
    swaps: &Swaps,
    log: OpLog,
) -> Result<(RunStats, outlast_schemes::hwl::HwlStats), Box<dyn std::error::Error>> {
    let mut machine = machine.clone();
    machine.core.count = machine.core.count.max(swaps.threads);
    let log = Arc::new(log);
    let source = |lane: u32| -> Box<dyn Source> {
        Box::new(LaneOps::new(Arc::clone(&log), LaneId(lane as u16)))
    };
    let sources = (0..swaps.threads).map(source).collect();
    let setup = Setup { seed: swaps.seed, ..Setup::default() };
    let mut system = System::new(&machine, scheme, setup, sources)?;
    // The part of all transactions that is warm-up is the part of all instructions, too. The end
    // is that of the last transaction: what the scheme does afterwards does not count.
    let all = instructions(&log);
    system.run(all / (swaps.warm_up + swaps.transactions).max(1) * swaps.warm_up)?;
    let before = system.take_stats().instructions();
    system.run(all - before)?;
    let counted = system.scheme().counted();
    Ok((system.take_stats(), counted))
}

/// Instructions that a stream of operations is.
fn instructions(log: &OpLog) -> u64 {
    let of = |op: Op<'_>| match op {
        Op::Compute(n) => u64::from(n),
        Op::Load { .. } | Op::Flush { .. } | Op::Sfence => 1,
        Op::Store { bytes, .. } | Op::StoreNt { bytes, .. } => bytes.len().div_ceil(8) as u64,
        _ => 0,
    };
    log.iter().map(|(_, op)| of(op)).sum()
}

fn records(
    machine: &MachineConfig,
    scheme: SimScheme,
    swaps: &Swaps,
    stats: &RunStats,
    log_full: u64,
) -> Vec<Record> {
    let transactions = (swaps.transactions * u64::from(swaps.threads)) as f64;
    let seconds = stats.cycles as f64 * machine.core.clock.period_fs() as f64 / 1e15;
    let config = format!("{} ({})", machine.name, machine.core.kind);
    let record = |metric, value: f64| {
        Record::new(Kind::Sim, "swaps", scheme.row().1, metric, value)
            .threads(swaps.threads)
            .config(&config)
            .guarantee(scheme.row().2)
    };
    let mut records = vec![
        record(Metric::THROUGHPUT, transactions / seconds),
        record(Metric::IPC, stats.ipc()),
        record(Metric::INSTRUCTIONS, stats.instructions() as f64),
        record(Metric::CYCLES, stats.cycles as f64),
    ];
    let fence_cycles: u64 = stats.cores.iter().map(|core| core.fence_cycles).sum();
    records.push(record(Metric::FENCE_CYCLES, fence_cycles as f64));
    records.push(record(Metric::MEMORY_READS, stats.memory.reads as f64));
    for (cause, name) in WritesByCause::CAUSES {
        if stats.writes.of(cause) > 0 {
            records.push(record(Metric::MEMORY_WRITES, stats.writes.of(cause) as f64).class(name));
        }
    }
    if log_full > 0 {
        records.push(record(Metric::LOG_FULL, log_full as f64));
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_logging_beats_software_and_nothing_beats_no_scheme() {
        let machine = MachineConfig::named("hwl").unwrap();
        let swaps = Swaps { words: 1 << 16, warm_up: 300, transactions: 700, threads: 2, seed: 1 };
        let throughput = |scheme| {
            let records = run_swaps(&machine, scheme, &swaps).unwrap();
            records.iter().find(|r| r.is(Metric::THROUGHPUT)).unwrap().value.unwrap()
        };
        let of = SimScheme::ALL.map(|row| throughput(row.0));
        let [non_pers, undo, redo, hwl, fwb, buffered] = of;
        assert!(non_pers >= fwb && non_pers >= undo && non_pers >= redo, "{of:?}");
        assert!(fwb > undo.max(redo) && buffered >= fwb && fwb > hwl * 0.9, "{of:?}");
    }
}
