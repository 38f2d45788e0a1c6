//! `outlast compare`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use outlast::Scheme;
use outlast::scheme::SCHEMES;
use outlast_lab::compare::{self, Compared, Comparison, Indirection};
use outlast_lab::record::Document;
use outlast_lab::{report, simulated};
use outlast_schemes::{MachineScheme, Reading};
use outlast_sim::instead_of;
use outlast_sim::timed::DEFAULT_MACHINE;
use outlast_workloads::{Workload, workloads};

use crate::program::{CoreName, ProgramArgs};
use crate::say::{Teller, noteln, out};
use crate::{CommandResult, Verdict, names, signals};

#[derive(Args)]
pub struct CompareArgs {
    /// A workload or program of the machine (`outlast workloads` lists them), or a file FILE.work of
    /// transactions of one's own.
    #[arg(value_name = "WORK", required_unless_present = "trace")]
    work: Option<String>,
    /// Compares on a trace with transactions instead: one of `outlast sim --save-trace`, or a captured
    /// program's that marks its own (docs/trace.md).
    #[arg(long, value_name = "FILE", conflicts_with_all = ["work", "ProgramArgs"])]
    trace: Option<PathBuf>,
    /// Schemes of the machine and of the runtime, separated by commas [default: all but those as
    /// published]. Plain memory, which all are measured by, always runs.
    #[arg(long, value_delimiter = ',')]
    scheme: Vec<String>,
    #[command(flatten)]
    program: ProgramArgs,
    /// The kind of core, if not the machine's own.
    #[arg(long, value_enum)]
    core: Option<CoreName>,
    /// The machine: a preset's name or a TOML file (`outlast sim machines` lists them).
    #[arg(long, default_value = DEFAULT_MACHINE, value_name = "NAME|FILE.toml")]
    config: String,
    /// Changes the machine, or `scheme.KEY` what can be chosen of a scheme; several values run one
    /// machine each. May be repeated. `outlast sim machines` lists keys.
    #[arg(long = "set", value_name = "KEY=VALUE[,VALUE...]")]
    options: Vec<String>,
    /// Prints the records as CSV: a line a value, a column each key that --set names.
    #[arg(long)]
    csv: bool,
    /// Which schemes pay for the memory's address indirection (AIT).
    #[arg(long, value_enum, default_value_t = Ait::All)]
    ait: Ait,
    /// Where `index.html` and `results.json` go.
    #[arg(long, default_value = "compare")]
    out: PathBuf,
}

#[derive(Clone, Copy, ValueEnum)]
enum Ait {
    /// Every scheme, plain memory and those of the runtime included.
    All,
    /// No scheme; one that moves blocks by it is left out.
    None,
}

/// Runs every scheme on the work, writes the page, and prints the table.
pub fn run(args: &CompareArgs, as_json: bool, seed: u64) -> CommandResult {
    crate::one_format(args.csv, as_json)?;
    signals::clean_up_at_the_end()?;
    let work = match (&args.trace, args.work.as_deref()) {
        (Some(path), _) => Compared::Trace(path.clone()),
        (None, name) => {
            let workload = workload(name)?;
            args.program.check(workload)?;
            Compared::Program(args.program.plan(workload, seed))
        }
    };
    let (schemes, software) = schemes(&args.scheme)?;
    let core = CoreName::kind(args.core);
    let settings = simulated::settings(&args.config, core, &args.options, &schemes)?;
    report::prepare(&args.out)?;
    let indirection = match args.ait {
        Ait::All => Indirection::All,
        Ait::None => Indirection::None,
    };
    let simulated = settings.iter().map(simulated::Setting::described).collect();
    let comparison = Comparison { work, settings, schemes, software, indirection, seed };
    let teller = Teller::new();
    let outcome = comparison.run(&mut |progress| teller.tell(progress))?;
    drop(teller);
    let mut document = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    (document.records, document.simulated) = (outcome.records, simulated);
    let page = compare::page(&document, &outcome.left_out);
    let page = report::write_page(&document, &args.out, &page)?;
    if as_json {
        out!("{}", document.to_json());
    } else if args.csv {
        out!("{}", simulated::csv(&document.records));
    } else {
        out!("{}", compare::table(&document.records));
    }
    outcome.left_out.iter().for_each(|why| noteln!("outlast: left out: {why}"));
    noteln!("{}", page.display());
    Ok(Verdict::Good)
}

fn workload(name: Option<&str>) -> Result<&'static Workload, String> {
    let name = name.unwrap_or_default();
    names::find_workload(name)?.ok_or_else(|| {
        let instead = instead_of(name, workloads().iter().map(|row| row.name));
        format!("no workload or program is called '{name}'; {instead}")
    })
}

/// Plain memory first, then those asked for; and those of the runtime.
fn schemes(asked: &[String]) -> Result<(Vec<MachineScheme>, Vec<Scheme>), String> {
    let (wanted, software) = names::schemes(asked)?;
    let mut schemes = vec![MachineScheme::plain()];
    let all = MachineScheme::all().filter(|scheme| scheme.reading() != Reading::AsPublished);
    let wanted = if asked.is_empty() { all.collect() } else { wanted };
    for scheme in wanted {
        if !schemes.contains(&scheme) {
            schemes.push(scheme);
        }
    }
    let sound = SCHEMES.iter().map(|row| row.scheme).filter(|scheme| !scheme.is_published());
    Ok((schemes, if asked.is_empty() { sound.collect() } else { software }))
}
