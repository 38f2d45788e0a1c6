//! How much of a run was checked.

use std::collections::BTreeMap;
use std::fmt;

use crate::memory::count::Count;

/// How the program's crash points were checked: those before the one that ended the check.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Coverage {
    /// Crash points at which every allowed image was verified.
    pub exhaustive: u64,
    /// Crash points at which some images were.
    pub sampled: u64,
    /// Crash points at which none was: the images ran out before, or there are too many contents
    /// to list.
    pub unvisited: u64,
    /// The crash point with most images among those that were not checked exhaustively.
    pub widest: Option<Widest>,
    /// The first of them, as the operation before which the crash comes.
    pub first_unfinished: Option<usize>,
}

/// A crash point with more images than could be verified.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Widest {
    /// The operation before which the crash comes.
    pub op: usize,
    /// How many images it may leave.
    pub allowed: Count,
    /// How many executions of recovery were spent on it, second crashes included.
    pub verified: u64,
}

impl Coverage {
    /// Adds the coverage of another run.
    pub(crate) fn add(&mut self, other: &Self) {
        self.exhaustive += other.exhaustive;
        self.sampled += other.sampled;
        self.unvisited += other.unvisited;
        other.widest.into_iter().for_each(|widest| self.add_widest(widest));
        self.add_first(other.first_unfinished);
    }

    fn add_first(&mut self, op: Option<usize>) {
        self.first_unfinished = self.first_unfinished.into_iter().chain(op).min();
    }

    fn add_widest(&mut self, widest: Widest) {
        let is_wider = |old: &Widest| widest.allowed.exceeds(old.allowed);
        if self.widest.as_ref().is_none_or(is_wider) {
            self.widest = Some(widest);
        }
    }

    /// Whether every image of each crash point was verified.
    pub fn is_exhaustive(&self) -> bool {
        self.sampled == 0 && self.unvisited == 0
    }
}

impl fmt::Display for Coverage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { exhaustive, sampled, unvisited, widest, .. } = self;
        let points = exhaustive + sampled + unvisited;
        write!(
            f,
            "{points} crash points: {exhaustive} exhaustively, {sampled} sampled, {unvisited} not \
             visited"
        )?;
        if let Some(Widest { op, allowed, verified }) = widest {
            write!(f, "; the widest before operation {op}: {allowed} images, {verified} verified")?;
        }
        Ok(())
    }
}

/// A crash point of the program that was not checked exhaustively, so far.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unfinished {
    pub allowed: Count,
    pub covered: Count,
    /// The images that it could have used, and those that it did.
    pub share: u64,
    pub verified: u64,
}

/// By operation and part.
pub(super) type UnfinishedPoints = BTreeMap<(usize, usize), Unfinished>;

impl Coverage {
    /// Counts what stayed unfinished.
    pub(super) fn add_unfinished(&mut self, points: &UnfinishedPoints) {
        self.add_first(points.keys().next().map(|point| point.0));
        for (&(op, _), point) in points {
            let Unfinished { allowed, verified, .. } = *point;
            *(if verified > 0 { &mut self.sampled } else { &mut self.unvisited }) += 1;
            self.add_widest(Widest { op, allowed, verified });
        }
    }
}
