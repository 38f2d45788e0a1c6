//! Planted bugs on the command line: where they can be planted, and what is said of those that no
//! run noticed. Such a run looks like that of a sound program, and is none.

use outlast::Scheme;
use outlast::lab::Plant;
use outlast::scheme::Guarantee;
use outlast_crash::runtime::plants::{able_schemes, hunt};
use outlast_crash::shell::word;

use crate::say::{noteln, outln};
use crate::{CommandResult, Verdict, names};

/// Recoveries in each scope, when one is looked for that notices a bug.
const IMAGES_MAX: u64 = 1_000;

/// What became of a planted bug under one scheme.
struct Trial {
    scheme: Scheme,
    is_met: bool,
    is_noticed: bool,
}

/// What became of a planted bug, scheme by scheme.
#[derive(Default)]
pub struct Trials(Vec<Trial>);

impl Trials {
    /// Notes a run: `met_before` is what [`Plant::times_met`] said before it.
    pub fn note(&mut self, scheme: Scheme, met_before: u64, is_noticed: bool) {
        let is_met = Plant::times_met() > met_before;
        match self.0.iter_mut().find(|trial| trial.scheme == scheme) {
            Some(trial) => {
                trial.is_met |= is_met;
                trial.is_noticed |= is_noticed;
            }
            None => self.0.push(Trial { scheme, is_met, is_noticed }),
        }
    }

    /// Says under which schemes nothing was noticed, and where it would be. Controls are to go
    /// unnoticed, but not unmet; schemes that promise nothing are not judged.
    pub fn verdict(&self, plant: Plant) -> Verdict {
        let mut verdict = Verdict::Good;
        let judged = |trial: &&Trial| trial.scheme.guarantee() == Guarantee::Durable;
        for Trial { scheme, is_met, .. } in
            self.0.iter().filter(judged).filter(|trial| !trial.is_noticed)
        {
            let what = match (is_met, plant.is_control()) {
                (true, true) => continue,
                (true, false) => "reached, and nothing was noticed here",
                (false, _) => "not reached here",
            };
            let name = plant.to_string();
            let command = |scope: &str| {
                let (scope, plant) = (word(scope), word(&name));
                format!("outlast crash {scope} --policy any --scheme {scheme} --plant {plant}")
            };
            match scope_that_notices(plant, *scheme) {
                Some(scope) => noteln!(
                    "outlast: {plant} is planted in {scheme}, {what}; see scope '{scope}': {}",
                    command(scope)
                ),
                None => noteln!(
                    "outlast: {plant} is planted in {scheme}, {what}, nor in the first {IMAGES_MAX} \
                     images of any scope; this searches all of them: {}",
                    command("all")
                ),
            }
            verdict = Verdict::Bad;
        }
        verdict
    }
}

/// The first scope that soon notices a bug, if one does.
fn scope_that_notices(plant: Plant, scheme: Scheme) -> Option<&'static str> {
    let found = hunt(plant, scheme, IMAGES_MAX, |_, _| ());
    found.ok().and_then(|hunted| hunted.killed).map(|(scope, _)| scope)
}

/// Lists what can be planted, with the schemes that execute it and what it breaks.
pub fn list() -> CommandResult {
    for plant in names::plants() {
        outln!("{:<28} {}", plant.to_string(), plant.describe());
        outln!("{:<28} in {}", "", able_schemes(plant).join(", "));
    }
    Ok(Verdict::Good)
}

/// As [`list`], as a document.
#[cfg(feature = "lab")]
pub fn list_as_json(seed: u64) -> CommandResult {
    let record = |plant: Plant| {
        serde_json::json!({
            "plant": plant.to_string(),
            "kind": if plant.is_control() { "control" } else { "plant" },
            "number": plant.number(),
            "schemes": able_schemes(plant).join(","),
            "description": plant.describe(),
        })
    };
    let records = names::plants().map(record).collect();
    outln!("{}", crate::document("crash --plant list", seed, records));
    Ok(Verdict::Good)
}
