//! Checkpoints by redo copies: an epoch's lines and pages are written beside their homes, one record
//! commits them all, and then they are copied home ("PiCL: a software-transparent, persistent cache
//! log", section II-B: Journaling, Shadow-Paging and ThyNVM).
//!
//! Each step begins when the one before it is durable. Plants and tests cite the numbers.
//!
//! - **R1** The copies have the epoch's last bytes. The scheme sees to that: it flushes the caches.
//! - **R2** The directory says what each copy is of.
//! - **R3** The record has the epoch's number and the number of its entries. *The commit point.*
//! - **R4** Every copy is in its home.
//! - **R5** The record has the epoch's number and no entries.
//! - **R6** Copies and directory may be written anew.
//!
//! Recovery does R4 and R5 where the record has entries, and nothing where it has none.
//!
//! `ports` has what surrounds these steps: the stop, the flush, writes and reads on their way. A scheme
//! adds its tables ([`Places`]) and is put under work by [`Under`].

mod layout;
mod ports;
mod recover;
mod spill;
#[cfg(test)]
pub(crate) mod testing;
mod under;

use outlast_sim::timed::{Block, Copied, Outbox, SchemeWrite};
use outlast_sim::{Cause, LineBytes};

use layout::{Commit, Grain, WORDS};
pub(crate) use layout::{Entry, Layout, PAGE_LINES};
pub(crate) use ports::{Asked, Checkpoints, Place, Places, Token as Requested};
pub(crate) use under::{
    Build, COPIES, Config, LOOKUP, PAST_TABLES, TABLE_WAYS, Under, entries_key, sets,
};

/// Causes of the traffic of a scheme with redo copies, by their place in [`CAUSES`].
pub(crate) const DIRECTORY: Cause = Cause::Scheme(0);
pub(crate) const RECORD: Cause = Cause::Scheme(1);
pub(crate) const HOME: Cause = Cause::Scheme(2);
/// What a flush at an epoch's end writes.
pub(crate) const FLUSH: Cause = Cause::Scheme(3);
/// What a new copy begins with.
pub(crate) const FILL: Cause = Cause::Scheme(4);

/// Their names.
pub(crate) const CAUSES: &[&str] =
    &["directory", "commit records", "copies home", "epoch flushes", "copies on write"];

/// Lines of a block of the directory: 4 KiB, one operation.
const BLOCK_LINES: usize = 64;

/// Blocks of the directory on their way at a time.
const BLOCKS_UNDER_WAY: usize = 4;

/// What is broken of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// The caches are not flushed at an epoch's end (R1).
    Unflushed,
    /// The record is written before the directory (R3 before R2).
    RecordFirst,
    /// Copies go home before the record is written (R4 before R3).
    HomeFirst,
    /// The record has no entries any more while copies go home (R5 before R4).
    ClearedFirst,
    /// The record keeps its entries while copies are written anew (R6 without R5).
    NeverCleared,
    /// Recovery does R5 before R4.
    ClearsFirst,
    /// Cores go on before the copies are home (R6 before R4).
    ResumesEarly,
    /// The directory has no lines past the tables (R2).
    SpillForgotten,
    /// A miss reads the home and not the copy.
    ReadsHome,
    /// Registers are saved when the next epoch has begun (R1).
    SavesLate,
}

/// What a request of it was for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Token {
    Directory,
    Record,
    /// The copy of one of the first entries, or of another.
    Home {
        is_first: bool,
    },
    Cleared,
    /// Nothing waits for it.
    Loose,
}

/// What was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Reached {
    /// R4 of the first entries.
    FirstHome,
    /// R6.
    Free,
}

/// Between the steps of the module's head.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum Phase {
    #[default]
    Idle,
    Directory,
    Record,
    Home,
    Clearing,
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    commits: u64,
    lines: u64,
    pages: u64,
    directory_blocks: u64,
}

/// The checkpoint of one epoch at a time, R2 to R5.
#[derive(Clone, Debug)]
struct Redo {
    layout: Layout,
    copies: usize,
    fault: Option<Fault>,
    /// The last epoch that was sealed.
    epoch: u64,
    phase: Phase,
    entries: Vec<Entry>,
    /// Blocks of the directory on their way, then entries; and how many have set out.
    under_way: usize,
    sent: usize,
    is_committed: bool,
    /// Completion of the first `first` entries is reported separately; `first_left` of them are not
    /// home.
    first: usize,
    first_left: usize,
    counts: Counts,
}

impl Redo {
    fn new(layout: Layout, copies: usize, fault: Option<Fault>) -> Self {
        Self {
            layout,
            copies,
            fault,
            epoch: 0,
            phase: Phase::Idle,
            entries: Vec::new(),
            under_way: 0,
            sent: 0,
            is_committed: false,
            first: 0,
            first_left: 0,
            counts: Counts::default(),
        }
    }

    /// Whether no checkpoint is under way.
    fn is_idle(&self) -> bool {
        self.phase == Phase::Idle
    }

    /// Begins an epoch's checkpoint. Its copies are durable; each home has one. The first
    /// `first` entries go home first.
    fn seal<T: From<Token>>(
        &mut self,
        epoch: u64,
        entries: Vec<Entry>,
        first: usize,
        out: &mut Outbox<T>,
    ) {
        assert!(self.is_idle(), "one checkpoint is under way at a time");
        self.epoch = epoch;
        self.entries = entries;
        (self.first, self.first_left) = (first, first);
        (self.under_way, self.sent, self.is_committed) = (0, 0, false);
        if self.fault == Some(Fault::RecordFirst) {
            self.write_record(out);
            (0..self.blocks()).for_each(|number| self.write_block(number, Token::Loose, out));
            return;
        }
        self.phase = Phase::Directory;
        self.writes_directory(out);
    }

    /// Blocks of the directory.
    fn blocks(&self) -> usize {
        self.entries.len().div_ceil(BLOCK_LINES * WORDS as usize)
    }

    fn write_block<T: From<Token>>(&mut self, number: usize, token: Token, out: &mut Outbox<T>) {
        let first = number * BLOCK_LINES;
        let entries = self.entries.chunks(WORDS as usize).skip(first).take(BLOCK_LINES);
        let (data, token) = (entries.map(line_of).collect(), token.into());
        let line = self.layout.directory(first as u64);
        out.write_block(Block { line, data, cause: DIRECTORY, token });
        self.counts.directory_blocks += 1;
    }

    /// Writes the directory, a few blocks at a time, and goes on when all of it is durable.
    fn writes_directory<T: From<Token>>(&mut self, out: &mut Outbox<T>) -> Option<Reached> {
        while self.under_way < BLOCKS_UNDER_WAY && self.sent < self.blocks() {
            self.write_block(self.sent, Token::Directory, out);
            self.sent += 1;
            self.under_way += 1;
        }
        if self.under_way > 0 {
            return None;
        }
        self.sent = 0;
        if self.fault == Some(Fault::HomeFirst) {
            return self.goes_home(out);
        }
        self.write_record(out);
        None
    }

    fn write_commit<T: From<Token>>(&self, entries: usize, token: Token, out: &mut Outbox<T>) {
        let commit = Commit { epoch: self.epoch, entries: entries as u64 };
        let mut data: LineBytes = [0; 64];
        data[..8].copy_from_slice(&commit.to_word().to_le_bytes());
        let (line, words) = (self.layout.record(), u8::MAX);
        out.write(SchemeWrite { line, words, data, cause: RECORD, token: token.into() });
    }

    fn write_record<T: From<Token>>(&mut self, out: &mut Outbox<T>) {
        self.phase = Phase::Record;
        self.write_commit(self.entries.len(), Token::Record, out);
    }

    /// A request is durable. Returns what was reached by that.
    fn write_durable<T: From<Token>>(
        &mut self,
        token: Token,
        out: &mut Outbox<T>,
    ) -> Option<Reached> {
        match token {
            Token::Directory => {
                self.under_way -= 1;
                self.writes_directory(out)
            }
            Token::Record => {
                self.counts.commits += 1;
                out.report_persisted(self.epoch);
                if self.fault == Some(Fault::ClearedFirst) {
                    self.write_commit(0, Token::Loose, out);
                }
                self.goes_home(out)
            }
            Token::Home { is_first } => {
                self.under_way -= 1;
                self.first_left -= usize::from(is_first);
                let has_first = is_first && self.first_left == 0;
                self.goes_home(out).or(has_first.then_some(Reached::FirstHome))
            }
            Token::Cleared => {
                self.phase = Phase::Idle;
                Some(Reached::Free)
            }
            Token::Loose => None,
        }
    }

    /// Lets entries go home, as far as that is possible at a time; goes on when all are there.
    fn goes_home<T: From<Token>>(&mut self, out: &mut Outbox<T>) -> Option<Reached> {
        self.is_committed |= self.phase == Phase::Record;
        self.phase = Phase::Home;
        while self.under_way < self.copies
            && let Some(entry) = self.entries.get(self.sent)
        {
            let is_first = self.sent < self.first;
            self.sent += 1;
            self.under_way += 1;
            out.copy(Copied {
                from: self.layout.copy(*entry),
                to: entry.home_line(),
                lines: entry.lines(),
                cause: HOME,
                token: Token::Home { is_first }.into(),
            });
            match entry.grain {
                Grain::Line => self.counts.lines += 1,
                Grain::Page => self.counts.pages += 1,
            }
        }
        if self.under_way > 0 {
            return None;
        }
        if !self.is_committed {
            self.write_record(out);
            return None;
        }
        let is_clear = self.entries.is_empty()
            || matches!(self.fault, Some(Fault::ClearedFirst | Fault::NeverCleared));
        if is_clear {
            self.phase = Phase::Idle;
            return Some(Reached::Free);
        }
        self.phase = Phase::Clearing;
        self.write_commit(0, Token::Cleared, out);
        None
    }

    fn take_counts(&mut self) -> Counts {
        std::mem::take(&mut self.counts)
    }
}

fn line_of(entries: &[Entry]) -> LineBytes {
    let mut data: LineBytes = [0; 64];
    for (place, entry) in data.as_chunks_mut::<8>().0.iter_mut().zip(entries) {
        *place = entry.to_word().to_le_bytes();
    }
    data
}
