//! Records arranged in rows and columns, as tables and figures show them.

use std::collections::HashMap;

use crate::record::{Kind, Metric, Record, WorkId};

/// Records by two keys, both in order of first appearance.
#[derive(Debug)]
pub struct Grid<'a> {
    /// Row names.
    pub rows: Vec<String>,
    /// Column names.
    pub columns: Vec<String>,
    cells: HashMap<(String, String), &'a Record>,
    works: HashMap<String, WorkId<'a>>,
}

impl<'a> Grid<'a> {
    /// Arranges records; of two in one cell the later one stays. A row has records of one work: what
    /// another work would put there stands in a row that says which it is.
    pub fn new(
        records: impl IntoIterator<Item = &'a Record>,
        row: impl Fn(&Record) -> String,
        column: impl Fn(&Record) -> String,
    ) -> Self {
        let mut grid = Self {
            rows: Vec::new(),
            columns: Vec::new(),
            cells: HashMap::new(),
            works: HashMap::new(),
        };
        for record in records {
            let (mut row, column) = (row(record), column(record));
            if *grid.works.entry(row.clone()).or_insert_with(|| record.work()) != record.work() {
                row += &format!(" ({})", record.work());
            }
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

    #[test]
    fn different_work_under_one_name_never_shares_a_row() {
        let record =
            |scheme, value| Record::new(Kind::Sim, "hash", scheme, Metric::THROUGHPUT, value);
        let records = [
            record("fwb", 1.0).footprint(4096).transactions(10).seed(1),
            record("swift", 2.0).keys(100).transactions(10).seed(1),
            record("hwl", 3.0).footprint(4096).transactions(10).seed(1),
            record("hwl", 4.0).footprint(4096).transactions(10).seed(2),
        ];
        let grid = Grid::of_metric(&records, Kind::Sim, Metric::THROUGHPUT);
        for row in &grid.rows {
            let of_row = grid.columns.iter().filter_map(|column| grid.get(row, column));
            let works: Vec<_> = of_row.map(Record::work).collect();
            assert!(works.windows(2).all(|pair| pair[0] == pair[1]), "{row}");
        }
        assert_eq!(grid.rows.len(), 3);
        assert_eq!(grid.value("hash", "hwl"), Some(3.0));
        let other = "hash (hash, 4096 bytes, 10 transactions, seed 2)";
        assert_eq!(grid.value(other, "hwl"), Some(4.0));
    }
}
