//! The same transitions, cut where a driver with time has to wait.
//!
//! The atomic driver looks a line up and has it; the timed one looks it up, asks level after
//! level where it is while time passes, and lets the whole transition happen at the moment in
//! which the line arrives. Between those moments nothing here is half done, so C1 to C4 hold.

use super::{Backing, Cause, Hierarchy, Want};
use crate::{
    cache::{Cache, LineBytes, LineTag, Slot},
    wc::{Leaving, word_mask},
};
use outlast_trace::{LineAddr, PoolOffset};

/// The result of the first look at a lane's first level.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// The line, ready for what it is wanted for.
    Here(Slot),
    /// Not the line, or a shared copy where it is wanted for a store.
    NotHere,
}

/// The nearest place from which a lane can get a line.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Nearest {
    /// The lane's own caches: the first or the second level.
    Private,
    /// The shared level, or its directory alone where only permission is missing.
    Shared,
    /// Another lane's private caches.
    Peer,
    /// No cache has it.
    Memory,
}

impl<T: LineTag> Hierarchy<T> {
    /// Looks a line up in the lane's first level, and counts a hit or a miss.
    #[inline]
    pub(crate) fn look_up(&mut self, lane: usize, line: LineAddr, want: Want) -> Found {
        let l1 = &mut self.lanes[lane].l1;
        match l1.access(line) {
            Some(slot) if want == Want::Read || l1.is_owned(slot) => Found::Here(slot),
            _ => Found::NotHere,
        }
    }

    /// The line in the lane's first level, if it is there as it is wanted. Counts nothing.
    #[inline]
    pub(crate) fn find(&self, lane: usize, line: LineAddr, want: Want) -> Option<Slot> {
        let l1 = &self.lanes[lane].l1;
        l1.probe(line).filter(|slot| want == Want::Read || l1.is_owned(*slot))
    }

    /// Whether the lane's second level can serve what the first could not. Counts nothing.
    #[inline]
    pub(crate) fn second_level_serves(&self, lane: usize, line: LineAddr, want: Want) -> bool {
        self.lanes[lane].l2.as_ref().is_some_and(|l2| {
            l2.probe(line).is_some_and(|slot| want == Want::Read || l2.is_owned(slot))
        })
    }

    /// Where the line would come from now. Counts nothing.
    pub(crate) fn nearest(&self, lane: usize, line: LineAddr, want: Want) -> Nearest {
        let private = &self.lanes[lane];
        let held = private.newest(line);
        if held.is_some_and(|held| want == Want::Read || held.owned) {
            return Nearest::Private;
        }
        let others = self.lanes.iter().enumerate().filter(|(peer, _)| *peer != lane);
        let peer_has =
            others.into_iter().any(|(_, peer)| peer.caches().any(|c| c.probe(line).is_some()));
        match (peer_has, held.is_some() || self.llc.probe(line).is_some()) {
            (true, _) => Nearest::Peer,
            (false, true) => Nearest::Shared,
            (false, false) => Nearest::Memory,
        }
    }

    /// Brings a line to the lane's first level at the moment in which it arrives, whatever
    /// became of it since it was looked up.
    pub(crate) fn bring<B: Backing<T>>(
        &mut self,
        lane: usize,
        line: LineAddr,
        want: Want,
        below: &mut B,
    ) -> Slot {
        match self.lanes[lane].l1.probe(line) {
            Some(slot) => {
                if want == Want::Write && !self.lanes[lane].l1.is_owned(slot) {
                    self.upgrade(lane, line, slot);
                }
                slot
            }
            None => self.fill(lane, line, want, below),
        }
    }

    /// The bytes of a line of the lane's first level, and its tag.
    #[inline]
    pub(crate) fn first_level(&self, lane: usize, slot: Slot) -> (&LineBytes, T, bool) {
        let l1 = &self.lanes[lane].l1;
        (l1.data(slot), l1.tag(slot), l1.is_dirty(slot))
    }

    /// Replaces the tag of a line of the lane's first level.
    #[inline]
    pub(crate) fn set_first_level_tag(&mut self, lane: usize, slot: Slot, tag: T) {
        self.lanes[lane].l1.set_tag(slot, tag);
    }

    /// Whether a level below the lane's first has newer bytes of a line than memory.
    pub(crate) fn is_dirty_below(&self, lane: usize, line: LineAddr) -> bool {
        let is_dirty = |cache: &Cache<T>| cache.probe(line).is_some_and(|at| cache.is_dirty(at));
        self.lanes[lane].l2.as_ref().is_some_and(is_dirty)
            || is_dirty(&self.llc)
            || self.buffer.as_ref().is_some_and(|buffer| is_dirty(&buffer.cache))
    }

    /// Replaces the tag of a line in the levels below the lane's first that have it.
    pub(crate) fn set_tags_below(&mut self, lane: usize, line: LineAddr, tag: T) {
        let buffer = self.buffer.iter_mut().map(|buffer| &mut buffer.cache);
        for cache in self.lanes[lane].l2.iter_mut().chain([&mut self.llc]).chain(buffer) {
            if let Some(slot) = cache.probe(line) {
                cache.set_tag(slot, tag);
            }
        }
    }

    /// Stores to a line that the lane owns in its first level, inside one aligned word. An
    /// adversary may write the line back then (rule 5).
    #[inline]
    pub(crate) fn store_here<B: Backing<T>>(
        &mut self,
        lane: usize,
        slot: Slot,
        at: PoolOffset,
        bytes: &[u8],
        below: &mut B,
    ) {
        let l1 = &mut self.lanes[lane].l1;
        l1.store(slot, at.in_line(), bytes);
        below.stored(at.line(), word_mask(at.in_line(), bytes.len()), l1.data(slot));
        if self.write_through {
            self.pass_through(lane, at.line(), slot, below);
        }
        if let Some(temper) = &mut self.temper
            && temper.writes_back(at.line())
        {
            self.write_back_unasked(at.line(), below);
        }
    }

    /// Puts a whole word into the lane's write-combining buffer, and takes the line out of all
    /// caches. What has to leave for it comes back: an older line where the buffer was full,
    /// and the line itself once it is complete.
    pub(crate) fn combine<B: Backing<T>>(
        &mut self,
        lane: usize,
        at: PoolOffset,
        word: &[u8; 8],
        below: &mut B,
    ) -> (Option<Leaving>, Option<Leaving>) {
        let line = at.line();
        let mut displaced = None;
        if !self.lanes[lane].wc.holds_words_of(line) {
            if self.lanes[lane].wc.is_full() {
                displaced = self.take_oldest_stream(lane);
            }
            self.make_way_for_stream(lane, line, below);
            self.streaming += 1;
        }
        let wc = &mut self.lanes[lane].wc;
        wc.put_words(line, at.in_line(), word);
        let complete = wc.take_complete(line);
        self.streaming -= usize::from(complete.is_some());
        self.traffic.memory_streams += u64::from(complete.is_some());
        (displaced, complete)
    }

    /// Takes the line that has been longest in the lane's write-combining buffer out of it.
    pub(crate) fn take_oldest_stream(&mut self, lane: usize) -> Option<Leaving> {
        let leaving = self.lanes[lane].wc.take_oldest()?;
        self.streaming -= 1;
        self.traffic.memory_streams += 1;
        Some(leaving)
    }

    /// The words of a line that wait in some write-combining buffer.
    pub(crate) fn streamed(&self, line: LineAddr) -> Option<(u8, LineBytes)> {
        self.lanes.iter().find_map(|lane| lane.wc.words_of(line))
    }

    /// Takes a line out of every cache and write-combining buffer, because a direct store is
    /// about to replace all of it.
    pub(crate) fn displace_for_direct_store<B: Backing<T>>(
        &mut self,
        lane: usize,
        line: LineAddr,
        below: &mut B,
    ) {
        self.make_way_for_stream(lane, line, below);
        self.traffic.memory_streams += 1;
    }

    /// Writes a line back because a scheme wants it; every cache keeps it, clean.
    /// Returns whether there was something to write.
    pub(crate) fn force<B: Backing<T>>(
        &mut self,
        line: LineAddr,
        cause: Cause,
        below: &mut B,
    ) -> bool {
        self.write_back(line, below, cause)
    }

    /// Takes a line out of all caches; memory has its newest bytes.
    pub(crate) fn invalidate(&mut self, line: LineAddr) {
        self.remove_everywhere(line);
    }

    /// Visits all lines of a level (1, 2 or 3; all lanes of it), with their tags and whether
    /// they are dirty in that level; the visitor may replace the tag. The buffer in front of memory is
    /// part of the last level.
    pub(crate) fn scan(&mut self, level: u8, mut visit: impl FnMut(LineAddr, bool, &mut T)) {
        self.scan_sets(level, |_, line, dirty, tag| visit(line, dirty, tag));
    }

    /// As [`scan`](Self::scan), with the number of each line's set.
    pub(crate) fn scan_sets(
        &mut self,
        level: u8,
        mut visit: impl FnMut(u64, LineAddr, bool, &mut T),
    ) {
        match level {
            1 => self.lanes.iter_mut().for_each(|lane| lane.l1.scan(&mut visit)),
            2 => self
                .lanes
                .iter_mut()
                .filter_map(|lane| lane.l2.as_mut())
                .for_each(|l2| l2.scan(&mut visit)),
            _ => {
                self.llc.scan(&mut visit);
                let (sets, ways) = self.llc.shape();
                if let Some(buffer) = &mut self.buffer {
                    // In sets of the last level, as the time of a scan has them.
                    let of_buffer = buffer.cache.shape().1;
                    buffer.cache.scan(|set, line, dirty, tag| {
                        visit(sets + set * of_buffer / ways, line, dirty, tag);
                    });
                }
            }
        }
    }
}
