//! The rest of some work after a crash: what is left of its streams when a recovery has kept a number
//! of transactions on each set of data, or all that cores had executed at the end of an epoch.

use std::collections::{BTreeMap, HashMap};

use outlast_trace::{LaneId, Op, OpLog, Sink, TxId};

use outlast_sim::timed::rest_of;

use super::history::{There, data_of, number_of};
use crate::oracle::prefixes::Counts;

/// What is left of a stream where so much is there.
pub(super) fn rest(log: &OpLog, there: &There) -> OpLog {
    match there {
        There::Transactions(kept) => rest_of_transactions(log, kept),
        There::Epoch { positions, .. } => {
            rest_of(log, |lane| positions.get(usize::from(lane.0)).copied().unwrap_or(0))
        }
    }
}

/// The operations of the transactions that were not kept. Locks count their owners from 1 again.
fn rest_of_transactions(log: &OpLog, kept: &Counts) -> OpLog {
    let is_kept = |tx: &TxId| kept.get(&data_of(*tx)).is_some_and(|&kept| number_of(*tx) <= kept);
    let mut left_out: HashMap<u64, u64> = HashMap::new();
    let mut rest = OpLog::default();
    for ((lane, op), owner) in log.iter().zip(owners(log)) {
        let is_kept = owner.as_ref().is_some_and(is_kept);
        match op {
            Op::Lock { id, .. } if is_kept => *left_out.entry(id).or_default() += 1,
            _ if is_kept => {}
            Op::Lock { id, ticket } => {
                let ticket = ticket - left_out.get(&id).unwrap_or(&0);
                rest.op(lane, Op::Lock { id, ticket });
            }
            Op::Unlock { id, ticket } => {
                let ticket = ticket - left_out.get(&id).unwrap_or(&0);
                rest.op(lane, Op::Unlock { id, ticket });
            }
            _ => rest.op(lane, op),
        }
    }
    rest
}

/// The transactions of a lane, by the operations that begin them.
#[derive(Default)]
struct Lane {
    open: Vec<usize>,
    ended: Option<usize>,
    /// Operations between transactions: they belong to the next one.
    between: Vec<usize>,
}

/// The transaction to which each operation belongs. Outside of all it is the next one of the lane; what
/// releases a lock belongs to the one before. A transaction that aborts has no name, and goes with the
/// next one that has.
fn owners(log: &OpLog) -> Vec<Option<TxId>> {
    let mut lanes: BTreeMap<LaneId, Lane> = BTreeMap::new();
    let mut begins: Vec<Option<usize>> = vec![None; log.len()];
    let mut names: HashMap<usize, TxId> = HashMap::new();
    let mut aborted: Vec<usize> = Vec::new();
    for (index, (lane, op)) in log.iter().enumerate() {
        let lane = lanes.entry(lane).or_default();
        begins[index] = lane.open.last().copied();
        match op {
            Op::TxBegin => {
                begins[index] = Some(index);
                lane.between.drain(..).for_each(|before| begins[before] = Some(index));
                lane.open.push(index);
            }
            Op::TxEnd => lane.ended = lane.open.pop(),
            Op::TxAbort => {
                lane.ended = lane.open.pop();
                aborted.extend(lane.ended);
            }
            Op::Ack(tx) => {
                begins[index] = lane.ended;
                names.extend(lane.ended.into_iter().chain(aborted.drain(..)).map(|at| (at, tx)));
            }
            Op::Unlock { .. } if lane.open.is_empty() => begins[index] = lane.ended,
            _ if lane.open.is_empty() => lane.between.push(index),
            _ => {}
        }
    }
    begins.into_iter().map(|begin| names.get(&begin?).copied()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn log(ops: &[(u16, Op<'_>)]) -> OpLog {
        let mut log = OpLog::default();
        ops.iter().for_each(|(lane, op)| log.op(LaneId(*lane), *op));
        log
    }

    fn ops(log: &OpLog) -> Vec<(LaneId, Op<'_>)> {
        log.iter().collect()
    }

    fn tx(data: u64, number: u64) -> Op<'static> {
        Op::Ack(TxId(data << 32 | number))
    }

    #[test]
    fn a_lock_is_taken_in_the_order_that_is_left() {
        let of = |lane, ticket, number| {
            let (lock, unlock) = (Op::Lock { id: 7, ticket }, Op::Unlock { id: 7, ticket });
            [Op::Compute(9), lock, Op::TxBegin, Op::TxEnd, tx(0, number), unlock]
                .map(|op| (lane, op))
        };
        let mut aborted = of(1, 2, 0);
        (aborted[3].1, aborted[4].1) = (Op::TxAbort, Op::Compute(1));
        let all = log(&[of(0, 1, 1), aborted, of(1, 3, 2), of(0, 4, 3)].concat());
        assert_eq!(
            ops(&rest_of_transactions(&all, &Counts::from([(0, 2)]))),
            ops(&log(&of(0, 1, 3)))
        );
        aborted[1].1 = Op::Lock { id: 7, ticket: 1 };
        aborted[5].1 = Op::Unlock { id: 7, ticket: 1 };
        let shifted = [of(1, 2, 2), of(0, 3, 3)].concat();
        let with_aborted = log(&[aborted.to_vec(), shifted].concat());
        assert_eq!(ops(&rest_of_transactions(&all, &Counts::from([(0, 1)]))), ops(&with_aborted));
        assert_eq!(ops(&rest_of_transactions(&all, &Counts::new())), ops(&all));
    }

    #[test]
    fn a_transaction_inside_another_goes_or_stays_by_itself() {
        let load = |at| Op::Load { at: outlast_trace::PoolOffset(at), len: 8, depends: None };
        let outer = [Op::TxBegin, load(1)];
        let inner = [Op::TxBegin, load(2), Op::TxEnd, tx(1, 1)];
        let behind = [load(3), Op::TxEnd, tx(0, 1)];
        let of = |ops: &[&[Op<'static>]]| {
            let ops: Vec<_> = ops.concat().into_iter().map(|op| (0, op)).collect();
            log(&ops)
        };
        let all = of(&[&outer, &inner, &behind]);
        assert_eq!(ops(&rest_of_transactions(&all, &Counts::from([(0, 1)]))), ops(&of(&[&inner])));
        assert_eq!(
            ops(&rest_of_transactions(&all, &Counts::from([(1, 1)]))),
            ops(&of(&[&outer, &behind]))
        );
    }

    /// A store of two words, an unlock and a computation: each lane goes on in their middle, and what it
    /// has said to others stands.
    #[test]
    fn each_lane_goes_on_where_its_registers_say() {
        let (at, unlock) = (outlast_trace::PoolOffset(12), Op::Unlock { id: 7, ticket: 1 });
        let store = Op::Store { at, bytes: &[1, 2, 3, 4, 5, 6] };
        let all = log(&[(0, store), (1, Op::Compute(5)), (0, unlock), (0, Op::Epoch)]);
        let rest_at = |first, second| {
            let positions = vec![first, second];
            let rest = rest(&all, &There::Epoch { epoch: 1, positions });
            ops(&rest).iter().map(|op| format!("{op:?}")).collect::<Vec<_>>()
        };
        let expected = |of: &[(u16, Op<'_>)]| {
            ops(&log(of)).iter().map(|op| format!("{op:?}")).collect::<Vec<_>>()
        };
        assert_eq!(
            rest_at(0, 0),
            expected(&[(0, store), (1, Op::Compute(5)), (0, unlock), (0, Op::Epoch)])
        );
        let second_word = Op::Store { at: at.plus(4), bytes: &[5, 6] };
        assert_eq!(
            rest_at(1, 3),
            expected(&[(0, second_word), (1, Op::Compute(2)), (0, unlock), (0, Op::Epoch)])
        );
        assert_eq!(rest_at(2, 5), expected(&[(0, unlock), (0, Op::Epoch)]));
        assert_eq!(rest_at(4, 5), expected(&[(0, unlock)]));
    }
}
