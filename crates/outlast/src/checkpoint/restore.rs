//! Reading checkpoints: what they are of, their bytes, and a pool made of them.

use std::path::{Path, PathBuf};

use outlast_pmem::{Heap, PAGE_BYTES};
use outlast_trace::PoolOffset;
use uuid::Uuid;

use crate::checkpoint::catalog::Catalog;
use crate::checkpoint::error::CheckpointError;
use crate::checkpoint::format::{Page, SegmentHeader};
use crate::checkpoint::shelf::{Held, Place, Purpose, Shelf, Volume, with_suffix};
use crate::layout::HEADER_PAGE_BYTES;
use crate::pool::{Header, blank, is_of_a_pool};

type Result<T> = std::result::Result<T, CheckpointError>;

/// Where the checkpoints of a pool are if nothing else is said: beside it, its name with
/// `.checkpoint` appended.
pub fn checkpoint_path(pool: impl AsRef<Path>) -> PathBuf {
    with_suffix(pool.as_ref(), ".checkpoint")
}

/// Of what a checkpoint is, and of when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CheckpointInfo {
    /// Whose it is.
    pub pool: Uuid,
    /// Counts the checkpoints of this file, its predecessors included.
    pub number: u64,
    /// The pool's generation: how often it was opened for writing, modulo 4094.
    pub generation: u64,
    /// Numbers that commits had drawn in that generation.
    pub commits: u64,
    /// When it was made, in seconds since 1970 by the system's clock.
    pub taken_at: u64,
    /// Length of the pool in bytes.
    pub pool_bytes: u64,
    /// Pages that are stored and not replaced by newer ones.
    pub pages: u64,
    /// Segments of the file: checkpoints that it would have to be read back through.
    pub segments: u64,
    /// Length of the file in bytes.
    pub file_bytes: u64,
}

/// An open checkpoint file: the last whole checkpoint in it.
pub struct Checkpoint {
    reader: Reader<Place>,
}

impl Checkpoint {
    /// Opens a file and proves all of it but the pages.
    ///
    /// # Errors
    /// [`CheckpointError`]; nothing is ever stored.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let place = Place::new(path, Purpose::Checkpoint)?;
        let missing = || CheckpointError::Missing { path: path.to_owned() };
        let file = place.open_to_read()?.ok_or_else(missing)?;
        Ok(Self { reader: Reader::new(place, file)? })
    }

    /// Of what it is.
    pub fn info(&self) -> CheckpointInfo {
        self.reader.info()
    }

    /// The pool, as a medium's bytes. Every page is proven.
    ///
    /// # Errors
    /// [`CheckpointError::Damaged`] and what concerns reading.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.reader.to_bytes()
    }

    /// Puts the pool into a file, in place of the pool that is there, which is untouched until
    /// then. Mode and owner stay; a new file has those of the checkpoint.
    ///
    /// The file need not be the one that the checkpoint is of. A second pool has the first one's identity, its
    /// [UUID](CheckpointInfo::pool), and both can be open at the same time, each with its file. Their checkpoints belong into
    /// different files: in one file they would pass for those of one pool, and the last of either would be restored.
    ///
    /// # Errors
    /// [`CheckpointError`]; the file is as it was.
    pub fn restore_to(&self, pool: impl AsRef<Path>) -> Result<()> {
        let place = Place::new(pool.as_ref(), Purpose::Pool)?;
        let replaced = open_pool(&place)?;
        self.write_to(place, replaced.as_ref())
    }

    fn write_to(&self, place: Place, replaced: Option<&Held>) -> Result<()> {
        self.reader.write_to(&place.like(Some(&self.reader.file.file)), replaced)
    }
}

/// Puts a pool back as its last checkpoint has it. Without `from` the checkpoint is the one
/// [beside the file](checkpoint_path), and the file must say that it is of that pool; a file that
/// is missing or does not prove its header needs `from`. Mode and owner stay; a new file has those
/// of the checkpoint. It is the last checkpoint of that file: an earlier one cannot be restored from it.
/// [`Checkpoint::restore_to`] has the rules for a second pool of one checkpoint.
///
/// # Errors
/// [`CheckpointError`]; the file is as it was. What is no pool is not overwritten, and neither is
/// a file with hard links.
pub fn restore(pool: impl AsRef<Path>, from: Option<&Path>) -> Result<CheckpointInfo> {
    let pool = pool.as_ref();
    let place = Place::new(pool, Purpose::Pool)?;
    let replaced = open_pool(&place)?;
    let unknown = |why| CheckpointError::SourceUnknown { path: pool.to_owned(), why };
    let expected = match &replaced {
        None if from.is_none() => return Err(unknown("there is no such pool")),
        None => None,
        Some(held) => match uuid_of(held) {
            None if from.is_none() => return Err(unknown("its header does not prove itself")),
            found => found,
        },
    };
    let beside = checkpoint_path(pool);
    let from = from.unwrap_or(&beside);
    let checkpoint = Checkpoint::open(from)?;
    let info = checkpoint.info();
    if let Some(expected) = expected.filter(|expected| *expected != info.pool) {
        let path = from.to_owned();
        return Err(CheckpointError::OtherPool { path, found: info.pool, expected });
    }
    checkpoint.write_to(place, replaced.as_ref())?;
    Ok(info)
}

/// The pool at a place, damaged perhaps, for this caller alone. An empty file passes for one: it
/// has nothing to lose.
fn open_pool(place: &Place) -> Result<Option<Held>> {
    let Some(held) = place.open()? else { return Ok(None) };
    let reading = || CheckpointError::io(place.path(), "read");
    let mut page = [0; HEADER_PAGE_BYTES as usize];
    let len = held.len().map_err(reading())?;
    held.read_at(0, &mut page[..len.min(HEADER_PAGE_BYTES) as usize]).map_err(reading())?;
    if len > 0 && !is_of_a_pool(&page) {
        return Err(CheckpointError::NotAPool { path: place.path().to_owned() });
    }
    Ok(Some(held))
}

/// Which pool a file says it is, if its header proves itself.
fn uuid_of(file: &impl Volume) -> Option<Uuid> {
    let mut page = vec![0; HEADER_PAGE_BYTES as usize];
    file.read_at(0, &mut page).ok()?;
    Header::read(&Heap::from_bytes(&page)).ok().map(|header| header.uuid)
}

/// A checkpoint file, opened and read.
pub(super) struct Reader<S: Shelf> {
    shelf: S,
    file: S::File,
    catalog: Catalog,
    newest: SegmentHeader,
}

impl<S: Shelf> Reader<S> {
    pub fn new(shelf: S, file: S::File) -> Result<Self> {
        let catalog = Catalog::read(&shelf, &file, None)?;
        let incomplete = || CheckpointError::Incomplete { path: shelf.path().to_owned() };
        let newest = catalog.newest.ok_or_else(incomplete)?;
        Ok(Self { shelf, file, catalog, newest })
    }

    pub fn info(&self) -> CheckpointInfo {
        let SegmentHeader { pool, number, generation, commits, taken_at, pool_bytes, .. } =
            self.newest;
        CheckpointInfo {
            pool,
            number,
            generation,
            commits,
            taken_at,
            pool_bytes,
            pages: self.catalog.stored().len() as u64,
            segments: self.catalog.segments,
            file_bytes: self.catalog.len,
        }
    }

    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.for_each_page(|page| {
            bytes.extend_from_slice(page);
            Ok(())
        })?;
        Ok(bytes)
    }

    /// Every page of the pool, in order. Logs are in no checkpoint: lanes are as creation leaves them.
    fn for_each_page(&self, mut visit: impl FnMut(&Page) -> Result<()>) -> Result<()> {
        let mut page = [0; PAGE_BYTES as usize];
        self.catalog.load(&self.shelf, &self.file, 0, &mut page)?;
        let geometry = Header::read(&Heap::from_bytes(&page)).map(|header| header.geometry);
        for number in 0..self.newest.pool_bytes / PAGE_BYTES {
            self.catalog.load(&self.shelf, &self.file, number, &mut page)?;
            let at = PoolOffset(number * PAGE_BYTES);
            if let Ok(geometry) = &geometry
                && (HEADER_PAGE_BYTES..geometry.heap_at).contains(&at.0)
            {
                blank::fill(geometry, at, &mut page);
            }
            visit(&page)?;
        }
        Ok(())
    }

    /// Builds the pool in a file beside `target` and puts it in its place. Zeros are written too:
    /// a pool's file has all of its space, so that no store ever meets a full disk.
    fn write_to<T: Shelf>(&self, target: &T, replaced: Option<&T::File>) -> Result<()> {
        const BATCH_BYTES: usize = 1 << 20;
        let file = target.create()?;
        let built = || {
            let (mut at, mut batch) = (0, Vec::with_capacity(BATCH_BYTES));
            let mut write = |batch: &mut Vec<u8>| {
                let written = file.write_at(at, batch);
                at += batch.len() as u64;
                batch.clear();
                written.map_err(CheckpointError::io(target.path(), "write what replaces"))
            };
            self.for_each_page(|page| {
                batch.extend_from_slice(page);
                if batch.len() >= BATCH_BYTES { write(&mut batch) } else { Ok(()) }
            })?;
            write(&mut batch)?;
            file.sync().map_err(CheckpointError::io(target.path(), "make durable"))?;
            target.put_in_place(&file, replaced)
        };
        let result = built();
        if result.is_err() {
            target.discard(file);
        }
        result
    }
}
