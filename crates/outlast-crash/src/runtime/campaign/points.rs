//! Where to crash.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use outlast_sim::Journal;
use outlast_trace::{Op, OpLog};
use outlast_workloads::Random;

/// Which entries of a timed machine's journal are crash points: each is the number of entries before the crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Points {
    /// All of them.
    All,
    /// This number of them, drawn; the end is among them.
    Some(usize),
    /// This one: a replay.
    One(usize),
}

impl Points {
    /// Whether a journal of this length has them.
    ///
    /// # Errors
    /// When one is asked for that lies behind its end.
    pub fn check(self, entries: usize) -> Result<(), NoSuchEntry> {
        self.check_of("--crash-entry", entries)
    }

    /// The same of points that another option of the command line names.
    pub(crate) fn check_of(self, option: &'static str, entries: usize) -> Result<(), NoSuchEntry> {
        match self {
            Self::One(point) if point > entries => Err(NoSuchEntry { option, point, entries }),
            _ => Ok(()),
        }
    }

    /// Those of a journal of this length, ascending.
    pub fn of(self, entries: usize, random: &mut Random) -> Vec<usize> {
        match self {
            Self::One(point) => vec![point],
            Self::Some(count) if count <= entries => {
                let mut chosen = BTreeSet::from([entries]);
                while chosen.len() < count {
                    chosen.insert(random.below(entries as u64 + 1) as usize);
                }
                chosen.into_iter().collect()
            }
            Self::All | Self::Some(_) => (0..=entries).collect(),
        }
    }
}

/// A crash point behind the end of a journal.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{option} {point}: the run's journal has {entries} entries; take 0 to {entries}")]
pub struct NoSuchEntry {
    option: &'static str,
    point: usize,
    entries: usize,
}

/// A moment of a run: after `ops` operations, and in the middle of the next one once `entries`
/// lines of those that it makes durable have become so. Written `ops` or `ops+entries`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct CrashOp {
    /// Complete operations.
    pub ops: usize,
    /// Journal entries of the operation under way.
    pub entries: usize,
}

impl fmt::Display for CrashOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.ops)?;
        if self.entries > 0 { write!(f, "+{}", self.entries) } else { Ok(()) }
    }
}

/// A moment that a run does not have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NoSuchMoment {
    at: CrashOp,
    /// Operations of the run.
    ops: usize,
    /// Lines that the operation under way makes durable.
    lines: usize,
}

impl fmt::Display for NoSuchMoment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { at, ops, lines } = self;
        write!(f, "--crash-op {at}: ")?;
        if at.ops > *ops {
            return write!(f, "the run has {ops} operations; take 0 to {ops}");
        }
        let (n, most) = (at.ops, CrashOp { entries: *lines, ..*at });
        write!(f, "the operation after {n} makes {lines} lines durable; take {n} to {most}")
    }
}

impl std::error::Error for NoSuchMoment {}

/// A text that names no moment.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("`{0}` is no crash point; expected OPERATIONS or OPERATIONS+LINES, such as 1234 or 1234+2")]
pub struct ParseCrashOpError(String);

impl FromStr for CrashOp {
    type Err = ParseCrashOpError;

    fn from_str(text: &str) -> Result<Self, ParseCrashOpError> {
        let (ops, entries) = text.split_once('+').unwrap_or((text, "0"));
        match (ops.parse(), entries.parse()) {
            (Ok(ops), Ok(entries)) => Ok(Self { ops, entries }),
            _ => Err(ParseCrashOpError(text.to_owned())),
        }
    }
}

impl CrashOp {
    /// The last moment at which the image has exactly this number of journal entries. It is the one at
    /// which most is acknowledged, so it covers the earlier ones with the same image.
    pub(super) fn with_entries(journal: &Journal, entries: usize) -> Self {
        let ops = if entries < journal.len() { journal.get(entries).op } else { journal.ops() };
        Self { ops, entries: entries - journal.entries_after(ops) }
    }

    /// How many journal entries the image has.
    ///
    /// # Errors
    /// When the run has no such moment.
    pub(super) fn entries_in(self, journal: &Journal) -> Result<usize, NoSuchMoment> {
        let before = journal.entries_after(self.ops);
        let lines = journal.entries_after(self.ops.saturating_add(1)) - before;
        if self.ops > journal.ops() || self.entries > lines {
            return Err(NoSuchMoment { at: self, ops: journal.ops(), lines });
        }
        Ok(before + self.entries)
    }
}

/// `wanted` different crash points, ascending, or as many as there are: half of them right
/// before or right after a fence, as far as these differ, the others anywhere.
pub(super) fn choose(
    log: &OpLog,
    journal: &Journal,
    wanted: usize,
    random: &mut Random,
) -> Vec<CrashOp> {
    let all = journal.len() + 1;
    let mut chosen = BTreeSet::new();
    if wanted >= all {
        chosen.extend(0..all);
    } else {
        let is_fence = |op: &Op<'_>| matches!(op, Op::Sfence | Op::Mfence | Op::Rmw { .. });
        let fences: Vec<usize> = (0..log.len()).filter(|at| is_fence(&log.get(*at).1)).collect();
        for _ in 0..if fences.is_empty() { 0 } else { wanted / 2 } {
            let fence = fences[random.below(fences.len() as u64) as usize];
            chosen.insert(journal.entries_after(fence + random.below(2) as usize));
        }
        while chosen.len() < wanted {
            chosen.insert(random.below(all as u64) as usize);
        }
    }
    chosen.into_iter().map(|entries| CrashOp::with_entries(journal, entries)).collect()
}

/// `wanted` different crash points, ascending, or as many as there are: any moments of the
/// operations from `from` on.
pub(super) fn choose_after(
    from: usize,
    journal: &Journal,
    wanted: usize,
    random: &mut Random,
) -> Vec<CrashOp> {
    let all = journal.ops() - from;
    let mut chosen = BTreeSet::new();
    while chosen.len() < wanted.min(all) {
        chosen.insert(from + random.below(all as u64) as usize);
    }
    let within = |ops: usize| {
        let lines = journal.entries_after(ops + 1) - journal.entries_after(ops);
        CrashOp { ops, entries: random.below(lines as u64 + 1) as usize }
    };
    chosen.into_iter().map(within).collect()
}
