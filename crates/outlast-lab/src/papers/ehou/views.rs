//! Views of the figures, and the records derived for them.

use super::{CARD, Findings};
use crate::papers::view::{Columns, Drawing, View, view};
use crate::record::{Kind, Metric, Record};

/// Writes a transaction that no program issued, over those of `ssp`.
pub const WRITES: Metric = Metric { name: "extra_writes_ssp", unit: "x" };
/// Writes a transaction that no program issued.
pub const EXTRA_WRITES: Metric = Metric { name: "extra_writes", unit: "lines/tx" };
/// Reads a transaction that no program missed for, those of the AIT included.
pub const EXTRA_READS: Metric = Metric { name: "extra_reads", unit: "lines/tx" };
/// Throughput over that of `redu`.
pub const SPEEDUP: Metric = Metric { name: "speedup_redu", unit: "x" };

type Lines = &'static [(&'static str, &'static str)];

/// Throughput by entries of the AIT cache.
pub const AIT: Lines = &[
    ("throughput_by_ait_redu", "redu"),
    ("throughput_by_ait_ssp", "ssp"),
    ("throughput_by_ait_eager", "ehou-eager"),
    ("throughput_by_ait_lazy", "ehou-lazy"),
    ("throughput_by_ait_ehou", "ehou"),
];
/// Throughput by what a write of the memory takes.
pub const LATENCY: Lines = &[
    ("throughput_by_write_redu", "redu"),
    ("throughput_by_write_ssp", "ssp"),
    ("throughput_by_write_ehou", "ehou"),
];
/// Throughput by bytes of an entry.
pub const GRANULARITY: Lines =
    &[("throughput_by_granularity_lazy", "ehou-lazy"), ("throughput_by_granularity_ehou", "ehou")];
/// Throughput by lines of a transaction.
pub const SIZE: Lines = &[
    ("throughput_by_size_redu", "redu"),
    ("throughput_by_size_ssp", "ssp"),
    ("throughput_by_size_ehou", "ehou"),
];
/// Writes of the hottest line, and how unevenly lines wear.
pub const WEAR_METRICS: [Metric; 2] = [
    Metric { name: "hottest_line_writes", unit: "count" },
    Metric { name: "lines_gini", unit: "ratio" },
];

/// The metrics of claims, under each assumption.
pub const BY_ASSUMPTION: [Metric; 3] = [
    Metric { name: "gain_over_redu", unit: "%" },
    Metric { name: "gain_over_ssp", unit: "%" },
    Metric { name: "writes_saved_over_ssp", unit: "%" },
];

const fn assumed(title: &'static str, metric: Metric) -> View {
    view("assumptions", "What the paper leaves open, on all works", title)
        .counted()
        .of(metric)
        .by(Columns::Classes)
}

const fn bars(id: &'static str, title: &'static str, metric: Metric) -> View {
    view(id, title, title).counted().of(metric)
}

const fn swept(id: &'static str, title: &'static str, axis: &'static str, lines: Lines) -> View {
    view(id, title, title).counted().drawn(Drawing::Lines(axis, lines))
}

fn is_of_the_paper(record: &Record) -> bool {
    record.paper.as_deref() == Some(CARD.id) && record.class.as_deref() != Some("mean")
}

/// All, the paper's first.
pub(super) const ALL: &[View] = &[
    bars("fig6", "Figure 6: writes that no program issued, over those of ssp", WRITES),
    bars("fig6", "Writes that no program issued", EXTRA_WRITES),
    bars("fig6", "Reads that no program missed for, AIT misses included", EXTRA_READS),
    bars("fig7", "Figure 7: throughput over redu", SPEEDUP),
    assumed("Mean gain of ehou over redu (41.2 % in the paper)", BY_ASSUMPTION[0]),
    assumed("Mean gain of ehou over ssp (24.0 %)", BY_ASSUMPTION[1]),
    assumed("Writes that no program issued, saved over ssp (55.6 %)", BY_ASSUMPTION[2]),
    swept("ait", "Entries of the AIT cache, array-random", "entries", AIT),
    swept(
        "size",
        "Lines of a transaction of array-random, an AIT cache of 256 entries",
        "lines",
        SIZE,
    ),
    swept("latency", "What a write of the memory takes, array-random", "ns", LATENCY),
    swept("granularity", "Bytes that an AIT entry maps, array-random", "bytes", GRANULARITY),
    bars("wear", "Wear: durable writes of the hottest line, hash", WEAR_METRICS[0]),
    bars("wear", "Wear: Gini coefficient over the lines written, hash", WEAR_METRICS[1]),
    bars("energy", "Lines that residual energy has to write, at most", MOST_DRAINED)
        .only(is_of_the_paper),
];

/// Lines that residual energy has to write, at most.
pub const MOST_DRAINED: Metric = Metric { name: "most_drain_lines", unit: "lines" };

/// The figures as records.
pub(super) fn relative(findings: &Findings) -> Vec<Record> {
    let mut records = Vec::new();
    for row in &findings.rows {
        let mut put = |metric, value: f64| {
            let scheme = row.measured.scheme;
            records.push(
                Record::new(Kind::Sim, row.work, scheme.name(), metric, value)
                    .threads(super::COPIES.into())
                    .guarantee(scheme.guarantee().name()),
            );
        };
        put(EXTRA_WRITES, row.extra_writes());
        put(EXTRA_READS, row.extra_reads(""));
        if row.measured.stats.kept.lines_max > 0 {
            put(MOST_DRAINED, row.measured.stats.kept.lines_max as f64);
        }
        if let Some(redu) = findings.row(row.work, "redu") {
            put(SPEEDUP, row.measured.throughput() / redu.measured.throughput());
        }
        if let Some(ssp) = findings.row(row.work, "ssp").filter(|ssp| ssp.extra_writes() > 0.0) {
            put(WRITES, row.extra_writes() / ssp.extra_writes());
        }
    }
    records
}
