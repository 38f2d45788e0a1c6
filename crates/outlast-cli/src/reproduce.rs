//! `outlast reproduce`.

use std::path::PathBuf;

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, ValueEnum};
use outlast::Scheme;
use outlast::lab::Plant;
use outlast_lab::native::Size;
use outlast_lab::papers::{self, PAPERS, Request};
use outlast_lab::progress::{Overall, Progress};
use outlast_lab::record::Document;
use outlast_lab::{html, report, table};

use crate::planted::Trials;
use crate::say::{Teller, noteln, out};
use crate::{CommandResult, Verdict, names, signals};

/// The papers' names, with what each is about.
fn names_of_papers() -> PossibleValuesParser {
    PAPERS.map(|paper| PossibleValue::new(paper.name()).help(paper.about())).into()
}

/// How much.
#[derive(Clone, Copy, ValueEnum)]
enum Scale {
    /// Smaller pools, caches and epochs, and fewer transactions: a few minutes for everything.
    Quick,
    /// As published: hours.
    Full,
}

#[derive(Args)]
pub struct ReproduceArgs {
    /// Whose figures.
    #[arg(value_parser = names_of_papers())]
    paper: String,
    /// Only these figures, separated by commas or given again.
    #[arg(long, value_delimiter = ',', help = figures())]
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
    /// Numbers of threads for figures 1, 7 and 8, separated by commas [default: 1,2].
    #[arg(long, value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=64))]
    threads: Vec<u32>,
    /// Nanoseconds added for each line written back, in the runs on slower memory; 0 leaves them
    /// out [default: 150].
    #[arg(long, value_name = "NS", value_parser = clap::value_parser!(u64).range(..=1_000_000))]
    write_latency: Option<u64>,
    /// Where pools are created for the time of the run.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// Where `index.html` and `results.json` go [default: the paper's name].
    #[arg(long)]
    out: Option<PathBuf>,
}

/// The figures of each paper, for the help.
fn figures() -> String {
    let of_paper = |paper: &dyn papers::Paper| {
        let names: Vec<&str> = paper.figures().into_iter().map(|(name, _)| name).collect();
        format!("of {} {}", paper.name(), names.join(", "))
    };
    let all: Vec<String> = PAPERS.into_iter().map(of_paper).collect();
    format!("Only these figures, separated by commas or given again: {}", all.join("; "))
}

/// An expected time, in words.
fn about(seconds: f64) -> String {
    match (seconds / 60.0).ceil() as u64 {
        0 | 1 => "up to a minute on two processors".to_owned(),
        minutes @ ..120 => format!("about {minutes} minutes on two processors"),
        minutes => format!("about {} hours on two processors", minutes.div_ceil(60)),
    }
}

/// Measures, judges the claims, writes the page and prints tables. What was not reached is a
/// result and no failure; a crash that lost something is one.
pub fn run(args: &ReproduceArgs, as_json: bool, seed: u64) -> CommandResult {
    signals::clean_up_at_the_end()?;
    let paper = papers::named(&args.paper).expect("a name of the table");
    let size = match args.scale {
        Scale::Quick => Size::Quick,
        Scale::Full => Size::Full,
    };
    let request = Request {
        figures: args.figure.clone(),
        threads: (!args.threads.is_empty()).then(|| args.threads.clone()),
        write_latency_ns: args.write_latency,
        directory: args.dir.clone(),
        crashes: args.crashes,
        workloads: args.workload.clone(),
        schemes: args.scheme.clone(),
        plant: args.plant,
        ..Request::new(size, seed)
    };
    let run = paper.prepare(&request)?;
    if run.panics_are_results() {
        std::panic::set_hook(Box::new(|_| ()));
    }
    let out = args.out.clone().unwrap_or_else(|| paper.name().into());
    report::prepare(&out)?;
    let mut document = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    let stages = run.stages();
    let expected: f64 = stages.iter().map(|(_, seconds)| seconds).sum();
    noteln!("{}, scale {}: {}", paper.title(), size.name(), about(expected));
    let teller = Teller::new();
    let before = Plant::times_met();
    let mut tell = |progress: Progress<'_>| teller.tell(progress);
    let mut whole = Overall::new(stages, &mut tell);
    let outcome = run.run(&mut |progress| whole.hear(progress))?;
    drop(whole);
    document.records = outcome.records;
    drop(teller);
    let page = report::write_page(&document, &out, &html::paper(paper, &document))?;
    if as_json {
        out!("{}", document.to_json());
    } else {
        out!("{}", table::paper(paper, &document));
    }
    outcome.failures.iter().for_each(|failure| noteln!("outlast: {failure}"));
    noteln!("{}", page.display());
    match args.plant {
        _ if !outcome.failures.is_empty() => Ok(Verdict::Bad),
        Some(plant) => {
            let mut trials = Trials::default();
            outcome.planted.iter().for_each(|scheme| trials.note(*scheme, before, false));
            Ok(trials.verdict(plant))
        }
        None => Ok(Verdict::Good),
    }
}
