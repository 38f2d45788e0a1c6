//! What the history unit does for literal variants: it learns of commits from their lanes, finishes
//! what is pending when somebody touches it, and tells whose objects are none of them pending.

use outlast_pmem::Medium;
use outlast_trace::LineAddr;

use super::{History, Object};
use crate::io::{Io, Site};
use crate::pool::Pool;

/// A transaction that is over, as its lane hands it over.
pub(crate) struct Ended {
    /// The number that its log is dropped under: no record of it has a greater one.
    pub counter: u64,
    /// Position behind its last record.
    pub head: u64,
    /// The lines that are to be flushed, or believed to be written back; none of one that aborted.
    pub lines: Vec<LineAddr>,
}

impl History {
    /// The same unit, for literal variants.
    pub fn literally(self, is_literal: bool) -> Self {
        Self { is_literal, ..self }
    }

    /// Looks at every transaction of a lane that has ended since the last time.
    pub(super) fn drain_ended<M: Medium>(&mut self, pool: &Pool<M>, id: usize) {
        let ended = std::mem::take(&mut *pool.lanes[id].ended.lock(&pool.medium));
        for Ended { counter, head, lines } in ended {
            lines.iter().for_each(|line| self.expect_write(*line, counter, false));
            self.note_writes(id);
            self.lanes[id].parts.push_back((counter, head));
            self.lanes[id].drained = head;
        }
    }

    /// A commit stored to an object that is pending since an older one: bitmaps are, which many
    /// share. Both wait for it.
    pub(super) fn note_again(&mut self, lane: usize, counter: u64, object: Object) {
        self.lanes[lane].pending[0].push_back((counter, object));
    }

    /// Somebody touches these lines: flushes the objects that are pending of them. `true` when
    /// there is something to be fenced.
    pub fn finish<M: Medium>(
        &mut self,
        io: Io<'_, M>,
        lines: impl Iterator<Item = LineAddr>,
    ) -> bool {
        let mut flushed = false;
        for object in lines.map(|line| Object::of(line).0) {
            if let Some(pending) = self.pending.take_if(object.0, |_| true) {
                pending.flush(io, object, Site::AgedOut);
                flushed = true;
            }
        }
        flushed
    }

    /// The lines that have left the queue while they were pending, since the last time.
    pub fn take_aged(&mut self) -> Vec<LineAddr> {
        std::mem::take(&mut self.aged)
    }

    /// How far a lane's log can be dropped: up to the first transaction with a pending object. The
    /// number and the position behind the last one before it; `None` when there is nothing new.
    pub fn drop_resolved(&mut self, id: usize) -> Option<(u64, u64)> {
        let Self { lanes, pending, .. } = self;
        let lane = &mut lanes[id];
        let order = &mut lane.pending[0];
        let is_pending =
            |since, object: Object| pending.get(object.0).is_some_and(|p| p.since <= since);
        while order.front().is_some_and(|(since, object)| !is_pending(*since, *object)) {
            order.pop_front();
        }
        let first_pending = order.front().map_or(u64::MAX, |(since, _)| *since);
        let mut dropped = None;
        while let Some(part) = lane.parts.front().copied().filter(|p| p.0 < first_pending) {
            lane.parts.pop_front();
            lane.swept = part.1;
            dropped = Some(part);
        }
        dropped
    }

    /// Whether the log of that transaction still stands.
    pub fn is_logged(&self, counter: u64) -> bool {
        self.lanes.iter().any(|lane| lane.parts.iter().any(|part| part.0 == counter))
    }
}
