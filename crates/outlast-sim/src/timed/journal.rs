//! Writes that became durable, each with its cycle.

use super::config::MachineConfig;
use super::drain::{Change, DrainCursor, KeepEvent};
use super::time::Cycle;
use crate::{
    cache::LineBytes,
    domain::DurableMemory,
    hierarchy::{Backing, Cause},
    journal::Journal,
    memory::Base,
};
use outlast_trace::{Domain, LineAddr, PoolOffset, TxId};
use rustc_hash::FxHashMap;

/// A [`Journal`] with the time of each of its entries, and of each acknowledgement.
///
/// A crash at cycle `t` leaves the base image with the first
/// [`entries_by(t)`](Self::entries_by) entries applied; the transactions in
/// [`acknowledged_by(t)`](Self::acknowledged_by) must be in it.
#[derive(Clone, Debug)]
pub struct TimedJournal {
    memory: DurableMemory<'static>,
    at: Vec<Cycle>,
    acknowledged: Vec<(Cycle, TxId)>,
    /// Epochs reported persisted.
    persisted: Vec<(Cycle, u64)>,
    /// Epochs that have ended.
    ended: Vec<EpochEnd>,
    /// Words as stores made them, in the order in which they became visible, where that is kept.
    stored: Option<Vec<(PoolOffset, [u8; 8])>>,
    /// Lines that a scheme keeps now, and every change of these.
    kept: FxHashMap<LineAddr, KeptLine>,
    keep_events: Vec<KeepEvent>,
    /// Lines that residual energy writes at most, and what each takes.
    pub(super) drain_lines: Option<usize>,
    pub(super) drain_line_nj: Option<f64>,
}

/// The end of an epoch of the run: all cores stood, and nothing that they had begun was half done.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct EpochEnd {
    /// Its number.
    pub epoch: u64,
    /// When.
    pub at: Cycle,
    /// The stores of [`TimedJournal::stored_words`] that came before.
    pub stores: usize,
    /// Where each core stood: instructions of its source before its next one, marks included.
    pub positions: Vec<u64>,
}

/// A line that is kept: its words, and the line that the array has.
#[derive(Clone, Debug)]
struct KeptLine {
    words: u8,
    data: LineBytes,
    under: LineBytes,
}

/// Puts words of a line over another.
pub(super) fn put(into: &mut LineBytes, words: u8, from: &LineBytes) {
    let (into, from) = (into.as_chunks_mut::<8>().0, from.as_chunks::<8>().0);
    for word in (0..8).filter(|word| words >> word & 1 == 1) {
        into[word] = from[word];
    }
}

impl TimedJournal {
    /// Nothing has become durable over `base`.
    pub(crate) fn new(base: Base<'static>, domain: Domain) -> Self {
        Self {
            memory: DurableMemory::new(base, domain),
            at: Vec::new(),
            acknowledged: Vec::new(),
            persisted: Vec::new(),
            ended: Vec::new(),
            stored: None,
            kept: FxHashMap::default(),
            keep_events: Vec::new(),
            drain_lines: None,
            drain_line_nj: None,
        }
    }

    /// The same with this machine's residual energy.
    pub(crate) fn with_drain(self, machine: &MachineConfig) -> Self {
        let lines = machine.adr.drain_lines as usize;
        let drain_line_nj = machine.memory.drain_line_nj();
        Self { drain_lines: (lines > 0).then_some(lines), drain_line_nj, ..self }
    }

    /// The same, keeping what cores store.
    pub(crate) fn with_stores(self) -> Self {
        Self { stored: Some(Vec::new()), ..self }
    }

    /// The lines that residual energy has to write, from the base image on.
    pub fn drains(&self) -> DrainCursor<'_> {
        DrainCursor::new(self)
    }

    pub(super) fn keep_events(&self) -> &[KeepEvent] {
        &self.keep_events
    }

    /// The entries, in order. Their operation numbers are all 0: time is what counts here.
    pub fn journal(&self) -> &Journal {
        &self.memory.journal
    }

    /// When an entry became durable.
    ///
    /// # Panics
    /// When there is no such entry.
    pub fn at(&self, entry: usize) -> Cycle {
        self.at[entry]
    }

    /// How many entries a crash at the end of this cycle finds.
    pub fn entries_by(&self, cycle: Cycle) -> usize {
        self.at.partition_point(|at| *at <= cycle)
    }

    /// The transactions that were acknowledged by the end of this cycle, in order.
    pub fn acknowledged_by(&self, cycle: Cycle) -> &[(Cycle, TxId)] {
        &self.acknowledged[..self.acknowledged.partition_point(|(at, _)| *at <= cycle)]
    }

    /// The last epoch that was reported persisted by the end of this cycle; 0 is memory at the start.
    pub fn persisted_by(&self, cycle: Cycle) -> u64 {
        let reported = &self.persisted[..self.persisted.partition_point(|(at, _)| *at <= cycle)];
        reported.last().map_or(0, |(_, epoch)| *epoch)
    }

    /// The epochs that were reported persisted, and when.
    pub fn persisted_epochs(&self) -> &[(Cycle, u64)] {
        &self.persisted
    }

    /// The epochs that have ended, in their order.
    pub fn ended_epochs(&self) -> &[EpochEnd] {
        &self.ended
    }

    /// The words that cores stored, each whole, in the order in which they became visible; none
    /// where [`Setup::stores`](crate::timed::Setup::stores) did not ask for them.
    pub fn stored_words(&self) -> &[(PoolOffset, [u8; 8])] {
        self.stored.as_deref().unwrap_or_default()
    }

    pub(crate) fn end_epoch(&mut self, at: Cycle, epoch: u64, positions: Vec<u64>) {
        let stores = self.stored_words().len();
        self.ended.push(EpochEnd { epoch, at, stores, positions });
    }

    /// Words of a line that a core streams past the caches.
    pub(crate) fn streamed(&mut self, line: LineAddr, words: u8, data: &LineBytes) {
        if let Some(stored) = &mut self.stored {
            let all = data.as_chunks::<8>().0.iter().enumerate();
            let kept = all.filter(|(word, _)| words >> word & 1 == 1);
            stored.extend(kept.map(|(word, bytes)| (line.start().plus(8 * word as u64), *bytes)));
        }
    }

    pub(crate) fn report_persisted(&mut self, now: Cycle, epoch: u64) {
        self.persisted.push((now, epoch));
    }

    pub(crate) fn acknowledge(&mut self, now: Cycle, tx: TxId) {
        self.acknowledged.push((now, tx));
    }

    pub(crate) fn persist(
        &mut self,
        now: Cycle,
        line: LineAddr,
        words: u8,
        data: &LineBytes,
        cause: Cause,
    ) {
        self.memory.write(line, words, data, cause, ());
        self.at.resize(self.memory.journal.len(), now);
    }

    /// A scheme keeps words of a line.
    pub(crate) fn keep(
        &mut self,
        now: Cycle,
        line: LineAddr,
        words: u8,
        data: &LineBytes,
        cause: Cause,
    ) {
        let under = self.memory.read(line);
        let change = match self.kept.get_mut(&line) {
            Some(kept) => {
                kept.words |= words;
                put(&mut kept.data, words, data);
                None
            }
            None => {
                self.kept.insert(line, KeptLine { words, data: *data, under });
                Some(Change::Over(under))
            }
        };
        self.changes(now, line, (words, data), cause, change);
    }

    /// It does no more: the array has what it had.
    pub(crate) fn unkeep(&mut self, now: Cycle, line: LineAddr, cause: Cause) {
        if let Some(kept) = self.kept.remove(&line) {
            self.changes(now, line, (u8::MAX, &kept.under), cause, Some(Change::Ended));
        }
    }

    /// Words become durable in the array, and the line that is kept there ends.
    pub(crate) fn persist_instead(
        &mut self,
        now: Cycle,
        line: LineAddr,
        words: u8,
        data: &LineBytes,
        cause: Cause,
    ) {
        if let Some(mut kept) = self.kept.remove(&line) {
            put(&mut kept.under, words, data);
            self.changes(now, line, (u8::MAX, &kept.under), cause, Some(Change::Ended));
        }
    }

    /// Words become durable in the array under a line that is kept.
    pub(crate) fn persist_under(
        &mut self,
        now: Cycle,
        line: LineAddr,
        words: u8,
        data: &LineBytes,
        cause: Cause,
    ) {
        let Some(kept) = self.kept.get_mut(&line) else { return };
        put(&mut kept.under, words, data);
        let (under, mut seen) = (kept.under, kept.under);
        put(&mut seen, kept.words, &kept.data);
        self.changes(now, line, (u8::MAX, &seen), cause, Some(Change::Over(under)));
    }

    /// An image gets these words, and residual energy another line to write or one less. Either is a
    /// crash point of its own, and so an entry, even where no word changes.
    fn changes(
        &mut self,
        now: Cycle,
        line: LineAddr,
        (words, data): (u8, &LineBytes),
        cause: Cause,
        change: Option<Change>,
    ) {
        let before = self.memory.journal.len();
        self.persist(now, line, words, data, cause);
        let Some(change) = change else { return };
        if self.memory.journal.len() == before {
            self.memory.journal.push(line, 0, &[], cause);
            self.at.resize(self.memory.journal.len(), now);
        }
        let entries = self.memory.journal.len();
        self.keep_events.push(KeepEvent { entries, line, change });
    }

    pub(crate) fn stored(&mut self, now: Cycle, line: LineAddr, words: u8, data: &LineBytes) {
        self.streamed(line, words, data);
        self.memory.stored(line, words, data);
        self.at.resize(self.memory.journal.len(), now);
    }
}
