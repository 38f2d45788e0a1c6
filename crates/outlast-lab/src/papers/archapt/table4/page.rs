//! The table on a page.

use super::{COLUMNS, Line, lines};
use crate::format::grouped;
use crate::html::{count_cell, escape, figure, table_rows};
use crate::plot::{Bar, Panel, bars, palette};
use crate::record::{Document, Metric};

/// Stale objects and what became of them; empty where nothing was crashed.
pub fn html(document: &Document) -> String {
    let lines = lines(&document.records);
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
        body += &figure(&svg, &caption, "outlast reproduce archapt --figure table4", document);
        let words = ["Workload", "In the paper", "Scheme", "Policy"];
        let ours = COLUMNS.map(|column| column.1);
        let heads: Vec<&str> = words
            .into_iter()
            .chain(["crashes"])
            .chain(ours)
            .chain(["paper: I", "DI", "CC"])
            .collect();
        let rows: Vec<_> = lines.iter().map(stale_row).collect();
        let caption = "Table IV again: one row per workload, scheme and policy.";
        body += &table_rows(caption, &heads, |head| words.contains(&head), &rows);
    }
    body
}

fn panels(lines: &[Line<'_>]) -> Vec<Panel> {
    let mut panels: Vec<Panel> = Vec::new();
    for line in lines {
        let [label, workload, scheme, policy] = line.heads();
        let title = format!("{workload}, {label}: {scheme}");
        let stale = line.value(Metric::STALE_OBJECTS).unwrap_or(0) as f64;
        let segments = vec![(stale, palette::scheme(&scheme))];
        let bar = Bar { label: policy, segments, whisker: None };
        match panels.iter_mut().find(|panel| panel.title == title) {
            Some(panel) => panel.bars.push(bar),
            None => panels.push(Panel { title, bars: vec![bar] }),
        }
    }
    panels
}

fn stale_row(line: &Line<'_>) -> Vec<String> {
    let [label, workload, scheme, policy] = line.heads();
    let text = [workload, label, scheme, policy];
    let text = text.into_iter().map(|part| format!("<td class=\"text\">{}</td>", escape(&part)));
    let metrics = [Metric::CRASH_POINTS].into_iter().chain(COLUMNS.map(|c| c.0));
    let ours = metrics.map(|metric| count_cell(metric, line.value(metric)));
    let theirs = match line.published() {
        Some(cells) => cells.map(|count| format!("<td>{}</td>", grouped(count))),
        None => [(); 3].map(|()| "<td class=\"blank\">·</td>".to_owned()),
    };
    text.chain(ours).chain(theirs).collect()
}
