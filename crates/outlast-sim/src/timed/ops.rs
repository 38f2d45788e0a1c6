//! Recorded operations as instructions: one lane of an `OpLog`.

use super::instr::{Batch, Instr, InstrKind, Mark, Source, SourceError};
use outlast_trace::{LaneId, Op, OpLog, Sink, word_pieces};
use std::{collections::BTreeMap, sync::Arc};

/// Instructions in a batch, about.
const BATCH: usize = 256;
/// Registers that loads write in turn, so that a later load can depend on them.
const LOAD_REGISTERS: u64 = 128;

/// The operations of one lane.
///
/// A load or store of several words is one instruction for each of them. Pool offsets are
/// physical addresses. `Compute(n)` is `n` instructions of one cycle.
#[derive(Clone, Debug)]
pub struct LaneOps {
    log: Arc<OpLog>,
    lane: LaneId,
    next: usize,
    /// The rest of a `Compute`.
    computing: u32,
    /// Loads so far.
    loads: u64,
}

impl LaneOps {
    /// The operations of `lane` in `log`.
    pub fn new(log: Arc<OpLog>, lane: LaneId) -> Self {
        Self { log, lane, next: 0, computing: 0, loads: 0 }
    }

    fn put(&mut self, op: Op<'_>, batch: &mut Batch) {
        match op {
            Op::Compute(n) => self.computing = n,
            Op::Load { at, len, depends } => {
                // A load's number is its register; what is further back is there for sure.
                let from = depends
                    .filter(|back| u64::from(*back) <= self.loads.min(LOAD_REGISTERS - 1))
                    .map_or(0, |back| self.register(self.loads - u64::from(back)));
                let into = self.register(self.loads);
                self.loads += 1;
                for (at, _) in word_pieces(at, len as usize) {
                    let sources = [from, 0, 0, 0];
                    batch.instrs.push(Instr { sources, ..Instr::load(at.0, into) });
                }
            }
            Op::Store { at, bytes } => put_stores(InstrKind::Plain, at.0, bytes, batch),
            Op::StoreNt { at, bytes } => put_stores(InstrKind::StoreNt, at.0, bytes, batch),
            Op::Rmw { at, bytes } => put_stores(InstrKind::Rmw, at.0, bytes, batch),
            Op::Store64 { line, bytes } => batch.push_line(line.start().0, bytes),
            Op::Flush { kind, line } => batch.instrs.push(Instr::flush(kind, line.start().0)),
            Op::Sfence => batch.instrs.push(Instr::of(InstrKind::Sfence)),
            Op::Mfence => batch.instrs.push(Instr::of(InstrKind::Mfence)),
            Op::TxBegin => batch.push_mark(Mark::TxBegin),
            Op::TxEnd => batch.push_mark(Mark::TxEnd),
            Op::TxAbort => batch.push_mark(Mark::TxAbort),
            Op::Ack(tx) => batch.push_mark(Mark::Ack(tx)),
            Op::Lock { id, ticket } => batch.push_mark(Mark::Lock { id, ticket }),
            Op::Unlock { id, ticket } => batch.push_mark(Mark::Unlock { id, ticket }),
            Op::Signal { id, count } => batch.push_mark(Mark::Signal { id, count }),
            Op::Wait { id, count } => batch.push_mark(Mark::Wait { id, count }),
            Op::Epoch => batch.push_mark(Mark::Epoch),
            Op::Grow { .. } => {} // All memory is there from the start.
        }
    }

    fn register(&self, load: u64) -> u8 {
        1 + (load % LOAD_REGISTERS) as u8
    }
}

fn put_stores(kind: InstrKind, at: u64, bytes: &[u8], batch: &mut Batch) {
    let mut rest = bytes;
    for (at, len) in word_pieces(outlast_trace::PoolOffset(at), bytes.len()) {
        let (piece, tail) = rest.split_at(len);
        rest = tail;
        let mut value = [0; 8];
        value[..len].copy_from_slice(piece);
        let store = Instr::store(at.0, u64::from_le_bytes(value));
        batch.instrs.push(Instr { kind, store_len: len as u8, ..store });
    }
}

impl Source for LaneOps {
    fn fill(&mut self, batch: &mut Batch) -> Result<(), SourceError> {
        let log = Arc::clone(&self.log);
        while batch.instrs.len() < BATCH {
            if self.computing > 0 {
                let now = self.computing.min(BATCH as u32);
                self.computing -= now;
                batch.instrs.extend((0..now).map(|_| Instr::work()));
                continue;
            }
            if self.next == log.len() {
                break;
            }
            let (lane, op) = log.get(self.next);
            self.next += 1;
            if lane == self.lane {
                self.put(op, batch);
            }
        }
        Ok(())
    }
}

/// What is left of operations from which each lane has executed `executed` instructions, marks
/// included. What it said to other lanes (locks released, signals raised) stands at the begin once
/// more.
pub fn rest_of(log: &OpLog, executed: impl Fn(LaneId) -> u64) -> OpLog {
    let mut done: BTreeMap<LaneId, u64> = BTreeMap::new();
    let mut rest = OpLog::default();
    for (lane, op) in log.iter() {
        let left = done.entry(lane).or_insert_with(|| executed(lane));
        let skipped = (*left).min(instrs_of(op));
        *left -= skipped;
        if skipped == 0 || matches!(op, Op::Unlock { .. } | Op::Signal { .. }) {
            rest.op(lane, op);
        } else if skipped < instrs_of(op) {
            put_rest(op, skipped, lane, &mut rest);
        }
    }
    rest
}

/// An operation without the first `skipped` of its instructions.
fn put_rest(op: Op<'_>, skipped: u64, lane: LaneId, rest: &mut OpLog) {
    let bytes_of = |at, len| -> usize {
        let pieces = word_pieces(at, len).take(skipped as usize);
        pieces.map(|(_, len)| len).sum()
    };
    match op {
        Op::Compute(n) => rest.op(lane, Op::Compute(n - skipped as u32)),
        Op::Load { at, len, depends } => {
            let gone = bytes_of(at, len as usize);
            rest.op(lane, Op::Load { at: at.plus(gone as u64), len: len - gone as u32, depends });
        }
        Op::Store { at, bytes } => {
            let gone = bytes_of(at, bytes.len());
            rest.op(lane, Op::Store { at: at.plus(gone as u64), bytes: &bytes[gone..] });
        }
        Op::StoreNt { at, bytes } => {
            let gone = bytes_of(at, bytes.len());
            rest.op(lane, Op::StoreNt { at: at.plus(gone as u64), bytes: &bytes[gone..] });
        }
        Op::Rmw { at, bytes } => {
            let gone = bytes_of(at, bytes.len());
            rest.op(lane, Op::Rmw { at: at.plus(gone as u64), bytes: &bytes[gone..] });
        }
        _ => unreachable!("it is one instruction"),
    }
}

/// How many instructions a source makes of an operation.
fn instrs_of(op: Op<'_>) -> u64 {
    match op {
        Op::Grow { .. } => 0,
        Op::Compute(_)
        | Op::Load { .. }
        | Op::Store { .. }
        | Op::StoreNt { .. }
        | Op::Rmw { .. } => instructions_of(op),
        _ => 1,
    }
}

/// How many machine instructions an operation is.
pub fn instructions_of(op: Op<'_>) -> u64 {
    match op {
        Op::Compute(n) => u64::from(n),
        Op::Load { at, len, .. } => word_pieces(at, len as usize).count() as u64,
        Op::Store { at, bytes } | Op::StoreNt { at, bytes } | Op::Rmw { at, bytes } => {
            word_pieces(at, bytes.len()).count() as u64
        }
        Op::Store64 { .. } | Op::Flush { .. } | Op::Sfence | Op::Mfence => 1,
        _ => 0,
    }
}
