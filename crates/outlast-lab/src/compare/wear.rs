//! How memory wears: durable writes of each line.

use outlast_sim::Journal;

/// The distribution of writes over lines.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Wear {
    /// Lines that were written at all.
    pub lines: u64,
    /// Writes of the median line of these.
    pub p50: u64,
    /// Of that line below which 99 of 100 lie.
    pub p99: u64,
    /// Of the line written most.
    pub max: u64,
    /// How unevenly the written lines wear: 0 where all are written alike, towards 1 where one line
    /// takes all writes.
    pub gini: f64,
}

impl Wear {
    /// What a journal's entries from one on wrote; nothing where nothing was.
    pub(crate) fn of(journal: &Journal, from: usize) -> Option<Self> {
        let mut writes = std::collections::HashMap::new();
        for entry in from..journal.len() {
            let persisted = journal.get(entry);
            if !persisted.words.is_empty() {
                *writes.entry(persisted.line).or_insert(0u64) += 1;
            }
        }
        Self::of_counts(writes.into_values().collect())
    }

    fn of_counts(mut counts: Vec<u64>) -> Option<Self> {
        counts.sort_unstable();
        let max = *counts.last()?;
        let lines = counts.len();
        let at = |part: f64| counts[((lines - 1) as f64 * part) as usize];
        let sum: u64 = counts.iter().sum();
        // The Gini coefficient of sorted values, by their ranks.
        let ranked: f64 =
            counts.iter().zip(1u64..).map(|(count, rank)| rank as f64 * *count as f64).sum();
        let n = lines as f64;
        let gini = (2.0 * ranked / (n * sum as f64) - (n + 1.0) / n).max(0.0);
        Some(Self { lines: lines as u64, p50: at(0.5), p99: at(0.99), max, gini })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_wear_has_no_gini_and_one_hot_line_nearly_one() {
        let even = Wear::of_counts(vec![3; 100]).unwrap();
        assert_eq!((even.lines, even.p50, even.p99, even.max), (100, 3, 3, 3));
        assert!(even.gini < 1e-12);
        let mut counts = vec![1; 99];
        counts.push(1_000_000);
        let hot = Wear::of_counts(counts).unwrap();
        assert!(hot.gini > 0.98 && hot.max == 1_000_000 && hot.p50 == 1);
        // Two lines, one with three times the writes: a quarter.
        assert!((Wear::of_counts(vec![1, 3]).unwrap().gini - 0.25).abs() < 1e-12);
        assert_eq!(Wear::of_counts(Vec::new()), None);
    }
}
