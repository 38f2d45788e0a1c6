//! An operation stream kept in memory.

use crate::{FlushKind, LaneId, LineAddr, Op, PoolOffset, Sink, TxId};

/// Operations in the order in which they happened, with their data.
///
/// Forty bytes an operation and one shared arena for the stored bytes, so that the runs of a
/// crash campaign (some ten million operations) fit in memory.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub struct OpLog {
    entries: Vec<Entry>,
    arena: Vec<u8>,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Entry {
    lane: LaneId,
    code: Code,
    a: u64,
    b: u64,
    data: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Code {
    Compute,
    Load,
    Store,
    StoreNt,
    Store64,
    Rmw,
    Clwb,
    ClflushOpt,
    Clflush,
    Sfence,
    Mfence,
    TxBegin,
    TxEnd,
    TxAbort,
    Ack,
    Lock,
    Unlock,
    Signal,
    Wait,
    Epoch,
    Grow,
}

/// `Load::depends` shares a word with the length; no real distance is this long.
const NO_DEPENDENCE: u64 = u32::MAX as u64;

impl OpLog {
    /// Number of operations.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing was recorded.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The operation at `index`, with its lane.
    ///
    /// # Panics
    /// When `index` is not below [`len`](Self::len).
    pub fn get(&self, index: usize) -> (LaneId, Op<'_>) {
        let entry = &self.entries[index];
        (entry.lane, self.decode(entry))
    }

    /// All operations, oldest first.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (LaneId, Op<'_>)> + '_ {
        self.entries.iter().map(|entry| (entry.lane, self.decode(entry)))
    }

    /// Forgets everything, keeping the memory.
    pub fn clear(&mut self) {
        self.entries.clear();
        self.arena.clear();
    }

    fn bytes(&self, entry: &Entry, len: u64) -> &[u8] {
        &self.arena[entry.data..entry.data + len as usize]
    }

    fn decode(&self, e: &Entry) -> Op<'_> {
        match e.code {
            Code::Compute => Op::Compute(e.a as u32),
            Code::Load => Op::Load {
                at: PoolOffset(e.a),
                len: e.b as u32,
                depends: (e.b >> 32 != NO_DEPENDENCE).then_some((e.b >> 32) as u32),
            },
            Code::Store => Op::Store { at: PoolOffset(e.a), bytes: self.bytes(e, e.b) },
            Code::StoreNt => Op::StoreNt { at: PoolOffset(e.a), bytes: self.bytes(e, e.b) },
            Code::Store64 => Op::Store64 {
                line: LineAddr(e.a),
                bytes: self.bytes(e, 64).try_into().expect("64 bytes were kept"),
            },
            Code::Rmw => Op::Rmw { at: PoolOffset(e.a), bytes: self.bytes(e, e.b) },
            Code::Clwb => Op::Flush { kind: FlushKind::Clwb, line: LineAddr(e.a) },
            Code::ClflushOpt => Op::Flush { kind: FlushKind::ClflushOpt, line: LineAddr(e.a) },
            Code::Clflush => Op::Flush { kind: FlushKind::Clflush, line: LineAddr(e.a) },
            Code::Sfence => Op::Sfence,
            Code::Mfence => Op::Mfence,
            Code::TxBegin => Op::TxBegin,
            Code::TxEnd => Op::TxEnd,
            Code::TxAbort => Op::TxAbort,
            Code::Ack => Op::Ack(TxId(e.a)),
            Code::Lock => Op::Lock { id: e.a, ticket: e.b },
            Code::Unlock => Op::Unlock { id: e.a, ticket: e.b },
            Code::Signal => Op::Signal { id: e.a, count: e.b },
            Code::Wait => Op::Wait { id: e.a, count: e.b },
            Code::Epoch => Op::Epoch,
            Code::Grow => Op::Grow { len: e.a },
        }
    }
}

impl Sink for OpLog {
    fn op(&mut self, lane: LaneId, op: Op<'_>) {
        let data = self.arena.len();
        let (code, a, b) = match op {
            Op::Compute(n) => (Code::Compute, u64::from(n), 0),
            Op::Load { at, len, depends } => {
                let depends = depends.map_or(NO_DEPENDENCE, u64::from);
                (Code::Load, at.0, u64::from(len) | depends << 32)
            }
            Op::Store { at, bytes } => (Code::Store, at.0, self.keep(bytes)),
            Op::StoreNt { at, bytes } => (Code::StoreNt, at.0, self.keep(bytes)),
            Op::Store64 { line, bytes } => (Code::Store64, line.0, self.keep(bytes)),
            Op::Rmw { at, bytes } => (Code::Rmw, at.0, self.keep(bytes)),
            Op::Flush { kind: FlushKind::Clwb, line } => (Code::Clwb, line.0, 0),
            Op::Flush { kind: FlushKind::ClflushOpt, line } => (Code::ClflushOpt, line.0, 0),
            Op::Flush { kind: FlushKind::Clflush, line } => (Code::Clflush, line.0, 0),
            Op::Sfence => (Code::Sfence, 0, 0),
            Op::Mfence => (Code::Mfence, 0, 0),
            Op::TxBegin => (Code::TxBegin, 0, 0),
            Op::TxEnd => (Code::TxEnd, 0, 0),
            Op::TxAbort => (Code::TxAbort, 0, 0),
            Op::Ack(tx) => (Code::Ack, tx.0, 0),
            Op::Lock { id, ticket } => (Code::Lock, id, ticket),
            Op::Unlock { id, ticket } => (Code::Unlock, id, ticket),
            Op::Signal { id, count } => (Code::Signal, id, count),
            Op::Wait { id, count } => (Code::Wait, id, count),
            Op::Epoch => (Code::Epoch, 0, 0),
            Op::Grow { len } => (Code::Grow, len, 0),
        };
        self.entries.push(Entry { lane, code, a, b, data });
    }
}

impl OpLog {
    fn keep(&mut self, bytes: &[u8]) -> u64 {
        self.arena.extend_from_slice(bytes);
        bytes.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_comes_back_as_it_went_in() {
        let line = [9u8; 64];
        let at = PoolOffset(40);
        let ops = [
            Op::Compute(3),
            Op::Load { at, len: 8, depends: None },
            Op::Load { at, len: 8, depends: Some(2) },
            Op::Store { at, bytes: &[1, 2, 3] },
            Op::StoreNt { at, bytes: &[4; 16] },
            Op::Store64 { line: LineAddr(2), bytes: &line },
            Op::Rmw { at, bytes: &[5; 8] },
            Op::Flush { kind: FlushKind::Clwb, line: LineAddr(1) },
            Op::Flush { kind: FlushKind::ClflushOpt, line: LineAddr(1) },
            Op::Flush { kind: FlushKind::Clflush, line: LineAddr(1) },
            Op::Sfence,
            Op::Mfence,
            Op::TxBegin,
            Op::TxEnd,
            Op::TxAbort,
            Op::Ack(TxId(77)),
            Op::Lock { id: 1, ticket: 2 },
            Op::Unlock { id: 1, ticket: 2 },
            Op::Signal { id: 3, count: 4 },
            Op::Wait { id: 3, count: 4 },
            Op::Epoch,
            Op::Grow { len: 8192 },
        ];
        let mut log = OpLog::default();
        for (i, op) in ops.into_iter().enumerate() {
            log.op(LaneId(i as u16), op);
        }
        for (i, op) in ops.into_iter().enumerate() {
            assert_eq!(log.get(i), (LaneId(i as u16), op));
        }
    }
}
