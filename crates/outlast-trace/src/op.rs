//! Operations, and who receives them.

use crate::{LineAddr, PoolOffset};

/// A stream of operations in program order: a hardware thread as the machine sees it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct LaneId(pub u16);

/// A transaction, as its workload numbers it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct TxId(pub u64);

/// Which instruction starts a line's write-back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum FlushKind {
    /// Writes back, may keep the line. Weakly ordered. So do `dc cvap` and `dc cvadp` of AArch64, and count as one.
    Clwb,
    /// Writes back and evicts. Weakly ordered.
    ClflushOpt,
    /// Writes back and evicts, ordered with all writes on Intel (rule 8).
    Clflush,
}

/// One operation of a lane. Data is borrowed; an [`OpLog`](crate::OpLog) keeps copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op<'a> {
    /// `n` instructions that touch no persistent memory.
    Compute(u32),
    /// A load of `len` bytes. `depends` counts back over this lane's loads to the one that
    /// yielded the address (1 = the one before); `None` when the address was known.
    Load {
        /// First byte.
        at: PoolOffset,
        /// Number of bytes.
        len: u32,
        /// Distance to the load that produced the address.
        depends: Option<u32>,
    },
    /// An ordinary (write-back) store. May cross words and lines; rule 5 splits it.
    Store {
        /// First byte.
        at: PoolOffset,
        /// The stored bytes.
        bytes: &'a [u8],
    },
    /// A non-temporal store of whole aligned 8-byte words (rule 10).
    StoreNt {
        /// First byte, a multiple of 8.
        at: PoolOffset,
        /// The stored bytes, a multiple of 8.
        bytes: &'a [u8],
    },
    /// MOVDIR64B: a whole line, atomically, past the caches (rule 5).
    Store64 {
        /// The line.
        line: LineAddr,
        /// Its new content.
        bytes: &'a [u8; 64],
    },
    /// A locked read-modify-write that left `bytes` at `at`; it orders flushes (rule 7).
    Rmw {
        /// First byte, a multiple of 8.
        at: PoolOffset,
        /// The 8 bytes that it left.
        bytes: &'a [u8],
    },
    /// Starts the write-back of a line; orders nothing.
    Flush {
        /// By which instruction.
        kind: FlushKind,
        /// Which line.
        line: LineAddr,
    },
    /// Orders stores and makes this lane's earlier flushes durable.
    Sfence,
    /// As `Sfence`, and orders loads.
    Mfence,
    /// A transaction starts.
    TxBegin,
    /// A transaction has ended: committed, or undone by the program's own stores.
    TxEnd,
    /// The machine undoes the transaction's stores: loads from here on find what was there before.
    TxAbort,
    /// The transaction was acknowledged to its client: from here on it must survive.
    Ack(TxId),
    /// The lane took lock `id`, as the `ticket`-th to do so.
    Lock {
        /// Which lock.
        id: u64,
        /// Its place in the order of owners.
        ticket: u64,
    },
    /// The lane released lock `id`.
    Unlock {
        /// Which lock.
        id: u64,
        /// Its place in the order of owners.
        ticket: u64,
    },
    /// The lane raised signal `id` to `count`.
    Signal {
        /// Which signal.
        id: u64,
        /// Its value from here on.
        count: u64,
    },
    /// The lane waited until signal `id` reached `count`.
    Wait {
        /// Which signal.
        id: u64,
        /// The value awaited.
        count: u64,
    },
    /// A checkpoint interval ends here (epoch schemes only).
    Epoch,
    /// The medium became `len` bytes long; the new bytes are zero and durable.
    Grow {
        /// Its size from here on, in bytes.
        len: u64,
    },
}

/// Receives operations as they happen, in one global order.
pub trait Sink {
    /// `lane` performed `op`, after everything that was reported before.
    fn op(&mut self, lane: LaneId, op: Op<'_>);
}

impl<S: Sink + ?Sized> Sink for Box<S> {
    fn op(&mut self, lane: LaneId, op: Op<'_>) {
        (**self).op(lane, op);
    }
}
