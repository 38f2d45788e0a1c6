//! One crash of a campaign laid open: the writes that became durable, the image that the crash leaves, and the
//! memory that recovery makes of it.

use std::collections::{BTreeMap, BTreeSet};

use outlast_schemes::Image;
use outlast_sim::Persisted;
use outlast_sim::timed::Cycle;
use outlast_trace::{LineAddr, PoolOffset};
use outlast_workloads::machine::Recorded;

use super::explain::Crash;
use super::history::{self, There};
use super::states::States;
use super::told::kept;
use super::{Campaign, CrashEntry};
use crate::Violation;
use crate::explain::{Explanation, Line};

/// One crash point, with everything about it.
pub struct Look {
    /// The campaign that replays it, with [`at`](Self::at).
    pub campaign: Campaign,
    /// Where it crashes.
    pub at: CrashEntry,
    /// The work that ran.
    pub recorded: Recorded,
    /// Memory before the run: of the rest, as the earlier recovery left it.
    pub base: Vec<u8>,
    /// The bytes that the crash leaves.
    pub image: Vec<u8>,
    /// The bytes after recovery, as far as that came.
    pub recovered: Vec<u8>,
    /// The program's memory in these, by the scheme's own tables, if recovery did not refuse.
    pub memory: Option<Vec<u8>>,
    /// What is wrong, if anything is.
    pub violation: Option<Violation>,
    /// The crash in words.
    pub explanation: Explanation,
    crash: Crash,
    states: States,
}

/// A write that entered the persistence domain.
#[derive(Clone, Copy, Debug)]
pub struct Written<'l> {
    /// Its number in the journal.
    pub entry: usize,
    /// When it did.
    pub at: Cycle,
    /// Its words.
    pub words: Persisted<'l>,
    /// Whether that was before the crash.
    pub is_in_image: bool,
}

/// A transaction of the work.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ran {
    /// Its set of data: a thread's, or 0 if they share it.
    pub data: u64,
    /// Its number among those, from 1 on.
    pub number: usize,
    /// When it was acknowledged in this run, if ever.
    pub acked: Option<Cycle>,
    /// The lines of data that it stored to.
    pub lines: BTreeSet<LineAddr>,
}

/// What was there, in words: of `reported` what the program had been told, of `kept` what recovery left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Left {
    /// Transactions or an epoch.
    pub reported: String,
    /// The same, if the recovered memory is whole.
    pub kept: Option<String>,
}

impl Campaign {
    /// Looks at the crash that is asked for by one crash point, and of work that has gone on by one of
    /// [`resumed_points`](Self::resumed_points); else at the first that breaks the guarantee.
    ///
    /// # Errors
    /// When the run cannot be made or comes to a stop, and when no crash is named and none fails.
    pub fn look(&self) -> Result<Look, Box<dyn std::error::Error>> {
        self.look_on(self.plan.record()?)
    }

    /// The same on work that was recorded otherwise, as a captured program's.
    ///
    /// # Errors
    /// As [`look`](Self::look).
    pub fn look_on(&self, recorded: Recorded) -> Result<Look, Box<dyn std::error::Error>> {
        let crash = self.looked_at(&recorded)?;
        let explanation = self.tell(&recorded, &crash);
        let recovered = crash.found.recovered();
        let view = Image::new(&recovered);
        let line = |number: u64| view.line(crash.run.prepared.locate(view, LineAddr(number)));
        let lines = 0..recorded.image.len() as u64 / 64;
        let memory = crash.found.is_recovered.then(|| lines.flat_map(line).copied().collect());
        Ok(Look {
            campaign: self.clone(),
            at: crash.at(),
            base: crash.run.base.clone(),
            image: crash.found.image.clone(),
            memory,
            violation: crash.found.violation.clone(),
            explanation,
            states: States::of(&recorded),
            recovered,
            recorded,
            crash,
        })
    }
}

impl Look {
    /// The object at an offset.
    pub fn place(&self, at: PoolOffset) -> String {
        self.states.place(at)
    }

    /// What was reported before the crash, and what recovery kept.
    pub fn left(&self) -> Left {
        let found = &self.crash.found;
        Left { reported: kept(&found.reported), kept: found.there.as_ref().map(kept) }
    }

    /// The writes of the run in their order, those behind the crash too.
    pub fn writes(&self) -> impl ExactSizeIterator<Item = Written<'_>> {
        let journal = self.crash.run.journal();
        journal.journal().iter().enumerate().map(|(entry, words)| Written {
            entry,
            at: journal.at(entry),
            words,
            is_in_image: entry < self.crash.found.point,
        })
    }

    /// The last cycle before the crash.
    pub fn now(&self) -> Cycle {
        self.crash.found.now
    }

    /// The transactions that end, those of one set of data after the other.
    pub fn transactions(&self) -> Vec<Ran> {
        let acknowledged = self.crash.run.journal().acknowledged_by(Cycle::NEVER);
        let acked: BTreeMap<(u64, usize), Cycle> = acknowledged
            .iter()
            .map(|(at, tx)| ((history::data_of(*tx), history::number_of(*tx)), *at))
            .collect();
        let mut all = Vec::new();
        for (data, transactions) in history::ran(&self.recorded).by_data {
            for (number, stores) in transactions {
                let ends = stores.iter().map(|(at, bytes)| (at.0, at.0 + bytes.len() as u64));
                let lines = ends.flat_map(|(from, to)| from / 64..to.div_ceil(64));
                let (lines, acked) = (lines.map(LineAddr).collect(), acked.get(&(data, number)));
                all.push(Ran { data, number, acked: acked.copied(), lines });
            }
        }
        all
    }

    /// The lines of data as all acknowledged transactions leave them, beside the image; none under a scheme
    /// of epochs, and none of work that has gone on from an earlier recovery.
    pub fn lines(&self) -> Vec<Line> {
        let Crash { run, found, earlier } = &self.crash;
        match (&found.reported, earlier) {
            (There::Transactions(acknowledged), None) => {
                let place = |at: PoolOffset| self.place(at);
                self.states.lines(run, &found.image, acknowledged, &place)
            }
            _ => Vec::new(),
        }
    }
}
