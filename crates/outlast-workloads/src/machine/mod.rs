//! Workloads as the timed machine runs them: as bare transactions, once for all schemes.
//!
//! Every [`Workload`](crate::Workload) is one of them, the same program under the same name.

mod plan;

pub use plan::{Plan, PlanError, Recorded};
