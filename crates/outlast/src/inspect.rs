//! A pool looked at from outside: its facts, its room, and the findings of a check.
//!
//! - [`PoolInfo`] has the facts of a pool's file, also of one that is in use. [`Header`] and [`Geometry`] are
//!   those that its creation has fixed.
//! - [`CheckReport`] has the findings of [`RecoveredPool::check`](crate::recover::RecoveredPool::check): damage, and
//!   blocks that nothing leads to.
//! - [`RepairReport`] has those of a pool with checksums, and the repairs.
//! - [`walk`] follows the roots of pools, of any program, to all that they lead to.
//! - [`Space`] tells how much of a pool is used.

pub mod walk;

pub use crate::checksums::{Fault, RepairReport};
pub use crate::layout::{FORMAT_VERSION, Geometry, POOL_BYTES_MAX};
#[doc(hidden)]
pub use crate::log::record::forged_line;
pub use crate::pool::{
    CheckReport, CheckStage, CheckStep, FINDINGS_MAX, Finding, Findings, Header, PoolInfo, Space,
};
#[doc(hidden)]
pub use crate::sealed::seal_at as sealed_word;
