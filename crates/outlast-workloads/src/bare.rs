//! Bare transactions: a begin and an end around plain loads and stores, as a hardware scheme
//! wants them. Programs run on functional memory, and what they do becomes a stream of
//! operations for the timed machine.
//!
//! Blocks come from free lists that lie in the same memory: one word with the end of what was
//! ever used, one list head for each size, the next free block in the first word of each. They
//! change by stores of the transaction, so a crash takes back an allocation with everything
//! else. Sizes of blocks are known to the program that frees them, as in Rust.
//!
//! A load depends on the load that its address came from: the one of the youngest of the last
//! pointers loaded that points at most a page before the address.
//!
//! A closure that gives up stores the old values back and ends its transaction: no scheme has to
//! know of it. Where transactions are to abort ([`Bare::abort_every`]), the machine takes them back
//! instead, those of such closures as well.

use std::collections::HashMap;

use outlast::{Abort, BlockKind, ByteRange, PoolOffset, RootKind, Runner, Transact};
use outlast_trace::{LaneId, Op, OpLog, Sink, TxId};

/// The first word: where unused memory starts. Words 1 and 2: the root object and its kind.
const END_AT: u64 = 0;
const ROOT_AT: u64 = 8;
const KIND_AT: u64 = 16;
/// Heads of the free lists, behind the first line.
const LISTS_AT: u64 = 64;
/// Lists for multiples of 16 bytes up to a kibibyte, then for powers of two.
const SMALL_LISTS: u64 = 64;
const LISTS: u64 = SMALL_LISTS + 40;
const HEAP_AT: u64 = LISTS_AT + 8 * LISTS;

/// Loaded pointers that are remembered for dependences.
const REMEMBERED: usize = 128;
/// How far behind a pointer an address may lie to have come from it.
const REACH_BYTES: u64 = 4096;

/// Instructions beside loads and stores. They are estimates, the same for every scheme.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WorkInstructions {
    /// Around a transaction: drawing its operation, the loop, the calls.
    pub transaction: u32,
    /// For each load: addresses and comparisons.
    pub load: u32,
    /// For each store.
    pub store: u32,
    /// For each block taken or given back.
    pub block: u32,
}

impl Default for WorkInstructions {
    fn default() -> Self {
        Self { transaction: 40, load: 3, store: 2, block: 12 }
    }
}

/// Functional memory on which bare transactions run, one after the other.
#[derive(Debug)]
pub struct Bare {
    /// Offset of the first byte of `memory`.
    origin: u64,
    memory: Vec<u8>,
    lane: LaneId,
    /// Transactions are one after the other on this lock, if several lanes share the memory.
    lock: Option<u64>,
    group: u64,
    recording: bool,
    log: OpLog,
    work: WorkInstructions,
    /// Transactions recorded that ended, and those that aborted.
    transactions: u64,
    aborted: u64,
    /// One in this number of transactions aborts; 0 for never.
    abort_every: u64,
    /// Transactions of each lane that began.
    begun: Vec<u64>,
    /// The end of the blocks that were ever taken, given back by an abort or not.
    reached: u64,
    sizes: HashMap<u64, u64, std::hash::BuildHasherDefault<std::hash::DefaultHasher>>,
    /// The last pointers loaded, each with the number of its load, and how many there were.
    pointers: [(u64, u64); REMEMBERED],
    pointed: usize,
    loads: u64,
}

impl Bare {
    /// Zero memory of `bytes` bytes at `origin`, a multiple of 64, whose transactions run on
    /// `lane`. Acknowledgements are numbered `group << 32 | n`, n from 1 on.
    pub fn new(origin: PoolOffset, bytes: u64, lane: LaneId, group: u32) -> Self {
        let mut bare = Self {
            origin: origin.0,
            memory: vec![0; bytes as usize],
            lane,
            lock: None,
            group: u64::from(group) << 32,
            recording: false,
            log: OpLog::default(),
            work: WorkInstructions::default(),
            transactions: 0,
            aborted: 0,
            abort_every: 0,
            begun: Vec::new(),
            reached: 0,
            sizes: HashMap::default(),
            pointers: [(0, 0); REMEMBERED],
            pointed: 0,
            loads: 0,
        };
        bare.put(origin.0 + END_AT, &(origin.0 + HEAP_AT).next_multiple_of(64).to_le_bytes());
        bare
    }

    /// Lets several lanes take turns on this memory, under one lock: see [`set_lane`](Self::set_lane).
    pub fn shared(mut self) -> Self {
        self.lock = Some(self.group);
        self
    }

    /// Lets one in `transactions` recorded transactions of a lane abort when it has made its
    /// stores. It fails with [`Abort::Cancelled`], and the memory is as before. 0 for never.
    pub fn abort_every(mut self, transactions: u64) -> Self {
        self.abort_every = transactions;
        self
    }

    /// The lane that runs the next transactions.
    pub fn set_lane(&mut self, lane: LaneId) {
        self.lane = lane;
    }

    /// Starts to record operations. Before, transactions only change the memory.
    pub fn record(&mut self) {
        self.recording = true;
    }

    /// The memory as it is now.
    pub fn memory(&self) -> &[u8] {
        &self.memory
    }

    /// The operations recorded since the start or the last call.
    pub fn take_log(&mut self) -> OpLog {
        std::mem::take(&mut self.log)
    }

    /// Transactions recorded so far that ended.
    pub fn transactions(&self) -> u64 {
        self.transactions
    }

    /// Transactions recorded so far that aborted.
    pub fn aborted(&self) -> u64 {
        self.aborted
    }

    /// The running transaction's place among all, as the lock counts them.
    fn ticket(&self) -> u64 {
        self.transactions + self.aborted + 1
    }

    /// Bytes that were ever in use.
    pub fn used_bytes(&self) -> u64 {
        self.word(self.origin + END_AT).max(self.reached) - self.origin
    }

    fn put(&mut self, at: u64, bytes: &[u8]) {
        let from = (at - self.origin) as usize;
        self.memory[from..from + bytes.len()].copy_from_slice(bytes);
    }

    fn word(&self, at: u64) -> u64 {
        let from = (at - self.origin) as usize;
        u64::from_le_bytes(self.memory[from..from + 8].try_into().expect("eight bytes were taken"))
    }

    fn emit(&mut self, op: Op<'_>) {
        if self.recording {
            self.log.op(self.lane, op);
        }
    }

    /// How many loads ago the pointer was loaded that `at` came from.
    fn depends(&self, at: u64) -> Option<u32> {
        let points = |value: u64| value <= at && at - value < REACH_BYTES;
        let of = |back: usize| self.pointers[(self.pointed - back) % REMEMBERED];
        let mut known = (1..=self.pointed.min(REMEMBERED)).map(of);
        known.find(|(value, _)| points(*value)).map(|(_, load)| (self.loads - load) as u32)
    }

    /// Remembers the pointers among the words of a load.
    fn remember(&mut self, bytes: &[u8]) {
        for word in bytes.as_chunks::<8>().0 {
            let value = u64::from_le_bytes(*word);
            if value > self.origin && self.contains(PoolOffset(value), 1) {
                self.pointers[self.pointed % REMEMBERED] = (value, self.loads);
                self.pointed += 1;
            }
        }
    }

    fn contains(&self, at: PoolOffset, len: u64) -> bool {
        at.0 >= self.origin
            && (at.0 - self.origin)
                .checked_add(len)
                .is_some_and(|end| end <= self.memory.len() as u64)
    }
}

/// The list of blocks of this size, and their real size.
fn list_of(bytes: u64) -> (u64, u64) {
    let rounded = bytes.max(1).next_multiple_of(if bytes >= 64 { 64 } else { 16 });
    if rounded <= 16 * SMALL_LISTS {
        return (rounded / 16 - 1, rounded);
    }
    let rounded = rounded.next_power_of_two();
    (SMALL_LISTS + u64::from(rounded.trailing_zeros()) - 11, rounded)
}

impl Runner for Bare {
    type Tx = BareTx;

    fn run<R, F>(&mut self, mut body: F) -> Result<R, Abort>
    where
        F: FnMut(&mut BareTx) -> Result<R, Abort>,
    {
        let empty = Self::new(PoolOffset(0), HEAP_AT + 64, self.lane, 0);
        let bare = std::mem::replace(self, empty);
        let mut tx = BareTx { bare, undo: Vec::new(), freed: Vec::new(), allocated: Vec::new() };
        tx.begin();
        let result = match body(&mut tx) {
            Ok(_) if tx.is_to_abort() => Err(Abort::cancelled("transactions abort at intervals")),
            Ok(value) => tx.commit().map(|()| value),
            Err(abort) => Err(abort),
        };
        match &result {
            Ok(_) => tx.end(),
            Err(_) if tx.bare.abort_every > 0 => tx.abort(),
            Err(_) => {
                tx.take_back();
                tx.end();
            }
        }
        *self = tx.bare;
        result
    }
}

/// A running bare transaction.
#[derive(Debug)]
pub struct BareTx {
    bare: Bare,
    /// The bytes that each store replaced.
    undo: Vec<(u64, Vec<u8>)>,
    freed: Vec<u64>,
    allocated: Vec<u64>,
}

impl BareTx {
    fn begin(&mut self) {
        let bare = &mut self.bare;
        if bare.recording {
            let lane = usize::from(bare.lane.0);
            bare.begun.resize(bare.begun.len().max(lane + 1), 0);
            bare.begun[lane] += 1;
            bare.pointed = 0; // Pointers of an earlier transaction may be stale.
            bare.emit(Op::Compute(bare.work.transaction));
            if let Some(id) = bare.lock {
                bare.emit(Op::Lock { id, ticket: bare.ticket() });
            }
            bare.emit(Op::TxBegin);
        }
    }

    fn end(&mut self) {
        let bare = &mut self.bare;
        if bare.recording {
            let ticket = bare.ticket();
            bare.transactions += 1;
            bare.emit(Op::TxEnd);
            bare.emit(Op::Ack(TxId(bare.group | bare.transactions)));
            if let Some(id) = bare.lock {
                bare.emit(Op::Unlock { id, ticket });
            }
        }
    }

    /// Whether this is one of those that abort.
    fn is_to_abort(&self) -> bool {
        let Bare { recording, abort_every, lane, ref begun, .. } = self.bare;
        recording && abort_every > 0 && begun[usize::from(lane.0)].is_multiple_of(abort_every)
    }

    /// The machine takes all stores back.
    fn abort(&mut self) {
        let is_recording = std::mem::take(&mut self.bare.recording);
        self.take_back();
        let bare = &mut self.bare;
        bare.recording = is_recording;
        if is_recording {
            let ticket = bare.ticket();
            bare.aborted += 1;
            bare.emit(Op::TxAbort);
            if let Some(id) = bare.lock {
                bare.emit(Op::Unlock { id, ticket });
            }
        }
    }

    /// Puts freed blocks into their lists.
    fn commit(&mut self) -> Result<(), Abort> {
        for block in std::mem::take(&mut self.freed) {
            let bytes = self.bare.sizes.remove(&block).unwrap_or(16);
            let head = PoolOffset(self.bare.origin + LISTS_AT + 8 * list_of(bytes).0);
            let next = self.load_u64(head)?;
            self.store_u64(PoolOffset(block), next)?;
            self.store_u64(head, block)?;
        }
        Ok(())
    }

    /// Stores the old values back, newest first.
    fn take_back(&mut self) {
        for (at, old) in std::mem::take(&mut self.undo).into_iter().rev() {
            self.bare.put(at, &old);
            self.bare.emit(Op::Store { at: PoolOffset(at), bytes: &old });
        }
        for block in std::mem::take(&mut self.allocated) {
            self.bare.sizes.remove(&block);
        }
    }

    fn check(&self, what: &'static str, at: PoolOffset, len: u64) -> Result<(), Abort> {
        if self.bare.contains(at, len) {
            return Ok(());
        }
        Err(Abort::bad_address(what, at, "outside the memory"))
    }
}

impl Transact for BareTx {
    fn load(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        self.check("load", at, out.len() as u64)?;
        let bare = &mut self.bare;
        let from = (at.0 - bare.origin) as usize;
        out.copy_from_slice(&bare.memory[from..from + out.len()]);
        if bare.recording {
            bare.emit(Op::Compute(bare.work.load));
            let depends = bare.depends(at.0);
            bare.emit(Op::Load { at, len: out.len() as u32, depends });
            bare.remember(out);
            bare.loads += 1;
        }
        Ok(())
    }

    fn will_write(&mut self, _: &[ByteRange]) -> Result<(), Abort> {
        Ok(()) // The hardware sees the stores.
    }

    fn store(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort> {
        self.check("store", at, bytes.len() as u64)?;
        if bytes.is_empty() {
            return Ok(());
        }
        let from = (at.0 - self.bare.origin) as usize;
        self.undo.push((at.0, self.bare.memory[from..from + bytes.len()].to_vec()));
        self.bare.put(at.0, bytes);
        let work = self.bare.work.store;
        self.bare.emit(Op::Compute(work));
        self.bare.emit(Op::Store { at, bytes });
        Ok(())
    }

    fn compute(&mut self, instructions: u32) {
        self.bare.emit(Op::Compute(instructions));
    }

    fn alloc(&mut self, bytes: u64, _: BlockKind) -> Result<PoolOffset, Abort> {
        let work = self.bare.work.block;
        self.bare.emit(Op::Compute(work));
        let (list, rounded) = list_of(bytes);
        let head = PoolOffset(self.bare.origin + LISTS_AT + 8 * list);
        let free = self.load_u64(head)?;
        let block = if free != 0 {
            let next = self.load_u64(PoolOffset(free))?;
            self.store_u64(head, next)?;
            free
        } else {
            let end_at = PoolOffset(self.bare.origin + END_AT);
            let end = self.load_u64(end_at)?;
            let at = end.next_multiple_of(if rounded >= 64 { 64 } else { 16 });
            if !self.bare.contains(PoolOffset(at), rounded) {
                return Err(Abort::OutOfSpace { bytes });
            }
            self.store_u64(end_at, at + rounded)?;
            self.bare.reached = self.bare.reached.max(at + rounded);
            at
        };
        self.bare.sizes.insert(block, bytes);
        self.allocated.push(block);
        Ok(PoolOffset(block))
    }

    fn free(&mut self, block: PoolOffset) -> Result<(), Abort> {
        let work = self.bare.work.block;
        self.bare.emit(Op::Compute(work));
        if !self.bare.sizes.contains_key(&block.0) || self.freed.contains(&block.0) {
            let why = "no live block starts there";
            return Err(Abort::bad_address("free", block, why));
        }
        self.freed.push(block.0);
        Ok(())
    }

    fn root(&mut self) -> Result<Option<(PoolOffset, RootKind)>, Abort> {
        let root = self.load_u64(PoolOffset(self.bare.origin + ROOT_AT))?;
        let kind = self.load_u64(PoolOffset(self.bare.origin + KIND_AT))? as usize;
        Ok((root != 0).then(|| (PoolOffset(root), RootKind::ALL[kind % RootKind::ALL.len()])))
    }

    fn set_root(&mut self, block: PoolOffset, kind: RootKind) -> Result<(), Abort> {
        self.store_u64(PoolOffset(self.bare.origin + ROOT_AT), block.0)?;
        self.store_u64(PoolOffset(self.bare.origin + KIND_AT), kind as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bare() -> Bare {
        Bare::new(PoolOffset(4096), 1 << 16, LaneId(3), 1)
    }

    #[test]
    fn blocks_are_used_again_and_aborts_leave_no_trace() {
        let mut bare = bare();
        let block = bare.run(|tx| tx.alloc(100, BlockKind::General)).unwrap();
        assert!(block.is_aligned(64));
        bare.run(|tx| tx.free(block)).unwrap();
        let before = bare.memory().to_vec();
        let cancelled = bare.run(|tx| {
            let again = tx.alloc(128, BlockKind::General)?;
            tx.store(again, &[7; 128])?;
            Err::<(), _>(Abort::cancelled("given up"))
        });
        assert!(matches!(cancelled, Err(Abort::Cancelled(_))));
        assert_eq!(bare.memory(), before);
        assert_eq!(bare.run(|tx| tx.alloc(120, BlockKind::General)).unwrap(), block);
        assert!(matches!(bare.run(|tx| tx.free(PoolOffset(4096))), Err(Abort::BadAddress(_))));
        assert!(matches!(
            bare.run(|tx| tx.alloc(1 << 20, BlockKind::General)),
            Err(Abort::OutOfSpace { .. })
        ));
    }

    #[test]
    fn what_is_recorded_gives_the_memory_again_and_loads_name_their_pointers() {
        let mut bare = bare();
        let first = bare.run(|tx| tx.alloc(64, BlockKind::General)).unwrap();
        let image = bare.memory().to_vec();
        bare.record();
        bare.run(|tx| {
            let second = tx.alloc(64, BlockKind::General)?;
            tx.store_u64(first.plus(8), second.0)?;
            let found = PoolOffset(tx.load_u64(first.plus(8))?);
            tx.load_u64(found.plus(16))
        })
        .unwrap();
        let log = bare.take_log();
        let mut replayed = image;
        let mut depended = None;
        for (lane, op) in log.iter() {
            assert_eq!(lane, LaneId(3));
            match op {
                Op::Store { at, bytes } => {
                    let from = (at.0 - 4096) as usize;
                    replayed[from..from + bytes.len()].copy_from_slice(bytes);
                }
                Op::Load { depends, .. } => depended = depends,
                _ => {}
            }
        }
        assert_eq!(replayed, bare.memory());
        assert_eq!(depended, Some(1), "the last load's address came from the one before");
        assert_eq!(log.get(log.len() - 1).1, Op::Ack(TxId((1 << 32) | 1)));
    }
}
