//! Transactions that are larger than their share of volatile memory.

use crate::common::{python, run_python};

/// A transaction inserts and updates many times the bytes that volatile memory may hold of it. The peak of the process
/// is counted: resident memory at its highest, but for the pool's own pages, which are a mapped file.
#[test]
fn memory_of_a_large_transaction_is_bounded() {
    let Some(python) = python() else { return };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("a.pool").display().to_string();
    let script = "
import re
def status(name):
    with __builtins__.open('/proc/self/status') as file:
        return int(re.search(name + r':\\s+(\\d+) kB', file.read()).group(1)) >> 10
db = open(sys.argv[1], '&spill=1M')
db.execute('create table t(a integer primary key, b)')
def mapped():
    return status('RssFile') + status('RssShmem')
start = status('VmRSS') - mapped()
n = db.execute
n('begin')
n('with recursive c(x) as (select 1 union all select x + 1 from c where x < 8000) insert into t select x, zeroblob(4000) from c')
n('commit')
n('begin')
n('update t set b = hex(zeroblob(1990)) || a')
n('savepoint s')
n('delete from t where a % 3 = 0')
n('rollback to s')
n('commit')
print(status('VmHWM') - mapped() - start)
print(n('select count(*), sum(b = hex(zeroblob(1990)) || a) from t').fetchone(), n('pragma integrity_check').fetchone()[0])
n('begin')
n('update t set b = zeroblob(4000)')
n('rollback')
print(n('select sum(length(b) > 4000 or a < 1) > 0, sum(b = hex(zeroblob(1990)) || a) from t').fetchone(), n('pragma integrity_check').fetchone()[0])
";
    let printed = run_python(python, script, &[&path]);
    let lines: Vec<&str> = printed.lines().collect();
    let peak: i64 = lines[0].parse().unwrap();
    println!("{peak} MiB beside the pool for transactions of 32 MB");
    assert!(peak < 48, "{peak} MiB beside the pool");
    assert_eq!(lines[1], "(8000, 8000) ok");
    assert_eq!(lines[2], "(0, 8000) ok");
}
