//! `buffered`: transactions are there whole, each with all that it saw, in some serial order. The latest
//! may be missing, acknowledged or not, but none that a recovery has kept before.

use super::{Kept, demand};

pub(super) fn check<K: Kept>(kept: &K) -> Result<(), K::Fault> {
    demand(kept.recovered_missing())?;
    demand(kept.not_closed())?;
    demand(kept.without_order())
}
