//! Databases of SQLite in pools, damaged: in SQLite's pages, in our tables of them, in the pool. The system's
//! SQLite opens them by our VFS, checks, reads and changes them. An input that begins with 255 is a plain
//! file that becomes a pool.

#![no_main]

use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use outlast_fuzz::{Image, file, seeds};
use outlast_sqlite::client::Sqlite;
use outlast_sqlite::options::DatabaseOptions;
use outlast_sqlite::plain;

static STATE: OnceLock<Option<(Sqlite, Image)>> = OnceLock::new();

fn uri(path: &std::path::Path) -> String {
    format!("file:{}?vfs=outlast&domain=process&size=4M&limit=32M", path.display())
}

fn state() -> Option<(Sqlite, Image)> {
    let sqlite = match Sqlite::load() {
        Ok(sqlite) => sqlite,
        Err(error) => {
            eprintln!("skipped: {error}");
            return None;
        }
    };
    let path = file("base", &[]);
    let db = sqlite.open(&uri(&path)).expect("a new database can be opened");
    db.run(
        "pragma page_size=1024; create table t(a integer primary key, b text, c blob);
         create index i on t(b); create table u(x, y unique) without rowid;",
    )
    .or_else(|_| db.run("create table if not exists u(x primary key, y)"))
    .expect("a new database has room");
    for row in 0..40 {
        let insert = format!("insert into t values ({row}, 'row {row}', zeroblob({}))", row * 20);
        db.run(&insert).expect("a new database has room");
    }
    drop(db);
    let image = Image::new(std::fs::read(&path).expect("the pool is a file"));
    Some((sqlite, image))
}

fn use_database(sqlite: &Sqlite, path: &std::path::Path) {
    let Ok(db) = sqlite.open(&uri(path)) else { return };
    for sql in [
        "pragma integrity_check(3)",
        "pragma outlast",
        "select a, length(b), c from t order by b",
        "begin; insert into t select a + 100, b, c from t; savepoint s; delete from t where a % 3 = 0; rollback to s; commit",
        "update t set b = b || 'x', c = zeroblob(2000) where a < 20",
        "begin; delete from t; rollback",
        "drop table u; vacuum",
    ] {
        let _ = db.run(sql);
    }
}

fuzz_target!(
    init: {
        let plain = [&[u8::MAX][..], b"SQLite format 3\0", &[4, 0, 1, 1, 0, 64, 32, 32], &[0; 1100]].concat();
        seeds((0..20).map(|seed| [&[0][..], &[seed; 11]].concat()).chain([plain]));
    },
    |input: &[u8]| {
        let Some((sqlite, base)) = STATE.get_or_init(state) else { return };
        match input.split_first() {
            Some((&u8::MAX, content)) => {
                let (from, to) = (file("plain", content), file("pool", &[]));
                std::fs::remove_file(&to).expect("it was written");
                let options = DatabaseOptions { size_bytes: 1 << 20, ..DatabaseOptions::default() };
                if plain::import(&from, &to, &options).is_ok() {
                    use_database(sqlite, &to);
                    let _ = std::fs::remove_file(&from);
                    let _ = plain::export(&to, &from, &options);
                }
            }
            Some((_, edits)) => use_database(sqlite, &file("pool", &base.edited(edits))),
            None => {}
        }
    }
);
