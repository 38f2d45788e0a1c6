//! How full a pool is.

use outlast_pmem::Medium;

use super::Pool;
use crate::alloc::{ChunkWord, load_bitmap};

/// How the bytes of a pool's heap are used, in blocks as they lie there.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Space {
    /// Bytes of all chunks.
    pub heap_bytes: u64,
    /// Bytes of blocks that are allocated.
    pub used_bytes: u64,
    /// The others: free chunks, and free blocks of size classes.
    pub free_bytes: u64,
    /// Bytes of the longest run of free chunks. A larger block makes the pool grow.
    pub largest_free_bytes: u64,
    /// Bytes of the logs of all lanes. They are set aside and take nothing of the heap.
    pub log_bytes: u64,
}

impl<M: Medium> Pool<M> {
    /// How full the heap is. Reads a word for each chunk and the bitmaps of size classes, without a lock:
    /// beside transactions the figures are of about this moment.
    pub fn space(&self) -> Space {
        let geometry = self.header.geometry;
        let chunks = self.heap.lock(&self.medium).chunk_count();
        let end = geometry.chunk_at(chunks).0;
        let mut space = Space {
            heap_bytes: chunks * geometry.chunk_bytes,
            log_bytes: u64::from(geometry.lanes) * geometry.lane_bytes,
            ..Space::default()
        };
        let (mut chunk, mut run) = (0, 0);
        while chunk < chunks {
            let word = ChunkWord::load(&self.medium, &geometry, chunk, end);
            let (taken, bytes, is_free) = match word {
                _ if geometry.is_directory(chunk) => (1, geometry.chunk_bytes, false),
                Ok(ChunkWord::Free) => (1, 0, true),
                Ok(ChunkWord::Class(class, _)) => {
                    let shape = class.shape(&geometry);
                    let at = geometry.chunk_at(chunk);
                    let words = (0..u64::from(shape.bitmap_words)).map(|word| at.plus(word * 8));
                    let blocks: u64 = words
                        .map(|word| load_bitmap(&self.medium, word).map_or(0, u64::count_ones))
                        .map(u64::from)
                        .sum();
                    (1, blocks * shape.block_bytes, false)
                }
                Ok(ChunkWord::Large { chunks, .. }) => {
                    (u64::from(chunks), u64::from(chunks) * geometry.chunk_bytes, false)
                }
                // A word that another thread stores right now, or that is damaged.
                Err(_) => (1, geometry.chunk_bytes, false),
            };
            run = if is_free { run + 1 } else { 0 };
            space.largest_free_bytes = space.largest_free_bytes.max(run * geometry.chunk_bytes);
            space.used_bytes += bytes;
            chunk += taken;
        }
        space.free_bytes = space.heap_bytes.saturating_sub(space.used_bytes);
        space
    }
}

#[cfg(test)]
mod tests {
    use outlast_pmem::Heap as Memory;

    use super::*;
    use crate::transact::{BlockKind, Runner, Transact};
    use crate::{CreateOptions, OpenOptions};

    #[test]
    fn figures_follow_what_is_allocated_and_freed() {
        let create =
            CreateOptions { chunk_bytes: Some(4096), lanes: 1, ..CreateOptions::default() };
        let pool = Pool::create_on(Memory::new(1 << 20), &create, &OpenOptions::default()).unwrap();
        let mut lane = pool.lane().unwrap();
        let before = pool.space();
        assert_eq!(before.used_bytes + before.free_bytes, before.heap_bytes);
        let large = lane.run(|tx| tx.alloc(100_000, BlockKind::General)).unwrap();
        for _ in 0..10 {
            lane.run(|tx| tx.alloc(64, BlockKind::General)).unwrap();
        }
        let after = pool.space();
        assert_eq!(after.used_bytes - before.used_bytes, 25 * 4096 + 640);
        assert!(after.largest_free_bytes < before.largest_free_bytes);
        lane.run(|tx| tx.free(large)).unwrap();
        assert_eq!(pool.space().used_bytes - before.used_bytes, 640);
    }
}
