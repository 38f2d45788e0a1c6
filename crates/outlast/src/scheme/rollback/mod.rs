//! The rollback journal of SQLite, kept in the pool: whole pages, one writer at a time.
//!
//! A transaction's stores wait in volatile memory. Its commit copies the pages that they change,
//! as they were, into a journal; a header says how many there are, and only then are the new pages
//! stored in place. While the header stands the journal is *hot*, and recovery copies the old
//! pages back; blanking its tag is the commit. The journal is in the lane's ring, behind the header in
//! its first line, or in regions of the heap where the ring is too small.
//!
//! * **ROLLBACK-1** The old pages are fenced before the header that counts them is stored.
//! * **ROLLBACK-2** The header is fenced before anything is stored in place.
//! * **ROLLBACK-3** The new pages, all of their lines, are fenced before the header's tag is blanked.
//! * **ROLLBACK-4** The blank tag is fenced before a lock is released or anything acknowledged: one
//!   word, the commit point.
//! * **ROLLBACK-5** One transaction writes at a time, from its first store, allocation or free to its end;
//!   others wait for it or begin anew. So no page has the words of two unfinished transactions,
//!   no two journals are hot, and what the heap changes without a log is in every image taken
//!   after it. Readers go on: they check versions of lines, as with other schemes.
//!
//! The root word is outside the heap, in a page with words of other protocols. Its page is its
//! line.

use std::sync::atomic::{AtomicU64, Ordering};

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LINE_BYTES, LineAddr, PoolOffset};

use crate::ack::Ticket;
use crate::io::Site;
use crate::layout::{PAGE_BYTES_MAX, ROOT_AT, TAG_AT};
use crate::log::{self, BLANK, Record, RecordKind, Region, lines_for};
use crate::plant::Plant;
use crate::pool::OpenOptions;
use crate::scheme::parts::Part;
use crate::scheme::{Discipline, Facts, Role};
use crate::seq::Seq;
use crate::spin::wait_longer;
use crate::transact::Abort;
use crate::tx::Tx;
use crate::tx::blocks::reserved_word;
use crate::tx::isolation::LOCK_PATIENCE;

/// Most words in one item of a journal, half of the largest page, so that every region has room
/// for one.
const ITEM_WORDS_MAX: usize = (PAGE_BYTES_MAX / 16) as usize;

pub(crate) struct Rollback;

/// State of the journal in a pool.
pub(crate) struct InPool {
    /// The lane, plus one, whose transaction writes.
    writer: AtomicU64,
    page_bytes: u64,
}

impl InPool {
    pub fn new(options: &OpenOptions) -> Self {
        let page_bytes = options.page_bytes.clamp(LINE_BYTES, PAGE_BYTES_MAX).next_power_of_two();
        Self { writer: AtomicU64::new(0), page_bytes }
    }
}

impl Discipline for Rollback {
    const FACTS: Facts = Facts {
        role: Role::Baseline,
        commits_at: &[Site::JournalEnd],
        has_one_writer: true,
        ..Facts::WRITE_SET
    };

    fn commit<M: Medium>(tx: &mut Tx<'_, M>) -> Result<Ticket, Abort> {
        let io = tx.io();
        let pages = tx.modified_pages();
        let parts = tx.reserve_journal(&pages)?;
        tx.lock_write_set()?;
        let number = tx.draw_number()?;
        let seq = tx.pool.seq(number);
        tx.gather_pages(&pages);

        if io.plants(Plant::JournalHeaderFirst) {
            tx.write_journal_header(&parts, seq);
        }
        tx.write_journal(&parts, seq);
        tx.fence_or_fail(Site::JournalPages)?; // ROLLBACK-1
        if !io.plants(Plant::JournalHeaderFirst) {
            tx.write_journal_header(&parts, seq);
        }
        if io.plants(Plant::EarlyRelease) {
            tx.release_locks(Some(number));
        }
        if io.plants(Plant::InstallBeforeFence) {
            tx.install_pages(&pages);
        }
        tx.fence_or_fail(Site::JournalHeader)?; // ROLLBACK-2
        if io.plants(Plant::JournalEndedEarly) {
            let _ = tx.end_journal();
        }
        tx.install_pages(&pages);
        pages.iter().for_each(|page| io.flush(Site::JournalData, page.at, page.len));
        io.fence(Site::JournalData); // ROLLBACK-3
        if let Err(abort) = tx.end_journal() {
            // The old pages are the payload still.
            tx.lane.buffers.undo.stored = true;
            return Err(abort);
        } // ROLLBACK-4
        tx.release_locks(Some(number));
        tx.end_blocks();
        Ok(Ticket::of(seq))
    }

    /// ROLLBACK-5: takes the right to write, unless this transaction has it.
    fn begin_writing<M: Medium>(tx: &Tx<'_, M>) -> Result<(), Abort> {
        if tx.is_alone() || tx.io().plants(Plant::TwoWriters) {
            return Ok(());
        }
        let me = tx.lane.id as u64 + 1;
        let held = &tx.pool.rollback.writer;
        let mut tries = 0;
        loop {
            let writer = held.load(Ordering::Acquire);
            let taken = || {
                let order = (Ordering::AcqRel, Ordering::Relaxed);
                held.compare_exchange(0, me, order.0, order.1).is_ok()
            };
            if writer == me || writer == 0 && taken() {
                return Ok(());
            }
            if tries >= LOCK_PATIENCE {
                return Err(Abort::Conflict);
            }
            wait_longer(&tx.pool.medium, &mut tries);
        }
    }

    /// Gives that right back.
    fn end_writing<M: Medium>(tx: &Tx<'_, M>) {
        let me = tx.lane.id as u64 + 1;
        if tx.pool.rollback.writer.load(Ordering::Relaxed) == me {
            tx.pool.rollback.writer.store(0, Ordering::Release);
        }
    }
}

impl<M: Medium> Tx<'_, M> {
    /// The pages that the commit will change, in order.
    fn modified_pages(&self) -> Vec<ByteRange> {
        let blocks = self.taken().chain(self.given_back()).map(|b| reserved_word(b).line());
        let blocks = blocks.filter(|_| !self.io().plants(Plant::AllocationNotLogged));
        let stored = self.lane.buffers.lines.entries().iter().map(|entry| entry.line);
        let mut pages: Vec<ByteRange> =
            stored.chain(blocks).map(|line| self.page_of(line)).collect();
        pages.sort_unstable_by_key(place);
        pages.dedup();
        pages
    }

    /// Finds room for the journal. The heap changes only here: images are taken afterwards.
    fn reserve_journal(&mut self, pages: &[ByteRange]) -> Result<Vec<Part>, Abort> {
        // The same payload as later, for its size.
        self.gather_pages(pages);
        let ring = self.ring();
        // Behind the header; what does not fit there goes elsewhere as a whole.
        let behind = Region { at: ring.line(1), lines: ring.lines - 1, ..ring };
        let words = self.lane.buffers.payload.as_words().len();
        let more = |tx: &mut Tx<'_, M>, lines| tx.reserve_journal_region(lines);
        if lines_for(words) < behind.lines {
            return self.place_parts(behind, 0, 1, more);
        }
        let first = self.reserve_journal_region(lines_for(words) + 1)?;
        self.place_parts(first, 0, 1, more)
    }

    /// A stretch of the heap. The header names it with its number, so old bytes cannot pass for a
    /// page, and it needs no scrubbing.
    fn reserve_journal_region(&mut self, lines: u64) -> Result<Region, Abort> {
        self.reserve_log_region_by(lines, |heap, io, settle| {
            heap.reserve_unscrubbed(io, lines, settle)
        })
    }

    /// The pages as they are in place now.
    fn gather_pages(&mut self, pages: &[ByteRange]) {
        let buffers = &mut self.lane.buffers;
        buffers.payload.clear();
        for page in pages {
            for at in (0..page.len).step_by(ITEM_WORDS_MAX * 8) {
                let words = ITEM_WORDS_MAX.min(page.len as usize / 8);
                let words = buffers.payload.words(page.at.plus(at), words);
                self.pool.medium.load(page.at.plus(at), bytemuck::cast_slice_mut(words));
            }
        }
    }

    fn write_journal(&self, parts: &[Part], seq: Seq) {
        let io = self.io();
        let payload = self.lane.buffers.payload.as_words();
        let site = Site::JournalPages;
        for part in parts {
            let mut line = part.line;
            if !part.words.is_empty() {
                let record = Record::new(RecordKind::Pages, seq, &payload[part.words.clone()]);
                line += log::append(io, site, part.region, line, record);
            }
            if let Some(next) = part.next {
                let named = [next.at.0, next.lines];
                let record = Record::new(RecordKind::Continued, seq, &named);
                log::append(io, site, part.region, line, record);
            }
        }
    }

    fn write_journal_header(&self, parts: &[Part], seq: Seq) {
        let records = parts.iter().filter(|part| !part.words.is_empty()).count() as u64;
        let Region { at, lines, .. } = parts[0].region;
        let header = [records, at.0, lines];
        let record = Record::new(RecordKind::Journal, seq, &header);
        log::append(self.io(), Site::JournalHeader, self.ring(), 0, record);
    }

    /// ROLLBACK-4. Under a blank tag there is no header. Where the medium tears lines, the line is made blank
    /// for the next one (LOG-10); without any of its words it is no header either.
    fn end_journal(&self) -> Result<(), Abort> {
        let at = self.ring().at.plus(TAG_AT);
        self.io().medium.store_u64(at, BLANK);
        if self.pool.medium.is_paged() {
            let line = self.ring().at;
            (0..TAG_AT)
                .step_by(8)
                .for_each(|word| self.pool.medium.store_u64(line.plus(word), BLANK));
        }
        self.io().flush(Site::JournalEnd, at, 8);
        self.fence_or_fail(Site::JournalEnd)
    }

    /// Stores the new pages in place, whole. No other lane changes anything in them (ROLLBACK-5).
    fn install_pages(&self, pages: &[ByteRange]) {
        let medium = &self.pool.medium;
        let mut content = vec![0u64; self.pool.rollback.page_bytes as usize / 8];
        for page in pages {
            let content = &mut content[..page.len as usize / 8];
            medium.load(page.at, bytemuck::cast_slice_mut(content));
            for (line, content) in page.lines().zip(content.as_chunks_mut::<8>().0) {
                self.overlay(line, content);
            }
            medium.store(page.at, bytemuck::cast_slice(content));
        }
        self.store_allocations();
    }

    /// The write set's content of a line.
    fn overlay(&self, line: LineAddr, content: &mut [u64; 8]) {
        let buffers = &self.lane.buffers;
        let Some(index) = buffers.lines.find(line) else { return };
        for word in (0..8).filter(|word| buffers.lines.entries()[index].words >> word & 1 == 1) {
            content[word] = buffers.contents[index][word];
        }
    }

    /// The page that a line is in.
    fn page_of(&self, line: LineAddr) -> ByteRange {
        if line == ROOT_AT.line() {
            return ByteRange::new(ROOT_AT, LINE_BYTES);
        }
        let bytes = self.pool.rollback.page_bytes;
        ByteRange::new(PoolOffset(line.start().0 / bytes * bytes), bytes)
    }
}

fn place(page: &ByteRange) -> PoolOffset {
    page.at
}
