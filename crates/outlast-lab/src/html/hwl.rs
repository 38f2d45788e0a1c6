//! The HWL/FWB paper's figures, as they came out here.

use super::{Section, escape, figure, native, settings, table, verdicts};
use crate::pivot::{Grid, work};
use crate::plot::{Line, bars, lines};
use crate::record::{Document, Kind, Metric, Record, Verdict};
use crate::reproduce::fwb::views::{self, BARS, LINES, is_whisper};

/// A section for each figure.
pub(super) fn sections(document: &Document) -> Vec<Section> {
    let mut sections = Vec::new();
    for (id, title, metric, whisper) in BARS {
        let shown = |r: &&Record| r.is(metric) && is_whisper(r) == whisper;
        let grid = Grid::new(document.records.iter().filter(shown), work, |r| r.scheme.clone());
        let mut body = String::new();
        if !grid.is_empty() {
            let timed = |r: &&Record| r.is(Metric::CYCLES) && is_whisper(r) == whisper;
            let caption = settings(document.records.iter().filter(timed));
            body += &figure(&bars(title, "x", &native::panels(&grid), &[]), &caption, document);
            body += &table::grid(&escape(title), "Program", &grid, table::median);
        }
        sections.push(Section { id, title, body });
    }
    for (title, axis, metrics) in LINES {
        let mut body = String::new();
        let drawn: Vec<Line> = metrics.iter().filter_map(|m| line(document, m)).collect();
        if !drawn.is_empty() {
            let mine = |r: &&Record| metrics.contains(&r.metric.as_str());
            let caption = settings(document.records.iter().filter(mine));
            body += &figure(&lines(title, axis, "transactions/s", &drawn), &caption, document);
        }
        sections.push(Section { id: "fig11", title, body });
    }
    sections
}

fn line(document: &Document, metric: &str) -> Option<Line> {
    let point = |r: &Record| Some((r.class.as_ref()?.parse().ok()?, r.value?));
    let mine = document.records.iter().filter(|r| r.metric == metric);
    let mut points: Vec<(f64, f64)> = mine.filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    let label = match metric {
        views::BUFFER_FAST => "writes as fast as the row buffer",
        _ => "fwb",
    };
    (!points.is_empty()).then(|| Line { label: label.to_owned(), points })
}

/// The paper in a report: its claims, and the figures that this scale has.
pub(super) fn in_report(document: &Document) -> Section {
    let judged: Vec<_> = document.records.iter().filter(|r| r.kind == Kind::Claim).collect();
    if judged.is_empty() {
        return Section { id: "hwl", title: "HWL and FWB, claim by claim", body: String::new() };
    }
    let count = |verdict| judged.iter().filter(|r| r.verdict == Some(verdict)).count();
    let mut body = format!(
        "<p>Hardware undo+redo logging in the timed machine. <code>outlast reproduce fwb</code> \
         measures all of the paper's figures; here are {} claims: {} reached, {} not reached, {} \
         contradictory, {} not testable.</p>\n",
        judged.len(),
        count(Verdict::Reached),
        count(Verdict::NotReached),
        count(Verdict::Contradictory),
        count(Verdict::NotTestable),
    );
    body += &verdicts::claims(document, "Claims").body;
    for section in sections(document).iter().filter(|section| !section.body.is_empty()) {
        body += &format!("<h3>{}</h3>\n{}", section.title, section.body);
    }
    Section { id: "hwl", title: "HWL and FWB, claim by claim", body }
}
