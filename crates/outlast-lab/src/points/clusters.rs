//! Groups of intervals that are alike: k-means, and the Bayesian information criterion for k.

use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use super::vectors::{DIMENSIONS, Interval, Vector};

/// Intervals in groups.
#[derive(Clone, PartialEq, Debug)]
pub struct Clusters {
    /// The group of each interval.
    of: Vec<usize>,
    centres: Vec<Vector>,
    /// The sum of all squared distances from centres.
    distortion: f64,
}

/// Beginnings of k-means for each k; the best end counts.
const TRIALS: u64 = 5;
/// Rounds after which k-means ends, if it has not settled.
const ROUNDS_MAX: usize = 100;
/// The smallest k counts whose criterion reaches this share of the way from the worst to the best:
/// SimPoint's.
const SHARE: f64 = 0.9;

fn squared_distance(a: &Vector, b: &Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b) * (a - b)).sum()
}

/// The nearest centre, with its squared distance.
fn nearest(centres: &[Vector], to: &Vector) -> (usize, f64) {
    let distances = centres.iter().map(|centre| squared_distance(centre, to)).enumerate();
    distances.min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((0, 0.0))
}

/// Groups intervals, in at most `most` groups.
pub fn cluster(intervals: &[Interval], most: usize, seed: u64) -> Clusters {
    let of_k = |k: usize| {
        let trials = (0..TRIALS).map(|trial| {
            let seed = seed.wrapping_add(k as u64 * TRIALS + trial);
            k_means(intervals, k, &mut ChaCha8Rng::seed_from_u64(seed))
        });
        trials.min_by(|a, b| a.distortion.total_cmp(&b.distortion)).expect("there are trials")
    };
    let all: Vec<Clusters> = (1..=most.clamp(1, intervals.len())).map(of_k).collect();
    let scores: Vec<f64> = all.iter().map(|clusters| clusters.criterion(intervals.len())).collect();
    let worst = scores.iter().copied().fold(f64::INFINITY, f64::min);
    let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let enough = worst + SHARE * (best - worst);
    let chosen = scores.iter().position(|score| *score >= enough).unwrap_or(0);
    all.into_iter().nth(chosen).expect("it was found among them")
}

/// One k-means, whose first centres lie apart (Arthur and Vassilvitskii, SODA'07).
fn k_means(intervals: &[Interval], k: usize, random: &mut ChaCha8Rng) -> Clusters {
    let vector = |number: usize| intervals[number].vector;
    let mut centres = vec![vector(random.random_range(0..intervals.len()))];
    while centres.len() < k {
        let far = intervals.iter().map(|interval| nearest(&centres, &interval.vector).1);
        let far: Vec<f64> = far.collect();
        let mut left = random.random::<f64>() * far.iter().sum::<f64>();
        let drawn = far.iter().position(|distance| {
            left -= distance;
            left <= 0.0
        });
        centres.push(vector(drawn.unwrap_or(intervals.len() - 1)));
    }
    let mut of = vec![usize::MAX; intervals.len()];
    for _ in 0..ROUNDS_MAX {
        let mut has_moved = false;
        for (of, interval) in of.iter_mut().zip(intervals) {
            let (cluster, _) = nearest(&centres, &interval.vector);
            has_moved |= std::mem::replace(of, cluster) != cluster;
        }
        if !has_moved {
            break;
        }
        for (number, centre) in centres.iter_mut().enumerate() {
            let own = || of.iter().zip(intervals).filter(|(of, _)| **of == number);
            let count = own().count();
            if count > 0 {
                let sum = |axis: usize| own().map(|(_, it)| it.vector[axis]).sum::<f64>();
                *centre = std::array::from_fn(|axis| sum(axis) / count as f64);
            }
        }
    }
    let distance =
        |(of, interval): (&usize, &Interval)| squared_distance(&centres[*of], &interval.vector);
    let distortion = of.iter().zip(intervals).map(distance).sum();
    Clusters { of, centres, distortion }
}

impl Clusters {
    /// The Bayesian information criterion of groups that are spherical and equally wide (Pelleg and Moore,
    /// ICML'00): larger is better.
    fn criterion(&self, intervals: usize) -> f64 {
        /// Below it two vectors are the same: shares of instructions are not more exact.
        const VARIANCE_MIN: f64 = 1e-9;
        let (all, k, dimensions) = (intervals as f64, self.centres.len() as f64, DIMENSIONS as f64);
        let variance = self.distortion / (dimensions * (all - k).max(1.0));
        let variance = variance.max(VARIANCE_MIN);
        let of_group = |number: usize| {
            let count = self.of.iter().filter(|of| **of == number).count() as f64;
            if count > 0.0 { count * (count / all).ln() } else { 0.0 }
        };
        let members: f64 = (0..self.centres.len()).map(of_group).sum();
        let likelihood = members
            - all * dimensions / 2.0 * (2.0 * std::f64::consts::PI * variance).ln()
            - dimensions * (all - k) / 2.0;
        // Centres, shares and one variance.
        let parameters = (k - 1.0) + dimensions * k + 1.0;
        likelihood - parameters / 2.0 * all.ln()
    }

    /// Windows: intervals, each with the share of all instructions that it stands for, in the order of the
    /// trace. Groups are parts at first. The part in which costs differ most, weighted by its
    /// instructions, is divided in two where that leaves the least difference, until there are `most`
    /// parts or costs differ nowhere. Of each part the window is the interval that costs most nearly as
    /// much as the part's mean.
    pub fn windows(&self, intervals: &[Interval], most: usize) -> Vec<(usize, f64)> {
        let all: u64 = intervals.iter().map(|interval| interval.instructions).sum();
        let own = |group| (0..intervals.len()).filter(|it| self.of[*it] == group).collect();
        let parts = (0..self.centres.len()).map(|group| Part::new(own(group), intervals));
        let mut parts: Vec<Part> = parts.filter(|part| !part.members.is_empty()).collect();
        while parts.len() < most {
            let widest = (0..parts.len()).max_by(|a, b| {
                let (a, b) = (&parts[*a].moments, &parts[*b].moments);
                a.spread().total_cmp(&b.spread())
            });
            let Some((low, high)) = widest.and_then(|widest| parts[widest].divided(intervals))
            else {
                break;
            };
            parts.swap_remove(widest.unwrap_or_default());
            parts.extend([low, high]);
        }
        let window = |part: &Part| {
            (part.window(intervals), part.moments.instructions / (all as f64).max(1.0))
        };
        let mut windows: Vec<(usize, f64)> = parts.iter().map(window).collect();
        windows.sort_unstable_by_key(|window| window.0);
        windows
    }
}

/// Intervals for which one window stands.
struct Part {
    /// In the order of their costs.
    members: Vec<usize>,
    moments: Moments,
}

/// Sums over intervals, weighted by their instructions.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Moments {
    instructions: f64,
    costs: f64,
    squares: f64,
}

impl Moments {
    fn of(interval: &Interval) -> Self {
        let (weight, cost) = (interval.instructions as f64, interval.cost);
        Self { instructions: weight, costs: weight * cost, squares: weight * cost * cost }
    }

    fn plus(self, other: Self, sign: f64) -> Self {
        Self {
            instructions: self.instructions + sign * other.instructions,
            costs: self.costs + sign * other.costs,
            squares: self.squares + sign * other.squares,
        }
    }

    fn mean(&self) -> f64 {
        self.costs / self.instructions.max(1.0)
    }

    /// The sum of squared differences from the mean.
    fn spread(&self) -> f64 {
        (self.squares - self.costs * self.mean()).max(0.0)
    }

    /// Whether all costs are the same, but for rounding.
    fn is_even(&self) -> bool {
        self.spread() <= 1e-9 * self.squares
    }
}

impl Part {
    fn new(mut members: Vec<usize>, intervals: &[Interval]) -> Self {
        members.sort_by(|a, b| intervals[*a].cost.total_cmp(&intervals[*b].cost));
        let add = |sum: Moments, it: &usize| sum.plus(Moments::of(&intervals[*it]), 1.0);
        let moments = members.iter().fold(Moments::default(), add);
        Self { members, moments }
    }

    /// The two parts with the least spread; none where all cost the same.
    fn divided(&self, intervals: &[Interval]) -> Option<(Self, Self)> {
        if self.moments.is_even() {
            return None;
        }
        let mut low = Moments::default();
        let spread = |end: usize| {
            low = low.plus(Moments::of(&intervals[self.members[end - 1]]), 1.0);
            (end, low.spread() + self.moments.plus(low, -1.0).spread())
        };
        let spreads = (1..self.members.len()).map(spread);
        let (end, _) = spreads.min_by(|a, b| a.1.total_cmp(&b.1))?;
        let (low, high) = self.members.split_at(end);
        Some((Self::new(low.to_vec(), intervals), Self::new(high.to_vec(), intervals)))
    }

    /// The last interval of a trace is shorter: it stands for others only where none is whole.
    fn window(&self, intervals: &[Interval]) -> usize {
        let full = intervals.iter().map(|interval| interval.instructions).max().unwrap_or(0);
        let mean = self.moments.mean();
        let key = |it: &usize| {
            let Interval { instructions, cost, .. } = intervals[*it];
            (instructions < full / 2, (cost - mean).abs())
        };
        let nearest = self.members.iter().min_by(|a, b| {
            let (a, b) = (key(a), key(b));
            a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
        });
        nearest.copied().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Intervals of these phases, with a little noise.
    fn phases(phases: &[usize]) -> Vec<Interval> {
        let mut random = ChaCha8Rng::seed_from_u64(7);
        let interval = |(number, phase): (usize, &usize)| {
            let mut vector = [0.0; DIMENSIONS];
            for (axis, value) in vector.iter_mut().enumerate() {
                let exact = if axis == *phase { 0.5 } else { 0.0 };
                *value = exact + 0.004 * (random.random::<f64>() - 0.5);
            }
            Interval { begins_at: 100 * number as u64, instructions: 100, vector, cost: 1.0 }
        };
        phases.iter().enumerate().map(interval).collect()
    }

    #[test]
    fn as_many_groups_are_chosen_as_there_are_phases_and_each_has_its_share() {
        let order = [0, 0, 0, 1, 1, 2, 2, 2, 2, 0, 1, 2, 2, 2, 2, 0, 0, 0, 1, 2];
        for seed in 0..20 {
            let intervals = phases(&order);
            let clusters = cluster(&intervals, 8, seed);
            let windows = clusters.windows(&intervals, 3);
            assert_eq!(windows.len(), 3, "seed {seed}: {windows:?}");
            for (interval, weight) in windows {
                let count = order.iter().filter(|phase| **phase == order[interval]).count();
                assert!((weight - count as f64 / 20.0).abs() < 1e-12, "{interval} {weight}");
            }
        }
    }

    #[test]
    fn one_phase_is_one_window_and_fewer_intervals_than_groups_are_enough() {
        let intervals = phases(&[4; 30]);
        assert_eq!(cluster(&intervals, 10, 1).windows(&intervals, 1).len(), 1);
        // Whatever costs the same needs no other window.
        assert_eq!(cluster(&intervals, 10, 1).windows(&intervals, 5).len(), 1);
        let intervals = phases(&[1, 2]);
        let windows = cluster(&intervals, 10, 1).windows(&intervals, 2);
        assert!(!windows.is_empty() && windows.len() <= 2);
    }

    #[test]
    fn a_group_is_divided_by_what_its_intervals_cost() {
        let mut intervals = phases(&[4; 30]);
        for (number, interval) in intervals.iter_mut().enumerate() {
            interval.cost = [1.0, 9.0, 1.2][number % 3];
        }
        intervals[17].cost = 60.0;
        let clusters = cluster(&intervals, 5, 1);
        let windows = clusters.windows(&intervals, 4);
        let exact: f64 = intervals.iter().map(|interval| interval.cost).sum::<f64>() / 30.0;
        let costs = windows.iter().map(|(at, weight)| weight * intervals[*at].cost);
        assert!((costs.sum::<f64>() / exact - 1.0).abs() < 1e-9, "{windows:?} for {exact}");
        assert_eq!(windows.len(), 4);
        assert!(windows.contains(&(17, 1.0 / 30.0)), "{windows:?}");
        // With fewer windows the small difference goes first.
        let windows = clusters.windows(&intervals, 3);
        let near = windows.iter().find(|(at, _)| intervals[*at].cost < 2.0).unwrap();
        assert!((near.1 - 19.0 / 30.0).abs() < 1e-9, "{windows:?}");
    }

    #[test]
    fn a_short_last_interval_stands_for_no_others() {
        let mut intervals = phases(&[3; 9]);
        intervals[8].instructions = 10;
        // It lies in the middle.
        intervals[8].vector = [0.0; DIMENSIONS];
        intervals[8].vector[3] = 0.5;
        let windows = cluster(&intervals, 1, 1).windows(&intervals, 1);
        assert!(windows.len() == 1 && windows[0].0 != 8, "{windows:?}");
    }
}
