//! The project's own goals for write-back by age, judged by the same measurements.

use super::evidence::{Evidence, Memory};
use super::{Part, READ_ONLY, Request, WORKLOADS};
use crate::goals::OURS;
use crate::record::{Metric, Record};

/// On memory with slow writes: over undo, on average and at best, in percent.
const GAIN_AVERAGE_MIN: f64 = 19.0;
const GAIN_BEST_MIN: f64 = 42.0;

/// On DRAM: how much less than without Archapt is allowed on any workload, in percent.
const LOSS_MAX: f64 = 3.0;

/// What is said where a goal on DRAM is missed.
const HISTORY_COSTS: &str = "where flushes are cheap, what the history unit costs is not earned \
                             back";

/// Each goal about which something was measured.
pub(super) fn judge(request: &Request, records: &[Record]) -> Vec<Record> {
    let evidence = Evidence::new(request, records);
    let mut goals = Vec::new();
    if request.wants(&[Part::Fig7]) {
        goals.extend(gains(&evidence));
        goals.extend(
            [("redo-archapt", "redo"), ("undo-archapt", "undo")]
                .into_iter()
                .filter_map(|(own, over)| nowhere_worse(&evidence, own, over)),
        );
    }
    if request.wants(&[Part::Fig8]) {
        goals.extend(["undo", "redo"].into_iter().filter_map(|over| tail(&evidence, over)));
    }
    goals
}

fn gains(evidence: &Evidence<'_>) -> Vec<Record> {
    let metric = Metric::THROUGHPUT_GAIN;
    let all: Vec<f64> = evidence
        .natives(Memory::Slow, metric, &WORKLOADS, "redo-archapt", Some("undo"))
        .into_iter()
        .map(|(_, gain)| gain)
        .collect();
    let Some(best) = all.iter().copied().max_by(f64::total_cmp) else { return Vec::new() };
    let average = all.iter().sum::<f64>() / all.len() as f64;
    let goal = |claim: &str, goal: f64, value: f64| {
        let record = Record::claim(OURS, claim, "nine workloads", "redo-archapt", metric);
        let record = record.threads(evidence.threads).write_latency_ns(evidence.write_latency_ns);
        record.judged(goal, value, value >= goal, &all_words(&all))
    };
    vec![
        goal("throughput over undo where writes are slow, average", GAIN_AVERAGE_MIN, average),
        goal("throughput over undo where writes are slow, best", GAIN_BEST_MIN, best),
    ]
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
    Some(goal.judged(-LOSS_MAX, worst, worst >= -LOSS_MAX, HISTORY_COSTS))
}

/// On how many workloads the 99th percentile is worse by more than both spread.
fn tail(evidence: &Evidence<'_>, over: &str) -> Option<Record> {
    let own = "redo-archapt";
    let p99 = |workload, scheme| {
        evidence.native(Memory::Slow, Metric::LATENCY_P99, workload, scheme, None)
    };
    let mut worse = Vec::new();
    let mut compared = 0;
    for workload in WORKLOADS.into_iter().filter(|name| *name != READ_ONLY) {
        let (Some(mine), Some(other)) = (p99(workload, own), p99(workload, over)) else { continue };
        compared += 1;
        if mine.p25.or(mine.value) > other.p75.or(other.value) {
            worse.push(workload);
        }
    }
    let claim = format!("99th percentile not worse than {over}'s beyond spread, writes slow");
    let goal = Record::claim(OURS, &claim, "eight workloads", own, Metric::LATENCY_P99);
    let goal = goal.threads(evidence.threads).write_latency_ns(evidence.write_latency_ns);
    let reason = format!("workloads on which it is: {}", worse.join(", "));
    // The value is a count of workloads, and so is the goal.
    let mut goal = goal.judged(0.0, worse.len() as f64, worse.is_empty(), &reason);
    "workloads".clone_into(&mut goal.unit);
    (compared > 0).then_some(goal)
}
