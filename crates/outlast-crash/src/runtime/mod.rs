//! Our own runtime under the checker.
//!
//! - [`scopes`]: small scripts, all their schedules, crash points and images.
//! - [`campaign`]: workloads on models of caches, crashed at random.
//! - [`plants`]: bugs that are planted in the runtime, each of which a scope has to notice.

pub mod campaign;
pub mod plants;
pub mod scopes;
