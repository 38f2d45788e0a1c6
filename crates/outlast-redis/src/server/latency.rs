//! How long commands take: from the round of the event loop that reads a command until its answer is written.

use std::time::Duration;

/// Parts that each power of two is divided in: a figure is at most an eighth too large.
const PARTS: usize = 8;
const BUCKETS: usize = 64 * PARTS;

/// Counts of commands by the microseconds that they took.
pub(super) struct Latency {
    counts: Box<[u64; BUCKETS]>,
    total: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]), total: 0 }
    }
}

/// The bucket of a value, and the largest value of a bucket.
fn bucket(value: u64) -> usize {
    match value {
        0..8 => value as usize,
        _ => {
            let power = value.ilog2() as usize;
            let part = (value >> (power - 3)) as usize - PARTS;
            (power - 2) * PARTS + part
        }
    }
}

fn largest(bucket: usize) -> u64 {
    match bucket {
        0..8 => bucket as u64,
        _ => {
            let (power, part) = (bucket / PARTS + 2, bucket % PARTS);
            ((PARTS + part + 1) as u64) << (power - 3)
        }
    }
}

impl Latency {
    /// That number of commands took that long.
    pub fn record(&mut self, took: Duration, commands: u64) {
        if commands > 0 {
            let value = (took.as_micros() as u64).min(u64::from(u32::MAX));
            self.counts[bucket(value)] += commands;
            self.total += commands;
        }
    }

    /// The microseconds that this part of all commands did not exceed.
    pub fn quantile_us(&self, part: f64) -> u64 {
        let wanted = (self.total as f64 * part).ceil() as u64;
        let mut seen = 0;
        for (index, count) in self.counts.iter().enumerate() {
            seen += count;
            if *count > 0 && seen >= wanted {
                return largest(index);
            }
        }
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_an_eighth_too_large_at_most() {
        for value in (0..100_000).chain([1 << 20, (1 << 31) + 12_345]) {
            let told = largest(bucket(value));
            assert!(told >= value && told - value <= value / 8 + 1, "{value}: {told}");
        }
        let mut latency = Latency::default();
        assert_eq!(latency.quantile_us(0.5), 0);
        latency.record(Duration::from_micros(10), 98);
        latency.record(Duration::from_micros(1000), 2);
        assert!(latency.quantile_us(0.5) <= 12);
        assert!(latency.quantile_us(0.99) >= 1000);
    }
}
