//! Medians, quartiles and latency histograms.

use std::time::Duration;

use hdrhistogram::Histogram;

/// The middle of several rounds, and how far they spread.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    /// Half of the rounds lie below.
    pub median: f64,
    /// A quarter lies below.
    pub p25: f64,
    /// Three quarters lie below.
    pub p75: f64,
    /// How many rounds.
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

/// How long single calls took: nanoseconds to minutes, each within 0.1 %.
#[derive(Clone, Debug)]
pub struct Latencies {
    histogram: Histogram<u64>,
}

/// Longer calls count as this long.
const LATENCY_MAX: Duration = Duration::from_secs(600);

impl Default for Latencies {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_MAX.as_nanos() as u64, 3)
            .expect("constant bounds are valid");
        Self { histogram }
    }
}

impl Latencies {
    /// Counts one call.
    #[inline]
    pub fn add(&mut self, took: Duration) {
        self.histogram.saturating_record(took.as_nanos() as u64);
    }

    /// Counts what another thread saw.
    pub fn merge(&mut self, other: &Self) {
        self.histogram.add(&other.histogram).expect("all have the same bounds");
    }

    /// How many calls.
    pub fn len(&self) -> u64 {
        self.histogram.len()
    }

    /// Whether there were none.
    pub fn is_empty(&self) -> bool {
        self.histogram.is_empty()
    }

    /// Nanoseconds within which a share of the calls ended; 0 of none.
    pub fn quantile_ns(&self, share: f64) -> u64 {
        self.histogram.value_at_quantile(share)
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
    }

    #[test]
    fn histograms_merge_and_answer_within_their_precision() {
        let (mut even, mut odd) = (Latencies::default(), Latencies::default());
        for nanos in 1..=100_000u64 {
            let half = if nanos.is_multiple_of(2) { &mut even } else { &mut odd };
            half.add(Duration::from_nanos(nanos));
        }
        even.merge(&odd);
        assert_eq!(even.len(), 100_000);
        for (share, exact) in [(0.5, 50_000.0), (0.99, 99_000.0)] {
            let error = (even.quantile_ns(share) as f64 - exact).abs() / exact;
            assert!(error <= 0.001, "{share}: off by {error}");
        }
        even.add(Duration::from_secs(100_000));
        assert_eq!(even.len(), 100_001, "too long is counted, not dropped");
    }
}
