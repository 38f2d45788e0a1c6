//! The verdicts on the paper's claims: which measurement stands for which claim.
//!
//! Gains are met by as much or more. The paper does not say which mean it takes: the arithmetic one
//! of the works' gains is compared, and the geometric one of their ratios stands beside.

use super::{CARD, CLAIMS, Findings, Task};
use crate::papers::claim::{self, Found, Row, Rule};
use crate::record::Record;

const NOT_MEASURED: &str = "this run did not measure it";
/// The work whose name the results have in place of the set-up's "Array".
const ARRAY: &str = "array-stream";

/// One record for each claim about the requested parts.
pub(super) fn judge(task: &Task, findings: &Findings) -> Vec<Record> {
    let parts: Vec<String> = task.parts.iter().map(|part| part.claims_name()).collect();
    claim::judged(CARD.id, &CLAIMS, &parts, |claim| {
        let find = |figure: &Figure, rule| {
            let readings = findings.assumed.iter().map(|(name, other)| (*name, figure(other)));
            let words = "under other readings";
            Some(figure(findings)?.noting(&claim::elsewhere(claim, rule, words, 1, readings)))
        };
        claim::by_row(ROWS, claim, find, || NOT_MEASURED.to_owned())
    })
}

/// A figure, if this run has it.
type Figure = fn(&Findings) -> Option<Found>;

pub(super) const ROWS: &[Row<Figure>] = &[
    ("throughput.vs_redu.avg", Rule::AtLeast, |f| mean_gain(f, "redu")),
    ("throughput.vs_ssp.avg", Rule::AtLeast, |f| mean_gain(f, "ssp")),
    ("throughput.vs_redu.array", Rule::AtLeast, |f| array_gain(f, "redu")),
    ("throughput.vs_ssp.array", Rule::AtLeast, |f| array_gain(f, "ssp")),
    ("order.throughput.ssp", Rule::Zero, |f| {
        let behind = |work: &str| {
            let redu = f.row(work, "redu")?.measured.throughput();
            let others = ["ssp", "ehou"].into_iter().filter_map(|scheme| f.row(work, scheme));
            let least = others.map(|row| row.measured.throughput()).fold(f64::INFINITY, f64::min);
            Some(if least > redu { 0.0 } else { 1.0 })
        };
        let all = f.each(behind);
        (!all.is_empty()).then(|| Found::of(all.iter().sum()))
    }),
    ("write_overhead.vs_ssp.avg", Rule::AtLeast, writes_saved),
    // What is under way at either end of a run counts on one side.
    ("ssp.consolidation_reads", Rule::Near(0.02), |f| {
        let (mut reads, mut writes) = (0, 0);
        for row in f.rows.iter().filter(|row| row.scheme() == "ssp") {
            let (read, written) = row.traffic("consolidation");
            reads += read;
            writes += written;
        }
        let note = format!("{reads} reads and {writes} writes in all runs");
        (writes > 0).then(|| Found::of(reads as f64 / writes as f64).noting(&note))
    }),
    ("order.reads", Rule::Holds, |f| {
        let mean = |scheme: &str, but: &str| {
            let of = |work: &str| Some(f.row(work, scheme)?.extra_reads(but));
            Found::mean(&f.each(of)).map(|found| found.value)
        };
        let (ssp, ehou) = (mean("ssp", "ait")?, mean("ehou", "ait")?);
        let all = mean("ssp", "").zip(mean("ehou", "")).map_or(String::new(), |(ssp, ehou)| {
            format!("with those of AIT misses, which the paper leaves out, {ssp:.2} and {ehou:.2}")
        });
        let note = format!("reads a transaction: ssp {ssp:.2}, ehou {ehou:.2}");
        Some(Found::of(ssp - ehou).noting(&note).noting(&all))
    }),
];

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
