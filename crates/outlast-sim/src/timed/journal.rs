//! What became durable, and at which cycle.

use super::time::Cycle;
use crate::{
    cache::LineBytes,
    domain::{Domain, DurableMemory},
    hierarchy::{Backing, Cause},
    journal::Journal,
};
use outlast_trace::{LineAddr, TxId};

/// A [`Journal`] with the time of each of its entries, and of each acknowledgement.
///
/// A crash at cycle `t` leaves the base image with the first
/// [`entries_by(t)`](Self::entries_by) entries applied; the transactions in
/// [`acknowledged_by(t)`](Self::acknowledged_by) must be in it.
#[derive(Clone, Debug)]
pub struct TimedJournal {
    memory: DurableMemory,
    at: Vec<Cycle>,
    acknowledged: Vec<(Cycle, TxId)>,
}

impl TimedJournal {
    /// Nothing has become durable over `base`.
    pub fn new(base: Vec<u8>, domain: Domain) -> Self {
        Self { memory: DurableMemory::new(base, domain), at: Vec::new(), acknowledged: Vec::new() }
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

    pub(crate) fn stored(&mut self, now: Cycle, line: LineAddr, words: u8, data: &LineBytes) {
        self.memory.stored(line, words, data);
        self.at.resize(self.memory.journal.len(), now);
    }
}
