//! Crash campaigns on the timed machine: run a program under a scheme, crash after entries of its
//! journal, recover for real, and judge what is left.
//!
//! The judge knows only the bare transactions: which words each stored, in which order they ran on
//! their data, and when each was acknowledged. Recovered data has to be what some number of its
//! transactions leaves, none of them in part; fewer than were acknowledged is a loss. It shares no
//! code with the schemes.
//!
//! [`Plant`]s break a scheme, the machine or the image on purpose; the campaign has to notice. A
//! campaign is a function of its parts and the seed, and its failure prints the command that
//! replays it.

use std::collections::{BTreeMap, HashMap};
use std::str::FromStr;

pub use outlast_crash::campaign::Points;

use outlast_schemes::Patch;
use outlast_schemes::hwl::{Fault, Faults, Hwl, records_max};
use outlast_sim::timed::{Cycle, MachineConfig, NonPers, Setup, System, TimedJournal};
use outlast_sim::{Cause, Domain};
use outlast_trace::{FlushKind, Op, OpLog, PoolOffset, Sink, word_pieces};
use outlast_workloads::Random;

use super::schemes::{LogOptions, Prepared, SimScheme, with_cores};
use super::work::{Bench, Plan, Work};
use crate::record::{Kind, Metric, Record};

/// Cycles for which an accepted write is in the queue for sure: column latency and more.
const QUEUED_CYCLES: u64 = 80;

/// Something broken on purpose, or changed without harm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Plant {
    /// Its name: those of `PERSISTENCY.md`'s list, and the points of `docs/hwl.md`.
    pub name: &'static str,
    /// What it breaks.
    pub about: &'static str,
    /// The scheme that shows it.
    pub scheme: SimScheme,
    faults: Faults,
    at: At,
    /// Whether it does no harm.
    pub is_control: bool,
}

/// Where it sits, besides the scheme's own faults.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    Scheme,
    /// The scan comes too rarely.
    LateScan,
    /// The drain at a crash leaves out a write that was queued.
    Drain,
    /// Coherence forgets that a line is dirty. The data is shared.
    Transfer,
    /// The last write to the log is torn between its words.
    Tear,
    /// The log is small beside a transaction that is not declared.
    Undeclared,
    /// Each flush twice.
    FlushTwice,
    /// A fence behind each store of a transaction.
    MoreFences,
    /// `clflushopt` for `clwb`.
    Clflushopt,
    /// A flush of a clean line at the begin of each transaction.
    FlushClean,
}

const fn plant(
    name: &'static str,
    scheme: SimScheme,
    faults: &[Fault],
    at: At,
    about: &'static str,
) -> Plant {
    Plant { name, about, scheme, faults: Faults::of(faults), at, is_control: false }
}

const fn control(name: &'static str, scheme: SimScheme, at: At, about: &'static str) -> Plant {
    Plant { is_control: true, ..plant(name, scheme, &[], at, about) }
}

/// All plants, then the controls.
pub const PLANTS: [Plant; 18] = [
    plant(
        "H1",
        SimScheme::Fwb,
        &[Fault::Unordered],
        At::Scheme,
        "data overtakes its records in the log buffer (HWL-5)",
    ),
    plant(
        "H2",
        SimScheme::Fwb,
        &[Fault::Overwrite],
        At::LateScan,
        "lines are forced out more slowly than the log goes round (HWL-10)",
    ),
    plant(
        "H3",
        SimScheme::Fwb,
        &[Fault::HeadEarly],
        At::Scheme,
        "the log's head moves before the forced write-back is done (HWL-11)",
    ),
    plant("H9", SimScheme::Fwb, &[], At::Drain, "the drain at a crash leaves out a queued write"),
    plant("H10", SimScheme::Fwb, &[], At::Transfer, "a coherence transfer drops the dirty bit"),
    plant(
        "H11",
        SimScheme::FwbBuffered,
        &[Fault::Merge],
        At::Scheme,
        "the log buffer coalesces across transactions",
    ),
    plant("HWL-1", SimScheme::Fwb, &[Fault::NoCommit], At::Scheme, "nothing says what committed"),
    plant(
        "HWL-2",
        SimScheme::Fwb,
        &[Fault::Mismatch],
        At::Scheme,
        "what differs from memory is taken for not committed",
    ),
    plant(
        "HWL-6",
        SimScheme::Fwb,
        &[],
        At::Tear,
        "memory tears a log record, which has to arrive whole",
    ),
    plant(
        "HWL-7",
        SimScheme::Fwb,
        &[Fault::OneLevel, Fault::ByTime],
        At::Scheme,
        "a forced line only goes down one level, and the head moves by time",
    ),
    plant(
        "HWL-8",
        SimScheme::Fwb,
        &[Fault::PassesRunning],
        At::Scheme,
        "the head passes records of running transactions",
    ),
    plant(
        "HWL-9",
        SimScheme::Fwb,
        &[Fault::VolatileHead],
        At::Scheme,
        "slots are used again before the head in memory has passed them",
    ),
    plant(
        "overflow",
        SimScheme::Fwb,
        &[Fault::Overwrite],
        At::Undeclared,
        "a transaction larger than the log, and nobody looks",
    ),
    control("flush-twice", SimScheme::RedoClwb, At::FlushTwice, "every flush twice"),
    control("more-fences", SimScheme::UndoClwb, At::MoreFences, "a fence before every commit"),
    control("clflushopt", SimScheme::Hwl, At::Clflushopt, "clflushopt for clwb"),
    control("flush-clean", SimScheme::Fwb, At::FlushClean, "a flush of a line that is clean"),
    control("none", SimScheme::Fwb, At::Scheme, "nothing"),
];

impl FromStr for Plant {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        PLANTS.iter().find(|plant| plant.name == name).copied().ok_or_else(|| {
            let names: Vec<_> = PLANTS.iter().map(|plant| plant.name).collect();
            format!("no plant is called '{name}'; there are {}", names.join(", "))
        })
    }
}

impl Plant {
    /// The campaign that kills it, or stays silent on it: small, every entry a crash point.
    pub fn campaign(&self, seed: u64) -> Campaign {
        // Data that is evicted while its records wait; else data that is stored to again and again.
        let (bench, footprint) = match self.faults.has(Fault::Unordered) {
            true => ("rbtree", 1 << 16),
            false => ("hash", 2048),
        };
        let mut campaign = Campaign::small(self.scheme, bench, seed);
        campaign.plan.footprint = footprint;
        campaign.plan.shared = matches!(self.at, At::Transfer);
        campaign.plant = Some(*self);
        campaign
    }
}

/// What is run, crashed and judged.
#[derive(Clone, PartialEq, Debug)]
pub struct Campaign {
    /// The scheme.
    pub scheme: SimScheme,
    /// The program.
    pub plan: Plan,
    /// The log.
    pub options: LogOptions,
    /// The machine.
    pub machine: MachineConfig,
    /// What is broken.
    pub plant: Option<Plant>,
    /// Where it crashes.
    pub points: Points,
    /// Whether recoveries crash as well, after each of their writes.
    pub second_crash: bool,
}

/// What it came to.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Report {
    /// Entries of the journal.
    pub entries: usize,
    /// Images that were recovered and judged.
    pub images: u64,
    /// Those that lack an acknowledged transaction.
    pub lost: u64,
    /// Those that no number of transactions explains, or that recovery refuses.
    pub torn: u64,
    /// The first entry behind which that happened.
    pub first: Option<usize>,
}

impl Report {
    /// Whether the scheme broke its promise.
    pub fn is_guilty(&self, scheme: SimScheme) -> bool {
        self.torn > 0 || (self.lost > 0 && scheme.guarantee() != "buffered")
    }
}

impl Campaign {
    /// A small campaign: caches of a few lines, a log of a few transactions.
    pub fn small(scheme: SimScheme, bench: &str, seed: u64) -> Self {
        let machine = MachineConfig::named("tiny").expect("a preset");
        let bench = Bench::named(bench).expect("a program of the table");
        let plan = Plan {
            bench,
            footprint: 2048,
            threads: 2,
            warm_up: 0,
            transactions: 80,
            shared: false,
            switch_every: 0,
            seed,
        };
        let options =
            LogOptions { slots: 256, buffer: 8, scan_period: 4000, ..LogOptions::scaled(1) };
        Self {
            scheme,
            plan,
            options,
            machine,
            plant: None,
            points: Points::All,
            second_crash: true,
        }
    }

    /// The log's options with what the plant changes. A log that is too small for two of the
    /// largest transactions has as many slots as these need.
    fn planted_options(&self, work: &Work) -> LogOptions {
        let mut options = self.options;
        let largest = work.streams.iter().map(|log| records_max(log)).max().unwrap_or(1);
        let faults = self.plant.map_or(Faults::NONE, |plant| plant.faults);
        let at = self.plant.map(|plant| plant.at);
        options.faults = options.faults.and(faults);
        match at {
            Some(At::LateScan) => options.scan_period *= 1000,
            Some(At::Undeclared) => options.slots = 4,
            _ => {}
        }
        // A log that goes round as often as it can.
        let wraps = [Fault::HeadEarly, Fault::ByTime, Fault::PassesRunning, Fault::VolatileHead];
        if wraps.iter().any(|fault| faults.has(*fault)) || at == Some(At::LateScan) {
            options.slots = 1;
        }
        if options.tx_records_max.is_none() && at != Some(At::Undeclared) {
            options.slots = options.slots.max(2 * largest);
        }
        options
    }

    /// Runs, crashes, recovers, judges.
    ///
    /// # Errors
    /// When the run cannot be made or comes to a stop.
    pub fn run(&self) -> Result<Report, Box<dyn std::error::Error>> {
        let work = self.plan.work()?;
        let mut prepared = Prepared::new(self.scheme, &work, &self.planted_options(&work))?;
        if let Some(plant) = self.plant {
            prepared.streams = prepared
                .streams
                .iter()
                .map(|log| std::sync::Arc::new(plant.rewrite(log)))
                .collect();
        }
        let judge = Judge::new(&work);
        let machine = with_cores(&self.machine, work.lanes());
        let mut image = work.image.to_vec();
        image.resize((prepared.lines * 64) as usize, 0);
        let setup = Setup {
            seed: self.plan.seed,
            base: image.clone(),
            journal: Some(Domain::Adr),
            transfers_forget_dirt: self.plant.is_some_and(|plant| plant.at == At::Transfer),
        };
        let sources = prepared.sources(&work);
        let journal = match prepared.hwl {
            Some(config) => {
                let mut system = System::new(&machine, Hwl::new(config)?, setup, sources)?;
                system.run_to_end()?;
                system.journal().cloned()
            }
            None => {
                let mut system = System::new(&machine, NonPers, setup, sources)?;
                system.run_to_end()?;
                system.journal().cloned()
            }
        };
        let journal = journal.expect("it was asked for");
        Ok(self.judge_all(&journal, &judge, &prepared, image))
    }

    fn judge_all(
        &self,
        journal: &TimedJournal,
        judge: &Judge,
        prepared: &Prepared,
        mut image: Vec<u8>,
    ) -> Report {
        let entries = journal.journal().len();
        let mut report = Report { entries, ..Report::default() };
        let mut cursor = journal.journal().cursor();
        let mut random = Random::stream(self.plan.seed, 0x0063_7261_7368);
        for point in self.points.of(entries, &mut random) {
            // What the lines of the last few entries held before them.
            let mut before: Vec<(usize, PoolOffset, [u8; 64])> = Vec::new();
            while cursor.entries() < point {
                let entry = cursor.entries();
                if point - entry <= 16 {
                    let at = journal.journal().get(entry).line.start();
                    let line = image[at.0 as usize..][..64].try_into().expect("a line was taken");
                    before.push((entry, at, line));
                }
                cursor.advance_to_entry(entry + 1, &mut image, |_| {});
            }
            // A crash just before the next entry.
            let now = match point < entries {
                true => Cycle(journal.at(point).0.saturating_sub(1)),
                false => Cycle::NEVER,
            };
            let damage = self.damage(journal, point, now, &before, &image);
            let undo = overlay(&mut image, &damage);
            let (torn, lost, images) = self.judge_one(journal, judge, prepared, &mut image, now);
            overlay(&mut image, &undo);
            report.images += images;
            report.torn += torn;
            report.lost += lost;
            if torn + lost > 0 && report.first.is_none() {
                report.first = Some(point);
            }
        }
        report
    }

    /// What a broken drain or a torn write changes in the image.
    fn damage(
        &self,
        journal: &TimedJournal,
        point: usize,
        now: Cycle,
        before: &[(usize, PoolOffset, [u8; 64])],
        image: &[u8],
    ) -> Vec<Patch> {
        let restore = |at: PoolOffset, old: &[u8; 64], words: &dyn Fn(u64) -> bool| {
            let word =
                |k: u64| Patch { at: at.plus(8 * k), word: old.as_chunks::<8>().0[k as usize] };
            (0..8).filter(|k| words(*k)).map(word).collect::<Vec<_>>()
        };
        match self.plant.map(|plant| plant.at) {
            Some(At::Drain) => {
                let now = if now == Cycle::NEVER { journal.at(point - 1) } else { now };
                let queued = before.iter().find(|(entry, at, _)| {
                    let later = before.iter().any(|(other, line, _)| other > entry && line == at);
                    now.since(journal.at(*entry)) < QUEUED_CYCLES && !later
                });
                queued.map_or(Vec::new(), |(_, at, old)| restore(*at, old, &|_| true))
            }
            Some(At::Tear) => {
                let last = before.last().filter(|(entry, _, _)| {
                    *entry + 1 == point && journal.journal().get(*entry).cause == Cause::Logged
                });
                let _ = image;
                last.map_or(Vec::new(), |(_, at, old)| restore(*at, old, &|word| word >= 2))
            }
            _ => Vec::new(),
        }
    }

    /// Torn, lost, judged.
    fn judge_one(
        &self,
        journal: &TimedJournal,
        judge: &Judge,
        prepared: &Prepared,
        image: &mut [u8],
        now: Cycle,
    ) -> (u64, u64, u64) {
        let acknowledged = judge.acknowledged(journal, now);
        let Ok(patches) = prepared.recover(image) else { return (1, 0, 1) };
        let (mut torn, mut lost, mut images) = (0, 0, 0);
        let stops = if self.second_crash { 0..patches.len() } else { 0..0 };
        for stop in stops.chain([patches.len()]) {
            let first = overlay(image, &patches[..stop]);
            let second = match stop < patches.len() {
                true => prepared.recover(image),
                false => Ok(Vec::new()),
            };
            images += 1;
            match second {
                Err(_) => torn += 1,
                Ok(second) => {
                    let undo = overlay(image, &second);
                    match judge.verdict(image, &acknowledged) {
                        Fate::Kept => {}
                        Fate::Lost => lost += 1,
                        Fate::Torn => torn += 1,
                    }
                    overlay(image, &undo);
                }
            }
            overlay(image, &first);
        }
        (torn, lost, images)
    }

    /// The command that runs this campaign again, at one crash point if that is given.
    pub fn command(&self, point: Option<usize>) -> String {
        let Plan { bench, footprint, threads, transactions, shared, switch_every, seed, .. } =
            self.plan;
        let mut words = vec![
            format!("outlast sim {} --scheme {}", bench.name, self.scheme),
            format!("--config {} --threads {threads}", self.machine.name),
            format!("--footprint {footprint} --transactions {transactions}"),
            format!("--log-slots {} --log-buffer {}", self.options.slots, self.options.buffer),
            format!("--scan-period {} --seed {seed}", self.options.scan_period),
        ];
        if shared {
            words.push("--shared".to_owned());
        }
        if switch_every > 0 {
            words.push(format!("--switch-every {switch_every}"));
        }
        if self.options.growths > 0 {
            words.push(format!("--log-growths {}", self.options.growths));
        }
        if let Some(max) = self.options.tx_records_max {
            words.push(format!("--max-tx-records {max}"));
        }
        if let Some(plant) = self.plant {
            words.push(format!("--plant {}", plant.name));
        }
        match point {
            Some(point) => words.push(format!("--crash-entry {point}")),
            None => words.push("--crash all".to_owned()),
        }
        words.join(" ")
    }

    /// What it came to, as records.
    pub fn records(&self, report: &Report) -> Vec<Record> {
        let record = |metric, value: u64| {
            let config = format!("{}, {} bytes", self.machine.name, self.plan.footprint);
            let record = Record::new(
                Kind::Crash,
                self.plan.bench.name,
                self.scheme.name(),
                metric,
                value as f64,
            );
            let record = record
                .threads(self.plan.threads.into())
                .config(&config)
                .guarantee(self.scheme.guarantee())
                .domain("adr");
            match self.plant {
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
}

impl Plant {
    /// The operations with what the plant changes in them.
    fn rewrite(&self, log: &OpLog) -> OpLog {
        let mut out = OpLog::default();
        for (lane, op) in log.iter() {
            match (self.at, op) {
                (At::Clflushopt, Op::Flush { line, .. }) => {
                    out.op(lane, Op::Flush { kind: FlushKind::ClflushOpt, line });
                    continue;
                }
                (At::FlushTwice, Op::Flush { .. }) => out.op(lane, op),
                (At::MoreFences, Op::TxEnd) => out.op(lane, Op::Sfence),
                (At::FlushClean, Op::Load { at, .. }) => {
                    out.op(lane, op);
                    out.op(lane, Op::Flush { kind: FlushKind::Clwb, line: at.line() });
                    continue;
                }
                _ => {}
            }
            out.op(lane, op);
        }
        out
    }
}

/// Writes patches and returns what they replaced, so that applying that undoes them.
fn overlay(image: &mut [u8], patches: &[Patch]) -> Vec<Patch> {
    let mut undo = Vec::with_capacity(patches.len());
    for patch in patches {
        let place = &mut image[patch.at.0 as usize..][..8];
        undo.push(Patch { at: patch.at, word: (&*place).try_into().expect("eight bytes") });
        place.copy_from_slice(&patch.word);
    }
    undo.reverse();
    undo
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Kept,
    Lost,
    Torn,
}

/// What the transactions on one set of data leave, one after the other.
#[derive(Debug, Default)]
struct History {
    /// Every word that any of them stores to.
    words: Vec<u64>,
    /// The sum of all words after each number of transactions, and for which numbers it is that.
    states: HashMap<u64, Vec<usize>>,
}

/// Stores of a transaction: where, what.
type Stores = Vec<(u64, Vec<u8>)>;

/// What every set of data may be.
#[derive(Debug)]
struct Judge {
    histories: BTreeMap<u64, History>,
}

/// One word's share of a state's sum.
fn share(at: u64, value: u64) -> u64 {
    let mut mixed = at.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ value;
    for _ in 0..2 {
        mixed = (mixed ^ (mixed >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    }
    mixed ^ (mixed >> 32)
}

impl Judge {
    fn new(work: &Work) -> Self {
        // Stores of each transaction, by its data and its number there.
        let mut by_data: BTreeMap<u64, BTreeMap<u64, Stores>> = BTreeMap::new();
        for stream in &work.streams {
            let mut open: BTreeMap<u16, Vec<Stores>> = BTreeMap::new();
            let mut ended: BTreeMap<u16, Stores> = BTreeMap::new();
            for (lane, op) in stream.iter() {
                let stack = open.entry(lane.0).or_default();
                match op {
                    Op::TxBegin => stack.push(Vec::new()),
                    Op::Store { at, bytes } => {
                        if let Some(stores) = stack.last_mut() {
                            stores.push((at.0, bytes.to_vec()));
                        }
                    }
                    Op::TxEnd => {
                        ended.insert(lane.0, stack.pop().unwrap_or_default());
                    }
                    Op::Ack(tx) => {
                        let stores = ended.remove(&lane.0).unwrap_or_default();
                        let data = by_data.entry(tx.0 >> 32).or_default();
                        data.insert(tx.0 & u64::from(u32::MAX), stores);
                    }
                    _ => {}
                }
            }
        }
        let history = |transactions: &BTreeMap<u64, Stores>| {
            let mut memory: BTreeMap<u64, [u8; 8]> = BTreeMap::new();
            for (at, bytes) in transactions.values().flatten() {
                for (piece, _) in word_pieces(PoolOffset(*at), bytes.len()) {
                    let word = piece.0 & !7;
                    let old = work.image.get(word as usize..word as usize + 8);
                    let old = old.map_or([0; 8], |old| old.try_into().expect("eight bytes"));
                    memory.insert(word, old);
                }
            }
            let value = |bytes: &[u8; 8]| u64::from_le_bytes(*bytes);
            let mut sum = 0u64;
            for (at, bytes) in &memory {
                sum = sum.wrapping_add(share(*at, value(bytes)));
            }
            let words = memory.keys().copied().collect();
            let mut states: HashMap<u64, Vec<usize>> = HashMap::from([(sum, vec![0])]);
            for (number, stores) in transactions.values().enumerate() {
                for (at, bytes) in stores {
                    let mut rest = bytes.as_slice();
                    for (piece, len) in word_pieces(PoolOffset(*at), bytes.len()) {
                        let (now, tail) = rest.split_at(len);
                        rest = tail;
                        let word = piece.0 & !7;
                        let held = memory.get_mut(&word).expect("every word was entered");
                        sum = sum.wrapping_sub(share(word, value(held)));
                        held[(piece.0 % 8) as usize..][..len].copy_from_slice(now);
                        sum = sum.wrapping_add(share(word, value(held)));
                    }
                }
                states.entry(sum).or_default().push(number + 1);
            }
            History { words, states }
        };
        let histories = by_data.iter().map(|(data, all)| (*data, history(all))).collect();
        Self { histories }
    }

    /// Of each set of data, how many of its transactions were acknowledged.
    fn acknowledged(&self, journal: &TimedJournal, now: Cycle) -> BTreeMap<u64, usize> {
        let mut counts = BTreeMap::new();
        for (_, tx) in journal.acknowledged_by(now) {
            let count = counts.entry(tx.0 >> 32).or_insert(0);
            *count = (*count).max((tx.0 & u64::from(u32::MAX)) as usize);
        }
        counts
    }

    fn verdict(&self, image: &[u8], acknowledged: &BTreeMap<u64, usize>) -> Fate {
        let mut fate = Fate::Kept;
        for (data, history) in &self.histories {
            let mut sum = 0u64;
            for at in &history.words {
                let bytes = image[*at as usize..][..8].try_into().expect("eight bytes");
                sum = sum.wrapping_add(share(*at, u64::from_le_bytes(bytes)));
            }
            let needed = acknowledged.get(data).copied().unwrap_or(0);
            match history.states.get(&sum) {
                None => return Fate::Torn,
                Some(numbers) if numbers.iter().all(|number| *number < needed) => {
                    fate = Fate::Lost;
                }
                Some(_) => {}
            }
        }
        fate
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SEEDS: std::ops::Range<u64> = 1..4;

    fn run(campaign: &Campaign) -> Report {
        campaign.run().unwrap_or_else(|error| panic!("{}: {error}", campaign.command(None)))
    }

    #[test]
    fn what_promises_something_keeps_it_at_every_entry_and_in_every_second_crash() {
        for (scheme, _, guarantee, _) in SimScheme::ALL {
            if guarantee == "none" {
                continue;
            }
            for bench in ["hash", "rbtree", "sps-string"] {
                let campaign = Campaign::small(scheme, bench, 1);
                let report = run(&campaign);
                assert!(!report.is_guilty(scheme), "{}: {report:?}", campaign.command(None));
                assert!(report.entries > 100 && report.images > 200, "{scheme} {report:?}");
            }
        }
    }

    #[test]
    fn what_promises_nothing_is_found_guilty() {
        for (scheme, _, guarantee, _) in SimScheme::ALL {
            if guarantee == "none" {
                let guilty = SEEDS
                    .map(|seed| Campaign::small(scheme, "hash", seed))
                    .any(|campaign| run(&campaign).is_guilty(scheme));
                assert!(guilty, "{scheme} loses nothing");
            }
        }
    }

    #[test]
    fn a_buffered_commit_is_lost_and_never_torn() {
        let reports = SEEDS.map(|seed| run(&Campaign::small(SimScheme::FwbBuffered, "hash", seed)));
        let (torn, lost) = reports.fold((0, 0), |sum, r| (sum.0 + r.torn, sum.1 + r.lost));
        assert_eq!(torn, 0);
        assert!(lost > 0, "HWL-4 shows in no image");
    }

    #[test]
    fn every_plant_is_killed_and_every_control_is_silent() {
        for plant in PLANTS {
            let guilty = SEEDS
                .map(|seed| plant.campaign(seed))
                .find(|campaign| run(campaign).is_guilty(campaign.scheme));
            assert_eq!(guilty.is_none(), plant.is_control, "{}", plant.name);
        }
    }

    #[test]
    fn without_its_plant_every_campaign_is_silent() {
        for plant in PLANTS.iter().filter(|plant| plant.at != At::Undeclared) {
            let campaign = Campaign { plant: None, second_crash: false, ..plant.campaign(1) };
            let report = run(&campaign);
            assert!(!report.is_guilty(campaign.scheme), "{}: {report:?}", plant.name);
        }
    }

    #[test]
    fn context_switches_inside_transactions_and_growing_logs_lose_nothing() {
        for (scheme, switch_every, growths, slots) in
            [(SimScheme::Fwb, 3, 0, 256), (SimScheme::Hwl, 2, 0, 256), (SimScheme::Fwb, 0, 4, 4)]
        {
            let mut campaign = Campaign::small(scheme, "hash", 1);
            campaign.plan.switch_every = switch_every;
            campaign.options.growths = growths;
            campaign.options.slots = slots;
            campaign.options.tx_records_max = (growths > 0).then_some(2);
            let report = run(&campaign);
            assert!(!report.is_guilty(scheme), "{}: {report:?}", campaign.command(None));
            assert!(report.images > 200);
        }
    }

    #[test]
    fn large_runs_at_a_thousand_points_lose_nothing() {
        for scheme in [SimScheme::Fwb, SimScheme::Hwl, SimScheme::RedoRing] {
            let mut campaign = Campaign::small(scheme, "btree", 1);
            campaign.machine = MachineConfig::named("hwl").unwrap();
            campaign.machine.set_option("llc.size", "32 KiB").unwrap();
            campaign.machine.set_option("l1.size", "8 KiB").unwrap();
            campaign.plan.footprint = 1 << 18;
            campaign.plan.threads = 4;
            campaign.plan.transactions = 2000;
            campaign.options = LogOptions { slots: 1024, ..LogOptions::scaled(64) };
            campaign.points = Points::Some(1000);
            campaign.second_crash = false;
            let report = run(&campaign);
            assert!(!report.is_guilty(scheme), "{}: {report:?}", campaign.command(None));
            assert!(report.images >= 1000 && report.entries > 5000, "{report:?}");
        }
    }
}
