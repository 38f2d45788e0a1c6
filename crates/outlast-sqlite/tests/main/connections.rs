//! Several connections, and what SQLite says when something is in the way.

use std::process::Command;

use crate::common::{has_shell, python, run_python, shell, shell_output};

/// The shell's complaints.
fn complaints(script: &str) -> String {
    String::from_utf8(shell_output(script).stderr).unwrap()
}

#[test]
fn connections_of_a_process_lock_each_other_out_as_sqlite_does() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pool").display().to_string();
    let script = "
import threading
path = sys.argv[1]
def busy(db, sql):
    try:
        db.execute(sql)
    except sqlite3.OperationalError as error:
        assert 'locked' in str(error), error
        return True
one, two = open(path, timeout=0), open(path, timeout=0)
one.execute('create table t(n)')
one.execute('begin immediate')
one.execute('insert into t values (1)')
assert two.execute('select count(*) from t').fetchone() == (0,)
assert busy(two, 'begin immediate')
two.execute('begin')
two.execute('select * from t').fetchall()
assert busy(one, 'commit'), 'a reader is in the way'
assert busy(open(path, timeout=0), 'select * from t'), 'new readers wait'
two.execute('commit')
one.execute('commit')
assert two.execute('select count(*) from t').fetchone() == (1,)
# One connection for several threads, and several for as many.
shared = open(path, timeout=60, check_same_thread=False)
def work(number):
    db = open(path, timeout=60)
    for _ in range(50):
        db.execute('insert into t values (?)', (number,))
threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
[thread.start() for thread in threads]
for _ in range(20):
    thread = threading.Thread(target=shared.execute, args=('insert into t values (9)',))
    thread.start()
    thread.join()
[thread.join() for thread in threads]
print(two.execute('select count(*) from t').fetchone()[0])
print(two.execute('pragma integrity_check').fetchone()[0])
";
    assert_eq!(run_python(python, script, &[&path]), "221\nok\n");
}

#[test]
fn a_second_process_is_told_that_the_pool_is_in_use() {
    if !has_shell() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pool");
    let open = format!(".open file:{}?vfs=outlast\n", path.display());
    let extension = crate::common::extension();
    let second = format!(
        ".shell sqlite3 -batch -cmd '.load {}' -cmd '.open file:{}?vfs=outlast' :memory: 'select * from sqlite_master' 2>&1",
        extension.display(),
        path.display()
    );
    let printed = shell_output(&format!("{open}create table t(a);\n{second}\nselect 'here';\n"));
    let printed = String::from_utf8(printed.stdout).unwrap();
    assert!(printed.contains("open in another process"), "{printed}");
    assert!(printed.contains("database is locked"), "{printed}");
    assert!(printed.contains("here"), "{printed}");
}

/// Connects, and adds a row as soon as the pool is free.
const SECOND: &str = "
path, timeout = sys.argv[1], float(sys.argv[2])
db = open(path, timeout=timeout)
print('connected', flush=True)
try:
    db.execute('begin immediate')
    db.execute('create table if not exists t(a)')
    db.execute('insert into t values (2)')
    db.execute('commit')
    print(db.execute('select sum(a) from t').fetchone()[0], db.execute('pragma integrity_check').fetchone()[0])
except sqlite3.OperationalError as error:
    print(error)
";

/// A process that finds the pool in use waits as long as its busy timeout says, and works when the pool is free.
#[test]
fn a_second_process_waits_for_its_busy_timeout() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pool").display().to_string();
    let script = "
import subprocess, time
path, script = sys.argv[1:]
def second(path, timeout):
    command = [sys.executable, '-c', script, path, str(timeout)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
db = open(path)
db.execute('create table t(a)')
db.execute('insert into t values (1)')
out, told = second(path, 0).communicate()
print(out.split('\\n')[1])
assert 'open in another process' in told, told
child = second(path, 300)
assert child.stdout.readline() == 'connected\\n'
time.sleep(0.3)
assert child.poll() is None, 'it waits'
db.close()
out, told = child.communicate(timeout=300)
print(out, end='')
assert told.count('open in another process') <= 1, told
# Several that create the pool at once, in place of an empty file or not: each gets its turn.
for name, is_there in ((path + '2', False), (path + '3', True)):
    if is_there:
        import pathlib
        pathlib.Path(name).touch()
    children = [second(name, 300) for _ in range(4)]
    print(*sorted(child.communicate(timeout=300)[0].split()[1] for child in children))
";
    let second = crate::common::python_script(SECOND);
    let printed = run_python(python, script, &[&path, &second]);
    assert_eq!(printed, "database is locked\n3 ok\n2 4 6 8\n2 4 6 8\n");
}

#[test]
fn what_is_no_pool_of_a_database_is_refused_with_the_way_out() {
    if !has_shell() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let plain = directory.path().join("plain.db");
    shell(&format!(".open {}\ncreate table t(a); insert into t values (5);", plain.display()));
    let before = std::fs::read(&plain).unwrap();
    let told = complaints(&format!(".open file:{}?vfs=outlast\nselect 1;", plain.display()));
    assert!(told.contains(&format!("outlast sqlite import {} POOL", plain.display())), "{told}");
    assert_eq!(std::fs::read(&plain).unwrap(), before);
    let text = directory.path().join("text");
    std::fs::write(&text, "hello").unwrap();
    let told = complaints(&format!(".open file:{}?vfs=outlast\nselect 1;", text.display()));
    assert!(told.contains("not an Outlast pool"), "{told}");
    let path = directory.path().join("a.pool");
    let open =
        |parameters: &str| format!(".open file:{}?vfs=outlast{parameters}\n", path.display());
    let told = complaints(&format!("{}select 1;", open("&scheme=quick")));
    assert!(told.contains("scheme=quick: "), "{told}");
    assert!(!path.exists());
    let told = complaints(&format!("{}select 1;", open("&mode=rw")));
    assert!(told.contains("unable to open database file"), "{told}");
}

#[test]
fn a_full_pool_says_so_and_loses_nothing() {
    if !has_shell() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pool");
    let open = format!(".open file:{}?vfs=outlast&size=4M&limit=6M\n", path.display());
    shell(&format!("{open}create table t(a, b); insert into t values (1, 'one');"));
    let fill = "with recursive c(x) as (select 2 union all select x + 1 from c where x < 20000)
        insert into t select x, hex(randomblob(250)) from c;";
    let output = shell_output(&format!(
        "{open}{fill}\nselect count(*) from t;\ninsert into t values (2, 'two');\nselect count(*) from t;"
    ));
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("database or disk is full"), "{told}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1\n2\n");
    assert_eq!(shell(&format!("{open}pragma integrity_check; select b from t;")), "ok\none\ntwo\n");
    // A larger limit lets it grow.
    let larger = format!(".open file:{}?vfs=outlast&limit=200M\n", path.display());
    assert_eq!(shell(&format!("{larger}{fill} select count(*) from t;")), "20001\n");
}

#[test]
fn a_file_for_reading_only_is_read_and_not_changed() {
    if !has_shell() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pool");
    let open =
        |parameters: &str| format!(".open file:{}?vfs=outlast{parameters}\n", path.display());
    shell(&format!("{}create table t(a); insert into t values (7);", open("")));
    let before = std::fs::read(&path).unwrap();
    let output =
        shell_output(&format!("{}select a from t; insert into t values (8);", open("&mode=ro")));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "7\n");
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(told.contains("attempt to write a readonly database"), "{told}");
    assert!(std::fs::read(&path).unwrap() == before);
    // Readers do not lock each other out.
    let second = format!("select a from t;\n.shell true\n{}select a + 1 from t;", open("&mode=ro"));
    assert_eq!(shell(&format!("{}{second}", open("&mode=ro"))), "7\n8\n");
}

#[test]
fn the_default_vfs_serves_programs_that_only_open_a_file() {
    if !has_shell() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pool");
    let extension = crate::common::extension();
    let run = |load: String, variable: &str| {
        let mut shell = Command::new("sqlite3");
        shell.env("OUTLAST_SQLITE_DEFAULT", variable).arg("-batch").arg("-cmd").arg(load);
        shell.arg("-cmd").arg(format!(".open {}", path.display())).arg(":memory:");
        let output = shell.arg("pragma outlast").output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let load = format!(".load {}", extension.display());
    let by_entry = run(format!("{load} sqlite3_outlastdefault_init"), "0");
    assert!(by_entry.starts_with("scheme=redo "), "{by_entry}");
    let by_environment = run(load.clone(), "1");
    assert!(by_environment.starts_with("scheme=redo "), "{by_environment}");
    assert_eq!(run(load, "0"), "");
}

#[test]
fn any_scheme_can_be_below() {
    if !has_shell() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pool");
    let mut rows = 0;
    for scheme in
        ["undo", "redo", "undo-archapt", "redo-archapt", "rollback", "atlas", "aof", "swift"]
    {
        let open = format!(".open file:{}?vfs=outlast&scheme={scheme}\n", path.display());
        let script = "create table if not exists t(a integer primary key, b);
            begin; delete from t; rollback; pragma integrity_check;
            insert into t(b) values (hex(randomblob(3000))), (hex(randomblob(9000)));
            pragma outlast; select count(*) from t;";
        rows += 2;
        let printed = shell(&format!("{open}{script}"));
        let lines: Vec<&str> = printed.lines().collect();
        assert_eq!((lines[0], lines[2]), ("ok", rows.to_string().as_str()), "{scheme}");
        assert!(lines[1].starts_with(&format!("scheme={scheme} ")), "{printed}");
    }
}
