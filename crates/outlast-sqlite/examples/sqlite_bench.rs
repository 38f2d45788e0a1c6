//! `cargo run --release -p outlast-sqlite --example sqlite_bench -- DIRECTORY [DOMAIN] [ROUNDS] [SUBJECT]`

use outlast_sqlite::bench::{Plan, measure, subjects};
use outlast_sqlite::client::Sqlite;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().unwrap_or_else(|| "/dev/shm".into()).into();
    let domain = arguments.next().map(|name| name.parse()).transpose()?;
    let rounds = arguments.next().map_or(Ok(9), |rounds| rounds.parse())?;
    let only = arguments.next();
    let plan = Plan { directory, rows: 100_000, value_bytes: 1024, turn: 2000, rounds, domain };
    let sqlite = Sqlite::load()?;
    println!("SQLite {}, {} rows of {} bytes", sqlite.version(), plan.rows, plan.value_bytes);
    let mut subjects = subjects(domain);
    subjects.retain(|subject| only.as_ref().is_none_or(|only| subject.name.contains(only)));
    for row in measure(&sqlite, &plan, &subjects)? {
        println!("{:20} p50 {} us, p99 {} us", row.name, row.p50, row.p99);
    }
    Ok(())
}
