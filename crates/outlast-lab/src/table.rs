//! The summary that a terminal shows.

use std::fmt::Write as _;

use crate::answer::is_own;
use crate::engines::overview::Overview;
use crate::format::{grouped, short};
use crate::native::YARDSTICKS;
use crate::papers::view::Drawing;
use crate::papers::{self, Paper};
use crate::pivot::{Grid, work};
use crate::record::{Document, Kind, Metric, Record, Verdict};

/// A table of text: the first column flush left, the others flush right.
#[derive(Clone, Debug, Default)]
pub struct TextTable {
    rows: Vec<Vec<String>>,
}

impl TextTable {
    /// A table with this head.
    pub fn new<S: Into<String>>(head: impl IntoIterator<Item = S>) -> Self {
        Self { rows: vec![head.into_iter().map(Into::into).collect()] }
    }

    /// Adds a row.
    pub fn row<S: Into<String>>(&mut self, cells: impl IntoIterator<Item = S>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The table as lines, each indented by two spaces.
    pub fn render(&self) -> String {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let width = |column: usize| {
            let cells = self.rows.iter().filter_map(|row| row.get(column));
            cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let mut text = String::new();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
                let width = *width;
                let _ = match column {
                    0 => write!(line, "  {cell:<width$}"),
                    _ => write!(line, "  {cell:>width$}"),
                };
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

/// Sections of a summary behind throughput: a title, and the metric of their table.
const SECTIONS: [(&str, Metric); 21] = [
    ("Throughput by wall time as a multiple of that with the fewest threads", Metric::SCALING),
    ("The same by CPU time", Metric::SCALING_CPU),
    ("Least that one of the threads did, over an even share", Metric::LEAST_SHARE),
    ("Share of the floor, same rounds", Metric::FLOOR_SHARE),
    ("Syncs per transaction", Metric::SYNCS),
    ("Latency, ns, median", Metric::LATENCY_P50),
    ("Latency, ns, 99th percentile", Metric::LATENCY_P99),
    ("Bytes on disk", Metric::DISK_BYTES),
    ("Of them the log's", Metric::DISK_LOG_BYTES),
    ("The rest over keys and values", Metric::SPACE_RATIO),
    ("All of it over keys and values", Metric::SPACE_RATIO_ALL),
    ("First opening after a kill, and the first value, ms", Metric::FIRST_OPENING),
    ("Open loop: from arrival to answer, ns, median", Metric::OPEN_LATENCY_P50),
    ("Open loop: from arrival to answer, ns, 99th percentile", Metric::OPEN_LATENCY_P99),
    ("Open loop: answered, tx/s", Metric::OPEN_THROUGHPUT),
    ("Opening after a crash with a full log, ms", Metric::RECOVERY_TIME),
    ("Transactions repeated or put back by it", Metric::RECOVERED),
    ("Cost of persistence, ns per transaction", Metric::PERSISTENCE_COST),
    ("Cost of persistence relative to the better peer", Metric::PERSISTENCE_COST_RATIO),
    ("The same by CPU time, which other programs disturb less", Metric::PERSISTENCE_COST_RATIO_CPU),
    (
        "How far from the floor: cost over what the machine needs for as many lines and fences",
        Metric::FLOOR_DISTANCE,
    ),
];

/// What a run found, for a terminal: throughput, cost, crashes, planted bugs, claims. What was
/// not measured is left out.
pub fn summary(document: &Document) -> String {
    let (papers, document) = papers::split(document);
    let mut text = format!(
        "Outlast {}, seed {}\n{}\n",
        document.outlast,
        document.seed,
        document.machine.summary()
    );
    let records = &document.records;
    let mut section = |title: &str, body: String| {
        if !body.is_empty() {
            let _ = write!(text, "\n{title}\n{body}");
        }
    };
    let overview = Overview::of(records.iter());
    section(overview.title(), overview.text());
    section("Throughput, tx/s", metric_table(records, Metric::THROUGHPUT));
    for yardstick in YARDSTICKS {
        let of_it = |r: &&Record| r.class.as_deref() == Some(yardstick);
        let speeds: Vec<Record> = records
            .iter()
            .filter(|r| r.is(Metric::RELATIVE_SPEED))
            .filter(of_it)
            .cloned()
            .collect();
        let title = format!("Throughput by CPU time as a multiple of that of {yardstick}");
        section(&title, metric_table(&speeds, Metric::RELATIVE_SPEED));
    }
    let has_syncs = records.iter().any(|record| record.is(Metric::SYNCS));
    for (title, metric) in SECTIONS {
        // The median is told of engines that sync.
        if has_syncs || metric != Metric::LATENCY_P50 {
            section(title, metric_table(records, metric));
        }
    }
    section("The floor, ns for a number of lines and one fence", floor(records));
    section("Crashes", crashes(records));
    section("Planted bugs", planted(records));
    section("Goals and claims", claims(records));
    for (paper, mine) in papers {
        section(&format!("Claims: {}", paper.title()), claims(&mine.records));
    }
    text
}

/// What a run of a paper's figures found, for a terminal: figure by figure, then the claims.
pub fn paper(paper: &dyn Paper, document: &Document) -> String {
    let (title, machine) = (paper.title(), document.machine.summary());
    let mut text = format!("{title}, seed {}\n{machine}\n", document.seed);
    for view in paper.views().iter().filter(|view| view.on_terminal) {
        let body = match view.drawing {
            Drawing::Own(own) => (own.text)(&document.records),
            _ => {
                let grid = view.grid(&document.records);
                if grid.is_empty() { String::new() } else { render(&grid) }
            }
        };
        let unit = match view.drawing {
            Drawing::Lines(axis, _) => {
                let shown = document.records.iter().find(|record| view.shows(record));
                format!("by {axis}, {}", shown.map_or("", |record| &record.unit))
            }
            Drawing::Own(_) => view.section.to_owned(),
            _ => view.metric.unit.to_owned(),
        };
        if !body.is_empty() {
            let _ = write!(text, "\n{}, {unit}\n{body}", view.title);
        }
    }
    let claims = claims(&document.records);
    if !claims.is_empty() {
        let _ = write!(text, "\nGoals and claims\n{claims}");
    }
    text
}

fn metric_table(records: &[Record], metric: Metric) -> String {
    let grid = Grid::of_metric(records, Kind::Native, metric);
    if grid.is_empty() {
        return String::new();
    }
    render(&grid)
}

fn render(grid: &Grid<'_>) -> String {
    let mut table = TextTable::new([String::new()].into_iter().chain(grid.columns.clone()));
    for row in &grid.rows {
        let cell = |column: &String| grid.value(row, column).map_or_else(|| "·".to_owned(), short);
        table.row([row.clone()].into_iter().chain(grid.columns.iter().map(cell)));
    }
    table.render()
}

/// A few rows of the floor; the page has all.
fn floor(records: &[Record]) -> String {
    let shown = |r: &&Record| r.is(Metric::FLOOR) && matches!(r.lines, Some(1 | 2 | 4 | 8 | 16));
    let count = |record: &Record| record.lines.unwrap_or(0).to_string();
    let grid = Grid::new(records.iter().filter(shown), count, |record| record.scheme.clone());
    if grid.is_empty() { String::new() } else { render(&grid) }
}

/// One row per scheme: campaigns over all policies and workloads together.
pub(crate) fn crashes(records: &[Record]) -> String {
    let shown = [
        ("crash points", Metric::CRASH_POINTS),
        ("images", Metric::IMAGES_VERIFIED),
        ("lost", Metric::LOST),
        ("torn", Metric::TORN),
        ("uncorrectable", Metric::UNCORRECTABLE),
    ];
    let whole = |r: &&Record| r.kind == Kind::Crash && r.plant.is_none();
    let mut schemes: Vec<&str> = Vec::new();
    for record in records.iter().filter(whole).filter(|r| r.is(Metric::CRASH_POINTS)) {
        if !schemes.contains(&record.scheme.as_str()) {
            schemes.push(&record.scheme);
        }
    }
    if schemes.is_empty() {
        return String::new();
    }
    let mut table = TextTable::new([""].into_iter().chain(shown.map(|(name, _)| name)));
    for scheme in schemes {
        let sum = |metric| {
            let chosen =
                records.iter().filter(whole).filter(|r| r.scheme == scheme && r.is(metric));
            let values: Vec<f64> = chosen.filter_map(|r| r.value).collect();
            match values.is_empty() {
                true => "·".to_owned(),
                false => grouped(values.iter().sum::<f64>() as u64),
            }
        };
        table.row([scheme.to_owned()].into_iter().chain(shown.map(|(_, metric)| sum(metric))));
    }
    table.render()
}

fn planted(records: &[Record]) -> String {
    let single = |r: &&Record| r.kind == Kind::Crash && r.plant.is_some();
    let totals = |metric| {
        let whole = |r: &&Record| r.kind == Kind::Crash && r.plant.is_none();
        let values = records.iter().filter(whole).filter(move |r| r.is(metric));
        values.filter_map(|r| r.value).sum::<f64>()
    };
    let mut text = String::new();
    if totals(Metric::PLANTED_TOTAL) > 0.0 {
        let (killed, total) = (totals(Metric::PLANTED_KILLED), totals(Metric::PLANTED_TOTAL));
        let _ = writeln!(text, "  {killed} of {total} caught");
    }
    let is_control = |r: &&Record| r.is(Metric::CONTROL_FLAGGED);
    let (controls, silent) =
        records.iter().filter(single).filter(is_control).fold((0, 0), |(all, silent), record| {
            (all + 1, silent + u32::from(record.value == Some(0.0)))
        });
    if controls > 0 {
        let _ = writeln!(text, "  {silent} of {controls} sound controls left alone");
    }
    for record in records.iter().filter(single) {
        let plant = record.plant.as_deref().unwrap_or_default();
        if record.is(Metric::PLANTED_KILLED) && record.value == Some(0.0) {
            let _ = writeln!(text, "  ✗ {plant} survived in {}", record.scheme);
        }
        if record.is(Metric::CONTROL_FLAGGED) && record.value != Some(0.0) {
            let _ = writeln!(text, "  ✗ {plant} is sound and was flagged in {}", record.scheme);
        }
    }
    text
}

fn claims(records: &[Record]) -> String {
    let mut text = String::new();
    let mut claims: Vec<&Record> = records.iter().filter(|r| r.kind == Kind::Claim).collect();
    claims.sort_by_key(|claim| Verdict::urgency(claim.verdict));
    let (alike, single): (Vec<&Record>, Vec<&Record>) =
        claims.iter().partition(|claim| untestable_alike(&claims, claim) > ALIKE_MAX);
    for claim in single {
        let reason = claim.reason.as_ref().map(|reason| format!(" ({reason})"));
        let _ = writeln!(text, "  {}{}", verdict_line(claim), reason.unwrap_or_default());
    }
    let mut told: Vec<&str> = Vec::new();
    for claim in alike {
        let reason = claim.reason.as_deref().unwrap_or_default();
        if !told.contains(&reason) {
            told.push(reason);
            let _ = writeln!(text, "  – {} claims: {reason}", untestable_alike(&claims, claim));
        }
    }
    text
}

/// A claim with its verdict, without the reason.
pub(crate) fn verdict_line(claim: &Record) -> String {
    let sign = match claim.verdict {
        Some(Verdict::Reached) => "✓",
        Some(Verdict::NotReached) => "✗",
        Some(Verdict::Contradictory) => "!",
        Some(Verdict::NotTestable) | None => "–",
    };
    let mut value = claim.value.map_or_else(|| "not measured".to_owned(), short);
    if let Some(claimed) = claim.paper_value.filter(|_| !is_own(claim)) {
        value += &format!(", claimed {}", short(claimed));
    }
    let wording = claim.claim.as_deref().unwrap_or(&claim.metric);
    let who = [work(claim), claim.scheme.clone()];
    let who: Vec<String> = who.into_iter().filter(|part| !part.is_empty()).collect();
    format!("{sign} {}: {wording}: {value}", who.join(", "))
}

/// More claims than this that cannot be tested for the same reason stand on one line.
const ALIKE_MAX: usize = 3;

/// How many claims cannot be tested for this one's reason; 0 if it can be.
fn untestable_alike(claims: &[&Record], claim: &Record) -> usize {
    let untestable = |r: &Record| r.verdict == Some(Verdict::NotTestable);
    let alike = |r: &&&Record| untestable(r) && r.reason == claim.reason;
    if untestable(claim) { claims.iter().filter(alike).count() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::html::tests::made_up;

    #[test]
    fn columns_line_up_whatever_stands_in_them() {
        let mut table = TextTable::new(["", "undo", "µ"]);
        table.row(["ycsb-a", "1.23 M", "·"]);
        table.row(["s", "9", "45.6 k"]);
        let expected =
            "            undo       µ\n  ycsb-a  1.23 M       ·\n  s            9  45.6 k\n";
        assert_eq!(table.render(), expected);
    }

    #[test]
    fn the_summary_shows_every_part_and_every_failure() {
        let text = summary(&made_up());
        for line in [
            "Throughput, tx/s",
            "  sps8    3.33 M  1.68 M  2.01 M   916 k      796 k",
            "Cost of persistence relative to the better peer",
            "  undo        12\u{202f}000  3\u{202f}674\u{202f}070     0     0              ·",
            "  4 of 6 caught",
            "  ✗ early-truncate survived in undo",
            "  ✗ sps1, redo: cost of redo ≤ 0.45 × the better peer's: 0.520 (the fence alone",
            "  – ycsb-a, undo-archapt: speed on Optane: not measured (no such memory here)",
        ] {
            assert!(text.contains(line), "{line:?} is missing in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }

    #[test]
    fn a_run_without_results_has_an_empty_summary() {
        let mut document = made_up();
        document.records.clear();
        assert_eq!(summary(&document).lines().count(), 2);
    }
}
