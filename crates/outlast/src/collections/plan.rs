//! The stores of an operation, gathered before the first of them.

use super::layout::word;
use crate::{Abort, ByteRange, PoolOffset, Transact};

/// Two changes at most this far apart become one range: a log record's head costs as much.
const GAP_BYTES_MAX: u64 = 16;

/// Stores that an operation has decided on. [`apply`](Self::apply) announces what needs it in
/// one call and then stores. Only the rare operations that move nodes build one; it allocates.
#[derive(Default)]
pub(super) struct Plan {
    announced: Vec<ByteRange>,
    stores: Vec<(PoolOffset, usize)>,
    bytes: Vec<u8>,
}

impl Plan {
    /// Stores into a block that others can already reach.
    pub(super) fn store(&mut self, at: PoolOffset, bytes: &[u8]) {
        self.announced.push(ByteRange::new(at, bytes.len() as u64));
        self.fill(at, bytes);
    }

    /// Stores into a block that this transaction allocated.
    pub(super) fn fill(&mut self, at: PoolOffset, bytes: &[u8]) {
        self.stores.push((at, bytes.len()));
        self.bytes.extend_from_slice(bytes);
    }

    /// Stores the words in which `new` differs from `old`, which is what the block holds.
    pub(super) fn store_changes(&mut self, at: PoolOffset, old: &[u8], new: &[u8]) {
        debug_assert!(old.len() == new.len() && old.len().is_multiple_of(8));
        let words = old.len() / 8;
        let differs = |i: usize| word(old, 8 * i) != word(new, 8 * i);
        let mut next = 0;
        while let Some(first) = (next..words).find(|&i| differs(i)) {
            next = (first + 1..words).find(|&i| !differs(i)).unwrap_or(words);
            self.store(at.plus(8 * first as u64), &new[8 * first..8 * next]);
        }
    }

    /// Announces and stores.
    pub(super) fn apply<T: Transact>(mut self, tx: &mut T) -> Result<(), Abort> {
        self.announced.sort_unstable_by_key(|range| range.at);
        self.announced.dedup_by(|later, earlier| {
            // Blocks of nodes begin with a line, so no range ever covers two of them.
            let end = earlier.end();
            let near = later.at.0 <= end.0 + GAP_BYTES_MAX
                && later.at.line() == PoolOffset(end.0 - 1).line();
            if near {
                earlier.len = earlier.len.max(later.end().0 - earlier.at.0);
            }
            near
        });
        tx.will_write(&self.announced)?;
        let mut bytes = &self.bytes[..];
        for (at, len) in self.stores {
            let (piece, rest) = bytes.split_at(len);
            tx.store(at, piece)?;
            bytes = rest;
        }
        Ok(())
    }
}
