//! Transactions on plain memory: the reference against which structures are tested.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use outlast::{Abort, BlockKind, ByteRange, PoolOffset, RootKind, Runner, Transact};

use crate::Random;

/// Where the first block lies: offset 0 is never one.
const HEAP_AT: u64 = 4096;
/// The byte that fills fresh and freed blocks where accesses are checked.
const POISON: u8 = 0xA5;
/// Conflicts that one transaction suffers at most, so that long ones end.
const CONFLICTS_MAX: u32 = 3;

/// A pool in ordinary memory, for one thread, with atomic transactions and nothing durable.
///
/// With [`checked`](Self::checked) it finds mistakes of structures: an access outside the
/// blocks that are live, a block freed twice, an unannounced store, content of a fresh block that
/// was never stored. It counts the words and lines that a scheme would have to log and to flush,
/// and it makes transactions run again.
#[derive(Default)]
pub struct Volatile {
    memory: Vec<u8>,
    capacity: Option<u64>,
    live: BTreeMap<u64, u64>,
    free: HashMap<u64, Vec<u64>>,
    root: Option<(PoolOffset, RootKind)>,
    checked: Option<Checked>,
}

/// The state of a checked pool.
struct Checked {
    random: Random,
    conflict_per_mille: u64,
    footprint: Footprint,
}

/// Work of transactions that a logging scheme pays for. Aborted runs count as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Footprint {
    /// Runs of closures, those that ended in an injected conflict included.
    pub runs: u64,
    /// Loads.
    pub loads: u64,
    /// Calls of `will_write`.
    pub announcements: u64,
    /// Ranges in those calls.
    pub announced_ranges: u64,
    /// Bytes in those ranges.
    pub announced_bytes: u64,
    /// Bytes stored into blocks that were there before the transaction.
    pub stored_bytes: u64,
    /// Bytes stored into blocks of the transaction itself.
    pub fresh_bytes: u64,
    /// Distinct lines stored to, summed over the runs.
    pub dirty_lines: u64,
    /// Stores into older blocks that no range announced before.
    pub unannounced_stores: u64,
    /// Blocks taken.
    pub allocations: u64,
}

impl Volatile {
    /// An empty pool that grows as needed and checks nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty pool that checks every access, counts, and lets `conflict_per_mille` of the
    /// operations fail with [`Abort::Conflict`], as `seed` chooses.
    pub fn checked(seed: u64, conflict_per_mille: u64) -> Self {
        let checked = Checked {
            random: Random::new(seed),
            conflict_per_mille,
            footprint: Footprint::default(),
        };
        Self { checked: Some(checked), ..Self::default() }
    }

    /// Inverts bits of the memory behind the runtime's back: `(offset of a byte, mask)`.
    ///
    /// # Panics
    /// When an offset is outside the memory.
    pub fn flip(&mut self, flips: &[(PoolOffset, u8)]) {
        for &(at, mask) in flips {
            self.memory[at.0 as usize] ^= mask;
        }
    }

    /// Limits the memory, so that allocations fail.
    pub fn set_capacity(&mut self, bytes: u64) {
        self.capacity = Some(bytes);
    }

    /// The counts since the last call; all zero in a pool that checks nothing.
    pub fn take_footprint(&mut self) -> Footprint {
        self.checked.as_mut().map(|c| std::mem::take(&mut c.footprint)).unwrap_or_default()
    }

    /// The blocks in use as `(offset, bytes asked for)`, ascending.
    pub fn live_blocks(&self) -> impl Iterator<Item = (PoolOffset, u64)> + '_ {
        self.live.iter().map(|(&at, &bytes)| (PoolOffset(at), bytes))
    }

    /// The root object.
    pub fn root(&self) -> Option<(PoolOffset, RootKind)> {
        self.root
    }

    /// Size of the memory in use, in bytes.
    pub fn len(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Whether nothing was ever allocated.
    pub fn is_empty(&self) -> bool {
        self.memory.is_empty()
    }

    /// The memory.
    pub fn memory(&self) -> &[u8] {
        &self.memory
    }

    /// Reads outside a transaction; `false` where there is no memory.
    pub fn read(&self, at: PoolOffset, out: &mut [u8]) -> bool {
        read_bytes(&self.memory, at, out)
    }

    /// Space for a block of `bytes` bytes, from the blocks given back or from the end.
    fn take(&mut self, bytes: u64) -> Result<u64, Abort> {
        let rounded = rounded(bytes);
        if let Some(at) = self.free.get_mut(&rounded).and_then(Vec::pop) {
            return Ok(at);
        }
        let align = if rounded >= 64 { 64 } else { 16 };
        let at = (self.memory.len() as u64).max(HEAP_AT).next_multiple_of(align);
        let end = at.checked_add(rounded).ok_or(Abort::OutOfSpace { bytes })?;
        if self.capacity.is_some_and(|capacity| end > capacity) || usize::try_from(end).is_err() {
            return Err(Abort::OutOfSpace { bytes });
        }
        self.memory.resize(end as usize, 0);
        Ok(at)
    }

    fn give_back(&mut self, at: u64, bytes: u64) {
        let rounded = rounded(bytes);
        if self.checked.is_some() {
            self.memory[at as usize..(at + rounded) as usize].fill(POISON);
        }
        self.free.entry(rounded).or_default().push(at);
    }
}

/// Reads from a pool's image; `false` where it ends before.
pub(crate) fn read_bytes(image: &[u8], at: PoolOffset, out: &mut [u8]) -> bool {
    let from = usize::try_from(at.0).ok();
    let bytes = from.and_then(|from| image.get(from..from.checked_add(out.len())?));
    bytes.map(|bytes| out.copy_from_slice(bytes)).is_some()
}

/// Bytes that a block of `bytes` bytes occupies: what takes a line begins with one.
fn rounded(bytes: u64) -> u64 {
    let unit = if bytes >= 64 { 64 } else { 16 };
    bytes.max(1).next_multiple_of(unit)
}

impl Runner for Volatile {
    type Tx = VolatileTx;

    fn run<R, F>(&mut self, mut body: F) -> Result<R, Abort>
    where
        F: FnMut(&mut VolatileTx) -> Result<R, Abort>,
    {
        let mut conflicts = 0;
        loop {
            let mut attempt = Attempt::begin(self, conflicts < CONFLICTS_MAX);
            match body(&mut attempt.tx) {
                Ok(result) => {
                    attempt.tx.commit();
                    return Ok(result);
                }
                Err(Abort::Conflict) => conflicts += 1,
                Err(abort) => return Err(abort),
            }
        }
    }
}

/// A transaction while its closure runs. Dropping it undoes what was not committed, and gives
/// the memory back.
struct Attempt<'t> {
    home: &'t mut Volatile,
    tx: VolatileTx,
}

impl<'t> Attempt<'t> {
    fn begin(home: &'t mut Volatile, may_conflict: bool) -> Self {
        let tx = VolatileTx::begin(std::mem::take(home), may_conflict);
        Self { home, tx }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        self.tx.undo_uncommitted();
        *self.home = std::mem::take(&mut self.tx.pool);
    }
}

/// A running transaction.
pub struct VolatileTx {
    /// The memory, while the transaction runs.
    pool: Volatile,
    may_conflict: bool,
    committed: bool,
    undo: Vec<(u64, usize)>,
    undo_bytes: Vec<u8>,
    allocated: BTreeMap<u64, u64>,
    freed: BTreeSet<u64>,
    announced: Vec<ByteRange>,
    dirty: BTreeSet<u64>,
    root: Option<(PoolOffset, RootKind)>,
    /// A conflict was injected.
    failed: Option<Abort>,
}

impl VolatileTx {
    fn begin(mut pool: Volatile, may_conflict: bool) -> Self {
        if let Some(checked) = &mut pool.checked {
            checked.footprint.runs += 1;
        }
        let root = pool.root;
        Self {
            pool,
            may_conflict,
            committed: false,
            undo: Vec::new(),
            undo_bytes: Vec::new(),
            allocated: BTreeMap::new(),
            freed: BTreeSet::new(),
            announced: Vec::new(),
            dirty: BTreeSet::new(),
            root,
            failed: None,
        }
    }

    fn commit(&mut self) {
        self.committed = true;
        self.pool.root = self.root;
        for &at in &self.freed {
            let bytes = self.pool.live.remove(&at).expect("a freed block was live");
            self.pool.give_back(at, bytes);
        }
        if let Some(checked) = &mut self.pool.checked {
            checked.footprint.dirty_lines += self.dirty.len() as u64;
        }
    }

    /// Counts an operation, and perhaps lets it fail.
    fn operation(&mut self, count: impl FnOnce(&mut Footprint)) -> Result<(), Abort> {
        let Some(checked) = &mut self.pool.checked else { return Ok(()) };
        count(&mut checked.footprint);
        let conflict = self.may_conflict
            && checked.conflict_per_mille > 0
            && checked.random.below(1000) < checked.conflict_per_mille;
        if conflict {
            self.failed = Some(Abort::Conflict);
            return Err(Abort::Conflict);
        }
        Ok(())
    }

    /// Checks that an access stays inside one live block; whether this transaction made it.
    fn check(&self, what: &'static str, at: PoolOffset, len: usize) -> Result<bool, Abort> {
        let end = at.0.checked_add(len as u64).filter(|&end| end <= self.pool.len());
        let bad = |why| Err(Abort::bad_address(what, at, why));
        let Some(end) = end else { return bad("outside the pool") };
        if self.pool.checked.is_none() {
            return Ok(false);
        }
        match self.pool.live.range(..=at.0).next_back() {
            Some((&block, &bytes)) if end <= block + bytes => {
                Ok(self.allocated.contains_key(&block))
            }
            _ => bad("outside every live block"),
        }
    }

    fn is_announced(&self, at: PoolOffset, len: usize) -> bool {
        let mut next = at.0;
        let end = at.0 + len as u64;
        // Ranges may touch each other in any order: as many rounds as ranges suffice.
        for _ in 0..=self.announced.len() {
            let reach = |range: &&ByteRange| range.at.0 <= next && next < range.end().0;
            match self.announced.iter().find(reach) {
                _ if next >= end => return true,
                Some(range) => next = range.end().0,
                None => return false,
            }
        }
        next >= end
    }
}

impl VolatileTx {
    fn undo_uncommitted(&mut self) {
        if self.committed {
            return;
        }
        for (at, len) in self.undo.drain(..).rev() {
            let from = self.undo_bytes.len() - len;
            let at = at as usize;
            self.pool.memory[at..at + len].copy_from_slice(&self.undo_bytes[from..]);
            self.undo_bytes.truncate(from);
        }
        for (&at, &bytes) in &self.allocated {
            self.pool.live.remove(&at);
            self.pool.give_back(at, bytes);
        }
    }
}

impl Transact for VolatileTx {
    #[inline]
    fn load(&mut self, at: PoolOffset, out: &mut [u8]) -> Result<(), Abort> {
        self.operation(|footprint| footprint.loads += 1)?;
        self.check("load", at, out.len())?;
        read_bytes(&self.pool.memory, at, out);
        Ok(())
    }

    fn will_write(&mut self, ranges: &[ByteRange]) -> Result<(), Abort> {
        self.operation(|footprint| {
            footprint.announcements += 1;
            footprint.announced_ranges += ranges.len() as u64;
            footprint.announced_bytes += ranges.iter().map(|range| range.len).sum::<u64>();
        })?;
        for range in ranges {
            self.check("announcement", range.at, range.len as usize)?;
        }
        if self.pool.checked.is_some() {
            self.announced.extend_from_slice(ranges);
        }
        Ok(())
    }

    fn store(&mut self, at: PoolOffset, bytes: &[u8]) -> Result<(), Abort> {
        self.operation(|_| ())?;
        let fresh = self.check("store", at, bytes.len())?;
        let announced = fresh || self.is_announced(at, bytes.len());
        if let Some(checked) = &mut self.pool.checked {
            let footprint = &mut checked.footprint;
            footprint.unannounced_stores += u64::from(!announced);
            *(if fresh { &mut footprint.fresh_bytes } else { &mut footprint.stored_bytes }) +=
                bytes.len() as u64;
            self.dirty.extend(ByteRange::new(at, bytes.len() as u64).lines().map(|line| line.0));
        }
        let place = at.0 as usize..at.0 as usize + bytes.len();
        if !fresh {
            self.undo.push((at.0, bytes.len()));
            self.undo_bytes.extend_from_slice(&self.pool.memory[place.clone()]);
        }
        self.pool.memory[place].copy_from_slice(bytes);
        Ok(())
    }

    fn alloc(&mut self, bytes: u64, _: BlockKind) -> Result<PoolOffset, Abort> {
        self.operation(|footprint| footprint.allocations += 1)?;
        let at = self.pool.take(bytes)?;
        if self.pool.checked.is_some() {
            self.pool.memory[at as usize..(at + rounded(bytes)) as usize].fill(POISON);
        }
        self.pool.live.insert(at, bytes);
        self.allocated.insert(at, bytes);
        Ok(PoolOffset(at))
    }

    fn free(&mut self, block: PoolOffset) -> Result<(), Abort> {
        self.operation(|_| ())?;
        if !self.pool.live.contains_key(&block.0) || !self.freed.insert(block.0) {
            let why = "no live block starts there";
            return Err(Abort::bad_address("free", block, why));
        }
        Ok(())
    }

    fn root(&mut self) -> Result<Option<(PoolOffset, RootKind)>, Abort> {
        Ok(self.root)
    }

    fn set_root(&mut self, block: PoolOffset, kind: RootKind) -> Result<(), Abort> {
        self.root = Some((block, kind));
        Ok(())
    }

    fn failure(&self) -> Option<&Abort> {
        self.failed.as_ref()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(pool: &mut Volatile) -> PoolOffset {
        pool.run(|tx| {
            let block = tx.alloc(64, BlockKind::General)?;
            tx.store(block, &[1; 64])?;
            tx.set_root(block, RootKind::Opaque)?;
            Ok(block)
        })
        .unwrap()
    }

    /// The closure's own error hides the conflict, and the transaction remembers it.
    #[test]
    fn injected_conflicts_run_closures_with_errors_of_their_own_again() {
        struct Own;
        impl From<Abort> for Own {
            fn from(_: Abort) -> Self {
                Self
            }
        }
        let mut pool = Volatile::checked(7, 300);
        let block = filled(&mut pool);
        for word in 1..50 {
            let stored = pool.try_run(|tx| {
                tx.load_u64(block)?;
                tx.store_u64(block, word)?;
                Ok::<_, Own>(())
            });
            assert!(stored.is_ok());
        }
        assert!(pool.take_footprint().runs > 60, "some conflicts were injected");
    }

    #[test]
    fn what_does_not_commit_never_happened() {
        let mut pool = Volatile::checked(1, 0);
        let block = filled(&mut pool);
        let cancelled = pool.run(|tx| {
            tx.store(block, &[2; 8])?;
            tx.store(block.plus(4), &[3; 8])?;
            let other = tx.alloc(100, BlockKind::Value)?;
            tx.set_root(other, RootKind::Words)?;
            tx.free(block)?;
            Err::<(), _>(Abort::cancelled("given up"))
        });
        assert!(matches!(cancelled, Err(Abort::Cancelled(_))));
        assert_eq!(pool.live_blocks().collect::<Vec<_>>(), [(block, 64)]);
        assert_eq!(pool.root(), Some((block, RootKind::Opaque)));
        let mut bytes = [0; 64];
        assert!(pool.read(block, &mut bytes));
        assert_eq!(bytes, [1; 64]);
    }

    #[test]
    fn a_panic_undoes_as_well() {
        let mut pool = Volatile::new();
        let block = filled(&mut pool);
        let run = std::panic::AssertUnwindSafe(|| {
            pool.run(|tx| -> Result<(), Abort> {
                tx.store(block, &[2; 8])?;
                panic!("on purpose")
            })
        });
        assert!(std::panic::catch_unwind(run).is_err());
        assert!(pool.memory().ends_with(&[1; 64]));
    }

    #[test]
    fn mistakes_are_noticed() {
        let mut pool = Volatile::checked(1, 0);
        let block = filled(&mut pool);
        let mut attempt = |body: &mut dyn FnMut(&mut VolatileTx) -> Result<(), Abort>| {
            matches!(pool.run(|tx| body(tx)), Err(Abort::BadAddress(_)))
        };
        assert!(attempt(&mut |tx| tx.load(block.plus(60), &mut [0; 8])));
        assert!(attempt(&mut |tx| tx.store(PoolOffset(0), &[0])));
        assert!(attempt(&mut |tx| tx.free(block.plus(16))));
        assert!(attempt(&mut |tx| tx.free(block).and_then(|()| tx.free(block))));
        assert!(!attempt(&mut |tx| tx.store(block, &[0])));
        assert_eq!(pool.take_footprint().unannounced_stores, 1);
    }

    #[test]
    fn announced_ranges_may_join() {
        let mut pool = Volatile::checked(1, 0);
        let block = filled(&mut pool);
        pool.take_footprint();
        pool.run(|tx| {
            tx.will_write(&[ByteRange::new(block.plus(8), 8), ByteRange::new(block, 8)])?;
            tx.store(block.plus(4), &[0; 12])
        })
        .unwrap();
        let footprint = pool.take_footprint();
        assert_eq!((footprint.unannounced_stores, footprint.announced_bytes), (0, 16));
        assert_eq!((footprint.stored_bytes, footprint.dirty_lines), (12, 1));
    }

    #[test]
    fn a_block_is_aligned_wherever_it_comes_from() {
        let mut pool = Volatile::checked(1, 0);
        let alloc = |pool: &mut Volatile, bytes| {
            pool.run(|tx| tx.alloc(bytes, BlockKind::General)).unwrap()
        };
        for bytes in [16, 63, 50, 64, 200, 48] {
            let block = alloc(&mut pool, bytes);
            pool.run(|tx| tx.free(block)).unwrap();
            let other = alloc(&mut pool, bytes.next_multiple_of(64));
            assert!(other.is_aligned(64), "{other} after a block of {bytes} bytes");
        }
    }

    #[test]
    fn conflicts_run_the_closure_again_from_a_clean_state() {
        let mut pool = Volatile::checked(3, 200);
        let block = filled(&mut pool);
        for round in 1..200u64 {
            let word = pool.run(|tx| {
                let word = tx.load_u64(block.plus(8))?;
                tx.store_u64(block.plus(8), word + 1)?;
                tx.store_u64(block.plus(16), word)?;
                Ok(word)
            });
            assert_eq!(word.unwrap(), 0x0101_0101_0101_0101 + round - 1);
        }
        assert!(pool.take_footprint().runs > 250);
    }
}
