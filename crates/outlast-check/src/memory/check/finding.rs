//! A finding: a class, a place, a reproduction.

use std::fmt;
use std::str::FromStr;

use outlast_pmem::Site;
use outlast_pmem::schedule::Plan;
use outlast_trace::{LaneId, LineAddr, TxId};

use super::callers::Caller;
use crate::entry::Kind;
use crate::memory::verdict::Violation;
use crate::memory::witness::Witness;

/// The class of a mistake.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub enum Class {
    /// A line was stored to and not flushed before something relied on it. The failure vanishes
    /// if every fence flushes.
    MissingFlush,
    /// A line was flushed, or streamed, and no fence of that lane came before something relied
    /// on it. The failure vanishes if every flush is durable at once.
    MissingFence,
    /// Two lines persisted in an order that the program did not rule out. The failure vanishes if
    /// stores persist in program order.
    Order,
    /// Wrong in program order as well: a crash between two stores finds recovery unprepared. In
    /// a recovery (see [`Place::level`]): it does not give the same when it runs again.
    Atomicity,
    /// A value persisted in part. The failure vanishes if each store persists as a whole.
    Tearing,
    /// Recovery takes leftovers of something older for a record. The failure vanishes if the
    /// leftovers are zero.
    StaleRecord,
    /// A transaction was acknowledged before its stores, or before the flushes and fences that
    /// the program does for them. A crash just before the acknowledgement leaves nothing wrong, one
    /// just behind it does, and the failure vanishes if it waits for a later fence.
    AcknowledgedEarly,
    /// The program panicked, or recovery or the oracle does so on an image that lost nothing.
    Panic,
    /// The program or its recovery does not come to an end.
    Endless,
    /// The program is no function of its schedule, or recovery none of its image: the same image
    /// was recovered in different ways, so that no verdict stands.
    NotDeterministic,
    /// A crash point could not be checked: a line has too many possible contents there.
    TooWide,
    /// A failure whose class would take more images to decide than are allowed.
    NotDecided,
    /// A line was flushed that held nothing new, in every schedule that was run. Costs time and
    /// loses nothing.
    RedundantFlush,
    /// A fence came when its lane had flushed and streamed nothing since the one before, in every
    /// schedule that was run. Costs time and loses nothing.
    NeedlessFence,
    /// A line was persisted that neither recovery nor oracle looks at, whatever the crash leaves.
    /// It costs time, or the oracle overlooks something.
    NeverRead,
}

impl Class {
    /// Whether it loses nothing and only costs time.
    pub fn only_costs_time(self) -> bool {
        self.term().kind == Kind::Cost
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// An operation of the program, or of its recovery.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Place {
    /// 1 in the program, 2 in the recovery from its crash, and so on.
    pub level: u32,
    /// The operation, counted from 0.
    pub op: usize,
    /// The lane that carried it out.
    pub lane: LaneId,
    /// The line that it is about.
    pub line: Option<LineAddr>,
    /// Where in the source it stands.
    pub site: Option<Site>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = if self.level <= 1 { "" } else { " of recovery" };
        write!(f, "operation {}{of}, lane {}", self.op, self.lane.0)?;
        if let Some(line) = self.line {
            write!(f, ", {line}")?;
        }
        if let Some(site) = self.site {
            write!(f, ", at {}:{}", site.location.file(), site.location.line())?;
            if let Some(label) = site.label {
                write!(f, " ({label})")?;
            }
        }
        Ok(())
    }
}

/// An acknowledged transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledged {
    /// Its number, as the program said it.
    pub tx: TxId,
    /// Where it was acknowledged.
    pub place: Place,
}

/// Which of its contents a line held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Held {
    /// The durable contents, and none of the newer stores.
    Old,
    /// All that was stored there.
    New,
    /// Some of the newer stores.
    Part,
}

impl fmt::Display for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Old => "old content",
            Self::New => "new content",
            Self::Part => "some new content",
        })
    }
}

/// A line of a failing image that the crash could have left otherwise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Line {
    /// Which line.
    pub line: LineAddr,
    /// Its contents.
    pub held: Held,
    /// The last store to it before the crash.
    pub stored: Place,
}

/// The name of one failing image of one run. Written as `SCHEDULE / IMAGE`; the image of a program
/// that fails by itself is `no crash`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reproduction {
    /// The order of lanes.
    pub plan: Plan,
    /// The crashes, and the stores that had persisted.
    pub witness: Witness,
}

impl fmt::Display for Reproduction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} / {}", self.plan, self.witness)
    }
}

impl FromStr for Reproduction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (plan, witness) = text
            .split_once('/')
            .ok_or_else(|| format!("`{text}` has no `/` between schedule and image"))?;
        Ok(Self {
            plan: plan.trim().parse().map_err(|error| format!("{error}"))?,
            witness: witness.trim().parse().map_err(|error| format!("{error}"))?,
        })
    }
}

/// One thing that is wrong, or that costs for nothing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The class of a mistake.
    pub class: Class,
    /// The operation to look at: the store that was not flushed, the flush that was not fenced,
    /// the store that came too early or persisted in part.
    pub place: Place,
    /// The calls by which the program came there, innermost first: where `place` stands in a
    /// helper, its callers. Empty for a program without debug information.
    pub callers: Vec<Caller>,
    /// Other operations that have to do with it.
    pub also: Vec<Place>,
    /// The acknowledgements without which the image would be in order.
    pub lost: Vec<Acknowledged>,
    /// The lines whose content the last crash decided, with that content.
    pub lines: Vec<Line>,
    /// The oracle's verdict; none for a mistake that only costs time.
    pub violation: Option<Violation>,
    /// How to see it again.
    pub reproduction: Option<Reproduction>,
}

/// Lost transactions that are written out.
const LOST_SHOWN: usize = 3;

impl Finding {
    /// A finding of which nothing more is known.
    pub(super) fn at(class: Class, place: Place) -> Self {
        Self {
            class,
            place,
            callers: Vec::new(),
            also: Vec::new(),
            lost: Vec::new(),
            lines: Vec::new(),
            violation: None,
            reproduction: None,
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.class, self.place)?;
        for (number, caller) in self.callers.iter().enumerate() {
            write!(f, "{}{caller}", if number == 0 { ", called at " } else { ", " })?;
        }
        if let Some(violation) = &self.violation {
            write!(f, "\n  {violation}")?;
        }
        for Acknowledged { tx, place } in self.lost.iter().take(LOST_SHOWN) {
            write!(f, "\n  lost transaction {}, acknowledged by {place}", tx.0)?;
        }
        if let more @ 1.. = self.lost.len().saturating_sub(LOST_SHOWN) {
            write!(f, "\n  and {more} more transactions lost")?;
        }
        for Line { held, stored, .. } in &self.lines {
            write!(f, "\n  {held} after {stored}")?;
        }
        for place in &self.also {
            write!(f, "\n  see {place}")?;
        }
        write!(f, "\n  remedy: {}", self.term().remedy)?;
        if let Some(reproduction) = &self.reproduction {
            write!(f, "\n  reproduce: {reproduction}")?;
        }
        Ok(())
    }
}
