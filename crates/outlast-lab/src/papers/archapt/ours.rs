//! The project's own goals for write-back by age, judged by the same measurements.

use super::checksums::{Action, Grouping, objects_of, pattern};
use super::evidence::{Evidence, Memory};
use super::flushes::{AGAINST_UNALIGNED, COUNTS};
use super::memories::MEMORIES;
use super::timing::UNSWEPT;
use super::{Part, STORING, Task, WORKLOADS};
use crate::goals::OURS;
use crate::record::{Metric, Record};

/// On memory with slow writes: over undo, on average and at best, in percent.
const GAIN_AVERAGE_MIN: f64 = 19.0;
const GAIN_BEST_MIN: f64 = 42.0;

/// On DRAM: how much less than without Archapt is allowed on any workload, in percent.
const LOSS_MAX: f64 = 3.0;

/// The reason where a goal on DRAM is missed.
const NOTHING_AGES: &str = "where the log turns before the cache nothing ages: data is flushed as \
                            often, later and from a farther cache; a seal is more log than undo writes";

/// Each goal about which something was measured.
pub(super) fn judge(task: &Task, records: &[Record]) -> Vec<Record> {
    let evidence = Evidence::new(task, records);
    let mut goals = Vec::new();
    if task.wants(&[Part::Fig7]) {
        goals.extend(gains(&evidence));
        goals.extend(
            [("redo-archapt", "redo"), ("undo-archapt", "undo")]
                .into_iter()
                .filter_map(|(own, over)| nowhere_worse(&evidence, own, over)),
        );
    }
    if task.wants(&[Part::Memories]) {
        goals.extend(MEMORIES.iter().flat_map(|memory| simulated_gains(&evidence, memory)));
    }
    if task.wants(&[Part::Fig6]) {
        goals.extend(CHEAPER.iter().filter_map(|goal| cheaper(&evidence, goal)));
    }
    if task.wants(&[Part::Fig8]) {
        goals.extend(["undo", "redo"].into_iter().filter_map(|over| tail(&evidence, over)));
    }
    if task.wants(&[Part::Fig9]) {
        for scheme in SOUND_SCHEMES {
            goals.extend(SOUND.iter().filter_map(|goal| sound(&evidence, goal, scheme)));
        }
        goals.extend(LITERAL.iter().filter_map(|estimate| literal(&evidence, estimate)));
        goals.extend(papers_reduction(&evidence));
    }
    goals
}

/// Fewer flushes than undo on the same layout, on average at least.
struct Fewer {
    claim: &'static str,
    metric: Metric,
    percent_min: f64,
}

const SOUND: [Fewer; 2] = [
    Fewer {
        claim: "fewer flushes of data that find a dirty line than undo, same layout, ≥ 85 %",
        metric: Metric::DIRTY_DATA_FLUSHES_SAVED,
        percent_min: 85.0,
    },
    Fewer {
        claim: "fewer flushes of data and log that find a dirty line, same layout, ≥ 40 %",
        metric: Metric::ALL_DIRTY_FLUSHES_SAVED,
        percent_min: 40.0,
    },
];

const SOUND_SCHEMES: [&str; 2] = ["redo-archapt", "undo-archapt"];

/// The reason where one of these is missed.
const WHAT_IS_FLUSHED: &str = "flushed dirty: contents of new blocks, in the log or before their \
                               record, and lines still cached when they are flushed";

/// And of the variant that logs twice.
const LOGS_TWICE: &str = "; it logs old and new words";

fn sound(evidence: &Evidence<'_>, goal: &Fewer, scheme: &str) -> Option<Record> {
    let values = evidence.counts(goal.metric, &STORING, scheme);
    let value = mean(&values)?;
    let twice = if scheme == "undo-archapt" { LOGS_TWICE } else { "" };
    let reason = format!("{}; {WHAT_IS_FLUSHED}{twice}", all_words(&values));
    let record = Record::claim(OURS, goal.claim, EIGHT, scheme, goal.metric);
    Some(record.judged(goal.percent_min, value, value >= goal.percent_min, &reason))
}

/// Checksums made durable in less time than the lines that they cover, objects of a page together.
struct Cheaper {
    claim: &'static str,
    action: Action,
    bytes: u64,
    percent_min: f64,
}

const CHEAPER: [Cheaper; 3] = [
    Cheaper {
        claim: "checksums of objects of 2048 B created in less time than flushing them, ≥ 68 %",
        action: Action::Create,
        bytes: 2048,
        percent_min: 68.0,
    },
    Cheaper {
        claim: "checksums of objects of 128 B created in less time than flushing them, ≥ 29 %",
        action: Action::Create,
        bytes: 128,
        percent_min: 29.0,
    },
    Cheaper {
        claim: "checksums of objects of 2048 B updated in less time than flushing them, ≥ 63 %",
        action: Action::Update,
        bytes: 2048,
        percent_min: 63.0,
    },
];

/// Judged where writes are slow: on DRAM a flushed line costs no more than one that is read.
fn cheaper(evidence: &Evidence<'_>, goal: &Cheaper) -> Option<Record> {
    let work = objects_of(goal.bytes);
    let metric = Metric::OBJECT_TIME_SAVED;
    let saved = |memory, action, grouping| {
        evidence.native(memory, metric, &work, &pattern(action, grouping), None)?.value
    };
    let value = saved(Memory::Slow, goal.action, Grouping::ByPage)?;
    let mut reason = String::new();
    let beside = [
        ("at random", Memory::Slow, goal.action, Grouping::Batched),
        ("on DRAM", Memory::Bare, goal.action, Grouping::ByPage),
        ("on DRAM, nothing computed", Memory::Bare, Action::Floor, Grouping::ByPage),
    ];
    for (words, memory, action, grouping) in beside {
        if let Some(value) = saved(memory, action, grouping) {
            let separator = if reason.is_empty() { "" } else { "; " };
            reason += &format!("{separator}{words} {value:.0} %");
        }
    }
    let scheme = pattern(goal.action, Grouping::ByPage);
    let record = Record::claim(OURS, goal.claim, &work, &scheme, metric);
    let record = record.write_latency_ns(evidence.write_latency_ns);
    Some(record.judged(goal.percent_min, value, value >= goal.percent_min, &reason))
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// The estimate for the variant as the paper has it, within five points.
struct Estimate {
    claim: &'static str,
    metric: Metric,
    workloads: &'static [&'static str],
    /// `None` where all that is expected is that flushes are not saved but added.
    percent: Option<f64>,
}

const POINTS_MAX: f64 = 5.0;

const LITERAL: [Estimate; 3] = [
    Estimate {
        claim: "as the paper has it: fewer flushes of data than undo, 59 % within 5 points",
        metric: Metric::DATA_FLUSHES_SAVED,
        workloads: &STORING,
        percent: Some(59.0),
    },
    Estimate {
        claim: "as the paper has it, on YCSB-A, B, F: 68 % fewer within 5 points",
        metric: Metric::DATA_FLUSHES_SAVED,
        workloads: &["ycsb-a", "ycsb-b", "ycsb-f"],
        percent: Some(68.0),
    },
    Estimate {
        claim: "as the paper has it, with checksums that are not batched: more flushes than undo",
        metric: Metric::SUMMED_FLUSHES_SAVED,
        workloads: &STORING,
        percent: None,
    },
];

fn literal(evidence: &Evidence<'_>, estimate: &Estimate) -> Option<Record> {
    let scheme = "undo-archapt:literal";
    let values = evidence.counts(estimate.metric, estimate.workloads, scheme);
    let value = mean(&values)?;
    let work = if estimate.workloads.len() == STORING.len() { EIGHT } else { "ycsb-a, b, f" };
    let record = Record::claim(OURS, estimate.claim, work, scheme, estimate.metric);
    let holds = match estimate.percent {
        Some(percent) => (value - percent).abs() <= POINTS_MAX,
        None => value < 0.0,
    };
    let reason = format!(
        "{}; the estimate is of ten million records and a queue that ages every line",
        all_words(&values)
    );
    Some(record.judged(estimate.percent.unwrap_or(0.0), value, holds, &reason))
}

/// The paper's 66 %, under each count and against each baseline.
fn papers_reduction(evidence: &Evidence<'_>) -> Vec<Record> {
    let mut records = Vec::new();
    let schemes = ["undo-archapt", "undo-archapt+sums", "undo-archapt:literal"];
    for (scheme, count) in schemes.iter().flat_map(|scheme| COUNTS.iter().map(move |c| (scheme, c)))
    {
        for (baseline, class) in [("aligned", None), ("unaligned", Some(AGAINST_UNALIGNED))] {
            let values = evidence.counts_as(count.saved, &STORING, scheme, class);
            let Some(value) = mean(&values) else { continue };
            let part = |metric| {
                let parts = evidence.counts_as(metric, &STORING, scheme, Some(count.name));
                mean(&parts).unwrap_or(0.0)
            };
            let mut reason = all_words(&values);
            if class.is_some() {
                reason = format!(
                    "{:.1} by coalescing and {:.1} by skipping; {reason}",
                    part(Metric::SAVED_BY_COALESCING),
                    part(Metric::SAVED_BY_SKIPPING)
                );
            }
            let claim = format!("the paper's 66 % fewer flushes, {}, {baseline} undo", count.name);
            let record = Record::claim(OURS, &claim, EIGHT, scheme, count.saved);
            records.push(record.judged(PAPERS_PERCENT, value, value >= PAPERS_PERCENT, &reason));
        }
    }
    records
}

/// The saving that the paper claims.
const PAPERS_PERCENT: f64 = 66.0;

const NINE: &str = "nine workloads";
/// Those that store anything.
const EIGHT: &str = "eight workloads";

fn gains(evidence: &Evidence<'_>) -> Vec<Record> {
    let metric = Metric::THROUGHPUT_GAIN;
    let over_undo = |scheme| -> Vec<f64> {
        let gains = evidence.natives(Memory::Slow, metric, &WORKLOADS, scheme, Some("undo"));
        gains.into_iter().map(|(_, gain)| gain).collect()
    };
    let bound = mean(&over_undo(UNSWEPT)).map(|mean| {
        let words = all_words(&over_undo(UNSWEPT));
        format!("; if no data were ever flushed {mean:+.0} % on average, {words}")
    });
    let goal = |claim: &str| {
        let record = Record::claim(OURS, claim, NINE, "redo-archapt", metric);
        record.threads(evidence.threads).write_latency_ns(evidence.write_latency_ns)
    };
    let place = "where writes are slow";
    average_and_best(place, &over_undo("redo-archapt"), &bound.unwrap_or_default(), goal)
}

/// The same on the timed machine with one of its memories.
fn simulated_gains(evidence: &Evidence<'_>, memory: &str) -> Vec<Record> {
    let metric = Metric::GAIN_OVER_UNDO;
    let of = |scheme| evidence.counts_as(metric, &WORKLOADS, scheme, Some(memory));
    let bound = mean(&of("none")).map(|mean| format!("; none {mean:+.0} % on average"));
    let goal = |claim: &str| Record::claim(OURS, claim, NINE, "redo-archapt", metric);
    let place = format!("on the timed machine with {memory}");
    average_and_best(&place, &of("redo-archapt"), &bound.unwrap_or_default(), goal)
}

/// Both goals for throughput over undo, if anything was measured.
fn average_and_best(
    place: &str,
    gains: &[f64],
    bound: &str,
    goal: impl Fn(&str) -> Record,
) -> Vec<Record> {
    let Some(average) = mean(gains) else { return Vec::new() };
    let best = gains.iter().copied().fold(f64::MIN, f64::max);
    let reason = all_words(gains) + bound;
    let values = [("average", GAIN_AVERAGE_MIN, average), ("best", GAIN_BEST_MIN, best)];
    let judged = |(which, least, value)| {
        let goal = goal(&format!("throughput over undo {place}, {which}"));
        goal.judged(least, value, value >= least, &reason)
    };
    values.into_iter().map(judged).collect()
}

fn all_words(gains: &[f64]) -> String {
    let words: Vec<String> = gains.iter().map(|gain| format!("{gain:+.0}")).collect();
    format!("by workload, in the paper's order: {} %", words.join(", "))
}

fn nowhere_worse(evidence: &Evidence<'_>, own: &str, over: &str) -> Option<Record> {
    let metric = Metric::THROUGHPUT_GAIN;
    let gains = evidence.natives(Memory::Bare, metric, &WORKLOADS, own, Some(over));
    let (name, worst) = gains.into_iter().min_by(|(_, a), (_, b)| a.total_cmp(b))?;
    let claim = format!("throughput over {over} on DRAM, no workload below −{LOSS_MAX} %");
    let goal = Record::claim(OURS, &claim, name, own, metric).threads(evidence.threads);
    Some(goal.judged(-LOSS_MAX, worst, worst >= -LOSS_MAX, NOTHING_AGES))
}

/// On how many workloads the 99th percentile is worse by more than both spread.
fn tail(evidence: &Evidence<'_>, over: &str) -> Option<Record> {
    let own = "redo-archapt";
    let p99 = |workload, scheme| {
        evidence.native(Memory::Slow, Metric::LATENCY_P99, workload, scheme, None)
    };
    let mut worse = Vec::new();
    let mut compared = 0;
    for workload in STORING {
        let (Some(mine), Some(other)) = (p99(workload, own), p99(workload, over)) else { continue };
        compared += 1;
        if mine.p25.or(mine.value) > other.p75.or(other.value) {
            worse.push(workload);
        }
    }
    let claim = format!("99th percentile not worse than {over}'s beyond spread, writes slow");
    let goal = Record::claim(OURS, &claim, EIGHT, own, Metric::LATENCY_P99);
    let goal = goal.threads(evidence.threads).write_latency_ns(evidence.write_latency_ns);
    let reason = format!("workloads on which it is: {}", worse.join(", "));
    // The value is a count of workloads, and so is the goal.
    let mut goal = goal.judged(0.0, worse.len() as f64, worse.is_empty(), &reason);
    "workloads".clone_into(&mut goal.unit);
    (compared > 0).then_some(goal)
}
