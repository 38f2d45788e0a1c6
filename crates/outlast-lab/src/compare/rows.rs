//! What a reader compares, scheme by scheme, from records alone.

use outlast::Scheme;
use outlast_schemes::MachineScheme;
use outlast_trace::Guarantee;

use super::AS_ON;
use crate::format::short;
use crate::record::{Kind, Metric, Record, WorkId};
use crate::table::TextTable;

/// A scheme on a machine.
pub(super) struct Row<'r> {
    /// Its scheme.
    pub scheme: &'r str,
    /// Its machine, and what was chosen.
    pub config: &'r str,
    /// The guarantee that it claims.
    pub claimed: &'r str,
    records: Vec<&'r Record>,
    crashes: Vec<&'r Record>,
}

impl<'r> Row<'r> {
    /// All rows, in the order in which they were measured.
    pub(super) fn all(records: &'r [Record]) -> Vec<Self> {
        let mut rows: Vec<Self> = Vec::new();
        for record in records.iter().filter(|record| record.kind == Kind::Sim) {
            let (scheme, config) = (&*record.scheme, record.config.as_deref().unwrap_or_default());
            match rows.iter_mut().find(|row| row.scheme == scheme && row.config == config) {
                Some(row) => row.records.push(record),
                None => {
                    let crashes = records.iter();
                    let is_of = |r: &&Record| {
                        let on = r.config.as_deref().and_then(|config| config.split_once(AS_ON));
                        let is_on = |(_, name): (_, &str)| {
                            config.strip_prefix(name).is_some_and(|rest| rest.starts_with(" ("))
                        };
                        r.kind == Kind::Crash && r.scheme == scheme && on.is_none_or(is_on)
                    };
                    let crashes = crashes.filter(is_of);
                    let claimed = record.guarantee.as_deref().unwrap_or("none");
                    let (records, crashes) = (vec![record], crashes.collect());
                    rows.push(Self { scheme, config, claimed, records, crashes });
                }
            }
        }
        rows
    }

    /// Its machine and work, without its own options: rows of one table have the same.
    pub(super) fn machine(&self) -> &'r str {
        self.config.split(", scheme.").next().unwrap_or_default()
    }

    /// The work that its records name, each once, and its threads.
    pub(super) fn works(&self) -> Vec<(WorkId<'r>, Option<u32>)> {
        let mut works = Vec::new();
        for record in &self.records {
            let work = (record.work(), record.threads);
            if !works.contains(&work) {
                works.push(work);
            }
        }
        works
    }

    /// The reason for which it has no rank among the others, if there is one.
    pub(super) fn unranked(&self) -> Option<&'static str> {
        let seen = self.seen().map(|(seen, _)| seen);
        let is_kept = match self.claimed {
            "epoch" | "durable" => seen.is_none_or(|seen| seen == self.claimed),
            "buffered" => seen != Some("none"),
            _ => true,
        };
        if self.claimed == Guarantee::None.name() {
            Some("promises nothing about a crash: a bound")
        } else if !is_kept {
            Some("the oracle saw less than it claims")
        } else if self.value(Metric::MEMORY_WRITES_TX) == Some(0.0) {
            Some("wrote no line to memory in this run")
        } else if self.value(Metric::EPOCHS_PERSISTED) == Some(0.0) {
            Some("no epoch persisted in this run")
        } else {
            None
        }
    }

    /// How strong its guarantee is: 0 for the strongest.
    fn strength(&self) -> usize {
        let names = ["durable", "epoch", "buffered", "replay"];
        names.iter().position(|name| *name == self.claimed).unwrap_or(names.len())
    }

    /// A value without a class.
    pub(super) fn value(&self, metric: Metric) -> Option<f64> {
        self.classed(metric, None)
    }

    /// A value of a class.
    pub(super) fn classed(&self, metric: Metric, class: Option<&str>) -> Option<f64> {
        let found = self.records.iter().find(|r| r.is(metric) && r.class.as_deref() == class);
        found.and_then(|record| record.value)
    }

    /// The classes of a metric, with their values.
    pub(super) fn parts(&self, metric: Metric) -> impl Iterator<Item = (&'r str, f64)> + '_ {
        let of_metric = self.records.iter().filter(move |record| record.is(metric));
        of_metric.filter_map(|record| Some((record.class.as_deref()?, record.value?)))
    }

    fn crashed(&self, metric: Metric) -> Option<f64> {
        self.crashes.iter().find(|record| record.is(metric)).and_then(|record| record.value)
    }

    /// The guarantee that the oracle saw kept in the small campaign, and in how many images.
    pub(super) fn seen(&self) -> Option<(&'static str, f64)> {
        let images = self.crashed(Metric::IMAGES_VERIFIED)?;
        let (lost, torn) = (self.crashed(Metric::LOST)?, self.crashed(Metric::TORN)?);
        let by_epochs = self.claimed == Guarantee::Epoch.name();
        let seen = match (torn > 0.0, lost > 0.0) {
            (true, _) => "none",
            (false, true) if by_epochs => "none",
            (false, true) => "buffered",
            (false, false) if by_epochs => "epoch",
            (false, false) => "durable",
        };
        Some((seen, images))
    }

    /// What it gives up, in one line.
    pub(super) fn gives_up(&self) -> &'static str {
        let of_runtime = || {
            self.scheme.parse::<Scheme>().map_or("", |_| {
                "no hardware: programs call a library, whose instructions, flushes and fences count"
            })
        };
        self.scheme.parse::<MachineScheme>().map_or_else(|_| of_runtime(), MachineScheme::gives_up)
    }
}

/// Rows with a rank, the strongest guarantees first and the fastest of those; and the others, each with
/// the reason.
pub(super) fn ranked(rows: Vec<Row<'_>>) -> (Vec<Row<'_>>, Vec<(Row<'_>, &'static str)>) {
    let (mut ranked, mut others) = (Vec::new(), Vec::new());
    for row in rows {
        match row.unranked() {
            None => ranked.push(row),
            Some(why) => others.push((row, why)),
        }
    }
    let speed = |row: &Row<'_>| row.value(Metric::THROUGHPUT).unwrap_or(f64::NEG_INFINITY);
    ranked.sort_by(|a, b| a.strength().cmp(&b.strength()).then(speed(b).total_cmp(&speed(a))));
    (ranked, others)
}

/// The ranked schemes of a guarantee with what they keep of plain memory's throughput, the fastest first.
pub(crate) fn of_guarantee<'r>(records: &'r [Record], guarantee: &str) -> Vec<(f64, &'r str)> {
    let rows = Row::all(records).into_iter();
    let mine = rows.filter(|row| row.claimed == guarantee && row.unranked().is_none());
    let mut speeds: Vec<(f64, &str)> =
        mine.filter_map(|row| Some((row.value(Metric::SPEED_OVER_PLAIN)?, row.scheme))).collect();
    speeds.sort_by(|a, b| b.0.total_cmp(&a.0));
    speeds
}

/// Which way is better.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Better {
    /// The more the better.
    More,
    /// The less the better.
    Less,
    /// It says how a scheme ran.
    Neither,
}

/// A figure that is compared.
pub(super) struct Column {
    /// Its name at the head of the page's column.
    pub title: &'static str,
    /// Its unit there.
    pub unit: &'static str,
    /// Its head on a terminal; none where there is no room.
    pub terminal: Option<&'static str>,
    /// What it is, in one sentence.
    pub about: &'static str,
    /// Which way is better.
    pub better: Better,
    /// By what its value is divided for that unit.
    scale: f64,
    metric: Metric,
    class: Option<&'static str>,
}

impl Column {
    /// Its value in a row.
    pub(super) fn of(&self, row: &Row<'_>) -> Option<f64> {
        row.classed(self.metric, self.class).map(|value| value / self.scale)
    }

    /// The parts of it, where it has causes.
    pub(super) fn parts<'r>(&self, row: &Row<'r>) -> Vec<(&'r str, f64)> {
        match self.class {
            None => row.parts(self.metric).collect(),
            Some(_) => Vec::new(),
        }
    }
}

const fn column(
    title: &'static str,
    unit: &'static str,
    terminal: Option<&'static str>,
    better: Better,
    (metric, class, scale): (Metric, Option<&'static str>, f64),
    about: &'static str,
) -> Column {
    Column { title, unit, terminal, about, better, scale, metric, class }
}

use Better::{Less, More, Neither};

/// Every figure, in the order of the page's columns.
#[rustfmt::skip]
pub(super) const COLUMNS: [Column; 21] = [
    column("throughput", "tx/s", Some("tx/s"), More, (Metric::THROUGHPUT, None, 1.0),
        "Transactions per second of the machine."),
    column("over plain memory", "×", Some("× plain"), More, (Metric::SPEED_OVER_PLAIN, None, 1.0),
        "Throughput over that of plain memory, which promises nothing, on the same work."),
    column("latency, median", "ns", Some("p50 ns"), Less, (Metric::LATENCY_P50, None, 1.0),
        "From the retirement of a transaction's first mark to that of its acknowledgement: the same two points under every scheme. Schemes of epochs acknowledge before data is durable."),
    column("latency, 99 %", "ns", Some("p99 ns"), Less, (Metric::LATENCY_P99, None, 1.0),
        "The time that 99 of 100 transactions do not exceed."),
    column("reads", "lines/tx", Some("reads"), Less, (Metric::MEMORY_READS_TX, None, 1.0),
        "Lines read from persistent memory per transaction, by cause."),
    column("writes", "lines/tx", Some("writes"), Less, (Metric::MEMORY_WRITES_TX, None, 1.0),
        "Lines written to persistent memory per transaction, by cause."),
    column("write amplification", "×", Some("ampl."), Less, (Metric::WRITE_AMPLIFICATION, None, 1.0),
        "Bytes of the lines written over the bytes that transactions stored."),
    column("persist, median", "ns", None, Less, (Metric::PERSIST_LATENCY, Some("p50"), 1.0),
        "From a line's leaving the caches, or the scheme, until it is durable."),
    column("persist, 99 %", "ns", None, Less, (Metric::PERSIST_LATENCY, Some("p99"), 1.0),
        "The time that 99 of 100 lines do not exceed."),
    column("energy", "nJ/tx", Some("nJ/tx"), Less, (Metric::MEMORY_ENERGY_TX, None, 1.0),
        "Dynamic energy of the memory, where the machine's memory has energies."),
    column("hottest line", "writes", Some("hottest"), Less, (Metric::LINE_WRITES, Some("max"), 1.0),
        "Durable writes of the line that is written most, its wear without wear levelling."),
    column("wear, Gini", "", None, Less, (Metric::WEAR_GINI, None, 1.0),
        "How unevenly the lines that are written wear: 0 where all are written alike."),
    column("epoch", "instr", Some("epoch"), Neither, (Metric::EPOCH_INSTRUCTIONS, None, 1.0),
        "Instructions of each core in an epoch: a tenth of the run's, or as chosen, where the published 30 million would never end. A short epoch makes its end cost more."),
    column("epochs persisted", "count", Some("persisted"), Neither, (Metric::EPOCHS_PERSISTED, None, 1.0),
        "Epochs that persisted while the run counted."),
    column("extra space", "KiB", None, Less, (Metric::EXTRA_SPACE, None, 1024.0),
        "Persistent memory that the scheme takes beside the data."),
    column("recovery", "µs", Some("recov. µs"), Less, (Metric::RECOVERY_MEMORY_TIME, None, 1e3),
        "Time of the memory for what an executed recovery read and wrote, as fast as it takes requests; the median of five crashes."),
    column("recovery reads", "lines", None, Less, (Metric::RECOVERY_READS, None, 1.0),
        "Lines that it read."),
    column("recovery writes", "lines", None, Less, (Metric::RECOVERY_WRITES, None, 1.0),
        "Lines that it wrote."),
    column("drain, most", "lines", Some("drain"), Less, (Metric::DRAIN_LINES, Some("max"), 1.0),
        "Lines outside the array that residual energy has to write at a crash, write queues apart."),
    column("drain, time", "ns", None, Less, (Metric::DRAIN_TIME, Some("max"), 1.0),
        "Time of the memory for the most lines that residual energy has to write, as fast as it takes them."),
    column("drain, energy", "nJ", None, Less, (Metric::DRAIN_ENERGY, Some("max"), 1.0),
        "The energy that takes, where the machine's memory has energies."),
];

/// The tables that a terminal shows, for each machine: ranked schemes, then the others.
pub fn table(records: &[Record]) -> String {
    let rows = Row::all(records);
    let mut machines: Vec<&str> = Vec::new();
    for row in &rows {
        if !machines.contains(&row.machine()) {
            machines.push(row.machine());
        }
    }
    let mut text = String::new();
    for machine in machines {
        let of_machine = Row::all(records).into_iter().filter(|row| row.machine() == machine);
        let (ranked, others) = ranked(of_machine.collect());
        let shown: Vec<&Column> = COLUMNS
            .iter()
            .filter(|column| column.terminal.is_some())
            .filter(|column| rows.iter().any(|row| column.of(row).is_some()))
            .collect();
        let heads = || shown.iter().filter_map(|column| column.terminal);
        let cells = |row: &Row<'_>| {
            let chosen = row.config.strip_prefix(machine).unwrap_or_default();
            let seen = row.seen().map_or("·", |(seen, _)| seen);
            let words = [format!("{}{chosen}", row.scheme), row.claimed.into(), seen.into()];
            let values = shown.iter().map(|column| column.of(row).map_or("·".to_owned(), short));
            words.into_iter().chain(values).collect::<Vec<_>>()
        };
        text += machine;
        text.push('\n');
        if !ranked.is_empty() {
            let mut table = TextTable::new(["", "claims", "seen"].into_iter().chain(heads()));
            ranked.iter().for_each(|row| table.row(cells(row)));
            text += &table.render();
        }
        if !others.is_empty() {
            let heads = ["not ranked", "claims", "seen"].into_iter().chain(heads());
            let mut table = TextTable::new(heads.chain(["reason"]));
            for (row, why) in &others {
                table.row(cells(row).into_iter().chain([(*why).to_owned()]));
            }
            text.push('\n');
            text += &table.render();
        }
    }
    text
}
