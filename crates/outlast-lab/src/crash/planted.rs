//! Where a bug can be planted.

use outlast::{Plant, Scheme};

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
