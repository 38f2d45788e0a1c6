//! What a transaction can ask about blocks, for callers that say more of them than Rust's do.

use outlast_pmem::Medium;
use outlast_trace::PoolOffset;

use crate::alloc::block_bytes_for;
use crate::transact::{Abort, BlockKind};
use crate::tx::Tx;

impl<M: Medium> Tx<'_, M> {
    /// The bytes and the kind of the allocated block that starts at `at`, as
    /// [`free`](crate::Transact::free) would find it.
    ///
    /// # Errors
    /// [`Abort::BadAddress`] when there is none. That is an answer and does not end the
    /// transaction, as [`Abort::Conflict`] does.
    pub fn block_at(&mut self, at: PoolOffset) -> Result<(u64, BlockKind), Abort> {
        let own = self.lane.buffers.allocated.iter().find(|block| block.at == at).copied();
        let mut heap = self.pool.heap.lock(&self.pool.medium);
        let found = own.map_or_else(|| heap.find(self.io(), at), Ok);
        let answer = found.map(|block| (block.bytes, heap.kind_of(block)));
        drop(heap);
        // What led here may have been read from two different states.
        let checked = self.validate_reads();
        self.note(checked)?;
        answer.map_err(|error| self.heap_error(error, "looking for a block", at))
    }

    /// The bytes that a block really has which is asked for with so many.
    pub fn block_bytes_for(&self, bytes: u64) -> u64 {
        block_bytes_for(bytes, self.pool.header().geometry.chunk_bytes)
    }
}
