//! What was measured on the real processor.

use plotters::style::RGBColor;

use super::{Section, escape, figure, settings, table};
use crate::pivot::Grid;
use crate::plot::{Bar, Line, Panel, bars, lines, palette};
use crate::record::{Document, Kind, Metric, Record};

pub(super) fn throughput(document: &Document) -> Section {
    let grid = Grid::of_metric(&document.records, Kind::Native, Metric::THROUGHPUT);
    let mut body = String::new();
    if !grid.is_empty() {
        let caption = format!(
            "Throughput in transactions per second, wall time; bars are medians, whiskers \
             quartiles. Every panel has its own scale. {}",
            conditions(document, Metric::THROUGHPUT)
        );
        let svg = bars("Throughput by workload and scheme", "tx/s", &panels(&grid), &[]);
        body += &figure(&svg, &caption, &command(document, Metric::THROUGHPUT), document);
        body += &table::grid("Transactions per second.", "Workload", &grid, table::median);
        body += &metric_table(
            document,
            Metric::THROUGHPUT_CPU,
            "Transactions per CPU second of the whole process, background threads included.",
        );
    }
    Section { id: "throughput", title: "Throughput", body }
}

pub(super) fn cost(document: &Document) -> Section {
    let grid = Grid::of_metric(&document.records, Kind::Native, Metric::PERSISTENCE_COST);
    let mut body = String::new();
    if !grid.is_empty() {
        body += "<p>The time of a transaction beyond that of <code>none</code>, which neither \
                 logs nor flushes, in the same round. It is negative where a scheme is faster \
                 than <code>none</code>: by chance, or because libpmemobj promises no isolation \
                 and a load through it is a bare copy.</p>\n";
        let caption = format!(
            "Cost of persistence per transaction; shorter is better. {}",
            conditions(document, Metric::PERSISTENCE_COST)
        );
        let svg = bars("Cost of persistence by workload and scheme", "ns", &panels(&grid), &[]);
        body += &figure(&svg, &caption, &command(document, Metric::PERSISTENCE_COST), document);
        body += &metric_table(
            document,
            Metric::PERSISTENCE_COST_RATIO,
            "Cost relative to the better of the peers, formed round by round.",
        );
        body += &table::grid("Cost in nanoseconds.", "Workload", &grid, table::median);
        body += &metric_table(
            document,
            Metric::PERSISTENCE_COST_RATIO_CPU,
            "Relative cost by CPU time, which other programs on the machine disturb less.",
        );
    }
    Section { id: "cost", title: "Cost of persistence", body }
}

const PARTS: [(&str, Metric); 4] = [
    ("log", Metric::TIME_LOG),
    ("flush", Metric::TIME_FLUSH),
    ("fence", Metric::TIME_FENCE),
    ("rest", Metric::TIME_REST),
];

pub(super) fn parts(document: &Document) -> Section {
    let grids = PARTS
        .map(|(name, metric)| (name, Grid::of_metric(&document.records, Kind::Native, metric)));
    let mut body = String::new();
    if let Some((_, first)) = grids.iter().find(|(_, grid)| !grid.is_empty()) {
        let bar = |row: &str, scheme: &String| Bar {
            label: scheme.clone(),
            segments: grids
                .iter()
                .filter_map(|(name, grid)| Some((grid.value(row, scheme)?, palette::part(name))))
                .collect(),
            whisker: None,
        };
        let panels: Vec<_> = first
            .rows
            .iter()
            .map(|row| Panel {
                title: row.clone(),
                bars: first.columns.iter().map(|scheme| bar(row, scheme)).collect(),
            })
            .collect();
        let legend = PARTS.map(|(name, _)| (name, palette::part(name)));
        let caption = format!(
            "Where the time of a transaction goes, in nanoseconds: differences of the same work \
             run interleaved on one pool, formed round by round. Rest is <code>none</code>; log \
             is the scheme without its flushes and fences beyond <code>none</code>; flush is what \
             its flushes add to that; fence is what its fences add to that. What a left-out fence \
             would have waited for may show as flush. A negative difference is noise of the \
             measurement; its bar goes to the left. The quick scale takes those works apart that goals \
             are about. {}",
            conditions(document, Metric::TIME_REST)
        );
        let svg = bars("Parts of a transaction", "ns", &panels, &legend);
        body += &figure(&svg, &caption, &command(document, Metric::TIME_REST), document);
    }
    Section { id: "parts", title: "Where the time goes", body }
}

pub(super) fn distance(document: &Document) -> Section {
    let mut body = metric_table(
        document,
        Metric::FLOOR_DISTANCE,
        "Cost of persistence over the floor's prediction.",
    );
    if !body.is_empty() {
        body.insert_str(
            0,
            "<p>A transaction that writes back <i>L</i> lines and fences <i>N</i> times waits \
             <i>N</i> times for <i>L</i>/<i>N</i> lines. The prediction is <i>N</i> times the \
             median of the cheapest pattern for <i>L</i>/<i>N</i> lines, interpolated between \
             whole numbers. What the cost holds beyond that are log records, locks, and lines that \
             were not cached; below 1 the waiting was hidden behind other work.</p>\n",
        );
        body += &metric_table(
            document,
            Metric::FLOOR_PREDICTED,
            "The floor's prediction, in nanoseconds per transaction.",
        );
    }
    Section { id: "distance", title: "How far from the floor", body }
}

pub(super) fn medium(document: &Document) -> Section {
    let body = [
        (Metric::FLUSHED_LINES, "Lines flushed per transaction."),
        (Metric::FENCES, "Fences per transaction."),
        (Metric::STREAMED_LINES, "Lines streamed past the caches per transaction."),
        (Metric::DIRTINESS, "Dirty bytes over the bytes of flushed lines."),
    ]
    .map(|(metric, caption)| metric_table(document, metric, caption))
    .concat();
    Section { id: "medium", title: "Flushes and fences", body }
}

pub(super) fn latency(document: &Document) -> Section {
    let body = [
        (Metric::LATENCY_P50, "Median, in nanoseconds, from call to durable acknowledgement."),
        (Metric::LATENCY_P99, "99th percentile, in nanoseconds."),
    ]
    .map(|(metric, caption)| metric_table(document, metric, caption))
    .concat();
    Section { id: "latency", title: "Latency", body }
}

pub(super) fn floor(document: &Document) -> Section {
    let records = || document.records.iter().filter(|record| record.is(Metric::FLOOR));
    let count = |record: &Record| record.lines.unwrap_or(0).to_string();
    let grid = Grid::new(records(), count, |record| record.scheme.clone());
    let mut body = String::new();
    if !grid.is_empty() {
        let patterns: Vec<Line> = grid.columns.iter().map(|pattern| line(&grid, pattern)).collect();
        let caption = format!(
            "What this machine takes for a number of lines and one fence, by how the lines are \
             written; logarithmic. {}",
            conditions(document, Metric::FLOOR)
        );
        let svg = lines("The floor: lines and one fence", "lines", "ns", &patterns);
        body += &figure(&svg, &caption, &command(document, Metric::FLOOR), document);
        let colour = |index: usize, _: &str| palette::series(index);
        body += &table::coloured_grid("Nanoseconds.", "Lines", &grid, colour, table::median);
    }
    Section { id: "floor", title: "What the hardware allows", body }
}

fn line(grid: &Grid<'_>, pattern: &str) -> Line {
    let point = |row: &String| Some((row.parse().ok()?, grid.value(row, pattern)?));
    Line { label: pattern.to_owned(), points: grid.rows.iter().filter_map(point).collect() }
}

/// A panel per workload with a bar per scheme.
pub(super) fn panels(grid: &Grid<'_>) -> Vec<Panel> {
    coloured_panels(grid, palette::scheme)
}

/// As [`panels`], with the colour of a bar by its name.
pub(super) fn coloured_panels(grid: &Grid<'_>, colour: impl Fn(&str) -> RGBColor) -> Vec<Panel> {
    let bar = |row: &str, scheme: &String| {
        let record = grid.get(row, scheme)?;
        Some(Bar {
            label: scheme.clone(),
            segments: vec![(record.value?, colour(scheme))],
            whisker: record.p25.zip(record.p75),
        })
    };
    grid.rows
        .iter()
        .map(|row| Panel {
            title: row.clone(),
            bars: grid.columns.iter().filter_map(|scheme| bar(row, scheme)).collect(),
        })
        .collect()
}

fn metric_table(document: &Document, metric: Metric, caption: &str) -> String {
    let grid = Grid::of_metric(&document.records, Kind::Native, metric);
    if grid.is_empty() {
        return String::new();
    }
    table::grid(&escape(caption), "Workload", &grid, table::median)
}

/// The command that measures a metric again.
pub(super) fn command(document: &Document, metric: Metric) -> String {
    if metric == Metric::FLOOR {
        return format!("outlast bench floor --seed {}", document.seed);
    }
    let mut works: Vec<&str> = Vec::new();
    let mut schemes: Vec<&str> = Vec::new();
    let mine = |r: &&Record| r.kind == Kind::Native && r.is(metric) && r.paper.is_none();
    for record in document.records.iter().filter(mine) {
        for (names, name) in [(&mut works, &record.workload), (&mut schemes, &record.scheme)] {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
    }
    let (works, schemes) = (works.join(","), schemes.join(","));
    format!("outlast bench {works} --scheme {schemes} --seed {}", document.seed)
}

fn conditions(document: &Document, metric: Metric) -> String {
    settings(document.records.iter().filter(|r| r.kind == Kind::Native && r.is(metric)))
}
