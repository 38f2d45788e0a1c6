//! Reading a pool without a lane: collections and types work on it as in a transaction, and every
//! change is refused.

use outlast_pmem::{Mapped, Medium};
use outlast_trace::{ByteRange, PoolOffset};

use crate::pool::RecoveredPool;
use crate::transact::{Abort, BlockKind, RootKind, Runner, Transact};
use crate::typed::{TypedLane, with_runner};

/// Reads a [`RecoveredPool`], which nothing changes meanwhile. It is a [`Runner`] whose transactions
/// see the pool as it is; what would change it fails with [`Abort::ReadOnly`].
///
/// ```
/// use outlast::collections::{ByteMap, Dictionary};
/// use outlast::medium::MapOptions;
/// use outlast::recover::RecoveredPool;
/// use outlast::{Abort, Pool, Runner, Transact};
/// # use outlast::RootKind;
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("shelf.pool");
/// # let pool = Pool::create(&path)?;
/// # pool.lane()?.run(|tx| {
/// #     let map = ByteMap::create(tx, &Default::default())?;
/// #     map.insert(tx, b"key", b"value")?;
/// #     tx.set_root(map.root(), RootKind::HashMap)
/// # })?;
/// # pool.close();
/// let pool = RecoveredPool::open_read_only(&path, &MapOptions::default())?;
/// let value = pool.reader().run(|tx| {
///     let (root, _) = tx.root()?.ok_or_else(|| Abort::cancelled("an empty pool"))?;
///     let mut value = Vec::new();
///     ByteMap::open(tx, root)?.get(tx, b"key", &mut value)?;
///     Ok(value)
/// })?;
/// assert_eq!(value, b"value");
/// # Ok(())
/// # }
/// ```
pub struct Reader<'p, M: Medium = Mapped> {
    pool: &'p RecoveredPool<M>,
    /// The first failure of the transaction: it decides the end, whatever its closure returns.
    failed: Option<Abort>,
}

impl<M: Medium> RecoveredPool<M> {
    /// Reads the pool. Each thread takes a reader of its own.
    pub fn reader(&self) -> Reader<'_, M> {
        Reader { pool: self, failed: None }
    }

    /// Calls `body` with a reader under a brand of its own, as [`Pool::typed`](crate::Pool::typed)
    /// does with a pool.
    ///
    /// ```
    /// use outlast::medium::MapOptions;
    /// use outlast::recover::RecoveredPool;
    /// use outlast::typed::PVec;
    /// # use outlast::Pool;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("list.pool");
    /// # let pool = Pool::create(&path)?;
    /// # pool.typed(|pool| -> Result<(), Box<dyn std::error::Error>> {
    /// #     Ok(pool.lane()?.run(|tx| {
    /// #         tx.root_or_insert_with(PVec::<u64>::new)?.get(tx)?.push(tx, 7)
    /// #     })?)
    /// # })?;
    /// # pool.close();
    /// let pool = RecoveredPool::open_read_only(&path, &MapOptions::default())?;
    /// let first = pool.typed(|mut reader| {
    ///     reader.run(|tx| match tx.root::<PVec<u64>>()? {
    ///         Some(root) => root.get(tx)?.get(tx, 0),
    ///         None => Ok(None),
    ///     })
    /// })?;
    /// assert_eq!(first, Some(7));
    /// # Ok(())
    /// # }
    /// ```
    pub fn typed<'p, R>(
        &'p self,
        body: impl for<'id> FnOnce(TypedLane<'id, Reader<'p, M>>) -> R,
    ) -> R {
        with_runner(self.reader(), body)
    }
}

impl<M: Medium> Reader<'_, M> {
    #[cold]
    fn fail<T>(&mut self, abort: Abort) -> Result<T, Abort> {
        self.failed.get_or_insert_with(|| abort.clone());
        Err(abort)
    }

    /// What was loaded belongs to a snapshot that is over.
    #[inline]
    fn refuse_overtaken(&mut self) -> Result<(), Abort> {
        if self.pool.medium().is_usable() { Ok(()) } else { self.fail(Abort::Conflict) }
    }

    /// Whether these bytes are the pool's.
    fn check(&mut self, at: PoolOffset, bytes: u64) -> Result<(), Abort> {
        let len = self.pool.medium().len();
        if at.0 > len || len - at.0 < bytes {
            return self.fail(Abort::bad_address("loading", at, "it lies outside the pool"));
        }
        Ok(())
    }
}

impl<M: Medium> Transact for Reader<'_, M> {
    fn load(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        self.check(at, out.len() as u64)?;
        self.pool.medium().load(at, out);
        self.refuse_overtaken()
    }

    fn will_write(&mut self, _: &[ByteRange]) -> Result<(), Abort> {
        self.fail(Abort::ReadOnly)
    }

    fn store(&mut self, _: PoolOffset, _: &[u8]) -> Result<(), Abort> {
        self.fail(Abort::ReadOnly)
    }

    fn alloc(&mut self, _: u64, _: BlockKind) -> Result<PoolOffset, Abort> {
        self.fail(Abort::ReadOnly)
    }

    fn free(&mut self, _: PoolOffset) -> Result<(), Abort> {
        self.fail(Abort::ReadOnly)
    }

    fn root(&mut self) -> Result<Option<(PoolOffset, RootKind)>, Abort> {
        let root = self.pool.root();
        self.refuse_overtaken()?;
        root.or_else(|error| self.fail(Abort::damaged(error.to_string())))
    }

    fn set_root(&mut self, _: PoolOffset, _: RootKind) -> Result<(), Abort> {
        self.fail(Abort::ReadOnly)
    }

    fn failure(&self) -> Option<&Abort> {
        self.failed.as_ref()
    }
}

impl<M: Medium> Runner for Reader<'_, M> {
    type Tx = Self;

    fn run<R, F>(&mut self, mut body: F) -> Result<R, Abort>
    where
        F: FnMut(&mut Self) -> Result<R, Abort>,
    {
        if self.pool.medium().is_forked() {
            return Err(Abort::Forked);
        }
        self.failed = None;
        let done = body(self)?;
        self.failed.take().map_or(Ok(done), Err)
    }
}
