//! Pools, lanes and transactions under a brand.

use std::marker::PhantomData;
use std::time::Duration;

use outlast_pmem::{Mapped, Medium};

use crate::{Abort, AsyncTicket, Lane, Pool, PoolError, Runner, Ticket, Transact, Tx};

/// The brand of one pool: a lifetime that equals no other.
pub(super) type Brand<'id> = PhantomData<fn(&'id ()) -> &'id ()>;

impl<M: Medium> Pool<M> {
    /// Calls `body` with this pool under a brand of its own: a lifetime `'id` that the compiler
    /// knows to be neither longer nor shorter than any other. What belongs to the pool carries it,
    /// so nothing of it leaves `body`, and nothing of another pool comes in.
    ///
    /// ```
    /// use outlast::typed::PBox;
    /// # use outlast::Pool;
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("typed.pool");
    /// # let pool = Pool::create(&path)?;
    /// let sum = pool.typed(|pool| {
    ///     let mut lane = pool.lane()?;
    ///     let seven = lane.run(|tx| PBox::new(tx, 7u64))?;
    ///     lane.run(|tx| Ok(seven.get(tx)? + 1)).map_err(Box::<dyn std::error::Error>::from)
    /// })?;
    /// assert_eq!(sum, 8);
    /// # Ok(())
    /// # }
    /// ```
    pub fn typed<'p, R>(&'p self, body: impl for<'id> FnOnce(TypedPool<'id, 'p, M>) -> R) -> R {
        body(TypedPool { pool: self, brand: PhantomData })
    }

    /// Runs `body` as one typed transaction, as [`run`](Self::run) does an untyped one: on a lane that it takes and gives
    /// back, under a brand of its own. [`typed`](Self::typed) keeps lanes and pointers from one transaction to the next.
    ///
    /// ```
    /// use outlast::Pool;
    /// use outlast::typed::PHashMap;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("visits.pool");
    /// let pool = Pool::open_or_create(&path)?;
    /// let visits = pool.run_typed(|tx| {
    ///     let pages = tx.root_or_new::<PHashMap<'_, str, u64>>()?.get(tx)?;
    ///     pages.entry(tx, "/index")?.and_modify(|visits| visits + 1)?.or_insert(1)
    /// })?;
    /// assert_eq!(visits, 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As of `run`.
    pub fn run_typed<'p, O, F>(&'p self, body: F) -> Result<O, Abort>
    where
        F: for<'id> FnMut(&mut TypedTx<'id, '_, Tx<'p, M>>) -> Result<O, Abort>,
    {
        self.typed(|pool| pool.run(body))
    }

    /// As [`run_typed`](Self::run_typed), for a body that fails with an error of the program's own:
    /// [`Runner::try_run`].
    ///
    /// # Errors
    /// As of [`try_run`](Self::try_run).
    pub fn try_run_typed<'p, O, E, F>(&'p self, body: F) -> Result<O, E>
    where
        F: for<'id> FnMut(&mut TypedTx<'id, '_, Tx<'p, M>>) -> Result<O, E>,
        E: From<Abort>,
    {
        self.typed(|pool| pool.try_run(body))
    }
}

/// Calls `body` with any runner under a brand of its own, as [`Pool::typed`] does with a pool: for
/// programs that are written once over [`Runner`] and run on peers too.
pub fn with_runner<R: Runner, O>(
    runner: R,
    body: impl for<'id> FnOnce(TypedLane<'id, R>) -> O,
) -> O {
    body(TypedLane { runner, brand: PhantomData })
}

/// Calls `body` with a running transaction under a brand of its own.
pub(crate) fn with_transaction<X: Transact, O>(
    tx: &mut X,
    body: impl for<'id> FnOnce(&mut TypedTx<'id, '_, X>) -> O,
) -> O {
    body(&mut TypedTx { tx, brand: PhantomData })
}

/// A pool under its brand. It is shared between threads as the pool is.
pub struct TypedPool<'id, 'p, M: Medium = Mapped> {
    pool: &'p Pool<M>,
    brand: Brand<'id>,
}

impl<M: Medium> Clone for TypedPool<'_, '_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Medium> Copy for TypedPool<'_, '_, M> {}

impl<'id, 'p, M: Medium> TypedPool<'id, 'p, M> {
    /// Takes a lane, as [`Pool::lane`] does. It goes back when dropped.
    ///
    /// # Errors
    /// As of `Pool::lane`.
    pub fn lane(self) -> Result<TypedLane<'id, Lane<'p, M>>, PoolError> {
        Ok(TypedLane { runner: self.pool.lane()?, brand: PhantomData })
    }

    /// Takes a lane, as [`Pool::lane_timeout`] does.
    ///
    /// # Errors
    /// As of `Pool::lane_timeout`.
    pub fn lane_timeout(self, limit: Duration) -> Result<TypedLane<'id, Lane<'p, M>>, PoolError> {
        Ok(TypedLane { runner: self.pool.lane_timeout(limit)?, brand: PhantomData })
    }

    /// Takes the lane of that number, if it is free.
    ///
    /// # Errors
    /// [`PoolError::NoLane`] when it is taken.
    pub fn lane_at(self, id: usize) -> Result<TypedLane<'id, Lane<'p, M>>, PoolError> {
        Ok(TypedLane { runner: self.pool.lane_at(id)?, brand: PhantomData })
    }

    /// Runs `body` as one transaction, as [`Pool::run`] does: on a lane that it takes and gives back.
    ///
    /// # Errors
    /// As of `Pool::run`.
    pub fn run<O, F>(self, mut body: F) -> Result<O, Abort>
    where
        F: FnMut(&mut TypedTx<'id, '_, Tx<'p, M>>) -> Result<O, Abort>,
    {
        self.pool.run(|tx| body(&mut TypedTx { tx, brand: PhantomData }))
    }

    /// Runs `body` as one transaction, as [`Pool::try_run`] does: on a lane that it takes and gives back, with
    /// an error of the program's own.
    ///
    /// # Errors
    /// As of `Pool::try_run`.
    pub fn try_run<O, E, F>(self, mut body: F) -> Result<O, E>
    where
        F: FnMut(&mut TypedTx<'id, '_, Tx<'p, M>>) -> Result<O, E>,
        E: From<Abort>,
    {
        self.pool.try_run(|tx| body(&mut TypedTx { tx, brand: PhantomData }))
    }

    /// The pool without its brand.
    pub fn pool(self) -> &'p Pool<M> {
        self.pool
    }
}

/// A lane under its pool's brand: it runs typed transactions.
pub struct TypedLane<'id, R: Runner> {
    runner: R,
    brand: Brand<'id>,
}

impl<'id, R: Runner> TypedLane<'id, R> {
    /// Runs `body` as one transaction, as [`Runner::run`] does.
    ///
    /// # Errors
    /// As [`Runner::run`].
    #[inline]
    pub fn run<O, F>(&mut self, mut body: F) -> Result<O, Abort>
    where
        F: FnMut(&mut TypedTx<'id, '_, R::Tx>) -> Result<O, Abort>,
    {
        self.runner.run(|tx| body(&mut TypedTx { tx, brand: PhantomData }))
    }

    /// Runs `body` as one transaction, as [`Runner::try_run`] does: the error is the program's own.
    ///
    /// # Errors
    /// As [`Runner::try_run`].
    #[inline]
    pub fn try_run<O, E, F>(&mut self, mut body: F) -> Result<O, E>
    where
        F: FnMut(&mut TypedTx<'id, '_, R::Tx>) -> Result<O, E>,
        E: From<Abort>,
    {
        self.runner.try_run(|tx| body(&mut TypedTx { tx, brand: PhantomData }))
    }

    /// The lane without its brand.
    pub fn into_untyped(self) -> R {
        self.runner
    }
}

impl<'id, 'p, M: Medium> TypedLane<'id, Lane<'p, M>> {
    /// As [`run`](Self::run), and returns the commit's ticket beside what `body` returned.
    ///
    /// # Errors
    /// As [`Lane::run_ticketed`].
    pub fn run_ticketed<O, F>(&mut self, mut body: F) -> Result<(O, Ticket), Abort>
    where
        F: FnMut(&mut TypedTx<'id, '_, Tx<'p, M>>) -> Result<O, Abort>,
    {
        self.runner.run_ticketed(|tx| body(&mut TypedTx { tx, brand: PhantomData }))
    }

    /// As [`run`](Self::run), and returns before the transaction is durable: see
    /// [`Lane::run_async`].
    ///
    /// # Errors
    /// As [`Lane::run_async`].
    pub fn run_async<O, F>(&mut self, mut body: F) -> Result<(O, AsyncTicket), Abort>
    where
        F: FnMut(&mut TypedTx<'id, '_, Tx<'p, M>>) -> Result<O, Abort>,
    {
        self.runner.run_async(|tx| body(&mut TypedTx { tx, brand: PhantomData }))
    }

    /// As [`run_async`](Self::run_async), for a body that fails with an error of the program's own: see
    /// [`Runner::try_run`].
    ///
    /// # Errors
    /// As [`Runner::try_run`].
    pub fn try_run_async<O, E, F>(&mut self, mut body: F) -> Result<(O, AsyncTicket), E>
    where
        F: FnMut(&mut TypedTx<'id, '_, Tx<'p, M>>) -> Result<O, E>,
        E: From<Abort>,
    {
        self.runner.try_run_async(|tx| body(&mut TypedTx { tx, brand: PhantomData }))
    }

    /// As [`Lane::await_physical`].
    ///
    /// # Errors
    /// As [`Lane::await_physical`].
    ///
    /// # Panics
    /// As [`Lane::await_physical`].
    pub fn await_physical(&mut self, ticket: Ticket) -> Result<(), Abort> {
        self.runner.await_physical(ticket)
    }
}

/// A running transaction under its pool's brand. Whatever reads or changes something typed takes
/// it, so nothing is read or changed outside a transaction, or in another pool's.
pub struct TypedTx<'id, 't, X: Transact> {
    tx: &'t mut X,
    brand: Brand<'id>,
}

impl<X: Transact> TypedTx<'_, '_, X> {
    /// The transaction without its brand, for blocks and collections without types. What is stored
    /// this way over something typed is read as whatever it then is.
    ///
    /// Its type says nothing but that, so that it cannot be exchanged for another pool's.
    #[inline]
    pub fn untyped(&mut self) -> &mut impl Transact {
        self.tx
    }

    /// As [`untyped`](Self::untyped), for this module.
    #[inline]
    pub(super) fn raw(&mut self) -> &mut X {
        self.tx
    }
}
