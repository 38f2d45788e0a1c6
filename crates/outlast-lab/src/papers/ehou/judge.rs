//! The verdicts on the paper's claims: which measurement stands for which claim.
//!
//! Gains are met by as much or more. The paper does not say which mean it takes: the arithmetic one
//! of the works' gains is compared, and the geometric one of their ratios stands beside.

use super::{CARD, CLAIMS, Findings, Task};
use crate::papers::claim::{Claim, Found, Judgement, Rule};
use crate::record::Record;

const NOT_MEASURED: &str = "this run did not measure it";
/// The work whose name the results have in place of the set-up's "Array".
const ARRAY: &str = "array-stream";

/// One record for each claim about the requested parts.
pub(super) fn judge(task: &Task, findings: &Findings) -> Vec<Record> {
    let wanted: Vec<String> = task.parts.iter().map(|part| part.claims_name()).collect();
    CLAIMS
        .iter()
        .filter(|claim| wanted.iter().any(|part| part == claim.part))
        .map(|claim| judgement(claim, findings).record(CARD.id, claim))
        .collect()
}

fn compared(found: Option<Found>, rule: Rule) -> Judgement {
    match found {
        Some(found) => Judgement::Compared(found, rule),
        None => Judgement::NotTestable(NOT_MEASURED.to_owned()),
    }
}

fn judgement(claim: &Claim, findings: &Findings) -> Judgement {
    let (found, rule) = measured(claim.id, findings);
    compared(found.map(|found| found.noting(&elsewhere(claim, findings))), rule)
}

/// The same value under other readings of what the paper leaves open.
fn elsewhere(claim: &Claim, findings: &Findings) -> String {
    let under = findings.assumed.iter().filter_map(|(name, findings)| {
        let (found, rule) = measured(claim.id, findings);
        let found = found?;
        let met = if rule.holds(claim, &found) { ", which meets it" } else { "" };
        Some(format!("{name} {:.1}{met}", found.value))
    });
    let under: Vec<String> = under.collect();
    if under.is_empty() {
        return String::new();
    }
    format!("under other readings: {}", under.join(", "))
}

/// What stands for a claim, if this run has it, and the rule that it has to meet.
fn measured(id: &str, findings: &Findings) -> (Option<Found>, Rule) {
    match id.trim_start_matches("ehou.") {
        "throughput.vs_redu.avg" => (mean_gain(findings, "redu"), Rule::AtLeast),
        "throughput.vs_ssp.avg" => (mean_gain(findings, "ssp"), Rule::AtLeast),
        "throughput.vs_redu.array" => (array_gain(findings, "redu"), Rule::AtLeast),
        "throughput.vs_ssp.array" => (array_gain(findings, "ssp"), Rule::AtLeast),
        "order.throughput.ssp" => {
            let behind = |work: &str| {
                let redu = findings.row(work, "redu")?.measured.throughput();
                let least = ["ssp", "ehou"]
                    .into_iter()
                    .filter_map(|scheme| findings.row(work, scheme))
                    .map(|row| row.measured.throughput())
                    .fold(f64::INFINITY, f64::min);
                Some(if least > redu { 0.0 } else { 1.0 })
            };
            let all = findings.each(behind);
            let found = (!all.is_empty()).then(|| Found::of(all.iter().sum()));
            (found, Rule::Zero)
        }
        "write_overhead.vs_ssp.avg" => (writes_saved(findings), Rule::AtLeast),
        "ssp.consolidation_reads" => {
            let (mut reads, mut writes) = (0, 0);
            for row in findings.rows.iter().filter(|row| row.scheme() == "ssp") {
                let (read, written) = row.traffic("consolidation");
                reads += read;
                writes += written;
            }
            let note = format!("{reads} reads and {writes} writes in all runs");
            let found = (writes > 0).then(|| Found::of(reads as f64 / writes as f64).noting(&note));
            // What is under way at either end of a run counts on one side.
            (found, Rule::Near(0.02))
        }
        "order.reads" => {
            let mean = |scheme: &str, but: &str| {
                let of = |work: &str| Some(findings.row(work, scheme)?.extra_reads(but));
                Found::mean(&findings.each(of)).map(|found| found.value)
            };
            let found = mean("ssp", "ait").zip(mean("ehou", "ait")).map(|(ssp, ehou)| {
                let all = mean("ssp", "").zip(mean("ehou", "")).map_or(String::new(), |(ssp, ehou)| {
                    format!("with those of AIT misses, which the paper leaves out, {ssp:.2} and {ehou:.2}")
                });
                let note = format!("reads a transaction: ssp {ssp:.2}, ehou {ehou:.2}");
                Found::of(ssp - ehou).noting(&note).noting(&all)
            });
            (found, Rule::Holds)
        }
        id => unreachable!("no measurement stands for the claim {id}"),
    }
}

fn ratio(findings: &Findings, work: &str, against: &str) -> Option<f64> {
    let ehou = findings.row(work, "ehou")?.measured.throughput();
    Some(ehou / findings.row(work, against)?.measured.throughput())
}

/// By how much fewer writes no program issued than under `ssp`: the mean over the works, per cent.
pub(super) fn writes_saved(findings: &Findings) -> Option<Found> {
    let saved = |work: &str| {
        let ssp = findings.row(work, "ssp")?.extra_writes();
        let ehou = findings.row(work, "ehou")?.extra_writes();
        (ssp > 0.0).then(|| 100.0 * (1.0 - ehou / ssp))
    };
    let all = |scheme: &str| -> f64 {
        findings.each(|work| Some(findings.row(work, scheme)?.extra_writes())).iter().sum()
    };
    let (ssp, ehou) = (all("ssp"), all("ehou"));
    let each: Vec<String> = super::WORKS
        .iter()
        .filter_map(|(work, _)| Some(format!("{work} {:.0} %", saved(work)?)))
        .collect();
    let note = format!(
        "writes of the schemes' own causes: journal, table and consolidation of ssp, AIT and overflow \
         log of ehou; of all works' writes together {:.1} %; {}",
        100.0 * (1.0 - ehou / ssp),
        each.join(", ")
    );
    Found::mean(&findings.each(saved)).map(|found| found.noting(&note))
}

/// The mean of the works' gains, per cent.
pub(super) fn mean_gain(findings: &Findings, against: &str) -> Option<Found> {
    let ratios = findings.each(|work| ratio(findings, work, against));
    let gains: Vec<f64> = ratios.iter().map(|ratio| 100.0 * (ratio - 1.0)).collect();
    let logs: f64 = ratios.iter().map(|ratio| ratio.ln()).sum();
    let geometric = 100.0 * ((logs / ratios.len().max(1) as f64).exp() - 1.0);
    let each: Vec<String> = super::WORKS
        .iter()
        .filter_map(|(work, _)| Some((work, ratio(findings, work, against)?)))
        .map(|(work, ratio)| format!("{work} {:+.0} %", 100.0 * (ratio - 1.0)))
        .collect();
    let bound = findings.each(|work| {
        let plain = findings.row(work, "non-pers")?.measured.throughput();
        Some(plain / findings.row(work, against)?.measured.throughput())
    });
    let bound = Found::mean(&bound).map_or_else(String::new, |found| {
        let gain = 100.0 * (found.value - 1.0);
        format!("; plain memory on the same indirection {gain:+.0} %")
    });
    let note = format!("geometric {geometric:+.1} %; {}{bound}", each.join(", "));
    Found::mean(&gains).map(|found| found.noting(&note))
}

fn array_gain(findings: &Findings, against: &str) -> Option<Found> {
    let gain = 100.0 * (ratio(findings, ARRAY, against)? - 1.0);
    let against = findings.row(ARRAY, against)?.measured.throughput();
    let bound = findings.row(ARRAY, "non-pers").map_or_else(String::new, |plain| {
        let gain = 100.0 * (plain.measured.throughput() / against - 1.0);
        format!("plain memory on the same indirection {gain:+.0} %")
    });
    Some(Found::of(gain).noting(&bound))
}
