//! `outlast report`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use outlast_lab::native::{Setup, Size, floor};
use outlast_lab::progress::Progress;
use outlast_lab::record::{Document, Record};
use outlast_lab::{beside, front, goals, report};
use outlast_peers::Pmdk;
use outlast_workloads::Workload;

use crate::say::{Teller, noteln, out};
use crate::{CommandResult, Verdict, signals};

/// How much.
#[derive(Clone, Copy, ValueEnum)]
pub(crate) enum Scale {
    /// 50 000 records of 1 KB for YCSB, and of Archapt's figures what is counted in seconds: a few
    /// minutes.
    Quick,
    /// A million records of 1 KB for YCSB, also TPC-C and LinkBench, and all of Archapt's figures
    /// and its table of crashes: some hours.
    Full,
}

impl Scale {
    pub fn size(self) -> Size {
        match self {
            Self::Quick => Size::Quick,
            Self::Full => Size::Full,
        }
    }
}

#[derive(Args)]
pub struct ReportArgs {
    /// How much of everything.
    #[arg(long, value_enum, default_value_t = Scale::Quick)]
    scale: Scale,
    /// Where `index.html` and `results.json` go.
    #[arg(long, default_value = "report")]
    out: PathBuf,
}

/// What the report runs.
const WORKLOADS: [&str; 10] =
    ["ycsb-a", "ycsb-b", "ycsb-c", "ycsb-d", "ycsb-e", "ycsb-f", "sps1", "sps8", "hash", "btree"];

/// The quick scale has less of everything than usual, for it is to end within four minutes: rounds,
/// milliseconds of a turn, and transactions whose latencies are measured.
const QUICK_ROUNDS: u32 = 5;
const QUICK_TURN_MS: u64 = 20;
const QUICK_LATENCIES: u64 = 10_000;

/// What it runs besides in the full scale.
const FULL_WORKLOADS: [&str; 6] =
    ["rbtree", "queue", "tpcc", "linkbench", "linkbench-archapt", "oltp-ycsb"];

/// Measures everything, writes the page, prints the summary.
pub fn run(args: &ReportArgs, as_json: bool, seed: u64) -> CommandResult {
    report::prepare(&args.out)?;
    // It may have to change the environment, which is safe before there are other threads; what
    // is missing is told by the measurement that needs it.
    let _ = Pmdk::load();
    signals::clean_up_at_the_end()?;
    let size = args.scale.size();
    let more = match size {
        Size::Quick => &[][..],
        Size::Full => &FULL_WORKLOADS[..],
    };
    let named = |name: &&str| Workload::named(name).expect("a workload of the table");
    let workloads = WORKLOADS.iter().chain(more).map(named).collect();
    let plain = Setup::new(workloads, size, seed);
    let setup = match size {
        Size::Full => plain,
        Size::Quick => Setup {
            rounds: QUICK_ROUNDS,
            turn: Duration::from_millis(QUICK_TURN_MS),
            latency_transactions: QUICK_LATENCIES,
            ..plain
        },
    };
    noteln!(
        "scale {}: about {} minutes, {} of memory for pools",
        size.name(),
        report::estimate_s(&setup).div_ceil(60),
        outlast_lab::format::bytes(setup.pool_bytes()),
    );
    let teller = Teller::new();
    let options = floor::options(size, seed);
    let mut first = |records: &[Record]| {
        for line in front::first(records) {
            teller.tell(Progress::Note(&line));
        }
    };
    let mut tell = |progress: Progress<'_>| teller.tell(progress);
    let program = std::env::current_exe()?;
    let serve = beside::serve_by(&program);
    let (memory, disk) = (setup.directory.clone(), args.out.clone());
    let others = beside::Setup { memory, disk, serve: &serve, seed };
    let found = report::measure(&setup, &options, &others, &mut tell, &mut first)?;
    drop(teller);
    let mut document = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    (document.records, document.compared) = (found.records, found.compared);
    (document.explained, document.beside) = (found.explained, found.beside);
    document.power = found.power;
    let page = report::write(&document, &args.out)?;
    if as_json {
        out!("{}", document.to_json());
    } else {
        out!("{}", front::screen(&document));
    }
    noteln!("{}", page.display());
    let faults = goals::faults(&document.records);
    for fault in &faults {
        noteln!("outlast: {fault}");
    }
    Ok(if faults.is_empty() { Verdict::Good } else { Verdict::Bad })
}
