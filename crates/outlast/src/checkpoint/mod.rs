//! Checkpoints: a copy of the pool in a file of its own, made while transactions run.
//!
//! ```
//! use outlast::checkpoint::{checkpoint_path, restore};
//! use outlast::{Pool, typed::PVec};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("numbers.pool");
//! let pool = Pool::open_or_create(&path)?;
//! let push = |number| {
//!     pool.run_typed(|tx| tx.root_or_new::<PVec<'_, u64>>()?.get(tx)?.push(tx, number))
//! };
//! push(1)?;
//! pool.checkpoint(checkpoint_path(&path))?; // other threads go on meanwhile
//! push(2)?;
//! drop(pool);
//!
//! restore(&path, None)?; // from the checkpoint beside it
//! let pool = Pool::open(&path)?;
//! let numbers = pool.run_typed(|tx| tx.root_or_new::<PVec<'_, u64>>()?.get(tx)?.to_vec(tx))?;
//! assert_eq!(numbers, [1]);
//! # Ok(())
//! # }
//! ```
//!
//! - The process that has the pool open makes its checkpoints; `outlast pool checkpoint` makes one of a pool that no
//!   process has open. A reader in another process cannot make one.
//! - A file holds one state to go back to, its last checkpoint: earlier ones in it are parts of that one. A program that wants to
//!   go back further makes its checkpoints in several files in turn, or copies the file.
//! - [`restore`] replaces a closed pool. With `from`, and another name for the pool, it makes a second pool of the checkpoint, as
//!   [`Checkpoint::restore_to`] does: see there about two pools of one checkpoint.
//!
//! # How
//!
//! A checkpoint has the pool at one moment, its *cut*, with an empty log: every
//! transaction acknowledged before the checkpoint was asked for, none that began after it was
//! made, and of those in between each wholly or not at all. Each one writes only what has changed
//! since the one before. The way is that of a virtual machine that moves house:
//!
//! 1. copy what has changed, while transactions run; what they change meanwhile is marked again;
//! 2. again, as long as there is less and less of it;
//! 3. close the gate, wait for the transactions under way, copy what is left into
//!    memory, open it again;
//! 4. write the rest and make all of it durable (`format`).
//!
//! * **CHECKPOINT-1** A transaction marks the pages that it stored to after its stores and before it leaves
//!   the gate; reserving marks the words of chunks that it stores to without a log. So with the
//!   gate closed every page that differs from its copy is marked.
//! * **CHECKPOINT-2** A page's mark is cleared before the page is copied, with a fence on both sides
//!   (`changes`). A page that was copied torn is therefore marked again.
//! * **CHECKPOINT-5** With the gate closed everything that is committed stands in place, under every scheme,
//!   and nothing else does. So logs are left out, tails and floors of lanes too: a lane of zeros
//!   is an empty one. The pool's floor passes every number drawn.
//!
//! Checksums, where the pool keeps some, are changed outside of transactions, by the thread that looks after
//! the history; the cut brings them up to date first, and what they take in of a new block is
//! marked whole.
//!
//! Not marked, and of no account, is what nothing leads to: records in regions of the heap that
//! the directory calls free, and what blocks held before they were allocated.
//!
//! Marks are volatile. The first checkpoint after an opening, or into another file, compares every
//! page with the file's copy, byte by byte.

mod catalog;
mod changes;
mod error;
mod format;
mod restore;
mod shelf;
mod writer;

// Whole pools, at every byte: days of it under Miri.
#[cfg(all(test, not(miri)))]
mod tests;

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use outlast_pmem::{Medium, PAGE_BYTES};
use outlast_trace::PoolOffset;
use uuid::Uuid;

pub use error::CheckpointError;
pub use format::CHECKPOINT_VERSION;
pub use restore::{Checkpoint, CheckpointInfo, checkpoint_path, restore};

use crate::ack::Ticket;
use crate::events::event;
use crate::layout::{FLOOR_AT, HEADER_PAGE_BYTES};
use crate::plant::Plant;
use crate::pool::Pool;
use crate::sealed::seal_at;
use crate::seq::Seq;
use crate::writeback;
use catalog::{Catalog, Stored};
use changes::Changes;
use format::{Page, SegmentHeader};
use shelf::{Place, Purpose, Shelf, Volume};
use writer::SegmentWriter;

type Result<T> = std::result::Result<T, CheckpointError>;

const _: () = assert!(HEADER_PAGE_BYTES == PAGE_BYTES);

/// So few changed pages are copied with the gate closed: less than a tenth of a millisecond.
const PAGES_LEFT: usize = 64;

/// Dead bytes that a file may have before it is written anew, beside as many as live ones.
const DEAD_BYTES: u64 = 64 << 10;

/// The volatile state of a running pool's checkpoints.
pub(crate) struct Checkpointer {
    pub changes: Changes,
    /// The segment since which changes are marked. Held while a checkpoint is made.
    since: Mutex<Option<Uuid>>,
}

impl Checkpointer {
    pub fn new() -> Self {
        Self { changes: Changes::new(), since: Mutex::new(None) }
    }
}

/// The report of a checkpoint.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// Counts the checkpoints of the file, its predecessors included.
    pub number: u64,
    /// Every commit with this ticket or an older one is in the checkpoint, and no other.
    pub last: Ticket,
    /// Pages looked at because no mark told whether they had changed; zero when marks told.
    pub pages_compared: u64,
    /// Pages copied while transactions ran, those copied twice counted twice.
    pub pages_concurrent: u64,
    /// Pages copied in the pause.
    pub pages_paused: u64,
    /// Pages that the checkpoint has written.
    pub pages_written: u64,
    /// Bytes by which the file has grown.
    pub bytes_written: u64,
    /// Bytes of the file.
    pub file_bytes: u64,
    /// Rounds of copying while transactions ran.
    pub rounds: u32,
    /// From the closing of the gate until no lane was inside.
    pub waited: Duration,
    /// From the closing of the gate to its opening: so long no transaction began.
    pub pause: Duration,
    /// The whole call.
    pub took: Duration,
    /// The file was written anew, without what newer checkpoints had replaced.
    pub compacted: bool,
}

impl<M: Medium> Pool<M> {
    /// Makes a checkpoint in the file `target`, after those that it holds of this pool, or in a new
    /// file, which gets mode and owner of the pool's. Other lanes may run transactions meanwhile; they wait for a moment at its end, until
    /// those under way are over. When this returns, the checkpoint is durable. A crash, or an
    /// error, leaves the former one.
    ///
    /// Under `none` too this is the pool at one moment.
    ///
    /// # Errors
    /// [`CheckpointError`]: the file is another pool's, no checkpoint, damaged, in use, has hard
    /// links, or cannot be written; or this thread has a transaction open.
    ///
    /// # Example
    /// ```
    /// use outlast::checkpoint::{Checkpoint, checkpoint_path, restore};
    /// use outlast::{BlockKind, Pool, Runner, Transact};
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("pool");
    /// let pool = Pool::create(&path)?;
    /// let mut lane = pool.lane()?;
    /// let block = lane.run(|tx| tx.alloc(64, BlockKind::General))?;
    /// lane.run(|tx| tx.store_u64(block, 1))?;
    /// let target = checkpoint_path(&path);
    /// pool.checkpoint(&target)?;
    /// lane.run(|tx| tx.store_u64(block, 2))?;
    /// drop(lane);
    /// drop(pool);
    ///
    /// restore(&path, None)?;
    /// let pool = Pool::open(&path)?;
    /// assert_eq!(pool.lane()?.run(|tx| tx.load_u64(block))?, 1);
    /// # Ok(())
    /// # }
    /// ```
    pub fn checkpoint(&self, target: impl AsRef<Path>) -> Result<CheckpointReport> {
        if self.medium.is_forked() {
            return Err(CheckpointError::Forked);
        }
        self.refuse_failed()?;
        let file = self.medium.file();
        if let Some(found) = file.and_then(|file| Some(file.metadata().ok()?.len()))
            && found < self.medium.len()
        {
            return Err(CheckpointError::Truncated { mapped: self.medium.len(), found });
        }
        self.checkpoint_on(&Place::new(target.as_ref(), Purpose::Checkpoint)?.like(file))
    }

    fn checkpoint_on<S: Shelf>(&self, shelf: &S) -> Result<CheckpointReport> {
        let started = Instant::now();
        if self.gate.is_inside() {
            return Err(CheckpointError::InTransaction);
        }
        let checkpointer = &self.checkpointer;
        let mut since = checkpointer.since.lock().unwrap_or_else(PoisonError::into_inner);
        let marked_since = since.take();
        let Target { file, catalog, is_new } = self.open_target(shelf)?;
        if !checkpointer.changes.is_on() {
            let _closed = self.gate.close(&self.medium);
            checkpointer.changes.switch_on();
        }
        let newest = catalog.newest.map(|newest| newest.id);
        let all = newest.is_none() || newest != marked_since;
        let made = Making::new(self, shelf, &file, &catalog).make(all).and_then(|made| {
            if is_new {
                shelf.put_in_place(&file, None)?;
            }
            Ok(made)
        });
        let (mut report, header) = match made {
            Ok(made) => made,
            Err(error) => {
                if is_new {
                    shelf.discard(file);
                }
                return Err(error);
            }
        };
        *since = Some(header.id);
        match compact(shelf, &file) {
            Ok(Some((id, bytes))) => {
                *since = Some(id);
                (report.file_bytes, report.compacted) = (bytes, true);
            }
            // The next checkpoint compares, and replaces what is damaged.
            Err(error) if error.is_damage() => {
                *since = None;
                return Err(error);
            }
            // A file that could not be written anew now will be after the next checkpoint.
            Ok(None) | Err(_) => {}
        }
        report.took = started.elapsed();
        event!(
            INFO,
            "checkpoint",
            number = report.number,
            pages = report.pages_written,
            micros = report.took.as_micros() as u64,
        );
        Ok(report)
    }

    /// The file that the checkpoint goes to.
    fn open_target<S: Shelf>(&self, shelf: &S) -> Result<Target<S>> {
        let Some(file) = shelf.open()? else {
            return Ok(Target { file: shelf.create()?, catalog: Catalog::default(), is_new: true });
        };
        let catalog = Catalog::read(shelf, &file, Some(self.header().uuid))?;
        if catalog.newest.is_none() {
            // A file is whole when it gets its name, so this is none of ours, or cut off.
            return Err(CheckpointError::Incomplete { path: shelf.path().to_owned() });
        }
        if catalog.len > catalog.end {
            // Durable before anything is written there, or old bytes could shine through.
            let cut = file.truncate(catalog.end).and_then(|()| file.sync());
            cut.map_err(CheckpointError::io(shelf.path(), "cut off the unfinished end of"))?;
        }
        Ok(Target { file, catalog, is_new: false })
    }

    /// Of a medium that has failed no checkpoint is made: it may show what no recovery will.
    fn refuse_failed(&self) -> Result<()> {
        self.failure().map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Pages of the pool: the heap's last is the last.
    fn pages(&self) -> u64 {
        let chunks = self.heap.lock(&self.medium).chunk_count();
        self.header().geometry.chunk_at(chunks).0 / PAGE_BYTES
    }

    fn load_page(&self, page: u64) -> Page {
        let mut bytes = [0; PAGE_BYTES as usize];
        self.medium.load(PoolOffset(page * PAGE_BYTES), &mut bytes);
        bytes
    }
}

/// Where a checkpoint goes: a file, what it holds, and whether it is a new one that has yet to be
/// put in its place.
struct Target<S: Shelf> {
    file: S::File,
    catalog: Catalog,
    is_new: bool,
}

/// The copy made with the gate closed.
struct Cut {
    pages: Vec<(u64, Page)>,
    pool_bytes: u64,
    last: Seq,
    waited: Duration,
    pause: Duration,
}

/// A checkpoint under way.
struct Making<'a, M: Medium, S: Shelf> {
    pool: &'a Pool<M>,
    shelf: &'a S,
    file: &'a S::File,
    catalog: &'a Catalog,
    writer: SegmentWriter<'a, S>,
    /// Pages of the pool at the start: older copies of later ones count no more.
    kept_pages: u64,
    compared: u64,
    concurrent: u64,
    rounds: u32,
}

impl<'a, M: Medium, S: Shelf> Making<'a, M, S> {
    fn new(pool: &'a Pool<M>, shelf: &'a S, file: &'a S::File, catalog: &'a Catalog) -> Self {
        let writer = SegmentWriter::new(shelf, file, catalog.end);
        let kept_pages = pool.pages();
        Self {
            pool,
            shelf,
            file,
            catalog,
            writer,
            kept_pages,
            compared: 0,
            concurrent: 0,
            rounds: 0,
        }
    }

    /// `all`: marks do not tell what has changed since the file's last checkpoint.
    fn make(mut self, all: bool) -> Result<(CheckpointReport, SegmentHeader)> {
        let changes = &self.pool.checkpointer.changes;
        let mut marked = changes.take();
        if all {
            self.copy_differing()?;
            marked = changes.take();
        }
        loop {
            self.copy(&marked)?;
            writeback::bring_sums_up(self.pool);
            let before = marked.len();
            let now = changes.count();
            if now <= PAGES_LEFT || now > before / 4 * 3 {
                break;
            }
            marked = changes.take();
        }
        let cut = self.cut();
        for (page, bytes) in &cut.pages {
            self.writer.put(*page, bytes)?;
        }
        // Before the trailer, with which the segment counts.
        self.pool.refuse_failed()?;
        let previous = self.catalog.newest;
        let taken_at = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let (header, end) = self.writer.finish(SegmentHeader {
            pool: self.pool.header().uuid,
            id: Uuid::new_v4(),
            previous: previous.map_or(Uuid::nil(), |previous| previous.id),
            number: previous.map_or(1, |previous| previous.number + 1),
            pool_bytes: cut.pool_bytes,
            kept_pages: self.kept_pages,
            generation: cut.last.generation(),
            commits: cut.last.counter(),
            taken_at: taken_at.map_or(0, |since| since.as_secs()),
            ..SegmentHeader::default()
        })?;
        let report = CheckpointReport {
            number: header.number,
            last: Ticket::of(cut.last),
            pages_compared: self.compared,
            pages_concurrent: self.concurrent,
            pages_paused: cut.pages.len() as u64,
            pages_written: header.stored + header.zero,
            bytes_written: end - self.catalog.end,
            file_bytes: end,
            rounds: self.rounds,
            waited: cut.waited,
            pause: cut.pause,
            took: Duration::ZERO,
            compacted: false,
        };
        Ok((report, header))
    }

    /// Copies every page of the heap that is not as the file has it.
    fn copy_differing(&mut self) -> Result<()> {
        self.rounds += 1;
        let first = self.pool.header().geometry.heap_at / PAGE_BYTES;
        for page in first..self.kept_pages {
            let bytes = self.pool.load_page(page);
            self.compared += 1;
            if !self.is_stored(page, &bytes)? {
                self.concurrent += 1;
                self.writer.put(page, &bytes)?;
            }
        }
        Ok(())
    }

    /// Whether the file's newest copy of a page is this. A CRC that fits is no proof of it; and a
    /// copy that is damaged is not this.
    fn is_stored(&self, page: u64, bytes: &Page) -> Result<bool> {
        match self.catalog.page(page) {
            Some(Stored { at: Some(at), crc }) if crc == crc32c::crc32c(bytes) => {
                let mut stored = [0; PAGE_BYTES as usize];
                let read = self.file.read_at(at, &mut stored);
                read.map_err(CheckpointError::io(self.shelf.path(), "read"))?;
                Ok(stored == *bytes)
            }
            Some(Stored { at: Some(_), .. }) => Ok(false),
            _ => Ok(format::is_zero(bytes)),
        }
    }

    fn copy(&mut self, pages: &[u64]) -> Result<()> {
        self.rounds += u32::from(!pages.is_empty());
        // The header page is the cut's.
        for &page in pages.iter().filter(|page| **page != 0) {
            self.concurrent += 1;
            self.writer.put(page, &self.pool.load_page(page))?;
        }
        Ok(())
    }

    /// CHECKPOINT-5: what is left, with no transaction under way.
    fn cut(&self) -> Cut {
        let pool = self.pool;
        let started = Instant::now();
        let closed =
            (!pool.io().plants(Plant::PauseLeftOut)).then(|| pool.gate.close(&pool.medium));
        let waited = started.elapsed();
        writeback::bring_sums_up(pool);
        let marked = pool.checkpointer.changes.take();
        let mut pages = Vec::with_capacity(marked.len() + 1);
        pages.extend(marked.into_iter().filter(|page| *page != 0).map(|p| (p, pool.load_page(p))));
        let newest = pool.newest();
        // NUMBER-2: what is not in it has a greater number.
        pool.raise_clock(newest);
        let last = pool.seq(newest.min(Seq::COUNTER_MAX));
        // Growth waits for the heap's lock, and no transaction is needed for it.
        let heap = pool.heap.lock(&pool.medium);
        let mut first = pool.load_page(0);
        let len = pool.medium.len();
        drop(heap);
        let floor = seal_at(last.next().unwrap_or(last).bits(), FLOOR_AT).to_le_bytes();
        first[FLOOR_AT.0 as usize..][..8].copy_from_slice(&floor);
        pages.push((0, first));
        drop(closed);
        let pool_bytes = len / PAGE_BYTES * PAGE_BYTES;
        Cut { pages, pool_bytes, last, waited, pause: started.elapsed() }
    }
}

/// Writes the file anew when more than half of it is dead: one segment, with the newest copy of
/// each page. Returns that segment and the file's new length.
fn compact<S: Shelf>(shelf: &S, file: &S::File) -> Result<Option<(Uuid, u64)>> {
    let catalog = Catalog::read(shelf, file, None)?;
    let Some(newest) = catalog.newest else { return Ok(None) };
    if catalog.len <= 2 * catalog.live_bytes() + DEAD_BYTES {
        return Ok(None);
    }
    let new = shelf.create()?;
    let written = || {
        let mut writer = SegmentWriter::new(shelf, &new, 0);
        let mut bytes = [0; PAGE_BYTES as usize];
        for (page, _) in catalog.stored() {
            catalog.load(shelf, file, page, &mut bytes)?;
            writer.put(page, &bytes)?;
        }
        let header = SegmentHeader { id: Uuid::new_v4(), previous: Uuid::nil(), ..newest };
        let (header, end) = writer.finish(header)?;
        shelf.put_in_place(&new, Some(file))?;
        Ok((header.id, end))
    };
    let result = written();
    if result.is_err() {
        shelf.discard(new);
    }
    result.map(Some)
}
