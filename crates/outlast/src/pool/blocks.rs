//! Which blocks are allocated, which of them something leads to, and whether that owns them: three bits for each.

use outlast_trace::PoolOffset;

use crate::alloc::class::{BITS, ChunkShape};
use crate::inspect::walk::Pointed;
use crate::layout::Geometry;

/// The allocated blocks of a pool, chunk by chunk. It takes a bit for each block that a chunk has room
/// for, another for whether it was reached and one for whether only pointers lead there, so a pool of any size can be
/// checked.
pub(super) struct BlockMap {
    geometry: Geometry,
    chunks: Vec<Chunk>,
}

enum Chunk {
    /// Free, a directory, or damaged.
    NoBlocks,
    Class(Box<ClassBlocks>),
    Large {
        bytes: u64,
        reached: bool,
        pointed: bool,
    },
    /// Behind the first chunk of a large block.
    Inside {
        first: u64,
    },
}

struct ClassBlocks {
    shape: ChunkShape,
    allocated: Box<[u64]>,
    reached: Box<[u64]>,
    /// Reached, and by nothing but pointers that own nothing.
    pointed: Box<[u64]>,
}

/// The target of a pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reached {
    /// A block that nothing led to before, or pointers only.
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
        let none = vec![0; bitmap.len()].into_boxed_slice();
        let (reached, pointed) = (none.clone(), none);
        let blocks = ClassBlocks { shape, allocated: bitmap, reached, pointed };
        self.chunks[chunk as usize] = Chunk::Class(Box::new(blocks));
    }

    /// A large block takes `chunks` chunks.
    pub fn add_large(&mut self, chunk: u64, chunks: u64, bytes: u64) {
        for inner in self.chunks.iter_mut().skip(chunk as usize).take(chunks as usize) {
            *inner = Chunk::Inside { first: chunk };
        }
        self.chunks[chunk as usize] = Chunk::Large { bytes, reached: false, pointed: false };
    }

    /// Something that owns it leads to `bytes` bytes at `at`.
    pub fn reach(&mut self, at: PoolOffset, bytes: u64) -> Reached {
        if at.0 < self.geometry.heap_at {
            return Reached::NoBlock;
        }
        let chunk = self.geometry.chunk_of(at);
        let inside = at.0 - self.geometry.chunk_at(chunk).0;
        match self.chunks.get_mut(chunk as usize) {
            Some(Chunk::Large { bytes: has, reached, pointed }) if inside == 0 && bytes <= *has => {
                let was_owned = std::mem::replace(reached, true) && !*pointed;
                *pointed = false;
                first_or_again(was_owned)
            }
            Some(Chunk::Class(blocks)) if bytes <= blocks.shape.block_bytes => {
                let Some(index) = blocks.shape.block_from(inside) else { return Reached::NoBlock };
                let (word, bit) = ((index / BITS) as usize, 1 << (index % BITS));
                if blocks.allocated[word] & bit == 0 {
                    return Reached::NoBlock;
                }
                let was_owned = blocks.reached[word] & !blocks.pointed[word] & bit != 0;
                blocks.reached[word] |= bit;
                blocks.pointed[word] &= !bit;
                first_or_again(was_owned)
            }
            _ => Reached::NoBlock,
        }
    }

    /// A pointer leads to `bytes` bytes at `at`, anywhere in a block: that block, unless something is known to own it.
    pub fn point(&mut self, at: PoolOffset, bytes: u64) -> Option<Pointed> {
        if at.0 < self.geometry.heap_at {
            return None;
        }
        let mut chunk = self.geometry.chunk_of(at);
        if let Some(Chunk::Inside { first }) = self.chunks.get(chunk as usize) {
            chunk = *first;
        }
        let chunk_at = self.geometry.chunk_at(chunk);
        let inside = at.0 - chunk_at.0;
        match self.chunks.get_mut(chunk as usize)? {
            Chunk::Large { bytes: has, reached, pointed } => {
                let is_owned = *reached && !*pointed;
                if is_owned || inside.checked_add(bytes).is_none_or(|end| end > *has) {
                    return None;
                }
                *pointed = true;
                let is_first = !std::mem::replace(reached, true);
                Some(Pointed { at: chunk_at, bytes: *has, is_first })
            }
            Chunk::Class(blocks) => {
                let index = blocks.shape.block_over(inside)?;
                let start = blocks.shape.block_at(index);
                let (word, bit) = ((index / BITS) as usize, 1 << (index % BITS));
                let has = blocks.shape.block_bytes;
                let is_owned = blocks.reached[word] & !blocks.pointed[word] & bit != 0;
                let is_there = blocks.allocated[word] & bit != 0 && (inside - start) + bytes <= has;
                if is_owned || !is_there {
                    return None;
                }
                let is_first = blocks.reached[word] & bit == 0;
                blocks.reached[word] |= bit;
                blocks.pointed[word] |= bit;
                Some(Pointed { at: chunk_at.plus(start), bytes: has, is_first })
            }
            Chunk::NoBlocks | Chunk::Inside { .. } => None,
        }
    }

    /// Every allocated block with its size, in order, and whether something led to it.
    pub fn iter(&self) -> impl Iterator<Item = (PoolOffset, u64, bool)> + '_ {
        (0..).zip(&self.chunks).flat_map(|(chunk, blocks)| {
            let at = self.geometry.chunk_at(chunk);
            let large = match blocks {
                Chunk::Large { bytes, reached, .. } => Some((at, *bytes, *reached)),
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
