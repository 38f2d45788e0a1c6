//! Views of the figures, and the records derived for them.

use super::measured::{Row, Set};
use super::works::Origin;
use super::{EPOCHS_OF_LOG, IDEAL, PICL, PRIOR, SCHEMES, Task, features, machine, runs};
use crate::papers::view::{Columns, Drawing, View, view};
use crate::record::{Kind, Metric, Record};
use outlast_schemes::MachineScheme;

const fn metric(name: &'static str, unit: &'static str) -> Metric {
    Metric { name, unit }
}

/// Time over that of `ideal`.
pub(super) const TIME: Metric = metric("time_over_ideal", "x");
/// Programs of a mix that have a counterpart in the suite.
pub(super) const MIX_PROGRAMS: Metric = Metric { name: "mix_programs", unit: "programs" };
/// The same of mixes, and of synthetic work.
const TIME_MIX: Metric = metric("time_over_ideal_mix", "x");
const TIME_SYNTHETIC: Metric = metric("time_over_ideal_synthetic", "x");
/// Epochs that ended in the instructions of one.
const COMMITS: Metric = metric("commits_per_epoch", "count");
const COMMITS_SYNTHETIC: Metric = metric("commits_per_epoch_synthetic", "count");
/// Operations of the memory over the write-backs of `ideal`, by kind.
const OPERATIONS: Metric = metric("operations_over_write_backs", "x");
const ALL_OPERATIONS: Metric = metric("all_operations_over_write_backs", "x");
/// The undo log of eight epochs.
const LOG: Metric = metric("undo_log_8_epochs", "MB");
const LOG_SYNTHETIC: Metric = metric("undo_log_8_epochs_synthetic", "MB");
/// Instructions of an epoch that was to have 500 M.
const EPOCH_LENGTH: Metric = metric("effective_epoch", "M instr");
/// Lines that the scan has written, over those with a gap of 0.
const SCANNED: Metric = metric("scanned_over_gap_0", "x");

type Lines = &'static [(&'static str, &'static str)];

/// Mean time over `ideal`, by what figures 15 to 17 vary.
const BY_LLC: Lines = &[
    ("time_by_llc_journaling", "journaling"),
    ("time_by_llc_shadow", "shadow"),
    ("time_by_llc_frm", "frm"),
    ("time_by_llc_thynvm", "thynvm"),
    ("time_by_llc_picl", "picl"),
];
const BY_WRITE: Lines = &[
    ("time_by_write_journaling", "journaling"),
    ("time_by_write_shadow", "shadow"),
    ("time_by_write_frm", "frm"),
    ("time_by_write_thynvm", "thynvm"),
    ("time_by_write_picl", "picl"),
];
const BY_LINK: Lines = &[("time_by_link_picl", "picl")];

/// Under each reading, the mean time of single programs over `ideal`.
pub(super) const ASSUMED: Metric = metric("mean_time_over_ideal", "x");
/// By instructions of an epoch, at the paper's scale.
pub(super) const BY_EPOCH: Lines = &[("time_by_epoch_picl", "picl"), ("time_by_epoch_frm", "frm")];
pub(super) const RECOVERY: Lines = &[("recovery_by_epoch_picl", "picl")];
pub(super) const LOST_WORK: Lines = &[("lost_by_epoch_picl", "picl"), ("lost_by_epoch_frm", "frm")];
pub(super) const LOG_BY_EPOCH: Lines = &[("log_by_epoch_picl", "picl")];
/// Bytes of an undo entry's 64, as some cheap compression has them.
pub(super) const COMPRESSED: Metric = metric("undo_entry_bytes", "B");
/// Writes of the line that is written most, and how unevenly lines wear.
pub(super) const WEAR: [Metric; 2] =
    [metric("hottest_line_writes_picl_paper", "count"), metric("lines_gini_picl_paper", "ratio")];

const fn bars(id: &'static str, title: &'static str, metric: Metric) -> View {
    view(id, title, title).counted().of(metric)
}

const fn swept(id: &'static str, title: &'static str, axis: &'static str, lines: Lines) -> View {
    view(id, title, title).counted().drawn(Drawing::Lines(axis, lines))
}

const fn by_class(id: &'static str, title: &'static str, metric: Metric) -> View {
    bars(id, title, metric).by(Columns::Classes)
}

/// All, the paper's first.
pub(super) const ALL: &[View] = &[
    bars("fig9", "Figure 9: time of single programs over ideal", TIME),
    bars("fig9", "Time of synthetic work over ideal", TIME_SYNTHETIC),
    bars("fig10", "Figure 10: time of mixes of eight over ideal", TIME_MIX),
    bars("fig11", "Figure 11: commits in the instructions of an epoch", COMMITS),
    bars("fig11", "The same of synthetic work", COMMITS_SYNTHETIC),
    bars("fig12", "Figure 12: operations over the write-backs of ideal", ALL_OPERATIONS),
    by_class("fig12", "Operations by kind, means over programs", OPERATIONS).drawn(Drawing::Shares),
    bars("fig13", "Figure 13: undo log of eight epochs", LOG),
    bars("fig13", "The same of synthetic work", LOG_SYNTHETIC),
    bars("fig14", "Figure 14: instructions of an epoch that is to have 500 M", EPOCH_LENGTH),
    swept("fig15", "Figure 15: time by the last level of a core", "MB", BY_LLC),
    swept("fig16", "Figure 16: time by what a row's write takes", "ns", BY_WRITE),
    swept("fig17", "Figure 17: time by bandwidth of the link", "GB/s", BY_LINK),
    by_class("fig18", "Figure 18: lines that the scan writes, by its gap", SCANNED),
    bars("table2", "Table II", features::FEATURE)
        .drawn(Drawing::Own(features::TABLE))
        .by(Columns::Classes),
    bars("table4", "Table IV: the machine", machine::MACHINE),
    bars("table5", "Table V: programs of the mixes that have a counterpart", MIX_PROGRAMS),
    by_class("assumptions", "Mean time of single programs over ideal, by reading", ASSUMED),
    swept("epochs", "Time over ideal by an epoch's length", "M instr", BY_EPOCH),
    swept("epochs", "Recovery by an epoch's length, milliseconds", "M instr", RECOVERY),
    swept(
        "epochs",
        "Work lost in a crash by an epoch's length, milliseconds",
        "M instr",
        LOST_WORK,
    ),
    swept("epochs", "Log that is live by an epoch's length, megabytes", "M instr", LOG_BY_EPOCH),
    by_class("compression", "Bytes of an undo entry's 64", COMPRESSED),
    bars("wear", "Wear: durable writes of the hottest line", WEAR[0]),
    bars("wear", "Wear: Gini coefficient over the lines written", WEAR[1]),
];

/// The row of a work under a scheme.
pub(super) fn row<'r>(rows: &'r [Row], work: &str, scheme: &str, set: Set) -> Option<&'r Row> {
    rows.iter().find(|row| row.work == work && row.scheme == scheme && row.set == set)
}

/// Works of an origin that ran, in their order.
pub(super) fn works(rows: &[Row], origin: Origin, set: Set) -> Vec<&'static str> {
    let mut works = Vec::new();
    for row in rows.iter().filter(|row| row.origin == origin && row.set == set) {
        if !works.contains(&row.work) {
            works.push(row.work);
        }
    }
    works
}

/// Time over `ideal` with the same thing varied.
pub(super) fn slowdown(rows: &[Row], work: &str, scheme: &str, set: Set) -> Option<f64> {
    Some(row(rows, work, scheme, set)?.slowdown(row(rows, work, IDEAL, set)?))
}

/// The same of all works of an origin.
pub(super) fn slowdowns(rows: &[Row], origin: Origin, scheme: &str, set: Set) -> Vec<f64> {
    let works = works(rows, origin, set);
    works.iter().filter_map(|work| slowdown(rows, work, scheme, set)).collect()
}

/// The geometric mean; nothing of none.
pub(super) fn mean(values: &[f64]) -> Option<f64> {
    let logs: f64 = values.iter().map(|value| value.ln()).sum();
    (!values.is_empty()).then(|| (logs / values.len() as f64).exp())
}

fn record(work: &str, scheme: &str, metric: Metric, value: f64) -> Record {
    let of: MachineScheme = scheme.parse().expect("the tables above name schemes");
    Record::new(Kind::Sim, work, scheme, metric, value).guarantee(of.guarantee().name())
}

/// A point of a line.
pub(super) fn point(lines: Lines, work: &str, scheme: &str, at: f64, value: f64) -> Option<Record> {
    let (name, _) = lines.iter().find(|line| line.1 == scheme)?;
    let unit = match name.split('_').next() {
        Some("time") => "x",
        Some("log") => "MB",
        _ => "ms",
    };
    Some(record(work, scheme, metric(name, unit), value).class(&at.to_string()))
}

/// The figures as records.
pub(super) fn records(task: &Task, rows: &[Row]) -> Vec<Record> {
    let mut records = Vec::new();
    let divisor = task.divisor;
    for own in rows {
        let mut put = |metric, value| records.push(record(own.work, own.scheme, metric, value));
        let is_program = own.origin == Origin::Program;
        match own.set {
            Set::Taken => {
                let time = match own.origin {
                    Origin::Program => TIME,
                    Origin::Mix | Origin::SyntheticMix => TIME_MIX,
                    Origin::Synthetic => TIME_SYNTHETIC,
                };
                let ideal = row(rows, own.work, IDEAL, Set::Taken);
                if let Some(ideal) = ideal.filter(|_| own.scheme != IDEAL) {
                    put(time, own.slowdown(ideal));
                    if !own.origin.is_mix() {
                        let commits = if is_program { COMMITS } else { COMMITS_SYNTHETIC };
                        put(commits, own.commits(divisor));
                    }
                }
                if let Some(over) = over_write_backs(rows, own).filter(|_| is_program) {
                    put(ALL_OPERATIONS, over);
                }
                if own.scheme == PICL && !own.origin.is_mix() {
                    let log = if is_program { LOG } else { LOG_SYNTHETIC };
                    // Synthetic work counts one epoch.
                    let epochs = if is_program { task.single.1 } else { 1 };
                    put(log, own.log_mb(divisor) * EPOCHS_OF_LOG as f64 / epochs as f64);
                }
            }
            Set::Long if is_program => put(EPOCH_LENGTH, own.effective_epoch(divisor) / 1e6),
            Set::Gap(gap) => {
                let none = row(rows, own.work, PICL, Set::Gap(0)).map_or(0, Row::scanned);
                if none > 0 && is_program {
                    let share = own.scanned() as f64 / none as f64;
                    let of = record(own.work, own.scheme, SCANNED, share);
                    records.push(of.class(&gap.to_string()));
                }
            }
            _ => {}
        }
    }
    records.extend(means(rows));
    records.extend(sweeps(rows));
    records
}

/// Operations of a run over the write-backs of `ideal`.
pub(super) fn over_write_backs(rows: &[Row], own: &Row) -> Option<f64> {
    let ideal = row(rows, own.work, IDEAL, own.set)?.operations().write_back;
    // A program that hardly writes back says nothing.
    (ideal >= WRITE_BACKS).then(|| own.operations().total() / ideal)
}

/// Write-backs of `ideal` that a program has to have for its operations to be compared.
const WRITE_BACKS: f64 = 1000.0;

fn means(rows: &[Row]) -> Vec<Record> {
    let mut records = Vec::new();
    for scheme in SCHEMES {
        let mut put = |metric, work: &str, values: &[f64]| {
            records.extend(mean(values).map(|mean| record(work, scheme, metric, mean)));
        };
        if scheme != IDEAL {
            put(TIME, "mean", &slowdowns(rows, Origin::Program, scheme, Set::Taken));
            put(TIME_MIX, "mean", &slowdowns(rows, Origin::Mix, scheme, Set::Taken));
        }
        let of_scheme = || {
            let is_it = |row: &&Row| {
                row.scheme == scheme && row.origin == Origin::Program && row.set == Set::Taken
            };
            rows.iter().filter(is_it)
        };
        let kinds = ["sequential", "random", "write-back"];
        for (number, kind) in kinds.into_iter().enumerate() {
            let share = |own: &Row| {
                let over = over_write_backs(rows, own)?;
                let operations = own.operations();
                let part = match number {
                    0 => operations.sequential,
                    1 => operations.random,
                    _ => operations.write_back,
                };
                Some(over * part / operations.total().max(1.0))
            };
            let shares: Vec<f64> = of_scheme().filter_map(share).collect();
            if !shares.is_empty() {
                let mean = shares.iter().sum::<f64>() / shares.len() as f64;
                records.push(record("programs", scheme, OPERATIONS, mean).class(kind));
            }
        }
    }
    records
}

fn sweeps(rows: &[Row]) -> Vec<Record> {
    let mut records = Vec::new();
    let mut swept = |lines: Lines, set: Set, at: f64, taken: bool| {
        for (_, scheme) in lines {
            let works = varied_works(rows, set);
            let set = if taken { Set::Taken } else { set };
            let all: Vec<f64> =
                works.iter().filter_map(|work| slowdown(rows, work, scheme, set)).collect();
            let point = |mean| point(lines, "mixes", scheme, at, mean);
            records.extend(mean(&all).and_then(point));
        }
    };
    for of in machine::LLCS {
        swept(BY_LLC, Set::Llc(of), of, false);
    }
    swept(BY_LLC, Set::Llc(machine::LLCS[0]), 2.0, true);
    for of in machine::WRITES {
        swept(BY_WRITE, Set::Write(of), of, false);
    }
    swept(BY_WRITE, Set::Write(machine::WRITES[0]), 368.0, true);
    for of in machine::LINKS {
        swept(BY_LINK, Set::Link(of), of, false);
    }
    swept(BY_LINK, Set::Link(machine::LINKS[0]), 12.8, true);
    records
}

/// Mixes that ran with something varied.
pub(super) fn varied_works(rows: &[Row], set: Set) -> Vec<&'static str> {
    [works(rows, Origin::Mix, set), works(rows, Origin::SyntheticMix, set)].concat()
}

/// The gaps of figure 18, as columns.
pub(super) fn reduction(rows: &[Row], gap: u64) -> Vec<f64> {
    debug_assert!(runs::GAPS.contains(&gap));
    let share = |work: &&'static str| {
        let none = row(rows, work, PICL, Set::Gap(0))?.scanned();
        let own = row(rows, work, PICL, Set::Gap(gap))?.scanned();
        (none > 0).then(|| 100.0 * (1.0 - own as f64 / none as f64))
    };
    works(rows, Origin::Program, Set::Gap(gap)).iter().filter_map(share).collect()
}

/// Means of the schemes that PiCL is compared with, over works of an origin.
pub(super) fn prior_means(rows: &[Row], origin: Origin, set: Set) -> Vec<(&'static str, f64)> {
    let mean_of =
        |scheme: &&'static str| Some((*scheme, mean(&slowdowns(rows, origin, scheme, set))?));
    PRIOR.iter().filter_map(mean_of).collect()
}
