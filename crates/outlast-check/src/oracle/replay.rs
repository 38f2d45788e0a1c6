//! `replay`: the state is that after the first commands of the log, executed again, all
//! that were answered among them.

use super::{Kept, demand};

pub(super) fn check<K: Kept>(kept: &K) -> Result<(), K::Fault> {
    demand(kept.recovered_missing())?;
    demand(kept.acknowledged_missing())?;
    demand(kept.behind_gap())
}
