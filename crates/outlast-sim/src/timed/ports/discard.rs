//! Lines that leave all caches unwritten: what a transaction stored that aborts.
//!
//! Words that were streamed past the caches stay, since no store port has seen them, and so does all
//! that has its place in memory: where that is, and what is put there again, the scheme says.

use super::Scheme;
use crate::{
    hierarchy::Backing,
    timed::{memory_system::MemorySystem, uncore::Uncore},
};
use outlast_trace::LineAddr;

impl<S: Scheme> Uncore<S> {
    /// Drops the lines that the scheme discards.
    pub(in crate::timed) fn serve_discards(&mut self) {
        for line in std::mem::take(&mut self.below.outbox.discarded) {
            self.caches.invalidate(line);
            self.below.discard_writes(line);
            self.below.is_as_before(line);
        }
    }
}

impl<S: Scheme> MemorySystem<S> {
    /// A line is again what memory has. Where caches are durable, that is news.
    fn is_as_before(&mut self, line: LineAddr) {
        if self.journal.is_some() {
            let data = self.read(line);
            self.stored(line, u8::MAX, &data);
        }
    }
}
