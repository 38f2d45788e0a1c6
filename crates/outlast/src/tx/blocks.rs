//! The blocks of a transaction: taking them and giving them back, what becomes of both at its end,
//! and what it can ask about blocks.

use std::sync::MutexGuard;

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, PoolOffset};

use crate::abort::TooLarge;
use crate::alloc::{
    Block, Heap, HeapError, LaneHeap, Reserved, block_bytes_for, clear_bit, set_bit,
};
use crate::checksums::Deltas;
use crate::io::{Io, Site};
use crate::layout::Geometry;
use crate::plant::Plant;
use crate::scheme::{NewBlocks, under};
use crate::transact::{Abort, BlockKind};
use crate::tx::Tx;
use crate::writeback::{self, Reach};

impl<'p, M: Medium> Tx<'p, M> {
    /// The bytes and the kind of the allocated block that starts at `at`, as
    /// [`free`](crate::Transact::free) would find it.
    ///
    /// # Errors
    /// [`Abort::BadAddress`] when there is none. That is an answer and does not end the
    /// transaction, as [`Abort::Conflict`] does.
    pub fn block_at(&mut self, at: PoolOffset) -> Result<(u64, BlockKind), Abort> {
        self.refuse_unusable()?;
        let own = self.lane.buffers.allocated.iter().find(|block| block.at == at).copied();
        self.lane.pending.was_seen |= !self.lane.pending.is_empty();
        let found = own.map_or_else(|| self.find_block("looking for a block", at), Ok);
        let checked = match found {
            Err(Abort::Conflict) => Err(Abort::Conflict),
            // What led here may have been read from two different states.
            _ => self.validate_reads(),
        };
        self.note(checked)?;
        let block = found?;
        let heap = self.pool.heap.lock(&self.pool.medium);
        Ok((block.bytes, heap.kind_of(block)))
    }

    /// The allocated block that starts at `at`, unless this transaction has taken it itself.
    fn find_block(&mut self, what: &'static str, at: PoolOffset) -> Result<Block, Abort> {
        let (pool, io) = (self.pool, self.io());
        let (heap, geometry) = (&pool.heap, &pool.header().geometry);
        if self.is_among_others()
            && let Some(block) = self.lane.heap.find(io, geometry, at)
        {
            return Ok(block);
        }
        let found = {
            let mut heap = heap.lock(&pool.medium);
            let found = heap.find(io, at);
            if let Ok(block) = found
                && self.is_among_others()
            {
                self.lane.heap.note_found(io, geometry, &heap, block);
            }
            found
        };
        let found = match found {
            Err(HeapError::NotABlock(_)) if !self.lane.buffers.is_alone => {
                // Its owner's commit may have returned and be pending: that is waited for.
                let word = heap.lock(&self.pool.medium).word_of(at);
                if let Some(word) = word {
                    self.read_committed(word, &mut [0; 8])?;
                }
                heap.lock(&self.pool.medium).find(self.io(), at)
            }
            found => found,
        };
        found.map_err(|error| self.heap_error(error, what, at))
    }

    /// The bytes of the block that a request for `bytes` gets.
    pub fn block_bytes_for(&self, bytes: u64) -> u64 {
        block_bytes_for(bytes, &self.pool.header().geometry)
    }

    pub(crate) fn heap_error(&self, error: HeapError, what: &'static str, at: PoolOffset) -> Abort {
        match error {
            HeapError::Full => Abort::OutOfSpace { bytes: 0 },
            HeapError::Damaged { at, why } => Abort::damaged(format!("at {at}: {why}")),
            HeapError::NotABlock(why) => Abort::bad_address(what, at, why),
        }
    }

    /// Reserves something of the heap; when it is full, first what quarantine holds is freed,
    /// then the pool grows if it may.
    pub(crate) fn reserve<R>(
        &mut self,
        bytes: u64,
        mut from: impl FnMut(&mut Heap, &mut LaneHeap, Io<'p, M>, &dyn Fn()) -> Result<R, HeapError>,
    ) -> Result<R, Abort> {
        let pool = self.pool;
        let id = self.lane.id;
        let settle = || pool.settle(id);
        // Sweeping shortens no append-only log.
        let mut swept = pool.facts.keeps_chunks;
        loop {
            let mut heap = pool.heap.lock(&pool.medium);
            let of_lane = &mut self.lane.heap;
            of_lane.tell(&mut heap);
            let waiting = heap.has_quarantine();
            let reserved = from(&mut heap, of_lane, pool.io(), &settle);
            heap.drain_changed().for_each(|range| pool.checkpointer.changes.mark_range(range));
            match reserved {
                Ok(reserved) => return Ok(reserved),
                Err(HeapError::Full) => {
                    drop(heap);
                    if waiting && !swept {
                        swept = true;
                        writeback::sweep(pool, self.lane.id, Reach::All);
                    } else {
                        pool.grow_for(bytes)?;
                    }
                }
                Err(error) => return Err(self.heap_error(error, "allocating", PoolOffset(0))),
            }
        }
    }

    pub(crate) fn alloc_any(&mut self, bytes: u64, kind: BlockKind) -> Result<PoolOffset, Abort> {
        let geometry = self.pool.header().geometry;
        if bytes > geometry.block_bytes_max() {
            return Err(block_too_large(&geometry, bytes));
        }
        self.begin_writing()?;
        if self.is_among_others() && bytes > 0 {
            let bytes = self.block_bytes_for(bytes);
            if let Some(block) = self.lane.heap.take(bytes, kind) {
                return Ok(self.took(block));
            }
        }
        let (id, bias) = (self.lane.id, &self.pool.bias);
        let chunk_bytes = self.pool.header().geometry.chunk_bytes;
        let is_anothers = |at| bias.is_anothers(ByteRange::new(at, chunk_bytes), id);
        let takes_ahead = self.is_among_others();
        let block = self.reserve(bytes, |heap, of_lane, io, settle| {
            let block = heap.reserve(io, bytes, kind, id, &is_anothers, settle)?;
            if takes_ahead {
                of_lane.take_ahead(heap, block, kind);
            }
            Ok(block)
        })?;
        Ok(self.took(block))
    }

    /// Whether the lane would meet others at the heap.
    fn is_among_others(&self) -> bool {
        !self.lane.buffers.is_alone && self.pool.bias.is_there()
    }

    /// The transaction has taken a block. Returns where it is.
    fn took(&mut self, block: Block) -> PoolOffset {
        let whole = ByteRange::new(block.at, block.bytes);
        under!(self.pool.scheme(), D => D::took(self.pool, whole));
        self.lane.buffers.has_lines_only = false;
        self.lane.buffers.allocated.push(block);
        match self.pool.facts.new_blocks {
            NewBlocks::BySize if self.logs_contents(block) && !self.is_one_of_many(whole) => {}
            NewBlocks::InWriteSet => {}
            // Nothing of a batch of several transactions is merged, since each may be taken back.
            _ if !self.lane.pending.is_empty() => self.lane.buffers.add_fresh(whole),
            _ => self.lane.buffers.add_fresh_beside(whole),
        }
        if self.io().plants(Plant::AllocationEager) {
            self.store_allocation(block, true);
            self.io().flush_line(Site::UndoData, reserved_word(block).line());
            self.io().fence(Site::UndoData);
        } else if self.pool.facts.logs_old_bits {
            self.note_old_allocation(block, false);
        }
        block.at
    }

    /// Whether the record of a redo, or a seal, takes along what is stored to a new block.
    pub(crate) fn logs_contents(&self, block: Block) -> bool {
        block.bytes <= self.pool.plan.logs_blocks_up_to
            && matches!(block.reserved, Reserved::Bit { .. })
    }

    /// Whether a record leaves out the contents of this new block: the transaction has taken many, and it lies near those
    /// that were left out, so that one write takes them all.
    fn is_one_of_many(&self, block: ByteRange) -> bool {
        const NEAR: u64 = 8 << 10;
        let (before, buffers) = (self.lane.pending.before(), &self.lane.buffers);
        if buffers.allocated.len() - before.allocated <= self.pool.plan.logs_blocks {
            return false;
        }
        let fresh = &buffers.fresh[before.fresh..];
        let is_near = |range: &ByteRange| block.at.0.wrapping_sub(range.end().0) <= NEAR;
        fresh.is_empty() || fresh.iter().rev().any(is_near)
    }

    /// Whether there are new blocks whose contents the seal leaves out.
    pub(crate) fn has_unsealed_blocks(&self) -> bool {
        self.lane.buffers.allocated.iter().any(|block| !self.logs_contents(*block))
    }

    /// Finds the new blocks whose contents the seal takes along. Whether there are any.
    pub(crate) fn find_sealed_blocks(&mut self) -> bool {
        let mut blocks = std::mem::take(&mut self.lane.buffers.sealed.blocks);
        blocks.replace(self.taken().filter(|block| self.logs_contents(*block)));
        self.lane.buffers.sealed.blocks = blocks;
        !self.lane.buffers.sealed.blocks.is_empty()
    }

    pub(crate) fn free_any(&mut self, at: PoolOffset) -> Result<(), Abort> {
        let bad = |why| Abort::bad_address("freeing", at, why);
        self.begin_writing()?;
        let buffers = &mut self.lane.buffers;
        if buffers.has_freed(at) {
            return Err(bad("this transaction has freed it already"));
        }
        if let Some(index) = buffers.allocated.iter().position(|block| block.at == at) {
            // Taken and given back in one transaction. The reservation ends with it: stores
            // may still follow through this address.
            let block = buffers.allocated[index];
            buffers.add_freed(block);
            return Ok(());
        }
        // A lane that gives the block back has this lock, so it is found given back already or not at all.
        self.lock_line(at.line())?;
        let block = match self.find_block("freeing", at) {
            Ok(block) => block,
            Err(error) => {
                // What led here may have been read from two different states.
                self.validate_reads()?;
                return Err(error);
            }
        };
        // The next owner stores without locks. Raising the versions now makes every reader that
        // still holds the address notice.
        if !self.lane.buffers.is_alone {
            for line in ByteRange::new(block.at, block.bytes).lines().skip(1) {
                self.lock_line(line)?;
            }
        }
        if self.io().plants(Plant::FreedAtOnce) {
            self.pool.heap.lock(&self.pool.medium).release(block);
        }
        self.lane.buffers.add_freed(block);
        if self.pool.facts.logs_old_bits {
            self.note_old_allocation(block, true);
        }
        Ok(())
    }

    /// Blocks that this transaction really takes: allocated and not freed again.
    pub(crate) fn taken(&self) -> impl Iterator<Item = Block> + '_ {
        let buffers = &self.lane.buffers;
        buffers.allocated.iter().filter(|b| !buffers.freed.contains(b)).copied()
    }

    /// Blocks that this transaction really gives back: freed and not its own.
    pub(crate) fn given_back(&self) -> impl Iterator<Item = Block> + '_ {
        let buffers = &self.lane.buffers;
        buffers.freed.iter().filter(|b| !buffers.allocated.contains(b)).copied()
    }

    /// Stores a block's durable word: allocated or not. Other transactions own other bits of the
    /// word: its line must be locked, or the heap, or the lane alone.
    pub(crate) fn store_allocation(&self, block: Block, allocated: bool) {
        let medium = &self.pool.medium;
        match block.reserved {
            Reserved::Bit { word, bit, .. } => {
                let change = if allocated { set_bit } else { clear_bit };
                // It proved itself when its chunk was read. A store through a damaged pointer may have hit it
                // since: it stays unproven, and the next opening and every check name it.
                let _ = change(medium, word, bit);
            }
            Reserved::Run { word, large, .. } => {
                let free = crate::alloc::ChunkWord::Free;
                medium.store_u64(word, if allocated { large } else { free }.to_word(word));
            }
        }
        let changes = &self.pool.checkpointer.changes;
        changes.mark(reserved_word(block));
        if let Reserved::Run { chunk, chunks, .. } = block.reserved
            && self.pool.matrices.is_some()
        {
            // Its checksums lie between its lines, and take in what it held before.
            let geometry = &self.pool.header().geometry;
            let len = chunks * geometry.chunk_bytes;
            changes.mark_range(ByteRange::new(geometry.chunk_at(chunk), len));
        }
    }

    /// Stores the durable words of all blocks taken and given back.
    #[inline]
    pub(crate) fn store_allocations(&self) {
        if !self.lane.buffers.allocated.is_empty() || !self.lane.buffers.freed.is_empty() {
            self.store_all_allocations();
        }
    }

    fn store_all_allocations(&self) {
        let _heap = self.lock_bits();
        self.taken().for_each(|block| self.store_allocation(block, true));
        self.given_back().for_each(|block| self.store_allocation(block, false));
    }

    /// Keeps others from the words of blocks. A lane that is alone, or has locked their lines, needs
    /// no lock for that, which behind the commit's fence would wait for it.
    fn lock_bits(&self) -> Option<MutexGuard<'p, Heap>> {
        let needs_none = self.lane.buffers.is_alone || self.pool.facts.locks_at_commit;
        (!needs_none).then(|| self.pool.heap.lock(&self.pool.medium))
    }

    /// As [`store_allocations`](Self::store_allocations), and notes what that changes in the
    /// checksums.
    pub(crate) fn store_summed_allocations(&mut self, deltas: &mut Deltas) {
        if self.lane.buffers.allocated.is_empty() && self.lane.buffers.freed.is_empty() {
            return;
        }
        let _heap = self.lock_bits();
        let changes = self.taken().map(|block| (block, true));
        for (block, allocated) in changes.chain(self.given_back().map(|b| (b, false))) {
            let word = reserved_word(block);
            let was = self.pool.medium.load_u64(word);
            self.store_allocation(block, allocated);
            if matches!(block.reserved, Reserved::Bit { .. }) {
                deltas.word(word, was, self.pool.medium.load_u64(word));
            }
        }
    }

    /// Starts the write-back of those words.
    pub(crate) fn flush_allocations(&self, site: Site) {
        if self.io().plants(Plant::AllocationNotLogged) {
            return;
        }
        for block in self.taken().chain(self.given_back()) {
            self.io().flush_line(site, reserved_word(block).line());
        }
    }

    /// Nothing of this transaction happened: reservations end.
    pub(crate) fn drop_reservations(&mut self) {
        self.leave_fresh();
        let from = self.lane.pending.before().allocated;
        let buffers = &mut self.lane.buffers;
        if buffers.allocated.len() == from && buffers.regions.is_empty() {
            return;
        }
        let mut heap = self.pool.heap.lock(&self.pool.medium);
        buffers.allocated.drain(from..).for_each(|block| heap.release(block));
        buffers.regions.drain(..).for_each(|region| heap.release_region(region));
    }
}

/// The durable word that says whether the block is allocated.
pub(crate) fn reserved_word(block: Block) -> PoolOffset {
    match block.reserved {
        Reserved::Bit { word, .. } | Reserved::Run { word, .. } => word,
    }
}

/// No pool of this geometry has such a block; one of larger chunks may.
#[cold]
fn block_too_large(geometry: &Geometry, asked: u64) -> Abort {
    Abort::TooLarge(Box::new(TooLarge {
        what: "a block",
        asked,
        largest: geometry.block_bytes_max(),
        chunk_bytes: geometry.chunk_bytes_for(asked),
    }))
}
