//! One crash, told: the program, the lines that had reached memory, the steps of recovery, and the states that the oracle
//! expected and found.
//!
//! An [`Explanation`] is data and nothing else, so that a terminal and a page show the same. It is
//! made from a replay of a failing image; `outlast-crash` makes it of scopes of the runtime, of campaigns
//! on the timed machine, and of published flaws.

mod replayed;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use replayed::{Places, events_until, recovery_of, run_lines, run_of, state_of};

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
    /// The flaw, in one line.
    pub about: String,
    /// The scheme.
    pub scheme: String,
    /// Its promise.
    pub guarantee: String,
    /// The program, in one line.
    pub program: String,
    /// Its transactions, each with its effect.
    pub transactions: Vec<Transaction>,
    /// The order of lanes, where there are several.
    pub schedule: String,
    /// The run that crashed, then the recoveries that crashed, in order.
    pub runs: Vec<Run>,
    /// The last recovery.
    pub recovery: Recovery,
    /// Places that the oracle compares.
    pub compared: Vec<Compared>,
    /// The mistake.
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
    /// Its effect, in words.
    pub does: String,
    /// Whether it was acknowledged before the last crash.
    pub acknowledged: bool,
}

/// A run up to its crash.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Run {
    /// Whose run it is.
    pub name: String,
    /// The unit in which its events are numbered.
    pub unit: String,
    /// The event before which it crashed.
    pub crash_at: u64,
    /// Earlier events that are left out.
    pub left_out: u64,
    /// The others, in order; those behind the crash never happened.
    pub events: Vec<Event>,
    /// Lines that were stored to, each with its state after the crash.
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
    /// Its kind.
    pub what: String,
    /// The object at its address.
    pub place: String,
    /// The fate of the stored bytes.
    pub fate: Option<Fate>,
}

/// The fate of a store, or of a line, in a crash.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// Flushed and fenced: in memory in any case.
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

    /// Its meaning in words.
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
    /// The object at this line.
    pub place: String,
    /// Its fate in the crash.
    pub fate: Fate,
    /// The words that the run changed.
    pub words: Vec<Word>,
}

/// A word of the image.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Word {
    /// Its first byte.
    pub at: u64,
    /// Its value before the run.
    pub before: u64,
    /// Its value after the crash.
    pub image: u64,
    /// The last value that the run stored.
    pub newest: u64,
}

/// A recovery, step by step.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Recovery {
    /// The places that it read.
    pub read: Vec<String>,
    /// Its stores, flushes and fences, in order.
    pub steps: Vec<Step>,
    /// Later steps that are left out.
    pub left_out: u64,
    /// Its outcome.
    pub outcome: String,
}

/// One step of a recovery.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Step {
    /// Its kind.
    pub what: String,
    /// The object at its address.
    pub place: String,
}

/// One thing that the oracle compares.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Compared {
    /// The name of the place.
    pub what: String,
    /// The values that are allowed there.
    pub expected: String,
    /// The value that was found.
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
