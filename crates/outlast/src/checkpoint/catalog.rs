//! The content of a checkpoint file: its whole segments, and of each page the newest copy.

use rustc_hash::FxHashMap;
use uuid::Uuid;

use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::format::{
    Found, Page, SECTOR_BYTES, Sector, SegmentHeader, is_proven, table_from_bytes, trailer_found,
};
use crate::checkpoint::shelf::{Shelf, Volume};
use outlast_pmem::PAGE_BYTES;

type Result<T> = std::result::Result<T, CheckpointError>;

/// A page's newest copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stored {
    /// Where in the file; `None` for a page of zeros.
    pub at: Option<u64>,
    pub crc: u32,
}

/// The newest copies. What is not named is zero.
#[derive(Default)]
pub(super) struct Catalog {
    /// The last whole segment.
    pub newest: Option<SegmentHeader>,
    /// Whole segments.
    pub segments: u64,
    /// Where the next segment goes.
    pub end: u64,
    /// Bytes of the file. Those behind `end` are what a crash has left of a segment.
    pub len: u64,
    pages: FxHashMap<u64, Stored>,
}

impl Catalog {
    /// Reads headers, tables and trailers, and proves them. With `pool`, a file of another pool
    /// is refused.
    pub fn read<S: Shelf>(shelf: &S, file: &S::File, pool: Option<Uuid>) -> Result<Self> {
        let reader = Reader { shelf, file, len: file.len().map_err(reading(shelf))? };
        reader.expect_a_checkpoint()?;
        let mut catalog = Self { len: reader.len, ..Self::default() };
        while let Some((header, table)) = reader.segment(catalog.end, catalog.newest.as_ref())? {
            let expected = catalog.newest.map(|newest| newest.pool).or(pool);
            if let Some(expected) = expected.filter(|expected| *expected != header.pool) {
                let path = shelf.path().to_owned();
                return Err(CheckpointError::OtherPool { path, found: header.pool, expected });
            }
            catalog.add(header, &table);
        }
        Ok(catalog)
    }

    fn add(&mut self, header: SegmentHeader, table: &[u8]) {
        self.pages.retain(|page, _| *page < header.kept_pages);
        for (slot, entry) in (0..).zip(table_from_bytes(&header, table)) {
            let at = SegmentHeader::page_at(self.end, slot);
            let stored = Stored { at: (!entry.is_zero).then_some(at), crc: entry.crc };
            self.pages.insert(entry.page, stored);
        }
        self.end = header.end_at(self.end);
        self.segments += 1;
        self.newest = Some(header);
    }

    /// The newest copy of a page; `None` where none was ever needed, and it is zero.
    pub fn page(&self, page: u64) -> Option<Stored> {
        self.pages.get(&page).copied()
    }

    /// Pages that are stored, ascending, and where.
    pub fn stored(&self) -> Vec<(u64, u64)> {
        let stored = self.pages.iter().filter_map(|(page, stored)| Some((*page, stored.at?)));
        let mut pages: Vec<(u64, u64)> = stored.collect();
        pages.sort_unstable();
        pages
    }

    /// Bytes of the pages that count.
    pub fn live_bytes(&self) -> u64 {
        self.pages.values().filter(|stored| stored.at.is_some()).count() as u64 * PAGE_BYTES
    }

    /// Copies a page, and proves it.
    pub fn load<S: Shelf>(
        &self,
        shelf: &S,
        file: &S::File,
        page: u64,
        out: &mut Page,
    ) -> Result<()> {
        match self.page(page) {
            Some(Stored { at: Some(at), crc }) => {
                file.read_at(at, out).map_err(reading(shelf))?;
                if crc32c::crc32c(out) == crc {
                    Ok(())
                } else {
                    Err(damaged(shelf, at, "a page fails its CRC"))
                }
            }
            _ => {
                out.fill(0);
                Ok(())
            }
        }
    }
}

fn reading<S: Shelf>(shelf: &S) -> impl FnOnce(std::io::Error) -> CheckpointError {
    CheckpointError::io(shelf.path(), "read")
}

fn damaged<S: Shelf>(shelf: &S, at: u64, what: &'static str) -> CheckpointError {
    CheckpointError::Damaged { path: shelf.path().to_owned(), at, what }
}

struct Reader<'a, S: Shelf> {
    shelf: &'a S,
    file: &'a S::File,
    len: u64,
}

impl<S: Shelf> Reader<'_, S> {
    /// Refuses other files. A file of checkpoints has its first bytes before it has its name.
    fn expect_a_checkpoint(&self) -> Result<()> {
        let mut start = [0; 8];
        let start = &mut start[..self.len.min(8) as usize];
        self.file.read_at(0, start).map_err(reading(self.shelf))?;
        if SegmentHeader::begins_like_one(start) {
            return Ok(());
        }
        Err(CheckpointError::NotACheckpoint { path: self.shelf.path().to_owned() })
    }

    /// The sector at `at`; zeros where the file ends before.
    fn sector(&self, at: u64) -> Result<Sector> {
        let mut sector = [0; SECTOR_BYTES as usize];
        if at.checked_add(SECTOR_BYTES).is_some_and(|end| end <= self.len) {
            self.file.read_at(at, &mut sector).map_err(reading(self.shelf))?;
        }
        Ok(sector)
    }

    /// The segment at `at`, if it is whole. `None` where a crash cut it short, or none begins (CHECKPOINT-3).
    fn segment(
        &self,
        at: u64,
        previous: Option<&SegmentHeader>,
    ) -> Result<Option<(SegmentHeader, Vec<u8>)>> {
        let damaged = |at, what| Err(damaged(self.shelf, at, what));
        let sector = self.sector(at)?;
        let header = match SegmentHeader::from_sector(&sector) {
            Found::Nothing => return Ok(None),
            Found::Whole(header) => header,
            Found::Version(found) => {
                let (path, expected) = (self.shelf.path().to_owned(), super::CHECKPOINT_VERSION);
                return Err(CheckpointError::Version { path, found, expected });
            }
            Found::Damaged => return damaged(at, "the header of a segment fails its CRC"),
        };
        // CHECKPOINT-4.
        let follows = match previous {
            None => header.previous.is_nil(),
            Some(previous) => {
                header.previous == previous.id && header.number == previous.number + 1
            }
        };
        if !follows {
            return damaged(at, "a segment does not continue the one before it");
        }
        let trailer_at = header.trailer_at(at);
        let crc = match trailer_found(&self.sector(trailer_at)?, header.id) {
            Found::Nothing => return Ok(None),
            Found::Whole(crc) => crc,
            _ => return damaged(trailer_at, "the trailer of a segment fails its CRC"),
        };
        let mut table = vec![0; header.table_bytes() as usize];
        let table_at = header.table_at(at);
        self.file.read_at(table_at, &mut table).map_err(reading(self.shelf))?;
        if !is_proven(crc, &sector, &table) {
            return damaged(table_at, "the table of a segment fails its CRC");
        }
        Ok(Some((header, table)))
    }
}
