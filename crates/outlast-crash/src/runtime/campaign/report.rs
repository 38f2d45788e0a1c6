//! What a campaign found.

use std::fmt;
use std::time::Duration;

use outlast::scheme::Guarantee;
use outlast_check::part::Part;
use outlast_sim::Policy;

use super::crash_points::Machine;
use super::{Caches, Campaign, CrashOp, ObjectCounts};
use crate::{Broken, Violation};

/// How often what happened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Images recovered and judged, second crashes included.
    pub crash_points: u64,
    /// Of these, crashes of a recovery.
    pub in_recovery: u64,
    /// Of these, crashes of a pool that went on after a recovery.
    pub later: u64,
    /// Acknowledged transactions missing.
    pub lost: u64,
    /// Transactions there in part.
    pub torn: u64,
    /// Transactions there without what they read.
    pub not_closed: u64,
    /// Structures or values that no transaction wrote.
    pub garbage: u64,
    /// Pools that recovery refused, or in which it panicked or did not end.
    pub refused: u64,
    /// Allocator or metadata that contradict what is reachable.
    pub unsound: u64,
    /// What became of stale objects, where they were counted.
    pub objects: ObjectCounts,
}

impl Counts {
    /// All that must not be.
    pub fn losses(&self) -> u64 {
        let Self { lost, torn, not_closed, garbage, refused, unsound, .. } = self;
        lost + torn + not_closed + garbage + refused + unsound
    }

    /// Adds another tally.
    pub fn add(&mut self, other: &Self) {
        let pairs = [
            (&mut self.crash_points, other.crash_points),
            (&mut self.in_recovery, other.in_recovery),
            (&mut self.later, other.later),
            (&mut self.lost, other.lost),
            (&mut self.torn, other.torn),
            (&mut self.not_closed, other.not_closed),
            (&mut self.garbage, other.garbage),
            (&mut self.refused, other.refused),
            (&mut self.unsound, other.unsound),
        ];
        pairs.into_iter().for_each(|(sum, part)| *sum += part);
        self.objects.add(&other.objects);
    }

    pub(super) fn count(&mut self, broken: Broken) {
        *match broken {
            Broken::Lost => &mut self.lost,
            Broken::Torn => &mut self.torn,
            Broken::NotClosed | Broken::Cycle => &mut self.not_closed,
            Broken::Garbage | Broken::Strayed => &mut self.garbage,
            Broken::Refused | Broken::Panicked | Broken::Stuck => &mut self.refused,
            Broken::Other | Broken::NoSuchImage | Broken::Unchecked => &mut self.unsound,
        } += 1;
    }
}

/// Which run it was that crashed last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Stage {
    /// The recorded one.
    Run,
    /// The recovery from its crash.
    Recovery,
    /// A run that went on after the recovery.
    Later,
}

/// A crash after which something was wrong.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was wrong.
    pub violation: Violation,
    /// Which run it was that crashed last.
    pub stage: Stage,
    /// The machine and the crash point; `None` when it went wrong with no crash at all.
    pub(super) machine: Option<(Machine, CrashOp)>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let how = match (self.machine, self.stage) {
            (None, _) => return write!(f, "{}, though nothing had crashed", self.violation),
            (_, Stage::Run) => "",
            (_, Stage::Recovery) => ", after a crash of the recovery from there",
            (_, Stage::Later) => ", after going on from there and another crash",
        };
        write!(f, "{}{how}", self.violation)
    }
}

impl Failure {
    /// The policy, the caches and the crash point; `None` when nothing had to crash.
    pub fn crash(&self) -> Option<(Policy, Caches, CrashOp)> {
        self.machine.map(|(machine, at)| (machine.policy, machine.caches, at))
    }
}

/// What a campaign found.
#[derive(Clone, Debug)]
pub struct CampaignReport {
    /// The campaign.
    pub campaign: Campaign,
    /// What each policy's crashes came to.
    pub policies: Vec<(Policy, Counts)>,
    /// Bytes of the blocks in use before the run.
    pub data_bytes: u64,
    /// Operations recorded.
    pub operations: usize,
    /// Transactions recorded.
    pub transactions: usize,
    /// What went wrong with no crash at all.
    pub uncrashed: Counts,
    /// The first failure.
    pub failure: Option<Failure>,
    /// The first failures of each policy in each kind of caches.
    pub failures: Vec<Failure>,
    /// Wall time, loading and recording included.
    pub elapsed: Duration,
}

impl CampaignReport {
    pub(super) fn new(campaign: &Campaign) -> Self {
        Self {
            policies: campaign.policies.iter().map(|&p| (p, Counts::default())).collect(),
            campaign: campaign.clone(),
            data_bytes: 0,
            operations: 0,
            transactions: 0,
            uncrashed: Counts::default(),
            failure: None,
            failures: Vec::new(),
            elapsed: Duration::ZERO,
        }
    }

    /// Everything together.
    pub fn total(&self) -> Counts {
        let mut total = self.uncrashed;
        self.policies.iter().for_each(|row| total.add(&row.1));
        total
    }

    /// Every part meets it, and the first counts it.
    pub(super) fn fail_uncrashed(&mut self, violation: Violation) {
        if self.campaign.part.is_none_or(Part::is_first) {
            self.uncrashed.count(violation.broken);
        }
        self.fail([Failure { violation, machine: None, stage: Stage::Run }]);
    }

    pub(super) fn fail(&mut self, failures: impl IntoIterator<Item = Failure>) {
        self.failures.extend(failures);
        self.failure = self.failures.first().cloned();
    }

    /// Whether the scheme broke a promise: only those that are durable make one.
    pub fn is_guilty(&self) -> bool {
        self.failure.is_some() && self.campaign.scheme.guarantee() == Guarantee::Durable
    }

    /// The campaign that shows the first failure and nothing else.
    pub fn replay(&self) -> Option<Campaign> {
        self.failure.as_ref().map(|failure| self.replay_of(failure))
    }

    /// The campaign that shows one failure and nothing else.
    pub fn replay_of(&self, failure: &Failure) -> Campaign {
        let whole = Campaign { part: None, ..self.campaign.clone() };
        match failure.machine {
            Some((machine, at)) => Campaign {
                policies: vec![machine.policy],
                caches: vec![machine.caches],
                crash_at: Some(at),
                until_failure: true,
                ..whole
            },
            None => whole,
        }
    }
}
