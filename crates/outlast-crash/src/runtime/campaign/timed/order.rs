//! What lanes of a recorded run keep of its order on the machine: signals that they raise, and
//! places at which they wait for them.
//!
//! Locks keep their order by their tickets. Besides that:
//!
//! - [`behind_acknowledgements`]: before a lane touches a word that a transaction of another lane
//!   stored last, that transaction is acknowledged.
//! - [`behind_fences`]: before any operation of a lane, all fences that other lanes had done by
//!   then are over. Before it touches a word that another lane stored last, or flushes a line of
//!   one, that store is visible.
//!
//! Why the second is enough for crashes: nothing becomes durable for certain but by a flush, or a
//! stream, and a fence of the lane that made it. So what a lane concludes of what is durable rests
//! on fences of the other lanes before, on its own flushes and fences of lines that it saw stored,
//! or on locks. And it is not too much to find mistakes: a store or flush that no fence follows
//! may be as late as the machine makes it.

use std::collections::HashMap;

use outlast_trace::{LaneId, Op, OpLog, PoolOffset, Sink};

/// Signals of lanes, whose numbers no others have.
const SIGNALS: u64 = 1 << 63;

/// The words that an operation touches, and whether it stores to them.
fn words(op: Op<'_>) -> (std::ops::Range<u64>, bool) {
    let (first, len, stores) = match op {
        Op::Load { at, len, .. } => (at, u64::from(len), false),
        Op::Store { at, bytes } | Op::StoreNt { at, bytes } | Op::Rmw { at, bytes } => {
            (at, bytes.len() as u64, true)
        }
        Op::Store64 { line, .. } => (line.start(), 64, true),
        _ => (PoolOffset(0), 0, false),
    };
    (first.0 / 8..(first.0 + len).div_ceil(8), stores)
}

fn signal(out: &mut OpLog, lane: LaneId, count: u64) {
    out.op(lane, Op::Signal { id: SIGNALS | u64::from(lane.0), count });
}

fn wait(out: &mut OpLog, lane: LaneId, other: LaneId, count: u64) {
    out.op(lane, Op::Wait { id: SIGNALS | u64::from(other.0), count });
}

/// The same operations, where each lane raises a signal after each acknowledgement, and waits for
/// the signal of the lane that stored a word last before it touches that. Returns also the operation
/// that `warm_at` has become.
pub(super) fn behind_acknowledgements(log: &OpLog, warm_at: usize) -> (OpLog, usize) {
    let mut waiting = OpLog::default();
    let mut stored: HashMap<u64, (LaneId, u64)> = HashMap::new();
    let mut acknowledged: HashMap<LaneId, u64> = HashMap::new();
    // How far each lane is known to have waited for each other.
    let mut waited: HashMap<(LaneId, LaneId), u64> = HashMap::new();
    let mut warm_until = 0;
    for (at, (lane, op)) in log.iter().enumerate() {
        if at == warm_at {
            warm_until = waiting.len();
        }
        let (touched, stores) = words(op);
        for word in touched {
            if let Some(&(other, number)) = stored.get(&word).filter(|(other, _)| *other != lane) {
                let known = waited.entry((lane, other)).or_insert(0);
                if *known < number {
                    *known = number;
                    wait(&mut waiting, lane, other, number);
                }
            }
            if stores {
                stored.insert(word, (lane, acknowledged.get(&lane).map_or(0, |n| *n) + 1));
            }
        }
        waiting.op(lane, op);
        if let Op::Ack(_) = op {
            let number = acknowledged.entry(lane).or_insert(0);
            *number += 1;
            signal(&mut waiting, lane, *number);
        }
    }
    (waiting, warm_until)
}

/// One operation that another lane waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Edge {
    /// Before this operation,
    to: usize,
    /// the lane that did this one,
    lane: LaneId,
    /// is done with it.
    from: usize,
}

/// The same operations, where lanes wait for fences, stores and flushed lines of others. Returns
/// also the operation that `warm_at` has become.
pub(super) fn behind_fences(log: &OpLog, warm_at: usize) -> (OpLog, usize) {
    let edges = edges(log);
    let mut awaited: Vec<usize> = edges.iter().map(|edge| edge.from).collect();
    awaited.sort_unstable();
    awaited.dedup();
    // Of what a lane waits for, its place among those of its lane, from 1 on.
    let mut counts: HashMap<usize, u64> = HashMap::new();
    let mut raised: HashMap<LaneId, u64> = HashMap::new();
    for at in awaited {
        let count = raised.entry(log.get(at).0).or_insert(0);
        *count += 1;
        counts.insert(at, *count);
    }
    let (mut waiting, mut warm_until) = (OpLog::default(), 0);
    let mut edges = edges.iter().peekable();
    for (at, (lane, op)) in log.iter().enumerate() {
        if at == warm_at {
            warm_until = waiting.len();
        }
        while let Some(edge) = edges.next_if(|edge| edge.to == at) {
            wait(&mut waiting, lane, edge.lane, counts[&edge.from]);
        }
        waiting.op(lane, op);
        if let Some(&count) = counts.get(&at) {
            signal(&mut waiting, lane, count);
        }
    }
    (waiting, warm_until)
}

/// What has to come first, in the order of what waits, without what follows from the rest.
fn edges(log: &OpLog) -> Vec<Edge> {
    let mut edges = Vec::new();
    let mut word_stored: HashMap<u64, (LaneId, usize)> = HashMap::new();
    let mut line_stored: HashMap<u64, HashMap<LaneId, usize>> = HashMap::new();
    let mut fenced: HashMap<LaneId, usize> = HashMap::new();
    let mut waited: HashMap<(LaneId, LaneId), usize> = HashMap::new();
    for (to, (lane, op)) in log.iter().enumerate() {
        if let Op::Compute(_) = op {
            continue; // No other lane sees it.
        }
        let (touched, stores) = words(op);
        let mut first: HashMap<LaneId, usize> = fenced.clone();
        let mut needs = |(other, from): (LaneId, usize)| {
            let last = first.entry(other).or_insert(from);
            *last = (*last).max(from);
        };
        touched.clone().filter_map(|word| word_stored.get(&word)).for_each(|at| needs(*at));
        if let Op::Flush { line, .. } = op {
            let stored = line_stored.get(&line.0).into_iter().flatten();
            stored.for_each(|(other, from)| needs((*other, *from)));
        }
        first.remove(&lane);
        let mut first: Vec<_> = first.into_iter().collect();
        first.sort_unstable();
        for (other, from) in first {
            if waited.get(&(lane, other)).is_none_or(|known| *known < from) {
                waited.insert((lane, other), from);
                edges.push(Edge { to, lane: other, from });
            }
        }
        if stores {
            for word in touched {
                word_stored.insert(word, (lane, to));
                line_stored.entry(word / 8).or_default().insert(lane, to);
            }
        }
        if let Op::Sfence | Op::Mfence | Op::Rmw { .. } = op {
            fenced.insert(lane, to);
        }
    }
    edges
}

#[cfg(test)]
mod tests {
    use outlast_trace::{FlushKind, LineAddr};

    use super::*;

    const STORE: Op<'_> = Op::Store { at: PoolOffset(72), bytes: &[1; 8] };
    const LOAD: Op<'_> = Op::Load { at: PoolOffset(72), len: 8, depends: None };
    const OTHER: Op<'_> = Op::Load { at: PoolOffset(80), len: 8, depends: None };
    const FLUSH: Op<'_> = Op::Flush { kind: FlushKind::Clwb, line: LineAddr(1) };

    fn edges_of(ops: &[(u16, Op<'_>)]) -> Vec<(usize, u16, usize)> {
        let mut log = OpLog::default();
        ops.iter().for_each(|(lane, op)| log.op(LaneId(*lane), *op));
        edges(&log).iter().map(|edge| (edge.to, edge.lane.0, edge.from)).collect()
    }

    #[test]
    fn lanes_wait_for_fences_for_stored_words_and_for_stores_to_flushed_lines() {
        assert_eq!(edges_of(&[(0, STORE), (1, LOAD), (1, LOAD)]), [(1, 0, 0)]);
        assert_eq!(edges_of(&[(0, STORE), (0, LOAD), (1, OTHER)]), []);
        assert_eq!(edges_of(&[(0, STORE), (1, OTHER), (1, FLUSH)]), [(2, 0, 0)]);
        assert_eq!(edges_of(&[(0, Op::Sfence), (1, Op::Compute(3)), (1, OTHER)]), [(2, 0, 0)]);
        // A later operation of the same lane brings the earlier ones with it.
        assert_eq!(edges_of(&[(0, STORE), (0, Op::Sfence), (1, LOAD), (0, FLUSH)]), [(2, 0, 1)]);
        // Two lanes stored to the line that the third flushes.
        let stores = [(0, STORE), (1, STORE), (2, FLUSH)];
        assert_eq!(edges_of(&stores), [(1, 0, 0), (2, 0, 0), (2, 1, 1)]);
    }

    #[test]
    fn only_what_is_awaited_raises_signals() {
        let mut log = OpLog::default();
        for (lane, op) in [(0, STORE), (0, Op::Sfence), (0, Op::Sfence), (1, LOAD)] {
            log.op(LaneId(lane), op);
        }
        let (waiting, warm_until) = behind_fences(&log, 3);
        let ops: Vec<_> = waiting.iter().skip(2).map(|(lane, op)| (lane.0, op)).collect();
        let signal = Op::Signal { id: SIGNALS, count: 1 };
        let wait = Op::Wait { id: SIGNALS, count: 1 };
        assert_eq!(ops, [(0, Op::Sfence), (0, signal), (1, wait), (1, LOAD)]);
        assert_eq!(warm_until, 4);
    }
}
