//! `outlast crash`: random campaigns, and the exhaustive search with `--policy any`.

#[cfg(feature = "lab")]
mod campaigns;
#[cfg(feature = "lab")]
mod explain;

use std::error::Error;

use clap::Args;
use outlast::lab::Plant;
use outlast::scheme::Guarantee;
use outlast::{Ack, Scheme};
use outlast_crash::runtime::plants::planted_in;
#[cfg(feature = "lab")]
use outlast_crash::runtime::scopes::own::scope_of;
use outlast_crash::runtime::scopes::points::{self, Point};
use outlast_crash::runtime::scopes::{Scope, ScopeConfig, Tally, lifecycle, table};
use outlast_crash::runtime::{KEYS_MAX, LANES_MAX, TRANSACTIONS_MAX};
#[cfg(feature = "lab")]
use outlast_lab::{
    crash::scope_records,
    record::{Document, Record},
};
use outlast_trace::instead_of;

use crate::planted::Trials;
#[cfg(feature = "lab")]
use crate::say::out;
use crate::say::{OutputFailed, noteln, outln};
use crate::{CommandResult, Verdict, names, planted};

/// The policy that stands for every image that any eviction allows.
const ANY: &str = "any";

/// All scopes, or the campaigns of the report.
const ALL: &str = "all";

/// Schemes that are crashed where nothing is said.
const SCHEMES: [Scheme; 2] = [Scheme::Undo, Scheme::Redo];

/// Lanes that run transactions where nothing is said.
const LANES: u16 = 2;

/// Recoveries after which an exhaustive search of one scope gives up.
const IMAGES_MAX: u64 = 1_000_000_000;

#[derive(Args)]
pub struct CrashArgs {
    /// A workload (`outlast workloads` lists them), a file FILE.work of transactions of one's own, or `all`:
    /// the campaigns of `outlast report`. With `--policy any`: such a file, `words`, the name of a scope, `all` of them, or a point such as `ARC-2`, which
    /// a literal variant loses.
    #[arg(required_unless_present = "plant")]
    workload: Option<String>,
    /// Schemes, separated by commas (`outlast schemes` lists ours) [default: undo,redo, of which
    /// only those that execute what --plant breaks].
    #[arg(long, value_delimiter = ',', value_parser = names::scheme)]
    scheme: Vec<Scheme>,
    /// Replacement policies, separated by commas: lru, plru, bip, random, adversarial; `all` of
    /// them; or `any`: every image that any eviction allows, on a small scope.
    #[arg(long, value_delimiter = ',', default_value = "all")]
    policy: Vec<String>,
    /// Keys in the pool [default: 10000]; with `--policy any`, words [default: 4].
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=KEYS_MAX))]
    keys: Option<u64>,
    /// Lanes that run transactions [default: 2].
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=i64::from(LANES_MAX)))]
    lanes: Option<u16>,
    /// Transactions of all lanes together [default: 1000; with `--policy any`: 3].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=TRANSACTIONS_MAX as i64))]
    transactions: Option<u32>,
    /// When transactions are acknowledged: logical (their record is durable) or physical (their
    /// data is, in place).
    #[arg(long, default_value_t)]
    ack: Ack,
    /// Breaks the runtime on purpose; `list` names all the ways. A bug that goes unnoticed ends
    /// with status 1.
    #[arg(long)]
    plant: Option<String>,
    #[cfg(feature = "lab")]
    #[command(flatten)]
    campaign: campaigns::CampaignArgs,
}

/// Crashes, judges, prints.
pub fn run(args: &CrashArgs, as_json: bool, seed: u64) -> CommandResult {
    let is_list = args.plant.as_deref() == Some("list");
    #[cfg(not(feature = "lab"))]
    if as_json {
        return Err("built without the feature `lab`, it writes no JSON".into());
    }
    #[cfg(feature = "lab")]
    match () {
        () if is_list && as_json => return planted::list_as_json(seed),
        () if args.campaign.explain && !args.campaign.is_looked_at() => {
            return explain::run(args, as_json, seed);
        }
        () => {}
    }
    if is_list {
        return planted::list();
    }
    let plant = args.plant.as_deref().map(names::plant).transpose()?;
    let name = args.workload.as_deref().ok_or("which WORKLOAD is to crash?")?;
    let schemes = args.schemes(plant)?;
    if plant.is_some() || schemes.iter().any(|scheme| !is_promised(*scheme)) {
        // Panics of code that is broken on purpose, or promises nothing, are results.
        std::panic::set_hook(Box::new(|_| ()));
    }
    if args.policy == [ANY] {
        return search(args, name, &schemes, plant, as_json, seed);
    }
    #[cfg(feature = "lab")]
    return campaigns::run(args, name, &schemes, plant, as_json, seed);
    #[cfg(not(feature = "lab"))]
    Err(format!("built without the feature `lab`, it takes --policy {ANY} alone").into())
}

impl CrashArgs {
    fn schemes(&self, plant: Option<Plant>) -> Result<Vec<Scheme>, String> {
        let are_named = !self.scheme.is_empty();
        let schemes = if are_named { &self.scheme } else { &SCHEMES[..] };
        match plant {
            Some(plant) => planted_in(plant, schemes, are_named),
            None => Ok(schemes.to_vec()),
        }
    }
}

fn is_promised(scheme: Scheme) -> bool {
    scheme.guarantee() == Guarantee::Durable
}

/// Why what a scheme loses is no failure.
fn no_promise(scheme: Scheme) -> Option<String> {
    if is_promised(scheme) {
        None
    } else if scheme.is_published() {
        Some(format!("{scheme}: losses as the paper's protocol has them, not a failure"))
    } else {
        Some(format!("{scheme} promises nothing: this is damage, not guilt"))
    }
}

/// The exhaustive search of small scopes.
#[cfg_attr(not(feature = "lab"), expect(unused_variables))]
fn search(
    args: &CrashArgs,
    name: &str,
    schemes: &[Scheme],
    plant: Option<Plant>,
    as_json: bool,
    seed: u64,
) -> CommandResult {
    #[cfg(feature = "lab")]
    if let Some(why) = args.campaign.refused_by_search() {
        return Err(why.into());
    }
    let chosen = scopes_of(args, name)?;
    #[cfg(feature = "lab")]
    let mut document = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    let (mut verdict, mut trials) = (Verdict::Good, Trials::default());
    for scheme in schemes {
        let config = ScopeConfig { ack: args.ack, ..config_of(*scheme, name, plant) };
        let is_tried = |scope: &&Option<Scope>| match scope {
            Some(scope) => scope.tries(*scheme),
            None => true,
        };
        if chosen.iter().filter(is_tried).count() == 0 {
            let schemes = Scheme::durable()
                .filter(|scheme| chosen.iter().flatten().all(|scope| scope.tries(*scheme)));
            let schemes: Vec<_> = schemes.map(|scheme| scheme.name()).collect();
            let schemes = schemes.join(" or ");
            return Err(
                format!("{scheme} cannot be tried in scope '{name}': take {schemes}").into()
            );
        }
        for scope in chosen.iter().filter(is_tried) {
            let before = Plant::times_met();
            let tally = match scope {
                Some(scope) => scope.run(&config, |_| ())?,
                None => lifecycle::run(&config)?,
            };
            trials.note(*scheme, before, tally.failure.is_some());
            let name = scope.as_ref().map_or("lifecycle", |scope| scope.name);
            #[cfg(feature = "lab")]
            document.records.extend(
                scope_records(*scheme, scope.as_ref(), tally.elapsed.as_secs_f64(), &tally)
                    .into_iter()
                    .map(|record| Record {
                        plant: plant.map(|plant| plant.to_string()),
                        ..record.ack(args.ack.name())
                    }),
            );
            if !as_json {
                print_tally(name, *scheme, &tally)?;
            }
            if let Some(guilt) = &tally.failure {
                noteln!("outlast: {name}, {scheme}: {guilt}");
                match no_promise(*scheme) {
                    None => verdict = Verdict::Bad,
                    Some(line) if !as_json => outln!("  {line}"),
                    Some(_) => {}
                }
            }
        }
    }
    #[cfg(feature = "lab")]
    if as_json {
        out!("{}", document.to_json());
    }
    Ok(verdict.and(plant.map(|plant| trials.verdict(plant))))
}

/// A point of the published protocol is shown under its own reading of the paper.
fn config_of(scheme: Scheme, name: &str, plant: Option<Plant>) -> ScopeConfig {
    let config = ScopeConfig { plant, images_max: IMAGES_MAX, ..ScopeConfig::of(scheme) };
    match points::named(name) {
        None => config,
        Some(Point { reading, ack, shows, .. }) => {
            ScopeConfig { reading, ack, wanted: scheme.is_published().then_some(shows), ..config }
        }
    }
}

/// The scopes of that name; `None` stands for a pool's creation and growth.
fn scopes_of(args: &CrashArgs, name: &str) -> Result<Vec<Option<Scope>>, Box<dyn Error>> {
    let lanes = usize::from(args.lanes.unwrap_or(LANES));
    let (transactions, words) = (args.transactions.unwrap_or(3), args.keys.unwrap_or(4));
    if !(1..=4).contains(&lanes) || !(1..=8).contains(&transactions) || !(1..=16).contains(&words) {
        return Err("--policy any takes 1 to 4 lanes, 1 to 8 transactions, 1 to 16 keys".into());
    }
    let words = || {
        let packed = [true, false].into_iter();
        packed.map(|packed| Some(table::words(transactions as usize, words, lanes, packed)))
    };
    Ok(match name {
        "words" => words().collect(),
        "lifecycle" => vec![None],
        "all" => {
            let fixed = table::all().into_iter().map(Some);
            words().chain(fixed).chain([None]).collect()
        }
        #[cfg(feature = "lab")]
        name if names::find_workload(name)?.is_some_and(|workload| workload.own().is_some()) => {
            let workload = names::workload(name, &[])?;
            names::check_of_file(
                workload,
                &[
                    ("--keys", args.keys.is_some()),
                    ("--transactions", args.transactions.is_some()),
                    ("--lanes", args.lanes.is_some()),
                ],
            )?;
            let work = workload.own().expect("it was asked for");
            vec![Some(scope_of(workload, work)?)]
        }
        name => match scope_named(name) {
            Some(scope) => vec![Some(scope)],
            None => {
                let (fixed, points) = (table::all(), points::names());
                let known = ["words"].into_iter().chain(fixed.iter().map(|scope| scope.name));
                let known = known.chain(["lifecycle", ALL]).chain(points.iter().copied());
                let instead = instead_of(name, known);
                return Err(format!("no scope is called '{name}'; {instead}").into());
            }
        },
    })
}

fn scope_named(name: &str) -> Option<Scope> {
    let fixed = table::all().into_iter().find(|scope| scope.name == name);
    fixed.or_else(|| points::named(name).map(|point| point.scope))
}

fn print_tally(name: &str, scheme: Scheme, tally: &Tally) -> Result<(), OutputFailed> {
    let share = if tally.allowed == tally.covered { "100 %" } else { "not all" };
    let end = if tally.complete { "" } else { "; cut short" };
    outln!(
        "{name}, {scheme}: {} schedules, {} crash points, {} images allowed, {} covered ({share}), \
         {} recovered and judged, {} known from equal crash points, {} distinct, {:.0} images/s{end}",
        tally.schedules,
        tally.crash_points,
        tally.allowed,
        tally.covered,
        tally.verified,
        tally.remembered,
        tally.distinct,
        tally.verify_rate(),
    );
    Ok(())
}
