//! Views of the figures, and the records derived for them.

use super::{Findings, HWL, LOG_BUFFER, Row};
use crate::papers::view::{Columns, Drawing, View, view};
use crate::record::{Kind, Metric, Record};
use crate::simulated::Measured;
use outlast_sim::Cause;

/// Throughput by entries of the log buffer.
pub const BUFFER: &str = "throughput_by_log_buffer";
/// The same with writes as fast as the row buffer, in place of the paper's endless bandwidth.
pub const BUFFER_FAST: &str = "throughput_by_log_buffer_fast_writes";
/// Throughput by cycles from scan to scan.
pub const PERIOD: &str = "throughput_by_scan_period";
/// Throughput by slots of the log, with the period in proportion.
pub const LOG: &str = "throughput_by_log_slots";
/// Throughput without scans, on a log that never fills.
pub const NO_SCAN: &str = "throughput_without_scans";
/// Throughput where scans read tags in no time.
pub const FREE_TAGS: &str = "throughput_with_free_scans";
/// Throughput with scans by the clock alone, on a log that never fills.
pub const NO_EARLY: &str = "throughput_with_scans_by_the_clock";

/// Throughput over that of the better unsafe software logging, as the paper's figures have it.
pub const SPEEDUP: Metric = Metric { name: "speedup_unsafe_base", unit: "x" };
/// Instructions over those of `non-pers`.
pub const INSTRUCTIONS: Metric = Metric { name: "instructions_non_pers", unit: "x" };
/// Instructions per cycle over those of the better unsafe software logging.
pub const IPC: Metric = Metric { name: "ipc_unsafe_base", unit: "x" };
/// Writes to memory over those of the better unsafe software logging.
pub const WRITES: Metric = Metric { name: "writes_unsafe_base", unit: "x" };
/// Energy of the memory over that of `non-pers`.
pub const ENERGY: Metric = Metric { name: "memory_energy_non_pers", unit: "x" };

/// Lines written to the log a transaction, by what a record holds.
pub const LOG_LINES: Metric = Metric { name: "log_lines_tx", unit: "lines/tx" };
/// Bytes of the mechanism in the processor and the controller: Table I.
pub const HARDWARE: Metric = Metric { name: "table1_bytes", unit: "B" };

/// Whether a record is of the WHISPER-like set.
fn is_whisper(record: &Record) -> bool {
    super::WHISPER.contains(&record.workload.as_str())
}

/// Whether it is of a micro-benchmark.
fn is_micro(record: &Record) -> bool {
    !is_whisper(record)
}

const fn bars(id: &'static str, title: &'static str, metric: Metric) -> View {
    view(id, title, title).counted().of(metric).only(is_micro)
}

const fn over(
    title: &'static str,
    axis: &'static str,
    lines: &'static [(&'static str, &'static str)],
) -> View {
    view("fig11", title, title).counted().drawn(Drawing::Lines(axis, lines))
}

/// All, in the paper's order.
pub(super) const ALL: &[View] = &[
    bars("fig6", "Figure 6: throughput over unsafe-base", SPEEDUP),
    bars("fig7", "Figure 7: instructions over non-pers", INSTRUCTIONS),
    bars("fig7", "Figure 7: IPC over unsafe-base", IPC),
    bars("fig8", "Figure 8: dynamic energy of the memory over non-pers", ENERGY),
    bars("fig9", "Figure 9: writes to memory over unsafe-base", WRITES),
    bars("fig9", "Lines of fwb's log a transaction, by what a record holds", LOG_LINES)
        .by(Columns::Classes)
        .saying(
            "Words of any lines share a record here; the paper's sizes suggest those of one line.",
        ),
    bars("table1", "Table I: hardware of the mechanism", HARDWARE),
    bars("fig10", "Figure 10: throughput over unsafe-base, WHISPER-like set", SPEEDUP)
        .only(is_whisper),
    over(
        "Figure 11a: the log buffer, hash-toggle",
        "entries",
        &[(BUFFER, "fwb"), (BUFFER_FAST, "writes as fast as the row buffer")],
    ),
    over("Figure 11b: cycles from scan to scan, hash-toggle", "cycles", &[(PERIOD, "fwb")]),
    over(
        "Figure 11b: slots of the log, scans in proportion, hash-toggle",
        "slots",
        &[(LOG, "fwb")],
    ),
];

/// The rows of one program and one number of threads.
pub(super) fn group<'f>(findings: &'f Findings, of: &Row) -> Vec<&'f Row> {
    let same = |row: &&Row| row.bench == of.bench && row.threads == of.threads;
    findings.rows.iter().filter(same).collect()
}

/// The row of a scheme.
pub(super) fn row<'f>(group: &[&'f Row], scheme: &str) -> Option<&'f Row> {
    group.iter().find(|row| row.measured.scheme.name() == scheme).copied()
}

/// The better of two schemes.
pub(super) fn better<'f>(group: &[&'f Row], of: [&str; 2]) -> Option<&'f Row> {
    let rows = of.into_iter().filter_map(|scheme| row(group, scheme));
    rows.max_by(|a, b| a.measured.throughput().total_cmp(&b.measured.throughput()))
}

/// The paper's unsafe-base: whichever unsafe logging is better.
pub(super) fn unsafe_base<'f>(group: &[&'f Row]) -> Option<&'f Row> {
    better(group, ["unsafe-undo", "unsafe-redo"])
}

/// The figures as records.
pub(super) fn relative(findings: &Findings) -> Vec<Record> {
    let mut records = Vec::new();
    for row in &findings.rows {
        let group = group(findings, row);
        let (Some(base), Some(ideal)) = (unsafe_base(&group), self::row(&group, "non-pers")) else {
            continue;
        };
        let of = &row.measured;
        let mut put = |metric, value: f64| {
            let scheme = of.scheme;
            let mut record = Record::new(Kind::Sim, row.bench, scheme.name(), metric, value)
                .threads(row.threads.into())
                .guarantee(scheme.guarantee().name());
            record.paper = Some(HWL.to_owned());
            records.push(record);
        };
        let instructions = |row: &Row| row.measured.stats.instructions() as f64;
        put(SPEEDUP, of.throughput() / base.measured.throughput());
        put(INSTRUCTIONS, instructions(row) / instructions(ideal));
        put(IPC, of.stats.ipc() / base.measured.stats.ipc());
        put(WRITES, of.writes() / base.measured.writes().max(1e-9));
        if let (Some(energy), Some(least)) = (row.energy, ideal.energy) {
            put(ENERGY, energy / least);
        }
    }
    records
}

/// Lines that a run wrote to its log, a transaction.
pub(super) fn logged(measured: &Measured) -> f64 {
    measured.stats.writes.of(Cause::Logged) as f64 / measured.transactions
}

/// Lines of the log under both readings of what a record holds.
pub(super) fn log_lines(rows: &[Row], one_line: &Measured, bench: &str) -> Vec<Record> {
    let fwb = rows.iter().find(|row| row.measured.scheme == one_line.scheme);
    let threads = fwb.map_or(0, |row| row.threads);
    let both = [("any lines", fwb.map(|row| &row.measured)), ("one line", Some(one_line))];
    let record = |(class, measured): (&str, Option<&Measured>)| {
        let scheme = one_line.scheme.name();
        let lines = Record::new(Kind::Sim, bench, scheme, LOG_LINES, logged(measured?));
        Some(lines.class(class).threads(threads.into()))
    };
    both.into_iter().filter_map(record).collect()
}

/// Table I from the mechanism as it is here: an ID of 8 bits, two pointers, a buffer of records and a bit
/// for each line of the caches of Table II. The paper's 768 bytes are a bit for 6,144 lines (HWL-13).
pub(super) fn hardware() -> Vec<Record> {
    const LINES: f64 = (8 << 20) as f64 / 64.0 + 4.0 * (32 << 10) as f64 / 64.0;
    let parts = [
        ("transaction ID register", 1.0),
        ("log head pointer register", 8.0),
        ("log tail pointer register", 8.0),
        ("log buffer", (LOG_BUFFER * 64) as f64),
        ("fwb tag bits", LINES / 8.0),
    ];
    parts.map(|(part, bytes)| Record::new(Kind::Sim, part, "fwb", HARDWARE, bytes)).into()
}
