//! Lists of contents without an allocation for each.

use std::slice::ChunksExact;

/// Contents of some units, at least one: for each content, the row of each unit.
#[derive(Debug)]
pub(super) struct Contents {
    units: usize,
    rows: Vec<u32>,
}

impl Contents {
    /// No contents yet, of `units` units each.
    pub fn new(units: usize) -> Self {
        debug_assert!(units > 0, "a content is of some units");
        Self { units, rows: Vec::new() }
    }

    pub fn len(&self) -> usize {
        self.rows.len() / self.units
    }

    pub fn iter(&self) -> ChunksExact<'_, u32> {
        self.rows.chunks_exact(self.units)
    }

    pub fn push(&mut self, rows: &[u32]) {
        debug_assert_eq!(rows.len(), self.units);
        self.rows.extend_from_slice(rows);
    }

    /// The same in ascending order, each once.
    pub fn sorted(self) -> Self {
        if self.len() < 2 {
            return self;
        }
        let mut all: Vec<&[u32]> = self.iter().collect();
        all.sort_unstable();
        all.dedup();
        Self { units: self.units, rows: all.concat() }
    }

    /// Whether this content is one of them; they are in ascending order.
    pub fn contains(&self, rows: impl Iterator<Item = u32> + Clone) -> bool {
        let (mut from, mut to) = (0, self.len());
        while from < to {
            let middle = from.midpoint(to);
            let of_middle = &self.rows[middle * self.units..][..self.units];
            match of_middle.iter().copied().cmp(rows.clone()) {
                std::cmp::Ordering::Equal => return true,
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_are_sorted_once_each_and_found() {
        let mut all = Contents::new(2);
        for rows in [[2, 0], [0, 1], [2, 0], [1, 7], [0, 0]] {
            all.push(&rows);
        }
        let sorted = all.sorted();
        let listed: Vec<&[u32]> = sorted.iter().collect();
        assert_eq!(listed, [&[0, 0], &[0, 1], &[1, 7], &[2, 0]]);
        assert_eq!(sorted.len(), 4);
        for (rows, is_there) in [([0, 0], true), ([2, 0], true), ([1, 6], false), ([3, 0], false)] {
            assert_eq!(sorted.contains(rows.into_iter()), is_there, "{rows:?}");
        }
        assert!(!Contents::new(1).sorted().contains([0].into_iter()));
    }
}
