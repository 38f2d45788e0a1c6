//! Transactions that log for themselves and flush with `clwb`: the baselines `undo-clwb` and
//! `redo-clwb`, as good as they can be made from what a bare transaction says.
//!
//! The log is streamed past the caches, whole lines at once. Each lane has its own part: a line
//! with the number of its last committed transaction, then record lines that every transaction
//! uses from the first on.
//!
//! ```text
//!  word 0                     words 1 .. 6                  word 7
//! +--------------------------+-----------------------------+------------------+
//! | transaction : 56 | n : 8 | address, value  of n words  | lines of all of it |
//! +--------------------------+-----------------------------+------------------+
//! ```
//!
//! - `undo-clwb`: old values of all words that it will store; *fence*; stores; `clwb` of its
//!   lines; *fence*; its number in the header; *fence*. A line may be evicted at any time after
//!   the first fence, and its old value is durable. (The paper has no fence between log and
//!   stores, because the log is not cached; an eviction may then pass a record.)
//! - `redo-clwb`: at its end, new values; *fence*, which commits it; stores; `clwb` of its lines.
//!   The next transaction of the lane fences before it writes over the log.

mod recover;

pub use recover::recover;

use outlast_trace::{
    ByteRange, FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink, word_pieces,
};
use rustc_hash::FxHashMap;

/// Words that one record line holds.
const WORDS_MAX: usize = 3;

/// Which values are logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Logging {
    /// Old ones.
    Undo,
    /// New ones.
    Redo,
}

/// Where the logs of all lanes lie, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SoftwareLog {
    /// The first lane's header.
    pub base: LineAddr,
    /// Lines of each lane's log, its header included.
    pub lines: u64,
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
    /// The last number: the lane's transactions that store something count from 1.
    number: u64,
    inside: bool,
    /// Redo: lines flushed and not fenced.
    flushed: bool,
    /// Its operations so far, for undo, where the log comes first.
    ops: OpLog,
    /// Words in the order of their first store, with the value to be logged.
    words: Vec<(u64, [u8; 8])>,
    lines: Vec<LineAddr>,
}

impl SoftwareLog {
    /// The header of a lane's log.
    fn header(self, lane: LaneId) -> LineAddr {
        self.base.plus(u64::from(lane.0) * self.lines)
    }

    /// The same operations, logged and flushed. Memory is zero at their start.
    ///
    /// # Errors
    /// When a transaction does not fit into a lane's log.
    pub fn apply(self, logging: Logging, bare: &OpLog) -> Result<OpLog, LogTooSmall> {
        let mut out = OpLog::default();
        let mut memory: FxHashMap<u64, [u8; 8]> = FxHashMap::default();
        let mut lanes: FxHashMap<LaneId, Running> = FxHashMap::default();
        for (lane, op) in bare.iter() {
            let tx = lanes.entry(lane).or_default();
            match op {
                Op::TxBegin => {
                    tx.inside = true;
                }
                Op::Store { at, bytes } if tx.inside => {
                    store(logging, tx, at, bytes, &mut memory);
                    if logging == Logging::Undo {
                        tx.ops.op(lane, op);
                    }
                }
                Op::TxEnd if tx.inside => {
                    self.end(logging, lane, tx, &mut out)?;
                    tx.inside = false;
                    continue;
                }
                _ if tx.inside && logging == Logging::Undo => tx.ops.op(lane, op),
                _ => out.op(lane, op),
            }
        }
        Ok(out)
    }

    fn end(
        self,
        logging: Logging,
        lane: LaneId,
        tx: &mut Running,
        out: &mut OpLog,
    ) -> Result<(), LogTooSmall> {
        let needed = 1 + tx.words.len().div_ceil(WORDS_MAX) as u64;
        if needed > self.lines {
            return Err(LogTooSmall { words: tx.words.len(), needed, lines: self.lines });
        }
        out.op(lane, Op::TxBegin);
        tx.number += u64::from(!tx.words.is_empty());
        match logging {
            _ if tx.words.is_empty() => tx.ops.iter().for_each(|(lane, op)| out.op(lane, op)),
            Logging::Undo => {
                self.write_records(lane, tx, out);
                out.op(lane, Op::Sfence); // Old values are durable before anything is stored.
                tx.ops.iter().for_each(|(lane, op)| out.op(lane, op));
                flush(lane, tx, out);
                out.op(lane, Op::Sfence); // New values are durable before the mark says so.
                let at = self.header(lane).start();
                out.op(lane, Op::StoreNt { at, bytes: &tx.number.to_le_bytes() });
                out.op(lane, Op::Sfence); // Committed.
            }
            Logging::Redo => {
                if std::mem::replace(&mut tx.flushed, true) {
                    out.op(lane, Op::Sfence); // The transaction before needs its log no more.
                }
                self.write_records(lane, tx, out);
                out.op(lane, Op::Sfence); // Committed.
                for (at, value) in &tx.words {
                    out.op(lane, Op::Store { at: PoolOffset(*at), bytes: value });
                }
                flush(lane, tx, out);
            }
        }
        out.op(lane, Op::TxEnd);
        tx.ops.clear();
        tx.words.clear();
        tx.lines.clear();
        Ok(())
    }

    fn write_records(self, lane: LaneId, tx: &Running, out: &mut OpLog) {
        let lines = tx.words.len().div_ceil(WORDS_MAX) as u64;
        for (k, words) in tx.words.chunks(WORDS_MAX).enumerate() {
            let mut record = [[0; 8]; 8];
            record[0] = (tx.number << 8 | words.len() as u64).to_le_bytes();
            for (k, (at, value)) in words.iter().enumerate() {
                record[1 + 2 * k] = at.to_le_bytes();
                record[2 + 2 * k] = *value;
            }
            record[7] = lines.to_le_bytes();
            let at = self.header(lane).plus(1 + k as u64).start();
            out.op(lane, Op::StoreNt { at, bytes: record.as_flattened() });
        }
    }
}

/// Notes a store's words and lines, and performs it on the functional memory.
fn store(
    logging: Logging,
    tx: &mut Running,
    at: PoolOffset,
    bytes: &[u8],
    memory: &mut FxHashMap<u64, [u8; 8]>,
) {
    let mut rest = bytes;
    for (at, len) in word_pieces(at, bytes.len()) {
        let (piece, tail) = rest.split_at(len);
        rest = tail;
        let aligned = at.0 & !7;
        let value = memory.entry(aligned).or_default();
        let old = *value;
        value[(at.0 % 8) as usize..][..len].copy_from_slice(piece);
        match (tx.words.iter_mut().find(|(known, _)| *known == aligned), logging) {
            (Some(_), Logging::Undo) => {}
            (Some(known), Logging::Redo) => known.1 = *value,
            (None, Logging::Undo) => tx.words.push((aligned, old)),
            (None, Logging::Redo) => tx.words.push((aligned, *value)),
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
