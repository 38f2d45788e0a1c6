//! Planted bugs of the runtime: each must be noticed by some scope.

use outlast::Scheme;
use outlast::lab::Plant;
use outlast::scheme::Site;

use super::scopes::{Scope, ScopeConfig, ScopeFailure, Tally, lifecycle, table};
use crate::TooWide;

/// The schemes of these that a planted bug can be tried in: all of them where they were asked for
/// by name.
///
/// # Errors
/// Names a scheme in which it changes nothing, and those in which it does.
pub fn planted_in(
    plant: Plant,
    schemes: &[Scheme],
    are_named: bool,
) -> Result<Vec<Scheme>, String> {
    let applies = |scheme: &&Scheme| plant.applies_to(**scheme);
    let able: Vec<Scheme> = schemes.iter().filter(applies).copied().collect();
    match schemes.iter().find(|scheme| !applies(scheme)) {
        Some(scheme) if are_named || able.is_empty() => Err(format!(
            "{plant} changes nothing in {scheme}: it can be planted in {}",
            able_schemes(plant).join(", ")
        )),
        _ => Ok(able),
    }
}

/// The schemes that execute what a planted bug breaks.
pub fn able_schemes(plant: Plant) -> Vec<&'static str> {
    Scheme::durable().filter(|s| plant.applies_to(*s)).map(|scheme| scheme.name()).collect()
}

/// The scope that noticed a bug, and what it saw.
pub type Noticed = (&'static str, ScopeFailure);

/// What became of one planted bug under one scheme.
#[derive(Clone, Debug)]
pub struct Hunted {
    /// The bug.
    pub plant: Plant,
    /// The scheme that it was planted in.
    pub scheme: Scheme,
    /// Where it was noticed, and how; `None` when every scope stayed silent.
    pub killed: Option<Noticed>,
    /// Recoveries executed until then.
    pub images: u64,
}

/// Which scopes a pass tries.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Among {
    /// Those of [`SHOWN_IN`].
    MadeForIt,
    All,
}

/// The passes of a hunt with the recoveries in each scope. A scope that shows a bug under one scheme may
/// hide it under another.
const PASSES: [(Among, u64); 5] = [
    (Among::MadeForIt, 20_000),
    (Among::All, 1_000),
    (Among::MadeForIt, u64::MAX),
    (Among::All, 20_000),
    (Among::All, u64::MAX),
];

/// Scopes with checksums get one recovery where others get this number.
const SUMS_SHARE: u64 = 4;

/// Scopes that show bugs late, or alone. They are tried first: what stands before them in the list
/// would take millions of images.
const SHOWN_IN: &[(Plant, &str)] = &[
    (Plant::SweepTrustsOtherFence, "stepped wide"),
    (Plant::CoveredUnfenced, "stepped wide"),
    (Plant::SweepIgnoresInFlight, "stepped"),
    (Plant::FlushedOnceIsEnough, "ring uneven"),
    (Plant::RegionNotScrubbed, "forged undo"),
    (Plant::SkipFlush(Site::Region), "forged undo"),
    (Plant::SkipFence(Site::Region), "forged undo"),
    (Plant::NoQuarantine, "blocks unlogged"),
    (Plant::FreshUnflushed, "blocks linked first"),
    (Plant::FreedAtOnce, "forged undo"),
    (Plant::AsyncUnlocked, "later two"),
    (Plant::AsyncBelieved, "later"),
    (Plant::DurableTooEarly, "later group"),
    (Plant::SoloStaysPending, "later own"),
    (Plant::BiasStaysPending, "later own"),
    (Plant::GroupFencedEarly, "later ring"),
    (Plant::RecycleByOwnLane, "chunks"),
    (Plant::SkipFence(Site::Ring), "other form"),
    (Plant::SkipFence(Site::FirstLap), "other form"),
    (Plant::SkipFlush(Site::FirstLap), "other form"),
    (Plant::SkipFence(Site::ChunkWord), "chunks logged"),
    (Plant::SkipFence(Site::ChunkWord), "blocks together"),
    (Plant::SkipFence(Site::AgedOut), "stepped"),
    (Plant::SkipFence(Site::UndoFresh), "blocks linked first"),
    (Plant::SkipFlush(Site::RunSums), "sums large"),
    (Plant::AbortedRegionsFreed, "abort beyond"),
    (Plant::PendingLostWithFree, "blocks small ring"),
    (Plant::PendingLostWithFree, "blocks small wide"),
    (Plant::FreedAtOnce, "chunks"),
    (Plant::ChunksReused, "chunks"),
    (Plant::FormatUnsettled, "chunks"),
    (Plant::AgedOutUnflushed, "rings crossed wide"),
    (Plant::WitnessInFreedBlock, "blocks changed"),
    (Plant::SkipFlush(Site::UndoData), "abort rings"),
    (Plant::SkipFence(Site::UndoData), "abort rings"),
    (Plant::AnnouncedRoundedIn, "rewrite"),
    (Plant::LoggedTwice, "rewrite"),
    (Plant::EarlyRelease, "pair once"),
    (Plant::PrunedTooEarly, "pair once"),
    (Plant::SectionsLaneByLane, "pair once"),
    (Plant::PendingSinceLast, "sums left"),
    (Plant::SkipFlush(Site::FreshAborted), "sums left"),
    (Plant::SkipFence(Site::FreshAborted), "sums left"),
    (Plant::SumsKeepOld, "sums two"),
    (Plant::SumsKeepOld, "sums settled"),
    (Plant::SumsMissUpdates, "sums two"),
    (Plant::SumsMissUpdates, "sums settled"),
    (Plant::SumsNotRebuilt, "sums"),
    (Plant::ColumnSumsMissing, "sums settled"),
    (Plant::SkipFlush(Site::Sums), "sums settled"),
    (Plant::SkipFence(Site::RedoFresh), "blocks linked first"),
    (Plant::SkipFlush(Site::RedoFresh), "blocks linked first"),
    (Plant::SkipFlush(Site::Ring), "other form"),
    (Plant::AgedOutUnflushed, "sums settled"),
];

/// Plants a bug and runs the scopes until one notices.
///
/// # Errors
/// When a unit of memory has too many contents to enumerate.
pub fn hunt(
    plant: Plant,
    scheme: Scheme,
    images_max: u64,
    mut progress: impl FnMut(&'static str, &Tally),
) -> Result<Hunted, TooWide> {
    let mut hunt = Hunt { plant, scheme, images: 0 };
    // Most bugs show early in some scope; few need all that a scope has. What is sound shows nowhere.
    let passes = match plant.is_control() {
        true => &[(Among::All, u64::MAX)][..],
        false => &PASSES,
    };
    let is_made_for_it =
        |scope: &Scope| SHOWN_IN.iter().any(|(shown, name)| *shown == plant && *name == scope.name);
    for (nth, (among, look)) in passes.iter().enumerate() {
        // The last pass is the one with all images.
        if *look >= images_max && nth + 1 < passes.len() && *among == Among::All {
            continue;
        }
        let look = images_max.min(*look);
        if *among == Among::All
            && let Some(killed) = hunt.live(look)?
        {
            return Ok(hunt.over(Some(killed)));
        }
        let is_tried = |scope: &Scope| *among == Among::All || is_made_for_it(scope);
        for scope in table::of(scheme).filter(is_tried) {
            if let Some(killed) = hunt.look_into(&scope, look, &mut progress)? {
                return Ok(hunt.over(Some(killed)));
            }
        }
    }
    Ok(hunt.over(None))
}

/// Looks for a bug in one scope, or in a pool's lifecycle where none is named. For a sound control that
/// no scope is to notice, all of them once are what [`hunt`] does.
///
/// # Errors
/// When a unit of memory has too many contents to enumerate.
pub fn look(
    plant: Plant,
    scheme: Scheme,
    scope: Option<&Scope>,
    images_max: u64,
) -> Result<Hunted, TooWide> {
    let mut hunt = Hunt { plant, scheme, images: 0 };
    let killed = match scope {
        None => hunt.live(images_max)?,
        Some(scope) => hunt.look_into(scope, images_max, &mut |_, _| ())?,
    };
    Ok(hunt.over(killed))
}

/// A hunt under way.
struct Hunt {
    plant: Plant,
    scheme: Scheme,
    images: u64,
}

impl Hunt {
    fn config(&self, images_max: u64) -> ScopeConfig {
        ScopeConfig { plant: Some(self.plant), images_max, ..ScopeConfig::of(self.scheme) }
    }

    /// Creates a pool and lets it grow, and says so if the bug is noticed there.
    fn live(&mut self, images_max: u64) -> Result<Option<Noticed>, TooWide> {
        let lived = lifecycle::run(&self.config(images_max))?;
        self.images += lived.counted();
        Ok(lived.failure.map(|failure| ("lifecycle", failure)))
    }

    /// Runs one scope, and names it if the bug is noticed there.
    fn look_into(
        &mut self,
        scope: &Scope,
        images_max: u64,
        progress: &mut impl FnMut(&'static str, &Tally),
    ) -> Result<Option<Noticed>, TooWide> {
        // Comparing every page with its checksums takes longer than all the rest.
        let images_max = if scope.checksums { images_max / SUMS_SHARE } else { images_max };
        let tally = scope.run(&self.config(images_max), |tally| progress(scope.name, tally))?;
        self.images += tally.counted();
        Ok(tally.failure.map(|failure| (scope.name, failure)))
    }

    fn over(self, killed: Option<Noticed>) -> Hunted {
        Hunted { plant: self.plant, scheme: self.scheme, killed, images: self.images }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scope_that_a_bug_is_looked_for_in_exists() {
        for (plant, name) in SHOWN_IN {
            assert!(table::all().iter().any(|scope| scope.name == *name), "{plant}: {name}");
        }
    }
}
