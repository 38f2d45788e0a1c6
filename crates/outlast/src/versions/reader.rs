//! Reading a pool from another process than its writer's.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use outlast_pmem::{
    Heap, MapError, MapOptions, Mapped, Medium, Memory, Overlay, Place, Side, is_named, read_beside,
};

use super::head::{
    Head, Joined, LIVE_PLACE, READERS_MAX, RING, RING_BYTES, Ring, State, WRITER_PLACE,
    remove_unused,
};
use super::snapshot::{NoSnapshot, Snapshot};
use super::turns::from_root;
use crate::barrier::Barrier;
use crate::error::PoolError;
use crate::layout::{CHUNKS_AT, HEADER_PAGE_BYTES};
use crate::pool::{
    Header, Pool, Reader, RecoveredPool, UnrecoveredPool, keep_own, load_sealed, read_generation,
};
use crate::stats::Stats;
use crate::transact::{Abort, Runner};
use crate::typed::{TypedLane, TypedTx, with_transaction};

/// How long a reader waits for a writer that is opening the pool, or that is in the middle of storing in place.
const WAIT: Duration = Duration::from_secs(5);

/// How often a reader looks whether the file of its name and the writer are those that it knows.
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// How often a transaction begins anew whose snapshot was overtaken.
const TRIES_MAX: u32 = 16;

/// The memory that a [`PoolReader`] reads: without a writer, what recovery stores lies over it.
type Below = Overlay<Snapshot<Mapped>>;

/// Reads a pool's file, whether or not another process has it open for writing: [`Pool::read`](crate::Pool::read).
///
/// Each [`run`](Self::run) sees the pool as it was at one moment, with all that was acknowledged before, and of every
/// transaction all or nothing. A writer goes on meanwhile. Of transactions of several threads a snapshot may show one without
/// another that had read what that one then changed: it is a snapshot, not a place in their order.
///
/// ```
/// use outlast::{Abort, BlockKind, Pool, RootKind, Transact};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("clicks.pool");
/// let pool = Pool::open_or_create(&path)?;
/// let count = |value| {
///     pool.run(|tx| {
///         let at = match tx.root()? {
///             Some((at, _)) => at,
///             None => tx.alloc(64, BlockKind::General)?,
///         };
///         tx.store_u64(at, value)?;
///         tx.set_root(at, RootKind::Opaque)
///     })
/// };
/// count(1)?;
///
/// // Mostly in another process.
/// let mut reader = Pool::read(&path)?;
/// let mut clicks = || {
///     reader.run(|tx| {
///         let (at, _) = tx.root()?.ok_or_else(|| Abort::cancelled("an empty pool"))?;
///         tx.load_u64(at)
///     })
/// };
/// assert_eq!(clicks()?, 1);
/// count(2)?;
/// assert_eq!(clicks()?, 2);
/// # Ok(())
/// # }
/// ```
pub struct PoolReader {
    path: PathBuf,
    map: MapOptions,
    // In this order: the reader leaves before its memory goes.
    joined: Option<Joined>,
    pool: RecoveredPool<Below>,
    /// When it looked last whether the file and its writer are still those.
    looked: Instant,
    /// Whether a snapshot is [held](Self::hold).
    is_held: bool,
}

/// Why something could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The pool as a whole.
    #[error(transparent)]
    Pool(#[from] PoolError),
    /// The transaction gave up.
    #[error(transparent)]
    Abort(#[from] Abort),
}

impl Pool {
    /// Opens the pool in that file for reading, also beside a process that writes it.
    ///
    /// # Errors
    /// [`PoolError`]; [`PoolError::NoSnapshot`] where the writer lets no other process read.
    pub fn read(path: impl AsRef<Path>) -> Result<PoolReader, PoolError> {
        PoolReader::open(path, &MapOptions::default())
    }
}

impl PoolReader {
    /// As [`Pool::read`](crate::Pool::read), of a file mapped so.
    ///
    /// # Errors
    /// [`PoolError`].
    pub fn open(path: impl AsRef<Path>, map: &MapOptions) -> Result<Self, PoolError> {
        let path = path.as_ref();
        let (pool, joined) = attach(path, map).map_err(|error| error.of_file(path))?;
        let (path, map, looked) = (from_root(path), map.clone(), Instant::now());
        Ok(Self { path, map, joined, pool, looked, is_held: false })
    }

    /// Whether another process has the pool open for writing, as far as this one knows.
    pub fn is_beside_writer(&self) -> bool {
        self.joined.is_some()
    }

    /// Runs a transaction that reads, on a snapshot of this moment. It runs again if its snapshot is overtaken: while it
    /// runs, others may change 65,536 lines.
    ///
    /// # Errors
    /// Of the pool, and of the closure.
    pub fn run<R>(
        &mut self,
        mut body: impl FnMut(&mut Reader<'_, Below>) -> Result<R, Abort>,
    ) -> Result<R, ReadError> {
        self.on_snapshot(|pool| pool.reader().run(&mut body))
    }

    /// As [`run`](Self::run), for a body that fails with an error of the program's own, which takes both errors of the
    /// library by `?`, as [`PoolError`] does itself.
    ///
    /// # Errors
    /// That of `body`; of the pool, as one.
    pub fn try_run<R, E>(
        &mut self,
        mut body: impl FnMut(&mut Reader<'_, Below>) -> Result<R, E>,
    ) -> Result<R, E>
    where
        E: From<Abort> + From<PoolError>,
    {
        let mut own = None;
        let done = self.run(|tx| {
            own = None; // of a snapshot that was overtaken
            let returned = body(tx);
            keep_own(tx, returned, &mut own)
        });
        done.map_err(|error| match (own, error) {
            (Some(own), ReadError::Abort(Abort::Cancelled(_))) => own,
            (_, ReadError::Abort(abort)) => abort.into(),
            (_, ReadError::Pool(error)) => error.into(),
        })
    }

    /// Runs a typed transaction that reads, as [`Pool::run_typed`](crate::Pool::run_typed) does one that may change the pool:
    /// on a snapshot of this moment, as [`run`](Self::run).
    ///
    /// ```
    /// use outlast::Pool;
    /// use outlast::typed::PHashMap;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("visits.pool");
    /// # let pool = Pool::open_or_create(&path)?;
    /// # pool.run_typed(|tx| {
    /// #     let pages = tx.root_or_new::<PHashMap<'_, str, u64>>()?.get(tx)?;
    /// #     pages.put(tx, "/index", 3)
    /// # })?;
    /// let mut reader = Pool::read(&path)?;
    /// let visits = reader.run_typed(|tx| match tx.root::<PHashMap<'_, str, u64>>()? {
    ///     Some(root) => root.get(tx)?.get(tx, "/index"),
    ///     None => Ok(None),
    /// })?;
    /// assert_eq!(visits, Some(3));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As of `run`.
    pub fn run_typed<R>(
        &mut self,
        mut body: impl for<'id, 'p> FnMut(&mut TypedTx<'id, '_, Reader<'p, Below>>) -> Result<R, Abort>,
    ) -> Result<R, ReadError> {
        self.typed(|mut lane| lane.run(|tx| body(tx)))
    }

    /// As [`run_typed`](Self::run_typed), for a body that fails with an error of the program's own: see
    /// [`try_run`](Self::try_run).
    ///
    /// # Errors
    /// As of `try_run`.
    pub fn try_run_typed<R, E>(
        &mut self,
        mut body: impl for<'id, 'p> FnMut(&mut TypedTx<'id, '_, Reader<'p, Below>>) -> Result<R, E>,
    ) -> Result<R, E>
    where
        E: From<Abort> + From<PoolError>,
    {
        self.try_run(|tx| with_transaction(tx, |tx| body(tx)))
    }

    /// Calls `body` with a lane that reads, under a brand: for several transactions on one snapshot. One is shorter with
    /// [`run_typed`](Self::run_typed).
    ///
    /// # Errors
    /// As of `run`.
    pub fn typed<R>(
        &mut self,
        mut body: impl for<'id, 'p> FnMut(TypedLane<'id, Reader<'p, Below>>) -> Result<R, Abort>,
    ) -> Result<R, ReadError> {
        self.on_snapshot(|pool| pool.typed(&mut body))
    }

    /// Looks at the pool as a whole, on one snapshot: what it is called with is as if no other process had it.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    pub fn on_snapshot<R>(
        &mut self,
        mut body: impl FnMut(&RecoveredPool<Below>) -> Result<R, Abort>,
    ) -> Result<R, ReadError> {
        // It is lost with the next one that is taken.
        self.release();
        for _ in 0..TRIES_MAX {
            self.begin()?;
            let result = {
                let _lock = self.joined.is_none().then(|| Unlocks(self.medium()));
                body(&self.pool)
            };
            if self.is_whole() {
                return Ok(result?);
            }
        }
        let why = "it is overtaken by its writer again and again: read less at a time";
        Err(PoolError::NoSnapshot { why }.into())
    }

    /// Takes a snapshot that stays until [`release`](Self::release), for hosts that can hand over no closure: an interpreter
    /// above all. One that is held already is released. Without a writer the file stays locked meanwhile, so that none comes.
    ///
    /// ```
    /// use outlast::{BlockKind, Pool, RootKind, Transact};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("clicks.pool");
    /// # let pool = Pool::open_or_create(&path)?;
    /// # pool.run(|tx| {
    /// #     let at = tx.alloc(64, BlockKind::General)?;
    /// #     tx.store_u64(at, 1)?;
    /// #     tx.set_root(at, RootKind::Opaque)
    /// # })?;
    /// let mut reader = Pool::read(&path)?;
    /// reader.hold()?;
    /// let (at, _) = reader.in_held(|tx| tx.root())?.expect("it was set");
    /// assert_eq!(reader.in_held(|tx| tx.load_u64(at))?, 1);
    /// assert!(reader.release(), "both were read of one moment");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Of the pool.
    pub fn hold(&mut self) -> Result<(), ReadError> {
        self.release();
        self.begin()?;
        self.is_held = true;
        Ok(())
    }

    /// Reads from the snapshot that is held. What it returns is good if [`release`](Self::release) says so.
    ///
    /// # Errors
    /// [`Abort::Cancelled`] when none is held; of the closure.
    pub fn in_held<R>(
        &mut self,
        body: impl FnMut(&mut Reader<'_, Below>) -> Result<R, Abort>,
    ) -> Result<R, ReadError> {
        match self.is_held {
            true => Ok(self.pool.reader().run(body)?),
            false => Err(Abort::cancelled("no snapshot is held").into()),
        }
    }

    /// Ends the snapshot that is held, if one is. Whether all that was read from it is of one moment: `false` when its writer
    /// has overtaken it, and it is to be taken and read again.
    pub fn release(&mut self) -> bool {
        if std::mem::take(&mut self.is_held) && self.joined.is_none() {
            drop(Unlocks(self.medium()));
        }
        self.is_whole()
    }

    /// Whether the snapshot shows one moment still.
    fn is_whole(&self) -> bool {
        // A writer that tells this process nothing has another generation at the latest when it has recovered the pool.
        let is_same = read_generation(self.medium()).is_ok_and(|now| now == self.pool.generation());
        self.pool.medium().is_usable() && is_same
    }

    /// Takes a snapshot. Without a writer the file is locked, and to be unlocked.
    fn begin(&mut self) -> Result<(), PoolError> {
        // It would unlock its parent's file.
        if self.pool.medium().is_forked() {
            return Err(PoolError::Forked);
        }
        let deadline = Instant::now() + WAIT;
        while !self.try_begin(deadline)? {
            (self.pool, self.joined) = attach(&self.path, &self.map)?;
        }
        Ok(())
    }

    /// `false` when the pool is to be opened anew.
    fn try_begin(&mut self, deadline: Instant) -> Result<bool, PoolError> {
        let snapshot = self.pool.medium().below();
        let file = snapshot.pool().file().expect("a pool in a file");
        if self.looked.elapsed() > BETWEEN_LOOKS {
            self.looked = Instant::now();
            let is_named = is_named(&self.path, file).unwrap_or(false);
            let is_as_before = match &self.joined {
                Some(joined) => joined.has_writer(),
                // A writer that wants to come would find the file locked by one reader or the other for ever.
                None => !is_written(snapshot.pool()),
            };
            if !is_named || !is_as_before {
                return Ok(false);
            }
        }
        let Some(joined) = &self.joined else {
            if file.try_lock_shared().is_err() {
                return Ok(false);
            }
            // An opening for writing since then has another generation.
            let is_same =
                read_generation(snapshot.pool()).is_ok_and(|now| now == self.pool.generation());
            if !is_same {
                let _ = file.unlock();
            }
            return Ok(is_same);
        };
        match snapshot.take(|| Instant::now() < deadline && joined.has_writer()) {
            Ok(false) => Ok(true),
            Ok(true) => {
                // What has grown lies behind what is mapped.
                let chunks =
                    load_sealed(snapshot, CHUNKS_AT, "the size word does not prove itself");
                Ok(chunks.is_ok_and(|chunks| chunks == self.pool.chunks()))
            }
            Err(NoSnapshot::Stuck) if joined.has_writer() => Err(stuck()),
            Err(_) => Ok(false),
        }
    }

    /// What the pool is doing: how full it is now, and of its writer's work what that has published last, which it does
    /// as it changes the pool.
    ///
    /// # Errors
    /// As of [`run`](Self::run).
    pub fn stats(&mut self) -> Result<Stats, ReadError> {
        let (space, lanes, generation, len) = self.on_snapshot(|pool| {
            let lanes = pool.header().geometry.lanes;
            Ok((pool.space(), lanes, pool.generation(), pool.medium().len()))
        })?;
        let published = self.joined.as_ref().map(|joined| joined.head.load_stats());
        let published = published.and_then(|words| Stats::from_words(&words));
        let of_logs = published.and_then(|stats| stats.space).unwrap_or_default();
        Ok(Stats {
            pool_bytes: len,
            lanes,
            generation,
            domain: published.and_then(|stats| stats.domain).or(Some(self.medium().domain())),
            space: Some(space.with_logs_of(&of_logs)),
            counters: published.and_then(|stats| stats.counters),
        })
    }

    /// The memory that the pool lies on, as this process finds it.
    pub fn medium(&self) -> &Mapped {
        self.pool.medium().below().pool()
    }
}

/// Lets writers come again when dropped.
struct Unlocks<'f>(&'f Mapped);

impl Drop for Unlocks<'_> {
    fn drop(&mut self) {
        // A forked child's lock is its parent's.
        if !self.0.is_forked() {
            let _ = self.0.file().expect("a pool in a file").unlock();
        }
    }
}

impl Joined {
    /// Whether the writer is still there, as far as shared memory tells.
    fn has_writer(&self) -> bool {
        self.side.is_taken(LIVE_PLACE) && self.head.state() == State::Live
    }
}

fn stuck() -> PoolError {
    PoolError::NoSnapshot { why: "its writer was stopped in the middle of a commit" }
}

impl Drop for Joined {
    fn drop(&mut self) {
        if self.head.0.is_forked() {
            return;
        }
        self.head.remove_reader(self.place.number);
        remove_unused(&self.side, &self.head, || self.side.is_taken(WRITER_PLACE));
    }
}

/// Opens a pool as it is now, beside its writer if it has one.
fn attach(
    path: &Path,
    map: &MapOptions,
) -> Result<(RecoveredPool<Below>, Option<Joined>), PoolError> {
    let deadline = Instant::now() + WAIT;
    loop {
        let pool = Mapped::open_beside(path, map).map_err(|error| not_a_pool(path, error))?;
        let file = pool.file().expect("a mapped file");
        let locked = match is_written(&pool) {
            true => Err(std::fs::TryLockError::WouldBlock),
            false => file.try_lock_shared(),
        };
        match locked {
            Ok(()) => {
                let opened = still(pool);
                let _ = opened
                    .as_ref()
                    .map(|pool| pool.medium().below().pool().file().map(std::fs::File::unlock));
                return Ok((opened?, None));
            }
            Err(std::fs::TryLockError::Error(error)) => {
                return Err(MapError::io(path, "lock", error).into());
            }
            Err(std::fs::TryLockError::WouldBlock) => {}
        }
        match beside(pool, deadline)? {
            Some((pool, joined)) => return Ok((pool, Some(joined))),
            // It opens the pool, or has just closed it.
            None if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(1)),
            None => return Err(MapError::AlreadyOpen { path: path.to_owned() }.into()),
        }
    }
}

/// Whether a process has the pool open for writing, or is about to open it, as far as shared memory tells.
fn is_written(pool: &Mapped) -> bool {
    pool.file().and_then(Side::of).is_some_and(|side| side.is_taken(WRITER_PLACE))
}

fn not_a_pool(path: &Path, error: MapError) -> PoolError {
    let is_pool = || {
        let mut page = vec![0; HEADER_PAGE_BYTES as usize];
        read_beside(path, &mut page).is_ok()
            && !matches!(Header::read(&Heap::from_bytes(&page)), Err(PoolError::NotAPool { .. }))
    };
    match error {
        MapError::BadLength { .. } if !is_pool() => {
            PoolError::NotAPool { path: Some(path.to_owned()) }
        }
        error => error.into(),
    }
}

/// The pool without a writer, as recovery would leave it. The file is locked.
fn still(pool: Mapped) -> Result<RecoveredPool<Below>, PoolError> {
    let generation = read_generation(&pool)?;
    let medium = Overlay::new(Snapshot::still(pool));
    Ok(UnrecoveredPool::open(medium)?.recover()?.into_read_only_of(generation))
}

/// The pool beside its writer; `None` when that is not ready.
fn beside(
    pool: Mapped,
    deadline: Instant,
) -> Result<Option<(RecoveredPool<Below>, Joined)>, PoolError> {
    let none = |why| PoolError::NoSnapshot { why };
    let header = Header::read(&pool)?;
    let Some(side) = pool.file().and_then(Side::of) else {
        return Err(none("there is no shared memory in /dev/shm by which to find its writer"));
    };
    // VERSION-7, before the words are looked at.
    if !side.is_taken(LIVE_PLACE) {
        return Ok(None);
    }
    // VERSION-7.
    let begin = |head: &Head<&Mapped>| -> Result<Option<(Ring<Mapped>, Place)>, MapError> {
        head.remove_dead(&side);
        let Ok(Some(place)) = side.take_place(READERS_MAX) else { return Ok(None) };
        let (ring, ()) = side.open(RING, RING_BYTES, Memory::AtOnce, |_| ())?;
        head.add_reader(place.number);
        Ok(Some((Ring(ring), place)))
    };
    let (head, joined) = Head::open(&side, &header, begin)?;
    let Some((ring, place)) = joined? else {
        return Err(none("64 processes read it already"));
    };
    let words = head.clone_of(&side, &header)?;
    let joined = Joined { side, head, place };
    // VERSION-5.
    if joined.head.is_one_sided() && !Barrier::reach_other_processes() {
        return Err(none("the system has no barrier between processes (membarrier)"));
    }
    let generation = joined.head.generation();
    match joined.head.state() {
        State::Live => {}
        State::Closed | State::Opening => return Ok(None),
        State::Failed => return Err(none("a write of its writer to the file has failed")),
        State::Alone => {
            return Err(none(
                "its writer's scheme stores in place before it commits, or the pool keeps checksums, which follow later: swift, redo and redo-archapt without checksums let others read",
            ));
        }
    }
    let (lanes, place) = (header.geometry.lanes as usize, joined.place.number);
    let snapshot = Snapshot::beside(pool, words, ring, lanes, place, generation);
    match snapshot.take(|| Instant::now() < deadline && joined.has_writer()) {
        Ok(_) => {}
        Err(NoSnapshot::Stuck) if joined.has_writer() => return Err(stuck()),
        Err(_) => return Ok(None),
    }
    match RecoveredPool::of_snapshot(Overlay::new(snapshot)) {
        // It has grown since it was mapped.
        Err(PoolError::Truncated { .. }) => Ok(None),
        opened => Ok(Some((opened?, joined))),
    }
}
