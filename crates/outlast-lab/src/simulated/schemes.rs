//! Schemes side by side on bare transactions: equal work, each with what it promises.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use outlast_schemes::hwl::{
    self, Commit, Fault, Faults, Flushes, Hwl, HwlConfig, HwlStats, LogPlace, Values, records_max,
    with_calls, with_flushes,
};
use outlast_schemes::software::{self, Data, Initial, Logging, SoftwareLog};
use outlast_schemes::{Patch, RecoveryError};
use outlast_sim::timed::{
    LaneOps, MachineConfig, NonPers, RunStats, Scheme, Setup, Source, System, instructions_of,
};
use outlast_sim::{Cause, instead_of};
use outlast_trace::{LaneId, LineAddr, OpLog};

use super::work::{Plan, Work};
use super::{core_records, memory_records};
use crate::record::{Kind, Metric, Record};

/// The schemes that the timed machine has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SimScheme {
    /// Nothing: plain memory.
    NonPers,
    /// Software undo logging that flushes no data.
    UnsafeUndo,
    /// Software redo logging that flushes no data.
    UnsafeRedo,
    /// Software undo logging with `clwb`.
    UndoClwb,
    /// Software redo logging with `clwb`.
    RedoClwb,
    /// Software undo+redo logging with `clwb`.
    UndoRedoClwb,
    /// `undo-clwb` with its log written round and round.
    UndoRing,
    /// `redo-clwb` with its log written round and round.
    RedoRing,
    /// Hardware undo logging, with nothing that would make it safe.
    HwUlog,
    /// Hardware redo logging, with nothing that would make it safe.
    HwRlog,
    /// Hardware undo+redo logging, `clwb` at commit.
    Hwl,
    /// Hardware undo+redo logging, lines forced out by age.
    Fwb,
    /// The same, with a commit as the paper has it: issued, not durable.
    FwbBuffered,
    /// `hwl` as the paper's text has it.
    HwlLiteral,
    /// `fwb` as the paper's text has it.
    FwbLiteral,
}

/// How a scheme comes about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Make {
    Plain,
    Software(Logging, Data, bool),
    Hardware {
        values: Values,
        forces: bool,
        flushes: Option<Flushes>,
        commit: Commit,
        faults: Faults,
    },
}

/// What the paper leaves out or gets wrong, all of it together.
pub const LITERAL: Faults = Faults::of(&[
    Fault::NoCommit,
    Fault::Mismatch,
    Fault::Unordered,
    Fault::OneLevel,
    Fault::Overwrite,
]);

/// What `hw-ulog` and `hw-rlog` do without.
const BARE_LOG: Faults = Faults::of(&[Fault::Unordered, Fault::Overwrite]);

impl SimScheme {
    /// Every scheme: its name, what it promises, what it is.
    pub const ALL: [(SimScheme, &str, &str, &str); 15] = [
        (SimScheme::NonPers, "non-pers", "none", "persistent memory as plain working memory"),
        (SimScheme::UnsafeUndo, "unsafe-undo", "none", "software undo log, data never flushed"),
        (SimScheme::UnsafeRedo, "unsafe-redo", "none", "software redo log, data never flushed"),
        (SimScheme::UndoClwb, "undo-clwb", "durable", "software undo log, data flushed at commit"),
        (SimScheme::RedoClwb, "redo-clwb", "durable", "software redo log, data flushed behind it"),
        (
            SimScheme::UndoRedoClwb,
            "undo-redo-clwb",
            "durable",
            "software undo+redo log, data flushed behind it",
        ),
        (SimScheme::UndoRing, "undo-clwb:ring", "durable", "undo-clwb with a circular log"),
        (SimScheme::RedoRing, "redo-clwb:ring", "durable", "redo-clwb with a circular log"),
        (SimScheme::HwUlog, "hw-ulog", "none", "hardware undo log alone"),
        (SimScheme::HwRlog, "hw-rlog", "none", "hardware redo log alone"),
        (SimScheme::Hwl, "hwl", "durable", "hardware undo+redo log, data flushed behind it"),
        (SimScheme::Fwb, "fwb", "durable", "hardware undo+redo log, data forced out by age"),
        (SimScheme::FwbBuffered, "fwb:buffered", "buffered", "fwb whose commit is only issued"),
        (SimScheme::HwlLiteral, "hwl:literal", "none", "hwl as the paper's text has it"),
        (SimScheme::FwbLiteral, "fwb:literal", "none", "fwb as the paper's text has it"),
    ];

    fn row(self) -> &'static (SimScheme, &'static str, &'static str, &'static str) {
        &Self::ALL[self as usize]
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// What it promises: `none`, `buffered` or `durable`.
    pub fn guarantee(self) -> &'static str {
        self.row().2
    }

    /// Whether it logs in hardware.
    pub fn has_hardware_log(self) -> bool {
        matches!(self.make(), Make::Hardware { .. })
    }

    /// Whether its hardware forces lines out by age.
    pub fn forces_lines_out(self) -> bool {
        matches!(self.make(), Make::Hardware { forces: true, .. })
    }

    fn make(self) -> Make {
        let hardware = |values, forces, flushes, commit, faults| Make::Hardware {
            values,
            forces,
            flushes,
            commit,
            faults,
        };
        let (durable, buffered) = (Commit::Durable, Commit::Buffered);
        let (at_commit, behind) = (Some(Flushes::AtCommit), Some(Flushes::BehindCommit));
        match self {
            Self::NonPers => Make::Plain,
            Self::UnsafeUndo => Make::Software(Logging::Undo, Data::Left, false),
            Self::UnsafeRedo => Make::Software(Logging::Redo, Data::Left, false),
            Self::UndoClwb => Make::Software(Logging::Undo, Data::Flushed, false),
            Self::RedoClwb => Make::Software(Logging::Redo, Data::Flushed, false),
            Self::UndoRedoClwb => Make::Software(Logging::UndoRedo, Data::Flushed, false),
            Self::UndoRing => Make::Software(Logging::Undo, Data::Flushed, true),
            Self::RedoRing => Make::Software(Logging::Redo, Data::Flushed, true),
            Self::HwUlog => hardware(Values::Undo, false, None, buffered, BARE_LOG),
            Self::HwRlog => hardware(Values::Redo, false, None, buffered, BARE_LOG),
            Self::Hwl => hardware(Values::Both, false, behind, durable, Faults::NONE),
            Self::Fwb => hardware(Values::Both, true, None, durable, Faults::NONE),
            Self::FwbBuffered => hardware(Values::Both, true, None, buffered, Faults::NONE),
            Self::HwlLiteral => hardware(Values::Both, false, at_commit, buffered, LITERAL),
            Self::FwbLiteral => hardware(Values::Both, true, None, buffered, LITERAL),
        }
    }
}

impl fmt::Display for SimScheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SimScheme {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        if name == "ideal" {
            return Ok(Self::NonPers);
        }
        Self::ALL.iter().find(|row| row.1 == name).map(|row| row.0).ok_or_else(|| {
            let instead = instead_of(name, Self::ALL.iter().map(|row| row.1));
            format!("the machine has no scheme '{name}'; {instead}")
        })
    }
}

/// What of hardware logging can be varied.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogOptions {
    /// Slots of the log.
    pub slots: u64,
    /// Times that it may grow.
    pub growths: u8,
    /// Records of the log buffer in the controller.
    pub buffer: usize,
    /// Cycles from one scan to the next.
    pub scan_period: u64,
    /// Whether lines are forced out at all, where the scheme has that.
    pub forces: bool,
    /// What else is left out, beside what the scheme itself does without.
    pub faults: Faults,
    /// Records of the largest transaction, if it is not that of the work.
    pub tx_records_max: Option<u64>,
}

/// Slots of the hardware log: 4 MB, as the paper has it.
pub const LOG_SLOTS: u64 = 65_536;
/// Cycles from one scan to the next for such a log (paper, section VI).
pub const SCAN_PERIOD: u64 = 3_000_000;
/// Records of the log buffer in the controller (paper, section IV-C).
pub const LOG_BUFFER: usize = 15;

impl LogOptions {
    /// The paper's log and period, both divided by the same number.
    pub fn scaled(divisor: u64) -> Self {
        Self {
            slots: LOG_SLOTS / divisor,
            growths: 0,
            buffer: LOG_BUFFER,
            scan_period: SCAN_PERIOD / divisor,
            forces: true,
            faults: Faults::NONE,
            tx_records_max: None,
        }
    }
}

/// A scheme over some work: what each lane runs, and what recovers it.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// Which.
    pub scheme: SimScheme,
    /// The operations.
    pub streams: Vec<Arc<OpLog>>,
    /// Hardware logging.
    pub hwl: Option<HwlConfig>,
    software: Option<(Logging, SoftwareLog, u16)>,
    /// Lines of memory, the log included.
    pub lines: u64,
}

impl Prepared {
    /// The scheme over the work.
    ///
    /// # Errors
    /// When a log is too small for the work's transactions, in one line.
    pub fn new(
        scheme: SimScheme,
        work: &Work,
        options: &LogOptions,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let base = work.end();
        let plain = |lines| Self {
            scheme,
            streams: work.streams.clone(),
            hwl: None,
            software: None,
            lines,
        };
        match scheme.make() {
            Make::Plain => Ok(plain(base.0)),
            Make::Software(logging, data, ring) => {
                if work.plan.switch_every > 0 {
                    return Err(format!(
                        "{scheme}: context switches inside transactions are for hardware schemes: \
                         in software each thread has its own log"
                    )
                    .into());
                }
                let words = work.streams.iter().map(|log| records_max(log)).max().unwrap_or(1);
                let needed = 2 + words.div_ceil(2);
                let share = options.slots / u64::from(work.lanes());
                let lines = if ring { needed.max(share) } else { needed };
                let log = SoftwareLog { base, lines, ring };
                let initial = Initial { origin: 0, bytes: &work.image };
                let apply = |bare: &Arc<OpLog>| -> Result<Arc<OpLog>, software::LogTooSmall> {
                    Ok(Arc::new(log.apply(logging, data, initial, bare)?))
                };
                let streams = work.streams.iter().map(apply).collect::<Result<_, _>>()?;
                let lines = base.0 + log.lines * u64::from(work.lanes());
                Ok(Self { streams, software: Some((logging, log, work.lanes())), ..plain(lines) })
            }
            Make::Hardware { values, forces, flushes, commit, faults } => {
                let largest = || work.streams.iter().map(|log| records_max(log)).max().unwrap_or(1);
                let tx_records_max = options.tx_records_max.unwrap_or_else(largest);
                let faults = faults.and(options.faults);
                // Where nothing waits for room, nobody declares anything.
                let declared = if faults.has(Fault::Overwrite) { 1 } else { tx_records_max };
                let log = LogPlace::create(base, options.slots, options.growths, declared)?;
                let period = (forces && options.forces).then_some(options.scan_period);
                let config = HwlConfig {
                    buffer: options.buffer,
                    commit,
                    values,
                    faults,
                    ..HwlConfig::new(log, declared, period)
                };
                config.check()?;
                let streams = work.streams.iter().map(|log| match flushes {
                    Some(flushes) => Arc::new(with_calls(&with_flushes(log, flushes))),
                    None => Arc::new(with_calls(log)),
                });
                let streams = streams.collect();
                if !faults.has(Fault::Overwrite) {
                    work.streams.iter().try_for_each(|log| config.check_transactions(log))?;
                }
                let lines = base.0 + log.lines();
                Ok(Self { streams, hwl: Some(config), ..plain(lines) })
            }
        }
    }

    /// What the scheme's recovery writes for an image.
    ///
    /// # Errors
    /// When the image cannot be one of a run.
    pub fn recover(&self, image: &[u8]) -> Result<Vec<Patch>, RecoveryError> {
        match (&self.hwl, self.software) {
            (Some(hwl), _) => hwl::recover_as(hwl.log, hwl.values, hwl.faults, image),
            (None, Some((logging, log, lanes))) => software::recover(logging, log, lanes, image),
            (None, None) => Ok(Vec::new()),
        }
    }

    /// The sources of a machine's cores.
    pub fn sources(&self, work: &Work) -> Vec<Box<dyn Source>> {
        let source = |lane: u16| -> Box<dyn Source> {
            let log = Arc::clone(&self.streams[work.stream_of(lane)]);
            Box::new(LaneOps::new(log, LaneId(lane)))
        };
        (0..work.lanes()).map(source).collect()
    }
}

/// Hardware logging of streams of a pattern, whose data lies below `log_at`: the paper's log and
/// period, for transactions of so many stores.
///
/// # Errors
/// When the scheme is not one of hardware logging.
pub fn hwl_of_streams(
    scheme: SimScheme,
    log_at: LineAddr,
    tx_stores: u32,
) -> Result<HwlConfig, String> {
    let Make::Hardware { values, forces, flushes: None, commit, faults } = scheme.make() else {
        return Err(format!(
            "{scheme} changes what a program does: streams run under non-pers, fwb, fwb:buffered, \
             fwb:literal, hw-ulog, hw-rlog"
        ));
    };
    let records_max = u64::from(tx_stores) + 1;
    let declared = if faults.has(Fault::Overwrite) { 1 } else { records_max };
    let log = LogPlace::create(log_at, LOG_SLOTS, 0, declared).map_err(|e| e.to_string())?;
    let period = forces.then_some(SCAN_PERIOD);
    Ok(HwlConfig { commit, values, faults, ..HwlConfig::new(log, declared, period) })
}

/// The machine with as many cores as these threads need.
pub fn with_cores(machine: &MachineConfig, threads: u16) -> MachineConfig {
    let mut machine = machine.clone();
    let cores = u32::from(threads).div_ceil(machine.core.threads);
    machine.core.count = machine.core.count.max(cores);
    machine
}

/// What a run counted behind its warm-up.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Which scheme.
    pub scheme: SimScheme,
    /// Transactions.
    pub transactions: f64,
    /// Seconds of the machine.
    pub seconds: f64,
    /// What the machine counted.
    pub stats: RunStats,
    /// What hardware logging counted, warm-up included.
    pub hwl: HwlStats,
    /// Slots of the hardware log.
    pub log_slots: Option<u64>,
}

impl Measured {
    /// Transactions per second.
    pub fn throughput(&self) -> f64 {
        self.transactions / self.seconds
    }

    /// Days until the line of the hardware log that is written most has had so many writes: its
    /// head, or where that hardly moves any slot.
    pub fn log_lifetime(&self, endurance: u32) -> Option<f64> {
        let slots = self.log_slots.filter(|_| endurance > 0)?;
        let of = |cause| self.stats.writes.of(cause) as f64;
        let a_slot = of(Cause::Logged) / slots as f64;
        let writes = a_slot.max(of(Cause::Metadata));
        (writes > 0.0).then(|| f64::from(endurance) * self.seconds / writes / 86_400.0)
    }

    /// Writes to memory a transaction.
    pub fn writes(&self) -> f64 {
        let all: u64 = self.stats.writes.each().map(|(_, _, count)| count).sum();
        all as f64 / self.transactions
    }
}

/// Runs work under a scheme on a machine.
///
/// # Errors
/// When the machine cannot be built or comes to a stop, or a log is too small.
pub fn measure(
    machine: &MachineConfig,
    scheme: SimScheme,
    work: &Work,
    options: &LogOptions,
) -> Result<Measured, Box<dyn std::error::Error>> {
    let prepared = Prepared::new(scheme, work, options)?;
    let machine = with_cores(machine, work.lanes());
    let (stats, hwl) = match prepared.hwl {
        Some(config) => {
            let (stats, scheme) = run(&machine, Hwl::new(config)?, work, &prepared)?;
            (stats, scheme.stats)
        }
        None => (run(&machine, NonPers, work, &prepared)?.0, HwlStats::default()),
    };
    let Plan { warm_up, transactions, .. } = work.plan;
    let share = transactions as f64 / (warm_up + transactions).max(1) as f64;
    let seconds = stats.cycles as f64 * machine.core.clock.period_fs() as f64 / 1e15;
    let transactions = work.transactions as f64 * share;
    let log_slots = prepared.hwl.map(|config| config.log.slots);
    Ok(Measured { scheme, transactions, seconds, stats, hwl, log_slots })
}

fn run<S: Scheme + Clone>(
    machine: &MachineConfig,
    scheme: S,
    work: &Work,
    prepared: &Prepared,
) -> Result<(RunStats, S), Box<dyn std::error::Error>> {
    let setup = Setup { seed: work.plan.seed, base: work.image.to_vec(), ..Setup::default() };
    let mut system = System::new(machine, scheme, setup, prepared.sources(work))?;
    // The part of all transactions that is warm-up is the part of all instructions, too. The end
    // is that of the last transaction: what the scheme does afterwards does not count.
    let ops = prepared.streams.iter().flat_map(|log| log.iter());
    let all: u64 = ops.map(|(_, op)| instructions_of(op)).sum();
    let Plan { warm_up, transactions, .. } = work.plan;
    system.run(all / (warm_up + transactions).max(1) * warm_up)?;
    let before = system.take_stats().instructions();
    system.run(all - before)?;
    let stats = system.take_stats();
    Ok((stats, system.scheme().clone()))
}

/// Dynamic energy of the memory in a run, in nanojoules, where the machine's memory has energies.
pub fn memory_energy(machine: &MachineConfig, stats: &RunStats) -> Option<f64> {
    stats.memory.energy(&machine.memory).map(|energy| energy.total() / 1e3)
}

/// What a run says as records.
pub fn records(machine: &MachineConfig, work: &Work, measured: &Measured) -> Vec<Record> {
    let Measured { scheme, stats, hwl, .. } = measured;
    let config = format!("{} ({}), {}", machine.name, machine.core.kind, work.describe());
    let record = |metric, value: f64| {
        Record::new(Kind::Sim, work.plan.bench.name, scheme.name(), metric, value)
            .threads(work.plan.threads.into())
            .config(&config)
            .guarantee(scheme.guarantee())
    };
    let mut records = vec![
        record(Metric::THROUGHPUT, measured.throughput()),
        record(Metric::IPC, stats.ipc()),
        record(Metric::INSTRUCTIONS, stats.instructions() as f64),
        record(Metric::CYCLES, stats.cycles as f64),
    ];
    let fence_cycles: u64 = stats.cores.iter().map(|core| core.fence_cycles).sum();
    records.push(record(Metric::FENCE_CYCLES, fence_cycles as f64));
    records.push(record(Metric::MEMORY_READS, stats.memory.reads as f64));
    records.extend(memory_records(machine, stats, record));
    records.extend(core_records(machine, stats, &record));
    if hwl.log_full > 0 {
        records.push(record(Metric::LOG_FULL, hwl.log_full as f64));
    }
    if let Some(days) = measured.log_lifetime(machine.memory.endurance) {
        records.push(record(Metric::LOG_LIFETIME, days));
    }
    records
}

#[cfg(test)]
mod tests {
    use super::super::work::{Bench, MICRO};
    use super::*;

    fn plan(name: &str) -> Plan {
        Plan {
            bench: Bench::named(name).unwrap(),
            footprint: 1 << 19,
            threads: 2,
            warm_up: 300,
            transactions: 700,
            shared: false,
            switch_every: 0,
            seed: 1,
        }
    }

    fn options() -> LogOptions {
        LogOptions { slots: 4096, ..LogOptions::scaled(16) }
    }

    #[test]
    fn hardware_logging_beats_software_and_nothing_beats_no_scheme() {
        let machine = MachineConfig::named("hwl").unwrap();
        let work = plan("sps").work().unwrap();
        let throughput =
            |scheme| measure(&machine, scheme, &work, &options()).unwrap().throughput();
        let of = SimScheme::ALL.map(|row| throughput(row.0));
        let at = |scheme: SimScheme| of[scheme as usize];
        let software = at(SimScheme::UndoClwb).max(at(SimScheme::RedoClwb));
        assert!(of.iter().all(|value| at(SimScheme::NonPers) >= 0.99 * value), "{of:?}");
        assert!(at(SimScheme::Fwb) > software && at(SimScheme::Hwl) > 0.0, "{of:?}");
        assert!(at(SimScheme::FwbBuffered) >= 0.99 * at(SimScheme::Fwb), "{of:?}");
    }

    #[test]
    fn the_log_wears_out_as_fast_as_it_is_written() {
        let mut machine = MachineConfig::named("hwl").unwrap();
        let work = plan("sps").work().unwrap();
        // Small, so that it goes round often.
        let options = LogOptions { slots: 128, ..options() };
        let fwb = measure(&machine, SimScheme::Fwb, &work, &options).unwrap();
        let days = fwb.log_lifetime(machine.memory.endurance).unwrap();
        // Written every so many seconds, a line bears 10^8 times as many.
        let writes = fwb.stats.writes.of(Cause::Logged) as f64 / 128.0;
        let heads = fwb.stats.writes.of(Cause::Metadata) as f64;
        let a_round = heads / writes;
        assert!(writes > 2.0 && (2.0..=9.0).contains(&a_round), "{a_round} heads a round");
        assert!((days * 86_400.0 * heads / fwb.seconds / 1e8 - 1.0).abs() < 1e-9, "{days}");
        let named = |machine: &MachineConfig| {
            let records = records(machine, &work, &fwb);
            records.iter().any(|record| record.metric == Metric::LOG_LIFETIME.name)
        };
        assert!(named(&machine));
        machine.set_option("memory.endurance", "0").unwrap();
        assert!(!named(&machine), "nothing is said where no source says what a line bears");
        let software = measure(&machine, SimScheme::RedoClwb, &work, &options).unwrap();
        assert_eq!(software.log_lifetime(100_000_000), None);
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let machine = MachineConfig::named("hwl").unwrap();
        let run = || {
            let work = plan("hash").work().unwrap();
            measure(&machine, SimScheme::Fwb, &work, &options()).unwrap().stats
        };
        assert_eq!(run(), run());
    }

    #[test]
    fn a_transaction_that_was_not_declared_is_named_and_fits_when_the_log_grows() {
        let work = plan(MICRO[1].name).work().unwrap();
        let declared = LogOptions { tx_records_max: Some(2), ..options() };
        let error = Prepared::new(SimScheme::Fwb, &work, &declared).unwrap_err().to_string();
        assert!(error.contains("2 were declared"), "{error}");
        assert!(
            Prepared::new(SimScheme::Fwb, &work, &LogOptions { growths: 2, ..declared }).is_ok()
        );
        let small = LogOptions { slots: 4, ..options() };
        let error = Prepared::new(SimScheme::Fwb, &work, &small).unwrap_err().to_string();
        assert!(error.contains("4 slots"), "{error}");
    }
}
