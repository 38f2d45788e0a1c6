//! Which blocks are allocated, and which of them something leads to: two bits for each.

use outlast_trace::PoolOffset;

use crate::alloc::class::{BITS, ChunkShape};
use crate::layout::Geometry;

/// The allocated blocks of a pool, chunk by chunk. It takes a bit for each block that a chunk has room
/// for, and another for whether it was reached, so a pool of any size can be checked.
pub(super) struct BlockMap {
    geometry: Geometry,
    chunks: Vec<Chunk>,
}

enum Chunk {
    /// Free, a directory, inside a large block, or damaged.
    NoBlocks,
    Class(Box<ClassBlocks>),
    Large {
        bytes: u64,
        reached: bool,
    },
}

struct ClassBlocks {
    shape: ChunkShape,
    allocated: Box<[u64]>,
    reached: Box<[u64]>,
}

/// The target of a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reached {
    /// A block that nothing led to before.
    First,
    /// A block that something led to already.
    Again,
    /// No block, or one with fewer bytes.
    NoBlock,
}

impl BlockMap {
    /// No blocks in `chunks` chunks.
    pub fn new(geometry: Geometry, chunks: u64) -> Self {
        Self { geometry, chunks: (0..chunks).map(|_| Chunk::NoBlocks).collect() }
    }

    /// A chunk has blocks of this shape; bit `i` of the bitmap's word `n` is that of block
    /// `n * BITS + i`.
    pub fn add_class(&mut self, chunk: u64, shape: ChunkShape, bitmap: Box<[u64]>) {
        let reached = vec![0; bitmap.len()].into_boxed_slice();
        let blocks = ClassBlocks { shape, allocated: bitmap, reached };
        self.chunks[chunk as usize] = Chunk::Class(Box::new(blocks));
    }

    /// A large block starts with a chunk.
    pub fn add_large(&mut self, chunk: u64, bytes: u64) {
        self.chunks[chunk as usize] = Chunk::Large { bytes, reached: false };
    }

    /// Something leads to `bytes` bytes at `at`.
    pub fn reach(&mut self, at: PoolOffset, bytes: u64) -> Reached {
        if at.0 < self.geometry.heap_at {
            return Reached::NoBlock;
        }
        let chunk = self.geometry.chunk_of(at);
        let inside = at.0 - self.geometry.chunk_at(chunk).0;
        match self.chunks.get_mut(chunk as usize) {
            Some(Chunk::Large { bytes: has, reached }) if inside == 0 && bytes <= *has => {
                first_or_again(std::mem::replace(reached, true))
            }
            Some(Chunk::Class(blocks)) if bytes <= blocks.shape.block_bytes => {
                let Some(index) = blocks.shape.block_from(inside) else { return Reached::NoBlock };
                let (word, bit) = ((index / BITS) as usize, 1 << (index % BITS));
                if blocks.allocated[word] & bit == 0 {
                    return Reached::NoBlock;
                }
                let before = blocks.reached[word] & bit != 0;
                blocks.reached[word] |= bit;
                first_or_again(before)
            }
            _ => Reached::NoBlock,
        }
    }

    /// Every allocated block with its size, in order, and whether something led to it.
    pub fn iter(&self) -> impl Iterator<Item = (PoolOffset, u64, bool)> + '_ {
        (0..).zip(&self.chunks).flat_map(|(chunk, blocks)| {
            let at = self.geometry.chunk_at(chunk);
            let large = match blocks {
                Chunk::Large { bytes, reached } => Some((at, *bytes, *reached)),
                _ => None,
            };
            let class = match blocks {
                Chunk::Class(blocks) => Some(blocks.iter(at)),
                _ => None,
            };
            large.into_iter().chain(class.into_iter().flatten())
        })
    }
}

impl ClassBlocks {
    fn iter(&self, chunk_at: PoolOffset) -> impl Iterator<Item = (PoolOffset, u64, bool)> + '_ {
        let words = (0..).zip(self.allocated.iter().zip(&self.reached));
        words.flat_map(move |(word, (allocated, reached))| {
            let bits = (0..BITS).filter(move |bit| allocated >> bit & 1 == 1);
            bits.map(move |bit| {
                let at = chunk_at.plus(self.shape.block_at(word * BITS + bit));
                (at, self.shape.block_bytes, reached >> bit & 1 == 1)
            })
        })
    }
}

fn first_or_again(before: bool) -> Reached {
    if before { Reached::Again } else { Reached::First }
}
