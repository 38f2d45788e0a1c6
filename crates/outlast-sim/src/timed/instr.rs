//! Instructions as cores see them, and where they come from.

use crate::cache::LineBytes;
use outlast_trace::{FlushKind, TxId};

/// Loads that one instruction can have.
pub const LOADS_MAX: usize = 4;
/// Stores that one instruction can have.
pub const STORES_MAX: usize = 2;

/// What an instruction is, besides its loads and stores.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum InstrKind {
    /// Nothing else.
    #[default]
    Plain,
    /// A conditional branch, and whether it was taken.
    Branch(bool),
    /// Its one store goes past the caches, word by word.
    StoreNt,
    /// Its one store goes past the caches as a whole line (MOVDIR64B).
    Store64,
    /// Locked read-modify-write: its store is performed when it is the oldest, behind all other
    /// stores and flushes.
    Rmw,
    /// Starts the write-back of the line of its one store's address.
    Flush(FlushKind),
    /// Waits for older stores and flushes.
    Sfence,
    /// As `Sfence`; younger loads wait for it.
    Mfence,
    /// A store that no program names but a scheme.
    Injected,
    /// No instruction: something that software tells the machine.
    Mark(Mark),
}

/// What software tells the machine, in program order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// A transaction begins.
    TxBegin,
    /// A transaction ends.
    TxEnd,
    /// A transaction is given up, and its stores are undone before anything younger begins.
    TxAbort,
    /// A transaction is acknowledged.
    Ack(TxId),
    /// An epoch ends.
    Epoch,
    /// Goes on once as many owners have released lock `id`.
    Lock {
        /// Which lock.
        id: u64,
        /// How many.
        ticket: u64,
    },
    /// Releases lock `id` once all older stores are visible.
    Unlock {
        /// Which lock.
        id: u64,
        /// Its owner's place in the order of owners.
        ticket: u64,
    },
    /// Raises signal `id` once all older stores are visible.
    Signal {
        /// Which signal.
        id: u64,
        /// Its new value.
        count: u64,
    },
    /// Goes on once signal `id` has this value.
    Wait {
        /// Which signal.
        id: u64,
        /// The value.
        count: u64,
    },
}

/// One instruction. Register 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Instr {
    /// Its address, for the branch predictor.
    pub pc: u64,
    /// What it is.
    pub kind: InstrKind,
    /// Registers it reads; addresses depend on all of them.
    pub sources: [u8; 4],
    /// Registers it writes.
    pub destinations: [u8; 2],
    /// How many of `load_at` it loads.
    pub loads: u8,
    /// How many of `store_at` it stores to.
    pub stores: u8,
    /// Bytes of each store, 1 to 8, inside one aligned word.
    pub store_len: u8,
    /// Physical byte addresses loaded from.
    pub load_at: [u64; LOADS_MAX],
    /// Physical byte addresses stored to, or flushed.
    pub store_at: [u64; STORES_MAX],
    /// What is stored, little-endian.
    pub value: u64,
    /// What a `Store64` stores: an index into the batch's lines.
    pub line: u32,
}

impl Instr {
    /// An instruction that only computes.
    pub fn work() -> Self {
        Self::default()
    }

    /// A load into a register.
    pub fn load(at: u64, into: u8) -> Self {
        Self { loads: 1, load_at: [at, 0, 0, 0], destinations: [into, 0], ..Self::default() }
    }

    /// A store of an aligned word.
    pub fn store(at: u64, value: u64) -> Self {
        Self { stores: 1, store_at: [at, 0], value, store_len: 8, ..Self::default() }
    }

    /// A flush of the line that holds `at`.
    pub fn flush(kind: FlushKind, at: u64) -> Self {
        Self { kind: InstrKind::Flush(kind), stores: 1, store_at: [at, 0], ..Self::default() }
    }

    /// A fence or a mark.
    pub fn of(kind: InstrKind) -> Self {
        Self { kind, ..Self::default() }
    }
}

/// Instructions fetched together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The instructions, in program order.
    pub instrs: Vec<Instr>,
    /// What its `Store64`s store.
    pub lines: Vec<LineBytes>,
}

/// Why no more instructions come, in one line.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SourceError(pub String);

/// Where a core's instructions come from.
pub trait Source {
    /// Appends some instructions to an empty batch; none when there are no more.
    ///
    /// # Errors
    /// When there should be more and they cannot be had. What was appended still counts.
    fn fill(&mut self, batch: &mut Batch) -> Result<(), SourceError>;
}
