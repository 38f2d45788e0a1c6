//! Databases that are no files, and files that are no pools, beside the VFS as the default one.

use std::process::Command;

use crate::common::{extension, output_of, python};

/// Runs a script of Python that loads the extension itself, with `load()`, as the default VFS.
fn run_default(script: &str, arguments: &[&str]) -> Option<String> {
    let python = python()?;
    let script = format!(
        "import os, sqlite3, sys\n\
         def connect(name, **others):\n\
         \x20   return sqlite3.connect(name, uri=True, isolation_level=None, **others)\n\
         def load():\n\
         \x20   loader = connect(':memory:')\n\
         \x20   loader.enable_load_extension(True)\n\
         \x20   loader.load_extension({:?})\n\
         def is_pool(path):\n\
         \x20   with open(path, 'rb') as file:\n\
         \x20       return file.read(7) == b'OUTLAST'\n\
         {script}",
        extension().display().to_string()
    );
    let mut command = Command::new(python);
    command.env("OUTLAST_SQLITE_DEFAULT", "1").args(["-c", &script]).args(arguments);
    let output = output_of(&mut command, "");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && told.is_empty(), "{told}");
    Some(String::from_utf8(output.stdout).expect("text"))
}

/// A shared database in memory is the same one for connections of before and after the load.
#[test]
fn shared_databases_in_memory_outlive_the_load() {
    let script = "
names = ['file::memory:?cache=shared', 'file:x?mode=memory&cache=shared', 'file:y?vfs=memdb&mode=memory']
before = [connect(name) for name in names]
for number, db in enumerate(before[:2]):
    db.execute('create table t(a)')
    db.execute('insert into t values (?)', (number,))
load()
for number, name in enumerate(names[:2]):
    after = [connect(name) for _ in range(2)]
    after[0].execute('insert into t values (10)')
    assert after[1].execute('select sum(a) from t').fetchone() == (10 + number,)
    assert before[number].execute('select sum(a) from t').fetchone() == (10 + number,)
    before[number].execute('insert into t values (5)')
    assert after[1].execute('select count(*) from t').fetchone() == (3,)
# A new shared one, and private ones.
one, two = connect('file:z?mode=memory&cache=shared'), connect('file:z?mode=memory&cache=shared')
one.execute('create table u(a)')
assert two.execute('select count(*) from u').fetchone() == (0,)
for name in (':memory:', ''):
    one, two = connect(name), connect(name)
    one.execute('create table u(a)')
    assert two.execute('select count(*) from sqlite_master').fetchone() == (0,)
print(os.listdir('.'))
";
    let directory = tempfile::tempdir().unwrap();
    let script = format!("import os\nos.chdir({:?})\n{script}", directory.path());
    if let Some(printed) = run_default(&script, &[]) {
        assert_eq!(printed, "[]\n");
    }
}

/// Temporary tables, sorts, attached databases in memory, and copies by `VACUUM INTO` work in a pool as in a file.
#[test]
fn temporary_files_are_the_vfs_s_below() {
    let script = "
load()
db = connect('a.pool')
db.execute('pragma cache_size=5')
for store in ('file', 'memory'):
    db.execute(f'pragma temp_store={store}')
    db.execute('create table if not exists t(a, b)')
    db.execute('create temp table s(a)')
    db.execute('with recursive c(x) as (select 1 union all select x + 1 from c where x < 3000) '
               'insert into s select hex(randomblob(100)) from c')
    db.execute('begin')
    db.execute('insert into t select a, 1 from s')
    db.execute('savepoint p')
    db.execute('update s set a = a || 1')
    db.execute('delete from t')
    db.execute('rollback to p')
    db.execute('commit')
    assert len(db.execute('select a from s order by a desc').fetchall()) == 3000
    db.execute('drop table s')
db.execute(\"attach ':memory:' as m\")
db.execute(\"attach '' as e\")
db.execute('begin')
for name in ('m', 'e'):
    db.execute(f'create table {name}.t as select * from main.t')
db.execute('insert into main.t values (1, 2)')
db.execute('commit')
print([db.execute(f'select count(*) from {name}.t').fetchone()[0] for name in ('main', 'm', 'e')])
db.execute(\"vacuum into 'copy.pool'\")
db.execute(\"vacuum into 'file:copy.db?vfs=unix'\")
db.execute('vacuum')
print(is_pool('a.pool'), is_pool('copy.pool'), is_pool('copy.db'))
for name in ('a.pool', 'copy.pool', 'copy.db'):
    copy = connect(name)
    print(copy.execute('select count(*) from t').fetchone()[0], copy.execute('pragma integrity_check').fetchone()[0])
    copy.close()
db.close()
print(sorted(os.listdir('.')))
";
    let directory = tempfile::tempdir().unwrap();
    let script = format!("os.chdir({:?})\n{script}", directory.path());
    if let Some(printed) = run_default(&script, &[]) {
        let wanted = "[6001, 6000, 6000]\nTrue True False\n6001 ok\n6001 ok\n6001 ok\n\
            ['a.pool', 'copy.db', 'copy.pool']\n";
        assert_eq!(printed, wanted);
    }
}

/// The default VFS makes pools of new files; those that are there and no pools stay what they are, in every journal
/// mode, also for connections of before the load.
#[test]
fn plain_files_stay_plain_under_the_default_vfs() {
    let script = "
for mode in ('delete', 'wal', 'truncate', 'persist'):
    db = connect(f'{mode}.db')
    db.execute(f'pragma journal_mode={mode}')
    db.execute('create table t(a)')
    db.execute('insert into t values (1)')
    if mode == 'wal':
        early = db
    else:
        db.close()
load()
early.execute('insert into t values (2)')
early.execute(\"attach 'delete.db' as other\")
early.execute('insert into other.t values (2)')
for mode in ('delete', 'wal', 'truncate', 'persist'):
    db = connect(f'{mode}.db')
    db.execute('insert into t values (3)')
    print(db.execute('select sum(a) from t').fetchone()[0], db.execute('pragma journal_mode').fetchone()[0],
          db.execute('pragma integrity_check').fetchone()[0], is_pool(f'{mode}.db'))
    db.close()
connect('file:new.db?vfs=unix').execute('create table t(a)')
connect('new.pool').execute('create table t(a)')
print(is_pool('new.db'), is_pool('new.pool'))
# By its name the VFS says what a plain file needs.
open('text', 'w').write('some text that is no database')
for name in ('text',):
    try:
        connect(name).execute('select * from sqlite_master')
    except sqlite3.DatabaseError as error:
        print(error)
";
    let directory = tempfile::tempdir().unwrap();
    let script = format!("os.chdir({:?})\n{script}", directory.path());
    if let Some(printed) = run_default(&script, &[]) {
        let wanted = "6 delete ok False\n6 wal ok False\n4 delete ok False\n4 delete ok False\n\
            False True\nfile is not a database\n";
        assert_eq!(printed, wanted);
    }
}

/// Parameters by which SQLite leaves out locks: the writer reads what it has written, others are kept out, and what
/// cannot change is read beside a writer's lock.
#[test]
fn a_connection_without_locks_reads_what_it_writes() {
    let script = "
load()
db = connect('file:a.pool?nolock=1')
db.execute('pragma cache_size=5')
db.execute('create table t(a integer primary key, b)')
db.execute('begin')
for number in range(2000):
    db.execute('insert into t values (?, ?)', (number * 7919 % 2000, 'x' * 200))
assert db.execute('select count(*), min(length(b)) from t').fetchone() == (2000, 200)
db.execute('rollback')
assert db.execute('select count(*) from t').fetchone() == (0,)
db.execute('insert into t values (1, 2)')
try:
    connect('a.pool', timeout=0).execute('insert into t values (2, 2)')
except sqlite3.OperationalError as error:
    print(error)
print(db.execute('pragma integrity_check').fetchone()[0])
db.close()
print(connect('file:a.pool?immutable=1').execute('select b from t').fetchall())
";
    let directory = tempfile::tempdir().unwrap();
    let script = format!("os.chdir({:?})\n{script}", directory.path());
    if let Some(printed) = run_default(&script, &[]) {
        assert_eq!(printed, "database is locked\nok\n[(2,)]\n");
    }
}
