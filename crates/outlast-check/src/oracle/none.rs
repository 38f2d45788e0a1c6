//! `none`: nothing is promised.

use super::Kept;

pub(super) fn check<K: Kept>(_: &K) -> Result<(), K::Fault> {
    Ok(())
}
