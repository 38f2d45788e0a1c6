//! The example in C, compiled and linked, killed again and again: what it printed is there, and
//! nothing is there in part. `OUTLAST_KILL_ROUNDS` and `OUTLAST_KILL_SEED` choose how often and
//! when.
#![cfg(all(target_os = "linux", not(miri)))]

mod common;

use std::path::Path;

const ACCOUNTS: u64 = 16;
const FIRST_BALANCE: i64 = 1000;

/// As `transfer_of` in the example: from, to, amount.
fn transfer(number: u64) -> (usize, usize, i64) {
    let random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let random = random ^ random >> 32;
    let from = random % ACCOUNTS;
    let to = (from + 1 + random / 65536 % (ACCOUNTS - 1)) % ACCOUNTS;
    (from as usize, to as usize, (random / 256 % 50) as i64)
}

fn balances_after(transfers: u64) -> Vec<i64> {
    let mut balances = vec![FIRST_BALANCE; ACCOUNTS as usize];
    for (from, to, amount) in (1..=transfers).map(transfer) {
        balances[from] -= amount;
        balances[to] += amount;
    }
    balances
}

/// What the pool says: how many transfers, and the balances.
fn shown(bank: &Path, pool: &Path) -> (u64, Vec<i64>) {
    let output = common::run(common::program(bank).arg(pool).arg("show"));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut lines = text.lines();
    let transfers = lines.next().and_then(|line| line.strip_prefix("transfers ")).unwrap();
    let balances = lines.map(|line| line.rsplit(' ').next().unwrap().parse().unwrap());
    (transfers.parse().unwrap(), balances.collect())
}

#[test]
fn the_bank_outlasts_being_killed() {
    let Some(cc) = common::compiler() else { return };
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    let bank = dir.path().join("bank");
    common::compile(&cc, &common::crate_file("examples/bank.c"), &bank);
    let kinds = [
        ("redo-archapt", "logical"),
        ("redo-archapt", "physical"),
        ("undo-archapt", "logical"),
        ("undo", "physical"),
        ("redo", "logical"),
        ("undo-archapt", "physical"),
    ];
    let (rounds, seed) = common::rounds_and_seed(12);
    let pool = dir.path().join("bank.pool");
    let mut before = 0;
    for (round, (scheme, ack)) in (0..rounds).zip(kinds.iter().cycle()) {
        println!("round {round}: {scheme}, {ack}, OUTLAST_KILL_SEED={seed}");
        let arguments = [pool.to_str().unwrap(), scheme, ack];
        let reported = common::kill_one(&bank, &arguments, common::patience(seed, round));
        let (transfers, balances) = shown(&bank, &pool);
        assert!(transfers >= reported, "{scheme} {ack}: {reported} was acknowledged");
        assert!(transfers <= reported + 1, "{scheme} {ack}: reported one by one");
        assert!(transfers > before, "{scheme} {ack}: it went on");
        assert_eq!(balances.iter().sum::<i64>(), ACCOUNTS as i64 * FIRST_BALANCE);
        assert_eq!(balances, balances_after(transfers), "{scheme} {ack}");
        before = transfers;
    }
}

#[test]
fn the_bank_says_what_is_wrong() {
    let Some(cc) = common::compiler() else { return };
    let dir = tempfile::tempdir().unwrap();
    let bank = dir.path().join("bank");
    common::compile(&cc, &common::crate_file("examples/bank.c"), &bank);
    let no_pool = dir.path().join("text");
    std::fs::write(&no_pool, [b'x'; 1 << 16]).unwrap();
    let says = |arguments: &[&str]| {
        let output = common::program(&bank).args(arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let no_pool = no_pool.to_str().unwrap();
    assert!(says(&[no_pool]).contains("not an Outlast pool"));
    let missing = dir.path().join("missing");
    assert!(says(&[missing.to_str().unwrap(), "show"]).contains("no such file"));
    assert!(says(&[missing.to_str().unwrap(), "undo-arch"]).contains("'undo-arch'"));
    assert!(says(&[missing.to_str().unwrap(), "undo", "soon"]).contains("'soon'"));
    assert!(!missing.exists(), "nothing was made of it");
    assert!(says(&[]).contains(env!("CARGO_PKG_VERSION")));
}
