//! Which syndromes of one side add up to which of the other.

use crate::{Line, lanes};

/// More summands than this have too many subsets.
const SUMMANDS_MAX: usize = 16;

/// The work that a search may do before it gives up. Equal syndromes have very many subsets of
/// equal sum, and no unique solution anyway.
pub(super) struct Budget(usize);

impl Default for Budget {
    fn default() -> Self {
        Self(1 << 16)
    }
}

impl Budget {
    fn spend(&mut self) -> Option<()> {
        self.0 = self.0.checked_sub(1)?;
        Some(())
    }
}

/// All ways to assign each summand to a total so that the summands of each total add up to it.
/// Entry i of a solution is the total to which summand i goes. `None` when the search gives up.
///
/// No total may be zero, or solutions that leave it empty are missed.
pub(super) fn assignments(
    summands: &[Line],
    totals: &[Line],
    allowed: impl Fn(usize, usize) -> bool,
    budget: &mut Budget,
) -> Option<Vec<Vec<usize>>> {
    if summands.len() > SUMMANDS_MAX {
        return None;
    }
    let choices = subsets(summands, totals, allowed, budget)?;
    let mut solutions = Vec::new();
    cover(summands.len(), &choices, &mut Vec::new(), &mut solutions, budget)?;
    Some(solutions)
}

/// For each total the subsets of allowed summands that add up to it, as bits.
fn subsets(
    summands: &[Line],
    totals: &[Line],
    allowed: impl Fn(usize, usize) -> bool,
    budget: &mut Budget,
) -> Option<Vec<Vec<u32>>> {
    let may: Vec<u32> = (0..totals.len())
        .map(|to| (0..summands.len()).filter(|from| allowed(*from, to)).map(|from| 1 << from).sum())
        .collect();
    let mut found = vec![Vec::new(); totals.len()];
    let mut sum = [0; 8];
    let mut subset = 0u32;
    // In Gray's order each subset differs from the one before in a single summand.
    for step in 1..1u32 << summands.len() {
        let changed = step.trailing_zeros() as usize;
        subset ^= 1 << changed;
        if subset >> changed & 1 == 1 {
            lanes::add(&mut sum, &summands[changed]);
        } else {
            lanes::subtract(&mut sum, &summands[changed]);
        }
        for (to, total) in totals.iter().enumerate() {
            if sum == *total && subset & !may[to] == 0 {
                budget.spend()?;
                found[to].push(subset);
            }
        }
    }
    Some(found)
}

/// Chooses one subset for each total, disjoint and together all summands.
fn cover(
    summands: usize,
    choices: &[Vec<u32>],
    chosen: &mut Vec<u32>,
    solutions: &mut Vec<Vec<usize>>,
    budget: &mut Budget,
) -> Option<()> {
    budget.spend()?;
    let used = chosen.iter().fold(0, |used, subset| used | subset);
    let Some(next) = choices.get(chosen.len()) else {
        let to = |from: usize| chosen.iter().position(|subset| subset >> from & 1 == 1);
        // Where a summand is left over, there is no solution.
        solutions.extend((0..summands).map(to).collect::<Option<Vec<_>>>());
        return Some(());
    };
    for subset in next.iter().filter(|subset| *subset & used == 0) {
        chosen.push(*subset);
        cover(summands, choices, chosen, solutions, budget)?;
        chosen.pop();
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(values: &[u64]) -> Vec<Line> {
        values.iter().map(|value| [*value; 8]).collect()
    }

    fn found(summands: &[u64], totals: &[u64]) -> Option<Vec<Vec<usize>>> {
        let (summands, totals) = (lines(summands), lines(totals));
        assignments(&summands, &totals, |_, _| true, &mut Budget::default())
    }

    #[test]
    fn every_way_to_add_up_is_found_once() {
        assert_eq!(found(&[1, 2, 4], &[5, 2]), Some(vec![vec![0, 1, 0]]));
        assert_eq!(found(&[1, 2, 4], &[3, 3]), Some(vec![]));
        assert_eq!(found(&[1, 2, 4], &[7]), Some(vec![vec![0, 0, 0]]));
        assert_eq!(found(&[3, 3], &[3, 3]), Some(vec![vec![0, 1], vec![1, 0]]));
        assert_eq!(found(&[1, 2, 3], &[3, 3]), Some(vec![vec![0, 0, 1], vec![1, 1, 0]]));
        assert_eq!(found(&[], &[]), Some(vec![vec![]]));
        assert_eq!(found(&[], &[1]), Some(vec![]));
    }

    #[test]
    fn what_is_not_allowed_is_not_found() {
        let (summands, totals) = (lines(&[3, 3]), lines(&[3, 3]));
        let only = |from, to| from == to;
        let found = assignments(&summands, &totals, only, &mut Budget::default());
        assert_eq!(found, Some(vec![vec![0, 1]]));
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn a_search_gives_up_rather_than_run_for_ever() {
        assert_eq!(found(&[1; 17], &[17]), None);
        assert_eq!(found(&[5; 16], &[5; 16]), None);
    }
}
