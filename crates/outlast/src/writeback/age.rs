//! By age: which of its records a lane covers, and when.
//!
//! The log is the list of what is to be flushed: its records name every line that a commit stored
//! to. Three hands pass over it. The *first* takes records in soon after they were installed. The
//! *second*, by age, comes to a record when what was touched at the same time has left the
//! [LRU queue](super::history): a line that was not touched again since has probably left the cache
//! too, and is flushed at that moment, which then costs next to nothing. If the estimate was wrong,
//! it costs a flush. A line that was touched again is *left*, since it is still in use. The *last*
//! hand goes before the floor: it flushes what the second has left, or has not come to because the
//! log is too short. What is known of single lines is in `ObjHT`, so that a line that many records
//! name is flushed once for all of them. Nothing is believed: only fenced flushes move the floor.
//!
//! Where the log is too short for the second hand to come to anything, single lines are not looked
//! at, and this is write-back by segment.
//!
//! * **AGE-1** What lines a commit stored to is what its record in the log says, or a list that its
//!   lane has made with the record. A record counts as *drained* when the lane has drawn a step's
//!   number after it was installed; hands pass over drained records only.
//! * **AGE-2** A line is clean for a record when it was flushed in the step that drained the record,
//!   or a later one, and that flush was fenced. Steps are numbered by one counter for all lanes: who
//!   draws a greater number than another comes after everything that the other had in place. A
//!   lane writes into `ObjHT` what it has flushed when it has fenced it, and not before; so a lane that
//!   reads it there needs no fence of his own.
//! * **AGE-3** A record is covered (DEFER-1) when the second or the last hand has found each line that it
//!   names clean, or flushed it.

use std::collections::VecDeque;
use std::sync::Arc;

use outlast_pmem::Medium;
use outlast_trace::LineAddr;

use super::deferred::{Batch, Deferred, old_end};
use super::history::{Access, Era, History};
use crate::io::Io;
use crate::plant::Plant;
use crate::pool::{LaneSlot, Pool};

/// Lines that are looked up together, so that their look-ups wait for memory together.
const LINES_AT_ONCE: usize = 64;

/// When the last hand has passed over this multiple of a ring's lines and the second over
/// nothing, lines are no longer looked at before.
const UNAGED_RINGS: u64 = 4;

/// Records that one step has drained.
#[derive(Clone, Copy)]
struct Part {
    /// The position behind the last of them.
    end: u64,
    step: u64,
}

/// A line that is to be flushed for a record.
#[derive(Clone, Copy)]
struct Target {
    line: LineAddr,
    /// The record's position, and that behind it.
    start: u64,
    end: u64,
    /// The line is clean if it was flushed in this step or later.
    step: u64,
}

/// How far the hands have come on a lane's log.
#[derive(Default)]
pub(super) struct Aging {
    era: Option<Arc<Era>>,
    /// Drained parts that the second hand has not passed.
    parts: VecDeque<Part>,
    /// Position behind the last drained record.
    drained: u64,
    /// The step that drained last.
    step: u64,
    /// Words of installed records that the first hand has passed.
    noted: usize,
    /// Targets that the second hand left, in the order of the records.
    left: VecDeque<Target>,
    /// Lines whose look-ups are under way.
    targets: Vec<Target>,
    /// Log lines that the last hand has passed since the second found something to do.
    unaged: u64,
    /// Lines flushed in step `flushed_step` and not known to be fenced.
    flushed: Vec<LineAddr>,
    flushed_step: u64,
}

/// The measures of the hands in one step.
#[derive(Clone, Copy)]
struct Round<'a> {
    era: &'a Era,
    /// Everything touched in steps before this one has probably left the cache.
    aged: u64,
    /// Everything before this position is in place.
    installed: u64,
    /// Whether single lines are looked at.
    looks: bool,
}

/// A hand that flushes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hand {
    /// By age.
    Second,
    /// Before the floor.
    Last,
}

impl Aging {
    /// The position of the first record of which a line is left.
    pub fn first_left(&self) -> Option<u64> {
        self.left.front().map(|target| target.start)
    }

    fn looks_at_lines(&self, ring_lines: u64) -> bool {
        self.unaged < UNAGED_RINGS * ring_lines
    }

    /// AGE-2: what was flushed the last time is known to be clean if the lane has fenced it since;
    /// `batch` is flushed next.
    pub fn before_flush(&mut self, batch: &Batch, ring_lines: u64, is_unfenced: bool) {
        if !self.flushed.is_empty() && !is_unfenced {
            if let Some(era) = &self.era {
                self.flushed.iter().for_each(|line| era.note_flushed(*line, self.flushed_step));
            }
            self.flushed.clear();
        }
        // A line that is not told costs a flush more.
        if self.flushed.is_empty() && self.looks_at_lines(ring_lines) {
            self.flushed.extend_from_slice(batch.lines());
            self.flushed_step = self.step;
        }
    }

    /// The last hand comes to what the second has left.
    fn take_left(&mut self, goal: u64, covered: u64) {
        while let Some(target) = self.left.front().filter(|target| target.start < goal) {
            // A sweep may have covered it.
            if target.end > covered {
                self.targets.push(*target);
            }
            self.left.pop_front();
        }
    }
}

impl Deferred {
    /// The hands go on.
    pub(super) fn gather_by_age<M: Medium>(
        &mut self,
        pool: &Pool<M>,
        history: &History,
        lane: &LaneSlot,
        accesses: &mut Vec<Access>,
        tail: u64,
        installed: u64,
    ) {
        let ring = lane.ring.lines;
        let goal = old_end(pool.facts.by_age, lane, installed);
        let aging = &mut self.aging;
        let looks = aging.looks_at_lines(ring);
        let has_hints = accesses.len() as u64 >= pool.plan.drain_every;
        // Drawing a number waits for every store before it.
        let drain_every =
            if looks { pool.plan.drain_every } else { pool.plan.drain_every.max(ring / 32) };
        let is_due = has_hints || installed - aging.drained >= drain_every;
        if is_due || goal > aging.drained || aging.era.is_none() {
            aging.step = history.next_step(&pool.medium, &mut aging.era);
            if installed > aging.drained {
                aging.parts.push_back(Part { end: installed, step: aging.step });
                aging.drained = installed;
            }
        }
        // Not cloned: that would wait for every store, too.
        let Some(era) = aging.era.take() else { return };
        if has_hints {
            history.touch(&pool.medium, &era, aging.step, accesses);
        }
        if looks {
            let lines = || self.installed.lines_from(aging.noted);
            lines().for_each(|line| era.prefetch(line));
            lines().for_each(|line| era.note_accessed(line, aging.step));
        }
        aging.noted = self.installed.len();

        let round = Round { era: &era, aged: history.aged_step(), installed, looks };
        while let Some(part) = self.aging.parts.front().copied() {
            if part.step >= round.aged {
                break;
            }
            if part.end > self.gathered {
                self.aging.unaged = 0;
                self.pass(pool, lane, Hand::Second, part.end, Round { looks: true, ..round });
            }
            self.aging.parts.pop_front();
        }
        let aged = self.gathered;
        self.aging.take_left(goal, tail);
        self.pass(pool, lane, Hand::Last, goal, round);
        self.aging.unaged += self.gathered - aged;
        self.aging.era = Some(era);
    }

    /// A hand passes over drained records up to `goal`: whole groups, maybe a little more. What is to be
    /// looked up already is looked up with them.
    fn pass<M: Medium>(
        &mut self,
        pool: &Pool<M>,
        lane: &LaneSlot,
        hand: Hand,
        goal: u64,
        round: Round<'_>,
    ) {
        while let Some(end) = self.installed.first_end() {
            let position = self.gathered;
            if end > self.aging.drained || end > position && position >= goal {
                break;
            }
            while self.aging.parts.front().is_some_and(|part| part.end < end) {
                self.aging.parts.pop_front();
            }
            let step = self.aging.parts.front().map_or(self.aging.step, |part| part.step);
            let (targets, before) = (&mut self.aging.targets, self.installed.len());
            let (io, batch) = (pool.io(), &mut self.batch);
            self.gathered = self.installed.take_first(pool, lane, position, |lines| {
                let lines = lines.iter().copied().map(LineAddr);
                if round.looks {
                    targets.extend(lines.map(|line| Target { line, start: position, end, step }));
                } else {
                    lines.for_each(|line| batch.add(io, line, end, round.installed));
                }
            });
            self.aging.noted -= before - self.installed.len();
            if self.aging.targets.len() >= LINES_AT_ONCE {
                self.look_up(pool.io(), hand, round);
            }
        }
        if !self.aging.targets.is_empty() {
            self.look_up(pool.io(), hand, round);
        }
    }

    /// AGE-3: what the hand has found is flushed, left, or clean.
    fn look_up<M: Medium>(&mut self, io: Io<'_, M>, hand: Hand, round: Round<'_>) {
        let Self { batch, aging, .. } = self;
        let mut targets = std::mem::take(&mut aging.targets);
        if round.looks {
            targets.iter().for_each(|target| round.era.prefetch(target.line));
        }
        for target in targets.drain(..) {
            if round.looks {
                let known = round.era.known(target.line);
                // A planted bug: the line counts as that of the last record that names it.
                let moved_on = io.plants(Plant::PendingSinceLast) && known.accessed > target.step;
                if known.flushed >= target.step || moved_on {
                    continue;
                }
                if hand == Hand::Second {
                    if known.accessed >= round.aged {
                        aging.left.push_back(target);
                        continue;
                    }
                    if io.plants(Plant::AgedOutUnflushed) {
                        continue;
                    }
                }
            }
            batch.add(io, target.line, target.end, round.installed);
        }
        aging.targets = targets;
    }
}
