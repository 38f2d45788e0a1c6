//! A paper's figures, as they came out here.

use super::{Section, escape, figure, native, settings, table, verdicts};
use crate::pivot::Grid;
use crate::plot::{Bar, Panel, bars, palette};
use crate::record::{Document, Kind, Verdict};
use crate::reproduce::views::{self, Drawing, View};
use crate::reproduce::{Part, claims};

/// A section for each figure and table.
pub(super) fn sections(document: &Document) -> Vec<Section> {
    let mut sections: Vec<Section> = Vec::new();
    for view in views::ALL {
        let body = body(view, document);
        match sections.iter_mut().find(|section| section.id == view.id) {
            Some(section) => section.body += &body,
            None => sections.push(Section { id: view.id, title: view.section, body }),
        }
    }
    sections
}

/// The paper in a report: how many claims have which verdict, the claims, the figures that this
/// scale has, and which are left out.
pub(super) fn in_report(document: &Document) -> Section {
    let claims = claims::archapt();
    let judged: Vec<_> = document.records.iter().filter(|r| r.kind == Kind::Claim).collect();
    let mut html = format!(
        "<p>The paper on Archapt makes {} claims about results. <code>outlast reproduce \
         archapt</code> measures its figures again and gives each claim a verdict, on a page of \
         its own.",
        claims.len()
    );
    let is_judged = |part: &Part| {
        let mine = claims.iter().filter(|claim| claim.part == part.claims_name());
        mine.into_iter().any(|claim| judged.iter().any(|record| record.metric == claim.id))
    };
    let (shown, left): (Vec<Part>, Vec<Part>) = Part::ALL.into_iter().partition(is_judged);
    let names = |parts: &[Part]| {
        let mut names: Vec<_> = parts.iter().map(|part| part.name()).collect();
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
    for section in sections(document).iter().filter(|section| !section.body.is_empty()) {
        html += &format!("<h3>{}</h3>\n{}", section.title, section.body);
    }
    Section { id: "archapt", title: "Archapt, claim by claim", body: html }
}

fn body(view: &View, document: &Document) -> String {
    let grid = view.grid(&document.records);
    if grid.is_empty() {
        return String::new();
    }
    let shown = document.records.iter().filter(|record| view.shows(record));
    let caption = format!("{} {}", escape(view.caption), settings(shown));
    let unit = view.metric.unit;
    let mut html = match view.drawing {
        Drawing::None => format!("<p>{caption}</p>\n"),
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
    };
    let title = escape(&format!("{}, {unit}.", view.title));
    html += &table::grid(&title, "Workload", &grid, table::median);
    html
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
