//! The transaction that a workload sees, under every runtime.
//!
//! Structures and workloads are written once over [`Transact`]; our own pools implement it with
//! each logging scheme, the peers implement it on their libraries, and a hardware scheme makes
//! it a begin and an end marker around plain stores. [`Runner`] is the thing that runs closures
//! over it.

use outlast_trace::{ByteRange, PoolOffset};

pub use crate::abort::Abort;
use crate::abort::Reason;

/// Which of the heap's regions a block is to live in, so that related blocks lie together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum BlockKind {
    /// Nodes and everything else without a region of its own.
    General = 0,
    /// Keys.
    Key = 1,
    /// Fields and values.
    Value = 2,
    /// Log segments.
    Log = 3,
}

impl BlockKind {
    /// Every kind, in the order of their numbers on media.
    pub const ALL: [Self; 4] = [Self::General, Self::Key, Self::Value, Self::Log];

    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        Self::ALL.get(usize::from(bits)).copied()
    }
}

/// The kind of the root object, by which `check` follows its pointers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[repr(u8)]
#[non_exhaustive]
pub enum RootKind {
    /// Something of the user's: reachability cannot be checked.
    Opaque = 0,
    /// A [persistent hash map](crate) with byte-string keys and values.
    HashMap = 1,
    /// A B+tree with byte-string keys and values.
    BTree = 2,
    /// One block of plain words.
    Words = 3,
    /// A directory of B+trees.
    Trees = 4,
    /// A red-black tree with words as keys.
    RbTree = 5,
    /// A queue.
    Queue = 6,
    /// A directory of [names](crate::collections::Names).
    Names = 7,
}

impl RootKind {
    /// Every kind, in the order of their numbers on media.
    pub const ALL: [Self; 8] = [
        Self::Opaque,
        Self::HashMap,
        Self::BTree,
        Self::Words,
        Self::Trees,
        Self::RbTree,
        Self::Queue,
        Self::Names,
    ];

    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        Self::ALL.get(usize::from(bits)).copied()
    }
}

/// The operations of a running transaction.
///
/// Loads see the transaction's own stores. Between the start and the end of a transaction no
/// other transaction's effects appear or are overwritten (serializable isolation), where the
/// scheme promises isolation at all; the peers promise it on one thread.
///
/// Offsets are bytes from the start of the pool. Accesses to bytes that the transaction did not
/// reach through the root or get from [`alloc`](Self::alloc) are a mistake of the caller and may
/// end in [`Abort::BadAddress`] or a panic, never in undefined behaviour.
pub trait Transact {
    /// Copies `out.len()` bytes from `at` on.
    fn load(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort>;

    /// Announces that the transaction will store somewhere in these ranges, so that a scheme
    /// can log them together, with one fence. Announcing what is never stored is allowed and
    /// costs its logging; so is announcing twice.
    fn will_write(&mut self, ranges: &[ByteRange]) -> Result<(), Abort>;

    /// Stores `bytes` from `at` on. What was not announced is logged now. Blocks that this
    /// transaction allocated need no announcement and cost no logging of old bytes.
    fn store(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort>;

    /// A new block of at least `bytes` bytes, aligned to 64 when that large and to 16 otherwise.
    /// Its content is undefined. If the transaction does not commit it was never taken.
    fn alloc(&mut self, bytes: u64, kind: BlockKind) -> Result<PoolOffset, Abort>;

    /// Gives a block back, at commit. `block` is what [`alloc`](Self::alloc) returned.
    fn free(&mut self, block: PoolOffset) -> Result<(), Abort>;

    /// The bytes that a block has, at least those that it was allocated for; `None` where the runtime
    /// cannot tell. `block` is what [`alloc`](Self::alloc) returned.
    fn block_bytes(&mut self, block: PoolOffset) -> Result<Option<u64>, Abort> {
        let _ = block;
        Ok(None)
    }

    /// The root object, if one was set: where every structure of the pool is found from.
    fn root(&mut self) -> Result<Option<(PoolOffset, RootKind)>, Abort>;

    /// Makes `block` the root object. Takes effect with the transaction.
    fn set_root(&mut self, block: PoolOffset, kind: RootKind) -> Result<(), Abort>;

    /// Announces that the transaction will load from these ranges soon, so that what is far away is
    /// fetched together. A hint: it changes nothing, whatever the ranges are.
    #[inline]
    fn will_read(&mut self, ranges: &[ByteRange]) {
        let _ = ranges;
    }

    /// Does work of the program's own: about this number of instructions that touch no persistent memory. Real
    /// memory executes them; a medium that observes notes them.
    #[inline]
    fn compute(&mut self, instructions: u32) {
        let _ = instructions;
    }

    /// The first operation of this transaction that failed, for a runner whose closure has an error of its own
    /// ([`Runner::try_run`]); `None` where the runtime does not keep it.
    fn failure(&self) -> Option<&Abort> {
        None
    }

    /// Loads an aligned little-endian word.
    #[inline]
    fn load_u64(&mut self, at: PoolOffset) -> Result<u64, Abort> {
        let mut bytes = [0; 8];
        self.load(at, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Stores an aligned little-endian word.
    #[inline]
    fn store_u64(&mut self, at: PoolOffset, value: u64) -> Result<(), Abort> {
        self.store(at, &value.to_le_bytes())
    }
}

/// Runs transactions, one at a time: one thread's session with a pool.
pub trait Runner {
    /// The transaction that a closure gets.
    type Tx: Transact;

    /// Runs `body` as one transaction and returns once it is durable (where the scheme promises
    /// durability at all). On [`Abort::Conflict`] everything is undone and `body` runs again;
    /// on any other abort everything is undone and the abort is returned. A panic inside `body`
    /// undoes everything too. An operation that failed decides the transaction's end even when
    /// `body` goes on and returns `Ok`: nothing is committed, and that failure is returned.
    ///
    /// `body` must not wait for a transaction of another thread, which may wait for this one.
    ///
    /// # Panics
    /// When `body` runs another transaction of the same pool and the two meet: each would wait for the other. The
    /// message says so.
    fn run<R, F>(&mut self, body: F) -> Result<R, Abort>
    where
        F: FnMut(&mut Self::Tx) -> Result<R, Abort>;

    /// As [`run`](Self::run), for a body that fails with an error of the program's own. That error undoes
    /// everything and is returned. A conflict runs `body` again also where `?` has made it such an error: the
    /// transaction remembers it.
    ///
    /// An error undoes what the transaction has changed. To keep the changes and report a failure, `body` returns the failure as
    /// a value: `Ok(Err(failure))`.
    ///
    /// ```
    /// use outlast::{Abort, BlockKind, Pool, Runner, Transact};
    ///
    /// #[derive(Debug)]
    /// enum BankError {
    ///     Short { missing: u64 },
    ///     Pool(Abort),
    /// }
    ///
    /// impl From<Abort> for BankError {
    ///     fn from(abort: Abort) -> Self {
    ///         Self::Pool(abort)
    ///     }
    /// }
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("bank.pool");
    /// let pool = Pool::open_or_create(&path)?;
    /// let account = pool.run(|tx| {
    ///     let account = tx.alloc(64, BlockKind::General)?;
    ///     tx.store_u64(account, 20)?;
    ///     Ok(account)
    /// })?;
    /// let left = pool.lane()?.try_run(|tx| {
    ///     let balance = tx.load_u64(account)?;
    ///     let left = balance.checked_sub(70).ok_or(BankError::Short { missing: 70 - balance })?;
    ///     tx.store_u64(account, left)?;
    ///     Ok(left)
    /// });
    /// assert!(matches!(left, Err(BankError::Short { missing: 50 })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// That of `body`; that of [`run`](Self::run) as one.
    #[inline]
    fn try_run<R, E, F>(&mut self, mut body: F) -> Result<R, E>
    where
        F: FnMut(&mut Self::Tx) -> Result<R, E>,
        E: From<Abort>,
    {
        let mut own = None;
        let done = self.run(|tx| {
            body(tx).map_err(|error| {
                if let Some(Abort::Conflict) = tx.failure() {
                    return Abort::Conflict;
                }
                own = Some(error);
                Abort::Cancelled(Reason::default())
            })
        });
        done.map_err(|abort| own.unwrap_or_else(|| abort.into()))
    }

    /// As [`run`](Self::run), but may return before the transaction is durable. What returned
    /// before a [`sync`](Self::sync) is durable after it. A crash before takes back the last of
    /// this runner's transactions, each whole; where a runner cannot do so, none.
    fn run_later<R, F>(&mut self, body: F) -> Result<R, Abort>
    where
        F: FnMut(&mut Self::Tx) -> Result<R, Abort>,
    {
        self.run(body)
    }

    /// Makes durable what [`run_later`](Self::run_later) has left.
    ///
    /// # Errors
    /// [`Abort::Forked`] in a forked child of the process that opened the pool, [`Abort::Medium`] when a
    /// write to its file has failed.
    fn sync(&mut self) -> Result<(), Abort> {
        Ok(())
    }
}
