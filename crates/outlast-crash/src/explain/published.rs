//! Flaws of published schemes that can be shown: points of Archapt in the runtime's literal variants,
//! and plants of the timed machine that carry the number of such a point.

use outlast::Scheme;
use outlast_schemes::{Plant, plants};

use super::Explanation;
use crate::TooWide;
use crate::machine::Campaign;
use crate::runtime::plants::hunt;
use crate::runtime::scopes::points::{self, Point};
use crate::runtime::scopes::{Scope, ScopeConfig, table};
use crate::shell::word;

/// A flaw with the scheme in which it shows.
#[derive(Clone, Debug)]
pub enum Flaw {
    /// A point of the published protocol, in a literal variant of the runtime.
    Point(Box<Point>, Scheme),
    /// A plant of the timed machine, in the variant that shows it.
    Machine(&'static Plant),
}

impl Flaw {
    /// Its name, by which it is picked.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Point(point, _) => point.scope.name,
            Self::Machine(plant) => plant.name,
        }
    }

    /// The scheme in which it shows.
    pub fn scheme(&self) -> &'static str {
        match self {
            Self::Point(_, scheme) => scheme.name(),
            Self::Machine(plant) => plant.shown_by.variant,
        }
    }

    /// The command that shows it.
    pub fn command(&self, seed: u64) -> String {
        let name = word(self.name());
        match self {
            Self::Point(_, scheme) => {
                format!("outlast crash {name} --policy any --scheme {scheme} --explain")
            }
            Self::Machine(_) => format!("outlast crash {name} --explain --seed {seed}"),
        }
    }

    /// Runs it and tells the first failing crash; nothing where none fails.
    ///
    /// # Errors
    /// What cannot be run.
    pub fn explain(&self, seed: u64) -> Result<Option<Explanation>, Box<dyn std::error::Error>> {
        let replay = self.command(seed);
        let told = match self {
            Self::Point(point, scheme) => {
                let config = ScopeConfig {
                    reading: point.reading,
                    ack: point.ack,
                    wanted: Some(point.shows),
                    ..ScopeConfig::of(*scheme)
                };
                let told = point.scope.explain(&config, replay)?;
                let (flaw, about) = (point.scope.name.to_owned(), point.scope.about.to_owned());
                told.map(|told| Explanation { flaw, about, ..told })
            }
            Self::Machine(plant) => {
                let told = Campaign::showing(plant, seed).explain()?;
                told.map(|told| Explanation { replay, ..told })
            }
        };
        Ok(told)
    }
}

/// Whether a name is a number of a flaw, such as `EHOU-5-leak`.
fn is_numbered(name: &str) -> bool {
    let (paper, rest) = name.split_once('-').unwrap_or_default();
    paper.chars().all(|c| c.is_ascii_uppercase()) && rest.starts_with(|c: char| c.is_ascii_digit())
}

/// Every flaw, paper by paper.
pub fn all() -> Vec<Flaw> {
    let of_point = |point: Point| {
        let schemes = point.schemes.iter();
        schemes.map(move |scheme| Flaw::Point(Box::new(point.clone()), *scheme)).collect::<Vec<_>>()
    };
    let points = points::all().into_iter().flat_map(of_point);
    let machine = plants().filter(|plant| !plant.is_control() && is_numbered(plant.name));
    points.chain(machine.map(Flaw::Machine)).collect()
}

/// The flaws of that name, one a scheme; of plants of the timed machine also those without a number.
pub fn named(name: &str) -> Vec<Flaw> {
    let is = |other: &str| other.eq_ignore_ascii_case(name);
    let mut found: Vec<Flaw> = all().into_iter().filter(|flaw| is(flaw.name())).collect();
    if found.is_empty() {
        let machine = plants().filter(|plant| !plant.is_control() && is(plant.name));
        found.extend(machine.map(Flaw::Machine));
    }
    found
}

/// Recoveries after which a scope shows no planted bug.
const SCOPE_IMAGES_MAX: u64 = 1_000_000;

/// The same where all scopes are tried, one after the other.
const LOOK_IMAGES_MAX: u64 = 20_000;

/// A planted bug of the runtime, explained in that scope.
///
/// # Errors
/// What cannot be run.
pub fn planted(
    plant: outlast::lab::Plant,
    scheme: Scheme,
    scope: &str,
) -> Result<Option<Explanation>, TooWide> {
    let found = table::of(scheme).find(|candidate| candidate.name == scope);
    found.map_or(Ok(None), |scope| planted_in(plant, scheme, &scope, SCOPE_IMAGES_MAX))
}

/// A planted bug of the runtime, explained in the first scope that soon shows it.
///
/// # Errors
/// What cannot be run.
pub fn planted_anywhere(
    plant: outlast::lab::Plant,
    scheme: Scheme,
) -> Result<Option<Explanation>, TooWide> {
    for scope in table::of(scheme) {
        if let Some(told) = planted_in(plant, scheme, &scope, LOOK_IMAGES_MAX)? {
            return Ok(Some(told));
        }
    }
    let hunted = hunt(plant, scheme, SCOPE_IMAGES_MAX, |_, _| ())?;
    hunted.killed.map_or(Ok(None), |(scope, _)| planted(plant, scheme, scope))
}

fn planted_in(
    plant: outlast::lab::Plant,
    scheme: Scheme,
    scope: &Scope,
    images_max: u64,
) -> Result<Option<Explanation>, TooWide> {
    let config = ScopeConfig { plant: Some(plant), images_max, ..ScopeConfig::of(scheme) };
    let (name, plant) = (word(scope.name), plant.to_string());
    let plant = word(&plant);
    let command = format!("outlast crash {name} --policy any --scheme {scheme} --plant {plant}");
    scope.explain(&config, format!("{command} --explain"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flaws_of_every_paper_are_there_by_their_names() {
        for name in ["ARC-2", "HWL-1", "EHOU-5-leak", "PICL-1", "h2"] {
            assert!(!named(name).is_empty(), "{name}");
        }
        for name in ["HWL-99", "clean-line-flushed", ""] {
            assert!(named(name).is_empty(), "{name}");
        }
        assert!(
            all().iter().all(|flaw| is_numbered(flaw.name()) || flaw.name() == "ARC-1 physical")
        );
    }
}
