//! Our own runtime under the checker.
//!
//! - [`scopes`]: small scripts, all their schedules, crash points and images.
//! - [`campaign`]: workloads on models of caches, crashed at random.
//! - [`plants`]: bugs that are planted in the runtime, each of which a scope has to notice.

#[cfg(feature = "machine")]
pub mod campaign;
pub mod plants;
pub mod scopes;

/// Most lanes of a campaign: every subset of what is in flight is tried.
pub const LANES_MAX: u16 = 8;

/// Most keys of a campaign: every one is judged at every crash point.
pub const KEYS_MAX: u64 = 1 << 22;

/// Most transactions of a campaign: their operations are kept in memory.
pub const TRANSACTIONS_MAX: u64 = 1 << 20;
