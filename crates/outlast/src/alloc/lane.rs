//! A lane's share of the heap, so that lanes beside each other seldom wait for its lock: blocks
//! taken ahead, blocks given back that it has not told of yet, and what it knows of chunks.
//!
//! All of it is volatile, and small: where the heap is full, others may miss so much.

use outlast_pmem::Medium;
use outlast_trace::PoolOffset;

use super::class::ChunkShape;
use super::directory::{bit_of, load_bitmap};
use super::heap::{Block, Heap, Reserved};
use crate::io::Io;
use crate::layout::Geometry;
use crate::sealed::without_place;
use crate::seq::Seq;
use crate::transact::BlockKind;

/// Blocks up to this size are taken ahead, and kept when they were given back.
const BYTES_MAX: u64 = 1024;

/// Blocks of a class that are taken ahead.
const SPARES_MAX: usize = 8;

/// Blocks given back that are kept.
const FREED_MAX: usize = 32;

/// A lane's part of the heap's bookkeeping.
#[derive(Default)]
pub(crate) struct LaneHeap {
    /// By bytes and kind.
    spares: Vec<((u64, BlockKind), Vec<Block>)>,
    freed: Vec<(Seq, Block)>,
    /// A bit for each chunk that the heap has read, as far as the lane knows.
    known: Vec<u64>,
    /// The shapes of chunks, by their directory words without the place.
    shapes: Vec<(u64, ChunkShape)>,
}

impl LaneHeap {
    /// A block that was taken ahead.
    #[inline]
    pub fn take(&mut self, bytes: u64, kind: BlockKind) -> Option<Block> {
        let spares = self.spares.iter_mut().find(|(of, _)| *of == (bytes, kind));
        spares.and_then(|(_, blocks)| blocks.pop())
    }

    /// Takes others like this block, for later, from where it comes from.
    pub fn take_ahead(&mut self, heap: &mut Heap, block: Block, kind: BlockKind) {
        if block.bytes > BYTES_MAX {
            return;
        }
        let of = (block.bytes, kind);
        let at = self.spares.iter().position(|(other, _)| *other == of).unwrap_or_else(|| {
            self.spares.push((of, Vec::with_capacity(SPARES_MAX)));
            self.spares.len() - 1
        });
        let spares = &mut self.spares[at].1;
        while spares.len() < SPARES_MAX
            && let Some(more) = heap.take_beside(block, kind)
        {
            spares.push(more);
        }
        // The first is the next.
        spares.reverse();
    }

    /// Those blocks were freed by that commit. `false` when the heap has to be told at once.
    pub fn keep_freed(&mut self, seq: Seq, blocks: &[Block]) -> bool {
        let are_small = blocks.iter().all(|block| block.bytes <= BYTES_MAX);
        let are_kept = are_small && self.freed.len() + blocks.len() <= FREED_MAX;
        if are_kept {
            self.freed.extend(blocks.iter().map(|block| (seq, *block)));
        }
        are_kept
    }

    /// Tells the heap what was given back.
    pub fn tell(&mut self, heap: &mut Heap) {
        self.freed.drain(..).for_each(|(seq, block)| heap.release_after(seq, block));
    }

    /// Leaves nothing.
    pub fn give_back(&mut self, heap: &mut Heap) {
        self.tell(heap);
        let spares = self.spares.iter_mut().flat_map(|(_, blocks)| blocks.drain(..));
        spares.for_each(|block| heap.release(block));
    }

    /// Whether there is anything to give back.
    pub fn has_some(&self) -> bool {
        !self.freed.is_empty() || self.spares.iter().any(|(_, blocks)| !blocks.is_empty())
    }

    /// The heap has found that block.
    pub fn note_found<M: Medium>(
        &mut self,
        io: Io<'_, M>,
        geometry: &Geometry,
        heap: &Heap,
        block: Block,
    ) {
        let Reserved::Bit { chunk, .. } = block.reserved else { return };
        let word = load_without_place(io, geometry, chunk);
        let Some(shape) = heap.shape_of(chunk) else { return };
        if !self.shapes.iter().any(|(of, _)| *of == word) {
            self.shapes.push((word, shape));
        }
        let index = (chunk / 64) as usize;
        if index >= self.known.len() {
            self.known.resize(index + 1, 0);
        }
        self.known[index] |= 1 << (chunk % 64);
    }

    /// The allocated block of a class that starts at `at`, if the lane can tell. A chunk that has a
    /// block keeps its class.
    pub fn find<M: Medium>(
        &self,
        io: Io<'_, M>,
        geometry: &Geometry,
        at: PoolOffset,
    ) -> Option<Block> {
        let chunk = at.0.checked_sub(geometry.heap_at)? / geometry.chunk_bytes;
        if self.known.get((chunk / 64) as usize)? >> (chunk % 64) & 1 == 0 {
            return None;
        }
        let word = load_without_place(io, geometry, chunk);
        let (_, shape) = self.shapes.iter().find(|(of, _)| *of == word)?;
        let chunk_at = geometry.chunk_at(chunk);
        let index = shape.block_from(at.0 - chunk_at.0)?;
        let (map_at, bit) = bit_of(chunk_at, index);
        let is_taken = load_bitmap(io.medium, map_at).ok()? >> bit & 1 == 1;
        is_taken.then(|| Block::of_class(shape, chunk_at, chunk, index))
    }
}

/// The directory word of a chunk as it would be anywhere.
fn load_without_place<M: Medium>(io: Io<'_, M>, geometry: &Geometry, chunk: u64) -> u64 {
    let at = geometry.directory_at(chunk);
    without_place(io.medium.load_u64(at), at)
}

#[cfg(test)]
mod tests {
    use outlast_pmem::Heap as Memory;

    use super::SPARES_MAX;
    use crate::medium::{CreateOptions, OpenOptions};
    use crate::{Abort, BlockKind, Lane, Pool, PoolOffset, Runner};
    use crate::{Scheme, Transact};

    fn take(lane: &mut Lane<'_, Memory>) -> Result<PoolOffset, Abort> {
        lane.run(|tx| tx.alloc(200, BlockKind::General))
    }

    /// Fills the pool, block by block, and empties it again; how many there were.
    fn fill_and_empty(lane: &mut Lane<'_, Memory>) -> usize {
        let blocks: Vec<_> = std::iter::from_fn(|| take(lane).ok()).collect();
        for block in &blocks {
            lane.run(|tx| tx.free(*block)).unwrap();
        }
        blocks.len()
    }

    /// What the lane knows of a chunk does not make a block of what is none.
    #[test]
    fn beside_others_a_block_is_freed_once() {
        let create = CreateOptions { lanes: 2, lane_bytes: 4096, ..CreateOptions::default() };
        let open = OpenOptions { lock_stripes: 1 << 10, ..OpenOptions::with_scheme(Scheme::Swift) };
        let pool = Pool::create_on(Memory::new(256 << 10), &create, &open).unwrap();
        let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
        take(&mut two).unwrap();
        let blocks = [(); 3].map(|()| take(&mut one).unwrap());
        for block in blocks {
            one.run(|tx| tx.free(block)).unwrap();
            for at in [block, block.plus(16)] {
                let error = one.run(|tx| tx.free(at)).unwrap_err();
                assert!(matches!(error, Abort::BadAddress(_)), "{at}: {error}");
            }
        }
    }

    /// What a lane keeps is the heap's again when it is given back, and its own when the heap is full.
    #[test]
    #[cfg_attr(miri, ignore = "thousands of transactions take minutes there")]
    fn nothing_that_lanes_keep_is_lost() {
        let create = CreateOptions { lanes: 2, lane_bytes: 4096, ..CreateOptions::default() };
        let open = OpenOptions { lock_stripes: 1 << 10, ..OpenOptions::with_scheme(Scheme::Swift) };
        let pool = Pool::create_on(Memory::new(256 << 10), &create, &open).unwrap();
        let all = fill_and_empty(&mut pool.lane().unwrap());
        assert!(all > 200);
        for _ in 0..3 {
            let (mut one, mut two) = (pool.lane().unwrap(), pool.lane().unwrap());
            let of_two = take(&mut two).unwrap();
            // The other lane has taken some ahead.
            let beside = fill_and_empty(&mut one);
            assert!((all - SPARES_MAX - 1..all).contains(&beside), "{beside} of {all}");
            assert_eq!(fill_and_empty(&mut one), beside);
            two.run(|tx| tx.free(of_two)).unwrap();
            drop((one, two));
            assert_eq!(fill_and_empty(&mut pool.lane().unwrap()), all);
        }
    }
}
