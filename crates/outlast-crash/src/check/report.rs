//! What a check found, as a whole.

use std::time::Duration;

use super::finding::{Class, Finding};

/// What a check found.
#[derive(Clone, Debug)]
pub struct Report {
    /// The findings: at most one failure, from the first schedule that has any, and then what
    /// only costs time.
    pub findings: Vec<Finding>,
    /// How many schedules were run.
    pub schedules: u64,
    /// Executions of recovery, each judged, in the search for failures.
    pub images_verified: u64,
    /// Whether every schedule asked for was run and every allowed image of each was verified.
    pub complete: bool,
    /// How long it took.
    pub elapsed: Duration,
}

impl Report {
    /// Whether anything was found that loses data. Redundant flushes only cost time.
    pub fn has_failures(&self) -> bool {
        self.findings.iter().any(|finding| finding.class != Class::RedundantFlush)
    }

    /// The findings that lose data.
    pub fn failures(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.class != Class::RedundantFlush)
    }
}
