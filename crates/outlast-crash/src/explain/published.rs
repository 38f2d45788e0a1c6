//! Flaws of published schemes that can be shown: points of Archapt in the runtime's literal variants,
//! and plants of the timed machine that carry the number of such a point.

use outlast::Scheme;
use outlast_schemes::{Plant, plants};

use super::Explanation;
use crate::machine::Campaign;
use crate::runtime::scopes::points::{self, Point};
use crate::runtime::scopes::{ScopeConfig, table};

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
        let name = match self.name().contains(' ') {
            true => format!("'{}'", self.name()),
            false => self.name().to_owned(),
        };
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

/// A planted bug of the runtime, explained in that scope.
///
/// # Errors
/// What cannot be run.
pub fn planted(
    plant: outlast::Plant,
    scheme: Scheme,
    scope: &str,
) -> Result<Option<Explanation>, Box<dyn std::error::Error>> {
    let Some(found) = table::of(scheme).find(|candidate| candidate.name == scope) else {
        return Ok(None);
    };
    let config = ScopeConfig { plant: Some(plant), ..ScopeConfig::of(scheme) };
    let name = if scope.contains(' ') { format!("'{scope}'") } else { scope.to_owned() };
    let replay =
        format!("outlast crash {name} --policy any --scheme {scheme} --plant {plant} --explain");
    Ok(found.explain(&config, replay)?)
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
