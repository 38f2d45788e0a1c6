//! The runtime on the timed machine: workloads under software schemes.

use std::path::Path;

use outlast::Scheme;
use outlast::lab::Plant;
use outlast_crash::runtime::campaign::{Campaign, Points, TimedCampaign, TimedError, TimedReport};
use outlast_pmem::InstructionCosts;
use outlast_sim::timed::{MachineConfig, RunStats};
use outlast_trace::write_trace;
use outlast_workloads::{WorkInstructions, Workload};

use super::costs::costs;
use super::{TimelineRequest, core_records};
use crate::record::{Kind, Metric, Record};

/// What a reader of such results has to know.
const LIMITS: &str = "instructions of the runtime by a measured table, those of workload and \
                      structures not counted; volatile tables not in the caches";
/// What a reader has to know besides, where several lanes are crashed.
const IN_ORDER: &str = "; recorded to be crashed: fences of different threads do not overlap";

/// A workload under a scheme.
#[derive(Clone, Debug)]
pub struct RuntimeRun {
    /// The machine.
    pub machine: MachineConfig,
    /// What runs.
    pub workload: &'static Workload,
    /// Under which scheme.
    pub scheme: Scheme,
    /// Keys in the pool at first.
    pub keys: u64,
    /// Lanes, each on a core of its own.
    pub lanes: u16,
    /// Bytes of a lane's log.
    pub lane_bytes: u64,
    /// Transactions of all lanes together that count; a quarter more runs before.
    pub transactions: u32,
    /// Crash points among the entries of the machine's journal.
    pub points: Option<Points>,
    /// A planted bug.
    pub plant: Option<Plant>,
    /// Feeds what is drawn.
    pub seed: u64,
    /// What the program does beside its calls.
    pub work: WorkInstructions,
    /// Keeps a timeline of some cycles.
    pub timeline: Option<TimelineRequest>,
}

impl RuntimeRun {
    /// Instructions of the workload and its structures that are left out.
    pub const NOT_COUNTED: WorkInstructions =
        WorkInstructions { transaction: 0, load: 0, store: 0, block: 0 };

    /// What `outlast-crash` runs and judges.
    pub fn campaign(&self) -> TimedCampaign {
        let campaign = Campaign {
            lanes: self.lanes,
            lane_bytes: self.lane_bytes,
            keys: self.keys,
            transactions: self.transactions,
            seed: self.seed,
            plant: self.plant,
            ..Campaign::new(self.workload, self.scheme)
        };
        let warm_up = match self.workload.own() {
            None => self.transactions / 4 / u32::from(self.lanes),
            // All of a file's transactions count.
            Some(_) => 0,
        };
        TimedCampaign {
            campaign,
            points: self.points,
            warm_up,
            machine: self.machine.clone(),
            costs: self.costs(),
            timeline: self.timeline.as_ref().map(|request| request.cycles),
        }
    }

    /// The prices of the runtime's calls, with what the program does around each.
    fn costs(&self) -> InstructionCosts {
        let (own, work) = (costs(self.scheme), self.work);
        InstructionCosts {
            begin: own.begin + work.transaction,
            load: own.load + work.load,
            store: own.store + work.store,
            alloc: own.alloc + work.block,
            free: own.free + work.block,
            ..own
        }
    }

    /// Runs it; a loss is a record, and no error.
    ///
    /// # Errors
    /// When the workload cannot have that size, or the machine cannot be built or comes to a stop.
    pub fn run(&self) -> Result<Vec<Record>, Box<dyn std::error::Error>> {
        let report = self.campaign().run()?;
        if let (Some(request), Some((timeline, now))) = (&self.timeline, &report.timeline) {
            request.write(timeline, &self.machine, *now)?;
        }
        Ok(self.records(&report))
    }

    /// Runs that differ in the machine's memory alone, on one recording.
    ///
    /// # Errors
    /// As [`run`](Self::run), and when a transaction failed.
    pub fn on_one_recording(runs: &[Self]) -> Result<Vec<Vec<Record>>, TimedError> {
        let Some(first) = runs.first() else { return Ok(Vec::new()) };
        let recording = first.campaign().recording()??;
        let records = |run: &Self| Ok(run.records(&run.campaign().time(&recording)?));
        runs.iter().map(records).collect()
    }

    /// Records the run, warm-up included, as a trace.
    ///
    /// # Errors
    /// When the workload cannot have that size or the file cannot be written.
    pub fn save_trace(&self, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let recording = self.campaign().recording()?.map_err(|violation| violation.to_string())?;
        Ok(write_trace(path, &recording.log)?)
    }

    fn records(&self, report: &TimedReport) -> Vec<Record> {
        let Self { machine, workload, scheme, keys, lanes, transactions, .. } = self;
        let config = format!("{} ({}), {keys} keys", machine.name, machine.core.kind);
        let record = |kind, metric, value: f64| {
            let mut record = Record::new(kind, workload.name, scheme.name(), metric, value)
                .threads((*lanes).into())
                .config(&config)
                .keys(*keys)
                .transactions((*transactions).into())
                .seed(self.seed)
                .guarantee(scheme.guarantee().name());
            record.plant = self.plant.map(|plant| plant.to_string());
            record
        };
        let mut records = Vec::new();
        let done = report.transactions.max(1) as f64;
        if report.stats.cycles > 0 {
            let sim = |metric, value| record(Kind::Sim, metric, value);
            let in_order = self.points.is_some() && *lanes > 1;
            let limits = format!("{LIMITS}{}", if in_order { IN_ORDER } else { "" });
            records.extend(timing(machine, &report.stats, done, &limits, &sim));
        }
        if self.points.is_some() || report.failure.is_some() {
            let counts = &report.counts;
            let crash = |metric, count: u64| record(Kind::Crash, metric, count as f64);
            records.push(crash(Metric::CRASH_POINTS, counts.crash_points));
            let harm = [
                (Metric::LOST, counts.lost),
                (Metric::TORN, counts.torn + counts.not_closed + counts.garbage),
                (Metric::UNCORRECTABLE, counts.refused + counts.unsound),
            ];
            for (metric, count) in harm {
                let record = crash(metric, count);
                records.push(match &report.failure {
                    Some((violation, at)) if count > 0 => {
                        let place = at.map_or(String::new(), |entries| {
                            format!(
                                " after {entries} of {} journal entries of {transactions} \
                                 transactions; {}",
                                report.journal_entries,
                                self.command(Points::One(entries))
                            )
                        });
                        record.reason(&format!("{violation}{place}"))
                    }
                    _ => record,
                });
            }
        }
        records
    }

    /// The command that crashes this run again at these points.
    pub fn command(&self, points: Points) -> String {
        let Self { workload, scheme, keys, lanes, lane_bytes, transactions, seed, .. } = self;
        let mut command = format!(
            "outlast sim {} --scheme {scheme} {} --threads {lanes} --lane-bytes {lane_bytes} \
             --transactions {transactions} --seed {seed}",
            workload.name,
            outlast_crash::machine::machine_options(&self.machine)
        );
        if workload.own().is_none() {
            command += &format!(" --keys {keys}");
        }
        if let Some(plant) = self.plant {
            command += &format!(" --plant {plant}");
        }
        command += &match points {
            Points::All => " --crash all".to_owned(),
            Points::Some(count) => format!(" --crash {count}"),
            Points::One(entry) => format!(" --crash-entry {entry}"),
        };
        command
    }

    /// Whether the crashes found that the scheme does not keep its promise.
    pub fn is_guilty(records: &[Record]) -> bool {
        records.iter().any(|record| {
            record.kind == Kind::Crash
                && record.reason.is_some()
                && record.guarantee.as_deref() == Some("durable")
        })
    }
}

fn timing(
    machine: &MachineConfig,
    stats: &RunStats,
    transactions: f64,
    limits: &str,
    record: &dyn Fn(Metric, f64) -> Record,
) -> Vec<Record> {
    let period_ns = machine.core.clock.period_fs() as f64 / 1e6;
    let seconds = stats.cycles as f64 * period_ns * 1e-9;
    let per_tx = |count: u64| count as f64 / transactions;
    let sum = |count: fn(&outlast_sim::timed::CoreStats) -> u64| -> u64 {
        stats.cores.iter().map(count).sum()
    };
    let mut records = vec![
        record(Metric::THROUGHPUT, transactions / seconds).reason(limits),
        record(Metric::IPC, stats.ipc()),
        record(Metric::INSTRUCTIONS_TX, per_tx(stats.instructions())),
        record(Metric::FENCES, per_tx(sum(|core| core.fences))),
        record(Metric::FLUSHED_LINES, per_tx(sum(|core| core.flushes))),
        record(Metric::STREAMED_LINES, per_tx(stats.caches.traffic.memory_streams)),
        record(Metric::MEMORY_READS, stats.caches.traffic.memory_reads as f64),
    ];
    for (_, name, count) in stats.writes.each() {
        if count > 0 {
            records.push(record(Metric::MEMORY_WRITES_TX, per_tx(count)).class(name));
        }
    }
    records.extend(core_records(machine, stats, record));
    let mut latencies = stats.tx_cycles.clone();
    latencies.sort_unstable();
    if let Some(last) = latencies.len().checked_sub(1) {
        let ns = |part: f64| latencies[(last as f64 * part) as usize] as f64 * period_ns;
        records.push(record(Metric::LATENCY_P50, ns(0.5)));
        records.push(record(Metric::LATENCY_P99, ns(0.99)));
    }
    records
}

#[cfg(test)]
mod tests {
    use super::*;

    fn small(scheme: Scheme) -> RuntimeRun {
        let mut machine = MachineConfig::named("server").unwrap();
        // Small caches, so that lines leave by themselves.
        for (key, value) in
            [("l1.size", "4 KiB"), ("l1.ways", "4"), ("l2.size", "0 B"), ("llc.size", "32 KiB")]
        {
            machine.set_option(key, value).unwrap();
        }
        RuntimeRun {
            machine,
            workload: Workload::named("hash").unwrap(),
            scheme,
            keys: 200,
            lanes: 1,
            lane_bytes: 16 << 10,
            transactions: 200,
            points: Some(Points::Some(150)),
            plant: None,
            seed: 3,
            work: RuntimeRun::NOT_COUNTED,
            timeline: None,
        }
    }

    fn value(records: &[Record], metric: Metric) -> f64 {
        records.iter().find(|r| r.is(metric)).and_then(|r| r.value).unwrap()
    }

    #[test]
    fn what_was_acknowledged_survives_on_the_timed_machine() {
        for scheme in ["undo", "redo", "swift", "redo-archapt"] {
            let records = small(scheme.parse().unwrap()).run().unwrap();
            assert!(value(&records, Metric::CRASH_POINTS) >= 150.0, "{scheme}");
            let reasons: Vec<_> = records.iter().filter(|r| r.kind == Kind::Crash).collect();
            assert!(!RuntimeRun::is_guilty(&records), "{scheme}: {reasons:?}");
            assert!(value(&records, Metric::LATENCY_P50) > 0.0);
            assert!(value(&records, Metric::FENCES) > 0.3, "{scheme}");
        }
        let none = small(Scheme::None).run().unwrap();
        assert!(none.iter().any(|r| r.kind == Kind::Crash && r.reason.is_some()), "none loses");
    }

    #[test]
    fn several_lanes_take_less_time() {
        let alone = RuntimeRun { points: None, keys: 2000, ..small(Scheme::Swift) };
        let run = |lanes| RuntimeRun { lanes, ..alone.clone() }.run().unwrap();
        let (one, four) = (run(1), run(4));
        let of = |records: &[Record]| value(records, Metric::THROUGHPUT);
        assert!(of(&four) > 1.5 * of(&one), "{} and {}", of(&one), of(&four));
    }

    #[test]
    fn several_lanes_lose_nothing_either() {
        for row in outlast::scheme::SCHEMES {
            let guarantee = row.scheme.guarantee().to_string();
            if guarantee != "durable" {
                continue;
            }
            for lanes in [2, 4] {
                let run = RuntimeRun { lanes, ..small(row.scheme) };
                let records = run.run().unwrap();
                let reasons: Vec<_> = records.iter().filter(|r| r.kind == Kind::Crash).collect();
                assert!(!RuntimeRun::is_guilty(&records), "{lanes} {}: {reasons:?}", row.name);
                assert!(value(&records, Metric::CRASH_POINTS) >= 150.0, "{lanes} {}", row.name);
            }
        }
    }

    /// Two or four lanes on caches of a few lines, crashed everywhere, under a plant.
    fn is_found(scheme: &str, lanes: u16, plant: &str) -> bool {
        let run = |workload, seed| RuntimeRun {
            machine: MachineConfig::named("tiny").unwrap(),
            workload: Workload::named(workload).unwrap(),
            lanes,
            // Short rings, so that there are many sweeps.
            lane_bytes: 1 << 10,
            transactions: 150,
            points: Some(Points::All),
            plant: Some(plant.parse().unwrap()),
            seed,
            ..small(scheme.parse().unwrap())
        };
        // The last one has the most lines of data in each commit, so that a mark most likely overtakes some.
        ["hash", "btree", "queue", "ycsb-a"].iter().any(|workload| {
            (1..=2).any(|seed| RuntimeRun::is_guilty(&run(workload, seed).run().unwrap()))
        })
    }

    #[test]
    fn mistakes_between_lanes_are_found() {
        let mistakes = [
            ("swift", 2, "recycle-by-own-lane"),
            ("swift", 2, "ring-overwrites-live"),
            ("swift", 2, "tail-before-floor"),
            ("swift", 2, "skip-flush:Tail"),
            ("swift", 2, "skip-flush:Floor"),
            ("swift", 2, "skip-flush:RedoRecord"),
            ("swift", 4, "skip-fence:RedoRecord"),
            ("swift", 4, "number-before-locks"),
            ("swift", 4, "early-release"),
            ("swift", 4, "redo-lane-by-lane"),
            ("swift", 4, "other-lanes-dropped"),
            ("redo", 2, "sweep-ignores-in-flight"),
            ("redo", 4, "recycle-by-own-lane"),
            ("undo", 4, "skip-flush:UndoData"),
            ("undo", 4, "mark-with-data"),
            ("redo-archapt", 2, "tail-before-floor"),
            ("atlas", 4, "skip-fence:UndoData"),
        ];
        let survives =
            |(scheme, lanes, plant): &(&str, u16, &str)| !is_found(scheme, *lanes, plant);
        let survivors: Vec<_> = mistakes.iter().filter(|mistake| survives(mistake)).collect();
        assert!(survivors.is_empty(), "{survivors:?}");
    }

    #[test]
    fn changes_without_harm_are_not_found_between_lanes() {
        for scheme in ["undo", "swift", "redo-archapt"] {
            for control in ["flush-twice", "fence-twice", "flushed-by-clflushopt"] {
                assert!(!is_found(scheme, 4, control), "{control} in {scheme}");
            }
        }
    }

    #[test]
    fn a_missing_flush_and_a_missing_fence_are_found() {
        for (scheme, plant) in [
            (Scheme::Undo, "skip-flush:UndoData"),
            (Scheme::Undo, "skip-flush:UndoRecord"),
            (Scheme::Swift, "skip-flush:RedoRecord"),
            (Scheme::Swift, "skip-fence:RedoRecord"),
        ] {
            let plant: Plant = plant.parse().unwrap();
            let run = RuntimeRun { plant: Some(plant), ..small(scheme) };
            let records = run.run().unwrap();
            assert!(RuntimeRun::is_guilty(&records), "{plant} in {scheme} was not found");
        }
    }

    #[test]
    fn a_saved_run_plays_again_and_a_timeline_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let (trace, json) = (directory.path().join("run.otrace"), directory.path().join("t.json"));
        let run = RuntimeRun { points: None, lanes: 2, keys: 2000, ..small(Scheme::Swift) };
        run.save_trace(&trace).unwrap();
        let request = TimelineRequest { path: json.clone(), cycles: (0, 50_000) };
        let with = RuntimeRun { timeline: Some(request), ..run.clone() };
        let plain = run.run().unwrap();
        assert_eq!(with.run().unwrap(), plain);
        let text = std::fs::read_to_string(json).unwrap();
        let timeline: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert!(timeline["traceEvents"].as_array().unwrap().len() > 100);
        let simulation = |scheme: &str| super::super::Simulation {
            machine: run.machine.clone(),
            work: super::super::Work::Trace(trace.clone()),
            warm_up: 0,
            instructions: u64::MAX,
            seed: run.seed,
            timeline: None,
            scheme: scheme.parse().unwrap(),
            options: outlast_schemes::Options::default(),
        };
        // A trace with transactions runs under a scheme that logs them, beside what it does itself.
        let logged = super::super::run(&simulation("fwb")).unwrap();
        let written = logged.iter().any(|r| r.metric == "log_records" && r.value > Some(0.0));
        assert!(written, "{logged:?}");
        let again = super::super::run(&simulation("ideal"));
        let instructions = value(&again.unwrap(), Metric::INSTRUCTIONS);
        // A fifth of what is recorded is warm-up.
        let counted = value(&plain, Metric::INSTRUCTIONS_TX) * f64::from(run.transactions);
        assert!((0.7..0.9).contains(&(counted / instructions)), "{counted} of {instructions}");
    }

    #[test]
    fn durable_schemes_cost_time_and_the_same_seed_gives_the_same() {
        let throughput = |scheme| {
            let run = RuntimeRun { points: None, keys: 2000, transactions: 600, ..small(scheme) };
            let (first, again) = (run.run().unwrap(), run.run().unwrap());
            assert_eq!(first, again);
            value(&first, Metric::THROUGHPUT)
        };
        let [none, swift, undo] = [Scheme::None, Scheme::Swift, Scheme::Undo].map(throughput);
        assert!(none > swift && swift > undo, "{none} {swift} {undo}");
    }
}
