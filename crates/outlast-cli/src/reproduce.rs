//! `outlast reproduce`.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use outlast::{Guarantee, Plant, Scheme};
use outlast_lab::native::{Size, default_directory};
use outlast_lab::record::Document;
use outlast_lab::reproduce::{self, Part, Request, WRITE_LATENCY_NS, fwb};
use outlast_lab::{html, report, table, table4};

use crate::planted::{Trials, planted_in};
use crate::say::{Teller, noteln, out};
use crate::{CommandResult, Verdict, names, signals};

/// Whose figures.
#[derive(Clone, Copy, ValueEnum)]
enum Paper {
    /// Architecture-aware transactions: skipped flushes, checksums, coalescing.
    Archapt,
    /// Hardware undo+redo logging and forced write-back, on the timed machine.
    Fwb,
}

/// How much.
#[derive(Clone, Copy, ValueEnum)]
enum Scale {
    /// Smaller pools and fewer transactions: some ten minutes for everything.
    Quick,
    /// As published: hours.
    Full,
}

#[derive(Args)]
pub struct ReproduceArgs {
    /// Whose figures.
    #[arg(value_enum)]
    paper: Paper,
    /// Only these figures, separated by commas or given again: of archapt 1, 2, 3, 6, 7, 8, 9, 10,
    /// table1, table4, clwb, memories; of fwb 6, 7, 8, 9, 10, 11, table1.
    #[arg(long, value_delimiter = ',')]
    figure: Vec<String>,
    /// Table 4: crashes of each workload under each policy and scheme [default: 100].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    crashes: Option<u32>,
    /// Figures 9 and 10, tables 1 and 4: only these workloads, separated by commas. Claims are about
    /// all, so that no figure is judged by some.
    #[arg(long, value_delimiter = ',')]
    workload: Vec<String>,
    /// Figures 9 and 10, table 1: only these schemes and undo, separated by commas. Table 4: these
    /// [default: undo-archapt,redo-archapt].
    #[arg(long, value_delimiter = ',', value_parser = names::scheme)]
    scheme: Vec<Scheme>,
    /// Table 4: breaks the runtime on purpose; `outlast crash --plant list` names all the ways.
    #[arg(long, value_parser = names::plant)]
    plant: Option<Plant>,
    /// How much of it.
    #[arg(long, value_enum, default_value_t = Scale::Quick)]
    scale: Scale,
    /// Numbers of threads for figures 1, 7 and 8, separated by commas.
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2],
        value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: Vec<u32>,
    /// Nanoseconds added for each line written back, in the runs on slower memory; 0 leaves them
    /// out.
    #[arg(long, default_value_t = WRITE_LATENCY_NS, value_name = "NS",
        value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    write_latency: u64,
    /// Where pools are created for the time of the run.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where `index.html` and `results.json` go [default: the paper's name].
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Measures, judges the claims, writes the page and prints tables. What was not reached is a
/// result and no failure; a crash that lost something is one.
pub fn run(args: &ReproduceArgs, as_json: bool, seed: u64) -> CommandResult {
    signals::clean_up_at_the_end()?;
    let size = match args.scale {
        Scale::Quick => Size::Quick,
        Scale::Full => Size::Full,
    };
    let out = args.out.clone();
    if let Paper::Fwb = args.paper {
        return run_fwb(args, size, &out.unwrap_or_else(|| "fwb".into()), as_json, seed);
    }
    let out = out.unwrap_or_else(|| "archapt".into());
    let figures = args.figure.iter().map(|name| name.parse()).collect::<Result<Vec<Part>, _>>()?;
    let parts = if figures.is_empty() { &Part::ALL[..] } else { &figures };
    let table4 = args.table4(parts, size, seed)?;
    let mut request = Request {
        threads: args.threads.clone(),
        write_latency_ns: args.write_latency,
        directory: args.dir.clone().unwrap_or_else(default_directory),
        table4,
        ..Request::new(parts, size, seed)
    };
    if are_counted(parts) {
        request.count_only(&args.workload, &args.scheme)?;
    }
    report::prepare(&out)?;
    let mut document = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    let teller = Teller::new();
    let before = Plant::times_met();
    let outcome = reproduce::run(&request, &mut |news| teller.tell(news))?;
    document.records = outcome.records;
    drop(teller);
    let page = report::write_page(&document, &out, &html::reproduction(&document))?;
    if as_json {
        out!("{}", document.to_json());
    } else {
        out!("{}", table::reproduction(&document));
    }
    outcome.failures.iter().for_each(|failure| noteln!("outlast: {failure}"));
    noteln!("{}", page.display());
    match (&request.table4, args.plant) {
        _ if !outcome.failures.is_empty() => Ok(Verdict::Bad),
        (Some(plan), Some(plant)) => {
            let mut trials = Trials::default();
            plan.schemes.iter().for_each(|scheme| trials.note(*scheme, before, false));
            Ok(trials.verdict(plant))
        }
        _ => Ok(Verdict::Good),
    }
}

/// The HWL/FWB paper: simulated, so the same seed gives the same page.
fn run_fwb(
    args: &ReproduceArgs,
    size: Size,
    out: &Path,
    as_json: bool,
    seed: u64,
) -> CommandResult {
    let given = args.crashes.is_some() || args.plant.is_some() || args.dir.is_some();
    if given || !args.workload.is_empty() || !args.scheme.is_empty() {
        let what = "--crashes, --workload, --scheme, --plant and --dir are for archapt";
        return Err(what.into());
    }
    let figures =
        args.figure.iter().map(|name| name.parse()).collect::<Result<Vec<fwb::Part>, _>>()?;
    let parts = if figures.is_empty() { &fwb::Part::ALL[..] } else { &figures };
    report::prepare(out)?;
    let request = fwb::Request::new(parts, size, seed);
    let mut document = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    let teller = Teller::new();
    document.records = fwb::run(&request, &mut |news| teller.tell(news))?;
    drop(teller);
    let page = report::write_page(&document, out, &html::fwb(&document))?;
    if as_json {
        out!("{}", document.to_json());
    } else {
        out!("{}", table::fwb(&document));
    }
    noteln!("{}", page.display());
    Ok(Verdict::Good)
}

/// Whether any of these parts counts flushes.
fn are_counted(parts: &[Part]) -> bool {
    Part::COUNTED.iter().any(|part| parts.contains(part))
}

impl ReproduceArgs {
    fn table4(
        &self,
        parts: &[Part],
        size: Size,
        seed: u64,
    ) -> Result<Option<table4::Plan>, Box<dyn std::error::Error>> {
        if !parts.contains(&Part::Table4) {
            if self.crashes.is_some() || self.plant.is_some() {
                return Err("--crashes and --plant go with --figure table4".into());
            }
            let given = !self.workload.is_empty() || !self.scheme.is_empty();
            if given && !are_counted(parts) {
                return Err(
                    "--workload and --scheme go with figures 9, 10, table1 and table4".into()
                );
            }
            return Ok(None);
        }
        let mut plan = table4::Plan::new(size, seed);
        for name in &self.workload {
            plan.workloads.push(table4::workload(name)?);
        }
        if !self.scheme.is_empty() {
            plan.schemes = self.scheme.clone();
        }
        plan.crashes = self.crashes.map_or(plan.crashes, |crashes| crashes as usize);
        plan.plant = self.plant;
        if let Some(plant) = self.plant {
            plan.schemes = planted_in(plant, &plan.schemes, !self.scheme.is_empty())?;
        }
        let promised = |scheme: &Scheme| scheme.guarantee() == Guarantee::Durable;
        if plan.plant.is_some() || !plan.schemes.iter().all(promised) {
            // Panics of code that is broken on purpose, or promises nothing, are results.
            std::panic::set_hook(Box::new(|_| ()));
        }
        Ok(Some(plan))
    }
}
