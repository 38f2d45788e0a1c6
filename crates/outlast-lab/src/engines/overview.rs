//! Pools beside embedded databases in one table: a line a question, a column an engine.

use outlast::Scheme;

use crate::format::short;
use crate::record::{Metric, Record};
use crate::table::TextTable;

/// A line of the table.
struct Question {
    title: &'static str,
    workload: &'static str,
    metric: Metric,
    /// Rows of a transaction, where rows a second are told.
    scale: f64,
    /// Less is better.
    is_cost: bool,
}

const fn rate(title: &'static str, workload: &'static str, scale: f64) -> Question {
    Question { title, workload, metric: Metric::THROUGHPUT, scale, is_cost: false }
}

const fn cost(title: &'static str, workload: &'static str, metric: Metric) -> Question {
    Question { title, workload, metric, scale: 1.0, is_cost: true }
}

const QUESTIONS: [Question; 7] = [
    rate("durable updates a second", "updates: update", 1.0),
    rate("durable new rows a second", "rows: single row", 1.0),
    rate("rows a second, 1000 in a transaction", "rows: batch of 1000 rows", 1000.0),
    rate("reads a second", "rows: 100 random reads", 100.0),
    rate("scans of 10 rows a second", "rows: scan of 10 rows", 1.0),
    cost("bytes on disk ÷ data", "updates: loaded", Metric::SPACE_RATIO_ALL),
    cost(
        "first opening after a kill, ms",
        "updates: first opening after a kill",
        Metric::FIRST_OPENING,
    ),
];

/// A line with its values.
pub struct Row<'r> {
    /// Its question.
    pub title: String,
    scale: f64,
    is_cost: bool,
    cells: Vec<Option<&'r Record>>,
}

/// The table.
#[derive(Default)]
pub struct Overview<'r> {
    /// The engines, ours first.
    pub columns: Vec<&'r str>,
    /// Questions that were measured.
    pub rows: Vec<Row<'r>>,
}

/// Without the name of a report's part.
fn workload(record: &Record) -> &str {
    record.workload.strip_prefix("engines/").unwrap_or(&record.workload)
}

fn is_floor(record: &Record) -> bool {
    record.scheme.contains("floor")
}

impl<'r> Overview<'r> {
    /// Of records of [`measure`](super::measure); empty of others.
    pub fn of(records: impl Iterator<Item = &'r Record>) -> Self {
        let engines: Vec<&Record> = records.filter(|record| !is_floor(record)).collect();
        let mut table = Self::default();
        for question in &QUESTIONS {
            let is_of_it = |record: &&Record| {
                record.is(question.metric) && workload(record) == question.workload
            };
            let mine: Vec<&Record> = engines.iter().copied().filter(is_of_it).collect();
            let mut threads: Vec<_> = mine.iter().map(|record| record.threads).collect();
            threads.sort_unstable();
            threads.dedup();
            for threads in threads {
                table.add(question, threads, mine.iter().copied());
            }
        }
        table
    }

    fn add(
        &mut self,
        question: &Question,
        threads: Option<u32>,
        records: impl Iterator<Item = &'r Record>,
    ) {
        let mut cells = vec![None; self.columns.len()];
        for record in records.filter(|record| record.threads == threads) {
            let column = self.columns.iter().position(|name| *name == record.scheme);
            let column = column.unwrap_or_else(|| {
                self.columns.push(&record.scheme);
                self.columns.len() - 1
            });
            cells.resize(self.columns.len(), None);
            cells[column] = Some(record);
        }
        let by = match threads.filter(|threads| *threads > 1) {
            Some(threads) => format!(", {threads} threads"),
            None => String::new(),
        };
        let (scale, is_cost) = (question.scale, question.is_cost);
        self.rows.push(Row { title: format!("{}{by}", question.title), scale, is_cost, cells });
    }

    /// Whether nothing of it was measured.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The line above it.
    pub fn title(&self) -> &'static str {
        "Beside embedded databases, medians (quartiles); ahead: by how much the first is better than the best other"
    }

    /// The table as text.
    pub fn text(&self) -> String {
        self.rendered(|row, column| row.spread(column))
    }

    /// The same without quartiles.
    pub fn medians(&self) -> String {
        self.rendered(|row, column| row.median(column))
    }

    fn rendered(&self, cell: impl Fn(&Row<'r>, usize) -> String) -> String {
        if self.is_empty() {
            return String::new();
        }
        let heads = [""].into_iter().chain(self.columns.iter().copied()).chain(["ahead"]);
        let mut table = TextTable::new(heads.map(str::to_owned));
        for row in &self.rows {
            let cells = (0..self.columns.len()).map(|column| cell(row, column));
            table.row([row.title.clone()].into_iter().chain(cells).chain([row.ahead()]));
        }
        table.render()
    }
}

impl Row<'_> {
    fn value(&self, column: usize) -> Option<f64> {
        self.cells.get(column).copied().flatten()?.value.map(|value| value * self.scale)
    }

    /// The median of a column's engine.
    pub fn median(&self, column: usize) -> String {
        self.value(column).map_or_else(|| "·".to_owned(), short)
    }

    /// The same with quartiles, where there are some.
    pub fn spread(&self, column: usize) -> String {
        let record = self.cells.get(column).copied().flatten();
        let quartiles = record.and_then(|record| record.p25.zip(record.p75)).map(|(low, high)| {
            format!(" ({} to {})", short(low * self.scale), short(high * self.scale))
        });
        self.median(column) + &quartiles.unwrap_or_default()
    }

    /// How many times better the first column is than the best of the others.
    pub fn ahead(&self) -> String {
        self.times_ahead().map_or_else(|| "·".to_owned(), |times| format!("{times:.2} ×"))
    }

    fn times_ahead(&self) -> Option<f64> {
        let is_ours = |name: &str| name.parse::<Scheme>().is_ok();
        let others = self
            .cells
            .iter()
            .enumerate()
            .filter(|(_, cell)| cell.is_some_and(|record| !is_ours(&record.scheme)));
        let values = others.filter_map(|(column, _)| self.value(column));
        let (ours, is_cost) = (self.value(0)?, self.is_cost);
        let best = values.reduce(if is_cost { f64::min } else { f64::max })?;
        Some(if is_cost { best / ours } else { ours / best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Kind;

    #[test]
    fn a_line_compares_the_first_engine_with_the_best_other() {
        let record = |work: &str, scheme: &str, metric, value| {
            Record::new(Kind::Native, work, scheme, metric, value)
        };
        let update = |scheme, value| {
            record("engines/updates: update", scheme, Metric::THROUGHPUT, value).threads(4)
        };
        let size =
            |scheme, value| record("updates: loaded", scheme, Metric::SPACE_RATIO_ALL, value);
        let records = [
            update("swift", 9000.0),
            update("redb", 300.0),
            update("fjall", 6000.0),
            update("floor", 12000.0),
            size("swift", 1.5),
            size("fjall", 1.2),
            record("sps1", "swift", Metric::THROUGHPUT, 1e6),
        ];
        let table = Overview::of(records.iter());
        assert_eq!(table.columns, ["swift", "redb", "fjall"]);
        let lines: Vec<_> =
            table.rows.iter().map(|row| (row.title.as_str(), row.ahead())).collect();
        assert_eq!(
            lines,
            [
                ("durable updates a second, 4 threads", "1.50 ×".to_owned()),
                ("bytes on disk ÷ data", "0.80 ×".to_owned()),
            ]
        );
        assert_eq!(table.rows[1].spread(1), "·", "redb has no size here");
        assert!(table.text().contains("9000") && Overview::of([].iter()).text().is_empty());
    }
}
