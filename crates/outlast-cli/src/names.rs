//! Names on the command line: a wrong one is told the nearest, or all there are.

use outlast::Scheme;
use outlast::lab::Plant;
use outlast::scheme::SCHEMES;
use outlast_trace::{instead_of, nearest};
#[cfg(feature = "lab")]
use {
    outlast_schemes::MachineScheme,
    outlast_sim::Policy,
    outlast_workloads::{Workload, workloads},
};

/// A scheme of the runtime.
pub fn scheme(name: &str) -> Result<Scheme, String> {
    let known = SCHEMES.iter().map(|row| row.name);
    name.parse().map_err(|_| format!("no scheme is called '{name}'; {}", instead_of(name, known)))
}

/// A workload by its name or by the file that lists its transactions; `None` where it is neither.
#[cfg(feature = "lab")]
pub fn find_workload(name: &str) -> Result<Option<&'static Workload>, String> {
    match Workload::named(name) {
        None if Workload::is_file_name(name) => {
            Workload::open(name).map(Some).map_err(|error| error.to_string())
        }
        found => Ok(found),
    }
}

/// Refuses options, each with whether it was given, that a workload's file says itself.
#[cfg(feature = "lab")]
pub fn check_of_file(workload: &Workload, given: &[(&str, bool)]) -> Result<(), String> {
    match given.iter().find(|option| option.1 && workload.own().is_some()) {
        None => Ok(()),
        Some((option, _)) => Err(format!(
            "{}: {option} does not apply: the file says lanes, memory and order",
            workload.name
        )),
    }
}

/// A workload, where these words are possible as well.
#[cfg(feature = "lab")]
pub fn workload(name: &str, words: &[&'static str]) -> Result<&'static Workload, String> {
    find_workload(name)?.ok_or_else(|| {
        let known = workloads().iter().map(|row| row.name).chain(words.iter().copied());
        format!("no workload is called '{name}'; {}", instead_of(name, known))
    })
}

/// A workload that an oracle can judge, where these words are possible as well.
#[cfg(feature = "lab")]
pub fn judged_workload(name: &str, words: &[&'static str]) -> Result<&'static Workload, String> {
    let workload = workload(name, words)?;
    match workload.stands_alone() {
        None => Ok(workload),
        Some(why) => Err(format!(
            "{name}: no oracle can judge what it leaves, for {why}; `outlast workloads` lists \
             those that are judged"
        )),
    }
}

/// A replacement policy of a campaign.
#[cfg(feature = "lab")]
pub fn policy(name: &str) -> Result<Policy, String> {
    let known = Policy::ALL.iter().map(|row| row.1).chain(["any", "all"]);
    name.parse().map_err(|_| format!("no policy is called '{name}'; {}", instead_of(name, known)))
}

/// A planted bug or a control of the runtime.
pub fn plant(name: &str) -> Result<Plant, String> {
    name.parse().map_err(|_| {
        let known: Vec<String> = plants().map(|plant| plant.to_string()).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let instead = match nearest(name, &known).as_slice() {
            // Some hundred of them are no answer in one line.
            [] => "`outlast crash --plant list` lists them".to_owned(),
            near => instead_of(name, near.iter().copied()),
        };
        format!("no planted bug is called '{name}'; {instead}")
    })
}

/// Planted bugs, then the controls, which nothing should flag.
pub fn plants() -> impl Iterator<Item = Plant> {
    Plant::all().chain(Plant::controls())
}

/// Schemes by their names: those of the machine, and those of the runtime.
#[cfg(feature = "lab")]
pub fn schemes(names: &[String]) -> Result<(Vec<MachineScheme>, Vec<Scheme>), String> {
    let (mut hardware, mut software) = (Vec::new(), Vec::new());
    for scheme in names {
        match (scheme.parse::<MachineScheme>(), scheme.parse::<Scheme>()) {
            (Ok(scheme), _) => hardware.push(scheme),
            (_, Ok(scheme)) => software.push(scheme),
            (Err(unknown), Err(_)) => {
                let machine = MachineScheme::all().map(MachineScheme::name);
                let all: Vec<_> = machine.chain(SCHEMES.iter().map(|row| row.name)).collect();
                return Err(match nearest(scheme, &all).as_slice() {
                    [] => {
                        let own = instead_of(scheme, SCHEMES.iter().map(|row| row.name));
                        format!("{unknown}; of the runtime's {own}")
                    }
                    near => {
                        let instead = instead_of(scheme, near.iter().copied());
                        format!("no scheme is called '{scheme}'; {instead}")
                    }
                });
            }
        }
    }
    Ok((hardware, software))
}
