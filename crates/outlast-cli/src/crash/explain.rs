//! `outlast crash --explain`: one failing crash, told.

use std::error::Error;

use outlast::Scheme;
use outlast_crash::explain::{Explanation, published};
use outlast_crash::machine::Campaign;
use outlast_crash::runtime::plants::planted_in;
use outlast_crash::runtime::scopes::ScopeConfig;
use outlast_crash::shell::word;
use outlast_lab::explain;
use outlast_lab::record::Document;
use outlast_sim::{instead_of, nearest};

use super::{ALL, ANY, CrashArgs, IMAGES_MAX, SCHEMES, scopes_of};
use crate::say::{noteln, out, outln};
use crate::{CommandResult, Verdict, names};

/// What is to be told.
struct Told {
    found: Vec<Explanation>,
    /// What shows nothing.
    silent: Vec<String>,
}

/// Tells the first failing crash of each scheme.
pub(super) fn run(args: &CrashArgs, as_json: bool, seed: u64) -> CommandResult {
    if args.policy != [ANY] && args.policy != [ALL] {
        return Err(format!("--explain goes with --policy {ANY}: it tells one image").into());
    }
    // Panics of code that is broken on purpose are results.
    std::panic::set_hook(Box::new(|_| ()));
    let flaw = args.plant.as_deref().or(args.workload.as_deref()).unwrap_or_default();
    let flaws = published::named(flaw);
    let told = match args.plant.as_deref() {
        _ if !flaws.is_empty() => of_flaws(args, flaws, seed)?,
        Some(plant) => of_plant(args, plant)?,
        None => of_scope(args)?,
    };
    let mut document = Document::new(env!("CARGO_PKG_VERSION"), &crate::command_line(), seed, None);
    document.explained = told.found;
    args.campaign.write_page(&document)?;
    if as_json {
        out!("{}", document.to_json());
    } else {
        for (number, told) in document.explained.iter().enumerate() {
            if number > 0 {
                outln!("");
            }
            out!("{}", explain::text(told));
        }
    }
    for what in &told.silent {
        noteln!("outlast: {what}: no crash shows anything wrong");
    }
    Ok(if told.silent.is_empty() { Verdict::Good } else { Verdict::Bad })
}

/// A flaw of a paper.
fn of_flaws(
    args: &CrashArgs,
    flaws: Vec<published::Flaw>,
    seed: u64,
) -> Result<Told, Box<dyn Error>> {
    let mut told = Told { found: Vec::new(), silent: Vec::new() };
    let asked: Vec<&str> = args.scheme.iter().map(|scheme| scheme.name()).collect();
    let shown: Vec<&str> = flaws.iter().map(published::Flaw::scheme).collect();
    if let Some(other) = asked.iter().find(|scheme| !shown.contains(scheme)) {
        let name = flaws[0].name();
        return Err(format!("{name} is not shown in {other}; take {}", shown.join(" or ")).into());
    }
    for flaw in flaws {
        if asked.is_empty() || asked.contains(&flaw.scheme()) {
            match flaw.explain(seed)? {
                Some(found) => told.found.push(found),
                None => told.silent.push(what_shows(&flaw, seed)),
            }
        }
    }
    Ok(told)
}

/// A flaw that no single crash shows, with the campaign that does: work goes on from what a recovery
/// has left, and crashes again.
fn what_shows(flaw: &published::Flaw, seed: u64) -> String {
    let name = format!("{} in {}", flaw.name(), flaw.scheme());
    match flaw {
        published::Flaw::Point(..) => name,
        published::Flaw::Machine(plant) => {
            let campaign = Campaign::showing(plant, seed).command(None);
            format!("{name} (`{campaign}` goes on after recoveries)")
        }
    }
}

/// A planted bug of the runtime, in the scope that is named or in the first that notices it.
fn of_plant(args: &CrashArgs, plant: &str) -> Result<Told, Box<dyn Error>> {
    let plant = names::plant(plant)?;
    let are_named = !args.scheme.is_empty();
    let all: Vec<Scheme> = Scheme::durable().collect();
    let schemes = if are_named { args.scheme.clone() } else { SCHEMES.to_vec() };
    // Where the usual schemes lack what it breaks, the first that has it stands for all.
    let able = planted_in(plant, &schemes, are_named).or_else(|why| match are_named {
        true => Err(why),
        false => planted_in(plant, &all, false).map(|able| able[..1].to_vec()),
    })?;
    let mut told = Told { found: Vec::new(), silent: Vec::new() };
    for scheme in able {
        let scope = match args.workload.as_deref() {
            Some(scope) => {
                scopes_of(args, scope)?;
                Some(scope)
            }
            None => None,
        };
        let found = match scope {
            Some(scope) => published::planted(plant, scheme, scope)?,
            None => published::planted_anywhere(plant, scheme)?,
        };
        match found {
            Some(found) => told.found.push(found),
            None => told.silent.push(format!("{plant} in {scheme}")),
        }
    }
    Ok(told)
}

/// A scope of code as it is, which has something to tell where a scheme promises less.
fn of_scope(args: &CrashArgs) -> Result<Told, Box<dyn Error>> {
    let name = args.workload.as_deref().unwrap_or_default();
    let mut known: Vec<&str> = published::all().iter().map(published::Flaw::name).collect();
    known.dedup();
    let scopes = scopes_of(args, name).map_err(|why| match nearest(name, &known).as_slice() {
        [] => why,
        near => {
            let instead = instead_of(name, near.iter().copied());
            format!("no scope and no flaw of a paper is called '{name}'; {instead}").into()
        }
    })?;
    let schemes = if args.scheme.is_empty() { SCHEMES.to_vec() } else { args.scheme.clone() };
    let mut told = Told { found: Vec::new(), silent: Vec::new() };
    for scheme in schemes {
        let config = ScopeConfig { images_max: IMAGES_MAX, ..ScopeConfig::of(scheme) };
        let name = word(name);
        let replay = format!("outlast crash {name} --policy any --scheme {scheme} --explain");
        let mut found = None;
        for scope in scopes.iter().flatten().filter(|scope| scope.tries(scheme)) {
            found = scope.explain(&config, replay.clone())?;
            if found.is_some() {
                break;
            }
        }
        match found {
            Some(found) => told.found.push(found),
            None => told.silent.push(format!("{name} in {scheme}")),
        }
    }
    Ok(told)
}
