//! SQL scripts through the stock shell.

use crate::common::{has_shell, shell, shell_output};

/// A script about the database in a new pool.
fn in_pool(script: &str) -> String {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pool");
    shell(&format!(".open file:{}?vfs=outlast\n{script}", path.display()))
}

#[test]
fn a_table_is_there_for_the_next_process() {
    if !has_shell() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let open = format!(".open file:{}?vfs=outlast\n", directory.path().join("a.pool").display());
    shell(&format!("{open}create table t(a, b); insert into t values (1, 'one'), (2, 'two');"));
    assert_eq!(
        shell(&format!("{open}select * from t; pragma integrity_check;")),
        "1|one\n2|two\nok\n"
    );
}

#[test]
fn every_rollback_journal_commits_and_rolls_back() {
    if !has_shell() {
        return;
    }
    for mode in ["delete", "truncate", "persist", "memory"] {
        for locking in ["normal", "exclusive"] {
            let script = format!(
                "pragma journal_mode={mode}; pragma locking_mode={locking}; pragma cache_size=5;
                create table t(a integer primary key, b);
                with recursive c(x) as (select 1 union all select x + 1 from c where x < 500)
                insert into t select x, hex(randomblob(300)) from c;
                create table was as select * from t;
                begin; update t set b = hex(randomblob(400)); delete from t where a % 3 = 0; rollback;
                select count(*) from (select * from t except select * from was);
                begin; update t set b = 'new' where a < 100; savepoint s; delete from t; rollback to s;
                update t set b = 'newer' where a < 50; commit;
                select count(*), sum(b = 'new'), sum(b = 'newer') from t;
                insert or abort into t select a + 400, b from t;
                select count(*) from t; pragma integrity_check;"
            );
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("a.pool");
            let open = format!(".open file:{}?vfs=outlast\n", path.display());
            let output = shell_output(&format!("{open}{script}"));
            let told = String::from_utf8_lossy(&output.stderr);
            assert!(told.contains("UNIQUE constraint failed: t.a"), "{told}");
            let printed = String::from_utf8(output.stdout).unwrap();
            assert_eq!(printed, format!("{mode}\n{locking}\n0\n500|50|49\n500\nok\n"));
            let after = shell(&format!("{open}select count(*) from t; pragma integrity_check;"));
            assert_eq!(after, "500\nok\n", "{mode} {locking}");
        }
    }
}

#[test]
fn modes_without_a_journal_that_rolls_back_are_answered_with_the_one_that_stays() {
    if !has_shell() {
        return;
    }
    let script = "pragma journal_mode=wal; pragma journal_mode=off; pragma journal_mode=persist;
        pragma journal_mode=wal; pragma locking_mode=exclusive; pragma journal_mode=wal;
        create table t(a); insert into t values (1); pragma journal_mode;";
    assert_eq!(in_pool(script), "delete\ndelete\npersist\npersist\nexclusive\npersist\npersist\n");
}

#[test]
fn a_database_shrinks_and_changes_its_page_size() {
    if !has_shell() {
        return;
    }
    let script = "pragma page_size=1024; create table t(a integer primary key, b);
        with recursive c(x) as (select 1 union all select x + 1 from c where x < 3000)
        insert into t select x, hex(randomblob(300)) from c;
        select page_count > 1800 from pragma_page_count;
        delete from t where a > 100; vacuum; select page_count < 150 from pragma_page_count;
        pragma integrity_check;
        pragma page_size=65536; vacuum; pragma page_size; pragma integrity_check;
        pragma auto_vacuum=full; vacuum;
        insert into t select a + 1000, b from t; insert into t select a + 10000, b from t;
        delete from t where a > 100; pragma integrity_check; select count(*), min(length(b)) from t;";
    assert_eq!(in_pool(script), "1\n1\nok\n65536\nok\nok\n100|600\n");
}

#[test]
fn sorts_and_temporary_tables_have_files_of_their_own() {
    if !has_shell() {
        return;
    }
    let script = "pragma temp_store=file; pragma cache_size=20;
        create table t(a integer primary key, b);
        with recursive c(x) as (select 1 union all select x + 1 from c where x < 20000)
        insert into t select x, hex(randomblob(100)) from c;
        create temp table s as select * from t order by b desc;
        select count(*), max(a) from s; create index i on t(b);
        select count(*) from (select b from t union select b from s order by b);
        pragma integrity_check;";
    assert_eq!(in_pool(script), "20000|20000\n20000\nok\n");
}
