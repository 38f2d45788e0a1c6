//! Rings of log records, one for each lane, with one truncation point for all.
//!
//! ```text
//!  truncation point      header of a record, and the record's data lines
//! +---------------+     +--------+-------+-----+---------+----------------+  +----------+-- ...
//! | seq |  zeroes |     | number | count | seq | records | six words      |  | 64 bytes |
//! +---------------+     +--------+-------+-----+---------+----------------+  +----------+-- ...
//!    64       448           56       8      40      24         6 x 64
//! ```
//!
//! - A record is a header and up to as many data lines as its ring has for each; the words are the
//!   scheme's. Numbers count a ring's records; a record lies in the slot of its number.
//! - The last record of a transaction is its *commit*: `seq`, which orders the commits of all rings,
//!   and how many records it has. Other records have zeroes there.
//! - **R1** A commit is sent when everything else of its transaction is durable. So it is there with
//!   all of its transaction, or it is not.
//! - **R2** The point passes a commit when what it says is durable elsewhere as well
//!   ([`Log::applied`]), and all commits before it have been passed. One point for all rings keeps
//!   an old transaction of one from being replayed over a younger one of another.
//! - **R3** A slot is used again when the point that passed its transaction is durable.
//! - **R4** Recovery replays the commits from the point on, in the order of `seq`, and moves the point
//!   behind them last: all of it may be repeated. Records without a commit mean nothing, so that a
//!   transaction which aborts leaves its slots to the next one.

mod record;
mod replay;

use std::collections::VecDeque;

use outlast_sim::LineBytes;
use outlast_trace::LineAddr;

use crate::image::Image;
use crate::scheme::PrepareError;
use crate::{Key, Options};
pub(crate) use record::{Commit, Header, WORDS};
pub(crate) use replay::replay;

/// The most records of a ring: `records` has as many bits.
pub(crate) const RECORDS_MAX: u64 = (1 << 24) - 1;

/// Where rings lie: the truncation point, then headers ring by ring, then data lines.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Rings {
    /// The truncation point's line.
    pub(crate) base: LineAddr,
    /// Rings.
    pub(crate) rings: u64,
    /// Records of each.
    pub(crate) records: u64,
    /// Data lines of each record.
    pub(crate) data: u64,
}

impl Rings {
    /// Lines of all.
    pub(crate) fn lines(self) -> u64 {
        1 + self.rings * self.records * (1 + self.data)
    }

    fn slot(self, ring: usize, number: u64) -> u64 {
        ring as u64 * self.records + number % self.records
    }

    /// A record's header.
    pub(crate) fn header(self, ring: usize, number: u64) -> LineAddr {
        self.base.plus(1 + self.slot(ring, number))
    }

    /// A record's first data line.
    pub(crate) fn data(self, ring: usize, number: u64) -> LineAddr {
        self.base.plus(1 + self.rings * self.records + self.data * self.slot(ring, number))
    }
}

/// How many records a scheme's rings have, by its keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// The number; 0 for twice what the work needs.
    pub(crate) records: Key,
    /// Whether a number that is too small is as large as the work needs.
    pub(crate) fit: Key,
    /// The least where none is given.
    pub(crate) least: u64,
}

impl Size {
    /// Records of each ring, of work whose largest transaction needs `needed` records.
    ///
    /// # Errors
    /// When those that were chosen are too few.
    pub(crate) fn records(
        &self,
        ring: &str,
        options: &Options,
        needed: u64,
    ) -> Result<u64, PrepareError> {
        let records = match options.get(&self.records) {
            0 => (2 * needed).clamp(self.least, RECORDS_MAX),
            given if options.get(&self.fit) != 0 => given.max(needed),
            given => given,
        };
        if records < needed {
            let (key, fit) = (self.records.full_name(), self.fit.full_name());
            return Err(PrepareError::new(format_args!(
                "a {ring} of {records} records is too small: a transaction may need {needed}, set \
                 {key}, or {fit}"
            )));
        }
        Ok(records)
    }
}

/// Records of one ring: those from `freed` on are in use, those from `first` on are of the
/// transaction that runs.
#[derive(Clone, Copy, Debug)]
struct Ring {
    freed: u64,
    first: u64,
    next: u64,
}

/// A commit that the truncation point has not passed.
#[derive(Clone, Copy, Debug)]
struct Live {
    seq: u64,
    ring: usize,
    /// The record behind its last one.
    end: u64,
    /// What is to be durable elsewhere yet; none before the commit itself is durable.
    left: Option<u64>,
}

/// The rings as the controller knows them.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    /// Where they lie.
    pub(crate) rings: Rings,
    of: Vec<Ring>,
    /// Commits that the point has not passed, by `seq`, without gaps.
    live: VecDeque<Live>,
    /// Those that it has passed, and the point in memory has not.
    passed: VecDeque<Live>,
    next_seq: u64,
    durable: u64,
    is_moving: bool,
    /// Whether room is waited for.
    is_wanted: bool,
}

impl Log {
    /// Empty rings behind the truncation point that a memory has.
    pub(crate) fn new(rings: Rings, memory: Image<'_>) -> Self {
        let point = memory.word_or_zero(rings.base, 0);
        let empty = Ring { freed: 1, first: 1, next: 1 };
        let seq = point.max(1);
        Self {
            rings,
            of: vec![empty; rings.rings as usize],
            live: VecDeque::new(),
            passed: VecDeque::new(),
            next_seq: seq,
            durable: seq,
            is_moving: false,
            is_wanted: false,
        }
    }

    /// Whether a ring has a slot for another record.
    pub(crate) fn has_room(&self, ring: usize) -> bool {
        self.has_room_for(ring, 1)
    }

    /// Whether it has slots for `records` records.
    pub(crate) fn has_room_for(&self, ring: usize, records: u64) -> bool {
        let Ring { freed, next, .. } = self.of[ring];
        next - freed + records <= self.rings.records
    }

    /// Takes the slot of a ring's next record.
    ///
    /// # Panics
    /// When there is none (R3).
    pub(crate) fn take(&mut self, ring: usize) -> u64 {
        assert!(self.has_room(ring), "ring {ring} has no slot");
        let next = &mut self.of[ring].next;
        *next += 1;
        *next - 1
    }

    /// Makes the last record taken the commit of its ring's transaction.
    pub(crate) fn commit(&mut self, ring: usize) -> Commit {
        let of = &mut self.of[ring];
        let commit = Commit { seq: self.next_seq, records: of.next - of.first };
        self.live.push_back(Live { seq: commit.seq, ring, end: of.next, left: None });
        of.first = of.next;
        self.next_seq += 1;
        commit
    }

    /// Gives back the slots of a ring's transaction, which aborts.
    pub(crate) fn abort(&mut self, ring: usize) {
        let of = &mut self.of[ring];
        of.next = of.first;
    }

    /// A commit is durable; `left` things that it says are to be durable elsewhere.
    pub(crate) fn committed(&mut self, seq: u64, left: u64) {
        self.live_mut(seq).left = Some(left);
        self.pass();
    }

    /// One of the things that a commit says is durable elsewhere; returns whether it was the last.
    pub(crate) fn applied(&mut self, seq: u64) -> bool {
        let left = self.live_mut(seq).left.as_mut().expect("the commit is durable");
        *left -= 1;
        let is_last = *left == 0;
        if is_last {
            self.pass();
        }
        is_last
    }

    fn live_mut(&mut self, seq: u64) -> &mut Live {
        let first = self.live.front().map_or(0, |live| live.seq);
        let at = seq.checked_sub(first).expect("the point has not passed the commit");
        &mut self.live[at as usize]
    }

    /// The point passes what it may (R2).
    fn pass(&mut self) {
        while self.live.front().is_some_and(|live| live.left == Some(0)) {
            self.passed.extend(self.live.pop_front());
        }
    }

    /// Lets the point in memory pass commits that are not applied, which breaks R2.
    pub(crate) fn pass_unapplied(&mut self) {
        while self.live.front().is_some_and(|live| live.left.is_some()) {
            self.passed.extend(self.live.pop_front());
        }
    }

    /// Lets the point move as soon as it may: room is waited for.
    pub(crate) fn want_room(&mut self) {
        self.is_wanted = true;
    }

    /// Whether a ring is half full, or room is waited for.
    pub(crate) fn is_crowded(&self) -> bool {
        let half = self.rings.records.div_ceil(2);
        self.is_wanted || self.of.iter().any(|ring| ring.next - ring.freed >= half)
    }

    /// The point's next place in memory: a line's bytes, where a ring is half full and one may be
    /// written. [`moved`](Self::moved) tells that they are durable.
    pub(crate) fn moves(&mut self) -> Option<LineBytes> {
        if self.is_moving || !self.is_crowded() {
            return None;
        }
        let seq = self.passed.back()?.seq + 1;
        self.is_moving = true;
        self.durable = seq;
        let mut line = [0; 64];
        line[..8].copy_from_slice(&seq.to_le_bytes());
        Some(line)
    }

    /// The point in memory has moved: slots are free again.
    pub(crate) fn moved(&mut self) {
        (self.is_moving, self.is_wanted) = (false, false);
        let durable = self.durable;
        while self.passed.front().is_some_and(|passed| passed.seq < durable) {
            let Some(Live { ring, end, .. }) = self.passed.pop_front() else { break };
            self.of[ring].freed = end;
        }
    }

    /// Frees what has been passed, whatever the point in memory says, which breaks R3.
    pub(crate) fn free_early(&mut self) {
        for Live { ring, end, .. } in &self.passed {
            self.of[*ring].freed = *end;
        }
    }
}

#[cfg(test)]
mod tests;
