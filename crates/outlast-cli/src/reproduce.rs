//! `outlast reproduce`.

use clap::{Args, ValueEnum};
use outlast::Scheme;
use outlast_lab::native::Size;
use outlast_lab::record::{Document, Kind, Metric, Record};
use outlast_lab::reproduce;

use crate::say::Teller;
use crate::{CommandResult, Verdict};

/// Whose figures.
#[derive(Clone, Copy, ValueEnum)]
enum Paper {
    /// Architecture-aware transactions: skipped flushes, checksums, coalescing.
    Archapt,
}

/// How much.
#[derive(Clone, Copy, ValueEnum)]
enum Scale {
    /// 100 000 records, 16 MB of log: about five minutes.
    Quick,
    /// As published, 64 MB of log: about an hour.
    Full,
}

#[derive(Args)]
pub struct ReproduceArgs {
    /// Whose figures.
    #[arg(value_enum)]
    paper: Paper,
    /// Only this figure. So far there is 9, the reduction of flushes.
    #[arg(long, value_parser = ["9"])]
    figure: Option<String>,
    /// How much of it.
    #[arg(long, value_enum, default_value_t = Scale::Quick)]
    scale: Scale,
}

/// Measures and prints what the paper claims beside what was found.
pub fn run(args: &ReproduceArgs, as_json: bool, seed: u64) -> CommandResult {
    let Paper::Archapt = args.paper;
    let size = match args.scale {
        Scale::Quick => Size::Quick,
        Scale::Full => Size::Full,
    };
    let mut document = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    let teller = Teller::new();
    document.records = reproduce::archapt_flushes(size, seed, &mut |news| teller.tell(news))?;
    drop(teller);
    if as_json {
        print!("{}", document.to_json());
    } else {
        print_flushes(&document.records);
    }
    Ok(Verdict::Good)
}

fn print_flushes(records: &[Record]) {
    println!("Archapt, figure 9: flushes per transaction, and how many fewer than undo (%)\n");
    println!(
        "  {:<18} {:<14} {:>6} {:>6} {:>6}   {:>7} {:>7} {:>7} {:>7}",
        "workload", "scheme", "data", "dirty", "log", "data", "dirty", "all", "dirty"
    );
    let mut rows: Vec<(&str, &str)> = Vec::new();
    for record in records.iter().filter(|record| record.kind == Kind::Sim) {
        if !rows.contains(&(&record.workload, &record.scheme)) {
            rows.push((&record.workload, &record.scheme));
        }
    }
    for (workload, scheme) in rows {
        let value = |metric: Metric| {
            let found = records.iter().find(|record| {
                record.kind == Kind::Sim
                    && (record.workload.as_str(), record.scheme.as_str()) == (workload, scheme)
                    && record.is(metric)
            });
            found.and_then(|record| record.value).unwrap_or_default()
        };
        print!("  {workload:<18} {scheme:<14}");
        for metric in [Metric::DATA_FLUSHES, Metric::DIRTY_DATA_FLUSHES, Metric::LOG_FLUSHES] {
            print!(" {:>6.2}", value(metric));
        }
        print!("  ");
        let saved = [
            Metric::DATA_FLUSHES_SAVED,
            Metric::DIRTY_DATA_FLUSHES_SAVED,
            Metric::ALL_FLUSHES_SAVED,
            Metric::ALL_DIRTY_FLUSHES_SAVED,
        ];
        for metric in saved {
            match scheme == Scheme::Undo.name() {
                true => print!(" {:>7}", "."),
                false => print!(" {:>7.1}", value(metric)),
            }
        }
        println!();
    }
    println!();
    for claim in records.iter().filter(|record| record.kind == Kind::Claim) {
        let reached = claim.verdict == Some(outlast_lab::record::Verdict::Reached);
        println!(
            "  {} {}, {}: {} % claimed, {:.1} % found{}",
            if reached { "\u{2713}" } else { "\u{2717}" },
            claim.scheme,
            claim.metric,
            claim.paper_value.unwrap_or_default(),
            claim.value.unwrap_or_default(),
            claim.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default(),
        );
    }
}
