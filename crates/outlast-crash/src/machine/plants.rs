//! Plants that sit outside the schemes: in the drain at a crash, in the image, in the program.

use outlast_schemes::{Breaks, Patch};
use outlast_sim::Cause;
use outlast_sim::timed::{Cycle, TimedJournal};
use outlast_trace::{FlushKind, Op, OpLog, PoolOffset, Sink};

/// Cycles for which an accepted write is in the queue for sure: column latency and more.
const QUEUED_CYCLES: u64 = 80;

/// An entry of the journal, and what its line held before it.
pub(super) type Before = (usize, PoolOffset, [u8; 64]);

/// What a broken drain or a torn write changes in the image of a crash at `now`, just behind
/// `point`, where the last few entries replaced what stands in `before`.
pub(super) fn damage(
    breaks: Breaks,
    journal: &TimedJournal,
    point: usize,
    now: Cycle,
    before: &[Before],
) -> Vec<Patch> {
    let restore = |at: PoolOffset, old: &[u8; 64], words: &dyn Fn(u64) -> bool| {
        let word = |k: u64| Patch { at: at.plus(8 * k), word: old.as_chunks::<8>().0[k as usize] };
        (0..8).filter(|k| words(*k)).map(word).collect::<Vec<_>>()
    };
    match breaks {
        Breaks::Drain => {
            let now = if now == Cycle::NEVER { journal.at(point - 1) } else { now };
            let queued = before.iter().find(|(entry, at, _)| {
                let later = before.iter().any(|(other, line, _)| other > entry && line == at);
                now.since(journal.at(*entry)) < QUEUED_CYCLES && !later
            });
            queued.map_or(Vec::new(), |(_, at, old)| restore(*at, old, &|_| true))
        }
        Breaks::TornRecord => {
            let last = before.last().filter(|(entry, _, _)| {
                *entry + 1 == point && journal.journal().get(*entry).cause == Cause::Logged
            });
            last.map_or(Vec::new(), |(_, at, old)| restore(*at, old, &|word| word >= 2))
        }
        _ => Vec::new(),
    }
}

/// The operations with what the plant changes in them.
pub(super) fn rewrite(breaks: Breaks, log: &OpLog) -> OpLog {
    let mut out = OpLog::default();
    for (lane, op) in log.iter() {
        match (breaks, op) {
            (Breaks::Clflushopt, Op::Flush { line, .. }) => {
                out.op(lane, Op::Flush { kind: FlushKind::ClflushOpt, line });
                continue;
            }
            (Breaks::FlushTwice, Op::Flush { .. }) => out.op(lane, op),
            (Breaks::MoreFences, Op::TxEnd) => out.op(lane, Op::Sfence),
            (Breaks::FlushClean, Op::Load { at, .. }) => {
                out.op(lane, op);
                out.op(lane, Op::Flush { kind: FlushKind::Clwb, line: at.line() });
                continue;
            }
            _ => {}
        }
        out.op(lane, op);
    }
    out
}
