//! Records arranged in rows and columns, as tables and figures show them.

use std::collections::HashMap;

use crate::record::{Kind, Metric, Record};

/// Records by two keys, both in order of first appearance.
#[derive(Debug)]
pub struct Grid<'a> {
    /// Row names.
    pub rows: Vec<String>,
    /// Column names.
    pub columns: Vec<String>,
    cells: HashMap<(String, String), &'a Record>,
}

impl<'a> Grid<'a> {
    /// Arranges records; of two in one cell the later one stays.
    pub fn new(
        records: impl IntoIterator<Item = &'a Record>,
        row: impl Fn(&Record) -> String,
        column: impl Fn(&Record) -> String,
    ) -> Self {
        let mut grid = Self { rows: Vec::new(), columns: Vec::new(), cells: HashMap::new() };
        for record in records {
            let (row, column) = (row(record), column(record));
            for (names, name) in [(&mut grid.rows, &row), (&mut grid.columns, &column)] {
                if !names.contains(name) {
                    names.push(name.clone());
                }
            }
            grid.cells.insert((row, column), record);
        }
        grid
    }

    /// One metric of one kind of run: a row per workload (and number of threads, beyond one), a
    /// column per scheme.
    pub fn of_metric(records: &'a [Record], kind: Kind, metric: Metric) -> Self {
        let chosen = records.iter().filter(|r| r.kind == kind && r.is(metric));
        Self::new(chosen, work, |record| record.scheme.clone())
    }

    /// What stands in a cell.
    pub fn get(&self, row: &str, column: &str) -> Option<&'a Record> {
        self.cells.get(&(row.to_owned(), column.to_owned())).copied()
    }

    /// The value that stands in a cell.
    pub fn value(&self, row: &str, column: &str) -> Option<f64> {
        self.get(row, column)?.value
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.cells.is_empty()
    }
}

/// What ran: the workload, the number of threads where it is not one, and what was added to each
/// line written where anything was.
pub fn work(record: &Record) -> String {
    let mut work = record.workload.clone();
    if let Some(threads) = record.threads.filter(|threads| *threads > 1) {
        work += &format!(", {threads} threads");
    }
    if let Some(ns) = record.write_latency_ns {
        work += &format!(", +{ns} ns");
    }
    work
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grid_keeps_the_order_of_appearance_and_leaves_gaps() {
        let record = |workload, scheme, value| {
            Record::new(Kind::Native, workload, scheme, Metric::THROUGHPUT, value)
        };
        let records = [
            record("sps8", "undo", 1.0),
            record("sps1", "undo", 2.0),
            record("sps1", "redo", 3.0),
            record("sps1", "redo", 4.0).threads(2),
            record("sps1", "redo", 5.0).threads(2).write_latency_ns(150),
            Record::new(Kind::Sim, "sps1", "redo", Metric::THROUGHPUT, 9.0),
            Record::new(Kind::Native, "sps1", "redo", Metric::FENCES, 9.0),
        ];
        let grid = Grid::of_metric(&records, Kind::Native, Metric::THROUGHPUT);
        assert_eq!(grid.rows, ["sps8", "sps1", "sps1, 2 threads", "sps1, 2 threads, +150 ns"]);
        assert_eq!(grid.columns, ["undo", "redo"]);
        assert_eq!(grid.value("sps1", "redo"), Some(3.0));
        assert_eq!(grid.value("sps1, 2 threads", "redo"), Some(4.0));
        assert_eq!(grid.value("sps8", "redo"), None);
    }
}
