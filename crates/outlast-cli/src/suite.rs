//! `outlast trace suite`: the suite of real programs, captured into its folder.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use outlast_lab::suite::{self, Made, Missing, Suite, counterparts};
use serde_json::json;

use crate::say::{Teller, noteln, outln};
use crate::{CommandResult, Verdict, signals};

/// How much of each program.
#[derive(Clone, Copy, ValueEnum)]
enum Scale {
    /// 20 million instructions of each program, in some minutes.
    Quick,
    /// 250 million of each.
    Full,
}

impl Scale {
    fn of_suite(self) -> suite::Scale {
        match self {
            Self::Quick => suite::Scale::Quick,
            Self::Full => suite::Scale::Full,
        }
    }
}

#[derive(Args)]
pub struct SuiteArgs {
    /// The folder for the traces [default: outlast/traces in $XDG_CACHE_HOME or ~/.cache].
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
    /// Programs, by their names in SPEC CPU2006, or mixes (w0 to w7) [default: all programs].
    #[arg(long = "program", value_name = "NAME", value_delimiter = ',')]
    programs: Vec<String>,
    /// How much of each.
    #[arg(long, value_enum, default_value_t = Scale::Quick)]
    scale: Scale,
    /// Installs missing packages by apt-get first, as root.
    #[arg(long)]
    install: bool,
    /// Only lists the programs, what stands for each, and the parts of their runs: millions of instructions
    /// before, and in the trace.
    #[arg(long, conflicts_with_all = ["install", "measure", "windows", "programs"])]
    list: bool,
    /// Writes what the programs work on into a folder each, and captures nothing.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["install", "measure", "windows", "list"])]
    inputs: Option<PathBuf>,
    /// Also runs each trace on PiCL's machine (Table IV, one core): misses at the last level and lines
    /// written back in a thousand instructions, beside what was published of the originals.
    #[arg(long, conflicts_with = "windows")]
    measure: bool,
    /// Also runs each trace on that machine as a whole, and by its representative windows (`outlast trace
    /// points`). Status 1 where a weighted CPI is off by more than 5 %.
    #[arg(long)]
    windows: bool,
}

/// The programs that were asked for, each once.
fn chosen(args: &SuiteArgs) -> Result<Vec<&'static str>, Missing> {
    if args.programs.is_empty() {
        return Ok(counterparts().map(|(entry, _)| entry.name).collect());
    }
    let mut names = Vec::new();
    for name in &args.programs {
        let of = match suite::MIXES.iter().find(|mix| mix.name == name) {
            Some(mix) => mix.programs.to_vec(),
            None => vec![suite::program(name)?.name],
        };
        of.into_iter().for_each(|name| {
            if !names.contains(&name) {
                names.push(name);
            }
        });
    }
    Ok(names)
}

/// Captures what is not there yet. Status 1 where something is missing.
pub fn run(args: &SuiteArgs, as_json: bool, seed: u64) -> CommandResult {
    if args.list {
        match as_json {
            true => outln!("{}", crate::document("trace suite --list", seed, suite::list())),
            false => {
                outln!("{}", suite::table());
                for mix in suite::MIXES {
                    outln!("{}: {}", mix.name, mix.programs.join(", "));
                }
            }
        }
        return Ok(Verdict::Good);
    }
    let names = chosen(args)?;
    if let Some(folder) = &args.inputs {
        for name in names {
            suite::write_inputs(name, &folder.join(name))?;
        }
        return Ok(Verdict::Good);
    }
    signals::clean_up_at_the_end()?;
    let suite = match &args.to {
        Some(folder) => Suite::at(folder),
        None => Suite::usual()?,
    };
    if args.install {
        let missing = suite::missing_packages(&names);
        if !missing.is_empty() {
            noteln!("outlast: installing {}", missing.join(" "));
            suite::install(&missing)?;
        }
    }
    let teller = Teller::new();
    let all = suite.make_all(&names, args.scale.of_suite(), &mut |progress| teller.tell(progress));
    if args.measure {
        let measured = suite::measure(&suite, &names, args.scale.of_suite(), &mut |progress| {
            teller.tell(progress);
        })?;
        drop(teller);
        match as_json {
            true => {
                let records = measured.iter().map(suite::Behaviour::to_json).collect();
                outln!("{}", crate::document("trace suite --measure", seed, records));
            }
            false => {
                outln!("{}", suite::behaviour_table(&measured));
                outln!(
                    "In a thousand instructions, on machine {}. Published: {}.",
                    suite::MACHINE,
                    suite::SOURCE
                );
            }
        }
        return Ok(if measured.len() == names.len() { Verdict::Good } else { Verdict::Bad });
    }
    if args.windows {
        let found = suite::windowed(&suite, &names, args.scale.of_suite(), &mut |progress| {
            teller.tell(progress);
        })?;
        drop(teller);
        match as_json {
            true => {
                let records = found.iter().map(suite::Windowed::to_json).collect();
                outln!("{}", crate::document("trace suite --windows", seed, records));
            }
            false => {
                outln!("{}", suite::windowed_table(&found));
                outln!(
                    "On machine {}; CPI is cycles for an instruction of the machine.",
                    suite::MACHINE
                );
            }
        }
        let all_right = found.len() == names.len() && found.iter().all(suite::Windowed::is_right);
        return Ok(if all_right { Verdict::Good } else { Verdict::Bad });
    }
    drop(teller);
    let verdict =
        if all.iter().all(|(_, made)| made.is_ok()) { Verdict::Good } else { Verdict::Bad };
    if as_json {
        let record = |(name, made): &(&str, Result<Made, Missing>)| match made {
            Ok(made) => json!({
                "kind": "trace", "name": name, "file": made.file.display().to_string(),
                "is_new": made.is_new,
            }),
            Err(missing) => {
                json!({"kind": "missing", "name": name, "reason": missing.to_string()})
            }
        };
        let records = all.iter().map(record).collect();
        outln!("{}", crate::document("trace suite", seed, records));
        return Ok(verdict);
    }
    for (name, made) in &all {
        if let Ok(made) = made {
            outln!("{name:<12} {}", made.file.display());
        }
    }
    Ok(verdict)
}
