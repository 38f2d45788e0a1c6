//! One scheme on the work, timed, with what its journal says.

use outlast_measure::middle;
use outlast_schemes::{EPOCH, MachineScheme, Options, Prepared, Streams, Work, whole_image};
use outlast_sim::Domain;
use outlast_sim::timed::{MachineConfig, RunStats, Setup, instructions_of};
use outlast_trace::{Guarantee, Op};
use outlast_workloads::machine::{Plan, Recorded};

use super::recovery::{drain_time, recoveries};
use super::wear::Wear;
use crate::record::{Kind, Metric, Record};
use crate::simulated::{Timed, memory_records, of_plan, sources, time};
use outlast_crash::machine::work_of;

/// Recoveries of each run, whose median counts.
const RECOVERIES: usize = 5;

/// Epochs in the part of a run that counts, where no `scheme.epoch` is given. A scheme whose epochs persist
/// some epochs later has persisted several by then.
const EPOCHS: u64 = 10;

/// The work, as every scheme gets it.
#[derive(Debug)]
pub(super) struct Subject {
    /// Its name in records.
    pub name: String,
    /// What identifies it, where it is a program.
    pub plan: Option<Plan>,
    /// What schemes are put under.
    pub work: Work,
    /// Transactions before counting starts, and those that count.
    transactions: (u64, u64),
    /// Bytes that a transaction stores, on average.
    stored_bytes: f64,
    seed: u64,
}

impl Subject {
    pub(super) fn of_program(recorded: &Recorded) -> Self {
        let plan = recorded.plan;
        let counts = (plan.warm_up, plan.transactions);
        Self::new(plan.workload.name.to_owned(), Some(plan), work_of(recorded), counts, plan.seed)
    }

    /// A trace; its first quarter is warm-up.
    pub(super) fn of_trace(name: String, work: Work, seed: u64) -> Self {
        let transactions = counted(&work, |op| matches!(op, Op::TxEnd)).count() as u64;
        let warm_up = transactions / 4;
        Self::new(name, None, work, (warm_up, transactions - warm_up), seed)
    }

    fn new(
        name: String,
        plan: Option<Plan>,
        work: Work,
        transactions: (u64, u64),
        seed: u64,
    ) -> Self {
        let ended = counted(&work, |op| matches!(op, Op::TxEnd)).count().max(1);
        let stored: usize = counted(&work, |op| matches!(op, Op::Store { .. })).sum();
        let stored_bytes = stored as f64 / ended as f64;
        Self { name, plan, work, transactions, stored_bytes, seed }
    }

    /// A record of a scheme, given its name and guarantee, on this work and machine.
    pub(super) fn record(
        &self,
        kind: Kind,
        config: &str,
        (scheme, guarantee): (&str, Guarantee),
        metric: Metric,
        value: f64,
    ) -> Record {
        let record = Record::new(kind, &self.name, scheme, metric, value)
            .config(config)
            .guarantee(guarantee.name());
        match &self.plan {
            Some(plan) => of_plan(record, plan),
            None => record.threads(self.work.lanes.into()).transactions(self.transactions.1),
        }
    }

    /// The machine and the size of the work, as records have them.
    pub(super) fn config(&self, machine: &MachineConfig, has_ait: bool) -> String {
        let ait = if has_ait { "AIT charged to all" } else { "no AIT" };
        let machine = format!("{} ({})", machine.name, machine.core.kind);
        match &self.plan {
            Some(plan) => format!("{machine}, {}, {ait}", plan.describe()),
            None => format!("{machine}, {ait}"),
        }
    }

    /// Instructions of an epoch by which several end while the run counts: [`EPOCH`]'s default or fewer.
    pub(super) fn epoch_instructions(&self) -> u64 {
        let ops = self.work.recorded().iter().flat_map(|log| log.iter());
        let all: u64 = ops.map(|(_, op)| instructions_of(op)).sum();
        let (warm_up, counted) = self.transactions;
        let share = counted as f64 / (warm_up + counted).max(1) as f64;
        let of_a_core = all as f64 * share / f64::from(self.work.lanes.max(1));
        (of_a_core as u64 / EPOCHS).clamp(1, EPOCH.default)
    }

    /// What the machine counted in a run of the work's transactions.
    fn of_run(
        &self,
        machine: &MachineConfig,
        stats: &RunStats,
        record: impl Fn(Metric, f64) -> Record,
    ) -> Vec<Record> {
        let count = self.transactions.1.max(1) as f64;
        let per_tx = |count_of: u64| count_of as f64 / count;
        let ns = machine.core.clock.period_fs() as f64 / 1e6;
        let seconds = stats.cycles as f64 * ns / 1e9;
        let mut records = vec![
            record(Metric::THROUGHPUT, count / seconds),
            record(Metric::IPC, stats.ipc()),
            record(Metric::INSTRUCTIONS, stats.instructions() as f64),
            record(Metric::CYCLES, stats.cycles as f64),
        ];
        let mut latencies = stats.tx_cycles.clone();
        latencies.sort_unstable();
        if let Some(last) = latencies.len().checked_sub(1) {
            let at = |part: f64| latencies[(last as f64 * part) as usize] as f64 * ns;
            records.push(record(Metric::LATENCY_P50, at(0.5)));
            records.push(record(Metric::LATENCY_P99, at(0.99)));
        }
        let (mut reads, mut writes) = (0, 0);
        for (_, name, count) in stats.reads.each().filter(|row| row.2 > 0) {
            reads += count;
            records.push(record(Metric::MEMORY_READS_TX, per_tx(count)).class(name));
        }
        for (_, name, count) in stats.writes.each().filter(|row| row.2 > 0) {
            writes += count;
            records.push(record(Metric::MEMORY_WRITES_TX, per_tx(count)).class(name));
        }
        records.push(record(Metric::MEMORY_READS_TX, per_tx(reads)));
        records.push(record(Metric::MEMORY_WRITES_TX, per_tx(writes)));
        if self.stored_bytes > 0.0 {
            let bytes = 64.0 * per_tx(writes);
            records.push(record(Metric::WRITE_AMPLIFICATION, bytes / self.stored_bytes));
        }
        let persist = stats.persist.all();
        for (class, share) in [("p50", 0.5), ("p99", 0.99)] {
            if persist.count() > 0 {
                let cycles = persist.quantile(share) as f64;
                records.push(record(Metric::PERSIST_LATENCY, cycles * ns).class(class));
            }
        }
        if let Some(energy) = stats.memory.energy(&machine.memory) {
            records.push(record(Metric::MEMORY_ENERGY_TX, energy.total() / 1e3 / count));
        }
        let is_other =
            |found: &Record| found.is(Metric::DRAIN_LINES) || found.is(Metric::DRAIN_ENERGY);
        let of_memory = memory_records(machine, stats, record).into_iter();
        let named: Vec<&str> = stats.counters.iter().map(|counter| counter.name).collect();
        records.extend(
            of_memory.filter(|found| is_other(found) || named.contains(&found.metric.as_str())),
        );
        records
    }

    /// Times prepared work over an image: what the machine counted, how memory wore and what residual
    /// energy had to write.
    pub(super) fn timed(
        &self,
        machine: &MachineConfig,
        (prepared, image, lanes): (&dyn Prepared, &[u8], u16),
        record: impl Fn(Metric, f64) -> Record,
    ) -> Result<(Vec<Record>, Timed), Box<dyn std::error::Error>> {
        let setup = Setup {
            seed: self.seed,
            base: image.to_vec(),
            journal: Some(Domain::Adr),
            ..Setup::default()
        };
        let timed = time(machine, prepared, setup, sources(prepared, lanes), self.transactions)?;
        let mut records = self.of_run(machine, &timed.stats, &record);
        let journal = timed.machine.journal().expect("it was asked for");
        if let Some(wear) = Wear::of(journal.journal(), timed.warm_entries) {
            let line =
                |value: u64, class: &str| record(Metric::LINE_WRITES, value as f64).class(class);
            records.extend([line(wear.p50, "p50"), line(wear.p99, "p99"), line(wear.max, "max")]);
            records.push(record(Metric::WEAR_GINI, wear.gini));
        }
        if let Some(drain) = drain_time(machine, journal, timed.warm_entries) {
            for (class, ns) in [("mean", drain.mean), ("max", drain.max)] {
                records.push(record(Metric::DRAIN_TIME, ns).class(class));
            }
        }
        Ok((records, timed))
    }

    /// Times a scheme and recovers crashes of the run.
    pub(super) fn measure(
        &self,
        (machine, config): (&MachineConfig, &str),
        (scheme, options): (MachineScheme, &Options),
        prepared: &dyn Prepared,
    ) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
        let as_named = (scheme.name(), scheme.guarantee());
        let record = |metric, value| self.record(Kind::Sim, config, as_named, metric, value);
        let work = (prepared, &self.work.image[..], self.work.lanes);
        let (mut records, timed) = self.timed(machine, work, record)?;
        records.push(record(Metric::EXTRA_SPACE, 64.0 * self.extra_lines(prepared) as f64));
        if scheme.keys().contains(&EPOCH) {
            records.push(record(Metric::EPOCH_INSTRUCTIONS, options.get(&EPOCH) as f64));
        }
        let journal = timed.machine.journal().expect("it was asked for");
        let points = (timed.warm_entries, RECOVERIES);
        let mut image = whole_image(&self.work.image, prepared.lines());
        let mut found = recoveries(machine, prepared, journal, &mut image, points)?;
        if let Some(median) = middle(&mut found, |found| found.memory_ns) {
            records.push(record(Metric::RECOVERY_READS, median.reads as f64));
            records.push(record(Metric::RECOVERY_WRITES, median.writes as f64));
            records.push(record(Metric::RECOVERY_MEMORY_TIME, median.memory_ns));
            records.extend(
                median.host.map(|host| record(Metric::RECOVERY_HOST_TIME, host.as_nanos() as f64)),
            );
        }
        Ok(records)
    }

    /// Lines that a scheme takes behind the data.
    fn extra_lines(&self, prepared: &dyn Prepared) -> u64 {
        prepared.lines().saturating_sub(self.work.end.0)
    }
}

/// The bytes that each chosen operation of recorded work stores; 0 for one that stores nothing.
fn counted<'w>(
    work: &'w Work,
    is_chosen: impl Fn(&Op<'_>) -> bool + 'w,
) -> impl Iterator<Item = usize> + 'w {
    let streams = match &work.streams {
        Streams::Recorded(streams) => streams.as_slice(),
        Streams::Generated { .. } => &[],
    };
    streams.iter().flat_map(|log| log.iter()).filter_map(move |(_, op)| {
        let bytes = if let Op::Store { bytes, .. } = op { bytes.len() } else { 0 };
        is_chosen(&op).then_some(bytes)
    })
}
