//! Whether a history of transactions is strictly serializable: Elle's method, for words.
//!
//! Every transaction stores values that no other one stores, and stores to a word only after it has
//! loaded it. So each value says who stored it, and what a store replaced says what came before: the
//! order of a word's values follows from the history alone, without a guess. What is left is a graph
//! of who must come before whom, and a serial order exists exactly when it has no cycle.
//!
//! | edge | from | to |
//! |---|---|---|
//! | stored over | who stored a value | who replaced it |
//! | was read | who stored a value | who loaded it |
//! | read before | who loaded a value | who replaced it |
//! | was over | the calls that had returned | the calls made after that |
//!
//! The last makes it *strict*: acknowledged transactions are seen by all that begin later.
//!
//! ```
//! use outlast_check::oracle::{Anomaly, Call, SerialHistory};
//!
//! // Each loads a cell that the other stores to: write skew.
//! let mut history = SerialHistory::new(0);
//! history.add(Call { began: 1, ended: 4, loads: vec![(0, 0), (1, 0)], stores: vec![(0, 0, 7)] });
//! history.add(Call { began: 2, ended: 3, loads: vec![(0, 0), (1, 0)], stores: vec![(1, 0, 8)] });
//! assert!(matches!(history.check(), Err(Anomaly::Cycle(_))));
//! ```

use std::collections::{HashMap, VecDeque};

/// A word's name.
pub type Cell = u64;

/// A value that one transaction alone stores, or the initial one.
pub type Value = u64;

/// A transaction that has committed.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Call {
    /// When it was called, in any unit, the same for all.
    pub began: u64,
    /// When it returned.
    pub ended: u64,
    /// Values loaded from cells before it stored to them.
    pub loads: Vec<(Cell, Value)>,
    /// Cells, the value that it loaded there, and the one that it left there.
    pub stores: Vec<(Cell, Value, Value)>,
}

/// Why one transaction comes before another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Edge {
    /// The other one replaced its value of the cell.
    StoredOver(Cell),
    /// The other one loaded its value of the cell.
    WasRead(Cell),
    /// It loaded a value of the cell that the other one replaced.
    ReadBefore(Cell),
    /// It had returned when the other one was called.
    WasOver,
}

/// A history that no serial order of the transactions explains.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Anomaly {
    /// A transaction loaded a value that no committed transaction left there.
    #[error("transaction {reader} loaded {value} from cell {cell}, which no commit left there")]
    DirtyRead {
        /// The transaction, counted from zero in the order in which they were added.
        reader: usize,
        /// The cell.
        cell: Cell,
        /// The loaded value.
        value: Value,
    },
    /// Two transactions replaced the same value.
    #[error("transactions {one} and {other} both replaced value {value} of cell {cell}")]
    LostUpdate {
        /// The first of them,
        one: usize,
        /// and the second.
        other: usize,
        /// The cell.
        cell: Cell,
        /// The value that both had loaded.
        value: Value,
    },
    /// Each comes before the next for that reason, and the last before the first.
    #[error("a cycle: {0:?}")]
    Cycle(Vec<(usize, Edge)>),
}

/// Loads and stores of the transactions of a run.
#[derive(Clone, Debug)]
pub struct SerialHistory {
    initial: Value,
    calls: Vec<Call>,
}

impl SerialHistory {
    /// A history of cells that all hold the same value at first.
    pub fn new(initial: Value) -> Self {
        Self { initial, calls: Vec::new() }
    }

    /// Adds a committed transaction. The order in which they are added says nothing.
    ///
    /// # Panics
    /// When it returned before it was called.
    pub fn add(&mut self, call: Call) {
        assert!(call.began <= call.ended, "{call:?}");
        self.calls.push(call);
    }

    /// How many transactions there are.
    pub fn len(&self) -> usize {
        self.calls.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether one order of the transactions explains everything that they loaded, and is theirs in
    /// time wherever one was over before another began.
    ///
    /// # Errors
    /// [`Anomaly`]: why there is none; of cycles one as short as possible.
    ///
    /// # Panics
    /// When two transactions stored the same value to a cell: then values do not say whose they are.
    pub fn check(&self) -> Result<(), Anomaly> {
        let graph = self.graph()?;
        match graph.shortest_cycle() {
            None => Ok(()),
            Some(cycle) => Err(Anomaly::Cycle(cycle)),
        }
    }

    fn graph(&self) -> Result<Graph, Anomaly> {
        let mut stored_by = HashMap::new();
        let mut replaced_by = HashMap::new();
        for (id, call) in self.calls.iter().enumerate() {
            for &(cell, old, new) in &call.stores {
                let other = stored_by.insert((cell, new), id);
                assert!(other.is_none() && new != self.initial, "value {new} is not one's alone");
                if let Some(one) = replaced_by.insert((cell, old), id) {
                    return Err(Anomaly::LostUpdate { one, other: id, cell, value: old });
                }
            }
        }
        let mut graph = Graph::in_time(&self.calls);
        for (id, call) in self.calls.iter().enumerate() {
            let stores = call.stores.iter().map(|(cell, old, _)| (*cell, *old, true));
            let loads = call.loads.iter().map(|(cell, value)| (*cell, *value, false));
            for (cell, value, replaces) in stores.chain(loads) {
                if value != self.initial {
                    let Some(&writer) = stored_by.get(&(cell, value)) else {
                        return Err(Anomaly::DirtyRead { reader: id, cell, value });
                    };
                    let edge = if replaces { Edge::StoredOver(cell) } else { Edge::WasRead(cell) };
                    graph.add(writer, id, edge);
                }
                if let Some(&next) = replaced_by.get(&(cell, value)).filter(|next| **next != id) {
                    graph.add(id, next, Edge::ReadBefore(cell));
                }
            }
        }
        Ok(graph)
    }
}

/// Who comes before whom. Behind the transactions stand as many moments: that at which each one
/// returned, in order, so that time takes an edge or two of each transaction and not of each pair.
struct Graph {
    calls: usize,
    next: Vec<Vec<(usize, Edge)>>,
}

impl Graph {
    fn in_time(calls: &[Call]) -> Self {
        let mut graph = Self { calls: calls.len(), next: vec![Vec::new(); 2 * calls.len()] };
        let mut ended: Vec<usize> = (0..calls.len()).collect();
        ended.sort_by_key(|id| calls[*id].ended);
        for (moment, id) in ended.iter().enumerate() {
            graph.next[*id].push((calls.len() + moment, Edge::WasOver));
            if moment > 0 {
                graph.next[calls.len() + moment - 1].push((calls.len() + moment, Edge::WasOver));
            }
        }
        for (id, call) in calls.iter().enumerate() {
            let before = ended.partition_point(|other| calls[*other].ended < call.began);
            if before > 0 {
                graph.next[calls.len() + before - 1].push((id, Edge::WasOver));
            }
        }
        graph
    }

    fn add(&mut self, from: usize, to: usize, edge: Edge) {
        if from != to {
            self.next[from].push((to, edge));
        }
    }

    /// Nodes that lie on cycles, or between some.
    fn knotted(&self) -> Vec<bool> {
        // What has nothing before it is on no cycle, nor is what has only such before it.
        let mut before = vec![0usize; self.next.len()];
        self.next.iter().flatten().for_each(|(to, _)| before[*to] += 1);
        let mut free: Vec<usize> = (0..before.len()).filter(|node| before[*node] == 0).collect();
        let mut knotted = vec![true; before.len()];
        while let Some(node) = free.pop() {
            knotted[node] = false;
            for (to, _) in &self.next[node] {
                before[*to] -= 1;
                if before[*to] == 0 {
                    free.push(*to);
                }
            }
        }
        knotted
    }

    fn shortest_cycle(&self) -> Option<Vec<(usize, Edge)>> {
        let knotted = self.knotted();
        let starts = (0..self.calls).filter(|id| knotted[*id]);
        // One of the first few is as good to look at as the shortest of all.
        starts.take(256).filter_map(|id| self.cycle_through(id, &knotted)).min_by_key(Vec::len)
    }

    /// The shortest way from a transaction back to it, moments left out.
    fn cycle_through(&self, start: usize, knotted: &[bool]) -> Option<Vec<(usize, Edge)>> {
        let mut came_by: HashMap<usize, (usize, Edge)> = HashMap::new();
        let mut queue = VecDeque::from([start]);
        while let Some(node) = queue.pop_front() {
            for (to, edge) in self.next[node].iter().filter(|(to, _)| knotted[*to]) {
                if *to == start {
                    let (mut cycle, mut at) = (vec![(node, *edge)], node);
                    while at != start {
                        let (from, edge) = came_by[&at];
                        cycle.push((from, edge));
                        at = from;
                    }
                    cycle.reverse();
                    cycle.retain(|(id, _)| *id < self.calls);
                    return Some(cycle);
                }
                came_by.entry(*to).or_insert_with(|| {
                    queue.push_back(*to);
                    (node, *edge)
                });
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(began: u64, ended: u64, loads: &[(u64, u64)], stores: &[(u64, u64, u64)]) -> Call {
        Call { began, ended, loads: loads.to_vec(), stores: stores.to_vec() }
    }

    fn check(calls: &[Call]) -> Result<(), Anomaly> {
        let mut history = SerialHistory::new(0);
        calls.iter().for_each(|call| history.add(call.clone()));
        history.check()
    }

    fn edges(result: Result<(), Anomaly>) -> Vec<Edge> {
        match result {
            Err(Anomaly::Cycle(cycle)) => cycle.into_iter().map(|(_, edge)| edge).collect(),
            other => panic!("no cycle: {other:?}"),
        }
    }

    #[test]
    fn serial_histories_pass_in_whatever_order_they_are_told() {
        let calls = [
            call(0, 1, &[], &[(0, 0, 1), (1, 0, 1)]),
            call(2, 5, &[(0, 1)], &[(1, 1, 2)]),
            call(3, 4, &[(0, 1), (1, 1)], &[]),
            call(6, 7, &[(1, 2)], &[(0, 1, 3)]),
        ];
        assert_eq!(check(&calls), Ok(()));
        let backwards: Vec<Call> = calls.iter().rev().cloned().collect();
        assert_eq!(check(&backwards), Ok(()));
        assert_eq!(check(&[]), Ok(()));
    }

    #[test]
    fn each_anomaly_is_called_by_its_name() {
        let lost = [call(0, 3, &[], &[(0, 0, 1)]), call(0, 3, &[], &[(0, 0, 2)])];
        let expected = Anomaly::LostUpdate { one: 0, other: 1, cell: 0, value: 0 };
        assert_eq!(check(&lost), Err(expected));
        // What an aborted transaction had stored.
        let dirty = [call(0, 1, &[(3, 9)], &[])];
        assert_eq!(check(&dirty), Err(Anomaly::DirtyRead { reader: 0, cell: 3, value: 9 }));
        // Two words, one old and one new.
        let torn = [call(0, 9, &[], &[(0, 0, 1), (1, 0, 1)]), call(0, 9, &[(0, 1), (1, 0)], &[])];
        assert_eq!(edges(check(&torn)), [Edge::WasRead(0), Edge::ReadBefore(1)]);
        // Two readers see two writers in different orders.
        let long_fork = [
            call(0, 9, &[], &[(0, 0, 1)]),
            call(0, 9, &[], &[(1, 0, 1)]),
            call(0, 9, &[(0, 1), (1, 0)], &[]),
            call(0, 9, &[(0, 0), (1, 1)], &[]),
        ];
        assert_eq!(edges(check(&long_fork)).len(), 4);
        // Each stores over the other's.
        let circle =
            [call(0, 9, &[], &[(0, 0, 1), (1, 2, 3)]), call(0, 9, &[], &[(1, 0, 2), (0, 1, 4)])];
        assert_eq!(edges(check(&circle)), [Edge::StoredOver(0), Edge::StoredOver(1)]);
    }

    #[test]
    fn what_was_over_is_seen() {
        // A store that was acknowledged, and a later load of what it replaced.
        let stale = |began| [call(0, 3, &[], &[(0, 0, 1)]), call(began, began + 5, &[(0, 0)], &[])];
        assert_eq!(edges(check(&stale(4))), [Edge::WasOver, Edge::ReadBefore(0)]);
        assert_eq!(check(&stale(3)), Ok(()), "they were under way together");
        // Also across others in between.
        let mut far = stale(40).to_vec();
        far.extend((0..10).map(|n| call(4 + n, 5 + n, &[(7, 0)], &[])));
        assert_eq!(edges(check(&far)), [Edge::WasOver, Edge::ReadBefore(0)]);
    }
}
