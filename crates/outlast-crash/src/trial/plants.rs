//! Planted bugs of the runtime: each must be noticed by some scope.

use outlast::{Plant, Scheme};

use super::scopes;
use super::{Charge, Guilt, Tally};
use crate::TooWide;

/// What became of one planted bug under one scheme.
#[derive(Clone, Debug)]
pub struct Sentence {
    /// The bug.
    pub plant: Plant,
    /// The scheme that it was planted in.
    pub scheme: Scheme,
    /// Where it was noticed, and how; `None` when every scope stayed silent.
    pub killed: Option<(&'static str, Guilt)>,
    /// Recoveries executed until then.
    pub images: u64,
}

/// Recoveries in each scope before the next is tried, at first and then again.
const LOOKS_MAX: [u64; 2] = [1_000, 20_000];

/// Scopes with checksums get one recovery where others get so many.
const SUMS_SHARE: u64 = 4;

/// Plants a bug and runs the scopes until one notices.
///
/// # Errors
/// When a unit of memory has too many contents to enumerate.
pub fn hunt(
    plant: Plant,
    scheme: Scheme,
    images_max: u64,
    mut progress: impl FnMut(&'static str, &Tally),
) -> Result<Sentence, TooWide> {
    let mut images = 0;
    // Most bugs show early in some scope; few need all that a scope has, and what is sound shows nowhere.
    let first_looks = if plant.is_control() { &[][..] } else { &LOOKS_MAX };
    let looks = first_looks.iter().copied().filter(|look| *look < images_max).chain([images_max]);
    for images_max in looks {
        let charge = Charge { plant: Some(plant), images_max, ..Charge::of(scheme) };
        let lifecycle = super::lifecycle::run(&charge)?;
        images += lifecycle.counted();
        if let Some(guilt) = lifecycle.failure {
            return Ok(Sentence { plant, scheme, killed: Some(("lifecycle", guilt)), images });
        }
        for scope in scopes::of(scheme) {
            // Comparing every page with its checksums takes longer than all the rest.
            let images_max = if scope.checksums { images_max / SUMS_SHARE } else { images_max };
            let charge = Charge { plant: Some(plant), images_max, ..Charge::of(scheme) };
            let tally = scope.run(&charge, |tally| progress(scope.name, tally))?;
            images += tally.counted();
            if let Some(guilt) = tally.failure {
                let killed = Some((scope.name, guilt));
                return Ok(Sentence { plant, scheme, killed, images });
            }
        }
    }
    Ok(Sentence { plant, scheme, killed: None, images })
}
