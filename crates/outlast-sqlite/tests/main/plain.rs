//! Plain files into pools and out of them.

use std::path::Path;

use outlast_sqlite::client::Sqlite;
use outlast_sqlite::options::DatabaseOptions;
use outlast_sqlite::plain::{MoveError, export, import};

fn sqlite() -> Option<Sqlite> {
    Sqlite::load().inspect_err(|error| eprintln!("skipped: {error}")).ok()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_database_comes_out_of_a_pool_as_it_went_in() {
    let Some(sqlite) = sqlite() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let (plain, pool, back) = (file("a.db"), file("a.pool"), file("b.db"));
    let fill = "create table t(a integer primary key, b);
        with recursive n(x) as (select 1 union all select x + 1 from n where x < 9000)
        insert into t select x, hex(randomblob(400)) from n;";
    let client = sqlite.open(&plain.display().to_string()).unwrap();
    client.run("pragma journal_mode=wal").unwrap();
    client.run(fill).unwrap();
    drop(client);
    let options = DatabaseOptions::default();
    let bytes = import(&plain, &pool, &options).unwrap();
    assert!(bytes > 7 << 20);
    let uri = format!("file:{}?vfs=outlast", pool.display());
    let client = sqlite.open(&uri).unwrap();
    assert_eq!(
        client.run("pragma integrity_check; select count(*) from t").unwrap(),
        ["ok", "9000"]
    );
    let attach = format!("attach 'file:{}?vfs=unix' as plain", plain.display());
    let same = "select count(*) from (select * from t except select * from plain.t)";
    client.run(&attach).unwrap();
    assert_eq!(client.run(same).unwrap(), ["0"]);
    client.run("detach plain; insert into t values (0, 'more')").unwrap();
    drop(client);
    export(&pool, &back, &options).unwrap();
    let client = sqlite.open(&back.display().to_string()).unwrap();
    let found = client.run("pragma integrity_check; select count(*) from t; pragma journal_mode");
    assert_eq!(found.unwrap(), ["ok", "9001", "delete"]);
    drop(client);
    assert_eq!(names(directory.path()), ["a.db", "a.pool", "b.db"]);
    assert!(matches!(import(&plain, &pool, &options), Err(MoveError::Exists(_))));
    assert!(matches!(export(&pool, &back, &options), Err(MoveError::Exists(_))));
}

#[test]
fn what_is_not_at_rest_is_refused_and_leaves_nothing() {
    let Some(sqlite) = sqlite() else { return };
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name);
    let (plain, pool) = (file("a.db"), file("a.pool"));
    let options = DatabaseOptions::default();
    let refused = |plain: &Path| import(plain, &pool, &options).unwrap_err().to_string();
    assert!(refused(&plain).contains("No such file"), "{}", refused(&plain));
    std::fs::write(file("text"), "some text").unwrap();
    assert!(refused(&file("text")).contains("no SQLite database"));
    let client = sqlite.open(&plain.display().to_string()).unwrap();
    client.run("create table t(a); pragma journal_mode=wal; insert into t values (1)").unwrap();
    assert!(refused(&plain).contains("wal_checkpoint(truncate)"));
    client.run("pragma journal_mode=delete; pragma cache_size=1; begin").unwrap();
    client.run("insert into t values (zeroblob(100000))").unwrap();
    assert!(refused(&plain).contains("to be rolled back"), "{}", refused(&plain));
    client.run("rollback").unwrap();
    drop(client);
    assert_eq!(names(directory.path()), ["a.db", "text"]);
    import(&plain, &pool, &options).unwrap();
    let told = export(&file("text"), &file("b.db"), &options).unwrap_err().to_string();
    assert!(told.contains("not an Outlast pool"), "{told}");
    assert_eq!(names(directory.path()), ["a.db", "a.pool", "text"]);
    // An empty file is an empty database.
    std::fs::write(file("empty"), "").unwrap();
    assert_eq!(import(&file("empty"), &file("empty.pool"), &options).unwrap(), 0);
}
