//! `outlast sqlite`: import, export, bench.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use outlast::{Domain, Scheme};
use outlast_lab::native::default_directory;
use outlast_lab::table::TextTable;
use outlast_measure::Spread;
use outlast_sqlite::bench::{self, ONE_WAREHOUSE, Plan, Row, Work};
use outlast_sqlite::client::Sqlite;
use outlast_sqlite::options::DatabaseOptions;
use outlast_sqlite::plain;
use serde_json::json;

use crate::say::{out, outln};
use crate::{CommandResult, Verdict, size};

/// What the statuses of these commands mean.
const STATUSES: &str = "\
Exit status:
  0  it is done
  2  wrong use: no such file, not a database, in use elsewhere, a name that exists already";

/// What to do with a database.
#[derive(Subcommand)]
pub enum SqliteCommand {
    /// Make a pool of a plain SQLite database, which stays as it is.
    #[command(after_help = STATUSES)]
    Import(ImportArgs),
    /// Copy the database of a pool into a plain file, which any SQLite opens.
    #[command(after_help = STATUSES)]
    Export(ExportArgs),
    /// Measure transactions by pools and by SQLite's own journals, with the SQLite of this system.
    Bench(BenchArgs),
}

#[derive(Args)]
pub struct ImportArgs {
    /// The plain database.
    plain: PathBuf,
    /// The pool to make.
    pool: PathBuf,
    /// Size of the pool, if that is more than the database needs.
    #[arg(long, default_value = "16M", value_parser = size::parse)]
    size: u64,
    /// Scheme that fills the pool; it may be opened under another one.
    #[arg(long)]
    scheme: Option<Scheme>,
    /// Persistence domain to work in: process, page, adr or eadr; detected if not given.
    #[arg(long)]
    domain: Option<Domain>,
}

#[derive(Args)]
pub struct ExportArgs {
    /// The pool.
    pool: PathBuf,
    /// The plain database to make.
    plain: PathBuf,
}

#[derive(Args)]
pub struct BenchArgs {
    /// Where the databases are created for the time of the run.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Persistence domain of the pools; detected if not given.
    #[arg(long)]
    domain: Option<Domain>,
    /// Works, with commas between: update (one row of some gets a new value), insert (a row is added), batch (a
    /// thousand rows are), read (one row of some is read), ycsb-a (half reads, half updates of one field in ten), tpcc (one warehouse).
    #[arg(long, value_delimiter = ',', default_values = Work::ALL.map(Work::name))]
    work: Vec<Work>,
    /// Schemes of the pools, with commas between; the first two are measured with exclusive locking, too.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "redo,swift,undo,undo-archapt,redo-archapt"
    )]
    scheme: Vec<Scheme>,
    /// Rows of the table, of 1 KiB each; tpcc has its own, and insert and batch begin with none.
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    rows: u64,
    /// Rounds in which every subject has a turn.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u16).range(1..=10_000))]
    rounds: u16,
    /// Transactions of a turn; of batch one in twenty.
    #[arg(long, default_value_t = 2000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    turn: u32,
}

fn bench(args: &BenchArgs, as_json: bool, seed: u64) -> CommandResult {
    let plan = Plan {
        directory: args.dir.clone().unwrap_or_else(default_directory),
        rows: args.rows,
        value_bytes: 1 << 10,
        shape: ONE_WAREHOUSE,
        turn: args.turn as usize,
        rounds: usize::from(args.rounds),
        seed,
    };
    let sqlite = Sqlite::load()?;
    let subjects = bench::subjects(&args.scheme, args.domain);
    if !as_json {
        outln!(
            "SQLite {}, one connection, synchronous=FULL; {} rounds of {} transactions",
            sqlite.version(),
            args.rounds,
            args.turn
        );
    }
    let mut records = Vec::new();
    for work in &args.work {
        let rows = bench::measure(&sqlite, &plan, *work, &subjects)?;
        if as_json {
            records.extend(rows.iter().map(|row| record(*work, row)));
        } else {
            outln!("\n{work}: transactions of a millisecond, latency in microseconds");
            out!("{}", table(&rows).render());
        }
    }
    if as_json {
        outln!("{}", crate::document("sqlite bench", seed, records));
    }
    Ok(Verdict::Good)
}

fn record(work: Work, row: &Row) -> serde_json::Value {
    let figure = |of: Spread| json!({"median": of.median, "p25": of.p25, "p75": of.p75});
    json!({
        "work": work.name(),
        "subject": row.name,
        "per_ms": figure(row.rate),
        "rate_of_wal": row.rate_of_wal.map(figure),
        "p50_us": figure(row.p50),
        "p99_us": figure(row.p99),
    })
}

fn table(rows: &[Row]) -> TextTable {
    let mut table = TextTable::new(["", "rate", "of WAL's", "p50", "p99"]);
    for row in rows {
        let of_wal = row.rate_of_wal.map_or_else(String::new, |figure| figure.to_string());
        let figures = [row.rate, row.p50, row.p99].map(|figure| figure.to_string());
        let [rate, p50, p99] = figures;
        table.row([row.name.clone(), rate, of_wal, p50, p99]);
    }
    table
}

/// Runs one of them.
pub fn run(command: &SqliteCommand, as_json: bool, seed: u64) -> CommandResult {
    let (name, from, to, bytes) = match command {
        SqliteCommand::Import(args) => {
            let options = DatabaseOptions {
                scheme: args.scheme,
                domain: args.domain,
                size_bytes: args.size,
                ..DatabaseOptions::default()
            };
            let bytes = plain::import(&args.plain, &args.pool, &options)?;
            ("sqlite import", &args.plain, &args.pool, bytes)
        }
        SqliteCommand::Export(args) => {
            let bytes = plain::export(&args.pool, &args.plain, &DatabaseOptions::default())?;
            ("sqlite export", &args.pool, &args.plain, bytes)
        }
        SqliteCommand::Bench(args) => return bench(args, as_json, seed),
    };
    if as_json {
        outln!("{}", crate::document(name, seed, vec![json!({"bytes": bytes})]));
    } else {
        outln!("{} from {} ({bytes} bytes)", to.display(), from.display());
    }
    Ok(Verdict::Good)
}
