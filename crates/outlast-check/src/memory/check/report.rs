//! The findings of a check, as a whole.

use std::fmt;
use std::time::Duration;

use super::finding::Finding;
use crate::memory::exhaustive::Coverage;

/// The findings of a check.
#[derive(Clone, Debug)]
pub struct Report {
    /// The findings: at most one failure, from the first schedule that has any, and then what
    /// only costs time.
    pub findings: Vec<Finding>,
    /// How many schedules were run.
    pub schedules: u64,
    /// Executions of recovery, each judged, in the search for failures.
    pub images_verified: u64,
    /// How the crash points of all schedules were checked, those of the program itself.
    pub coverage: Coverage,
    /// Whether every schedule asked for was run and every allowed image of each was verified. Where
    /// none were asked for, those of [`Check::schedules`](crate::memory::Check::schedules)' default.
    pub complete: bool,
    /// How long it took.
    pub elapsed: Duration,
}

impl Default for Report {
    fn default() -> Self {
        Self {
            findings: Vec::new(),
            schedules: 0,
            images_verified: 0,
            coverage: Coverage::default(),
            complete: true,
            elapsed: Duration::ZERO,
        }
    }
}

impl Report {
    /// Whether anything was found that loses data, or that keeps the check from saying that
    /// nothing is lost. Flushes, fences and lines that no crash needs only cost time.
    pub fn has_failures(&self) -> bool {
        self.findings.iter().any(|finding| !finding.class.only_costs_time())
    }

    /// The findings that do not only cost time.
    pub fn failures(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| !finding.class.only_costs_time())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schedules, images_verified, coverage, .. } = self;
        let complete = if self.complete { "complete" } else { "not complete" };
        write!(f, "{complete}: {schedules} schedules, {images_verified} images; {coverage}")?;
        self.findings.iter().try_for_each(|finding| write!(f, "\n{finding}"))
    }
}
