//! A transaction of libpmemobj's, and the runner over it.
//!
//! The C functions are called without the macros of the header: an all-zero jump buffer makes
//! an abort return instead of jumping, and the `NO_ABORT` flag of each call makes a failure
//! return its number with the transaction still running. The caller that began it ends it: by commit,
//! or when the value is dropped, by abort.
//!
//! libpmemobj's transaction begins at the first call that needs one, so that a closure that
//! only loads costs nothing, as it would in a program written for libpmemobj.

use std::cell::Cell;
use std::io;
use std::marker::PhantomData;

use outlast::medium::LINE_BYTES;
use outlast::{Abort, BlockKind, ByteRange, PoolOffset, RootKind, Runner, Transact};

use crate::api::{NO_ABORT, Oid};
use crate::classes::block_bytes;
use crate::large;
use crate::pool::{Granularity, Opened, PmdkPool, ROOT_BYTES, as_c};

thread_local! {
    /// libpmemobj knows one transaction per thread, and takes a second one for a part of the
    /// first.
    static RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// The answer of libpmemobj when memory, or room in the pool, is lacking.
const ENOMEM: i32 = 12;
const ECANCELED: i32 = 125;

/// Most lines of an announced range that are fetched at once.
const LINES_FETCHED_MAX: u64 = 16;

impl Runner for PmdkPool {
    type Tx = PmdkTx;

    fn run<R, F>(&mut self, mut body: F) -> Result<R, Abort>
    where
        F: FnMut(&mut PmdkTx) -> Result<R, Abort>,
    {
        loop {
            let attempt = Attempt::new(&mut self.tx);
            match body(attempt.0) {
                Ok(value) => return attempt.0.commit().map(|()| value),
                // Only the closure itself can have said so: one session has no rivals.
                Err(Abort::Conflict) => drop(attempt),
                Err(abort) => return Err(abort),
            }
        }
    }
}

/// A transaction while its closure runs. Dropped without a commit, it aborts.
struct Attempt<'t>(&'t mut PmdkTx);

impl<'t> Attempt<'t> {
    fn new(tx: &'t mut PmdkTx) -> Self {
        tx.pool.covered.clear();
        tx.pool.freed.clear();
        tx.failed = false;
        Self(tx)
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A running transaction.
pub struct PmdkTx {
    pub(crate) pool: Opened,
    /// Whether libpmemobj's transaction has begun.
    begun: bool,
    /// A call into the library failed. It may then believe a range to be in its log that is
    /// not, so this transaction can only abort, whatever its closure makes of the error.
    failed: bool,
    /// libpmemobj's transaction belongs to its thread.
    _not_send: PhantomData<*const ()>,
}

impl PmdkTx {
    pub(crate) fn new(pool: Opened) -> Self {
        Self { pool, begun: false, failed: false, _not_send: PhantomData }
    }

    #[inline]
    fn begin(&mut self) -> Result<(), Abort> {
        if self.begun { Ok(()) } else { self.begin_now() }
    }

    fn begin_now(&mut self) -> Result<(), Abort> {
        if RUNNING.replace(true) {
            return Err(Abort::peer("another libpmemobj transaction runs on this thread"));
        }
        let api = self.pool.pmdk.api();
        // SAFETY: the pool is open, and no transaction runs on this thread; a null jump buffer
        // is allowed and means "return", and 0 (TX_PARAM_NONE) ends the variable arguments.
        let error = unsafe {
            (api.tx_begin)(self.pool.raw.as_ptr(), std::ptr::null_mut(), 0 as std::ffi::c_int)
        };
        if error != 0 {
            let abort = self.peer_error();
            // SAFETY: a transaction whose begin failed is in its abort stage and must be ended.
            unsafe { (api.tx_end)() };
            RUNNING.set(false);
            return Err(abort);
        }
        self.begun = true;
        Ok(())
    }

    /// Ends the library's transaction with its changes in place.
    fn commit(&mut self) -> Result<(), Abort> {
        if !self.begun {
            return Ok(());
        }
        if self.failed {
            return Err(Abort::peer("a failed call was ignored; the transaction aborts"));
        }
        self.begun = false;
        let api = self.pool.pmdk.api();
        // SAFETY: this thread's transaction is in its work stage: it began, every call since
        // left that stage alone (NO_ABORT), and the value, which is not `Send`, ends it once.
        let error = unsafe {
            (api.tx_commit)();
            (api.tx_end)()
        };
        RUNNING.set(false);
        if error == 0 { Ok(()) } else { Err(self.peer_error()) }
    }

    /// Ends the library's transaction, if one is running, with everything as it was.
    fn abort(&mut self) {
        if !self.begun {
            return;
        }
        self.begun = false;
        let api = self.pool.pmdk.api();
        // SAFETY: this thread's transaction is in its work stage: it began, every call since
        // left that stage alone (NO_ABORT), no commit ended it, and the value is not `Send`.
        unsafe {
            (api.tx_abort)(ECANCELED);
            (api.tx_end)();
        }
        RUNNING.set(false);
    }

    /// Snapshots bytes, so that they may be changed. `address` is that of `at`.
    fn snapshot(&mut self, at: u64, address: *mut u8, len: u64) -> Result<(), Abort> {
        let api = self.pool.pmdk.api();
        // SAFETY: this thread's transaction is in its work stage; the range lies in the pool
        // (the library itself refuses what is outside its heap).
        let error = unsafe { (api.tx_add_range)(as_c(address), len as usize, NO_ABORT) };
        if error != 0 {
            return Err(self.failure(error, Abort::LogFull { bytes: len }));
        }
        self.pool.covered.insert(at, at + len);
        Ok(())
    }

    /// Makes sure that `at..at + len` may be stored into.
    #[cold]
    #[inline(never)]
    fn cover(&mut self, at: u64, len: u64) -> Result<(), Abort> {
        self.begin()?;
        match self.pool.granularity {
            Granularity::Range => {
                let address = self.pool.address("store", at, len)?;
                self.snapshot(at, address, len)
            }
            Granularity::Word => {
                let words = (at / 8 * 8..(at + len).next_multiple_of(8)).step_by(8);
                for word in words {
                    if !self.pool.covered.covers(word, word + 8) {
                        let address = self.pool.address("store", word, 8)?;
                        self.snapshot(word, address, 8)?;
                    }
                }
                Ok(())
            }
        }
    }

    /// A new object of the library's own, which may be stored into at once.
    fn alloc_object(&mut self, bytes: u64, class: u64, out_of_space: Abort) -> Result<u64, Abort> {
        let api = self.pool.pmdk.api();
        // SAFETY: this thread's transaction is in its work stage; the class, if any, was
        // registered.
        let oid = unsafe { (api.tx_alloc)(bytes as usize, 0, class | NO_ABORT) };
        if oid.offset == 0 {
            let error = io::Error::last_os_error().raw_os_error().unwrap_or(0);
            return Err(self.failure(error, out_of_space));
        }
        self.pool.covered.insert(oid.offset, oid.offset + bytes);
        self.pool.freed.remove(&oid.offset);
        Ok(oid.offset)
    }

    /// The library's name of a block.
    fn object_of(&mut self, block: PoolOffset) -> Result<u64, Abort> {
        if !large::may_be_large(block.0) {
            return Ok(block.0);
        }
        let mut mark = [0; large::MARK_BYTES as usize];
        self.load(PoolOffset(block.0 - large::MARK_BYTES), &mut mark)?;
        Ok(large::object_of(&mark, self.pool.uuid_lo, block.0).unwrap_or(block.0))
    }

    #[cold]
    fn failure(&mut self, error: i32, out_of_memory: Abort) -> Abort {
        self.failed = true;
        if error == ENOMEM { out_of_memory } else { self.peer_error() }
    }

    #[cold]
    fn peer_error(&self) -> Abort {
        Abort::peer(format!("libpmemobj: {}", self.pool.pmdk.last_error()))
    }
}

impl Transact for PmdkTx {
    #[inline]
    fn load(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        let from = self.pool.address("load", at.0, out.len() as u64)?;
        // SAFETY: `from` is valid for that many bytes; `out` is a Rust slice and therefore not
        // in the mapping; no other thread stores there, since a pool has one session.
        unsafe { std::ptr::copy_nonoverlapping(from, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    fn will_write(&mut self, ranges: &[ByteRange]) -> Result<(), Abort> {
        if self.pool.granularity == Granularity::Word {
            return Ok(());
        }
        for range in ranges {
            let address = self.pool.address("announcement", range.at.0, range.len)?;
            if range.len > 0 && !self.pool.covered.covers(range.at.0, range.end().0) {
                self.begin()?;
                self.snapshot(range.at.0, address, range.len)?;
            }
        }
        Ok(())
    }

    #[inline]
    fn will_read(&mut self, ranges: &[ByteRange]) {
        for range in ranges {
            let Ok(from) = self.pool.address("announcement", range.at.0, range.len) else {
                continue;
            };
            let lines = (range.at.in_line() as u64 + range.len).div_ceil(LINE_BYTES);
            for line in 0..lines.min(LINES_FETCHED_MAX) {
                outlast_pmem::prefetch_read(from.wrapping_add((line * LINE_BYTES) as usize));
            }
        }
    }

    #[inline]
    fn store(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort> {
        if bytes.is_empty() {
            return Ok(());
        }
        let len = bytes.len() as u64;
        let to = self.pool.address("store", at.0, len)?;
        if !self.pool.covered.covers(at.0, at.0 + len) {
            self.cover(at.0, len)?;
        }
        // SAFETY: `to` is valid for that many bytes, which are snapshotted or belong to a block
        // of this transaction's own, hence in the heap; `bytes` is a Rust slice and therefore
        // not in the mapping; no other thread accesses them, since a pool has one session.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len()) };
        Ok(())
    }

    fn compute(&mut self, instructions: u32) {
        outlast_pmem::compute(instructions);
    }

    /// Blocks of one size lie together whatever their kind: PMDK has no regions, and stores no
    /// type numbers for blocks without headers.
    fn alloc(&mut self, bytes: u64, _kind: BlockKind) -> Result<PoolOffset, Abort> {
        let out_of_space = Abort::OutOfSpace { bytes };
        if bytes > self.pool.len {
            return Err(out_of_space);
        }
        self.begin()?;
        let block = block_bytes(bytes);
        if let Some(class) = self.pool.classes.flag(block) {
            return self.alloc_object(block, class, out_of_space).map(PoolOffset);
        }
        let object = self.alloc_object(bytes + large::EXTRA_BYTES, 0, out_of_space)?;
        let data = PoolOffset(large::data_of(object));
        self.store(
            PoolOffset(data.0 - large::MARK_BYTES),
            &large::mark(self.pool.uuid_lo, object),
        )?;
        Ok(data)
    }

    /// A block that this transaction frees twice is refused. One that an earlier transaction
    /// freed, or that never was a block, is not recognised: libpmemobj keeps no record.
    fn free(&mut self, block: PoolOffset) -> Result<(), Abort> {
        let bad = |why| Abort::bad_address("free", block, why);
        self.pool.address("free", block.0, 1)?;
        if !block.is_aligned(16) || block.0 == 0 {
            return Err(bad("not a block"));
        }
        self.begin()?;
        let object = self.object_of(block)?;
        if !self.pool.freed.insert(object) {
            return Err(bad("freed already"));
        }
        let oid = Oid { pool_uuid_lo: self.pool.uuid_lo, offset: object };
        let api = self.pool.pmdk.api();
        // SAFETY: this thread's transaction is in its work stage; the object lies in the pool.
        let error = unsafe { (api.tx_free)(oid, NO_ABORT) };
        if error != 0 {
            return Err(self.failure(error, Abort::LogFull { bytes: 0 }));
        }
        Ok(())
    }

    fn root(&mut self) -> Result<Option<(PoolOffset, RootKind)>, Abort> {
        let at = PoolOffset(self.pool.root);
        let block = self.load_u64(at)?;
        if block == 0 {
            return Ok(None);
        }
        let kind = self.load_u64(at.plus(8))?;
        let kind = RootKind::ALL
            .into_iter()
            .find(|known| u64::from(*known as u8) == kind)
            .ok_or_else(|| Abort::damaged(format!("a root object of unknown kind {kind}")))?;
        Ok(Some((PoolOffset(block), kind)))
    }

    fn set_root(&mut self, block: PoolOffset, kind: RootKind) -> Result<(), Abort> {
        let at = PoolOffset(self.pool.root);
        self.will_write(&[ByteRange::new(at, ROOT_BYTES)])?;
        self.store_u64(at, block.0)?;
        self.store_u64(at.plus(8), u64::from(kind as u8))
    }
}
