//! Transactions that log for themselves: the baselines `undo-clwb`, `redo-clwb` and
//! `undo-redo-clwb`, as good as they can be made from what a bare transaction says, and what they
//! are without flushing their data (`unsafe-undo`, `unsafe-redo`).
//!
//! The log is streamed past the caches, whole lines at once. Each lane has its own part: a line
//! with the number of its last committed transaction, then record lines that every transaction
//! uses from the first on, or round and round.
//!
//! ```text
//!  word 0                     words 1 .. 6                  word 7
//! +--------------------------+-----------------------------+------------------+
//! | transaction : 56 | n : 8 | address, value  of 3 words  | lines of all of it |
//! |                          | address, old, new  of 2     |                    |
//! +--------------------------+-----------------------------+------------------+
//! ```
//!
//! - `undo-clwb`: old values of all words that it will store; *fence*; stores; `clwb` of its
//!   lines; *fence*; its number in the header; *fence*. A line may be evicted at any time after
//!   the first fence, and its old value is durable. (The paper has no fence between log and
//!   stores, because the log is not cached; an eviction may then pass a record.)
//! - `redo-clwb`: at its end, new values; *fence*, which commits it; stores; `clwb` of its lines.
//!   The next transaction of the lane fences before it writes over the log.
//! - `undo-redo-clwb`: old and new values; *fence*; stores; its number in the header; *fence*,
//!   which commits it; `clwb` of its lines, for which the next transaction waits.
//! - The unsafe ones have the same fences around their logs and flush no data, so a log is
//!   written over while data is only cached.
//!
//! Making a record costs [`WORD_INSTRUCTIONS`] beside the loads and stores, an estimate; beginning
//! and committing cost what they cost hardware logging.

mod recover;
mod variants;

pub use recover::recover;
pub use variants::Software;

use crate::{BEGIN_INSTRUCTIONS, COMMIT_INSTRUCTIONS, Image};
use outlast_trace::{
    ByteRange, FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink, word_pieces,
};
use rustc_hash::FxHashMap;

/// Words that one record line holds.
const WORDS_MAX: usize = 3;

/// Instructions for each word logged: the call, the search for the word among those already
/// logged, putting address and value into the record.
pub const WORD_INSTRUCTIONS: u32 = 8;

/// Which values are logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Logging {
    /// Old ones.
    Undo,
    /// New ones.
    Redo,
    /// Both.
    UndoRedo,
}

impl Logging {
    /// Words of one record line.
    fn words_max(self) -> usize {
        match self {
            Self::Undo | Self::Redo => WORDS_MAX,
            Self::UndoRedo => 2,
        }
    }
}

/// Whether the data of transactions is flushed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Data {
    /// With `clwb`, before the log is used again.
    Flushed,
    /// Never: nothing is promised.
    Left,
}

/// The bytes of memory before the first operation; zeroes follow.
#[derive(Clone, Copy, Debug, Default)]
pub struct Initial<'a> {
    /// The bytes, from address 0 on.
    pub bytes: &'a [u8],
}

impl Initial<'_> {
    fn word(&self, at: u64) -> [u8; 8] {
        let found = self.bytes.get(at as usize..at as usize + 8);
        found.map_or([0; 8], |word| word.try_into().expect("eight bytes were taken"))
    }
}

/// Where the logs of all lanes lie, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SoftwareLog {
    /// The first lane's header.
    pub base: LineAddr,
    /// Lines of each lane's log, its header included.
    pub lines: u64,
    /// Whether records go round the log, as the paper's logs do; else every transaction writes
    /// over the same first lines, which the memory's write queue often still holds.
    pub ring: bool,
}

/// A transaction that does not fit.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a transaction of {words} words needs {needed} lines of log; there are {lines}")]
pub struct LogTooSmall {
    /// Distinct words that it stores to.
    pub words: usize,
    /// Lines that their records and the header take.
    pub needed: u64,
    /// Lines that there are.
    pub lines: u64,
}

/// A lane's transaction under way.
#[derive(Debug, Default)]
struct Running {
    /// The last number: the lane's transactions that store something count from 1, after a crash from
    /// the last one that the log knows of.
    number: u64,
    /// The next record's place, counted without wrapping.
    place: u64,
    inside: bool,
    /// Lines were flushed and not fenced.
    flushed: bool,
    /// Its operations so far, where the log comes first.
    ops: OpLog,
    /// Words in the order of their first store.
    words: Vec<Word>,
    known: FxHashMap<u64, usize>,
    lines: Vec<LineAddr>,
}

#[derive(Clone, Copy, Debug)]
struct Word {
    at: u64,
    old: [u8; 8],
    new: [u8; 8],
}

impl SoftwareLog {
    /// The header of a lane's log.
    fn header(self, lane: LaneId) -> LineAddr {
        self.base.plus(u64::from(lane.0) * self.lines)
    }

    /// The same operations, logged and flushed. A transaction inside another one, after a context
    /// switch, is not for software: each thread has its own lane there.
    ///
    /// # Errors
    /// When a transaction does not fit into a lane's log.
    pub fn apply(
        self,
        logging: Logging,
        data: Data,
        initial: Initial<'_>,
        bare: &OpLog,
    ) -> Result<OpLog, LogTooSmall> {
        let mut out = OpLog::default();
        let mut memory: FxHashMap<u64, [u8; 8]> = FxHashMap::default();
        let mut lanes: FxHashMap<LaneId, Running> = FxHashMap::default();
        let log_first = logging != Logging::Redo;
        for (lane, op) in bare.iter() {
            let tx = lanes.entry(lane).or_insert_with(|| Running {
                number: recover::last_number(self, lane, Image::new(initial.bytes)),
                ..Running::default()
            });
            match op {
                Op::TxBegin => {
                    tx.inside = true;
                    // Here, and not behind its reads: a transaction's time begins at the same point
                    // under every scheme.
                    out.op(lane, Op::Compute(BEGIN_INSTRUCTIONS));
                    out.op(lane, Op::TxBegin);
                }
                Op::Store { at, bytes } if tx.inside => {
                    store(tx, at, bytes, initial, &mut memory);
                    if log_first {
                        tx.ops.op(lane, op);
                    }
                }
                Op::TxEnd if tx.inside => {
                    self.end(logging, data, lane, tx, &mut out)?;
                    tx.inside = false;
                    continue;
                }
                // What it loads and computes comes before its log, which needs to know its stores.
                _ => out.op(lane, op),
            }
        }
        Ok(out)
    }

    fn end(
        self,
        logging: Logging,
        data: Data,
        lane: LaneId,
        tx: &mut Running,
        out: &mut OpLog,
    ) -> Result<(), LogTooSmall> {
        let needed = 1 + tx.words.len().div_ceil(logging.words_max()) as u64;
        if needed > self.lines {
            return Err(LogTooSmall { words: tx.words.len(), needed, lines: self.lines });
        }
        let ops = std::mem::take(&mut tx.ops);
        if tx.words.is_empty() {
            ops.iter().for_each(|(lane, op)| out.op(lane, op));
            out.op(lane, Op::Compute(COMMIT_INSTRUCTIONS));
            out.op(lane, Op::TxEnd);
            return Ok(());
        }
        tx.number += 1;
        let number = tx.number.to_le_bytes();
        if std::mem::take(&mut tx.flushed) {
            out.op(lane, Op::Sfence); // The transaction before needs its log no more.
        }
        self.write_records(logging, lane, tx, out);
        out.op(lane, Op::Sfence); // Old values are durable; redo: committed.
        if logging == Logging::Redo {
            for word in &tx.words {
                out.op(lane, Op::Store { at: PoolOffset(word.at), bytes: &word.new });
            }
        } else {
            ops.iter().for_each(|(lane, op)| out.op(lane, op));
        }
        let header = self.header(lane).start();
        if logging == Logging::Undo && data == Data::Flushed {
            flush(lane, tx, out);
            out.op(lane, Op::Sfence); // Its data is durable.
        }
        if logging != Logging::Redo {
            out.op(lane, Op::StoreNt { at: header, bytes: &number });
            out.op(lane, Op::Sfence); // Committed.
        }
        if logging != Logging::Undo && data == Data::Flushed {
            flush(lane, tx, out);
            tx.flushed = true;
        }
        out.op(lane, Op::Compute(COMMIT_INSTRUCTIONS));
        out.op(lane, Op::TxEnd);
        tx.words.clear();
        tx.known.clear();
        tx.lines.clear();
        Ok(())
    }

    fn write_records(self, logging: Logging, lane: LaneId, tx: &mut Running, out: &mut OpLog) {
        let first = if self.ring { tx.place } else { 0 };
        let lines = tx.words.len().div_ceil(logging.words_max()) as u64;
        for (k, words) in tx.words.chunks(logging.words_max()).enumerate() {
            let mut record = [[0; 8]; 8];
            record[0] = (tx.number << 8 | words.len() as u64).to_le_bytes();
            for (k, word) in words.iter().enumerate() {
                let at = word.at.to_le_bytes();
                match logging {
                    Logging::Undo => record[1 + 2 * k..][..2].copy_from_slice(&[at, word.old]),
                    Logging::Redo => record[1 + 2 * k..][..2].copy_from_slice(&[at, word.new]),
                    Logging::UndoRedo => {
                        record[1 + 3 * k..][..3].copy_from_slice(&[at, word.old, word.new]);
                    }
                }
                out.op(lane, Op::Compute(WORD_INSTRUCTIONS));
                if logging != Logging::Redo {
                    let at = PoolOffset(word.at);
                    out.op(lane, Op::Load { at, len: 8, depends: None });
                }
            }
            record[7] = lines.to_le_bytes();
            let place = (first + k as u64) % (self.lines - 1);
            let at = self.header(lane).plus(1 + place).start();
            out.op(lane, Op::StoreNt { at, bytes: record.as_flattened() });
        }
        tx.place += lines;
    }
}

/// Notes a store's words and lines, and performs it on the functional memory.
fn store(
    tx: &mut Running,
    at: PoolOffset,
    bytes: &[u8],
    initial: Initial<'_>,
    memory: &mut FxHashMap<u64, [u8; 8]>,
) {
    let mut rest = bytes;
    for (at, len) in word_pieces(at, bytes.len()) {
        let (piece, tail) = rest.split_at(len);
        rest = tail;
        let aligned = at.0 & !7;
        let value = memory.entry(aligned).or_insert_with(|| initial.word(aligned));
        let old = *value;
        value[(at.0 % 8) as usize..][..len].copy_from_slice(piece);
        let index = *tx.known.entry(aligned).or_insert(tx.words.len());
        match tx.words.get_mut(index) {
            Some(known) => known.new = *value,
            None => tx.words.push(Word { at: aligned, old, new: *value }),
        }
    }
    for line in ByteRange::new(at, bytes.len() as u64).lines() {
        if !tx.lines.contains(&line) {
            tx.lines.push(line);
        }
    }
}

fn flush(lane: LaneId, tx: &Running, out: &mut OpLog) {
    for &line in &tx.lines {
        out.op(lane, Op::Flush { kind: FlushKind::Clwb, line });
    }
}
