//! How a pool's file is opened, in one chain.

use std::path::Path;
use std::time::Duration;

use outlast_pmem::{Domain, MapError, MapOptions};

use crate::ack::Ack;
use crate::error::PoolError;
use crate::pool::{CreateOptions, OpenOptions, Pool};
use crate::scheme::Scheme;
use crate::versions::{Turns, wait_for};

/// Bytes of a new pool for which no size is given: it grows.
const SIZE: u64 = 16 << 20;

/// How a pool's file is opened, and how a new one is made: [`Pool::options`].
///
/// Settings that are not given take what suits the file and the machine. A new pool begins with 16 MiB and grows by
/// itself up to 64 GiB.
///
/// ```
/// use outlast::{Pool, Scheme};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("jobs.pool");
/// let pool = Pool::options().scheme(Scheme::Redo).lanes(16).open_or_create(&path)?;
/// assert_eq!(pool.scheme(), Scheme::Redo);
/// drop(pool);
/// assert!(Pool::options().create(&path).is_err(), "no file is overwritten");
/// let pool = Pool::options().open(&path)?;
/// assert_eq!(pool.header().geometry.lanes, 16, "which is the pool's own from its creation on");
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "open, create or open_or_create opens the pool"]
pub struct PoolOptions {
    size: u64,
    create: CreateOptions,
    open: OpenOptions,
    map: MapOptions,
    wait: Duration,
}

impl Default for PoolOptions {
    fn default() -> Self {
        let map = MapOptions::default();
        let open = OpenOptions { grow_limit_bytes: map.max_len, ..OpenOptions::default() };
        Self { size: SIZE, create: CreateOptions::default(), open, map, wait: Duration::ZERO }
    }
}

impl PoolOptions {
    /// Bytes of a new pool, rounded up to whole pages: 16 MiB unless this says otherwise.
    pub fn size(mut self, bytes: u64) -> Self {
        self.size = bytes;
        self
    }

    /// The pool grows by itself up to this many bytes; 0 for never. 64 GiB unless this says otherwise.
    pub fn grow_to(mut self, bytes: u64) -> Self {
        self.open.grow_limit_bytes = bytes;
        self.map.max_len = bytes;
        self
    }

    /// How transactions are made durable, whatever the pool was created with. `swift` unless this says otherwise, and
    /// `redo-archapt` where the pool keeps checksums.
    pub fn scheme(mut self, scheme: Scheme) -> Self {
        self.open.scheme = Some(scheme);
        self
    }

    /// The failures that the pool survives, in place of those that the file is found to.
    pub fn domain(mut self, domain: Domain) -> Self {
        self.map.domain = Some(domain);
        self
    }

    /// When a commit returns: once it is durable, unless this says otherwise ([`Ack`]).
    pub fn ack(mut self, ack: Ack) -> Self {
        self.open.ack = ack;
        self
    }

    /// Transactions that run at the same time in a new pool: 8 unless this says otherwise. Each thread that keeps a
    /// [`Lane`](crate::Lane) takes one of them for as long, so give as many as threads that keep one, and one more for
    /// [`Pool::run`]. The number is the pool's own from its creation on.
    pub fn lanes(mut self, count: u32) -> Self {
        self.create.lanes = count;
        self
    }

    /// Bytes of each lane's log in a new pool, a multiple of 64: 256 KiB unless this says otherwise. A longer log is swept
    /// less often; a transaction that needs more than half of it takes chunks of the heap.
    pub fn lane_bytes(mut self, bytes: u64) -> Self {
        self.create.lane_bytes = bytes;
        self
    }

    /// Bytes of a chunk of the heap of a new pool, a power of two from 4 KiB to 1 MiB: the largest block has the
    /// square of it ÷ 8, less a chunk. Pools of 16 MiB or more have chunks of 64 KiB unless this says otherwise, so blocks of
    /// up to 536,805,376 bytes; smaller pools have smaller chunks, from 4 KiB on.
    pub fn chunk_bytes(mut self, bytes: u64) -> Self {
        self.create.chunk_bytes = Some(bytes);
        self
    }

    /// How long [`Pool::lane`] and [`Pool::run`] wait when all lanes are taken by threads of this process: five seconds
    /// unless this says otherwise. Another process that has the pool open is waited for by [`wait`](Self::wait).
    pub fn lane_wait(mut self, time: Duration) -> Self {
        self.open.lane_wait = time;
        self
    }

    /// No other process reads the pool beside this one, and nothing of it is put into shared memory. Readers who have it
    /// open would not hear of this one: for pools that have none.
    pub fn alone(mut self) -> Self {
        self.map.alone = true;
        self
    }

    /// How long an opening waits while another process has the pool open: not at all unless this says otherwise. That one
    /// sees it by [`Pool::is_wanted`](crate::Pool::is_wanted), or hands over between its [`Turns`]. A lane of a pool that this process has
    /// open is waited for by [`lane_wait`](Self::lane_wait).
    pub fn wait(mut self, time: Duration) -> Self {
        self.wait = time;
        self
    }

    /// Every page of the file is faulted in when the pool is opened, so that no later access waits for the kernel.
    pub fn prefault(mut self) -> Self {
        self.map.prefault = true;
        self
    }

    /// A new pool keeps checksums, which find and repair what media faults and stray stores do to its blocks.
    pub fn checksums(mut self) -> Self {
        self.create.checksums = true;
        self
    }

    /// Opens a pool through recovery.
    ///
    /// # Errors
    /// [`PoolError`], and [`MapError::NotFound`] without such a file. The file is as it was.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Pool, PoolError> {
        let path = path.as_ref();
        wait_for(path, self.wait, || Pool::open_with(path, &self.open, &self.map))
    }

    /// Creates a pool in a new file. The file is really allocated; an existing one is never overwritten. It gets
    /// its name when it is a whole pool: after an error, or in a process that is killed, there is none of that name.
    /// What a killed one leaves beside it, under that name with `.creating-` and a number, the next creation removes.
    ///
    /// # Errors
    /// [`PoolError::Map`] for the file, with [`MapError::AlreadyExists`] where there is one; [`PoolError::TooSmall`],
    /// [`PoolError::TooLarge`] and [`PoolError::Parameters`] for the pool. Each names the right value.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<Pool, PoolError> {
        Pool::create_with(path, self.size, &self.create, &self.open, &self.map)
    }

    /// Opens a pool, or creates it where there is no such file. Of several processes that do so at once one
    /// creates it, and the others find it in use.
    ///
    /// # Errors
    /// As of [`open`](Self::open) and [`create`](Self::create).
    pub fn open_or_create(&self, path: impl AsRef<Path>) -> Result<Pool, PoolError> {
        let path = path.as_ref();
        match self.open(path) {
            Err(PoolError::Map(MapError::NotFound { .. })) => {}
            opened => return opened,
        }
        match self.create(path) {
            // Another process was faster.
            Err(PoolError::Map(MapError::AlreadyExists { .. })) => self.open(path),
            created => created,
        }
    }
}

impl PoolOptions {
    /// The pool in that file, which several processes write in turn.
    pub fn turns(&self, path: impl AsRef<Path>) -> Turns {
        Turns::new(path.as_ref(), self.clone())
    }
}

impl Pool {
    /// How to open or create a pool's file: [`PoolOptions`].
    pub fn options() -> PoolOptions {
        PoolOptions::default()
    }

    /// Opens the pool in that file through recovery.
    ///
    /// # Errors
    /// As of [`PoolOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self, PoolError> {
        Self::options().open(path)
    }

    /// Creates a pool in a new file.
    ///
    /// # Errors
    /// As of [`PoolOptions::create`].
    pub fn create(path: impl AsRef<Path>) -> Result<Self, PoolError> {
        Self::options().create(path)
    }

    /// Opens the pool in that file through recovery, or creates it where there is no such file.
    ///
    /// # Errors
    /// As of [`PoolOptions::open_or_create`].
    pub fn open_or_create(path: impl AsRef<Path>) -> Result<Self, PoolError> {
        Self::options().open_or_create(path)
    }
}
