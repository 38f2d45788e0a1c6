//! `durable`: every acknowledged transaction is there, whole; of the others some are, each with all that
//! it saw, and all of them in some serial order.

use super::{Kept, demand};

pub(super) fn check<K: Kept>(kept: &K) -> Result<(), K::Fault> {
    demand(kept.recovered_missing())?;
    demand(kept.acknowledged_missing())?;
    demand(kept.not_closed())?;
    demand(kept.without_order())
}
