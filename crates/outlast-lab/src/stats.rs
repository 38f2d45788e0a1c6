//! Latency histograms, and the medians and quartiles of the measuring kit.

use std::time::Duration;

use hdrhistogram::Histogram;
pub use outlast_measure::Spread;

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
