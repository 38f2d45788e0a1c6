//! `outlast sim --crash`: schemes of the machine, crashed, recovered and judged.

use std::path::Path;

use outlast_crash::machine::{Campaign, CrashEntry, Look, RESUMED_POINTS, RESUMES_DEFAULT, Report};
use outlast_crash::runtime::campaign::Points;
use outlast_lab::crash::look;
use outlast_lab::explain;
use outlast_lab::record::Document;
use outlast_lab::simulated::{self, Setting};
use outlast_schemes::{MachineScheme, Plant, plants};
use outlast_sim::instead_of;
use outlast_workloads::machine::{Plan, Recorded};

use super::SimArgs;
use crate::program::CoreName;
use crate::say::{noteln, out, outln, plain};
use crate::{CommandResult, Verdict, names};

type Failed = Box<dyn std::error::Error>;

/// What crashes.
enum Crashed<'a> {
    Program(&'a Plan),
    Captured(&'a Path, Recorded),
}

impl Crashed<'_> {
    fn name(&self) -> String {
        match self {
            Self::Program(plan) => plan.workload.name.to_owned(),
            Self::Captured(path, _) => path.display().to_string(),
        }
    }

    /// The campaign of a scheme on a machine.
    fn campaign(
        &self,
        args: &SimArgs,
        points: Points,
        plant: Option<&'static Plant>,
        (setting, scheme): (&Setting, MachineScheme),
    ) -> Result<Campaign, Failed> {
        let plan = match self {
            Self::Program(plan) => Plan { warm_up: 0, ..**plan },
            Self::Captured(_, work) => work.plan,
        };
        let campaign = Campaign {
            scheme,
            plan,
            options: setting.options_of(scheme)?,
            machine: setting.machine.clone(),
            plant,
            points,
            second_crash: true,
            resumes: resumes(args),
            resumed_points: args.resume_entry.map_or(RESUMED_POINTS, Points::One),
            part: args.part,
        };
        match self {
            Self::Captured(path, work)
                if work.transactions == 0 && !campaign.has_epochs(work).unwrap_or(false) =>
            {
                Err(simulated::no_transactions(path, scheme).into())
            }
            _ => Ok(campaign),
        }
    }

    fn run(&self, campaign: &Campaign) -> Result<Report, Failed> {
        match self {
            Self::Program(_) => campaign.run(),
            Self::Captured(_, work) => campaign.run_on(work),
        }
    }

    fn look(&self, campaign: &Campaign) -> Result<Look, Failed> {
        match self {
            Self::Program(_) => campaign.look(),
            Self::Captured(_, work) => campaign.look_on(work.clone()),
        }
    }

    /// The command that replays it.
    fn command(&self, args: &SimArgs, campaign: &Campaign, at: Option<CrashEntry>) -> String {
        match self {
            Self::Program(_) => campaign.command(at),
            Self::Captured(path, _) => campaign.command_on(path, args.instructions, at),
        }
    }

    /// How a plant that went unnoticed is noticed.
    fn advice(&self, plant: &'static Plant, seed: u64) -> Result<String, Failed> {
        match self {
            Self::Captured(..) => Ok(String::new()),
            Self::Program(_) => Ok(match Campaign::noticing(plant, seed)? {
                Some(noticing) => format!("; see {}", noticing.command(None)),
                None => "; take more crash points, a larger --resume or another --seed".to_owned(),
            }),
        }
    }
}

/// Recovered images from which a program runs on. The replay of a failure resumes where that did.
fn resumes(args: &SimArgs) -> usize {
    match (args.crash_entry, args.resume_entry) {
        (Some(_), None) => 0,
        _ => args.resume.unwrap_or(RESUMES_DEFAULT),
    }
}

/// Crashes a program under each scheme, on each machine.
pub(super) fn program(
    args: &SimArgs,
    plan: &Plan,
    schemes: &[MachineScheme],
    points: Points,
    as_json: bool,
    seed: u64,
) -> CommandResult {
    crash(args, &Crashed::Program(plan), schemes, !args.scheme.is_empty(), points, as_json, seed)
}

/// Crashes a captured program under schemes of the machine: epochs of all that it stored, or the
/// transactions that it marks.
pub(super) fn captured(
    args: &SimArgs,
    path: &Path,
    points: Points,
    as_json: bool,
    seed: u64,
) -> CommandResult {
    let (schemes, software) = names::schemes(&args.scheme)?;
    if schemes.is_empty() || !software.is_empty() {
        return Err(
            "--crash of a captured program takes schemes of the machine: give --scheme".into()
        );
    }
    let work = simulated::captured_work(path, args.instructions, seed)?;
    crash(args, &Crashed::Captured(path, work), &schemes, true, points, as_json, seed)
}

fn crash(
    args: &SimArgs,
    work: &Crashed<'_>,
    schemes: &[MachineScheme],
    are_named: bool,
    points: Points,
    as_json: bool,
    seed: u64,
) -> CommandResult {
    let plant = args.plant.as_deref().map(plant_named).transpose()?;
    let schemes = planted_in(plant, schemes, are_named)?;
    let settings =
        simulated::settings(&args.config, CoreName::kind(args.core), &args.options, &schemes)?;
    let of_setting = |setting| schemes.iter().map(move |scheme| (setting, *scheme));
    let pairs: Vec<(&Setting, MachineScheme)> = settings.iter().flat_map(of_setting).collect();
    let mut document = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    let mut verdict = Verdict::Good;
    for (number, &(setting, scheme)) in pairs.iter().enumerate() {
        let campaign = work.campaign(args, points, plant, (setting, scheme))?;
        if let Some(folder) = &args.keep {
            let folder = match (&pairs[..], &settings[..]) {
                ([_], _) => folder.clone(),
                (_, [_]) => folder.join(scheme.name()),
                _ => folder.join(format!("{}-{}", scheme.name(), 1 + number / schemes.len())),
            };
            let look = keep(args, work, &campaign, &folder, seed)?;
            if !as_json {
                out!("{}", explain::text(&look.explanation));
            }
            if look.violation.is_some() {
                verdict = Verdict::Bad;
            }
            document.explained.push(look.explanation);
            continue;
        }
        let report = work.run(&campaign)?;
        let replay = |at| work.command(args, &campaign, Some(at));
        document.failures.extend(simulated::failed_points(&campaign, &report, replay));
        let mut found = simulated::crash_records(&campaign, &report);
        if let Crashed::Captured(path, _) = work {
            simulated::name_records(&mut found, path);
        }
        setting.mark(scheme, &mut found);
        document.records.extend(found);
        if !as_json && !args.csv {
            let (name, promised) = (work.name(), scheme.guarantee());
            let transactions = match work {
                Crashed::Program(_) => String::new(),
                Crashed::Captured(_, work) => format!("{} transactions, ", work.transactions),
            };
            outln!("{name} under {scheme}, guarantee {promised}: {transactions}{}", told(&report));
        }
        if is_bad(args, work, &campaign, &report, seed)? {
            verdict = Verdict::Bad;
        }
    }
    if as_json {
        out!("{}", document.to_json());
    } else if args.csv {
        out!("{}", simulated::csv(&document.records));
    }
    Ok(verdict)
}

/// Writes the crash that is asked for, or the first that fails, to a folder.
fn keep(
    args: &SimArgs,
    work: &Crashed<'_>,
    campaign: &Campaign,
    folder: &Path,
    seed: u64,
) -> Result<Look, Failed> {
    let mut look = work.look(campaign)?;
    look.explanation.replay = work.command(args, campaign, Some(look.at));
    let mut own = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    own.explained.push(look.explanation.clone());
    look::save_of_machine(&look, &work.name(), folder, &own)
        .map_err(|error| format!("{}: {}", folder.display(), plain(&error)))?;
    Ok(look)
}

/// The counts of a campaign, in one line.
fn told(report: &Report) -> String {
    let Report { images, entries, resumed, lost, torn, .. } = report;
    format!(
        "{images} images of {entries} entries, resumed {resumed} times, {lost} lost, {torn} torn"
    )
}

/// Whether the scheme failed or a planted bug was not noticed, which is told with advice.
fn is_bad(
    args: &SimArgs,
    work: &Crashed<'_>,
    campaign: &Campaign,
    report: &Report,
    seed: u64,
) -> Result<bool, Failed> {
    let scheme = campaign.scheme;
    if report.is_guilty() {
        let why = report.first.as_ref().map_or(String::new(), |(_, why)| why.to_string());
        let command = work.command(args, campaign, report.first_entry());
        noteln!("outlast: {scheme} fails: {why}; {command}");
    } else if let Some(plant) = campaign.plant.filter(|plant| !plant.is_control()) {
        let (name, advice) = (plant.name, work.advice(plant, seed)?);
        noteln!("outlast: {name} is planted in {scheme}, and nothing was noticed here{advice}");
    } else {
        return Ok(false);
    }
    Ok(true)
}

/// The schemes of these that have what a plant breaks: all of them where they were asked for.
fn planted_in(
    plant: Option<&Plant>,
    schemes: &[MachineScheme],
    are_named: bool,
) -> Result<Vec<MachineScheme>, String> {
    let Some(plant) = plant else { return Ok(schemes.to_vec()) };
    let applies = |scheme: &&MachineScheme| plant.applies_to(scheme.name());
    match schemes.iter().find(|scheme| !applies(scheme)) {
        Some(scheme) if are_named => {
            let all = MachineScheme::all().map(MachineScheme::name);
            let all: Vec<_> = all.filter(|name| plant.applies_to(name)).collect();
            let (name, all) = (plant.name, all.join(", "));
            Err(format!("{name} changes nothing in {scheme}: it can be planted in {all}"))
        }
        _ => Ok(schemes.iter().filter(applies).copied().collect()),
    }
}

/// The plant of that name.
fn plant_named(name: &str) -> Result<&'static Plant, String> {
    plants().find(|plant| plant.name == name).ok_or_else(|| {
        let instead = instead_of(name, plants().map(|plant| plant.name));
        format!("no plant is called '{name}'; {instead}")
    })
}

/// Lists what can be broken on purpose, with the scheme that shows it.
pub(super) fn list_plants(as_json: bool, seed: u64) -> CommandResult {
    let kind = |plant: &Plant| if plant.is_control() { "control" } else { "plant" };
    if as_json {
        let record = |plant: &Plant| {
            serde_json::json!({
                "kind": kind(plant),
                "name": plant.name,
                "scheme": plant.shown_by.variant,
                "description": plant.about,
            })
        };
        outln!("{}", crate::document("sim --plant list", seed, plants().map(record).collect()));
        return Ok(Verdict::Good);
    }
    for plant in plants() {
        outln!(
            "{:<12} {:<8} {:<14} {}",
            plant.name,
            kind(plant),
            plant.shown_by.variant,
            plant.about
        );
    }
    Ok(Verdict::Good)
}
