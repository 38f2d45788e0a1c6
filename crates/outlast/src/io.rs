//! The one place where the runtime flushes and fences.
//!
//! Each flush and each fence names its [`Site`], and the site says what it establishes. Under an
//! observing medium any of them can be switched off: a checker that stays silent then proves the
//! site superfluous, and it goes.

use outlast_pmem::Medium;
use outlast_trace::{ByteRange, LINE_BYTES, LineAddr, PoolOffset};

use crate::plant::{Plant, met};
use crate::stats::counts::{IoCounts, UNCOUNTED};
use crate::versions::Versions;

/// A medium, the counters of what is asked of it, and which planted bug is switched on. Copied freely.
pub(crate) struct Io<'a, M: Medium> {
    pub medium: &'a M,
    counts: &'a IoCounts,
    /// Of a running pool that others may read.
    versions: Option<&'a Versions<M>>,
}

impl<M: Medium> Clone for Io<'_, M> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M: Medium> Copy for Io<'_, M> {}

/// The sites, each documented by its purpose, which is also what it says of itself.
macro_rules! described {
    ($(#[$meta:meta])* pub enum $enum:ident { $($(#[doc = $about:literal])+ $name:ident,)* }) => {
        $(#[$meta])*
        pub enum $enum {
            $($(#[doc = $about])+ $name,)*
        }

        impl $enum {
            /// Every site.
            pub const ALL: &'static [Self] = &[$(Self::$name),*];

            /// Its purpose, in words.
            pub fn about(self) -> &'static str {
                match self {
                    $(Self::$name => concat!($($about),+).trim_start(),)*
                }
            }
        }
    };
}

described! {
/// Where the runtime flushes or fences.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Site {
    /// Creation: the body of the header, before its magic.
    HeaderBody,
    /// Creation: the magic that makes it a pool; the first recovery fences it.
    HeaderMagic,
    /// Creation: blank lanes and free directory words, before the magic. Growth: directory words of
    /// new chunks, before the size that exposes them (CREATE-2).
    Blank,
    /// Growth: the number of chunks.
    Chunks,
    /// Heap: the empty bitmap of a new class chunk, before the word that names the class (HEAP-2).
    ChunkBitmap,
    /// Heap: the directory word of a chunk.
    ChunkWord,
    /// Log: the blank tags of a region, before a record names it.
    Region,
    /// Log: blank lines in a lane's ring, before its tail says that its first lap begins (LOG-5).
    Ring,
    /// Log: the tail at the first lap's start, before anything is streamed there (LOG-5).
    FirstLap,
    /// Undo: old words, before anything is stored over them (UNDO-1).
    UndoRecord,
    /// Undo: contents of new blocks, with the next record's fence (UNDO-5).
    UndoFresh,
    /// Undo: data in place, before the record is dead (UNDO-2).
    UndoData,
    /// Undo: the lane's floor, which is the commit, before the acknowledgement (UNDO-3).
    UndoMark,
    /// Undo: the witnesses of a transaction that ran alone, with its data, before the
    /// acknowledgement (UNDO-5).
    UndoWitnesses,
    /// Undo: the mark behind witnesses, before anything else changes what they speak of (UNDO-6).
    UndoSettled,
    /// Redo: contents of new blocks that the record leaves out, before the record (REDO-2).
    RedoFresh,
    /// Redo: the record, which is the commit, before anything is stored in place (REDO-1).
    RedoRecord,
    /// Redo: data in place, asynchronously; the lane's next fence finds it done, at the latest
    /// the one before another thread gets the lane (SWEEP-1).
    RedoData,
    /// By segment: a share of what a lane's log covers, flushed between two of its commits. The
    /// fence of the next one finds it done, at the latest the one before another thread gets the
    /// lane (DEFER-1).
    SegmentData,
    /// Rollback: old pages in the journal, before the header that counts them (ROLLBACK-1).
    JournalPages,
    /// Rollback: the journal's header, before anything is stored in place (ROLLBACK-2).
    JournalHeader,
    /// Rollback: new pages in place, before the header's tag is blanked (ROLLBACK-3).
    JournalData,
    /// Rollback: the header with a blank tag, which is the commit, before the acknowledgement (ROLLBACK-4).
    JournalEnd,
    /// Append-only log: the commands, which are the commit, before anything is stored in place or
    /// acknowledged (AOF-1).
    Command,
    /// Checksums of a block that takes whole chunks, with its content, before the record that makes
    /// it a block (SUMS-5).
    RunSums,
    /// Checksums: contents of new blocks that an abort leaves behind (SUMS-4).
    FreshAborted,
    /// Checksums: their lines as soon as they are stored to, with the sweep's fence or the history
    /// unit's (SUMS-2).
    Sums,
    /// History: a line that has left the queue, before anything forgets that it was pending (AGE-2).
    AgedOut,
    /// Sweep: data that another lane flushed and may not have fenced (SWEEP-1), or that no lane has
    /// flushed yet (AGE-3).
    SweepData,
    /// Sweep: the pool's floor, before any line below it is used again (SWEEP-2).
    Floor,
    /// Sweep: a lane's tail, before the lines in front of it are used again (SWEEP-3).
    Tail,
    /// Recovery: what was put in place, and checksums made anew, before the floor declares the log dead (RECOVER-1).
    RecoverData,
    /// Recovery: the floor in a new generation (RECOVER-2).
    RecoverFloor,
    /// Recovery: lane tails back at the start, before anything is logged there (RECOVER-3).
    RecoverTail,
}
}

impl Site {
    /// Whether the site has a fence of its own. The magic's is that of the first recovery, and
    /// checksums share that of what they go with.
    pub fn has_fence(self) -> bool {
        !matches!(self, Self::HeaderMagic | Self::RunSums | Self::Sums)
    }

    /// Whether it flushes the lines of one record, which may go in any order.
    fn is_record(self) -> bool {
        matches!(
            self,
            Self::UndoRecord
                | Self::UndoWitnesses
                | Self::RedoRecord
                | Self::JournalPages
                | Self::Command
        )
    }
}

/// How many lines a range touches.
#[inline(always)]
fn lines_of(at: PoolOffset, len: u64) -> u64 {
    if len == 0 { 0 } else { (at.0 % LINE_BYTES + len).div_ceil(LINE_BYTES) }
}

/// A line of the header page that stays zero.
const NEVER_STORED_TO: LineAddr = LineAddr(5);

impl<'a, M: Medium> Io<'a, M> {
    /// Of which nothing is counted.
    pub fn new(medium: &'a M) -> Self {
        Self { medium, counts: &UNCOUNTED, versions: None }
    }

    /// That of a running pool, counted there.
    #[inline(always)]
    pub fn counted(medium: &'a M, counts: &'a IoCounts, versions: Option<&'a Versions<M>>) -> Self {
        Self { medium, counts, versions }
    }

    /// Whether processes read the pool.
    #[inline]
    pub fn is_read(self) -> bool {
        self.versions.is_some_and(Versions::is_read)
    }

    /// VERSION-3: these bytes belong to no commit yet, and will be changed.
    #[inline]
    pub fn keep(self, at: PoolOffset, len: u64) {
        if let Some(versions) = self.versions
            && versions.is_read()
        {
            versions.keep_before_commit(self.medium, ByteRange::new(at, len));
        }
    }

    /// Whether the medium carries this planted bug. Never on a medium that does not observe, nor without the feature `lab`; the
    /// optimiser knows.
    #[inline(always)]
    pub fn plants(self, bug: Plant) -> bool {
        let is_planted =
            cfg!(feature = "lab") && M::OBSERVED && self.medium.planted() == bug.code();
        if is_planted {
            met();
        }
        is_planted
    }

    /// Starts the write-back of every line of the range.
    #[inline(always)]
    pub fn flush(self, site: Site, at: PoolOffset, len: u64) {
        if self.plants(Plant::SkipFlush(site)) {
            return;
        }
        if self.plants(Plant::FlushWrongAddress) {
            for line in ByteRange::new(at, len).lines() {
                self.medium.flush(LineAddr(line.0 ^ 1));
            }
            return;
        }
        if self.plants(Plant::RecordFlushedBackwards) && site.is_record() {
            let lines: Vec<LineAddr> = ByteRange::new(at, len).lines().collect();
            lines.into_iter().rev().for_each(|line| self.medium.flush(line));
            return;
        }
        if self.plants(Plant::CleanLineFlushed) {
            self.medium.flush(NEVER_STORED_TO);
        }
        if self.plants(Plant::FlushTwice) {
            self.medium.flush_range(at, len);
        }
        self.counts.flushed_lines.add(lines_of(at, len));
        self.medium.flush_range(at, len);
    }

    /// Starts the write-back of one line.
    #[inline(always)]
    pub fn flush_line(self, site: Site, line: LineAddr) {
        if !M::OBSERVED {
            self.counts.flushed_lines.add(1);
            return self.medium.flush(line);
        }
        self.flush(site, line.start(), 64);
    }

    /// Starts the write-back of several lines.
    #[inline(always)]
    pub fn flush_each(self, site: Site, lines: impl Iterator<Item = LineAddr>) {
        if M::OBSERVED {
            return lines.for_each(|line| self.flush(site, line.start(), 64));
        }
        let mut flushed = 0;
        self.medium.flush_each(lines.inspect(|_| flushed += 1));
        self.counts.flushed_lines.add(flushed);
    }

    /// Streams a line past the caches.
    #[inline(always)]
    pub fn stream_line(self, site: Site, at: PoolOffset, words: &[u64; 8]) {
        if self.plants(Plant::SkipFlush(site)) {
            return self.medium.store(at, bytemuck::bytes_of(words));
        }
        if self.plants(Plant::CleanLineFlushed) {
            self.medium.flush(NEVER_STORED_TO);
        }
        self.counts.streamed_lines.add(1);
        self.medium.store_line_nt(at.line(), words);
    }

    /// Streams lines one behind the other past the caches.
    #[inline(always)]
    pub fn stream_lines(
        self,
        site: Site,
        (first, count): (LineAddr, u64),
        lines: impl Iterator<Item = [u64; 8]>,
    ) {
        if !M::OBSERVED {
            self.counts.streamed_lines.add(count);
        }
        let mut line = first;
        for words in lines {
            if M::OBSERVED {
                self.stream_line(site, line.start(), &words);
            } else {
                self.medium.store_line_nt(line, &words);
            }
            line = LineAddr(line.0 + 1);
        }
    }

    /// Makes durable what this thread flushed or streamed before.
    #[inline(always)]
    pub fn fence(self, site: Site) {
        self.counts.fences.add(1);
        if !self.plants(Plant::SkipFence(site)) {
            self.medium.fence();
        }
        if self.plants(Plant::FenceTwice) {
            self.medium.fence();
        }
    }

    /// As [`fence`](Self::fence), and tells whether all of that is durable. What the medium does where
    /// it is not keeps later stores away from the file, so only a fence before an acknowledgement, or
    /// before others may see something, has to ask.
    #[inline(always)]
    #[must_use]
    pub fn try_fence(self, site: Site) -> bool {
        self.counts.fences.add(1);
        let is_durable = self.plants(Plant::SkipFence(site)) || self.medium.try_fence();
        if self.plants(Plant::FenceTwice) {
            self.medium.fence();
        }
        is_durable
    }
}
