//! Several caches that behave as one memory: lookup across levels and lanes, without time.
//!
//! # Invariants between any two operations
//!
//! - **C1** A line that one lane's private caches hold *owned* or *dirty* is in no other lane's
//!   private caches.
//! - **C2** The copy nearest to the lane that uses it is the newest; a copy that is not dirty
//!   equals the next copy below it, or memory where there is none.
//! - **C3** `Inclusive`: what a private level holds, each level below it holds too.
//!   `Exclusive`: what a lane owns is in exactly one cache.
//! - **C4** A line in a write-combining buffer is in no cache, and in one such buffer only.
//! - **C5** A first level that writes through holds no dirty line.
//!
//! Coherence is MESI cut down to what a functional model needs: *owned* stands for E and M,
//! *dirty* tells M from E, a copy that is neither is S. A load that meets another lane's dirty
//! line leaves it shared and hands the newer bytes to the shared level; a store takes the line,
//! dirty data included, out of every other lane. Neither goes through memory.
//!
//! `fill` brings a line to a lane, `peers` asks the other lanes, `leave` sends lines to memory:
//! flushes, streams and unasked write-backs.

mod buffer;
mod fill;
mod leave;
mod peers;
mod steps;
#[cfg(test)]
mod tests;

use crate::{
    cache::{Cache, Contents, LineBytes, LineTag, Slot},
    config::{ConfigError, HierarchyConfig, Inclusion},
    policy::{Policy, Temper},
    stats::{CacheStats, HierarchyStats, Traffic},
    wc::{WcBuffer, word_mask},
};
use buffer::Buffer;
use outlast_trace::{LaneId, LineAddr, PoolOffset, Random, derive, line_pieces, word_pieces};
pub(crate) use steps::{Found, Nearest};

/// Why something was written to memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Cause {
    /// The last level needed its place, or a stream its address.
    Evicted,
    /// Unasked: the adversary's doing.
    Unasked,
    /// A flush instruction.
    Flushed,
    /// A non-temporal or direct store.
    Streamed,
    /// A store, where memory includes the caches (`eadr`, `process`).
    Stored,
    /// A hardware scheme's log record.
    Logged,
    /// A hardware scheme wrote a line back that was neither evicted nor flushed.
    Forced,
    /// A hardware scheme's other bookkeeping.
    Metadata,
    /// One of a hardware scheme's own causes, by its place among their names.
    Scheme(u8),
}

/// The memory beneath the last level. In each mask, bit `n` stands for the line's `n`-th word.
pub trait Backing<T = ()> {
    /// The line's bytes.
    fn read(&mut self, line: LineAddr) -> LineBytes;

    /// Replaces the words in `words`, all at once. `tag` is the one that was kept beside the line,
    /// and that of a new line where the bytes come from no cache.
    fn write(&mut self, line: LineAddr, words: u8, data: &LineBytes, cause: Cause, tag: T);

    /// An ordinary store to `words` became visible to every lane; `data` is the line with it.
    #[inline]
    fn stored(&mut self, line: LineAddr, words: u8, data: &LineBytes) {
        let _ = (line, words, data);
    }

    /// A dirty line moved down one level, to `level` (2, 3; memory has [`write`](Self::write)).
    #[inline]
    fn moved_down(&mut self, level: u8, line: LineAddr, contents: &Contents<T>) {
        let _ = (level, line, contents);
    }

    /// A place of the buffer in front of memory is read, or written.
    #[inline]
    fn buffer_accessed(&mut self, place: u32, write: bool) {
        let _ = (place, write);
    }

    /// The tag of a line that was just read from memory.
    #[inline]
    fn tag_of(&mut self, line: LineAddr) -> T
    where
        T: Default,
    {
        let _ = line;
        T::default()
    }
}

/// All caches and write-combining buffers of a machine.
#[derive(Clone, Debug)]
pub struct Hierarchy<T = ()> {
    lanes: Vec<Lane<T>>,
    llc: Cache<T>,
    /// Volatile memory in front of the persistent one, if there is any.
    buffer: Option<Buffer<T>>,
    inclusion: Inclusion,
    write_through: bool,
    /// Lines in all write-combining buffers together: where it is 0, no lookup is needed.
    streaming: usize,
    temper: Option<Temper>,
    rng: Random,
    traffic: Traffic,
    /// Planted: a line that another lane reads is taken for clean.
    pub(crate) transfers_forget_dirt: bool,
    /// Planted: flushes reach the buffer, and count as if they had reached memory.
    pub(crate) flushes_end_in_buffer: bool,
}

/// The private caches of a lane.
#[derive(Clone, Debug)]
struct Lane<T> {
    l1: Cache<T>,
    l2: Option<Cache<T>>,
    wc: WcBuffer,
}

/// The purpose for which a line is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Want {
    Read,
    Write,
}

impl<T: LineTag> Hierarchy<T> {
    /// Empty caches. `seed` feeds every choice that the policies draw.
    ///
    /// # Errors
    /// When `config` describes no possible machine.
    pub fn new(config: &HierarchyConfig, seed: u64) -> Result<Self, ConfigError> {
        config.validate()?;
        let lane = |lane: u16| -> Result<Lane<T>, ConfigError> {
            let part = 16 + 2 * u64::from(lane);
            Ok(Lane {
                l1: Cache::new(config.l1, derive(seed, part))?,
                l2: config.l2.map(|l2| Cache::new(l2, derive(seed, part + 1))).transpose()?,
                wc: WcBuffer::new(usize::from(config.wc_lines)),
            })
        };
        let adversary = config.l1.policy == Policy::Adversarial;
        Ok(Self {
            lanes: (0..config.lanes).map(lane).collect::<Result<_, _>>()?,
            llc: Cache::new(config.llc, derive(seed, 0))?,
            buffer: None,
            inclusion: config.inclusion,
            write_through: config.l1_write_through,
            streaming: 0,
            temper: adversary.then(|| Temper::new(derive(seed, 1))),
            rng: Random::from_state(derive(seed, 2)),
            traffic: Traffic::default(),
            transfers_forget_dirt: false,
            flushes_end_in_buffer: false,
        })
    }

    /// The number of lanes.
    pub fn lanes(&self) -> usize {
        self.lanes.len()
    }

    /// Brings a line to a lane for a load, and returns its bytes.
    ///
    /// # Panics
    /// When the machine has no such lane; so do all methods that take one.
    #[inline]
    pub fn read<B: Backing<T>>(
        &mut self,
        lane: LaneId,
        line: LineAddr,
        below: &mut B,
    ) -> &LineBytes {
        let lane = self.check(lane);
        let slot = self.acquire(lane, line, Want::Read, below);
        self.lanes[lane].l1.data(slot)
    }

    /// Copies `out.len()` bytes from `at` on.
    pub fn load<B: Backing<T>>(
        &mut self,
        lane: LaneId,
        at: PoolOffset,
        out: &mut [u8],
        below: &mut B,
    ) {
        let mut done = 0;
        for (at, len) in line_pieces(at, out.len()) {
            let line = self.read(lane, at.line(), below);
            out[done..done + len].copy_from_slice(&line[at.in_line()..][..len]);
            done += len;
        }
    }

    /// Stores `bytes` from `at` on with ordinary stores. An adversary may write the line back
    /// between any two of the aligned words (rule 5).
    #[inline]
    pub fn store<B: Backing<T>>(
        &mut self,
        lane: LaneId,
        at: PoolOffset,
        bytes: &[u8],
        below: &mut B,
    ) {
        let lane = self.check(lane);
        if bytes.is_empty() {
            return;
        }
        if self.temper.is_some() {
            self.store_pieces(lane, word_pieces(at, bytes.len()), bytes, below);
        } else if at.in_line() + bytes.len() <= 64 {
            self.store_in_line(lane, at, bytes, below);
        } else {
            self.store_pieces(lane, line_pieces(at, bytes.len()), bytes, below);
        }
    }

    fn store_pieces<B: Backing<T>>(
        &mut self,
        lane: usize,
        pieces: impl Iterator<Item = (PoolOffset, usize)>,
        mut bytes: &[u8],
        below: &mut B,
    ) {
        for (at, len) in pieces {
            let (piece, rest) = bytes.split_at(len);
            self.store_in_line(lane, at, piece, below);
            bytes = rest;
            let unasked = self.temper.as_mut().is_some_and(|temper| temper.writes_back(at.line()));
            if unasked {
                self.write_back_unasked(at.line(), below);
            }
        }
    }

    #[inline]
    fn store_in_line<B: Backing<T>>(
        &mut self,
        lane: usize,
        at: PoolOffset,
        bytes: &[u8],
        below: &mut B,
    ) {
        let slot = self.acquire(lane, at.line(), Want::Write, below);
        let l1 = &mut self.lanes[lane].l1;
        l1.store(slot, at.in_line(), bytes);
        below.stored(at.line(), word_mask(at.in_line(), bytes.len()), l1.data(slot));
        if self.write_through {
            self.pass_through(lane, at.line(), slot, below);
        }
    }

    /// The line's newest bytes in any cache, and whether memory has older ones. `None` when no
    /// cache holds it. Counts nothing and changes nothing.
    pub fn newest(&self, line: LineAddr) -> Option<(LineBytes, bool)> {
        self.newest_tagged(line).map(|(data, dirty, _)| (data, dirty))
    }

    /// As [`newest`](Self::newest), with the tag beside these bytes.
    pub(crate) fn newest_tagged(&self, line: LineAddr) -> Option<(LineBytes, bool, T)> {
        let private = self.lanes.iter().find_map(|lane| lane.newest(line));
        let shared = self.llc.probe(line);
        let is_buffered = self.buffer.as_ref().is_some_and(|buffer| buffer.is_dirty(line));
        let dirty_below = is_buffered || shared.is_some_and(|slot| self.llc.is_dirty(slot));
        match (private, shared) {
            (Some(held), _) => Some((held.data, held.dirty || dirty_below, held.tag)),
            (None, Some(slot)) => Some((*self.llc.data(slot), dirty_below, self.llc.tag(slot))),
            (None, None) => {
                let cache = &self.buffer.as_ref()?.cache;
                let slot = cache.probe(line)?;
                Some((*cache.data(slot), is_buffered, cache.tag(slot)))
            }
        }
    }

    /// Every line that is newer in some cache than in memory, in ascending order.
    pub fn dirty_lines(&self) -> Vec<LineAddr> {
        let private = self.lanes.iter().flat_map(Lane::caches);
        let shared = self.buffer.iter().map(|buffer| &buffer.cache).chain([&self.llc]);
        let held = private.chain(shared).flat_map(Cache::lines);
        let mut dirty: Vec<_> = held.filter_map(|(line, dirty)| dirty.then_some(line)).collect();
        dirty.sort_unstable();
        dirty.dedup();
        dirty
    }

    /// The counts so far.
    pub fn stats(&self) -> HierarchyStats {
        let mut stats = HierarchyStats {
            llc: self.llc.stats,
            buffer: self.buffer.as_ref().map(|buffer| buffer.cache.stats),
            traffic: self.traffic,
            ..HierarchyStats::default()
        };
        for lane in &self.lanes {
            stats.l1 += lane.l1.stats;
            stats.l2 += lane.l2.as_ref().map_or(CacheStats::default(), |l2| l2.stats);
        }
        stats
    }

    /// The counts so far; counting starts again, and the caches keep their lines.
    pub fn take_stats(&mut self) -> HierarchyStats {
        let stats = self.stats();
        self.traffic = Traffic::default();
        self.llc.stats = CacheStats::default();
        if let Some(buffer) = &mut self.buffer {
            buffer.cache.stats = CacheStats::default();
        }
        for lane in &mut self.lanes {
            lane.l1.stats = CacheStats::default();
            if let Some(l2) = &mut lane.l2 {
                l2.stats = CacheStats::default();
            }
        }
        stats
    }

    /// The slot of a line in the lane's first level, brought there if need be, and owned where
    /// it is wanted for a store.
    #[inline]
    fn acquire<B: Backing<T>>(
        &mut self,
        lane: usize,
        line: LineAddr,
        want: Want,
        below: &mut B,
    ) -> Slot {
        match self.lanes[lane].l1.access(line) {
            Some(slot) => {
                if want == Want::Write && !self.lanes[lane].l1.is_owned(slot) {
                    self.upgrade(lane, line, slot);
                }
                slot
            }
            None => self.fill(lane, line, want, below),
        }
    }

    #[inline]
    #[track_caller]
    fn check(&self, lane: LaneId) -> usize {
        let index = usize::from(lane.0);
        assert!(index < self.lanes.len(), "lane {index} in a machine of {} lanes", self.lanes());
        index
    }
}

impl<T: LineTag> Lane<T> {
    fn caches(&self) -> impl Iterator<Item = &Cache<T>> {
        std::iter::once(&self.l1).chain(&self.l2)
    }

    /// The line in this lane's private caches: the bytes of the upper copy, with the
    /// states of both.
    #[inline]
    fn newest(&self, line: LineAddr) -> Option<Contents<T>> {
        let mut newest: Option<Contents<T>> = None;
        for cache in self.caches() {
            if let Some(slot) = cache.probe(line) {
                let held = newest.get_or_insert(Contents {
                    data: *cache.data(slot),
                    dirty: false,
                    owned: false,
                    tag: cache.tag(slot),
                });
                held.dirty |= cache.is_dirty(slot);
                held.owned |= cache.is_owned(slot);
            }
        }
        newest
    }

    /// Takes the line out of both private levels.
    #[inline]
    fn take(&mut self, line: LineAddr) -> Option<Contents<T>> {
        let upper = self.l1.remove(line);
        let lower = self.l2.as_mut().and_then(|l2| l2.remove(line));
        self.l1.stats.invalidations += u64::from(upper.is_some());
        if let (Some(l2), Some(_)) = (&mut self.l2, lower) {
            l2.stats.invalidations += 1;
        }
        match (upper, lower) {
            (Some(upper), Some(lower)) => Some(Contents {
                data: upper.data,
                dirty: upper.dirty || lower.dirty,
                owned: upper.owned || lower.owned,
                tag: upper.tag,
            }),
            (upper, lower) => upper.or(lower),
        }
    }

    /// Makes every private copy a clean one of `data`, which the shared level or memory now has.
    #[inline]
    fn clean(&mut self, line: LineAddr, data: &LineBytes) {
        for cache in std::iter::once(&mut self.l1).chain(&mut self.l2) {
            if let Some(slot) = cache.probe(line) {
                cache.clean(slot, data);
            }
        }
    }

    /// Grants or withdraws ownership of every private copy.
    #[inline]
    fn set_owned(&mut self, line: LineAddr, owned: bool) {
        for cache in std::iter::once(&mut self.l1).chain(&mut self.l2) {
            if let Some(slot) = cache.probe(line) {
                cache.set_owned(slot, owned);
            }
        }
    }
}
