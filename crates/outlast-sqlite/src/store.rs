//! A file of bytes in a pool: SQLite's database.
//!
//! A [`Store`] is the volatile copy of the tables that lead to extents. A transaction's [`Changes`] become
//! durable in one transaction of the pool: granules that exist are compared with what is
//! there and stored where words differ; new extents are stored whole, which costs no log.

use outlast::{Abort, BlockKind, ByteRange, PoolOffset, RootKind, Runner, Transact};
use rustc_hash::FxHashMap;

use crate::changes::{Changes, Granule, Lens};
use crate::layout::{
    DIRECTORY, DIRECTORY_ENTRIES, DIRECTORY_ENTRIES_MIN, EXTENT_BYTES, GRANULE_BYTES, GRANULES,
    LEN, MAGIC, ROOT_BYTES, TABLE_ENTRIES,
};

/// Equal words between two changed ones that are stored with them: a range of its own costs more.
const GAP_WORDS_MAX: usize = 2;

/// What a pool's root says about a database in it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The root is something else.
    #[error("a pool of something else: its root is no SQLite database")]
    NoDatabase,
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
}

/// How a transaction changes the tables.
struct Next {
    len: u64,
    directory: PoolOffset,
    capacity: usize,
    tables: FxHashMap<usize, u64>,
    extents: Vec<(usize, u64)>,
}

/// Words of a granule that differ from what is stored.
struct Difference {
    at: PoolOffset,
    number: u64,
    from: usize,
    to: usize,
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
        Ok(Some(Self { root, len, directory, tables, extents }))
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
        Ok(Self { root, len: 0, directory, tables, extents })
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
        let Some(lens) = changes.lens() else { return Ok(()) };
        let numbers = changes.numbers();
        let next = runner.run(|tx| self.apply(tx, changes, lens, &numbers))?;
        (self.len, self.directory) = (next.len, next.directory);
        self.tables.resize(next.capacity, 0);
        next.tables.into_iter().for_each(|(index, table)| self.tables[index] = table);
        for (index, extent) in next.extents {
            if index >= self.extents.len() {
                self.extents.resize(index + 1, 0);
            }
            self.extents[index] = extent;
        }
        Ok(())
    }

    fn extent(&self, index: usize) -> u64 {
        self.extents.get(index).copied().unwrap_or(0)
    }

    fn apply<T: Transact>(
        &self,
        tx: &mut T,
        changes: &Changes,
        lens: Lens,
        numbers: &[u64],
    ) -> Result<Next, Abort> {
        let mut next = Next {
            len: lens.len,
            directory: self.directory,
            capacity: self.tables.len(),
            tables: FxHashMap::default(),
            extents: Vec::new(),
        };
        self.free_behind(tx, &mut next)?;
        let mut differences = Vec::new();
        for index in self.touched(lens, numbers) {
            match self.extent(index) {
                0 => self.store_new_extent(tx, changes, index, &mut next)?,
                extent => compare_extent(tx, changes, lens, index, extent, &mut differences)?,
            }
        }
        self.store_differences(tx, changes, &differences)?;
        if next.len != self.len {
            tx.store_u64(self.root.plus(LEN), next.len)?;
        }
        Ok(next)
    }

    /// Extents with changed granules, and those that growth makes part of the file again.
    fn touched(&self, lens: Lens, numbers: &[u64]) -> Vec<usize> {
        let mut touched: Vec<usize> = Vec::new();
        for number in numbers {
            let index = (number / GRANULES) as usize;
            if touched.last() != Some(&index) {
                touched.push(index);
            }
        }
        if lens.len > lens.kept {
            let (from, to) = (lens.kept / EXTENT_BYTES, lens.len.div_ceil(EXTENT_BYTES));
            let to = (to as usize).min(self.extents.len());
            let grown = (from as usize..to).filter(|index| self.extent(*index) != 0);
            let grown: Vec<usize> =
                grown.filter(|index| touched.binary_search(index).is_err()).collect();
            touched.extend(grown);
            touched.sort_unstable();
        }
        touched
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
            let granule = changes.granule(index as u64 * GRANULES + inside);
            tx.store(extent.plus(at), &granule.unwrap_or(&[0; GRANULE_BYTES])[..len])?;
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

    /// Stores the words that differ, all announced together.
    fn store_differences<T: Transact>(
        &self,
        tx: &mut T,
        changes: &Changes,
        differences: &[Difference],
    ) -> Result<(), Abort> {
        let ranges: Vec<ByteRange> = differences
            .iter()
            .map(|difference| {
                ByteRange::new(difference.at, (difference.to - difference.from) as u64)
            })
            .collect();
        tx.will_write(&ranges)?;
        for Difference { at, number, from, to } in differences {
            let granule = changes.granule(*number).unwrap_or(&[0; GRANULE_BYTES]);
            tx.store(*at, &granule[*from..*to])?;
        }
        Ok(())
    }
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

/// Finds what of an extent differs from the changes, and from zeros where the file has grown over it.
fn compare_extent<T: Transact>(
    tx: &mut T,
    changes: &Changes,
    lens: Lens,
    index: usize,
    extent: u64,
    differences: &mut Vec<Difference>,
) -> Result<(), Abort> {
    const ZEROS: Granule = [0; GRANULE_BYTES];
    let first = index as u64 * GRANULES;
    let mut old = ZEROS;
    for number in first..first + GRANULES {
        let start = number * GRANULE_BYTES as u64;
        let used = lens.len.saturating_sub(start).min(GRANULE_BYTES as u64) as usize;
        if used == 0 {
            return Ok(());
        }
        let (granule, from) = match changes.granule(number) {
            Some(granule) => (granule, 0),
            // FILE-2: what becomes part of the file again is zero.
            None => (&ZEROS, lens.kept.saturating_sub(start).min(used as u64) as usize),
        };
        if from < used {
            let at = PoolOffset(extent + start % EXTENT_BYTES);
            tx.load(at.plus(from as u64), &mut old[from..used])?;
            runs_that_differ(&granule[from..used], &old[from..used], |begin, end| {
                differences.push(Difference {
                    at: at.plus((from + begin) as u64),
                    number,
                    from: from + begin,
                    to: from + end,
                });
            });
        }
    }
    Ok(())
}

/// Byte ranges, by whole words, in which two texts of one length differ.
fn runs_that_differ(new: &[u8], old: &[u8], mut found: impl FnMut(usize, usize)) {
    let words = new.chunks(8).zip(old.chunks(8));
    let mut run: Option<(usize, usize)> = None;
    for (word, (new, old)) in words.enumerate() {
        let differs = match (new.first_chunk::<8>(), old.first_chunk::<8>()) {
            (Some(new), Some(old)) => u64::from_ne_bytes(*new) != u64::from_ne_bytes(*old),
            _ => new != old,
        };
        if !differs {
            continue;
        }
        run = match run {
            Some((first, last)) if word - last <= GAP_WORDS_MAX + 1 => Some((first, word)),
            Some((first, last)) => {
                found(8 * first, 8 * last + 8);
                Some((word, word))
            }
            None => Some((word, word)),
        };
    }
    if let Some((first, last)) = run {
        found(8 * first, new.len().min(8 * last + 8));
    }
}

#[cfg(test)]
mod tests;
