//! What crashes left behind, and which planted bugs were caught.

use super::{Section, escape, figure, table};
use crate::format::{grouped, short};
use crate::pivot::{Grid, work};
use crate::plot::{Bar, Panel, bars, palette};
use crate::record::{Document, Kind, Metric, Record};
use crate::table4;

const COLUMNS: [Metric; 6] = [
    Metric::CRASH_POINTS,
    Metric::IMAGES_VERIFIED,
    Metric::IMAGES_DISTINCT,
    Metric::LOST,
    Metric::TORN,
    Metric::UNCORRECTABLE,
];

pub(super) fn campaigns(document: &Document) -> Section {
    let campaign = |record: &Record| {
        let part = |name: &Option<String>| name.clone().unwrap_or_default();
        format!(
            "{}\t{}\t{}\t{}",
            record.scheme,
            work(record),
            part(&record.policy),
            part(&record.guarantee)
        )
    };
    let grid = Grid::new(whole(document), campaign, |record| record.metric.clone());
    let mut body = String::new();
    if !grid.is_empty() {
        let rows: Vec<_> = grid.rows.iter().map(|row| campaign_row(&grid, row)).collect();
        let heads = [
            "Scheme",
            "Workload",
            "Policy",
            "Guarantee",
            "Crash points",
            "Images",
            "Distinct",
            "Lost",
            "Torn",
            "Beyond repair",
            "Images/s",
        ];
        let words = |head: &str| heads[..4].contains(&head);
        body += "<p>Every image was recovered by the production code and judged by the oracle. \
                 The policy <code>any</code> is the exhaustive check: every image that any \
                 eviction allows.</p>\n";
        body += &table::rows("One row per campaign.", &heads, words, &rows);
    }
    Section { id: "crash", title: "Crashes", body }
}

fn whole(document: &Document) -> impl Iterator<Item = &Record> {
    let shown =
        |r: &&Record| COLUMNS.iter().any(|metric| r.is(*metric)) || r.is(Metric::VERIFY_RATE);
    let whole = |r: &&Record| r.kind == Kind::Crash && r.plant.is_none() && !table4::is_ours(r);
    document.records.iter().filter(whole).filter(shown)
}

fn campaign_row(grid: &Grid<'_>, row: &str) -> Vec<String> {
    let text = row.split('\t').map(|part| format!("<td class=\"text\">{}</td>", escape(part)));
    let counts = COLUMNS
        .map(|metric| count_cell(metric, grid.value(row, metric.name).map(|count| count as u64)));
    let rate = grid.value(row, Metric::VERIFY_RATE.name).map_or_else(|| "·".to_owned(), short);
    text.chain(counts).chain([format!("<td>{rate}</td>")]).collect()
}

/// A count, judged where it is one of harm.
fn count_cell(metric: Metric, count: Option<u64>) -> String {
    let Some(count) = count else { return "<td class=\"blank\">·</td>".to_owned() };
    let class = match (metric.is_harm(), count > 0) {
        (true, true) => "bad",
        (true, false) => "good",
        _ => "",
    };
    format!("<td class=\"{class}\">{}</td>", grouped(count))
}

/// Archapt's Table IV: stale objects and what became of them.
pub(super) fn stale(document: &Document) -> Section {
    let lines = table4::lines(&document.records);
    let mut body = String::new();
    if !lines.is_empty() {
        body += "<p>Objects of 256 bytes whose durable bytes were stale at a crash, summed over \
                 the crashes of a run, and what became of them. <em>By log</em>: made right from \
                 live log records. <em>I-obj</em>: the others, whose log was gone, which is what \
                 the paper counts; its figures stand at the right. Detecting and correcting takes \
                 checksums.</p>\n";
        let svg = bars("Stale objects by workload and policy", "objects", &panels(&lines), &[]);
        let mut conditions: Vec<String> = Vec::new();
        for line in &lines {
            let condition = escape(line.config());
            if !conditions.contains(&condition) {
                conditions.push(condition);
            }
        }
        let caption = format!(
            "Stale objects by replacement policy. Every panel has its own scale. Conditions: {}.",
            conditions.join("; ")
        );
        body += &figure(&svg, &caption, document);
        let words = ["Workload", "In the paper", "Scheme", "Policy"];
        let ours = table4::COLUMNS.map(|column| column.1);
        let heads: Vec<&str> = words
            .into_iter()
            .chain(["crashes"])
            .chain(ours)
            .chain(["paper: I", "DI", "CC"])
            .collect();
        let rows: Vec<_> = lines.iter().map(stale_row).collect();
        let caption = "Table IV again: one row per workload, scheme and policy.";
        body += &table::rows(caption, &heads, |head| words.contains(&head), &rows);
    }
    Section { id: "table4", title: "Stale objects (Archapt, Table IV)", body }
}

fn panels(lines: &[table4::Line<'_>]) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for line in lines {
        let [label, workload, scheme, policy] = line.heads();
        let title = format!("{workload}, {label}: {scheme}");
        let stale = line.value(Metric::STALE_OBJECTS).unwrap_or(0) as f64;
        let segments = vec![(stale, palette::scheme(scheme))];
        let bar = Bar { label: policy.to_owned(), segments, whisker: None };
        match panels.iter_mut().find(|panel| panel.title == title) {
            Some(panel) => panel.bars.push(bar),
            None => panels.push(Panel { title, bars: vec![bar] }),
        }
    }
    panels
}

fn stale_row(line: &table4::Line<'_>) -> Vec<String> {
    let [label, workload, scheme, policy] = line.heads();
    let text = [workload, label, scheme, policy];
    let text = text.into_iter().map(|part| format!("<td class=\"text\">{}</td>", escape(part)));
    let metrics = [Metric::CRASH_POINTS].into_iter().chain(table4::COLUMNS.map(|c| c.0));
    let ours = metrics.map(|metric| count_cell(metric, line.value(metric)));
    let theirs = match line.published() {
        Some(cells) => cells.map(|count| format!("<td>{}</td>", grouped(count))),
        None => [(); 3].map(|()| "<td class=\"blank\">·</td>".to_owned()),
    };
    text.chain(ours).chain(theirs).collect()
}

pub(super) fn planted(document: &Document) -> Section {
    let of = |metric: Metric| {
        let chosen = document.records.iter().filter(move |r| r.kind == Kind::Crash && r.is(metric));
        let plant = |record: &Record| record.plant.clone().unwrap_or_default();
        Grid::new(chosen.filter(|r| r.plant.is_some()), plant, |record| record.scheme.clone())
    };
    let (killed, images, flagged) =
        (of(Metric::PLANTED_KILLED), of(Metric::IMAGES_TO_KILL), of(Metric::CONTROL_FLAGGED));
    let mut body = String::new();
    if !killed.is_empty() {
        let cell = |record: &Record| {
            if record.value == Some(0.0) {
                return ("bad", "✗ survived".to_owned());
            }
            let plant = record.plant.as_deref().unwrap_or_default();
            let effort = images
                .value(plant, &record.scheme)
                .map(|count| format!("<small>{} images</small>", grouped(count as u64)));
            ("good", format!("✓ caught{}", effort.unwrap_or_default()))
        };
        let caption = "Each bug is switched on by name in the production code; the checker has to \
                       find it. A dot: the bug does not exist in that scheme.";
        body += &table::grid(caption, "Planted bug", &killed, cell);
    }
    if !flagged.is_empty() {
        let cell = |record: &Record| {
            if record.value == Some(0.0) {
                ("good", "✓ silent".to_owned())
            } else {
                ("bad", "✗ flagged".to_owned())
            }
        };
        let caption = "Controls: changes that are sound, so that the checker has to stay silent.";
        body += &table::grid(caption, "Control", &flagged, cell);
    }
    Section { id: "planted", title: "Planted bugs", body }
}
