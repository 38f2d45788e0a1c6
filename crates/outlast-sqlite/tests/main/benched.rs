//! The benchmark, tiny, so that it does not rot.

use outlast_sqlite::bench::{Plan, measure, subjects};
use outlast_sqlite::client::Sqlite;

#[test]
fn every_subject_is_measured_and_leaves_nothing() {
    let sqlite = match Sqlite::load() {
        Ok(sqlite) => sqlite,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    let directory = tempfile::tempdir().unwrap();
    let domain = Some(outlast::Domain::Process);
    let path = directory.path().to_owned();
    let plan = Plan { directory: path, rows: 40, value_bytes: 300, turn: 5, rounds: 2, domain };
    let subjects = subjects(domain);
    let rows = measure(&sqlite, &plan, &subjects).unwrap();
    assert_eq!(rows.len(), subjects.len());
    for row in rows {
        let [low, high] = [row.p50.low, row.p99.high];
        assert!(0.0 < low && low <= high, "{row:?}");
    }
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}
