//! Random numbers that a seed fixes for ever.

/// SplitMix64: small, fast, and the same in every version.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream that `seed` names.
    pub fn new(seed: u64) -> Self {
        Self(mix(seed ^ 0x6F75_746C_6173_7400))
    }

    /// The `n`-th independent stream of `seed`.
    pub fn stream(seed: u64, n: u64) -> Self {
        Self::new(mix(seed).wrapping_add(n.wrapping_mul(0xD1B5_4A32_D192_ED03)))
    }

    /// Any number.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `n`, which is not 0; each as likely as the others, to within `n` ÷ 2^64.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        debug_assert!(n > 0);
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// A number from 0 up to and without 1, a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }
}

/// A permutation of the 64-bit numbers that leaves no pattern.
#[inline]
pub(crate) fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_below_n_are_even() {
        let mut random = Random::new(5);
        let mut cells = [0u32; 10];
        for _ in 0..100_000 {
            cells[random.below(10) as usize] += 1;
        }
        let chi_square: f64 = cells.iter().map(|&c| (f64::from(c) - 1e4).powi(2) / 1e4).sum();
        assert!(chi_square < 33.0, "{cells:?}: {chi_square} with 9 degrees of freedom");
    }

    #[test]
    fn streams_differ_and_repeat() {
        let draw = |n| Random::stream(1, n).next_u64();
        assert_eq!(draw(0), draw(0));
        assert_ne!(draw(0), draw(1));
    }
}
