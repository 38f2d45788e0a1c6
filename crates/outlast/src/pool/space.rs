//! How full a pool is.

use std::sync::atomic::Ordering;

use outlast_pmem::Medium;
use outlast_trace::LINE_BYTES;

use super::{Pool, RecoveredPool, ring_in_use};
use crate::alloc::{ChunkWord, load_bitmap};
use crate::layout::Geometry;

/// How the bytes of a pool's heap are used, in blocks as they lie there, and those of its logs.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
#[non_exhaustive]
pub struct Space {
    /// Bytes of all chunks.
    pub heap_bytes: u64,
    /// Bytes of blocks that are allocated.
    pub used_bytes: u64,
    /// The others: free chunks, and free blocks of size classes.
    pub free_bytes: u64,
    /// Bytes of the longest run of free chunks. A larger block makes the pool grow.
    pub largest_free_bytes: u64,
    /// Bytes of the logs of all lanes, as far as they are in use: in the domain `page` they begin short. They take
    /// nothing of the heap.
    pub log_bytes: u64,
    /// The part of those logs that holds records whose lines may not be in place yet. Sweeps free it, so it
    /// comes near `log_bytes` under load and that is no lack of room. An undo log is in use within a
    /// transaction only, and counts as empty.
    pub log_used_bytes: u64,
    /// Bytes of the log of fences; 0 without one.
    pub fence_log_bytes: u64,
    /// The part of it with entries that a loss of power would need. A full half is written back and begun anew.
    pub fence_log_used_bytes: u64,
}

impl Space {
    /// The same with the fill of the logs of another.
    pub(crate) fn with_logs_of(self, other: &Self) -> Self {
        let Self { log_used_bytes, fence_log_used_bytes, .. } = *other;
        Self { log_used_bytes, fence_log_used_bytes, ..self }
    }

    /// The figures of a heap of `chunks` chunks; the logs' sizes, and nothing of their fill.
    fn of<M: Medium>(medium: &M, geometry: &Geometry, chunks: u64) -> Self {
        let end = geometry.chunk_at(chunks).0;
        let lanes = 0..geometry.lanes as usize;
        let bytes_of_lane = |lane| match ring_in_use(medium, geometry, lane) {
            Ok(ring) if geometry.has_short_rings => (ring.lines + 1) * LINE_BYTES,
            _ => geometry.lane_bytes,
        };
        let mut space = Self {
            heap_bytes: chunks * geometry.chunk_bytes,
            log_bytes: lanes.map(bytes_of_lane).sum(),
            fence_log_bytes: geometry.fence_log_bytes(),
            ..Self::default()
        };
        let (mut chunk, mut run) = (0, 0);
        while chunk < chunks {
            let word = ChunkWord::load(medium, geometry, chunk, end);
            let (taken, bytes, is_free) = match word {
                _ if geometry.is_directory(chunk) => (1, geometry.chunk_bytes, false),
                Ok(ChunkWord::Free) => (1, 0, true),
                Ok(ChunkWord::Class(class, _)) => {
                    let shape = class.shape(geometry);
                    let at = geometry.chunk_at(chunk);
                    let words = (0..u64::from(shape.bitmap_words)).map(|word| at.plus(word * 8));
                    let blocks: u64 = words
                        .map(|word| load_bitmap(medium, word).map_or(0, u64::count_ones))
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

impl<M: Medium> Pool<M> {
    /// How full the pool is. Reads a word for each chunk and the bitmaps of size classes, without a lock:
    /// beside transactions the figures are of about this moment.
    pub fn space(&self) -> Space {
        let chunks = self.heap.lock(&self.medium).chunk_count();
        Space::of(&self.medium, &self.header.geometry, chunks).with_logs_of(&self.log_space())
    }

    /// How full its logs are, and nothing of its heap.
    pub(crate) fn log_space(&self) -> Space {
        let mut space = Space::default();
        let lines_used = self.lanes.iter().map(|lane| {
            let tail = lane.shared.tail.load(Ordering::Acquire);
            let used = lane.shared.installed.load(Ordering::Acquire).saturating_sub(tail);
            // Positions count whole rings, of which a part is in use.
            used.min(lane.lines())
        });
        space.log_used_bytes = lines_used.sum::<u64>() * LINE_BYTES;
        space.fence_log_used_bytes = self.medium.fence_log_used_bytes();
        space
    }
}

impl<M: Medium> RecoveredPool<M> {
    /// How full the pool is. Recovery has emptied its logs: before it
    /// [`UnrecoveredPool::log_used_bytes`](super::UnrecoveredPool::log_used_bytes) tells what they held.
    pub fn space(&self) -> Space {
        Space::of(self.medium(), &self.header().geometry, self.chunks())
    }
}

#[cfg(test)]
mod tests {
    use outlast_pmem::Heap as Memory;

    use super::*;
    use crate::medium::{CreateOptions, OpenOptions};
    use crate::recover::UnrecoveredPool;
    use crate::transact::{BlockKind, Runner, Transact};
    use crate::writeback::{Reach, sweep};

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

    /// Records fill the log until a sweep frees them; recovery finds as much, and leaves none.
    #[test]
    #[cfg_attr(miri, ignore = "whole logs take minutes there")]
    fn a_logs_fill_is_not_its_size() {
        let create = CreateOptions { lanes: 2, lane_bytes: 64 << 10, ..CreateOptions::default() };
        let open = OpenOptions::with_scheme(crate::Scheme::Swift);
        let pool = Pool::create_on(Memory::new(1 << 20), &create, &open).unwrap();
        let block = pool.lane().unwrap().run(|tx| tx.alloc(4096, BlockKind::General)).unwrap();
        sweep(&pool, 0, Reach::All);
        let empty = pool.space();
        assert_eq!((empty.log_bytes, empty.log_used_bytes), (128 << 10, 0));
        let store = |tx: &mut crate::Tx<'_, Memory>| tx.store(block, &[7; 1024]);
        pool.lane().unwrap().run(store).unwrap();
        let used = pool.space().log_used_bytes;
        assert!((1024..2048).contains(&used), "{used}");
        let crashed = Memory::from_bytes(&pool.medium.to_bytes());
        let found = UnrecoveredPool::open(crashed).unwrap();
        let (records, fences) = found.log_used_bytes().unwrap();
        assert!((1024..=used).contains(&records) && fences == 0, "{records} of {used}");
        let recovered = found.recover().unwrap();
        let left = Space { log_used_bytes: 0, ..pool.space() };
        assert_eq!(recovered.space(), left);
        sweep(&pool, 0, Reach::All);
        assert_eq!(pool.space(), left);
    }
}
