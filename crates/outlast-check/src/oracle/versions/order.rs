//! Whether what survived has a serial order.

use super::{Fault, Oracle, Version};

impl Oracle {
    /// A circle of dependencies among the transactions that are there. Who read a version comes
    /// after its writer, and before the one that replaced it.
    pub(super) fn find_cycle(&self, there: &[bool]) -> Option<Fault> {
        let after = self.dependencies(there);
        let mut state = vec![Mark::New; self.transactions.len()];
        let mut path = Vec::new();
        let numbers = (0..self.transactions.len()).filter(|&number| there[number]);
        for number in numbers {
            if let Some(cycle) = walk(number, &after, &mut state, &mut path) {
                let transactions = cycle.into_iter().map(|n| self.transactions[n].id).collect();
                return Some(Fault::Cycle { transactions });
            }
        }
        None
    }

    /// For each transaction, those that must come after it.
    fn dependencies(&self, there: &[bool]) -> Vec<Vec<usize>> {
        let mut after = vec![Vec::new(); self.transactions.len()];
        for (reader, tx) in self.transactions.iter().enumerate().filter(|(n, _)| there[*n]) {
            for &(key, seen) in &tx.reads {
                let chain = &self.keys[key.0 as usize];
                if seen != Version::INITIAL
                    && let Some(writer) = chain.writer(seen)
                    && there[writer]
                {
                    after[writer].push(reader);
                }
                let replacing = chain.replaced_by.get(&seen).into_iter().flatten();
                let others = replacing.filter_map(|version| chain.writer(*version));
                after[reader].extend(others.filter(|&other| other != reader && there[other]));
            }
        }
        after
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    New,
    OnPath,
    Done,
}

/// Depth first, without recursion: histories may be long.
fn walk(
    start: usize,
    after: &[Vec<usize>],
    state: &mut [Mark],
    path: &mut Vec<(usize, usize)>,
) -> Option<Vec<usize>> {
    if state[start] != Mark::New {
        return None;
    }
    state[start] = Mark::OnPath;
    path.push((start, 0));
    while let Some((number, next)) = path.last_mut() {
        let Some(&successor) = after[*number].get(*next) else {
            state[*number] = Mark::Done;
            path.pop();
            continue;
        };
        *next += 1;
        match state[successor] {
            Mark::New => {
                state[successor] = Mark::OnPath;
                path.push((successor, 0));
            }
            Mark::OnPath => {
                let from = path.iter().position(|(number, _)| *number == successor);
                return Some(path.drain(from.unwrap_or(0)..).map(|(number, _)| number).collect());
            }
            Mark::Done => {}
        }
    }
    None
}
