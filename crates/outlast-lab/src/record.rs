//! Tidy results: one record for one measured value, and the document that holds a run's.
//!
//! This is what `--json` prints and what `results.json` holds; tables, figures and the report
//! page are made from nothing else. Metric names and units are an interface that others rely on
//! ([`Metric`]).

use std::collections::BTreeMap;
use std::fmt;

use outlast_crash::explain::Explanation;
use serde::{Deserialize, Serialize};

use crate::beside::Beside;
use crate::machine::Machine;
use crate::power::Power;
use crate::stats::Spread;

mod metric;

pub use metric::Metric;

/// Everything that one command measured, with what is needed to measure it again.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Document {
    /// The version of Outlast that measured.
    pub outlast: String,
    /// The command line.
    pub command: String,
    /// Where it ran.
    pub machine: Machine,
    /// The seed of every random choice.
    pub seed: u64,
    /// The source's commit, where known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub commit: Option<String>,
    /// Every key of each simulated machine that ran, by the machine's name with the keys that were set.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub simulated: BTreeMap<String, BTreeMap<String, String>>,
    /// What was measured.
    pub records: Vec<Record>,
    /// A report's comparison of schemes on one program, apart from what papers claim.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub compared: Vec<Record>,
    /// Crash points after which something was wrong, the first ones of each campaign under each policy and caches.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub failures: Vec<FailedPoint>,
    /// Crashes that the run explains.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub explained: Vec<Explanation>,
    /// Front ends and engines beside the programs that they stand for.
    #[serde(skip_serializing_if = "Beside::is_empty", default)]
    pub beside: Beside,
    /// Programs that know nothing of this project, after a loss of power.
    #[serde(skip_serializing_if = "Power::is_empty", default)]
    pub power: Power,
}

impl Document {
    /// What was measured for a paper's figures and claimed by it, and the rest: two documents.
    /// Crashes stay with the rest.
    pub(crate) fn split(&self, paper: &str) -> (Self, Self) {
        let of_paper =
            |record: &Record| record.kind != Kind::Crash && record.paper.as_deref() == Some(paper);
        let part = |wanted: bool| {
            let records = self.records.iter().filter(|record| of_paper(record) == wanted);
            Self { records: records.cloned().collect(), ..self.clone_head() }
        };
        (part(true), part(false))
    }

    fn clone_head(&self) -> Self {
        Self {
            simulated: BTreeMap::new(),
            records: Vec::new(),
            compared: Vec::new(),
            failures: Vec::new(),
            explained: Vec::new(),
            beside: Beside::default(),
            power: Power::default(),
            commit: self.commit.clone(),
            machine: self.machine.clone(),
            outlast: self.outlast.clone(),
            command: self.command.clone(),
            seed: self.seed,
        }
    }

    /// A document without records yet, about this machine.
    pub fn new(version: &str, command: &str, seed: u64, commit: Option<String>) -> Self {
        Self {
            outlast: version.to_owned(),
            command: command.to_owned(),
            machine: Machine::this(),
            seed,
            commit,
            simulated: BTreeMap::new(),
            records: Vec::new(),
            compared: Vec::new(),
            failures: Vec::new(),
            explained: Vec::new(),
            beside: Beside::default(),
            power: Power::default(),
        }
    }

    /// The document as the JSON that commands print: one line per field and record member.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).expect("a document is plain data");
        text.push('\n');
        text
    }

    /// Reads what [`to_json`](Self::to_json) wrote.
    ///
    /// # Errors
    /// When the text is not such a document.
    pub fn from_json(text: &str) -> serde_json::Result<Self> {
        serde_json::from_str(text)
    }
}

/// A crash point after which something was wrong.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FailedPoint {
    /// The workload.
    pub workload: String,
    /// The scheme.
    pub scheme: String,
    /// The replacement policy; absent, as caches and point, where it went wrong with no crash at all.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy: Option<String>,
    /// The caches.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub caches: Option<String>,
    /// The simulated machine.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub machine: Option<String>,
    /// The crash point, for `--crash-op`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub crash_op: Option<String>,
    /// The entry of the machine's journal, for `--crash-entry`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub crash_entry: Option<usize>,
    /// The entry of the rest's journal, for `--resume-entry`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub resume_entry: Option<usize>,
    /// The mistake.
    pub wrong: String,
    /// The command that shows it again.
    pub replay: String,
}

/// What kind of run a value comes from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Measured on this machine's processor and memory.
    Native,
    /// Counted in simulated time.
    Sim,
    /// From a crash campaign.
    Crash,
    /// A paper's claim, or a target of our own, held against a measured value.
    Claim,
}

/// What became of a claim, or of a planted bug.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Measured, and at least as good as claimed.
    Reached,
    /// Measured, and not as good as claimed.
    NotReached,
    /// The claim contradicts itself or another one of its paper.
    Contradictory,
    /// Nothing that can be run here would show it.
    NotTestable,
}

impl Verdict {
    /// What a reader must see first has the lowest number.
    pub(crate) fn urgency(verdict: Option<Self>) -> u8 {
        match verdict {
            Some(Self::NotReached) => 0,
            Some(Self::Contradictory) => 1,
            Some(Self::Reached) => 2,
            Some(Self::NotTestable) | None => 3,
        }
    }
}

/// One measured value. Members that do not apply are left out of the JSON.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Record {
    /// Which kind of run.
    pub kind: Kind,
    /// What ran.
    pub workload: String,
    /// Under which scheme.
    pub scheme: String,
    /// What was measured: a [`Metric`]'s name.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// The value; for repeated measurements their median. Absent only where a claim was not
    /// tested.
    pub value: Option<f64>,
    /// Lower quartile over rounds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p25: Option<f64>,
    /// Upper quartile over rounds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub p75: Option<f64>,
    /// How many rounds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub rounds: Option<u32>,
    /// How many threads.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub threads: Option<u32>,
    /// Sizes and settings, in words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub config: Option<String>,
    /// The simulated machine: a preset or a file, before `set` changed it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub machine: Option<String>,
    /// Keys of the machine and of the scheme that were set, with their values.
    #[serde(skip_serializing_if = "BTreeMap::is_empty", default)]
    pub set: BTreeMap<String, String>,
    /// Bytes of the workload's data. With the workload's name, `keys`, `transactions` and `seed`
    /// it says what ran: values of different work are not compared.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub footprint: Option<u64>,
    /// Keys, records or words of the workload's data.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub keys: Option<u64>,
    /// Transactions that count, of all threads together.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub transactions: Option<u64>,
    /// The seed of what was drawn, where it is not that of the whole document.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub seed: Option<u64>,
    /// Cache replacement policy, or `any`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub policy: Option<String>,
    /// Persistence domain.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub domain: Option<String>,
    /// What the scheme promises.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub guarantee: Option<String>,
    /// Lines per fence, for floors.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub lines: Option<u32>,
    /// Which part of a distribution, or against what, where a metric has several values.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub class: Option<String>,
    /// When transactions were acknowledged: `logical` or `physical`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub ack: Option<String>,
    /// Arrivals per second on which transactions did not wait for each other; nothing in closed
    /// loops.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub arrivals_per_s: Option<u64>,
    /// Nanoseconds added to every line that was written back; nothing where none were.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub write_latency_ns: Option<u64>,
    /// The planted bug, or the control, that was switched on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub plant: Option<String>,
    /// Which paper claims it, `outlast` for our own targets; of a value, for whose figures it was
    /// measured.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub paper: Option<String>,
    /// The claim, in words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub claim: Option<String>,
    /// The value claimed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub paper_value: Option<f64>,
    /// What became of it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub verdict: Option<Verdict>,
    /// Why it was not reached, or what the comparison leaves out.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
}

/// What identifies the work of a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkId<'r> {
    workload: &'r str,
    footprint: Option<u64>,
    keys: Option<u64>,
    transactions: Option<u64>,
    seed: Option<u64>,
}

impl fmt::Display for WorkId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.workload)?;
        for (value, what) in
            [(self.footprint, "bytes"), (self.keys, "keys"), (self.transactions, "transactions")]
        {
            if let Some(value) = value {
                write!(f, ", {value} {what}")?;
            }
        }
        self.seed.map_or(Ok(()), |seed| write!(f, ", seed {seed}"))
    }
}

impl Record {
    /// One value.
    ///
    /// # Panics
    /// When the value is not finite: JSON has no such numbers, and no measurement is one.
    pub fn new(kind: Kind, workload: &str, scheme: &str, metric: Metric, value: f64) -> Self {
        assert!(value.is_finite(), "{} of {scheme} on {workload} is {value}", metric.name);
        Self { value: Some(value), ..Self::empty(kind, workload, scheme, metric) }
    }

    /// The median of several rounds, with its quartiles.
    pub fn spread(
        kind: Kind,
        workload: &str,
        scheme: &str,
        metric: Metric,
        spread: Spread,
    ) -> Self {
        Self {
            p25: Some(spread.p25),
            p75: Some(spread.p75),
            rounds: Some(spread.rounds),
            ..Self::new(kind, workload, scheme, metric, spread.median)
        }
    }

    /// A claim that `metric` of `scheme` on `workload` is `paper_value`, and what became of it.
    pub fn claim(paper: &str, claim: &str, workload: &str, scheme: &str, metric: Metric) -> Self {
        Self {
            paper: Some(paper.to_owned()),
            claim: Some(claim.to_owned()),
            ..Self::empty(Kind::Claim, workload, scheme, metric)
        }
    }

    fn empty(kind: Kind, workload: &str, scheme: &str, metric: Metric) -> Self {
        Self {
            kind,
            workload: workload.to_owned(),
            scheme: scheme.to_owned(),
            metric: metric.name.to_owned(),
            unit: metric.unit.to_owned(),
            value: None,
            p25: None,
            p75: None,
            rounds: None,
            threads: None,
            config: None,
            machine: None,
            set: BTreeMap::new(),
            footprint: None,
            keys: None,
            transactions: None,
            seed: None,
            policy: None,
            domain: None,
            guarantee: None,
            lines: None,
            class: None,
            ack: None,
            arrivals_per_s: None,
            write_latency_ns: None,
            plant: None,
            paper: None,
            claim: None,
            paper_value: None,
            verdict: None,
            reason: None,
        }
    }

    /// What identifies the work: values of different work are not compared.
    pub fn work(&self) -> WorkId<'_> {
        let Self { workload, footprint, keys, transactions, seed, .. } = self;
        WorkId {
            workload,
            footprint: *footprint,
            keys: *keys,
            transactions: *transactions,
            seed: *seed,
        }
    }

    /// Whether this is a value of `metric`.
    pub fn is(&self, metric: Metric) -> bool {
        self.metric == metric.name
    }

    /// Judges a claim: `reached` when `holds`, else `not_reached` with the reason.
    pub fn judged(mut self, paper_value: f64, value: f64, holds: bool, reason: &str) -> Self {
        self.paper_value = Some(paper_value);
        self.value = Some(value);
        self.verdict = Some(if holds { Verdict::Reached } else { Verdict::NotReached });
        self.reason = (!holds && !reason.is_empty()).then(|| reason.to_owned());
        self
    }
}

macro_rules! setters {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $argument:ty, $convert:expr;)*) => {
        impl Record {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(mut self, $name: $argument) -> Self {
                    let convert: fn($argument) -> $type = $convert;
                    self.$name = Some(convert($name));
                    self
                }
            )*
        }
    };
}

setters! {
    /// Sets the number of threads.
    threads: u32 = u32, |n| n;
    /// Sets lines per fence.
    lines: u32 = u32, |n| n;
    /// Sets which of a metric's values this is.
    class: String = &str, str::to_owned;
    /// Sets when transactions were acknowledged.
    ack: String = &str, str::to_owned;
    /// Sets the arrivals per second.
    arrivals_per_s: u64 = u64, |rate| rate;
    /// Sets the nanoseconds added to a line written back.
    write_latency_ns: u64 = u64, |ns| ns;
    /// Sets the bytes of the workload's data.
    footprint: u64 = u64, |bytes| bytes;
    /// Sets the keys of the workload's data.
    keys: u64 = u64, |keys| keys;
    /// Sets how many transactions count.
    transactions: u64 = u64, |count| count;
    /// Sets the seed.
    seed: u64 = u64, |seed| seed;
    /// Sets sizes and settings, in words.
    config: String = &str, str::to_owned;
    /// Sets the cache replacement policy.
    policy: String = &str, str::to_owned;
    /// Sets the persistence domain.
    domain: String = &str, str::to_owned;
    /// Sets what the scheme promises.
    guarantee: String = &str, str::to_owned;
    /// Sets the planted bug or control.
    plant: String = &str, str::to_owned;
    /// Sets the verdict.
    verdict: Verdict = Verdict, |v| v;
    /// Sets the reason.
    reason: String = &str, str::to_owned;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_comes_back_from_its_json() {
        let mut document = Document::new("1.2.3", "outlast bench sps1", 42, Some("abc".into()));
        let spread = Spread { median: 5.0, p25: 4.0, p75: 6.5, rounds: 7 };
        document.records = vec![
            Record::spread(Kind::Native, "sps1", "undo", Metric::THROUGHPUT, spread)
                .threads(1)
                .domain("adr"),
            Record::claim(
                "outlast",
                "cost of undo",
                "sps1",
                "undo",
                Metric::PERSISTENCE_COST_RATIO,
            )
            .judged(0.6, 0.7, false, "because"),
        ];
        assert_eq!(Document::from_json(&document.to_json()).unwrap(), document);
    }

    #[test]
    fn json_holds_the_names_others_rely_on_and_nothing_that_does_not_apply() {
        let record = Record::new(Kind::Native, "ycsb-a", "redo", Metric::LATENCY_P99, 900.0);
        let json = serde_json::to_value(record.threads(2)).unwrap();
        assert_eq!(
            json,
            serde_json::json!({
                "kind": "native", "workload": "ycsb-a", "scheme": "redo",
                "metric": "latency_p99", "unit": "ns", "value": 900.0, "threads": 2,
            })
        );
        let claim =
            Record::claim("archapt", "x", "w", "s", Metric::IPC).judged(1.0, 2.0, false, "y");
        let json = serde_json::to_value(claim).unwrap();
        assert_eq!(json["verdict"], "not_reached");
        assert_eq!(json["paper_value"], 1.0);
        assert_eq!(json["kind"], "claim");
    }

    #[test]
    #[should_panic(expected = "throughput of undo on sps1 is NaN")]
    fn a_value_that_is_no_number_is_refused() {
        Record::new(Kind::Native, "sps1", "undo", Metric::THROUGHPUT, f64::NAN);
    }
}
