//! The roots that the command line can follow.

use outlast::PoolOffset;
use outlast::inspect::walk::{OFFSETS, Walker};
use outlast::inspect::{CheckReport, Finding};
use serde_json::json;

/// The front ends' walkers, beside those of the runtime; any other root by offsets.
pub(super) fn walkers() -> [&'static dyn Walker; 3] {
    [outlast_redis::WALKER, outlast_sqlite::WALKER, OFFSETS]
}

/// A root's kind and its words.
pub(super) fn json(root: Option<&(&'static str, String)>) -> serde_json::Value {
    match root {
        Some((kind, about)) => json!({"kind": kind, "about": about}),
        None => serde_json::Value::Null,
    }
}

/// The place that a finding of a walk is about.
fn place_of(finding: &Finding) -> Option<PoolOffset> {
    match finding {
        Finding::Damaged { at, .. }
        | Finding::NotAllocated { at, .. }
        | Finding::ReachedTwice { at } => Some(*at),
        _ => None,
    }
}

/// A finding, and the way from the root to what it is about.
pub(super) fn with_path(finding: &Finding, report: &CheckReport) -> String {
    match place_of(finding).and_then(|at| report.paths.get(&at)) {
        Some(path) => format!("{finding} (by {path})"),
        None => finding.to_string(),
    }
}
