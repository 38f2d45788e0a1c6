//! The marks that a run shows to the outside, by position.

use outlast_trace::{FlushKind, LaneId, Op, OpLog, TxId};

use crate::memory::history::tracker::Tracker;
use crate::memory::image::print;
use crate::memory::model::{Clflush, Model};
use crate::memory::verdict::Crash;
use crate::memory::witness::CrashPoint;

/// The acknowledgements and beginnings of transactions in a run, after those of earlier runs.
#[derive(Clone, Debug, Default)]
pub(crate) struct Told {
    pub acked: Vec<TxId>,
    pub begun: Vec<LaneId>,
    /// Positions of this run's own entries, which are the last ones.
    acked_at: Vec<usize>,
    begun_at: Vec<usize>,
}

impl Told {
    /// The marks of earlier runs.
    pub fn of(acked: &[TxId], begun: &[LaneId]) -> Self {
        Self { acked: acked.to_vec(), begun: begun.to_vec(), ..Self::default() }
    }

    /// These marks, and then those of `log`.
    pub fn with(&self, log: &OpLog) -> Self {
        let mut told =
            Self { acked: self.acked.clone(), begun: self.begun.clone(), ..Self::default() };
        for (index, (lane, op)) in log.iter().enumerate() {
            match op {
                Op::Ack(tx) => {
                    told.acked.push(tx);
                    told.acked_at.push(index);
                }
                Op::TxBegin => {
                    told.begun.push(lane);
                    told.begun_at.push(index);
                }
                _ => {}
            }
        }
        told
    }

    /// The crash at this point, as a judge is told of it.
    pub fn crash(&self, level: u32, point: &CrashPoint) -> Crash<'_> {
        Crash {
            level,
            op: point.op,
            acked: before(&self.acked, &self.acked_at, point.told),
            begun: before(&self.begun, &self.begun_at, point.told),
        }
    }

    /// A fingerprint of all that a judge is told.
    pub fn print(&self, crash: &Crash<'_>) -> u128 {
        let acked = crash.acked.iter().fold(0u128, |sum, tx| sum.wrapping_add(print(1, !tx.0)));
        acked.wrapping_add(print(2, crash.begun.len() as u64))
    }
}

fn before<'a, T>(entries: &'a [T], positions: &[usize], position: usize) -> &'a [T] {
    let earlier_runs = entries.len() - positions.len();
    &entries[..earlier_runs + positions.partition_point(|&at| at < position)]
}

/// Up to which operation the lane that issued `index` may have gone on while that store still
/// stood in its buffer (rule 11).
pub(crate) fn window_end(log: &OpLog, index: usize) -> usize {
    let (lane, _) = log.get(index);
    let ends = |&at: &usize| {
        let (other, op) = log.get(at);
        other != lane || matches!(op, Op::Sfence | Op::Mfence | Op::Rmw { .. })
    };
    (index + 1..log.len()).find(ends).unwrap_or(log.len())
}

/// No fewer crash points than there are from this operation on, the end of the run included.
pub(super) fn points_max(model: Model, log: &OpLog, from_op: usize) -> u64 {
    let tracker = Tracker::new(model);
    let stores_count = model.domain.row().has_durable_stores
        || model.clflush == Clflush::WithStores && flushes_in_order(log);
    let points = |(_, op): (LaneId, Op<'_>)| match op {
        Op::Sfence | Op::Mfence | Op::Rmw { .. } | Op::Grow { .. } => 1,
        Op::Store { .. } | Op::StoreNt { .. } | Op::Store64 { .. } if stores_count => {
            tracker.parts(&op) as u64
        }
        _ => 0,
    };
    1 + log.iter().skip(from_op).map(points).sum::<u64>()
}

fn flushes_in_order(log: &OpLog) -> bool {
    let is_ordered = |op| matches!(op, Op::Flush { kind: FlushKind::Clflush, .. });
    log.iter().any(|(_, op)| is_ordered(op))
}

/// A fingerprint of a sequence of operations.
pub(super) fn log_print(log: &OpLog) -> u128 {
    let mut sum = 0u128;
    for (index, (lane, op)) in log.iter().enumerate() {
        let (code, at, bytes): (u64, u64, &[u8]) = match op {
            Op::Store { at, bytes } => (1, at.0, bytes),
            Op::StoreNt { at, bytes } => (2, at.0, bytes),
            Op::Store64 { line, bytes } => (3, line.0, bytes),
            Op::Rmw { at, bytes } => (4, at.0, bytes),
            Op::Flush { kind, line } => (5 + kind as u64, line.0, &[]),
            Op::Sfence => (8, 0, &[]),
            Op::Mfence => (9, 0, &[]),
            Op::Ack(tx) => (10, tx.0, &[]),
            Op::TxBegin => (11, 0, &[]),
            Op::Grow { len } => (12, len, &[]),
            _ => continue,
        };
        let place = (index as u64) << 24 | u64::from(lane.0) << 8 | code;
        sum = sum.wrapping_add(print(place, at + 1));
        for (word, number) in bytes.chunks(8).zip(1u64..) {
            let mut value = [0; 8];
            value[..word.len()].copy_from_slice(word);
            let value = u64::from_le_bytes(value).wrapping_add(1);
            sum = sum.wrapping_add(print(place ^ number << 48, value));
        }
    }
    sum
}
