//! A snapshot as a medium: what reads a pool reads it as it was at one moment.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering, fence};

use outlast_pmem::{Medium, MediumFailure};
use outlast_trace::{LineAddr, PoolOffset, line_pieces};

use super::head::{Head, LaneWord, RING_LINES, Ring};
use super::{Mistake, Mistakes};
use crate::spin::wait;

/// A pool beside its writer, as it was when the snapshot was taken: a [`Medium`] to which nothing can be
/// stored. Without a writer it is the pool as it lies there.
///
/// When [`is_usable`](Medium::is_usable) says no, the snapshot is over, and what was loaded since the last yes may be
/// of another time.
pub struct Snapshot<M> {
    pool: M,
    beside: Option<Beside<M>>,
}

/// The shared words, and what makes the snapshot.
struct Beside<M> {
    head: Head<M>,
    ring: Ring<M>,
    lanes: usize,
    /// The reader's place, whose bit the writer sees.
    place: usize,
    /// Of the writer that has the pool.
    generation: u64,
    /// Commits with tags up to this one belong to the snapshot.
    epoch: AtomicU64,
    /// Entries of the ring before this one are older than the snapshot.
    first: AtomicU64,
    is_over: AtomicBool,
    mistakes: Mistakes,
}

/// Why there is no snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NoSnapshot {
    /// The writer has gone or was replaced.
    OtherWriter,
    /// A commit has begun to store in place and does not end: its process was stopped or has died.
    Stuck,
}

impl<M: Medium> Snapshot<M> {
    /// The pool as it lies there, which nothing changes.
    pub(crate) fn still(pool: M) -> Self {
        Self { pool, beside: None }
    }

    /// A pool that a writer of that generation has. The first snapshot is still to be taken.
    pub(crate) fn beside(
        pool: M,
        head: Head<M>,
        ring: Ring<M>,
        lanes: usize,
        place: usize,
        generation: u64,
    ) -> Self {
        let beside = Beside {
            head,
            ring,
            lanes,
            place,
            generation,
            epoch: AtomicU64::new(0),
            first: AtomicU64::new(u64::MAX),
            is_over: AtomicBool::new(false),
            mistakes: Mistakes::default(),
        };
        Self { pool, beside: Some(beside) }
    }

    /// It makes a mistake.
    #[cfg(all(test, not(outlast_loom)))]
    pub(crate) fn making(mut self, mistakes: Mistakes) -> Self {
        self.beside.as_mut().expect("beside a writer").mistakes = mistakes;
        self
    }

    /// The medium underneath.
    pub(crate) fn pool(&self) -> &M {
        &self.pool
    }

    /// Takes a snapshot of this moment. `true` when it differs from the last one. While a commit stores in place
    /// `is_patient` is asked whether to wait on.
    pub(crate) fn take(&self, is_patient: impl Fn() -> bool) -> Result<bool, NoSnapshot> {
        let Some(beside) = &self.beside else { return Ok(false) };
        let Beside { head, lanes, generation, epoch, first, is_over, .. } = beside;
        if !beside.is_seen() {
            return Err(NoSnapshot::OtherWriter);
        }
        let kept = head.kept();
        // Every commit keeps lines before it stores in place.
        if kept == first.load(Ordering::Relaxed) && !is_over.load(Ordering::Relaxed) {
            return Ok(false);
        }
        // VERSION-1. An entry that is there already has a tag up to the epoch.
        let now = head.raise_epoch();
        fence(Ordering::SeqCst);
        for lane in 0..*lanes {
            let mut tries = 0;
            while match head.lane(lane) {
                LaneWord::Idle => false,
                LaneWord::Begins => true,
                LaneWord::Installs(tag) => tag <= now,
            } && !beside.mistakes.has(Mistake::NotAwaited)
            {
                if head.generation() != *generation {
                    return Err(NoSnapshot::OtherWriter);
                }
                if (M::OBSERVED || tries % 1024 == 1023) && !is_patient() {
                    return Err(NoSnapshot::Stuck);
                }
                wait(&self.pool, &mut tries);
            }
        }
        epoch.store(now, Ordering::Relaxed);
        first.store(kept, Ordering::Relaxed);
        is_over.store(false, Ordering::Relaxed);
        Ok(true)
    }

    /// The part of a line that `in_place` loads from the pool, or `kept` takes from its old content.
    #[inline]
    fn read<R>(
        &self,
        line: LineAddr,
        in_place: impl Fn(&M) -> R,
        kept: impl FnOnce([u64; 8]) -> R,
    ) -> R {
        let Some(beside) = &self.beside else { return in_place(&self.pool) };
        let first = beside.first.load(Ordering::Relaxed);
        loop {
            let newest = beside.ring.newest(line);
            if newest > first {
                let found =
                    beside.find(line, newest, first).map(|number| beside.ring.content(number));
                let result = found.map_or_else(|| Err(in_place(&self.pool)), Ok);
                beside.look_whether_overtaken(first);
                match result {
                    Ok(content) => return kept(content),
                    Err(loaded)
                        if beside.ring.newest(line) == newest
                            || beside.mistakes.has(Mistake::LookedOnce) =>
                    {
                        beside.look_whether_replaced();
                        return loaded;
                    }
                    Err(_) => continue,
                }
            }
            let loaded = in_place(&self.pool);
            fence(Ordering::Acquire);
            // VERSION-2.
            if beside.ring.newest(line) == newest || beside.mistakes.has(Mistake::LookedOnce) {
                beside.look_whether_replaced();
                return loaded;
            }
        }
    }
}

impl<M: Medium> Beside<M> {
    /// The entry that has the line as the snapshot has it, if it was changed since.
    #[cold]
    fn find(&self, line: LineAddr, newest: u64, first: u64) -> Option<u64> {
        let epoch = self.epoch.load(Ordering::Relaxed);
        let (mut next, mut found) = (newest, None);
        // Entries of a bucket lead to older ones, until one of them has been overtaken.
        for _ in 0..RING_LINES {
            if next <= first {
                break;
            }
            let entry = self.ring.entry(next - 1);
            if entry.line == line && entry.tag > epoch {
                found = Some(next - 1);
                if self.mistakes.has(Mistake::NewestTaken) {
                    break;
                }
            }
            if entry.before >= next {
                break;
            }
            next = entry.before;
        }
        found
    }

    /// VERSION-4, behind a look at the ring.
    fn look_whether_overtaken(&self, first: u64) {
        fence(Ordering::Acquire);
        if self.head.kept() - first > RING_LINES && !self.mistakes.has(Mistake::OvertakenUnseen) {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// VERSION-6, behind a load from the pool.
    #[inline]
    fn look_whether_replaced(&self) {
        fence(Ordering::Acquire);
        if !self.is_seen() {
            self.is_over.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the writer is still that one, and keeps lines for this reader.
    #[inline]
    fn is_seen(&self) -> bool {
        self.head.generation() == self.generation && self.head.readers() >> self.place & 1 == 1
    }
}

/// A line's bytes.
fn bytes_of(content: &[u64; 8]) -> &[u8; 64] {
    bytemuck::cast_ref(content)
}

impl<M: Medium> Medium for Snapshot<M> {
    const OBSERVED: bool = M::OBSERVED;

    fn has_atomic_line(&self) -> bool {
        false
    }

    fn len(&self) -> u64 {
        self.pool.len()
    }

    fn is_forked(&self) -> bool {
        self.pool.is_forked()
    }

    fn failure(&self) -> Option<MediumFailure> {
        self.pool.failure()
    }

    #[inline]
    fn is_usable(&self) -> bool {
        let is_over = |beside: &Beside<M>| beside.is_over.load(Ordering::Relaxed);
        !self.beside.as_ref().is_some_and(is_over)
    }

    fn is_paged(&self) -> bool {
        self.pool.is_paged()
    }

    #[inline]
    fn load(&self, at: PoolOffset, out: &mut [u8]) {
        if self.beside.is_none() {
            return self.pool.load(at, out);
        }
        let mut done = 0;
        for (piece, len) in line_pieces(at, out.len()) {
            let mut part = [0; 64];
            let in_line = piece.in_line();
            let in_place = |pool: &M| {
                let mut part = [0; 64];
                pool.load(piece, &mut part[..len]);
                part
            };
            let kept = |content: [u64; 8]| {
                let mut part = [0; 64];
                part[..len]
                    .copy_from_slice(&bytes_of(&content.map(u64::to_le))[in_line..in_line + len]);
                part
            };
            part[..len].copy_from_slice(&self.read(piece.line(), in_place, kept)[..len]);
            out[done..done + len].copy_from_slice(&part[..len]);
            done += len;
        }
    }

    #[inline]
    fn load_u64(&self, at: PoolOffset) -> u64 {
        let in_line = at.in_line();
        self.read(at.line(), |pool| pool.load_u64(at), |content| content[in_line / 8])
    }

    fn store(&self, at: PoolOffset, _: &[u8]) {
        self.store_u64(at, 0);
    }

    fn store_u64(&self, at: PoolOffset, _: u64) {
        panic!("a store to {at} of a snapshot, which is for reading only");
    }

    fn store_nt(&self, at: PoolOffset, _: &[u8]) {
        self.store_u64(at, 0);
    }

    fn store_line(&self, line: LineAddr, _: &[u8; 64]) {
        self.store_u64(line.start(), 0);
    }

    fn flush(&self, _: LineAddr) {}

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn compare_exchange_u64(&self, at: PoolOffset, _: u64, _: u64) -> Result<u64, u64> {
        self.store_u64(at, 0);
        unreachable!("a store to a snapshot panics")
    }

    #[inline]
    fn prefetch_read(&self, line: LineAddr) {
        self.pool.prefetch_read(line);
    }
}
