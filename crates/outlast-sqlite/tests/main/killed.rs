//! A client is killed in the middle of its work; what it has told of is there.

use std::process::Command;
use std::time::Duration;

use outlast_crash::front::{Teller, kills};

use crate::common::{python, python_script, run_python};

/// Inserts, updates and deletes at random, and tells each transaction's number once it is committed. The
/// table `done` says the same in the database.
const WRITER: &str = "
import random
path, seed = sys.argv[1], int(sys.argv[2])
random.seed(seed)
db = open(path, sys.argv[3])
db.execute('pragma cache_size=8')
db.execute('create table if not exists t(a integer primary key, b)')
db.execute('create table if not exists done(n)')
n = db.execute('select ifnull(max(n), 0) from done').fetchone()[0]
print(n, flush=True)
while True:
    n += 1
    db.execute('begin immediate')
    # What the transaction does follows from its number.
    own = random.Random(n)
    for _ in range(own.choice([1, 1, 1, 2, 40])):
        a = own.randrange(300)
        if own.random() < 0.2:
            db.execute('delete from t where a = ?', (a,))
        else:
            db.execute('replace into t values (?, ?)', (a, f'{n}-' + 'x' * own.randrange(3000)))
    if own.random() < 0.1:
        db.execute('savepoint s')
        db.execute('delete from t')
        db.execute('rollback to s')
    db.execute('insert into done values (?)', (n,))
    db.execute('commit')
    print(n, flush=True)
    if own.random() < 0.02:
        db.execute('vacuum')
";

/// Does the same in a dictionary, and compares.
const JUDGE: &str = "
import random
path, told = sys.argv[1], int(sys.argv[2])
db = open(path)
assert db.execute('pragma integrity_check').fetchall() == [('ok',)]
n = db.execute('select ifnull(max(n), 0) from done').fetchone()[0] if told else 0
assert told <= n <= told + 1, (told, n)
if n:
    assert db.execute('select count(*) from done').fetchone()[0] == n
    shadow = {}
    for tx in range(1, n + 1):
        own = random.Random(tx)
        for _ in range(own.choice([1, 1, 1, 2, 40])):
            a = own.randrange(300)
            if own.random() < 0.2:
                shadow.pop(a, None)
            else:
                shadow[a] = f'{tx}-' + 'x' * own.randrange(3000)
    assert dict(db.execute('select * from t')) == shadow
print(n)
";

#[test]
fn what_a_killed_client_has_been_told_is_there() {
    kill_clients("");
}

/// Almost every transaction spills.
#[test]
fn what_a_killed_client_has_spilled_is_seen_once_it_was_told() {
    kill_clients("&spill=20K");
}

fn kill_clients(parameters: &str) {
    let Some(python) = python() else { return };
    let rounds = kills(12);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pool").display().to_string();
    let mut committed = 0;
    for round in 0..rounds {
        let mut command = Command::new(python);
        command.args(["-c", &python_script(WRITER), &path, &round.to_string(), parameters]);
        let teller = Teller::start(&mut command);
        assert_eq!(teller.told, committed);
        // Some rounds end between two transactions, some anywhere in one.
        let told = teller.kill_after(1 + round * 7 % 60, Duration::from_micros(round * 131 % 900));
        let found = run_python(python, JUDGE, &[&path, &told.to_string()]);
        committed = found.trim().parse().unwrap();
    }
    assert!(committed > rounds);
}
