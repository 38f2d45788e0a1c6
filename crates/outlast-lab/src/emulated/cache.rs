//! The emulated cache: which lines it holds and which of them are dirty, and what flushes find.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use outlast_sim::{CacheConfig, ConfigError};
use outlast_trace::{ByteRange, FlushKind, LaneId, LineAddr, Op, PoolOffset, Sink, line_pieces};

use super::FlushCounts;

/// What an emulated cache tells while it is in use.
pub(super) struct Seen {
    /// What was counted so far.
    pub counts: FlushCounts,
    /// Flushes of each line of the heap, issued and of these found dirty, where it matters which
    /// lines they are.
    pub by_line: Option<Vec<(u32, u32)>>,
}

impl Seen {
    /// Nothing yet.
    pub fn new(by_line: bool) -> Self {
        Self { counts: FlushCounts::default(), by_line: by_line.then(Vec::new) }
    }

    /// From here on it counts: what was counted before this.
    pub fn begin(&mut self) -> FlushCounts {
        self.by_line.iter_mut().for_each(Vec::clear);
        self.counts
    }
}

pub(super) fn lock(seen: &Mutex<Seen>) -> MutexGuard<'_, Seen> {
    seen.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Which lines a set-associative cache with true LRU holds, and which are dirty: a set is a row of
/// tags, the line used last in front. The bytes are never read, and so, unlike
/// [`outlast_sim::Cache`], it keeps none: an access costs a line of the host's memory and not four.
struct Tags {
    sets: u64,
    ways: usize,
    /// A line's number + 1, and in the lowest bit whether it is dirty; empty ways are behind.
    tags: Vec<u64>,
}

const DIRTY: u64 = 1;

impl Tags {
    fn new(config: CacheConfig) -> Result<Self, ConfigError> {
        let (sets, ways) = (config.sets()?, config.ways as usize);
        Ok(Self { sets, ways, tags: vec![0; sets as usize * ways] })
    }

    /// The line's set, and where in it the line is.
    #[inline]
    fn find(&mut self, line: LineAddr) -> (&mut [u64], Option<usize>) {
        let first = (line.0 % self.sets) as usize * self.ways;
        let set = &mut self.tags[first..][..self.ways];
        let way = set.iter().position(|tag| tag & !DIRTY == tag_of(line));
        (set, way)
    }

    /// A load or a store; returns the dirty line that it pushed out.
    #[inline]
    fn access(&mut self, line: LineAddr, dirty: bool) -> Option<LineAddr> {
        let (set, way) = self.find(line);
        let last = way.unwrap_or(set.len() - 1);
        let was = set[last];
        set.copy_within(..last, 1);
        set[0] = u64::from(dirty) | if way.is_some() { was } else { tag_of(line) };
        (way.is_none() && was & DIRTY != 0).then(|| LineAddr((was >> 1) - 1))
    }

    /// Whether the line was there and dirty; it is clean now.
    #[inline]
    fn clean(&mut self, line: LineAddr) -> bool {
        let (set, way) = self.find(line);
        way.is_some_and(|way| std::mem::replace(&mut set[way], tag_of(line)) & DIRTY != 0)
    }

    /// Takes the line out; if it was there, whether it was dirty.
    #[inline]
    fn take(&mut self, line: LineAddr) -> Option<bool> {
        let (set, way) = self.find(line);
        let way = way?;
        let was = set[way];
        set.copy_within(way + 1.., way);
        set[set.len() - 1] = 0;
        Some(was & DIRTY != 0)
    }
}

fn tag_of(line: LineAddr) -> u64 {
    (line.0 + 1) << 1
}

/// A cache of tags in front of memory that its caller keeps.
pub(super) struct EmulatedCache {
    tags: Tags,
    log_at: u64,
    heap_at: u64,
    /// By line.
    bytes: Vec<Bytes>,
    seen: Arc<Mutex<Seen>>,
}

/// Bytes of a line, a bit for each.
#[derive(Clone, Copy, Default)]
struct Bytes {
    /// Stored to since the line was flushed.
    stored: u64,
    /// Newer in the cache than in memory.
    newer: u64,
}

impl EmulatedCache {
    /// An empty cache before a pool whose log and heap begin at these offsets.
    pub fn new(
        config: CacheConfig,
        log_at: u64,
        heap_at: u64,
        seen: Arc<Mutex<Seen>>,
    ) -> Result<Self, ConfigError> {
        Ok(Self { tags: Tags::new(config)?, log_at, heap_at, bytes: Vec::new(), seen })
    }

    fn access(&mut self, line: LineAddr, dirty: bool) {
        if let Some(evicted) = self.tags.access(line, dirty) {
            self.bytes(evicted).newer = 0;
            let is_data = evicted.start().0 >= self.heap_at;
            lock(&self.seen).counts.data_evicted += u64::from(is_data);
        }
    }

    fn store(&mut self, at: PoolOffset, len: usize) {
        for (piece, len) in line_pieces(at, len) {
            let line = piece.line();
            self.access(line, true);
            let (bytes, mask) = (self.bytes(line), bytes_mask(piece, len));
            bytes.stored |= mask;
            bytes.newer |= mask;
        }
    }

    /// What goes past the cache takes the line out of it, and leaves nothing to flush. A line written
    /// so counts as one that was stored to and flushed.
    fn stream(&mut self, at: PoolOffset, len: usize) {
        for (piece, len) in line_pieces(at, len) {
            let line = piece.line();
            self.tags.take(line);
            let (bytes, mask) = (self.bytes(line), bytes_mask(piece, len));
            bytes.stored &= !mask;
            bytes.newer = 0;
            self.count(line, mask, Some(mask));
        }
    }

    fn flush(&mut self, kind: FlushKind, line: LineAddr) {
        let is_dirty = match kind {
            FlushKind::Clwb => self.tags.clean(line),
            _ => self.tags.take(line).unwrap_or(false),
        };
        let Bytes { stored, newer } = std::mem::take(self.bytes(line));
        self.count(line, stored, is_dirty.then_some(newer));
    }

    fn count(&mut self, line: LineAddr, stored: u64, dirty: Option<u64>) {
        let mut seen = lock(&self.seen);
        let counts = &mut seen.counts;
        let kind = match line.start().0 {
            at if at >= self.heap_at => &mut counts.data,
            at if at >= self.log_at => &mut counts.log,
            _ => &mut counts.header,
        };
        kind.count(stored, dirty);
        if let Some(by_line) = seen.by_line.as_mut().filter(|_| line.start().0 >= self.heap_at) {
            let (issued, found_dirty) = entry(by_line, line);
            *issued += 1;
            *found_dirty += u32::from(dirty.is_some());
        }
    }

    fn bytes(&mut self, line: LineAddr) -> &mut Bytes {
        entry(&mut self.bytes, line)
    }
}

/// The entry of a line in a table that grows as it needs.
fn entry<T: Copy + Default>(table: &mut Vec<T>, line: LineAddr) -> &mut T {
    let at = line.0 as usize;
    if at >= table.len() {
        table.resize((at + 1).next_multiple_of(1 << 16), T::default());
    }
    &mut table[at]
}

/// A bit for each of `len` bytes of a line, from the one at `at` on.
fn bytes_mask(at: PoolOffset, len: usize) -> u64 {
    (u64::MAX >> (64 - len)) << at.in_line()
}

impl Sink for EmulatedCache {
    fn op(&mut self, _: LaneId, op: Op<'_>) {
        match op {
            Op::Load { at, len, .. } => {
                let range = ByteRange::new(at, u64::from(len));
                range.lines().for_each(|line| self.access(line, false));
            }
            Op::Store { at, bytes } | Op::Rmw { at, bytes } => self.store(at, bytes.len()),
            Op::StoreNt { at, bytes } => self.stream(at, bytes.len()),
            Op::Store64 { line, bytes } => self.stream(line.start(), bytes.len()),
            Op::Flush { kind, line } => self.flush(kind, line),
            Op::Sfence | Op::Mfence => lock(&self.seen).counts.fences += 1,
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use outlast_sim::{Cache, Contents, Policy};
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn dirtiness_counts_bytes_since_the_last_flush_and_bytes_in_the_cache() {
        // Two lines of cache; line 0 is the header, line 1 the log, the heap begins with line 2.
        let seen = Arc::new(Mutex::new(Seen::new(false)));
        let config = CacheConfig::new(128, 2);
        let mut cache = EmulatedCache::new(config, 64, 128, Arc::clone(&seen)).unwrap();
        let mut op = |op: Op<'_>| cache.op(LaneId(0), op);
        let store = |at, bytes| Op::Store { at: PoolOffset(at), bytes };
        let flush = |line| Op::Flush { kind: FlushKind::Clwb, line: LineAddr(line) };
        // Sixteen bytes, eight of them twice, then flushed twice: dirty and clean.
        op(store(128, &[1; 16]));
        op(store(136, &[2; 8]));
        op(flush(2));
        op(flush(2));
        let data = lock(&seen).counts.data;
        assert_eq!((data.issued, data.dirty, data.stored_bytes, data.dirty_bytes), (2, 1, 16, 16));
        assert_eq!((data.dirtiness(), data.dirtiness_found()), (Some(0.125), Some(0.25)));
        assert_eq!((data.by_words[0], data.by_words[2]), (1, 1));
        // Across a line's end: eight bytes in line 2, four in line 3; two others push both out.
        op(store(184, &[3; 12]));
        op(Op::Load { at: PoolOffset(256), len: 1, depends: None });
        op(Op::Load { at: PoolOffset(320), len: 1, depends: None });
        assert_eq!(lock(&seen).counts.data_evicted, 2);
        // Back in the cache with four more bytes: twelve since the flush, four in the cache.
        op(store(128, &[4; 4]));
        op(flush(2));
        op(flush(3));
        let data = lock(&seen).counts.data.since(&data);
        assert_eq!((data.issued, data.dirty, data.stored_bytes, data.dirty_bytes), (2, 1, 16, 4));
        // What is streamed is written, and not left to flush; log lines count apart.
        op(Op::StoreNt { at: PoolOffset(64), bytes: &[5; 8] });
        op(flush(1));
        let log = lock(&seen).counts.log;
        assert_eq!((log.issued, log.dirty, log.stored_bytes, log.dirty_bytes), (2, 1, 8, 8));
        // This flush takes the line out: the next store has to fetch it.
        op(store(128, &[6; 4]));
        op(Op::Flush { kind: FlushKind::ClflushOpt, line: LineAddr(2) });
        assert_eq!(cache.tags.take(LineAddr(2)), None);
    }

    proptest! {
        /// The simulator's cache, which also keeps bytes, says the same of every access.
        #[test]
        fn tags_do_what_the_simulators_cache_does(
            ops in prop::collection::vec((0_u8..4, 0_u64..40), 1..400),
        ) {
            let config = CacheConfig::new(3 * 5 * 64, 5);
            prop_assert_eq!(config.policy, Policy::Lru);
            let mut tags = Tags::new(config).unwrap();
            let mut cache = Cache::<()>::new(config, 0).unwrap();
            for (op, line) in ops {
                let line = LineAddr(line);
                let slot = if op < 2 { cache.access(line) } else { cache.probe(line) };
                let was_dirty = slot.map(|slot| cache.is_dirty(slot));
                match (op, slot) {
                    (0 | 1, Some(slot)) => {
                        if op == 1 {
                            cache.set_dirty(slot);
                        }
                        prop_assert_eq!(tags.access(line, op == 1), None);
                    }
                    (0 | 1, None) => {
                        let contents =
                            Contents { data: [0; 64], dirty: op == 1, owned: true, tag: () };
                        let (_, evicted) = cache.install(line, &contents);
                        let dirty = evicted.filter(|evicted| evicted.contents.dirty);
                        prop_assert_eq!(tags.access(line, op == 1), dirty.map(|e| e.line));
                    }
                    (2, slot) => {
                        if let Some(slot) = slot {
                            cache.clean(slot, &[0; 64]);
                        }
                        prop_assert_eq!(tags.clean(line), was_dirty.unwrap_or(false));
                    }
                    _ => {
                        let _ = cache.remove(line);
                        prop_assert_eq!(tags.take(line), was_dirty);
                    }
                }
            }
        }
    }
}
