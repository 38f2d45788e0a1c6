//! A paper's figures, as they came out here.

use super::{Section, escape, figure, native, settings, table, verdicts};
use crate::papers::Paper;
use crate::papers::view::{Drawing, View};
use crate::pivot::Grid;
use crate::plot::{Bar, Line, Panel, bars, lines, palette};
use crate::record::{Document, Kind, Record, Verdict};

/// A section for each figure and table.
pub(super) fn sections(paper: &dyn Paper, document: &Document) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for view in paper.views() {
        let figures = paper.figures();
        let name = figures.iter().find(|(_, in_claims)| in_claims == view.id);
        let name = name.map_or("", |(name, _)| name);
        let command = format!("outlast reproduce {} --figure {name}", paper.name());
        let body = body(view, document, &command);
        match sections.iter_mut().find(|s| (s.id, s.title) == (view.id, view.section)) {
            Some(section) => section.body += &body,
            None => sections.push(Section { id: view.id, title: view.section, body }),
        }
    }
    sections
}

/// The paper in a report: how many claims have which verdict, then figure by figure what was measured
/// with the claims that it supports beneath, and which figures this scale leaves out.
pub(super) fn in_report(paper: &dyn Paper, document: &Document) -> Section {
    let claims = paper.claims();
    let judged: Vec<&Record> =
        document.records.iter().filter(|record| record.kind == Kind::Claim).collect();
    let of_figure = |record: &&&Record, figure: &str| {
        claims.iter().any(|claim| claim.part == figure && claim.id == record.metric)
    };
    let figures = paper.figures();
    let mut html = format!(
        "<p>{}: {}. The paper makes {} claims about results. <code>outlast reproduce {}</code> \
         measures its figures again on a page of its own.",
        paper.title(),
        paper.about(),
        claims.len(),
        paper.name(),
    );
    if !judged.is_empty() {
        html += &format!(" Judged here: {}.", verdicts::counts(&judged));
    }
    let mut left: Vec<&str> = Vec::new();
    let mut shown = String::new();
    let mut placed: Vec<&str> = Vec::new();
    for (name, in_claims) in &figures {
        let mine: Vec<&Record> =
            judged.iter().filter(|record| of_figure(record, in_claims)).copied().collect();
        let views: Vec<&View> =
            paper.views().iter().filter(|view| view.id == in_claims.as_str()).collect();
        placed.extend(mine.iter().map(|record| record.metric.as_str()));
        let command = format!("outlast reproduce {} --figure {name}", paper.name());
        let bodies: String = views.iter().map(|view| body(view, document, &command)).collect();
        let is_measured = mine.iter().any(|claim| claim.verdict != Some(Verdict::NotTestable));
        if !is_measured && bodies.is_empty() {
            left.push(name);
            continue;
        }
        let title = views.first().map_or_else(|| in_claims.clone(), |view| view.section.to_owned());
        let counts = match mine.is_empty() {
            true => String::new(),
            false => format!(" <small>{}</small>", verdicts::counts(&mine)),
        };
        shown += &format!(
            "<details id=\"{}-{in_claims}\"><summary><h4>{}</h4>{counts}</summary>\n{bodies}{}\
             </details>\n",
            paper.id(),
            escape(&title),
            verdicts::folded_claims(&mine),
        );
    }
    if !left.is_empty() {
        left.sort_by_key(|name| name.parse().unwrap_or(u32::MAX));
        html += &format!(" Not measured in this report: {}.", left.join(", "));
    }
    html += "</p>\n";
    html += &shown;
    let other: Vec<&Record> =
        judged.iter().filter(|record| !placed.contains(&record.metric.as_str())).copied().collect();
    if !other.is_empty() {
        html += &format!(
            "<details id=\"{}-text\"><summary><h4>Claims of its text</h4> <small>{}</small>\
             </summary>\n{}</details>\n",
            paper.id(),
            verdicts::counts(&other),
            verdicts::folded_claims(&other),
        );
    }
    if judged.is_empty() && shown.is_empty() {
        html.clear();
    }
    Section { id: paper.id(), title: paper.title(), body: html }
}

fn body(view: &View, document: &Document, command: &str) -> String {
    if let Drawing::Own(own) = view.drawing {
        return (own.html)(document);
    }
    let grid = view.grid(&document.records);
    if grid.is_empty() {
        return String::new();
    }
    let shown = document.records.iter().filter(|record| view.shows(record));
    let unit = view.metric.unit;
    let caption = format!(
        "{}, {}. {} {}",
        escape(view.title),
        escape(unit),
        escape(view.caption),
        settings(shown)
    );
    let mut html = match view.drawing {
        Drawing::None | Drawing::Own(_) => format!("<p>{caption}</p>\n"),
        Drawing::Bars => {
            let svg = bars(view.title, unit, &native::panels(&grid), &[]);
            figure(&svg, &caption, command, document)
        }
        Drawing::Shares => {
            let legend: Vec<_> = grid
                .columns
                .iter()
                .enumerate()
                .map(|(index, name)| (name.as_str(), palette::series(index)))
                .collect();
            let svg = bars(view.title, unit, &[shares(view, &grid)], &legend);
            figure(&svg, &caption, command, document)
        }
        Drawing::Lines(axis, _) => {
            let drawn: Vec<Line> = grid.columns.iter().map(|name| line(&grid, name)).collect();
            return figure(&lines(view.title, axis, unit, &drawn), &caption, command, document);
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
