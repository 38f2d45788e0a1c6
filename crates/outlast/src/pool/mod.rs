//! Pools: creation, opening through recovery, and what a running pool shares between threads.
//!
//! Trust is a type. A medium becomes an [`UnrecoveredPool`] when its header proves itself; that
//! can only be recovered; a [`RecoveredPool`] has an empty log and consistent data and can be
//! read, or started with a scheme; only a [`Pool`] runs transactions.

mod backoff;
pub(crate) mod blank;
mod blocks;
mod check;
mod fences;
mod file;
pub(crate) mod handoff;
mod header;
mod lane_log;
mod lanes;
mod open;
mod options;
mod own_error;
mod parked;
mod queue;
mod reach;
mod reader;
mod ring;
mod running;
mod shared;
mod space;

pub(crate) use check::Tell;
pub use check::{CheckReport, CheckStage, CheckStep, FINDINGS_MAX, Finding, Findings};
use header::format;
pub use header::{CreateOptions, Header};
pub(crate) use header::{
    LANE_FLOOR_UNPROVEN, LANE_LINES_UNPROVEN, LANE_SEEN_UNPROVEN, LANE_TAIL_UNPROVEN, is_of_a_pool,
    load_sealed,
};
pub use lanes::Lane;
pub(crate) use lanes::{LaneSlot, LaneState};
#[cfg(test)]
pub(crate) use open::read_root;
pub use open::{OpenOptions, PoolInfo, RecoveredPool, UnrecoveredPool};
pub(crate) use open::{parse_root, read_generation, root_word};
pub use options::PoolOptions;
pub(crate) use own_error::keep_own;
use queue::LaneQueue;
pub use reach::Listed;
pub use reader::Reader;
pub(crate) use ring::ring_in_use;
pub use running::Running;
pub(crate) use shared::{LaneShared, first_not_installed};
pub use space::Space;

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

use outlast_pmem::{GrowError, MapError, Mapped, Medium, MediumFailure};
use outlast_trace::PoolOffset;

use crate::abort::GrowthError;
use crate::ack::{Ack, Ticket};
use crate::alloc::{Heap, store_free_words};
use crate::bias::Bias;
use crate::checkpoint::Checkpointer;
use crate::checksums::Matrices;
use crate::error::PoolError;
use crate::events::event;
use crate::gate::Gate;
use crate::io::{Io, Site};
use crate::layout::{CHUNKS_AT, FLOOR_AT, POOL_BYTES_MAX};
use crate::lock::LockTable;
use crate::padded::CachePadded;
use crate::plant::Plant;
use crate::recover::RecoveryReport;
use crate::scheme::{Facts, Role, Scheme, under, undo};
use crate::sealed::seal_at;
use crate::seq::Seq;
use crate::solo::Solo;
use crate::spin::SpinLock;
use crate::stats::counts::PoolCounts;
use crate::transact::{Abort, Runner};
use crate::tx::Tx;
use crate::versions::Versions;
use crate::writeback::{self, Reach, Sweeper};

/// Bytes that a pool of some megabytes grows by. Each growth costs a file its syncs.
const GROWTH_MIN: u64 = 1 << 20;

/// A pool that runs transactions: in a file, or on another [`Medium`].
///
/// Threads and tasks share it, by reference or as an `Arc`. [`run`](Self::run) takes a lane for one transaction; a
/// thread with many takes a [`Lane`] and keeps it.
///
/// Everything acknowledged is durable however a pool ends, so dropping it is enough. A program that ends in peace calls
/// [`try_close`](Self::try_close), of the last `Arc` through [`Arc::into_inner`](std::sync::Arc::into_inner): it leaves
/// nothing for the next opening to recover, and says whether that could be written. [`close`](Self::close) does so without an answer;
/// [`into_medium`](Self::into_medium) is for tests, which go on with the memory as a crash would leave it.
pub struct Pool<M: Medium = Mapped> {
    pub(crate) medium: M,
    header: Header,
    scheme: Scheme,
    /// The scheme's, on this medium.
    pub(crate) facts: Facts,
    /// Of this opening; part of every number drawn.
    pub(crate) generation: u64,
    /// A counter that is not above any that will be drawn: see [`numbers`](crate::tx).
    pub(crate) clock: CachePadded<AtomicU64>,
    /// The durable floor, once nothing below it can come back.
    floor: AtomicU64,
    /// When a commit is acknowledged.
    pub(crate) ack: Ack,
    pub(crate) locks: LockTable,
    /// Which lane needs no locks, because it is alone.
    pub(crate) solo: Solo,
    /// Where a lane needs none, because it has that to itself.
    pub(crate) bias: Bias,
    pub(crate) heap: CachePadded<SpinLock<Heap>>,
    /// Where checksums lie, if the pool keeps some.
    pub(crate) matrices: Option<Matrices>,
    /// Held by the thread that moves the floor.
    pub(crate) sweeper: CachePadded<SpinLock<Sweeper>>,
    pub(crate) undo: undo::InPool,
    #[cfg(feature = "lab")]
    pub(crate) rollback: crate::scheme::rollback::InPool,
    /// Where records are streamed: shorter ones than this many lines are flushed.
    pub(crate) stream_from: u64,
    /// Commits need not wait to be durable: such as may, without checksums.
    pub(crate) commits_later: bool,
    pub(crate) handoff: handoff::Handoff,
    /// The lane, plus one, that may run alone because it met conflict after conflict.
    pub(crate) privileged: AtomicU64,
    /// Closed while a checkpoint needs the memory for itself.
    pub(crate) gate: Gate,
    /// Changes since the last checkpoint.
    pub(crate) checkpointer: Checkpointer,
    pub(crate) lanes: Box<[LaneSlot]>,
    rings: ring::Rings,
    /// Threads that wait for one.
    queue: LaneQueue,
    pub(crate) plan: writeback::Plan,
    /// The pool grows by itself up to this length.
    grow_limit_bytes: u64,
    /// What processes that read it need.
    pub(crate) versions: Option<Box<Versions<M>>>,
    /// The work of the pool beside that of its lanes.
    pub(crate) counts: CachePadded<PoolCounts>,
    /// What the recovery at the opening did, and how long it took.
    pub(crate) recovery: (RecoveryReport, Duration),
}

impl<M: Medium> Pool<M> {
    /// Makes a zeroed medium a pool and starts it. A published variant's pool keeps checksums of its
    /// own kind, whether `create` asks for any or not.
    pub fn create_on(
        medium: M,
        create: &CreateOptions,
        open: &OpenOptions,
    ) -> Result<Self, PoolError> {
        format(&medium, create, open.scheme)?;
        UnrecoveredPool::open(medium)?.recover()?.start(open)
    }

    /// The memory underneath.
    pub fn medium(&self) -> &M {
        &self.medium
    }

    /// How this pool's transactions are made durable.
    #[inline]
    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Who the pool is and how it is laid out.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Why the pool takes no transactions any more: a write to its file has failed. Close the pool and
    /// open it again.
    pub fn failure(&self) -> Option<MediumFailure> {
        self.medium.failure()
    }

    /// A forked child has a copy of what this process remembers of the pool, and the same file: what
    /// it stored there would be lost to the parent, or the parent's to it. And nothing becomes durable
    /// on a medium that has failed.
    pub(crate) fn refuse_unusable(&self) -> Result<(), PoolError> {
        if self.medium.is_usable() { Ok(()) } else { Err(self.refused()) }
    }

    /// Why the medium is not usable.
    #[cold]
    pub(crate) fn refused(&self) -> PoolError {
        fence(Ordering::Acquire);
        self.tell_failed();
        self.medium.failure().map_or(PoolError::Forked, PoolError::Medium)
    }

    /// Emits the failure of the medium, once.
    fn tell_failed(&self) {
        if let Some(_why) = self.medium.failure()
            && !self.counts.told_failure.swap(true, Ordering::Relaxed)
        {
            event!(ERROR, "medium failed", why = _why.to_string());
        }
    }

    /// The same for a transaction.
    #[cold]
    pub(crate) fn refusal(&self) -> Abort {
        fence(Ordering::Acquire);
        self.tell_failed();
        self.medium.failure().map_or(Abort::Forked, Abort::Medium)
    }

    pub(crate) fn versions(&self) -> Option<&Versions<M>> {
        self.versions.as_deref()
    }

    /// Tells readers in other processes what the pool is doing.
    #[cold]
    pub(crate) fn publish(&self) {
        if let Some(versions) = self.versions() {
            versions.publish(&self.stats_beside(self.log_space()));
        }
    }

    /// For what is neither a lane's, nor a sweep's, nor a group's.
    #[inline(always)]
    pub(crate) fn io(&self) -> Io<'_, M> {
        Io::counted(&self.medium, &self.counts.of_the_rest, self.versions())
    }

    /// For who has locked the sweeper.
    #[inline(always)]
    pub(crate) fn io_of_sweep(&self) -> Io<'_, M> {
        Io::counted(&self.medium, &self.counts.of_sweeps, self.versions())
    }

    /// For who leads a group of commits.
    #[inline(always)]
    pub(crate) fn io_of_group(&self) -> Io<'_, M> {
        Io::counted(&self.medium, &self.counts.of_groups, self.versions())
    }

    /// The number that `counter` is in this opening.
    #[inline]
    pub(crate) fn seq(&self, counter: u64) -> Seq {
        Seq::new(self.generation, counter)
    }

    /// Makes the pool at least `len` bytes long. The file grows first, then directory words say that
    /// the new chunks are free (CREATE-2), then the size does (GROW-1): a crash in between leaves a file with
    /// room to spare.
    pub fn grow(&self, len: u64) -> Result<(), PoolError> {
        self.refuse_unusable()?;
        let io = self.io();
        let geometry = &self.header.geometry;
        if len > POOL_BYTES_MAX {
            return Err(PoolError::TooLarge { given: len });
        }
        let mut heap = self.heap.lock(&self.medium);
        let chunks = len.saturating_sub(geometry.heap_at).div_ceil(geometry.chunk_bytes);
        if chunks <= heap.chunk_count() {
            return Ok(());
        }
        let raise_size = || {
            io.keep(CHUNKS_AT, 8);
            self.medium.store_u64(CHUNKS_AT, seal_at(chunks, CHUNKS_AT));
            io.flush(Site::Chunks, CHUNKS_AT, 8);
            io.try_fence(Site::Chunks)
        };
        if io.plants(Plant::SizeBeforeFile) {
            let _ = raise_size();
        }
        self.medium.grow(geometry.chunk_at(chunks).0)?;
        store_free_words(&self.medium, geometry, heap.chunk_count(), chunks, |words| {
            io.flush(Site::Blank, words.at, words.len);
            self.checkpointer.changes.mark_range(words);
        });
        if !io.try_fence(Site::Blank) || !raise_size() {
            return Err(self.refused());
        }
        let grown = (chunks - heap.chunk_count()) * geometry.chunk_bytes;
        heap.grow_to(chunks);
        self.counts.growths.add(1);
        self.counts.grown_bytes.add(grown);
        event!(INFO, "grew", bytes = geometry.chunk_at(chunks).0, by = grown);
        Ok(())
    }

    /// Whether another process waits to open the pool for writing. Who can do without it for a while closes it: see
    /// [`Turns`](crate::Turns).
    pub fn is_wanted(&self) -> bool {
        self.versions.as_ref().is_some_and(|versions| versions.is_wanted())
    }

    /// Grows by a sixteenth of the heap, a small one by up to a quarter, or by what a block of `bytes`
    /// needs, if the limit allows it.
    ///
    /// # Errors
    /// [`Abort::OutOfSpace`] where the limit, or the file system, has no room, else the cause.
    pub(crate) fn grow_for(&self, bytes: u64) -> Result<(), Abort> {
        let geometry = &self.header.geometry;
        let chunks = self.heap.lock(&self.medium).chunk_count();
        let (len, heap) = (geometry.chunk_at(chunks).0, chunks * geometry.chunk_bytes);
        let usual = (heap / 16).max((heap / 4).min(GROWTH_MIN));
        let wanted = len.saturating_add(usual.max(bytes.saturating_add(2 * geometry.chunk_bytes)));
        let wanted = wanted.min(self.grow_limit_bytes);
        if wanted <= len {
            return Err(Abort::OutOfSpace { bytes });
        }
        self.grow(wanted).map_err(|error| match error {
            PoolError::Medium(failure) => Abort::Medium(failure),
            PoolError::Forked => Abort::Forked,
            PoolError::TooLarge { .. } | PoolError::Grow(GrowError::Fixed) => {
                Abort::OutOfSpace { bytes }
            }
            PoolError::Grow(GrowError::Map(
                MapError::NoSpace { .. } | MapError::PastLimit { .. } | MapError::FileLimit { .. },
            )) => Abort::OutOfSpace { bytes },
            _ if self.medium.failure().is_some() => self.refusal(),
            error => Abort::Growth(GrowthError::new(error)),
        })
    }

    /// From now on allocations and large log records leave so much of the heap alone, rounded up to
    /// whole chunks: they fail with [`Abort::OutOfSpace`](crate::Abort::OutOfSpace), or grow the pool,
    /// before they take it. A program that must be able to free in a full pool holds room back and
    /// sets this to 0 for such a transaction. Kept in memory only; 0 when a pool is opened.
    pub fn hold_back(&self, bytes: u64) {
        let chunks = bytes.div_ceil(self.header.geometry.chunk_bytes);
        self.heap.lock(&self.medium).held_back = chunks;
    }

    /// Takes a lane. It goes back when dropped. Where all are taken this thread sleeps until one is
    /// free, up to [`PoolOptions::lane_wait`], five seconds unless it says otherwise: a program of many tasks takes a lane for each
    /// transaction, or a few, and does not keep it. A thread that asks while it has all the lanes
    /// itself waits in vain.
    ///
    /// # Errors
    /// [`PoolError::NoLane`], [`PoolError::Forked`] in a forked child, and [`PoolError::Medium`] when a
    /// write to the file has failed.
    pub fn lane(&self) -> Result<Lane<'_, M>, PoolError> {
        self.lane_timeout(self.queue.wait_usually)
    }

    /// As [`lane`](Self::lane), and waits up to `limit`. On a medium that observes it does not wait.
    ///
    /// # Errors
    /// As of `lane`.
    pub fn lane_timeout(&self, limit: Duration) -> Result<Lane<'_, M>, PoolError> {
        match self.try_lane() {
            // A scheduler runs one thread at a time, and knows of no sleep.
            Err(PoolError::NoLane { .. }) if !limit.is_zero() && !M::OBSERVED => {
                let deadline = Instant::now().checked_add(limit);
                let take = || match self.try_lane() {
                    Err(PoolError::NoLane { .. }) => None,
                    taken => Some(taken),
                };
                let taken = self.queue.wait_until(deadline, take);
                taken.unwrap_or_else(|| self.try_lane())
            }
            taken => taken,
        }
    }

    /// Takes a lane that is free now.
    ///
    /// # Errors
    /// As of [`lane`](Self::lane).
    pub fn try_lane(&self) -> Result<Lane<'_, M>, PoolError> {
        self.refuse_unusable()?;
        (0..self.lanes.len())
            .find_map(|id| self.take_lane(id))
            .ok_or(PoolError::NoLane { lanes: self.header.geometry.lanes })
    }

    /// Runs `body` as one transaction on a lane that it takes for it, waiting as [`lane`](Self::lane) does, and
    /// gives back: for tasks that come and go. A thread with many transactions keeps a lane; each of them is
    /// then cheaper. Else as [`Runner::run`](crate::Runner::run).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::thread;
    ///
    /// use outlast::{BlockKind, Pool, Transact};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("count.pool");
    /// let pool = Arc::new(Pool::open_or_create(&path)?);
    /// let count = pool.run(|tx| {
    ///     let count = tx.alloc(64, BlockKind::General)?;
    ///     tx.store_u64(count, 0)?;
    ///     Ok(count)
    /// })?;
    /// let threads: Vec<_> = (0..20)
    ///     .map(|_| {
    ///         let pool = Arc::clone(&pool);
    ///         thread::spawn(move || {
    ///             pool.run(|tx| {
    ///                 let value = tx.load_u64(count)?;
    ///                 tx.store_u64(count, value + 1)
    ///             })
    ///         })
    ///     })
    ///     .collect();
    /// for thread in threads {
    ///     thread.join().expect("no thread panics")?;
    /// }
    /// assert_eq!(pool.run(|tx| tx.load_u64(count))?, 20);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As of `Runner::run`; [`Abort::NoLane`] where no lane is free in time.
    pub fn run<'p, R, F>(&'p self, body: F) -> Result<R, Abort>
    where
        F: FnMut(&mut Tx<'p, M>) -> Result<R, Abort>,
    {
        self.lane_to_run()?.run(body)
    }

    /// As [`run`](Self::run), for a body that fails with an error of the program's own:
    /// [`Runner::try_run`](crate::Runner::try_run).
    ///
    /// # Errors
    /// As of `Runner::try_run`; [`Abort::NoLane`] as one of the program's own where no lane is free in time.
    pub fn try_run<'p, R, E, F>(&'p self, body: F) -> Result<R, E>
    where
        F: FnMut(&mut Tx<'p, M>) -> Result<R, E>,
        E: From<Abort>,
    {
        self.lane_to_run()?.try_run(body)
    }

    fn lane_to_run(&self) -> Result<Lane<'_, M>, Abort> {
        self.lane().map_err(|error| match error {
            PoolError::NoLane { lanes } => Abort::NoLane { lanes },
            _ => self.refusal(),
        })
    }

    /// Takes the lane of that number, if it is free now.
    ///
    /// # Errors
    /// As of [`lane`](Self::lane).
    pub fn lane_at(&self, id: usize) -> Result<Lane<'_, M>, PoolError> {
        self.refuse_unusable()?;
        self.take_lane(id).ok_or(PoolError::NoLane { lanes: self.header.geometry.lanes })
    }

    /// A lane is free again.
    pub(crate) fn lane_given_back(&self) {
        if self.versions().is_some_and(Versions::is_read) {
            self.publish();
        }
        self.solo.lane_given_back(&self.medium);
        self.queue.wake();
    }

    fn take_lane(&self, id: usize) -> Option<Lane<'_, M>> {
        let mut state = self.lanes.get(id)?.take(&self.medium)?;
        self.lay_out(&mut state);
        self.solo.lane_taken(&self.medium, id, || self.bias.forget(&self.medium));
        Some(Lane::new(self, state))
    }

    /// Ends the pool in peace and gives the medium back: its log is empty, so that it can be opened
    /// for reading only. A pool that is only dropped has lost nothing, but redo leaves live
    /// records, which want one opening for writing first, as every append-only log does. In a forked
    /// child nothing is stored, and the pool stays open in its parent.
    /// Nor is anything after the medium [has failed](Self::failure), now or earlier, which the medium
    /// that comes back says; [`try_close`](Self::try_close) says it by an error.
    pub fn close(self) -> M {
        if !self.medium.is_usable() {
            return self.medium;
        }
        event!(INFO, "closed", commits = self.counters().commits);
        if self.facts.has_floor {
            writeback::sweep(&self, self.lanes.len(), Reach::All);
        }
        if !under!(self.scheme, D => D::close(&self)) {
            return self.medium;
        }
        // What fails here the log of fences has for the next opening.
        if !self.medium.is_paged() || self.medium.write_in_place().is_ok() {
            self.say_closed();
        }
        self.medium
    }

    /// As [`close`](Self::close), and tells whether all of it became durable in place: what a program calls that ends in
    /// peace. After an error nothing acknowledged is lost: the next opening recovers.
    ///
    /// # Errors
    /// [`PoolError::Medium`], and [`PoolError::Forked`] in a forked child.
    pub fn try_close(self) -> Result<M, PoolError> {
        self.refuse_unusable()?;
        let medium = self.close();
        match medium.failure() {
            Some(failure) => Err(failure.into()),
            None => Ok(medium),
        }
    }

    /// CLOSE-1: a pool of which everything is durable in place says so by a floor above every number, so that
    /// no record is live; then the log of fences is ended.
    fn say_closed(&self) {
        let io = self.io();
        let is_live = self.facts.has_floor && self.floor().counter() <= self.newest();
        // A lane that was forgotten may have a transaction open.
        let is_used = self.lanes.iter().any(|lane| !lane.is_free(&self.medium));
        if self.facts.role == Role::Published || is_live || is_used {
            return;
        }
        let Ok(floor) = open::read_floor(&self.medium) else { return };
        let closed = Seq::new(floor.generation(), Seq::COUNTER_MAX);
        self.medium.store_u64(FLOOR_AT, seal_at(closed.bits(), FLOOR_AT));
        io.flush(Site::Floor, FLOOR_AT, 8);
        if !io.try_fence(Site::Floor) {
            return;
        }
        self.shorten_rings();
        // A damaged log stays as it is: opening will say so.
        let _ = fences::end(io, &self.header);
    }

    /// Ends the pool as dropping it does, and gives the medium back with the log as it is. Nothing needs to be made
    /// durable: every acknowledged transaction already is. [`try_close`](Self::try_close) empties the log first.
    pub fn into_medium(self) -> M {
        self.medium
    }

    /// The root object as it stands. For use between transactions.
    pub fn root(&self) -> Result<Option<(PoolOffset, crate::RootKind)>, PoolError> {
        self.refuse_unusable()?;
        open::read_root(&self.medium)
    }

    /// The floor as raised last: every number below it is of a commit that is physical.
    #[inline]
    pub(crate) fn floor(&self) -> Seq {
        Seq::from_bits(self.floor.load(Ordering::Acquire))
    }

    /// The floor is durable, and the tails behind it. Only a planted bug lowers it.
    pub(crate) fn floor_raised(&self, floor: Seq) {
        self.floor.fetch_max(floor.bits(), Ordering::AcqRel);
    }

    /// When commits are acknowledged.
    pub fn ack(&self) -> Ack {
        self.ack
    }

    /// Whether the commit is physical: all that it stored is durable in place, and its record is
    /// dead. Costs a load. Plain undo makes data durable before it commits, so there every ticket
    /// is; under `none` too, and it says nothing: no ticket is durable and no wait makes it so.
    #[inline]
    pub fn is_physical(&self, ticket: Ticket) -> bool {
        !self.facts.has_floor
            || ticket.seq() < self.floor()
            || under!(self.scheme, D => D::is_dropped(self, ticket.seq()))
    }

    /// Whether a commit of this pool, in this opening or an earlier one, may have that ticket:
    /// waiting for others would never end.
    pub fn has_issued(&self, ticket: Ticket) -> bool {
        ticket.seq() <= self.seq(self.newest().min(Seq::COUNTER_MAX))
    }

    /// Bytes of volatile memory that write-back by age takes for its LRU queue and its table of
    /// objects; 0 for schemes without it.
    pub fn history_bytes(&self) -> u64 {
        match &self.plan.history {
            Some(history) => history.memory_bytes(&self.medium),
            None => under!(self.scheme, D => D::history_bytes(self)),
        }
    }

    /// How many commits that stored something have begun since the pool was opened.
    pub fn commits(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.shared.drawn.load(Ordering::Relaxed)).sum()
    }
}

impl<M: Medium> fmt::Debug for Pool<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut pool = f.debug_struct("Pool");
        pool.field("uuid", &self.header.uuid).field("scheme", &self.scheme).finish_non_exhaustive()
    }
}
