//! The benchmark, tiny, so that it does not rot.

use outlast::Scheme;
use outlast_sqlite::bench::{Plan, Work, measure, subjects};
use outlast_sqlite::client::Sqlite;
use outlast_workloads::tpcc_terminals::Shape;

#[test]
fn every_subject_is_measured_and_leaves_nothing() {
    let sqlite = match Sqlite::load() {
        Ok(sqlite) => sqlite,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let directory = tempfile::tempdir().unwrap();
    let plan = Plan {
        directory: directory.path().to_owned(),
        rows: 40,
        value_bytes: 300,
        shape: Shape { warehouses: 1, districts: 2, customers: 12, items: 30 },
        turn: 40,
        rounds: 2,
        seed: 1,
    };
    let schemes = [Scheme::Swift, Scheme::RedoArchapt];
    let subjects = subjects(&schemes, Some(outlast::Domain::Process));
    for work in Work::ALL {
        // Afterwards the tables of TPC-C are checked.
        let rows = measure(&sqlite, &plan, work, &subjects).unwrap();
        assert_eq!(rows.len(), 11, "{work}");
        for row in rows {
            let [low, high] = [row.p50.p25, row.p99.p75];
            assert!(0.0 < low && low <= high, "{work}: {row:?}");
            let of_wal = row.rate_of_wal.unwrap();
            assert!(of_wal.p25 > 0.0 && (row.name != "wal" || of_wal.median == 1.0), "{row:?}");
        }
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "{work}");
    }
}
