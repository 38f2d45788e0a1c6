//! Durable state outside the array: lines of a buffer or table in the persistence domain.
//!
//! A line is kept under its place in the array. At a crash residual energy writes the kept lines
//! there, in the order in which they were first kept ([`DrainCursor`](crate::timed::DrainCursor) says
//! which). A kept line ends when a write of it that was asked for later is durable, or when the scheme
//! drops it: then the array has what it had before.

use super::Scheme;
use crate::{
    cache::LineBytes,
    hierarchy::Cause,
    timed::{journal::put, memory_system::MemorySystem, time::Cycle},
};
use outlast_trace::LineAddr;
use rustc_hash::FxHashMap;

/// A line that a scheme keeps in the persistence domain, outside the array.
#[derive(Clone, Debug)]
pub struct Kept {
    /// Its place in the array.
    pub line: LineAddr,
    /// The words kept, a bit for each.
    pub words: u8,
    /// The line with them.
    pub data: LineBytes,
    /// The cause in the journal.
    pub cause: Cause,
}

/// How many lines were kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeptStats {
    /// The most at a time.
    pub lines_max: u64,
    /// Sum over cycles of the lines that were kept.
    pub line_cycles: u64,
}

#[derive(Clone, Debug)]
struct KeptLine {
    /// Its place among all that was kept and written, where it was kept last.
    order: u64,
    cause: Cause,
    /// The line without it.
    under: LineBytes,
}

/// The lines that are kept now.
#[derive(Debug, Default)]
pub(in crate::timed) struct KeptLines {
    lines: FxHashMap<LineAddr, KeptLine>,
    stats: KeptStats,
    counted: Cycle,
}

impl KeptLines {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Counts what was kept up to now.
    fn pass(&mut self, now: Cycle) {
        self.stats.line_cycles += self.lines.len() as u64 * now.since(self.counted);
        self.counted = self.counted.max(now);
    }

    /// The counts; counting starts again.
    pub(in crate::timed) fn take_stats(&mut self, now: Cycle) -> KeptStats {
        self.pass(now);
        let again = KeptStats { lines_max: self.lines.len() as u64, line_cycles: 0 };
        std::mem::replace(&mut self.stats, again)
    }

    fn remove(&mut self, now: Cycle, line: LineAddr) -> Option<KeptLine> {
        self.pass(now);
        self.lines.remove(&line)
    }
}

impl<S: Scheme> MemorySystem<S> {
    /// Keeps lines and drops kept ones, as the scheme asks, and notes which epoch has persisted.
    pub(in crate::timed) fn serve_kept(&mut self) {
        let now = self.now();
        if let (Some(epoch), Some(journal)) = (self.outbox.persisted.take(), &mut self.journal) {
            journal.report_persisted(now, epoch);
        }
        let mut new = std::mem::take(&mut self.outbox.kept);
        for (order, Kept { line, words, data, cause }) in new.drain(..) {
            self.kept.pass(now);
            let under = self.memory.read(line);
            let first = KeptLine { order, cause, under };
            let kept = self.kept.lines.entry(line).or_insert(first);
            (kept.order, kept.cause) = (order, cause);
            let stats = &mut self.kept.stats;
            stats.lines_max = stats.lines_max.max(self.kept.lines.len() as u64);
            self.memory.write(line, words, &data);
            if let Some(journal) = &mut self.journal {
                journal.keep(now, line, words, &data, cause);
            }
        }
        self.outbox.kept = new; // Keeps the allocation.
        let mut dropped = std::mem::take(&mut self.outbox.unkept);
        for line in dropped.drain(..) {
            let Some(KeptLine { cause, under, .. }) = self.kept.remove(now, line) else { continue };
            self.memory.write(line, u8::MAX, &under);
            if let Some(journal) = &mut self.journal {
                journal.unkeep(now, line, cause);
            }
        }
        self.outbox.unkept = dropped;
    }

    /// A write of a line is durable in the array.
    pub(super) fn array_has(
        &mut self,
        line: LineAddr,
        words: u8,
        data: &LineBytes,
        cause: Cause,
        order: u64,
    ) {
        let now = self.now();
        let is_older = self.kept.lines.get(&line).map(|kept| order < kept.order);
        if is_older == Some(false)
            && let Some(mut kept) = self.kept.remove(now, line)
        {
            put(&mut kept.under, words, data);
            self.memory.write(line, u8::MAX, &kept.under);
        }
        let Some(journal) = &mut self.journal else { return };
        match is_older {
            None => journal.persist(now, line, words, data, cause),
            Some(true) => journal.persist_under(now, line, words, data, cause),
            Some(false) => journal.persist_instead(now, line, words, data, cause),
        }
    }
}
