//! Reads and writes of a transaction, in the terms in which an oracle judges them.

/// A version of a value: unique among those that a workload's workers write to one key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Version(pub u64);

impl Version {
    /// The version that the load phase wrote.
    pub const LOADED: Self = Self(0);
    /// Versions are below this.
    pub const LIMIT: u64 = 1 << 40;
}

/// The state of a key, found or made.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// Nothing: the key is not there.
    Absent,
    /// This version.
    Holds(Version),
}

/// Hears what a transaction reads and writes. Programs are compiled with the witness they get,
/// and do what only a witness needs (such as reading a field before overwriting it) only for one
/// that watches.
pub trait Witness {
    /// Whether facts are kept.
    const WATCHES: bool;

    /// A run of the transaction's closure starts; what was heard of an earlier one is void.
    fn restart(&mut self);

    /// The transaction found `key` in this state, before any write of its own to it.
    fn read(&mut self, key: u64, state: State);

    /// The transaction leaves `key` in this state. A write follows a read of the same key.
    fn write(&mut self, key: u64, state: State);
}

/// Facts are dropped.
impl Witness for () {
    const WATCHES: bool = false;

    #[inline]
    fn restart(&mut self) {}

    #[inline]
    fn read(&mut self, _: u64, _: State) {}

    #[inline]
    fn write(&mut self, _: u64, _: State) {}
}

/// The facts of one transaction.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Facts {
    /// Keys with the states they were found in; at most one entry for a key.
    pub reads: Vec<(u64, State)>,
    /// Keys with the states they were left in; at most one entry for a key.
    pub writes: Vec<(u64, State)>,
}

impl Witness for Facts {
    const WATCHES: bool = true;

    fn restart(&mut self) {
        self.reads.clear();
        self.writes.clear();
    }

    fn read(&mut self, key: u64, state: State) {
        self.reads.push((key, state));
    }

    fn write(&mut self, key: u64, state: State) {
        self.writes.push((key, state));
    }
}

/// Hands out the versions of one worker.
#[derive(Clone, Debug)]
pub(crate) struct Versions {
    next: u64,
}

impl Versions {
    const WORKER_BITS: u32 = 8;
    const COUNT_BITS: u32 = Version::LIMIT.ilog2() - Self::WORKER_BITS;

    /// The versions of worker `worker`, who has handed out `used` before (a worker that goes on
    /// after a crash must not repeat any).
    pub(crate) fn new(worker: u8, used: u64) -> Self {
        assert!(used < 1 << Self::COUNT_BITS, "{used} versions are more than a worker has");
        Self { next: u64::from(worker) << Self::COUNT_BITS | used }
    }

    /// How many were handed out, those before this worker's time included.
    pub(crate) fn used(&self) -> u64 {
        self.next & ((1 << Self::COUNT_BITS) - 1)
    }

    #[inline]
    pub(crate) fn next(&mut self) -> Version {
        self.next += 1;
        Version(self.next)
    }
}
