//! A file of bytes in a pool: SQLite's database.
//!
//! A [`Store`] is the volatile copy of the tables that lead to extents. A transaction's [`Changes`] become
//! durable in one transaction of the pool: granules that exist are stored where words differ from
//! what is there; new extents are stored whole, which costs no log.

use outlast::{Abort, BlockKind, ByteRange, PoolOffset, RootKind, Runner, Transact};
use rustc_hash::{FxHashMap, FxHashSet};

use crate::changes::{Changed, Changes, Granule, Lens, Part, Spilled};
use crate::differences::Runs;
use crate::layout::{
    DIRECTORY, DIRECTORY_ENTRIES, DIRECTORY_ENTRIES_MIN, EXTENT_BYTES, GRANULE_BYTES, GRANULES,
    HAS_SPILLED, LEN, MAGIC, PREPARED, ROOT_BYTES, SPILL_EXTENTS, SPILLED, TABLE_ENTRIES,
};

/// No name of a super-journal is as long.
const NAME_BYTES_MAX: u64 = 1 << 16;

/// Changes that wait for a super-journal.
struct Prepared {
    super_journal: Vec<u8>,
    lens: Lens,
    /// Where granules are, by number.
    granules: Vec<(u64, PoolOffset)>,
    spilled: Vec<(u64, Spilled)>,
}

/// The content of a granule that becomes part of a file again (FILE-2).
const ZEROS: Granule = [0; GRANULE_BYTES];

/// Reasons for which a pool's root is no database.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The root is something else.
    #[error("a pool of something else: its root is no SQLite database")]
    NoDatabase,
    /// It waits for a super-journal of which the file system does not say whether it is there.
    #[error("the super-journal of a transaction over several databases: {0}")]
    SuperJournal(std::io::Error),
    /// The transaction's end.
    #[error(transparent)]
    Abort(#[from] Abort),
}

/// A file in a pool, and where its bytes are.
#[derive(Clone, Debug)]
pub struct Store {
    root: PoolOffset,
    len: u64,
    directory: PoolOffset,
    /// The directory's content.
    tables: Vec<u64>,
    /// The content of all tables that there are; further extents are not there.
    extents: Vec<u64>,
    /// Changes that wait for a super-journal, or 0.
    prepared: u64,
    /// The first list of spilled extents, or 0.
    spilled: u64,
}

/// How a transaction changes the tables.
#[must_use]
pub struct Next {
    len: u64,
    directory: PoolOffset,
    capacity: usize,
    tables: FxHashMap<usize, u64>,
    extents: Vec<(usize, u64)>,
    prepared: u64,
    spilled: u64,
}

/// How a transaction that spills changes the tables, and the extents that it stores.
pub(crate) type Spill = (Next, Vec<(u64, Spilled)>);

/// Bytes to be stored over others.
struct Difference {
    at: PoolOffset,
    len: usize,
    source: Source,
}

/// Where those bytes are.
enum Source {
    Part(Part),
    /// In a granule that is kept whole, from that byte on.
    Whole(u64, usize),
    Zeros,
}

/// Buffers that are kept from transaction to transaction.
#[derive(Default)]
pub struct Scratch {
    numbers: Vec<u64>,
    differences: Vec<Difference>,
    ranges: Vec<ByteRange>,
    old: Vec<u8>,
}

impl Store {
    /// Finds the file of a pool; `None` in a pool without a root.
    ///
    /// # Errors
    /// [`StoreError::NoDatabase`].
    pub fn open<T: Transact>(tx: &mut T) -> Result<Option<Self>, StoreError> {
        let Some((root, kind)) = tx.root()? else { return Ok(None) };
        if kind != RootKind::Opaque || tx.load_u64(root)? != MAGIC {
            return Err(StoreError::NoDatabase);
        }
        let len = tx.load_u64(root.plus(LEN))?;
        let directory = PoolOffset(tx.load_u64(root.plus(DIRECTORY))?);
        let entries = tx.load_u64(root.plus(DIRECTORY_ENTRIES))?;
        if entries > len / EXTENT_BYTES + (1 << 20) {
            return Err(Abort::damaged("the directory of a database is too long").into());
        }
        let tables = load_words(tx, directory, entries as usize)?;
        let mut extents = Vec::new();
        for (index, table) in tables.iter().enumerate().filter(|(_, table)| **table != 0) {
            extents.resize(index * TABLE_ENTRIES, 0);
            extents.extend(load_words(tx, PoolOffset(*table), TABLE_ENTRIES)?);
        }
        let prepared = tx.load_u64(root.plus(PREPARED))?;
        let spilled = tx.load_u64(root.plus(SPILLED))?;
        Ok(Some(Self { root, len, directory, tables, extents, prepared, spilled }))
    }

    /// Makes an empty file the root of a pool.
    pub fn create<T: Transact>(tx: &mut T) -> Result<Self, Abort> {
        let root = tx.alloc(ROOT_BYTES, BlockKind::General)?;
        let directory = tx.alloc(8 * DIRECTORY_ENTRIES_MIN as u64, BlockKind::General)?;
        let mut bytes = [0; ROOT_BYTES as usize];
        let words = [MAGIC, 0, directory.0, DIRECTORY_ENTRIES_MIN as u64];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        tx.store(root, &bytes)?;
        tx.store(directory, &[0; 8 * DIRECTORY_ENTRIES_MIN])?;
        tx.set_root(root, RootKind::Opaque)?;
        let (tables, extents) = (vec![0; DIRECTORY_ENTRIES_MIN], Vec::new());
        Ok(Self { root, len: 0, directory, tables, extents, prepared: 0, spilled: 0 })
    }

    /// Bytes of the file.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether the file has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Reads what is stored, between transactions. Bytes behind the end are zeros. `load` loads from
    /// the pool.
    pub fn read(&self, at: u64, out: &mut [u8], load: impl Fn(PoolOffset, &mut [u8])) {
        let there = self.len.saturating_sub(at).min(out.len() as u64) as usize;
        let (mut rest, behind) = out.split_at_mut(there);
        behind.fill(0);
        let mut at = at;
        while !rest.is_empty() {
            let inside = at % EXTENT_BYTES;
            let len = (EXTENT_BYTES - inside).min(rest.len() as u64) as usize;
            let (part, others) = rest.split_at_mut(len);
            match self.extent((at / EXTENT_BYTES) as usize) {
                0 => part.fill(0),
                extent => load(PoolOffset(extent + inside), part),
            }
            (rest, at) = (others, at + len as u64);
        }
    }

    /// Makes changes durable in one transaction.
    ///
    /// # Errors
    /// [`Abort`]; the file is as it was.
    pub fn commit<R: Runner>(&mut self, runner: &mut R, changes: &Changes) -> Result<(), Abort> {
        let mut scratch = Scratch::default();
        let next = runner.run(|tx| self.apply(tx, changes, &mut scratch))?;
        self.adopt(next);
        Ok(())
    }

    /// Makes changes in a transaction. When it has committed, [`adopt`](Self::adopt) wants what is returned.
    ///
    /// # Errors
    /// [`Abort`].
    pub fn apply<T: Transact>(
        &self,
        tx: &mut T,
        changes: &Changes,
        scratch: &mut Scratch,
    ) -> Result<Next, Abort> {
        let mut next = self.unchanged();
        if self.prepared != 0 {
            self.free_prepared(tx)?;
            next.prepared = 0;
        }
        if self.spilled != 0 {
            self.free_lists(tx, changes)?;
            next.spilled = 0;
        }
        let Some(lens) = changes.lens() else { return Ok(next) };
        next.len = lens.len;
        self.free_behind(tx, &mut next)?;
        self.link_spilled(tx, changes, &mut next)?;
        changes.numbers(&mut scratch.numbers);
        scratch.differences.clear();
        self.zero_grown(tx, changes, lens, scratch)?;
        zero_behind_spilled(tx, changes, lens, scratch)?;
        let mut new = None;
        for place in 0..scratch.numbers.len() {
            let number = scratch.numbers[place];
            let index = (number / GRANULES) as usize;
            match changes.spilled(index as u64).map_or(self.extent(index), |spilled| spilled.at.0) {
                0 if new.replace(index) == Some(index) => {}
                0 => self.store_new_extent(tx, changes, index, &mut next)?,
                extent => {
                    let at = PoolOffset(extent + number % GRANULES * GRANULE_BYTES as u64);
                    compare_granule(tx, changes, lens.len, (number, at), scratch)?;
                }
            }
        }
        store_differences(tx, changes, scratch)?;
        if next.len != self.len {
            tx.store_u64(self.root.plus(LEN), next.len)?;
        }
        Ok(next)
    }

    fn unchanged(&self) -> Next {
        Next {
            len: self.len,
            directory: self.directory,
            capacity: self.tables.len(),
            tables: FxHashMap::default(),
            extents: Vec::new(),
            prepared: self.prepared,
            spilled: self.spilled,
        }
    }

    /// The transaction that made these changes has committed.
    pub fn adopt(&mut self, next: Next) {
        (self.len, self.directory) = (next.len, next.directory);
        (self.prepared, self.spilled) = (next.prepared, next.spilled);
        self.tables.resize(next.capacity, 0);
        next.tables.into_iter().for_each(|(index, table)| self.tables[index] = table);
        for (index, extent) in next.extents {
            if index >= self.extents.len() {
                self.extents.resize(index + 1, 0);
            }
            self.extents[index] = extent;
        }
    }

    /// Whether changes wait for a super-journal.
    pub fn is_prepared(&self) -> bool {
        self.prepared != 0
    }

    /// Stores changes beside the file, to wait for a super-journal. What is [applied](Self::apply) next takes their place.
    ///
    /// # Errors
    /// [`Abort`].
    pub fn prepare<T: Transact>(
        &self,
        tx: &mut T,
        changes: &Changes,
        super_journal: &[u8],
    ) -> Result<Next, Abort> {
        let mut next = self.unchanged();
        if self.prepared != 0 {
            self.free_prepared(tx)?;
            next.prepared = 0;
        }
        let Some(lens) = changes.lens() else { return Ok(next) };
        let mut numbers = Vec::new();
        changes.numbers(&mut numbers);
        let spilled = changes.all_spilled();
        let flag = if spilled.is_empty() { 0 } else { HAS_SPILLED };
        let head = [super_journal.len() as u64 | flag, lens.len, lens.kept, numbers.len() as u64];
        let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.extend_from_slice(super_journal);
        bytes.resize(bytes.len().next_multiple_of(8), 0);
        for number in numbers {
            let mut granule = ZEROS;
            let extent = self.extent((number / GRANULES) as usize);
            // CHANGES-2: parts are over what is stored.
            if extent != 0 && matches!(changes.granule(number), Some(Changed::Parts(_))) {
                let inside = number % GRANULES * GRANULE_BYTES as u64;
                tx.load(PoolOffset(extent + inside), &mut granule)?;
            }
            changes.put(number, &mut granule);
            let block = tx.alloc(GRANULE_BYTES as u64, BlockKind::Log)?;
            tx.store(block, &granule)?;
            bytes.extend([number, block.0].iter().flat_map(|word| word.to_le_bytes()));
        }
        if !spilled.is_empty() {
            let words = spilled.iter().flat_map(|(index, of)| [*index, of.at.0, of.used]);
            let words = std::iter::once(spilled.len() as u64).chain(words);
            bytes.extend(words.flat_map(u64::to_le_bytes));
        }
        let block = tx.alloc(bytes.len() as u64, BlockKind::Log)?;
        tx.store(block, &bytes)?;
        tx.store_u64(self.root.plus(PREPARED), block.0)?;
        next.prepared = block.0;
        Ok(next)
    }

    /// Settles changes that wait for a super-journal, if any do: they become the file's if it has gone, and are
    /// forgotten if not. `is_there` is asked for the super-journal of that name.
    ///
    /// # Errors
    /// [`StoreError`]; they wait on.
    pub fn settle<R: Runner>(
        &mut self,
        runner: &mut R,
        is_there: impl FnOnce(&[u8]) -> std::io::Result<bool>,
    ) -> Result<(), StoreError> {
        if !self.is_prepared() {
            return Ok(self.free_spilled(runner)?);
        }
        let (super_journal, changes) = runner.run(|tx| self.prepared(tx))?;
        let changes = match is_there(&super_journal).map_err(StoreError::SuperJournal)? {
            true => Changes::default(),
            false => changes,
        };
        Ok(self.commit(runner, &changes)?)
    }

    /// The super-journal that changes wait for, and the changes.
    ///
    /// # Errors
    /// [`Abort`].
    pub fn prepared<T: Transact>(&self, tx: &mut T) -> Result<(Vec<u8>, Changes), Abort> {
        let prepared = self.load_prepared(tx)?;
        let mut granules = Vec::new();
        for (number, block) in prepared.granules {
            let mut granule = Box::new([0; GRANULE_BYTES]);
            tx.load(block, &mut granule[..])?;
            granules.push((number, granule));
        }
        Ok((prepared.super_journal, Changes::of(prepared.lens, granules, prepared.spilled)))
    }

    fn load_prepared<T: Transact>(&self, tx: &mut T) -> Result<Prepared, Abort> {
        let block = PoolOffset(self.prepared);
        let words = load_words(tx, block, 4)?;
        let [name_word, len, kept, granules] = words[..] else { unreachable!("four words") };
        let name_bytes = name_word & !HAS_SPILLED;
        if name_bytes > NAME_BYTES_MAX || granules > len / GRANULE_BYTES as u64 + 1 {
            return Err(Abort::damaged("changes that wait for a super-journal"));
        }
        let mut super_journal = vec![0; name_bytes as usize];
        tx.load(block.plus(32), &mut super_journal)?;
        let places = block.plus(32 + name_bytes.next_multiple_of(8));
        let words = load_words(tx, places, 2 * granules as usize)?;
        let granules: Vec<_> =
            words.chunks_exact(2).map(|pair| (pair[0], PoolOffset(pair[1]))).collect();
        let mut spilled = Vec::new();
        if name_word & HAS_SPILLED != 0 {
            let places = places.plus(16 * granules.len() as u64);
            let extents = tx.load_u64(places)?;
            if extents > len / EXTENT_BYTES + 1 {
                return Err(Abort::damaged("spilled extents that wait for a super-journal"));
            }
            let words = load_words(tx, places.plus(8), 3 * extents as usize)?;
            let extent = |words: &[u64]| {
                let (at, used) = (PoolOffset(words[1]), words[2].min(EXTENT_BYTES));
                (words[0], Spilled { at, used })
            };
            spilled.extend(words.chunks_exact(3).map(extent));
        }
        Ok(Prepared { super_journal, lens: Lens { len, kept }, granules, spilled })
    }

    fn free_prepared<T: Transact>(&self, tx: &mut T) -> Result<(), Abort> {
        for (_, block) in self.load_prepared(tx)?.granules {
            tx.free(block)?;
        }
        tx.free(PoolOffset(self.prepared))?;
        tx.store_u64(self.root.plus(PREPARED), 0)
    }

    /// Whether the pool holds spilled extents.
    pub fn has_spilled(&self) -> bool {
        self.spilled != 0
    }

    /// Moves changes from volatile memory to extents of the pool, which become the file's when the changes are
    /// [applied](Self::apply).
    ///
    /// # Errors
    /// [`Abort`]; changes that were not moved are kept.
    pub fn spill<R: Runner>(&mut self, runner: &mut R, changes: &mut Changes) -> Result<(), Abort> {
        let mut scratch = Scratch::default();
        while let Some((next, extents)) =
            runner.run(|tx| self.spill_some(tx, changes, &mut scratch))?
        {
            self.adopt(next);
            changes.spill(extents);
        }
        Ok(())
    }

    /// One transaction of [`spill`](Self::spill): the extents that it stores, for [`Changes::spill`]. `None` when no granule
    /// is left.
    pub(crate) fn spill_some<T: Transact>(
        &self,
        tx: &mut T,
        changes: &Changes,
        scratch: &mut Scratch,
    ) -> Result<Option<Spill>, Abort> {
        let Some(lens) = changes.lens() else { return Ok(None) };
        changes.numbers(&mut scratch.numbers);
        scratch.numbers.iter_mut().for_each(|number| *number /= GRANULES);
        scratch.numbers.dedup();
        scratch.numbers.truncate(SPILL_EXTENTS);
        if scratch.numbers.is_empty() {
            return Ok(None);
        }
        scratch.differences.clear();
        let (mut next, mut extents, mut list) = (self.unchanged(), Vec::new(), Vec::new());
        for place in 0..scratch.numbers.len() {
            let index = scratch.numbers[place];
            let used = (lens.len - index * EXTENT_BYTES).min(EXTENT_BYTES);
            let at = match changes.spilled(index) {
                Some(spilled) => {
                    zero_behind(tx, changes, index, spilled, used, scratch)?;
                    for number in index * GRANULES..(index + 1) * GRANULES {
                        let inside = number % GRANULES * GRANULE_BYTES as u64;
                        let place = (number, spilled.at.plus(inside));
                        compare_granule(tx, changes, lens.len, place, scratch)?;
                    }
                    spilled.at
                }
                None => {
                    let at = self.store_copy(tx, changes, lens, index)?;
                    list.push(at.0);
                    at
                }
            };
            extents.push((index, Spilled { at, used }));
        }
        store_differences(tx, changes, scratch)?;
        if !list.is_empty() {
            let words = [self.spilled, list.len() as u64].into_iter().chain(list);
            let bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
            let block = tx.alloc(bytes.len() as u64, BlockKind::Log)?;
            tx.store(block, &bytes)?;
            tx.store_u64(self.root.plus(SPILLED), block.0)?;
            next.spilled = block.0;
        }
        Ok(Some((next, extents)))
    }

    /// Stores a changed copy of an extent.
    fn store_copy<T: Transact>(
        &self,
        tx: &mut T,
        changes: &Changes,
        lens: Lens,
        index: u64,
    ) -> Result<PoolOffset, Abort> {
        let (copy, stored) =
            (tx.alloc(EXTENT_BYTES, BlockKind::Value)?, self.extent(index as usize));
        let start = index * EXTENT_BYTES;
        let used = (lens.len - start).min(EXTENT_BYTES);
        for inside in (0..used).step_by(GRANULE_BYTES) {
            let mut granule = ZEROS;
            let kept = lens.kept.saturating_sub(start + inside).min(GRANULE_BYTES as u64) as usize;
            if stored != 0 && kept > 0 {
                tx.load(PoolOffset(stored + inside), &mut granule[..kept])?;
            }
            changes.put((start + inside) / GRANULE_BYTES as u64, &mut granule);
            let len = (used - inside).min(GRANULE_BYTES as u64) as usize;
            tx.store(copy.plus(inside), &granule[..len])?;
        }
        Ok(copy)
    }

    /// Frees the extents of a transaction that did not commit: one list after the other, since there may be any number.
    ///
    /// # Errors
    /// [`Abort`]; what is left is freed at the next opening.
    pub fn free_spilled<R: Runner>(&mut self, runner: &mut R) -> Result<(), Abort> {
        while self.has_spilled() {
            let next = runner.run(|tx| self.free_list(tx))?;
            self.adopt(next);
        }
        Ok(())
    }

    /// One transaction of [`free_spilled`](Self::free_spilled).
    pub(crate) fn free_list<T: Transact>(&self, tx: &mut T) -> Result<Next, Abort> {
        let mut next = self.unchanged();
        let (after, extents) = load_list(tx, self.spilled)?;
        for extent in extents {
            tx.free(PoolOffset(extent))?;
        }
        tx.free(PoolOffset(self.spilled))?;
        tx.store_u64(self.root.plus(SPILLED), after)?;
        next.spilled = after;
        Ok(next)
    }

    /// FILE-3: frees all lists, and the extents that changes do not lead to.
    fn free_lists<T: Transact>(&self, tx: &mut T, changes: &Changes) -> Result<(), Abort> {
        let linked: FxHashSet<u64> =
            changes.all_spilled().iter().map(|(_, spilled)| spilled.at.0).collect();
        let (mut list, mut seen) = (self.spilled, FxHashSet::default());
        while list != 0 {
            if !seen.insert(list) {
                return Err(Abort::damaged("lists of spilled extents lead back"));
            }
            let (next, extents) = load_list(tx, list)?;
            for extent in extents.iter().filter(|extent| !linked.contains(extent)) {
                tx.free(PoolOffset(*extent))?;
            }
            tx.free(PoolOffset(list))?;
            list = next;
        }
        tx.store_u64(self.root.plus(SPILLED), 0)
    }

    /// Spilled extents take the place of stored ones.
    fn link_spilled<T: Transact>(
        &self,
        tx: &mut T,
        changes: &Changes,
        next: &mut Next,
    ) -> Result<(), Abort> {
        for (index, spilled) in changes.all_spilled() {
            let index = index as usize;
            let stored = self.extent(index);
            if stored != 0 {
                tx.free(PoolOffset(stored))?;
            }
            let table = self.table_for(tx, index / TABLE_ENTRIES, next)?;
            tx.store_u64(table_entry(table, index), spilled.at.0)?;
            next.extents.push((index, spilled.at.0));
        }
        Ok(())
    }

    fn extent(&self, index: usize) -> u64 {
        self.extents.get(index).copied().unwrap_or(0)
    }

    /// FILE-2: what growth makes part of the file again, and nothing has written to, is zero.
    fn zero_grown<T: Transact>(
        &self,
        tx: &mut T,
        changes: &Changes,
        lens: Lens,
        scratch: &mut Scratch,
    ) -> Result<(), Abort> {
        let end = lens.len.min(self.extents.len() as u64 * EXTENT_BYTES);
        let mut at = lens.kept;
        while at < end {
            let extent = self.extent((at / EXTENT_BYTES) as usize);
            if extent == 0 || changes.spilled(at / EXTENT_BYTES).is_some() {
                at = (at + 1).next_multiple_of(EXTENT_BYTES);
                continue;
            }
            let (number, inside) = (at / GRANULE_BYTES as u64, at % GRANULE_BYTES as u64);
            let len = (GRANULE_BYTES as u64 - inside).min(end - at) as usize;
            if !matches!(changes.granule(number), Some(Changed::Whole(_))) {
                let at = PoolOffset(extent + at % EXTENT_BYTES);
                compare(tx, at, &ZEROS[..len], |_| Source::Zeros, scratch)?;
            }
            at += len as u64;
        }
        Ok(())
    }

    /// Gives back the extents behind the new end.
    fn free_behind<T: Transact>(&self, tx: &mut T, next: &mut Next) -> Result<(), Abort> {
        let from = next.len.div_ceil(EXTENT_BYTES) as usize;
        for index in from..self.extents.len() {
            let extent = self.extents[index];
            if extent != 0 {
                tx.free(PoolOffset(extent))?;
                tx.store_u64(table_entry(self.tables[index / TABLE_ENTRIES], index), 0)?;
                next.extents.push((index, 0));
            }
        }
        Ok(())
    }

    fn store_new_extent<T: Transact>(
        &self,
        tx: &mut T,
        changes: &Changes,
        index: usize,
        next: &mut Next,
    ) -> Result<(), Abort> {
        let extent = tx.alloc(EXTENT_BYTES, BlockKind::Value)?;
        let start = index as u64 * EXTENT_BYTES;
        let used = (next.len - start).min(EXTENT_BYTES);
        for inside in 0..used.div_ceil(GRANULE_BYTES as u64) {
            let at = inside * GRANULE_BYTES as u64;
            let len = (used - at).min(GRANULE_BYTES as u64) as usize;
            // FILE-1: parts of what is stored are parts of zeros here.
            let mut granule = ZEROS;
            changes.put(index as u64 * GRANULES + inside, &mut granule);
            tx.store(extent.plus(at), &granule[..len])?;
        }
        let table = self.table_for(tx, index / TABLE_ENTRIES, next)?;
        tx.store_u64(table_entry(table, index), extent.0)?;
        next.extents.push((index, extent.0));
        Ok(())
    }

    /// The table of that number, which is made if there is none.
    fn table_for<T: Transact>(
        &self,
        tx: &mut T,
        number: usize,
        next: &mut Next,
    ) -> Result<u64, Abort> {
        let known = next.tables.get(&number).or(self.tables.get(number)).copied();
        if let Some(table) = known.filter(|table| *table != 0) {
            return Ok(table);
        }
        if number >= next.capacity {
            self.lengthen_directory(tx, number + 1, next)?;
        }
        let table = tx.alloc(8 * TABLE_ENTRIES as u64, BlockKind::General)?;
        tx.store(table, &[0; 8 * TABLE_ENTRIES])?;
        tx.store_u64(next.directory.plus(8 * number as u64), table.0)?;
        next.tables.insert(number, table.0);
        Ok(table.0)
    }

    fn lengthen_directory<T: Transact>(
        &self,
        tx: &mut T,
        entries: usize,
        next: &mut Next,
    ) -> Result<(), Abort> {
        let capacity = entries.next_power_of_two().max(2 * next.capacity);
        let directory = tx.alloc(8 * capacity as u64, BlockKind::General)?;
        let entry = |number: usize| {
            let known = next.tables.get(&number).or(self.tables.get(number));
            known.copied().unwrap_or(0).to_le_bytes()
        };
        let bytes: Vec<u8> = (0..capacity).flat_map(entry).collect();
        tx.store(directory, &bytes)?;
        tx.free(next.directory)?;
        tx.store_u64(self.root.plus(DIRECTORY), directory.0)?;
        tx.store_u64(self.root.plus(DIRECTORY_ENTRIES), capacity as u64)?;
        (next.directory, next.capacity) = (directory, capacity);
        Ok(())
    }
}

/// Stores the words that differ, all announced together.
fn store_differences<T: Transact>(
    tx: &mut T,
    changes: &Changes,
    scratch: &mut Scratch,
) -> Result<(), Abort> {
    let Scratch { differences, ranges, .. } = scratch;
    ranges.clear();
    ranges.extend(
        differences.iter().map(|difference| ByteRange::new(difference.at, difference.len as u64)),
    );
    tx.will_write(ranges)?;
    for Difference { at, len, source } in differences {
        let bytes = match source {
            Source::Part(part) => changes.part(part),
            Source::Zeros => &ZEROS[..*len],
            Source::Whole(number, from) => match changes.granule(*number) {
                Some(Changed::Whole(granule)) => &granule[*from..*from + *len],
                _ => unreachable!("a difference was found in it"),
            },
        };
        tx.store(*at, bytes)?;
    }
    Ok(())
}

/// FILE-2, for extents that are to become the file's.
fn zero_behind_spilled<T: Transact>(
    tx: &mut T,
    changes: &Changes,
    lens: Lens,
    scratch: &mut Scratch,
) -> Result<(), Abort> {
    for (index, spilled) in changes.all_spilled() {
        let used = (lens.len - index * EXTENT_BYTES).min(EXTENT_BYTES);
        zero_behind(tx, changes, index, spilled, used, scratch)?;
    }
    Ok(())
}

/// Bytes of a spilled extent from its used ones up to `used` become zeros, but for those of granules in memory.
fn zero_behind<T: Transact>(
    tx: &mut T,
    changes: &Changes,
    index: u64,
    spilled: Spilled,
    used: u64,
    scratch: &mut Scratch,
) -> Result<(), Abort> {
    let mut inside = spilled.used;
    while inside < used {
        let end = (inside + 1).next_multiple_of(GRANULE_BYTES as u64).min(used);
        let number = index * GRANULES + inside / GRANULE_BYTES as u64;
        if changes.granule(number).is_none() {
            let zeros = &ZEROS[..(end - inside) as usize];
            compare(tx, spilled.at.plus(inside), zeros, |_| Source::Zeros, scratch)?;
        }
        inside = end;
    }
    Ok(())
}

/// A list of spilled extents: the next list, and the extents.
fn load_list<T: Transact>(tx: &mut T, list: u64) -> Result<(u64, Vec<u64>), Abort> {
    let (next, extents) = (tx.load_u64(PoolOffset(list))?, tx.load_u64(PoolOffset(list + 8))?);
    if extents > SPILL_EXTENTS as u64 {
        return Err(Abort::damaged("a list of spilled extents is too long"));
    }
    Ok((next, load_words(tx, PoolOffset(list + 16), extents as usize)?))
}

/// Where a table has its entry for an extent.
fn table_entry(table: u64, index: usize) -> PoolOffset {
    PoolOffset(table + 8 * (index % TABLE_ENTRIES) as u64)
}

fn load_words<T: Transact>(tx: &mut T, at: PoolOffset, words: usize) -> Result<Vec<u64>, Abort> {
    let mut bytes = vec![0; 8 * words];
    tx.load(at, &mut bytes)?;
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("8 bytes"));
    Ok(bytes.chunks_exact(8).map(word).collect())
}

/// Finds what of a stored granule at `at` is to change, in a file of `file_len` bytes.
fn compare_granule<T: Transact>(
    tx: &mut T,
    changes: &Changes,
    file_len: u64,
    (number, at): (u64, PoolOffset),
    scratch: &mut Scratch,
) -> Result<(), Abort> {
    match changes.granule(number) {
        Some(Changed::Parts(parts)) => {
            let difference = |part: &Part| {
                let (at, len) = (at.plus(part.from as u64), part.len);
                Difference { at, len, source: Source::Part(*part) }
            };
            scratch.differences.extend(parts.iter().map(difference));
            Ok(())
        }
        Some(Changed::Whole(granule)) => {
            let start = number * GRANULE_BYTES as u64;
            let used = file_len.saturating_sub(start).min(GRANULE_BYTES as u64) as usize;
            compare(tx, at, &granule[..used], |from| Source::Whole(number, from), scratch)
        }
        None => Ok(()),
    }
}

/// Finds what differs from what is stored at `at`. `source` says where the bytes from a place on are.
fn compare<T: Transact>(
    tx: &mut T,
    at: PoolOffset,
    new: &[u8],
    source: impl Fn(usize) -> Source,
    scratch: &mut Scratch,
) -> Result<(), Abort> {
    let Scratch { old, differences, .. } = scratch;
    old.resize(new.len(), 0);
    tx.load(at, old)?;
    let mut runs = Runs::new(|from, to| {
        let (at, len) = (at.plus(from as u64), to - from);
        differences.push(Difference { at, len, source: source(from) });
    });
    runs.compare(0, new, old);
    runs.end(new.len());
    Ok(())
}

#[cfg(test)]
mod tests;
