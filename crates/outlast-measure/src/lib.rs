//! Fair comparisons: rounds in an order drawn by chance, and the quantiles of what they measured.
//!
//! [`Rounds`] gives every subject one turn a round, so that a disturbance of the machine meets all of them, in
//! an order that is drawn anew each round, so that no subject always follows the same one. A [`Spread`] is the
//! median of one subject's turns with its quartiles. Ratios of two subjects are formed within a round, where
//! both ran side by side; the median is taken last.
//!
//! ```
//! use outlast_measure::{Rounds, Spread};
//!
//! let subjects = [10.0, 20.0];
//! let turns = Rounds::new(5, 1).run(subjects.len(), |subject, round| {
//!     Ok::<_, std::convert::Infallible>(subjects[subject] + f64::from(round))
//! });
//! let turns = turns.unwrap();
//! let ratio = Spread::of(turns[1].iter().zip(&turns[0]).map(|(b, a)| b / a)).unwrap();
//! assert_eq!(ratio.median, 22.0 / 12.0);
//! assert_eq!(format!("{:.1}", Spread::of([4.0, 1.0, 3.0, 2.0]).unwrap()), "2.5 (1.8 to 3.2)");
//! ```
#![forbid(unsafe_code)]

use std::fmt;

use outlast_trace::Random;

/// The middle of several rounds, and how far they spread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// Half of the rounds lie below.
    pub median: f64,
    /// A quarter lies below.
    pub p25: f64,
    /// Three quarters lie below.
    pub p75: f64,
    /// The number of rounds.
    pub rounds: u32,
}

impl Spread {
    /// The spread of at least one finite value, in any order; `None` of nothing.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut sorted: Vec<f64> = values.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        (!sorted.is_empty()).then(|| Self {
            median: quantile(&sorted, 0.5),
            p25: quantile(&sorted, 0.25),
            p75: quantile(&sorted, 0.75),
            rounds: sorted.len() as u32,
        })
    }

    /// The same rounds in another unit.
    #[must_use]
    pub fn scaled(self, by: f64) -> Self {
        Self { median: self.median * by, p25: self.p25 * by, p75: self.p75 * by, ..self }
    }
}

/// The median, and the quartiles in parentheses; with two digits behind the point, or those asked for.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        let Self { median, p25, p75, .. } = self;
        let text = format!("{median:.digits$} ({p25:.digits$} to {p75:.digits$})");
        write!(f, "{text:width$}", width = f.width().unwrap_or(0))
    }
}

/// The value below which a share of the `sorted` values lies, interpolated between neighbours
/// (the definition that spreadsheets and NumPy use by default).
///
/// # Panics
/// When there are no values.
pub fn quantile(sorted: &[f64], share: f64) -> f64 {
    let position = share.clamp(0.0, 1.0) * (sorted.len() - 1) as f64;
    let below = sorted[position.floor() as usize];
    let above = sorted[position.ceil() as usize];
    below + (above - below) * position.fract()
}

/// Latencies of one turn's operations, one after the other.
#[derive(Clone, PartialEq, Debug)]
pub struct Times {
    /// Nanoseconds in ascending order.
    sorted: Vec<f64>,
}

impl Times {
    /// At least one operation's nanoseconds, in any order.
    pub fn of(nanos: Vec<u64>) -> Self {
        let mut sorted: Vec<f64> = nanos.into_iter().map(|ns| ns.max(1) as f64).collect();
        sorted.sort_by(f64::total_cmp);
        Self { sorted }
    }

    /// Operations in a second.
    pub fn per_second(&self) -> f64 {
        self.sorted.len() as f64 * 1e9 / self.sorted.iter().sum::<f64>()
    }

    /// Nanoseconds within which a share of the operations ended.
    pub fn quantile_ns(&self, share: f64) -> f64 {
        quantile(&self.sorted, share)
    }
}

/// The measurement in the middle by a key, the upper one of two: for results that cannot be interpolated.
pub fn middle<T>(results: &mut [T], key: impl Fn(&T) -> f64) -> Option<&T> {
    results.sort_by(|a, b| key(a).total_cmp(&key(b)));
    results.get(results.len() / 2)
}

/// Turns of several subjects, round by round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rounds {
    /// Turns of each subject that count.
    pub count: u32,
    /// Rounds before them, whose results are dropped.
    pub warm_up: u32,
    /// Decides the order of each round.
    pub seed: u64,
}

impl Rounds {
    /// Rounds of which all count.
    pub fn new(count: u32, seed: u64) -> Self {
        Self { count, warm_up: 0, seed }
    }

    /// The order of the subjects in each round, those of the warm-up first.
    pub fn orders(self, subjects: usize) -> impl Iterator<Item = Vec<usize>> {
        let mut random = Random::new(self.seed);
        let mut order: Vec<usize> = (0..subjects).collect();
        (0..self.warm_up + self.count).map(move |_| {
            random.shuffle(&mut order);
            order.clone()
        })
    }

    /// Runs `turn` of a subject and a round for each of them; returns the results of each subject, round by
    /// round.
    ///
    /// # Errors
    /// The first of a turn.
    pub fn run<T, E>(
        self,
        subjects: usize,
        mut turn: impl FnMut(usize, u32) -> Result<T, E>,
    ) -> Result<Vec<Vec<T>>, E> {
        let mut results: Vec<Vec<T>> = (0..subjects).map(|_| Vec::new()).collect();
        for (round, order) in (0..).zip(self.orders(subjects)) {
            for subject in order {
                let result = turn(subject, round)?;
                results[subject].extend((round >= self.warm_up).then_some(result));
            }
        }
        Ok(results)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quartiles_follow_the_common_definition() {
        let spread = Spread::of([4.0, 1.0, 3.0, 2.0]).unwrap();
        assert_eq!((spread.p25, spread.median, spread.p75), (1.75, 2.5, 3.25));
        assert_eq!(spread.rounds, 4);
        let one = Spread::of([7.0]).unwrap();
        assert_eq!((one.p25, one.median, one.p75), (7.0, 7.0, 7.0));
        assert_eq!(Spread::of([]), None);
        assert_eq!(middle(&mut [3, 1, 2, 4], |n| f64::from(*n)), Some(&3));
        let times = Times::of(vec![300, 100]);
        assert_eq!((times.per_second(), times.quantile_ns(0.5)), (5e6, 200.0));
        assert_eq!(format!("[{:18.0}]", one.scaled(2.0)), "[14 (14 to 14)     ]");
    }

    #[test]
    fn every_subject_has_one_turn_a_round_in_changing_order() {
        let rounds = Rounds { count: 20, warm_up: 2, seed: 3 };
        let mut turns = Vec::new();
        let results = rounds.run(3, |subject, round| {
            turns.push(subject);
            Ok::<_, ()>((subject, round))
        });
        for (subject, results) in results.unwrap().into_iter().enumerate() {
            assert_eq!(results, (2..22).map(|round| (subject, round)).collect::<Vec<_>>());
        }
        let orders: std::collections::BTreeSet<_> = turns.chunks(3).collect();
        assert_eq!(orders.len(), 6, "every order of three comes up");
        assert!(orders.iter().all(|order| order.iter().sum::<usize>() == 3));
        let stopped = rounds.run(3, |_, round| if round == 5 { Err(round) } else { Ok(()) });
        assert_eq!(stopped, Err(5));
    }
}
