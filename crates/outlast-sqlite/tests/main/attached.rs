//! Transactions over several databases: all or none.

use std::process::Command;
use std::time::Duration;

use outlast_crash::front::{Teller, kills};

use crate::common::{has_shell, python, python_script, run_python, shell};

#[test]
fn attached_databases_commit_and_roll_back_together() {
    if !has_shell() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    let (a, b, plain) = (file("a.pool"), file("b.pool"), file("c.db"));
    let attach = format!(
        ".open file:{a}?vfs=outlast\nattach 'file:{b}?vfs=outlast' as b;
        attach 'file:{plain}?vfs=unix' as c;\n"
    );
    let script = "create table main.t(x); create table b.t(x); create table c.t(x);
        begin; insert into main.t values (1); insert into b.t values (1); insert into c.t values (1); commit;
        begin; insert into main.t values (2); insert into b.t values (2); insert into c.t values (2); rollback;
        begin; insert into main.t values (3); insert into c.t values (3); commit;";
    shell(&format!("{attach}{script}"));
    let sums =
        "select (select sum(x) from main.t), (select sum(x) from b.t), (select sum(x) from c.t);
        pragma integrity_check;";
    assert_eq!(shell(&format!("{attach}{sums}")), "4|1|4\nok\n");
    // Both pools have waited for the super-journal, whichever VFS has deleted it.
    let told = shell(&format!(
        "{attach}begin; update main.t set x = x + 1; update b.t set x = x + 1; update c.t set x = x + 1; commit;
        pragma main.outlast; pragma b.outlast;"
    ));
    assert_eq!(told.matches("prepared=1").count(), 2, "{told}");
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().collect();
    assert_eq!(left.len(), 3, "journals are left: {left:?}");
}

/// Transactions over two pools and a plain file, whichever is the main database.
const WRITER: &str = "
main, others = sys.argv[1], sys.argv[2:]
db = sqlite3.connect(f'file:{main}', uri=True, isolation_level=None)
for number, other in enumerate(others):
    db.execute(f'attach ? as o{number}', ('file:' + other,))
names = ['main'] + [f'o{number}' for number in range(len(others))]
for name in names:
    db.execute(f'create table if not exists {name}.t(n, b)')
n = db.execute('select ifnull(max(n), 0) from t').fetchone()[0]
print(n, flush=True)
while True:
    n += 1
    db.execute('begin')
    for name in names:
        db.execute(f'insert into {name}.t values (?, ?)', (n, 'x' * (n * 997 % 5000)))
    db.execute('commit')
    print(n, flush=True)
";

const JUDGE: &str = "
told, files = int(sys.argv[1]), sys.argv[2:]
counts = []
for file in files:
    db = sqlite3.connect(f'file:{file}', uri=True)
    assert db.execute('pragma integrity_check').fetchall() == [('ok',)]
    counts.append(db.execute('select count(*), max(n) from t').fetchone())
assert len(set(counts)) == 1, counts
assert told <= counts[0][1] <= told + 1, (told, counts)
print(counts[0][1])
";

/// Kills a client in the middle of its work, once a round, and judges what it leaves. Each database is the
/// main one in turn, for the writer and for the judge. Says how often a transaction was whole that was not told of.
fn kill(name: &str, files: &mut [String]) {
    let Some(python) = python() else { return };
    let (rounds, mut committed, mut ahead) = (kills(8), 0, 0);
    for round in 0..rounds {
        files.rotate_left(1);
        let mut command = Command::new(python);
        command.args(["-c", &python_script(WRITER)]).args(files.iter());
        let teller = Teller::start(&mut command);
        assert_eq!(teller.told, committed);
        let told = teller.kill_after(3 + round % 20, Duration::from_micros(round * 391 % 3000));
        let mut judged = files.to_vec();
        judged.rotate_left(round as usize / files.len() % files.len());
        let words: Vec<String> = std::iter::once(told.to_string()).chain(judged).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        committed = run_python(python, JUDGE, &words).trim().parse().unwrap();
        ahead += committed - told;
    }
    assert!(committed >= rounds * 3);
    println!("{name}: {rounds} kills, {committed} transactions, {ahead} whole and not told of");
}

#[test]
fn a_killed_client_leaves_two_pools_at_one_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let pool = |name: &str| format!("{}?vfs=outlast", directory.path().join(name).display());
    kill("two pools", &mut [pool("a.pool"), pool("b.pool")]);
}

#[test]
fn a_killed_client_leaves_pools_and_a_plain_file_at_one_transaction() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str| directory.path().join(name).display().to_string();
    let pools = ["a.pool", "b.pool"].map(|pool| format!("{}?vfs=outlast", file(pool)));
    let [a, b] = pools;
    let plain = format!("{}?vfs=unix", file("c.db"));
    kill("two pools and a plain file", &mut [a, b, plain]);
}
