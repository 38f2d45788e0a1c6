//! Time: core clock cycles, and what converts them to other clocks.

use std::fmt;

/// A point in time, in cycles of the core clock since the start of the run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Cycle(pub u64);

impl Cycle {
    /// Later than everything that happens.
    pub const NEVER: Cycle = Cycle(u64::MAX);

    /// `cycles` later.
    #[inline]
    #[must_use]
    pub const fn plus(self, cycles: u64) -> Self {
        Self(self.0 + cycles)
    }

    /// The cycle after this one.
    #[inline]
    #[must_use]
    pub const fn next(self) -> Self {
        self.plus(1)
    }

    /// How many cycles passed since `earlier`; 0 when it is not earlier.
    #[inline]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cycle {}", self.0)
    }
}

/// The ratio of a slower clock to the core clock, both given by their period.
///
/// Periods are whole femtoseconds, so no rounding error grows with time: an edge of the other
/// clock is at most one core cycle late, and the next one is not later for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClockRatio {
    core_fs: u128,
    other_fs: u128,
    /// Core cycles per clock where that is a whole number, to spare the divisions.
    whole: Option<u64>,
}

impl ClockRatio {
    pub(crate) fn new(core_fs: u64, other_fs: u64) -> Self {
        let whole = (other_fs.is_multiple_of(core_fs)).then(|| other_fs / core_fs);
        Self { core_fs: core_fs.into(), other_fs: other_fs.into(), whole }
    }

    /// The first edge of the other clock that is not before `at`.
    #[inline]
    pub(crate) fn edge_at(self, at: Cycle) -> u64 {
        match self.whole {
            Some(whole) => at.0.div_ceil(whole),
            None => (u128::from(at.0) * self.core_fs).div_ceil(self.other_fs) as u64,
        }
    }

    /// The last edge of the other clock that is not after `at`.
    #[inline]
    pub(crate) fn edge_by(self, at: Cycle) -> u64 {
        match self.whole {
            Some(whole) => at.0 / whole,
            None => (u128::from(at.0) * self.core_fs / self.other_fs) as u64,
        }
    }

    /// The first core cycle that is not before the other clock's edge.
    #[inline]
    pub(crate) fn cycle_at(self, edge: u64) -> Cycle {
        Cycle(match self.whole {
            Some(whole) => edge * whole,
            None => (u128::from(edge) * self.other_fs).div_ceil(self.core_fs) as u64,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_and_cycles_convert_without_drift() {
        // 4 GHz over 1600 MHz: 2.5 cycles a clock; 3 GHz is not a whole number of femtoseconds.
        for (core_fs, other_fs) in [(250_000, 625_000), (333_333, 625_000), (400_000, 400_000)] {
            let ratio = ClockRatio::new(core_fs, other_fs);
            for edge in [0, 1, 2, 3, 1000, 123_456_789] {
                let at = ratio.cycle_at(edge);
                let exact = edge as f64 * other_fs as f64 / core_fs as f64;
                assert!(
                    (at.0 as f64 - exact) < 1.01 && at.0 as f64 >= exact - 1e-3,
                    "{edge}: {at}"
                );
                assert_eq!(ratio.edge_by(at), edge, "{at} is the edge's");
                let next = ratio.edge_at(at);
                assert_eq!(next, edge + u64::from(exact.ceil() != exact && at.0 > 0), "{at}");
            }
        }
    }
}
