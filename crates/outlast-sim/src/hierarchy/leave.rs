//! How lines go to memory other than by eviction: flushed, streamed past the caches, or written
//! back unasked.

use super::{Backing, Cause, Hierarchy, Lane};
use crate::cache::{Contents, Evicted, LineBytes, LineTag, Slot};
use outlast_trace::{FlushKind, LaneId, LineAddr, PoolOffset, line_pieces};

/// After a non-temporal store words leave the lane's buffer with no need, until this chance of
/// one more fails: one word on average.
const STREAMED_EARLY_ONE_IN: u64 = 2;

impl<T: LineTag> Hierarchy<T> {
    /// Writes the line back to memory if any cache, of whichever lane, has newer bytes, and
    /// with `clflush` and `clflushopt` removes it everywhere. Returns whether it was dirty.
    ///
    /// Words of the line in a write-combining buffer stay there: a flush doesn't order them.
    pub fn flush<B: Backing<T>>(&mut self, kind: FlushKind, line: LineAddr, below: &mut B) -> bool {
        let dirty = self.write_back(line, below, Cause::Flushed);
        if dirty {
            self.traffic.memory_flushes += 1;
        } else {
            self.traffic.flushes_clean += 1;
        }
        if kind != FlushKind::Clwb {
            self.remove_everywhere(line);
        }
        dirty
    }

    /// Completes a flush whose bytes were taken earlier: `data` reaches memory now. The line
    /// becomes clean, or leaves, only if no lane has stored to it since; returns whether that was
    /// so, and memory now has the newest bytes.
    pub fn complete_flush<B: Backing<T>>(
        &mut self,
        kind: FlushKind,
        line: LineAddr,
        data: &LineBytes,
        below: &mut B,
    ) -> bool {
        let newest = self.newest(line).is_some_and(|(newest, _)| newest == *data);
        if newest {
            self.flush(kind, line, below);
        } else {
            self.traffic.memory_flushes += 1;
            below.write(line, u8::MAX, data, Cause::Flushed, T::default());
        }
        newest
    }

    /// Streams whole aligned words past the caches. Each may reach memory at any time from now
    /// on, and has by the end of the lane's next [`drain_streams`](Self::drain_streams).
    ///
    /// # Panics
    /// When `at` or the number of bytes is not a multiple of 8.
    pub fn stream<B: Backing<T>>(
        &mut self,
        lane: LaneId,
        at: PoolOffset,
        bytes: &[u8],
        below: &mut B,
    ) {
        assert!(
            at.is_aligned(8) && bytes.len().is_multiple_of(8),
            "a non-temporal store of {} bytes at {at} is not of whole words",
            bytes.len()
        );
        let lane = self.check(lane);
        let mut rest = bytes;
        for (at, len) in line_pieces(at, bytes.len()) {
            let (piece, tail) = rest.split_at(len);
            rest = tail;
            let line = at.line();
            if !self.lanes[lane].wc.holds_words_of(line) {
                self.make_way_for_stream(lane, line, below);
                self.streaming += 1;
            }
            self.lanes[lane].wc.put_words(line, at.in_line(), piece);
            self.let_some_go(lane, below);
        }
    }

    /// Streams a whole line past the caches, which reaches memory in one piece (MOVDIR64B).
    pub fn stream_line<B: Backing<T>>(
        &mut self,
        lane: LaneId,
        line: LineAddr,
        data: &LineBytes,
        below: &mut B,
    ) {
        let lane = self.check(lane);
        self.make_way_for_stream(lane, line, below);
        self.streaming += 1;
        self.lanes[lane].wc.put_line(line, data);
        self.let_some_go(lane, below);
    }

    /// Empties the lane's write-combining buffer: what a fence does first.
    #[inline]
    pub fn drain_streams<B: Backing<T>>(&mut self, lane: LaneId, below: &mut B) {
        let lane = self.check(lane);
        while let Some(line) = self.lanes[lane].wc.oldest() {
            self.let_go_all(lane, line, below);
        }
    }

    /// The adversary writes a line back that no lane flushed.
    pub(super) fn write_back_unasked<B: Backing<T>>(&mut self, line: LineAddr, below: &mut B) {
        if self.write_back(line, below, Cause::Unasked) {
            self.traffic.memory_unasked += 1;
        }
    }

    /// Ends all streaming of a line, in whichever lane, because a cache is about to hold it.
    pub(super) fn stop_streaming<B: Backing<T>>(&mut self, line: LineAddr, below: &mut B) {
        for lane in 0..self.lanes.len() {
            if self.lanes[lane].wc.holds(line) {
                self.let_go_all(lane, line, below);
            }
        }
    }

    /// Memory gets the newest bytes if it has not; every cache keeps a clean copy of them.
    pub(super) fn write_back<B: Backing<T>>(
        &mut self,
        line: LineAddr,
        below: &mut B,
        cause: Cause,
    ) -> bool {
        let Some((data, true, tag)) = self.newest_tagged(line) else { return false };
        let is_from_buffer = !self.clean_everywhere(line, &data);
        if cause != Cause::Evicted && self.is_kept_in_buffer(line, &data, tag, below) {
            return false;
        }
        self.passes_buffer(line, &data, is_from_buffer, below);
        below.write(line, u8::MAX, &data, cause, tag);
        true
    }

    /// Makes every copy above the buffer a clean one of `data`, which is on its way down. Whether one
    /// of them was dirty.
    pub(super) fn clean_everywhere(&mut self, line: LineAddr, data: &LineBytes) -> bool {
        let mut was_dirty = false;
        for lane in &mut self.lanes {
            was_dirty |= lane.newest(line).is_some_and(|held| held.dirty);
            lane.clean(line, data);
        }
        if let Some(slot) = self.llc.probe(line) {
            was_dirty |= self.llc.is_dirty(slot);
            self.llc.clean(slot, data);
        }
        was_dirty
    }

    /// A store that went into the first level goes on to the next, and leaves it clean (C5).
    pub(super) fn pass_through<B: Backing<T>>(
        &mut self,
        lane: usize,
        line: LineAddr,
        slot: Slot,
        below: &mut B,
    ) {
        let Self { lanes, llc, .. } = self;
        let Lane { l1, l2, .. } = &mut lanes[lane];
        let (data, tag) = (*l1.data(slot), l1.tag(slot));
        let contents = Contents { data, dirty: true, owned: true, tag };
        let level = if l2.is_some() { 2 } else { 3 };
        let lower = l2.as_mut().unwrap_or(llc);
        let at = lower.probe(line).expect("C3: the level below holds it too");
        lower.take_over(at, &contents);
        l1.clean(slot, &data);
        below.moved_down(level, line, &contents);
    }

    /// A line leaves a lane's private levels for the last one, which has its newest bytes then.
    pub(crate) fn hand_down<B: Backing<T>>(&mut self, lane: usize, line: LineAddr, below: &mut B) {
        if let Some(contents) = self.lanes[lane].take(line) {
            self.put_into_llc(Evicted { line, contents }, below);
        }
    }

    pub(super) fn remove_everywhere(&mut self, line: LineAddr) {
        for lane in &mut self.lanes {
            lane.take(line);
        }
        self.llc.remove(line);
        if let Some(buffer) = &mut self.buffer {
            buffer.cache.remove(line);
        }
    }

    /// Before a line enters a lane's write-combining buffer: older streams of it are done, no
    /// cache holds it (C4), and there is room.
    pub(super) fn make_way_for_stream<B: Backing<T>>(
        &mut self,
        lane: usize,
        line: LineAddr,
        below: &mut B,
    ) {
        self.stop_streaming(line, below);
        if self.write_back(line, below, Cause::Evicted) {
            self.traffic.memory_evictions += 1;
        }
        self.remove_everywhere(line);
        if self.lanes[lane].wc.is_full()
            && let Some(oldest) = self.lanes[lane].wc.oldest()
        {
            self.let_go_all(lane, oldest, below);
        }
    }

    fn let_some_go<B: Backing<T>>(&mut self, lane: usize, below: &mut B) {
        while self.rng.one_in(STREAMED_EARLY_ONE_IN)
            && let Some(line) = self.lanes[lane].wc.any(&mut self.rng)
        {
            self.let_go(lane, line, below);
        }
    }

    fn let_go_all<B: Backing<T>>(&mut self, lane: usize, line: LineAddr, below: &mut B) {
        while self.let_go(lane, line, below) {}
    }

    /// Lets one word of a streamed line reach memory, or all of it where it moves as one.
    /// Returns whether there is more.
    fn let_go<B: Backing<T>>(&mut self, lane: usize, line: LineAddr, below: &mut B) -> bool {
        let Some(leaving) = self.lanes[lane].wc.let_go(line, &mut self.rng) else { return false };
        below.write(line, leaving.words, &leaving.data, Cause::Streamed, T::default());
        if leaving.last {
            self.streaming -= 1;
            self.traffic.memory_streams += 1;
        }
        !leaving.last
    }
}
