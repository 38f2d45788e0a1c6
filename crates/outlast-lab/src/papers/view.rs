//! Views of a paper: a selection of records and its arrangement. The page and the terminal show the same.

use crate::pivot::{Grid, work};
use crate::record::{Document, Kind, Metric, Record};

/// How a view is drawn.
#[derive(Clone, Copy, Debug)]
pub enum Drawing {
    /// Not at all: a table is enough.
    None,
    /// A panel for each row, a bar for each column.
    Bars,
    /// A bar for each row, a segment for each column, which add up to a whole.
    Shares,
    /// A line for each of these metrics, by their name, over their class; and its label.
    Lines(&'static str, &'static [(&'static str, &'static str)]),
    /// A table of its own.
    Own(Own),
}

/// A table that is not rows of one metric.
#[derive(Clone, Copy, Debug)]
pub struct Own {
    /// For a terminal; empty where nothing was measured.
    pub text: fn(&[Record]) -> String,
    /// For a page.
    pub html: fn(&Document) -> String,
}

/// The subject of the columns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Columns {
    Schemes,
    /// A scheme over another: the class.
    Pairs,
    /// Parts of a distribution, with a row for each scheme.
    Classes,
}

/// One table or figure of values of a metric.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// The section that it belongs to.
    pub id: &'static str,
    /// The section's title.
    pub section: &'static str,
    /// Its own title.
    pub title: &'static str,
    /// Its caption.
    pub caption: &'static str,
    /// The metric that it shows.
    pub metric: Metric,
    kind: Kind,
    columns: Columns,
    /// How the page draws it.
    pub drawing: Drawing,
    /// Whether the terminal shows it, too.
    pub on_terminal: bool,
    only: Option<fn(&Record) -> bool>,
}

/// A view of throughput by scheme, measured natively, as bars.
pub(super) const fn view(id: &'static str, section: &'static str, title: &'static str) -> View {
    View {
        id,
        section,
        title,
        caption: "",
        metric: Metric::THROUGHPUT,
        kind: Kind::Native,
        columns: Columns::Schemes,
        drawing: Drawing::Bars,
        on_terminal: true,
        only: None,
    }
}

impl View {
    pub(super) const fn of(self, metric: Metric) -> Self {
        Self { metric, ..self }
    }

    pub(super) const fn saying(self, caption: &'static str) -> Self {
        Self { caption, ..self }
    }

    pub(super) const fn counted(self) -> Self {
        Self { kind: Kind::Sim, ..self }
    }

    pub(super) const fn by(self, columns: Columns) -> Self {
        Self { columns, ..self }
    }

    pub(super) const fn drawn(self, drawing: Drawing) -> Self {
        Self { drawing, ..self }
    }

    pub(super) const fn on_page_only(self) -> Self {
        Self { on_terminal: false, ..self }
    }

    pub(super) const fn only(self, only: fn(&Record) -> bool) -> Self {
        Self { only: Some(only), ..self }
    }

    /// Whether it shows this record.
    pub fn shows(&self, record: &Record) -> bool {
        if record.kind != self.kind || self.only.is_some_and(|only| !only(record)) {
            return false;
        }
        if let Drawing::Lines(_, metrics) = self.drawing {
            return metrics.iter().any(|(metric, _)| *metric == record.metric);
        }
        let classed = self.columns != Columns::Schemes;
        record.is(self.metric) && record.class.is_some() == classed
    }

    /// Its records, arranged.
    pub fn grid<'r>(&self, records: &'r [Record]) -> Grid<'r> {
        let class = |record: &Record| record.class.clone().unwrap_or_default();
        let shown = || records.iter().filter(|record| self.shows(record));
        if let Drawing::Lines(_, metrics) = self.drawing {
            let label = |record: &Record| {
                let found = metrics.iter().find(|(metric, _)| *metric == record.metric);
                found.map_or_else(String::new, |(_, label)| (*label).to_owned())
            };
            let mut grid = Grid::new(shown(), class, label);
            let at = |row: &String| row.parse().unwrap_or(f64::INFINITY);
            grid.rows.sort_by(|a, b| at(a).total_cmp(&at(b)));
            return grid;
        }
        let several = shown().any(|record| record.scheme != outlast::Scheme::None.name());
        let row = |record: &Record| match self.columns {
            Columns::Classes if several => format!("{}, {}", work(record), record.scheme),
            _ => work(record),
        };
        let column = |record: &Record| match self.columns {
            Columns::Schemes => record.scheme.clone(),
            Columns::Pairs => format!("{} / {}", record.scheme, class(record)),
            Columns::Classes => class(record),
        };
        Grid::new(shown(), row, column)
    }
}
