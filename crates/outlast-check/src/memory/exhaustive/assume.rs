//! Counterfactuals: the same run on memory that is kinder than the fault model.
//!
//! If a failure vanishes once every fence flushes by itself, a flush was missing. The classes of
//! findings are told apart in this way.

use std::borrow::Cow;
use std::collections::BTreeSet;

use outlast_trace::{ByteRange, FlushKind, LaneId, LineAddr, Op, OpLog, PoolOffset, Sink};

use crate::memory::history::tracker::{Cells, Tracker, Words};
use crate::memory::model::{Domain, Model, Tear};

/// Assumptions of a check beyond the fault model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) enum Assume {
    /// Nothing: the model as it is.
    #[default]
    Nothing,
    /// Each fence flushes all lines that its lane stored to.
    FencesFlush,
    /// Each flush and each stream is durable at once.
    FlushesFence,
    /// Stores persist in the order of the program, across lines.
    ProgramOrder,
    /// Stores are durable as they are issued, word by word.
    Durable(Words),
}

impl Assume {
    pub fn tracker(self, model: Model) -> Tracker {
        match self {
            Self::Nothing | Self::FencesFlush | Self::FlushesFence => Tracker::new(model),
            Self::ProgramOrder => {
                let model = Model { domain: Domain::Adr, tear: Tear::Line, ..model };
                Tracker::with(model, Cells::One, Words::Ascending)
            }
            Self::Durable(words) => {
                Tracker::with(model.in_domain(Domain::Process), Cells::ByModel, words)
            }
        }
    }

    /// Where the operations from `op` on begin among those that [`rewrite`](Self::rewrite) gives.
    pub fn position(self, log: &OpLog, op: usize) -> usize {
        self.rewrite(&prefix(log, op)).len()
    }

    /// The operations as they would be.
    pub fn rewrite(self, log: &OpLog) -> Cow<'_, OpLog> {
        match self {
            Self::Nothing => Cow::Borrowed(log),
            Self::Durable(Words::Whole) => Cow::Owned(join_stores_to_one_word(log)),
            Self::Durable(_) => Cow::Borrowed(log),
            Self::FencesFlush => Cow::Owned(flush_at_fences(log)),
            Self::FlushesFence => Cow::Owned(fence_at_flushes(log)),
            Self::ProgramOrder => Cow::Owned(streams_as_stores(log)),
        }
    }
}

/// The first operations of a run.
pub(crate) fn prefix(log: &OpLog, len: usize) -> OpLog {
    let mut first = OpLog::default();
    log.iter().take(len).for_each(|(lane, op)| first.op(lane, op));
    first
}

/// A run up to a fence, in which the acknowledgement at `ack` comes behind that fence, and those after
/// it do not come.
pub(crate) fn acknowledged_at(log: &OpLog, ack: usize, fence: usize) -> OpLog {
    let mut waits = prefix(log, ack);
    for (lane, op) in log.iter().take(fence + 1).skip(ack + 1) {
        if !matches!(op, Op::Ack(_)) {
            waits.op(lane, op);
        }
    }
    let (lane, op) = log.get(ack);
    waits.op(lane, op);
    waits
}

fn flush_at_fences(log: &OpLog) -> OpLog {
    let mut all = OpLog::default();
    let mut dirty: BTreeSet<(LaneId, LineAddr)> = BTreeSet::new();
    for (lane, op) in log.iter() {
        if matches!(op, Op::Sfence | Op::Mfence | Op::Rmw { .. }) {
            for &(_, line) in dirty.iter().filter(|(by, _)| *by == lane) {
                all.op(lane, Op::Flush { kind: FlushKind::Clwb, line });
            }
            dirty.retain(|(by, _)| *by != lane);
        }
        all.op(lane, op);
        if let Op::Store { at, bytes } | Op::Rmw { at, bytes } = op {
            dirty.extend(ByteRange::new(at, bytes.len() as u64).lines().map(|line| (lane, line)));
        }
    }
    all
}

fn fence_at_flushes(log: &OpLog) -> OpLog {
    let mut all = OpLog::default();
    for (lane, op) in log.iter() {
        all.op(lane, op);
        if matches!(op, Op::Flush { .. } | Op::StoreNt { .. } | Op::Store64 { .. }) {
            all.op(lane, Op::Mfence);
        }
    }
    all
}

fn streams_as_stores(log: &OpLog) -> OpLog {
    let mut all = OpLog::default();
    for (lane, op) in log.iter() {
        match op {
            Op::StoreNt { at, bytes } => store_and_flush(&mut all, lane, at, bytes),
            Op::Store64 { line, bytes } => store_and_flush(&mut all, lane, line.start(), bytes),
            _ => all.op(lane, op),
        }
    }
    all
}

fn store_and_flush(all: &mut OpLog, lane: LaneId, at: PoolOffset, bytes: &[u8]) {
    all.op(lane, Op::Store { at, bytes });
    for line in ByteRange::new(at, bytes.len() as u64).lines() {
        all.op(lane, Op::Flush { kind: FlushKind::Clwb, line });
    }
}

/// Makes stores of one lane that follow each other directly, to one word, a single store.
fn join_stores_to_one_word(log: &OpLog) -> OpLog {
    let mut all = OpLog::default();
    let mut held: Option<(LaneId, PoolOffset, Vec<u8>)> = None;
    for (lane, op) in log.iter() {
        if let (Op::Store { at, bytes }, Some((by, from, joined))) = (op, &mut held)
            && lane == *by
            && at.0 == from.0 + joined.len() as u64
            && at.0 % 8 != 0
            && from.0 / 8 == (at.0 + bytes.len() as u64 - 1) / 8
        {
            joined.extend_from_slice(bytes);
            continue;
        }
        if let Some((lane, at, bytes)) = held.take() {
            all.op(lane, Op::Store { at, bytes: &bytes });
        }
        match op {
            Op::Store { at, bytes } => held = Some((lane, at, bytes.to_vec())),
            _ => all.op(lane, op),
        }
    }
    if let Some((lane, at, bytes)) = held {
        all.op(lane, Op::Store { at, bytes: &bytes });
    }
    all
}

#[cfg(test)]
mod tests {
    use outlast_trace::TxId;

    use super::*;

    fn shown(log: &OpLog) -> Vec<String> {
        let name = |op: Op<'_>| match op {
            Op::Store { at, bytes } => format!("store {at} {}", bytes.len()),
            Op::Flush { line, .. } => format!("flush {line}"),
            other => format!("{other:?}"),
        };
        log.iter().map(|(lane, op)| format!("{}: {}", lane.0, name(op))).collect()
    }

    fn log(ops: &[(u16, Op<'_>)]) -> OpLog {
        let mut log = OpLog::default();
        ops.iter().for_each(|(lane, op)| log.op(LaneId(*lane), *op));
        log
    }

    #[test]
    fn fences_flush_what_their_lane_stored_and_nothing_else() {
        let at = |at| PoolOffset(at);
        let log = log(&[
            (0, Op::Store { at: at(60), bytes: &[1; 8] }),
            (1, Op::Store { at: at(128), bytes: &[1; 8] }),
            (0, Op::Sfence),
            (0, Op::Sfence),
        ]);
        assert_eq!(
            shown(&Assume::FencesFlush.rewrite(&log))[2..],
            ["0: flush line 0x0", "0: flush line 0x1", "0: Sfence", "0: Sfence"]
        );
    }

    #[test]
    fn one_acknowledgement_waits_for_a_fence_and_later_ones_are_left_out() {
        let ack = |number| Op::Ack(TxId(number));
        let log = log(&[
            (0, ack(1)),
            (0, ack(2)),
            (1, Op::Sfence),
            (1, ack(3)),
            (0, Op::Sfence),
            (0, Op::Mfence),
        ]);
        let after = |op, fence| shown(&acknowledged_at(&log, op, fence));
        assert_eq!(after(0, 2), ["1: Sfence", "0: Ack(TxId(1))"]);
        let both = ["0: Ack(TxId(1))", "1: Sfence", "0: Sfence", "0: Ack(TxId(2))"];
        assert_eq!(after(1, 4), both);
    }

    #[test]
    fn only_neighbouring_stores_to_one_word_are_joined() {
        let store = |at| Op::Store { at: PoolOffset(at), bytes: &[1; 4] };
        let log =
            log(&[(0, store(8)), (0, store(12)), (0, store(16)), (1, store(20)), (0, Op::Sfence)]);
        assert_eq!(
            shown(&Assume::Durable(Words::Whole).rewrite(&log)),
            ["0: store 0x8 8", "0: store 0x10 4", "1: store 0x14 4", "0: Sfence"]
        );
    }
}
