//! Following the root of a database through raw memory.

use outlast::collections::ReadRaw;
use outlast::inspect::walk::{Coverage, Path, Root, Step, Visit, Walker};
use outlast::{PoolOffset, RootKind};

use crate::layout::{
    DIRECTORY, DIRECTORY_ENTRIES, EXTENT_BYTES, GRANULE_BYTES, HAS_SPILLED, LEN, MAGIC, PREPARED,
    ROOT_BYTES, SPILL_EXTENTS, SPILLED, TABLE_ENTRIES,
};

/// Follows the roots of pools that hold a database, for `RecoveredPool::check_by`.
pub static WALKER: &dyn Walker = &DatabaseRoots;

struct DatabaseRoots;

impl Walker for DatabaseRoots {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn describe(&self, root: Root, read: &mut dyn ReadRaw) -> Option<String> {
        let is_ours =
            root.kind == RootKind::Opaque && word_at(read, root.at).is_ok_and(|word| word == MAGIC);
        is_ours.then(|| match word_at(read, root.at.plus(LEN)) {
            Ok(len) => format!("a SQLite database of {len} bytes"),
            Err(_) => "a SQLite database".to_owned(),
        })
    }

    fn walk(&self, root: Root, read: &mut dyn ReadRaw, visit: &mut dyn Visit) -> Coverage {
        let path = Path::ROOT;
        if !visit.owned(root.at, ROOT_BYTES, &path) {
            return Coverage::Unknown;
        }
        let mut tour = Tour { read, visit };
        let names = ["extents", "prepared", "spilled"];
        let [extents, prepared, spilled] = names.map(|name| path.then(Step::Name(name)));
        let walked = [
            tour.extents(root.at, &extents),
            tour.prepared(root.at, &prepared),
            tour.spilled(root.at, &spilled),
        ];
        for at in walked.into_iter().filter_map(Result::err) {
            tour.visit.damaged(at, "a pointer out of the pool", &path);
        }
        Coverage::Whole
    }
}

/// The word at a place; `Err` with that place where the pool has none.
fn word_at(read: &mut dyn ReadRaw, at: PoolOffset) -> Result<u64, PoolOffset> {
    let mut word = [0; 8];
    read.read(at, &mut word).then(|| u64::from_le_bytes(word)).ok_or(at)
}

/// A walk under way. `Err` is a place out of the pool.
struct Tour<'t> {
    read: &'t mut dyn ReadRaw,
    visit: &'t mut dyn Visit,
}

impl Tour<'_> {
    fn word(&mut self, at: PoolOffset) -> Result<u64, PoolOffset> {
        word_at(self.read, at)
    }

    /// The tables, and the extents of the file.
    fn extents(&mut self, root: PoolOffset, path: &Path<'_>) -> Result<(), PoolOffset> {
        let directory = PoolOffset(self.word(root.plus(DIRECTORY))?);
        let entries = self.word(root.plus(DIRECTORY_ENTRIES))?;
        let of_directory = Path::ROOT;
        let of_directory = of_directory.then(Step::Name("directory"));
        if !self.visit.owned(directory, entries.saturating_mul(8), &of_directory) {
            return Ok(());
        }
        for number in 0..entries {
            let table = PoolOffset(self.word(directory.plus(8 * number))?);
            let of_table = of_directory.then(Step::Number(number.into()));
            if table.0 == 0 || !self.visit.owned(table, 8 * TABLE_ENTRIES as u64, &of_table) {
                continue;
            }
            for index in 0..TABLE_ENTRIES as u64 {
                let extent = PoolOffset(self.word(table.plus(8 * index))?);
                let number = number * TABLE_ENTRIES as u64 + index;
                if extent.0 != 0 {
                    self.visit.owned(extent, EXTENT_BYTES, &path.then(Step::Number(number.into())));
                }
            }
        }
        Ok(())
    }

    /// Changes that wait for a super-journal: a block, and one for each granule. Their extents are in the spilled lists.
    fn prepared(&mut self, root: PoolOffset, path: &Path<'_>) -> Result<(), PoolOffset> {
        let block = PoolOffset(self.word(root.plus(PREPARED))?);
        if block.0 == 0 {
            return Ok(());
        }
        let name_word = self.word(block)?;
        let name = (name_word & !HAS_SPILLED).checked_next_multiple_of(8).unwrap_or(u64::MAX);
        let granules = self.word(block.plus(24))?;
        let places = name.saturating_add(32);
        let mut bytes = places.saturating_add(granules.saturating_mul(16));
        if name_word & HAS_SPILLED != 0 && bytes < u64::MAX / 2 {
            let extents = self.word(block.plus(bytes))?;
            bytes = bytes.saturating_add(8).saturating_add(extents.saturating_mul(24));
        }
        if !self.visit.owned(block, bytes, path) {
            return Ok(());
        }
        for granule in 0..granules {
            let row = block.plus(places + 16 * granule);
            let (number, at) = (self.word(row)?, PoolOffset(self.word(row.plus(8))?));
            let path = path.then(Step::Number(number.into()));
            self.visit.owned(at, GRANULE_BYTES as u64, &path);
        }
        Ok(())
    }

    /// Lists of extents that a transaction has stored before its commit.
    fn spilled(&mut self, root: PoolOffset, path: &Path<'_>) -> Result<(), PoolOffset> {
        let mut list = PoolOffset(self.word(root.plus(SPILLED))?);
        while list.0 != 0 {
            let extents = self.word(list.plus(8))?;
            if extents > SPILL_EXTENTS as u64 {
                self.visit.damaged(list, "a list of spilled extents is too long", path);
                return Ok(());
            }
            if !self.visit.owned(list, 16 + 8 * extents, path) {
                return Ok(());
            }
            for index in 0..extents {
                let extent = PoolOffset(self.word(list.plus(16 + 8 * index))?);
                self.visit.owned(extent, EXTENT_BYTES, &path.then(Step::Number(index.into())));
            }
            list = PoolOffset(self.word(list)?);
        }
        Ok(())
    }
}
