//! Schemes side by side on bare transactions: equal work, each with what it promises.

use std::sync::Arc;

use outlast_crash::Violation;
use outlast_crash::machine::{Campaign, CrashEntry, Report, with_cores, work_of};
use outlast_schemes::{MachineScheme, Options, Prepared};
use outlast_sim::timed::{
    LaneOps, Machine, MachineConfig, RunStats, Setup, Source, instructions_of,
};
use outlast_trace::LaneId;
use outlast_workloads::machine::{Plan, Recorded};

use super::{core_records, memory_records};
use crate::clock::Stopwatch;
use crate::record::{FailedPoint, Kind, Metric, Record};

/// What a run counted behind its warm-up.
#[derive(Clone, Debug)]
pub struct Measured {
    /// Which scheme.
    pub scheme: MachineScheme,
    /// Transactions.
    pub transactions: f64,
    /// Seconds of the machine.
    pub seconds: f64,
    /// What the machine counted.
    pub stats: RunStats,
    /// Instructions simulated in a second of this computer's processor, warm-up included.
    speed: f64,
    /// Writes to the line of the scheme's own that is written most.
    hottest: Option<f64>,
}

impl Measured {
    /// Transactions per second.
    pub fn throughput(&self) -> f64 {
        self.transactions / self.seconds
    }

    /// Days until the scheme's own line that is written most has had `endurance` writes.
    pub fn log_lifetime(&self, endurance: u32) -> Option<f64> {
        let writes = self.hottest.filter(|writes| endurance > 0 && *writes > 0.0)?;
        Some(f64::from(endurance) * self.seconds / writes / 86_400.0)
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
/// When the machine cannot be built or comes to a stop, or the scheme cannot take the work.
pub fn measure(
    machine: &MachineConfig,
    scheme: MachineScheme,
    work: &Recorded,
    options: &Options,
) -> Result<Measured, Box<dyn std::error::Error>> {
    let prepared = scheme.prepare(&work_of(work), options, None)?;
    let setup = Setup { seed: work.plan.seed, base: work.image.to_vec(), ..Setup::default() };
    let sources = sources(prepared.as_ref(), work.lanes());
    let Plan { warm_up, transactions, .. } = work.plan;
    let timed = time(machine, prepared.as_ref(), setup, sources, (warm_up, transactions))?;
    let share = transactions as f64 / (warm_up + transactions).max(1) as f64;
    Ok(Measured {
        scheme,
        transactions: work.transactions as f64 * share,
        seconds: timed.seconds,
        speed: timed.speed,
        hottest: prepared.writes_to_hottest_line(&timed.stats),
        stats: timed.stats,
    })
}

/// A machine at its end, with what it counted behind its warm-up.
pub(crate) struct Timed {
    /// What it counted.
    pub stats: RunStats,
    /// Seconds of the machine that took.
    pub seconds: f64,
    /// Instructions simulated in a second of this computer's processor, warm-up included.
    pub speed: f64,
    /// The machine.
    pub machine: Box<dyn Machine>,
    /// Entries that its journal had at the end of the warm-up, if it has one.
    pub warm_entries: usize,
}

/// Runs what a scheme has prepared, to the end of its last transaction: what the scheme does
/// afterwards does not count. Of the transactions the first `warm_up` do not count, and
/// `transactions` do; the part of all transactions that is warm-up is that of instructions, too.
///
/// # Errors
/// When the machine cannot be built or comes to a stop.
pub(crate) fn time(
    config: &MachineConfig,
    prepared: &dyn Prepared,
    setup: Setup,
    sources: Vec<Box<dyn Source>>,
    (warm_up, transactions): (u64, u64),
) -> Result<Timed, Box<dyn std::error::Error>> {
    let with_cores = with_cores(config, sources.len() as u16);
    let mut machine = prepared.machine(&with_cores, setup, sources)?;
    let watch = Stopwatch::new();
    let ops = prepared.streams().iter().flat_map(|log| log.iter());
    let all: u64 = ops.map(|(_, op)| instructions_of(op)).sum();
    machine.run(all / (warm_up + transactions).max(1) * warm_up)?;
    let warm_entries = machine.journal().map_or(0, |journal| journal.journal().len());
    let before = machine.take_stats().instructions();
    machine.run(all - before)?;
    let stats = machine.take_stats();
    let elapsed = watch.elapsed();
    let cpu_s = elapsed.cpu.unwrap_or(elapsed.wall).as_secs_f64();
    let speed = (before + stats.instructions()) as f64 / cpu_s.max(1e-9);
    let seconds = stats.cycles as f64 * config.core.clock.period_fs() as f64 / 1e15;
    Ok(Timed { stats, seconds, speed, machine, warm_entries })
}

/// The sources of a machine's cores: each lane's stream, or that of all.
pub(crate) fn sources(prepared: &dyn Prepared, lanes: u16) -> Vec<Box<dyn Source>> {
    let source = |lane: u16| -> Box<dyn Source> {
        let streams = prepared.streams();
        let of_lane = if streams.len() == 1 { 0 } else { usize::from(lane) };
        Box::new(LaneOps::new(Arc::clone(&streams[of_lane]), LaneId(lane)))
    };
    (0..lanes).map(source).collect()
}

/// Dynamic energy of the memory in a run, in nanojoules, where the machine's memory has energies.
pub fn memory_energy(machine: &MachineConfig, stats: &RunStats) -> Option<f64> {
    stats.memory.energy(&machine.memory).map(|energy| energy.total() / 1e3)
}

/// A record with what identifies its work.
pub(crate) fn of_plan(record: Record, plan: &Plan) -> Record {
    let record = record
        .threads(plan.threads.into())
        .footprint(plan.footprint)
        .transactions(plan.transactions)
        .seed(plan.seed);
    match plan.workload.keys_in(plan.footprint) {
        Some(keys) => record.keys(keys),
        None => record,
    }
}

/// How fast the machine was simulated, which no two runs agree on and no other record tells.
pub fn speed_record(machine: &MachineConfig, work: &Recorded, measured: &Measured) -> Record {
    record(machine, work, measured.scheme, Metric::SIM_SPEED, measured.speed)
}

fn record(
    machine: &MachineConfig,
    work: &Recorded,
    scheme: MachineScheme,
    metric: Metric,
    value: f64,
) -> Record {
    let plan = &work.plan;
    let config = format!("{} ({}), {}", machine.name, machine.core.kind, plan.describe());
    let record = Record::new(Kind::Sim, plan.workload.name, scheme.name(), metric, value);
    of_plan(record, plan).config(&config).guarantee(scheme.guarantee().name())
}

/// What a run says as records.
pub fn records(machine: &MachineConfig, work: &Recorded, measured: &Measured) -> Vec<Record> {
    let Measured { scheme, stats, .. } = measured;
    let record = |metric, value: f64| record(machine, work, *scheme, metric, value);
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
    if let Some(days) = measured.log_lifetime(machine.memory.endurance) {
        records.push(record(Metric::LOG_LIFETIME, days));
    }
    records
}

/// What a crash campaign came to, as records.
pub fn crash_records(campaign: &Campaign, report: &Report) -> Vec<Record> {
    let (scheme, plan) = (campaign.scheme, &campaign.plan);
    let config = format!("{}, {} bytes", campaign.machine.name, plan.footprint);
    let record = |metric, value: u64| {
        let record =
            Record::new(Kind::Crash, plan.workload.name, scheme.name(), metric, value as f64);
        let record = of_plan(record, plan)
            .config(&config)
            .guarantee(scheme.guarantee().name())
            .domain("adr");
        match campaign.plant {
            Some(plant) => record.plant(plant.name),
            None => record,
        }
    };
    vec![
        record(Metric::IMAGES_VERIFIED, report.images),
        record(Metric::LOST, report.lost),
        record(Metric::TORN, report.torn),
    ]
}

/// The crash points after which something was wrong, each with the command that shows it again.
pub fn failed_points(
    campaign: &Campaign,
    report: &Report,
    replay: impl Fn(CrashEntry) -> String,
) -> Vec<FailedPoint> {
    let point = |(at, wrong): &(CrashEntry, Violation)| FailedPoint {
        workload: campaign.plan.workload.name.to_owned(),
        scheme: campaign.scheme.name().to_owned(),
        policy: None,
        caches: None,
        machine: Some(campaign.machine.name.clone()),
        crash_op: None,
        crash_entry: Some(at.entry),
        resume_entry: at.resumed,
        wrong: wrong.to_string(),
        replay: replay(*at),
    };
    report.failures.iter().map(point).collect()
}

#[cfg(test)]
mod tests {
    use outlast_sim::Cause;
    use outlast_workloads::Workload;

    use super::*;

    fn named(name: &str) -> MachineScheme {
        name.parse().unwrap()
    }

    fn plan(name: &str) -> Plan {
        Plan {
            workload: Workload::named(name).unwrap(),
            footprint: 1 << 19,
            threads: 2,
            warm_up: 300,
            transactions: 700,
            shared: false,
            switch_every: 0,
            abort_every: 0,
            batch: 0,
            seed: 1,
        }
    }

    fn options() -> Options {
        Options::default().with("log_slots", 4096).with("scan_period", 3_000_000 / 16)
    }

    #[test]
    fn hardware_logging_beats_software_and_nothing_beats_no_scheme() {
        let machine = MachineConfig::named("hwl").unwrap();
        let work = plan("sps").record().unwrap();
        let throughput =
            |scheme| measure(&machine, scheme, &work, &options()).unwrap().throughput();
        let of: Vec<_> =
            MachineScheme::all().map(|scheme| (scheme.name(), throughput(scheme))).collect();
        let at = |name| of.iter().find(|row| row.0 == name).unwrap().1;
        let software = at("undo-clwb").max(at("redo-clwb"));
        assert!(of.iter().all(|row| at("non-pers") >= 0.99 * row.1), "{of:?}");
        assert!(at("fwb") > software && at("hwl") > 0.0, "{of:?}");
        assert!(at("fwb:buffered") >= 0.99 * at("fwb"), "{of:?}");
    }

    #[test]
    fn the_log_wears_out_as_fast_as_it_is_written() {
        let mut machine = MachineConfig::named("hwl").unwrap();
        let work = plan("sps").record().unwrap();
        // Small, so that it goes round often.
        let options = options().with("log_slots", 128);
        let fwb = measure(&machine, named("fwb"), &work, &options).unwrap();
        let days = fwb.log_lifetime(machine.memory.endurance).unwrap();
        // A line lasts 10^8 times the seconds between two of its writes.
        let writes = fwb.stats.writes.of(Cause::Logged) as f64 / 128.0;
        let heads = fwb.stats.writes.of(Cause::Metadata) as f64;
        let a_round = heads / writes;
        assert!(writes > 2.0 && (2.0..=9.0).contains(&a_round), "{a_round} heads a round");
        assert!((days * 86_400.0 * heads / fwb.seconds / 1e8 - 1.0).abs() < 1e-9, "{days}");
        let says = |machine: &MachineConfig| {
            let records = records(machine, &work, &fwb);
            records.iter().any(|record| record.metric == Metric::LOG_LIFETIME.name)
        };
        assert!(says(&machine));
        machine.set_option("memory.endurance", "0").unwrap();
        assert!(!says(&machine), "nothing is said where no source says what a line bears");
        let software = measure(&machine, named("redo-clwb"), &work, &options).unwrap();
        assert_eq!(software.log_lifetime(100_000_000), None);
    }

    #[test]
    fn the_same_seed_gives_the_same_run() {
        let machine = MachineConfig::named("hwl").unwrap();
        let run = || {
            let work = plan("hash-toggle").record().unwrap();
            measure(&machine, named("fwb"), &work, &options()).unwrap().stats
        };
        assert_eq!(run(), run());
    }

    #[test]
    fn a_transaction_that_was_not_declared_is_named_and_fits_when_the_log_grows() {
        let recorded = plan("rbtree-toggle").record().unwrap();
        let work = work_of(&recorded);
        let declared = options().with("tx_records", 2);
        let fwb = named("fwb");
        let error = fwb.prepare(&work, &declared, None).unwrap_err().to_string();
        assert!(error.contains("2 were declared"), "{error}");
        assert!(fwb.prepare(&work, &declared.with("log_growths", 2), None).is_ok());
        let small = options().with("log_slots", 4);
        let error = fwb.prepare(&work, &small, None).unwrap_err().to_string();
        assert!(error.contains("fwb: a log of 4 slots"), "{error}");
    }
}
