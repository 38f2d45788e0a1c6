//! rusqlite with the SQLite that it bundles; with `LIBSQLITE3_FLAGS=-DSQLITE_ENABLE_BATCH_ATOMIC_WRITE` in
//! the environment of the build, one that has batch-atomic writes.

use rusqlite::{Connection, LoadExtensionGuard, params};

use crate::common::extension;

fn number_after(text: &str, name: &str) -> u64 {
    let rest = text.split(name).nth(1).expect("the pool tells it");
    rest.split(' ').next().and_then(|number| number.parse().ok()).expect("a number")
}

#[test]
fn a_bundled_build_uses_batch_atomic_writes_where_it_has_them() {
    let loader = Connection::open_in_memory().unwrap();
    // SAFETY: the extension of this build, which stays loaded.
    unsafe {
        let _guard = LoadExtensionGuard::new(&loader).unwrap();
        loader.load_extension(extension(), None::<&str>).unwrap();
    }
    let directory = tempfile::tempdir().unwrap();
    let uri = format!("file:{}?vfs=outlast", directory.path().join("a.pool").display());
    let mut db = Connection::open(&uri).unwrap();
    db.execute_batch("pragma cache_size=10; create table t(a integer primary key, b)").unwrap();
    for round in 0..20_i64 {
        let tx = db.transaction().unwrap();
        // Every fifth spills its cache into the file before it commits.
        for row in 0..if round % 5 == 0 { 300 } else { 3 } {
            let value = vec![round as u8; 700];
            tx.execute("replace into t values (?1, ?2)", params![round * 7 + row, value]).unwrap();
        }
        if round % 4 == 3 { tx.rollback() } else { tx.commit() }.unwrap();
    }
    drop(db);
    let db = Connection::open(&uri).unwrap();
    let text = |sql: &str| db.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(text("pragma integrity_check"), "ok");
    // Round 15 was rolled back, and so was round 19.
    assert_eq!(text("select max(a) || ' ' || hex(substr(max(b), 1, 1)) from t"), "369 12");
    db.execute_batch("update t set b = 'new' where a < 50").unwrap();
    let has_batches = {
        let sql = "select count(*) || '' from pragma_compile_options where compile_options
            = 'ENABLE_BATCH_ATOMIC_WRITE'";
        text(sql) == "1"
    };
    let about = text("pragma outlast");
    eprintln!("SQLite {}, batch-atomic writes: {has_batches}; {about}", rusqlite::version());
    assert_eq!(number_after(&about, "batches=") > 0, has_batches, "{about}");
}
