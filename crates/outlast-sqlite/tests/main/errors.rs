//! Errors that clients are told; committed transactions stay.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{
    extension, has_shell, output_of, python, python_script, run_python, shell, shell_by,
    shell_output,
};

/// Rows of about 500 bytes, some 10 MB of them.
const FILL: &str = "with recursive c(x) as (select 2 union all select x + 1 from c where x < 20000)
    insert into t select x, hex(randomblob(250)) from c;";

fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

fn open(path: &Path, parameters: &str) -> String {
    format!(".open file:{}?vfs=outlast{parameters}\n", path.display())
}

/// `sqlite3` behind commands of the system's shell.
fn sqlite3_after(before: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("{before} exec \"$@\""), "sh", "sqlite3"]);
    command
}

/// A disk that is full while the pool grows is SQLite's full disk, and goes on with room again.
fn fills_its_disk(path: &Path, before: &str) {
    let script = format!(
        "{}create table t(a, b); insert into t values (1, 'one');\n{FILL}
        select count(*) from t;\ninsert into t values (2, 'two');
        pragma integrity_check; select b from t;",
        open(path, "&size=4M")
    );
    let (printed, told) = texts(&shell_by(sqlite3_after(before), &script));
    assert!(told.contains("database or disk is full"), "{told}\n{printed}");
    assert_eq!(printed, "1\nok\none\ntwo\n", "{told}");
}

#[test]
fn a_file_that_cannot_get_longer_is_a_full_disk() {
    if !has_shell() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pool");
    // 8 MiB in blocks of 512 bytes.
    fills_its_disk(&path, "trap '' XFSZ; ulimit -f 16384;");
    let script = format!("{}{FILL} select count(*) from t;", open(&path, ""));
    assert_eq!(shell(&script), "20001\n");
}

#[test]
fn a_file_system_without_room_is_a_full_disk() {
    if !has_shell() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let place = directory.path().display();
    let mount = format!("mount -t tmpfs -o size=8m none {place}");
    let can = Command::new("unshare").args(["-m", "sh", "-c", &mount]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        return eprintln!("skipped: mounting a file system wants root");
    }
    let path = directory.path().join("a.pool");
    let script = format!("exec unshare -m sh -c '{mount} && exec \"$@\"' sh \"$@\";");
    fills_its_disk(&path, &script);
    // A file system that has no room for a pool at all.
    let script = format!("{}create table t(a);", open(&path, "&size=64M"));
    let before = format!("exec unshare -m sh -c '{mount} && exec \"$@\"' sh \"$@\";");
    let (_, told) = texts(&shell_by(sqlite3_after(&before), &script));
    assert!(told.contains("unable to open database"), "{told}");
    assert!(told.contains("do not fit on its file system"), "{told}");
}

#[test]
fn a_pool_that_is_too_small_says_how_large_it_must_be() {
    if !has_shell() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pool");
    let (_, told) =
        texts(&shell_output(&format!("{}create table t(a);", open(&path, "&size=64K"))));
    assert!(told.contains("unable to open database"), "{told}");
    assert!(told.contains("at least") && told.contains("bytes"), "{told}");
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
}

#[test]
fn a_file_that_may_not_be_written_is_read() {
    if !has_shell() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pool");
    shell(&format!("{}create table t(a); insert into t values (7);", open(&path, "")));
    let before = std::fs::read(&path).unwrap();
    let with_mode = |path: &Path, mode| {
        std::fs::set_permissions(path, PermissionsExt::from_mode(mode)).unwrap()
    };
    with_mode(&path, 0o444);
    with_mode(directory.path(), 0o755);
    let copy = directory.path().join("extension.so");
    std::fs::copy(extension(), &copy).unwrap();
    let mut command = Command::new("sqlite3");
    command.arg("-batch").arg("-cmd").arg(format!(".load {}", copy.display()));
    // Permissions do not bind root.
    if command.uid(65_534).spawn().is_ok_and(|mut child| child.kill().is_ok()) {
        command.uid(65_534);
    }
    let script = format!("{}select a from t; insert into t values (8);\n", open(&path, ""));
    let (printed, told) = texts(&output_of(&mut command, &script));
    assert_eq!(printed, "7\n", "{told}");
    assert!(told.contains("attempt to write a readonly database"), "{told}");
    assert!(std::fs::read(&path).unwrap() == before);
}

#[test]
fn a_transaction_beyond_the_memory_there_is_is_undone() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pool").display().to_string();
    let script = "
import pathlib, resource
db = open(sys.argv[1])
db.execute('pragma cache_size=10')
db.execute('create table t(a integer primary key, b)')
db.execute('insert into t values (1, ?)', ('one',))
pages = int(pathlib.Path('/proc/self/statm').read_text().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + (12 << 20), resource.RLIM_INFINITY))
db.execute('begin')
try:
    for number in range(2, 100000):
        db.execute('insert into t values (?, zeroblob(3000))', (number,))
    print('no limit')
except MemoryError:
    print('out of memory')
if db.in_transaction:
    db.execute('rollback')
db.execute('insert into t values (2, ?)', ('two',))
print(db.execute('select count(*), max(b) from t').fetchone(), db.execute('pragma integrity_check').fetchone()[0])
";
    assert_eq!(run_python(python, script, &[&path]), "out of memory\n(2, 'two') ok\n");
}

#[test]
fn a_forked_child_is_refused_in_one_line() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pool").display().to_string();
    let script = "
import os
db = open(sys.argv[1])
db.execute('create table t(a)')
child = os.fork()
if child == 0:
    for what in (lambda: db.execute('insert into t values (1)'), lambda: db.execute('select * from t'),
                 lambda: open(sys.argv[1]).execute('select * from t')):
        try:
            what()
            print('done')
        except sqlite3.OperationalError as error:
            print(error)
    sys.stdout.flush()
    os._exit(0)
os.waitpid(child, 0)
db.execute('insert into t values (2)')
print(db.execute('select a from t').fetchall(), db.execute('pragma integrity_check').fetchone()[0])
";
    let mut command = Command::new(python);
    let output = output_of(command.args(["-c", &python_script(script), &path]), "");
    let (printed, told) = texts(&output);
    let wanted = "disk I/O error\ndisk I/O error\nunable to open database file\n[(2,)] ok\n";
    assert_eq!(printed, wanted, "{told}");
    // One line of the connection, one of the opening.
    assert_eq!(told.matches("by the process that forked this one").count(), 2, "{told}");
    assert_eq!(told.lines().count(), 2, "{told}");
}
