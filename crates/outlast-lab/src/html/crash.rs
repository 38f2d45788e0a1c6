//! What crashes left behind, and which planted bugs were caught.

use super::{Section, escape, table};
use crate::crash::CUT_SHORT;
use crate::format::{grouped, short};
use crate::pivot::{Grid, work};
use crate::record::{Document, Kind, Metric, Record};

const COLUMNS: [Metric; 6] = [
    Metric::CRASH_POINTS,
    Metric::IMAGES_VERIFIED,
    Metric::IMAGES_DISTINCT,
    Metric::LOST,
    Metric::TORN,
    Metric::UNCORRECTABLE,
];

/// Metrics of the other columns.
const OTHERS: [Metric; 2] = [Metric::VERIFY_RATE, Metric::SCHEDULES];

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
            "Search",
        ];
        let words = |head: &str| heads[..4].contains(&head) || head == "Search";
        body += "<p>Every image was recovered by the production code and judged by the oracle. \
                 The policy <code>any</code> is the exhaustive check: every image that any \
                 eviction allows. Where <i>Search</i> says <i>first ones</i>, a limit of the quick \
                 scale has ended it after as many recoveries; <code>--scale full</code> goes on.</p>\n";
        body += &table::rows("One row per campaign.", &heads, words, &rows);
    }
    Section { id: "crash", title: "Crashes", body }
}

fn whole(document: &Document) -> impl Iterator<Item = &Record> {
    let shown = |r: &&Record| COLUMNS.iter().chain(&OTHERS).any(|metric| r.is(*metric));
    let whole = |r: &&Record| r.kind == Kind::Crash && r.plant.is_none();
    document.records.iter().filter(whole).filter(shown)
}

fn campaign_row(grid: &Grid<'_>, row: &str) -> Vec<String> {
    let text = row.split('\t').map(|part| format!("<td class=\"text\">{}</td>", escape(part)));
    let counts = COLUMNS
        .map(|metric| count_cell(metric, grid.value(row, metric.name).map(|count| count as u64)));
    let rate = grid.value(row, Metric::VERIFY_RATE.name).map_or_else(|| "·".to_owned(), short);
    let searched = grid.get(row, Metric::SCHEDULES.name);
    let search = match searched.map(|record| record.class.as_deref() == Some(CUT_SHORT)) {
        None => "drawn",
        Some(false) => "whole",
        Some(true) => "first ones",
    };
    let last = [format!("<td>{rate}</td>"), format!("<td class=\"text\">{search}</td>")];
    text.chain(counts).chain(last).collect()
}

/// A count, judged where it is one of harm.
pub(crate) fn count_cell(metric: Metric, count: Option<u64>) -> String {
    let Some(count) = count else { return "<td class=\"blank\">·</td>".to_owned() };
    let class = match (metric.is_harm(), count > 0) {
        (true, true) => "bad",
        (true, false) => "good",
        _ => "",
    };
    format!("<td class=\"{class}\">{}</td>", grouped(count))
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
