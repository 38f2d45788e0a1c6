//! The writing end of a lane's log, and where in its ring the next record goes.

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;

use crate::io::{Io, Site};
use crate::log::{Place, Region};
use crate::pool::LaneSlot;
use crate::seq::Seq;

/// The writing end of a lane's log.
pub(crate) struct LaneLog {
    /// Redo: position of the next record.
    pub head: u64,
    /// A position, mostly that of `head`; before the first record of none.
    placed: u64,
    /// Where the record at that position stands: to work it out takes divisions.
    place: Place,
    /// By age, by segment: the position of `head` when write-back was looked after last.
    pub stepped: u64,
    /// Undo: the lane's last number.
    pub last_undo: Seq,
    /// Undo: the half of the ring where the next record goes.
    pub half: usize,
    /// Undo, where the medium tears lines: lines of the other half, or of a ring in one part, that are to be made
    /// blank (LOG-10).
    pub stale: u64,
    /// The ring holds records of the form that the pool's scheme writes, or none.
    pub is_laid_out: bool,
    /// How often chunks of the heap were taken when the ring was looked at last for more room, and about how many lines
    /// were logged since that had changed.
    pub heap_takings: u64,
    pub lines_since_growth: u64,
    /// Append-only log: where it goes on; `None` at the start of the ring.
    #[cfg(feature = "lab")]
    pub commands: Option<(Region, u64)>,
}

impl LaneLog {
    pub fn new(last_undo: Seq) -> Self {
        Self {
            head: 0,
            placed: u64::MAX,
            place: Place::sealed(Region::NONE, 0),
            stepped: 0,
            last_undo,
            half: 0,
            stale: 0,
            is_laid_out: false,
            heap_takings: 0,
            lines_since_growth: 0,
            #[cfg(feature = "lab")]
            commands: None,
        }
    }

    /// Lines from `head` up to the end of the lap.
    #[inline(always)]
    pub fn lines_left_of_lap(&mut self, slot: &LaneSlot) -> u64 {
        if self.placed != self.head {
            self.find_place(slot);
        }
        slot.end.load(Ordering::Relaxed) - self.place.line
    }

    /// Free lines that a record of `lines` lines needs behind `head`: without a place in this lap, also the rest of the
    /// whole ring.
    #[inline(always)]
    pub fn lines_needed(&mut self, slot: &LaneSlot, lines: u64) -> u64 {
        match self.lines_left_of_lap(slot) < lines {
            true => slot.ring.lines - self.place.line + lines,
            false => lines,
        }
    }

    /// Whether the lane goes on in the lap of the position `tail`: lines that are added to the ring are free then.
    pub fn is_in_lap_of(&mut self, slot: &LaneSlot, tail: u64) -> bool {
        self.lines_left_of_lap(slot);
        self.head - tail <= self.place.line
    }

    #[inline(never)]
    fn find_place(&mut self, slot: &LaneSlot) {
        (self.placed, self.place) = (self.head, slot.place(self.head));
    }

    /// Begins the next record, for which there is room. What is left of a lap in which it has no
    /// place gets a `Wrap` of that number.
    #[inline(always)]
    pub fn begin_record<M: Medium>(
        &mut self,
        io: Io<'_, M>,
        site: Site,
        slot: &LaneSlot,
        seq: Seq,
        lines: u64,
    ) {
        if lines > self.lines_left_of_lap(slot) {
            self.wrap(io, site, slot, seq);
        }
    }

    #[inline(never)]
    fn wrap<M: Medium>(&mut self, io: Io<'_, M>, site: Site, slot: &LaneSlot, seq: Seq) {
        let end = self.place;
        let in_use = Region { lines: slot.lines(), ..end.region };
        Place { region: in_use, ..end }.append_wrap(io, site, seq);
        self.placed += end.region.lines - end.line;
        self.place = end.next_lap();
    }

    /// Where the record stands that was begun; once it is ended, where the next one can.
    #[inline(always)]
    pub fn place(&self) -> Place {
        self.place
    }

    /// The record that was begun has `lines` lines. Returns the position behind it, which is to be
    /// `head`.
    #[inline(always)]
    pub fn end_record(&mut self, lines: u64) -> u64 {
        self.placed += lines;
        self.place.line += lines;
        if self.place.line == self.place.region.lines {
            self.place = self.place.next_lap();
        }
        self.placed
    }
}
