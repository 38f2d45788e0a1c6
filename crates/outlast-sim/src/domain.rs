//! Where the persistence domain begins, and the memory inside it.

use crate::{
    cache::LineBytes,
    hierarchy::{Backing, Cause},
    journal::Journal,
    memory::{Base, SparseMemory},
};
use outlast_trace::{Domain, FlushKind, LINE_BYTES, LaneId, LineAddr};
use rustc_hash::FxHashMap;

/// The largest image: what a journal's 32-bit line numbers cover.
const IMAGE_BYTES_MAX: u64 = LINE_BYTES << 32;

/// When a flushed line becomes durable, where stores are not durable by themselves. Both are allowed, and no image of the one
/// is forbidden by the other (rule 9).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub enum FlushCompletion {
    /// At the flush itself: earlier than the program may rely on.
    AtFlush,
    /// At the next fence of the lane that flushed, or at some moment before it: the line's bytes
    /// are taken at the flush, and only these become durable. `clflush`, which Intel orders
    /// with all writes (rule 8), still completes at once.
    #[default]
    AtFence,
}

/// The memory below the caches, with the journal of what changed in it and the flushes that are
/// still under way.
///
/// **F1** A flush under way never makes memory older: whatever writes a line's newest bytes
/// discards all that was taken from it before. What remains was taken from a line that is still
/// dirty in some cache.
#[derive(Clone, Debug)]
pub(crate) struct DurableMemory<'b> {
    image: SparseMemory<'b>,
    /// Bytes of images so far.
    bytes: u64,
    domain: Domain,
    pub(crate) journal: Journal,
    /// Bytes taken by flushes under way, oldest first in each line.
    taken: FxHashMap<LineAddr, Vec<Taken>>,
}

/// The words that one flush took.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    lane: LaneId,
    pub(crate) kind: FlushKind,
    pub(crate) data: LineBytes,
}

impl<'b> DurableMemory<'b> {
    pub(crate) fn new(base: Base<'b>, domain: Domain) -> Self {
        let bytes = (base.len() as u64).next_multiple_of(LINE_BYTES);
        let mut journal = Journal::default();
        journal.extend_images(bytes / LINE_BYTES);
        let image = SparseMemory::new(base);
        Self { image, bytes, domain, journal, taken: FxHashMap::default() }
    }

    pub(crate) fn domain(&self) -> Domain {
        self.domain
    }

    /// Keeps the bytes that a flush by `lane` found dirty.
    pub(crate) fn take(&mut self, lane: LaneId, kind: FlushKind, line: LineAddr, data: LineBytes) {
        self.taken.entry(line).or_default().push(Taken { lane, kind, data });
    }

    /// Takes back what flushes took from the line, if nothing has written the line since: what
    /// `lane` took last, and what others took after it.
    pub(crate) fn taken_by(&mut self, lane: LaneId, line: LineAddr) -> Option<(Taken, Vec<Taken>)> {
        let mut all = self.taken.remove(&line)?;
        match all.iter().rposition(|taken| taken.lane == lane) {
            Some(index) => {
                let later = all.split_off(index + 1);
                all.pop().map(|taken| (taken, later))
            }
            None => {
                self.taken.insert(line, all);
                None
            }
        }
    }

    /// Keeps what later flushes took, after an earlier one completed.
    pub(crate) fn keep_taken(&mut self, line: LineAddr, later: Vec<Taken>) {
        if !later.is_empty() {
            self.taken.insert(line, later);
        }
    }

    /// Notes that words became durable in the order in which they were executed.
    #[inline]
    pub(crate) fn execute(&mut self, line: LineAddr, words: u8, data: &LineBytes) {
        self.reach(line);
        let (first, end) = (words.trailing_zeros() as usize, 8 - words.leading_zeros() as usize);
        if first < end {
            self.journal.push(line, first, &data.as_chunks().0[first..end], Cause::Stored);
        }
    }

    /// Makes memory long enough to hold the line; a pool grows with zeroes.
    #[inline]
    fn reach(&mut self, line: LineAddr) {
        let end = line.start().0 + LINE_BYTES;
        if end > self.bytes {
            self.grow(end);
        }
    }

    /// Memory is at least `bytes` bytes long from here on; the new ones are zero and durable.
    #[cold]
    pub(crate) fn grow(&mut self, bytes: u64) {
        assert!(bytes <= IMAGE_BYTES_MAX, "a store up to byte {bytes:#x} is in no pool");
        self.bytes = bytes.next_multiple_of(LINE_BYTES).max(self.bytes);
        self.journal.extend_images(self.bytes / LINE_BYTES);
    }
}

impl Backing for DurableMemory<'_> {
    #[inline]
    fn read(&mut self, line: LineAddr) -> LineBytes {
        self.image.read(line)
    }

    #[inline]
    fn write(&mut self, line: LineAddr, words: u8, data: &LineBytes, cause: Cause, _tag: ()) {
        if !self.taken.is_empty() {
            self.taken.remove(&line); // F1
        }
        self.reach(line);
        let old = self.image.line(line);
        let (old_words, new_words) = (old.as_chunks_mut::<8>().0, data.as_chunks::<8>().0);
        let changed = (0..8).fold(0u8, |changed, word| {
            let differs = words >> word & 1 == 1 && old_words[word] != new_words[word];
            changed | u8::from(differs) << word
        });
        if changed == 0 {
            return;
        }
        for word in 0..8 {
            if changed >> word & 1 == 1 {
                old_words[word] = new_words[word];
            }
        }
        let row = self.domain.row();
        // Other stores were durable when they were executed.
        let is_stream = cause == Cause::Streamed;
        let durable = !row.has_durable_stores || is_stream && !row.has_durable_streams;
        if durable {
            let first = changed.trailing_zeros() as usize;
            let end = 8 - changed.leading_zeros() as usize;
            self.journal.push(line, first, &old_words[first..end], cause);
        }
    }

    #[inline]
    fn stored(&mut self, line: LineAddr, words: u8, data: &LineBytes) {
        if self.domain.row().has_durable_stores {
            self.execute(line, words, data);
        }
    }
}
