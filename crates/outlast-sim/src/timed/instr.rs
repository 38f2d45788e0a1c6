//! Instructions as cores see them, and where they come from.

use crate::cache::LineBytes;
use outlast_trace::{FlushKind, TxId};

/// Loads and stores that one instruction can have together.
pub const ACCESSES_MAX: usize = 4;

/// The kind of an instruction, besides its loads and stores.
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
    /// No instruction: something that software tells the machine, [`Batch::mark`].
    Mark,
}

/// Marks of software for the machine, in program order.
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

/// One instruction, in one line of the host's cache. Register 0 is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(align(64))]
pub struct Instr {
    /// Its address, for the branch predictor.
    pub pc: u64,
    /// Its kind.
    pub kind: InstrKind,
    /// Registers it reads; addresses depend on all of them.
    pub sources: [u8; 4],
    /// Registers it writes.
    pub destinations: [u8; 2],
    /// How many of `at` it loads.
    pub loads: u8,
    /// How many of `at`, behind its loads, it stores to or flushes.
    pub stores: u8,
    /// Bytes of each store, 1 to 8, inside one aligned word.
    pub store_len: u8,
    /// Physical byte addresses: of its loads, then of its stores.
    pub at: [u64; ACCESSES_MAX],
    /// The bytes of its stores, little-endian; of a `Store64` and a mark, which of its batch's.
    pub value: u64,
}

const _: () = assert!(size_of::<Instr>() == 64);

impl Instr {
    /// An instruction that only computes.
    pub fn work() -> Self {
        Self::default()
    }

    /// A load into a register.
    pub fn load(at: u64, into: u8) -> Self {
        Self { loads: 1, at: [at, 0, 0, 0], destinations: [into, 0], ..Self::default() }
    }

    /// A store of an aligned word.
    pub fn store(at: u64, value: u64) -> Self {
        Self { stores: 1, at: [at, 0, 0, 0], value, store_len: 8, ..Self::default() }
    }

    /// A flush of the line that holds `at`.
    pub fn flush(kind: FlushKind, at: u64) -> Self {
        Self { kind: InstrKind::Flush(kind), stores: 1, at: [at, 0, 0, 0], ..Self::default() }
    }

    /// A fence.
    pub fn of(kind: InstrKind) -> Self {
        Self { kind, ..Self::default() }
    }

    /// Where it loads from.
    #[inline]
    pub fn load_at(&self) -> &[u64] {
        &self.at[..usize::from(self.loads)]
    }

    /// Where it stores to, or what it flushes.
    #[inline]
    pub fn store_at(&self) -> &[u64] {
        &self.at[usize::from(self.loads)..][..usize::from(self.stores)]
    }

    /// Whether it can have another load: it has no stores, and not all of its accesses.
    #[inline]
    pub fn takes_load(&self) -> bool {
        self.stores == 0 && usize::from(self.loads) < ACCESSES_MAX
    }

    /// Whether it can have one more store.
    #[inline]
    pub fn takes_store(&self) -> bool {
        usize::from(self.loads + self.stores) < ACCESSES_MAX
    }

    /// One more load, in front of all stores.
    ///
    /// # Panics
    /// When it takes none ([`Self::takes_load`]).
    #[inline]
    pub fn add_load(&mut self, at: u64) {
        assert!(self.stores == 0, "loads come before stores");
        self.at[usize::from(self.loads)] = at;
        self.loads += 1;
    }

    /// One more store, of the same bytes as any before it.
    ///
    /// # Panics
    /// When it has all the accesses that it can have.
    #[inline]
    pub fn add_store(&mut self, at: u64) {
        self.at[usize::from(self.loads + self.stores)] = at;
        self.stores += 1;
    }
}

/// Instructions fetched together.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The instructions, in program order.
    pub instrs: Vec<Instr>,
    /// The lines that its `Store64`s store.
    pub lines: Vec<LineBytes>,
    /// Its marks.
    pub marks: Vec<Mark>,
}

impl Batch {
    /// Appends a store of a whole line.
    pub fn push_line(&mut self, at: u64, bytes: &LineBytes) {
        let store = Instr::store(at, self.lines.len() as u64);
        self.lines.push(*bytes);
        self.instrs.push(Instr { kind: InstrKind::Store64, ..store });
    }

    /// Appends a mark.
    pub fn push_mark(&mut self, mark: Mark) {
        let value = self.marks.len() as u64;
        self.marks.push(mark);
        self.instrs.push(Instr { kind: InstrKind::Mark, value, ..Instr::default() });
    }

    /// The line that a `Store64` of this batch stores.
    pub fn line(&self, store: &Instr) -> &LineBytes {
        &self.lines[store.value as usize]
    }

    /// A mark of this batch.
    pub fn mark(&self, mark: &Instr) -> Mark {
        self.marks[mark.value as usize]
    }

    /// Forgets all of it.
    pub fn clear(&mut self) {
        self.instrs.clear();
        self.lines.clear();
        self.marks.clear();
    }
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

    /// Instructions that it has given so far as its program counts them, if those are not the machine's:
    /// an instruction of a program may be two of the machine's, or a part of one.
    fn passed(&self) -> Option<u64> {
        None
    }
}
