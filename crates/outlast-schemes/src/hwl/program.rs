//! What programs do for the mechanism: the calls around a transaction, and flushes where the
//! mechanism does not force lines out.

use crate::{BEGIN_INSTRUCTIONS, COMMIT_INSTRUCTIONS};
use outlast_trace::{ByteRange, FlushKind, LaneId, LineAddr, Op, OpLog, Sink};
use rustc_hash::FxHashMap;

/// The same operations with the instructions of `tx_begin` and `tx_commit` before the marks that
/// stand for what they tell the machine.
pub fn with_calls(bare: &OpLog) -> OpLog {
    let mut log = OpLog::default();
    for (lane, op) in bare.iter() {
        match op {
            Op::TxBegin => log.op(lane, Op::Compute(BEGIN_INSTRUCTIONS)),
            Op::TxEnd => log.op(lane, Op::Compute(COMMIT_INSTRUCTIONS)),
            _ => {}
        }
        log.op(lane, op);
    }
    log
}

/// Where a transaction's lines are flushed that no scan forces out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Flushes {
    /// Before it ends, and fenced: the paper's `hwl`.
    AtCommit,
    /// Behind its acknowledgement, and not fenced: undo and redo values together need no data
    /// written at commit, and the head waits for the lines by itself (G4).
    BehindCommit,
}

/// The same operations with every transaction's lines flushed: what `hwl` leaves to software, and
/// `fwb` to its scans.
pub fn with_flushes(bare: &OpLog, flushes: Flushes) -> OpLog {
    let mut log = OpLog::default();
    let mut stored: FxHashMap<LaneId, Vec<LineAddr>> = FxHashMap::default();
    for (lane, op) in bare.iter() {
        let lines = stored.entry(lane).or_default();
        if let Op::Store { at, bytes } = op {
            for line in ByteRange::new(at, bytes.len() as u64).lines() {
                if !lines.contains(&line) {
                    lines.push(line);
                }
            }
        }
        if flushes == Flushes::BehindCommit {
            log.op(lane, op);
        }
        let due = match flushes {
            Flushes::AtCommit => matches!(op, Op::TxEnd),
            Flushes::BehindCommit => matches!(op, Op::Ack(_)),
        };
        if due && !lines.is_empty() {
            for line in lines.drain(..) {
                log.op(lane, Op::Flush { kind: FlushKind::Clwb, line });
            }
            if flushes == Flushes::AtCommit {
                log.op(lane, Op::Sfence);
            }
        }
        if flushes == Flushes::AtCommit {
            log.op(lane, op);
        }
    }
    log
}
