//! A paper's figures, as they came out here.

use super::{Section, escape, figure, native, settings, table};
use crate::pivot::Grid;
use crate::plot::{Bar, Panel, bars, palette};
use crate::record::Document;
use crate::reproduce::claims;
use crate::reproduce::views::{self, Drawing, View};

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

/// Where the report says that there is more.
pub(super) fn pointer() -> Section {
    let body = format!(
        "<p>The paper on Archapt makes {} claims about results. <code>outlast reproduce \
         archapt</code> measures its figures again and gives each claim a verdict, on a page of \
         its own; it takes longer than this report.</p>\n",
        claims::archapt().len()
    );
    Section { id: "archapt", title: "Archapt, claim by claim", body }
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
