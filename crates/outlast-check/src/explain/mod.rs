//! One crash, told: what ran, which lines had reached memory, what recovery did, what the oracle
//! expected and found.
//!
//! An [`Explanation`] is data and nothing else, so that a terminal and a page show the same. It is
//! made from a replay of a failing image; `outlast-crash` makes it of scopes of the runtime, of campaigns
//! on the timed machine, and of published flaws.

mod replayed;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use replayed::{Places, recovery_of, run_lines, run_of, state_of};

/// Events of a run that are kept: the last ones before the crash, and all acknowledgements.
pub const EVENTS_MAX: usize = 40;

/// Lines that are listed.
pub const LINES_MAX: usize = 24;

/// Steps of a recovery that are listed.
pub const STEPS_MAX: usize = 40;

/// One failing crash with everything that explains it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Explanation {
    /// The published flaw or the planted bug; empty where nothing is broken on purpose.
    pub flaw: String,
    /// What the flaw is, in one line.
    pub about: String,
    /// The scheme.
    pub scheme: String,
    /// What it promises.
    pub guarantee: String,
    /// What ran, in one line.
    pub program: String,
    /// Its transactions, with what each does.
    pub transactions: Vec<Transaction>,
    /// The order of lanes, where there are several.
    pub schedule: String,
    /// The run that crashed, then the recoveries that crashed, in order.
    pub runs: Vec<Run>,
    /// The last recovery.
    pub recovery: Recovery,
    /// What the oracle compares.
    pub compared: Vec<Compared>,
    /// What is wrong.
    pub verdict: String,
    /// The command that shows this again.
    pub replay: String,
}

/// A transaction of the program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Transaction {
    /// Its number, which is the version that it writes.
    pub id: u64,
    /// The lane that runs it.
    pub lane: u16,
    /// What it does.
    pub does: String,
    /// Whether it was acknowledged before the last crash.
    pub acknowledged: bool,
}

/// A run up to its crash.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Whose run it is.
    pub name: String,
    /// What the numbers of its events count.
    pub unit: String,
    /// The event before which it crashed.
    pub crash_at: u64,
    /// Earlier events that are left out.
    pub left_out: u64,
    /// The others, in order; those behind the crash never happened.
    pub events: Vec<Event>,
    /// Lines that were stored to, with what the crash left of them.
    pub lines: Vec<Line>,
    /// Lines that are left out.
    pub lines_left_out: u64,
}

/// One operation on the time line.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Event {
    /// Its number, or its cycle.
    pub at: u64,
    /// The lane that carried it out.
    pub lane: Option<u16>,
    /// What it was.
    pub what: String,
    /// What lies where it was.
    pub place: String,
    /// What became of what it stored.
    pub fate: Option<Fate>,
}

/// What a crash made of a store, or of a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Flushed and fenced: in memory whatever happens.
    Durable,
    /// In memory by chance: evicted, or written back before a fence asked for it.
    Reached,
    /// Some words of it are in memory.
    Part,
    /// Still in the cache, and gone.
    Missing,
}

impl Fate {
    /// Every fate, the best first.
    pub const ALL: [Self; 4] = [Self::Durable, Self::Reached, Self::Part, Self::Missing];

    /// A sign, so that colour is not needed.
    pub fn sign(self) -> &'static str {
        match self {
            Self::Durable => "●",
            Self::Reached => "◐",
            Self::Part => "◔",
            Self::Missing => "○",
        }
    }

    /// What it means.
    pub fn describe(self) -> &'static str {
        match self {
            Self::Durable => "durable for certain",
            Self::Reached => "reached memory by chance",
            Self::Part => "reached memory in part",
            Self::Missing => "was still in the cache",
        }
    }
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.describe())
    }
}

/// A line of the image.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Line {
    /// Its first byte.
    pub at: u64,
    /// What lies there.
    pub place: String,
    /// What the crash made of it.
    pub fate: Fate,
    /// The words that the run changed.
    pub words: Vec<Word>,
}

/// A word of the image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Word {
    /// Its first byte.
    pub at: u64,
    /// What it held before the run.
    pub before: u64,
    /// What the crash left.
    pub image: u64,
    /// What the run had stored last.
    pub newest: u64,
}

/// What a recovery did.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Recovery {
    /// What it read, place by place.
    pub read: Vec<String>,
    /// What it wrote, flushed and fenced, in order.
    pub steps: Vec<Step>,
    /// Later steps that are left out.
    pub left_out: u64,
    /// What it came to.
    pub outcome: String,
}

/// One step of a recovery.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// What it was.
    pub what: String,
    /// What lies where it was.
    pub place: String,
}

/// One thing that the oracle compares.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Compared {
    /// What.
    pub what: String,
    /// What may be there.
    pub expected: String,
    /// What is there.
    pub found: String,
    /// Whether that is allowed by itself.
    pub is_allowed: bool,
}

impl Explanation {
    /// The flaw and the scheme, by which it is picked.
    pub fn title(&self) -> String {
        match self.flaw.as_str() {
            "" => self.scheme.clone(),
            flaw => format!("{flaw} in {}", self.scheme),
        }
    }
}
