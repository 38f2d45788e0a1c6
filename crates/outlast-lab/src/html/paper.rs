//! A paper's figures, as they came out here.

use super::{Section, escape, figure, native, settings, table, verdicts};
use crate::papers::Paper;
use crate::papers::view::{Drawing, View};
use crate::pivot::Grid;
use crate::plot::{Bar, Line, Panel, bars, lines, palette};
use crate::record::{Document, Kind, Verdict};

/// A section for each figure and table.
pub(super) fn sections(paper: &dyn Paper, document: &Document) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for view in paper.views() {
        let body = body(view, document);
        match sections.iter_mut().find(|s| (s.id, s.title) == (view.id, view.section)) {
            Some(section) => section.body += &body,
            None => sections.push(Section { id: view.id, title: view.section, body }),
        }
    }
    sections
}

/// The paper in a report: how many claims have which verdict, the claims, the figures that this
/// scale has, and which are left out.
pub(super) fn in_report(paper: &dyn Paper, document: &Document) -> Section {
    let claims = paper.claims();
    let judged: Vec<_> = document.records.iter().filter(|r| r.kind == Kind::Claim).collect();
    let mut html = format!(
        "<p>{}: {}. The paper makes {} claims about results. <code>outlast reproduce {}</code> \
         measures its figures again and gives each claim a verdict, on a page of its own.",
        paper.title(),
        paper.about(),
        claims.len(),
        paper.name(),
    );
    let is_judged = |in_claims: &str| {
        let mut mine = claims.iter().filter(|claim| claim.part == in_claims);
        mine.any(|claim| judged.iter().any(|record| record.metric == claim.id))
    };
    let (shown, left): (Vec<_>, Vec<_>) =
        paper.figures().into_iter().partition(|(_, in_claims)| is_judged(in_claims));
    let names = |figures: &[(&str, String)]| {
        let mut names: Vec<_> = figures.iter().map(|(name, _)| *name).collect();
        names.sort_by_key(|name| name.parse().unwrap_or(u32::MAX));
        names.join(", ")
    };
    if !judged.is_empty() {
        let count = |verdict| judged.iter().filter(|r| r.verdict == Some(verdict)).count();
        html += &format!(
            " Here are figures and tables {}, with {} claims: {} reached, {} not reached, {} \
             contradictory, {} not testable.",
            names(&shown),
            judged.len(),
            count(Verdict::Reached),
            count(Verdict::NotReached),
            count(Verdict::Contradictory),
            count(Verdict::NotTestable),
        );
    }
    if !left.is_empty() {
        html += &format!(" Measured only with <code>--scale full</code>: {}.", names(&left));
    }
    html += "</p>\n";
    html += &verdicts::claims(document, "Claims").body;
    for section in sections(paper, document).iter().filter(|section| !section.body.is_empty()) {
        html += &format!("<h3>{}</h3>\n{}", section.title, section.body);
    }
    Section { id: paper.id(), title: paper.title(), body: html }
}

fn body(view: &View, document: &Document) -> String {
    if let Drawing::Own(own) = view.drawing {
        return (own.html)(document);
    }
    let grid = view.grid(&document.records);
    if grid.is_empty() {
        return String::new();
    }
    let shown = document.records.iter().filter(|record| view.shows(record));
    let caption = format!("{} {}", escape(view.caption), settings(shown));
    let unit = view.metric.unit;
    let mut html = match view.drawing {
        Drawing::None | Drawing::Own(_) => format!("<p>{caption}</p>\n"),
        Drawing::Bars => {
            let svg = bars(view.title, unit, &native::panels(&grid), &[]);
            figure(&svg, &caption, document)
        }
        Drawing::Shares => {
            let legend: Vec<_> = grid
                .columns
                .iter()
                .enumerate()
                .map(|(index, name)| (name.as_str(), palette::series(index)))
                .collect();
            let svg = bars(view.title, unit, &[shares(view, &grid)], &legend);
            figure(&svg, &caption, document)
        }
        Drawing::Lines(axis, _) => {
            let drawn: Vec<Line> = grid.columns.iter().map(|name| line(&grid, name)).collect();
            return figure(&lines(view.title, axis, unit, &drawn), &caption, document);
        }
    };
    let title = escape(&format!("{}, {unit}.", view.title));
    html += &table::grid(&title, "Workload", &grid, table::median);
    html
}

/// A column over the rows' numbers.
fn line(grid: &Grid<'_>, column: &str) -> Line {
    let point = |row: &String| Some((row.parse().ok()?, grid.value(row, column)?));
    let mut points: Vec<(f64, f64)> = grid.rows.iter().filter_map(point).collect();
    points.sort_by(|a, b| a.0.total_cmp(&b.0));
    Line { label: column.to_owned(), points }
}

/// One bar for each row, with a segment for each column.
fn shares(view: &View, grid: &Grid<'_>) -> Panel {
    let bar = |row: &String| {
        let segment = |(index, column): (usize, &String)| {
            Some((grid.value(row, column)?, palette::series(index)))
        };
        let segments = grid.columns.iter().enumerate().filter_map(segment).collect();
        Bar { label: row.clone(), segments, whisker: None }
    };
    Panel { title: view.title.to_owned(), bars: grid.rows.iter().map(bar).collect() }
}
