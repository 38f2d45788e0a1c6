//! Random numbers that a seed fixes for ever.
//!
//! Every crash, schedule and workload is replayed from its seed, so the generator must not change with a
//! dependency. Tests of every crate draw from it too.

const GOLDEN_GAMMA: u64 = 0x9E37_79B9_7F4A_7C15;

/// SplitMix64 (Steele, Lea, Flood, OOPSLA 2014): one addition and a finaliser for each number.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The sequence that the reference code prints from this state.
    pub const fn from_state(state: u64) -> Self {
        Self(state)
    }

    /// The stream that `seed` names; streams of neighbouring seeds are unrelated.
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
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        mix(self.0)
    }

    /// A number below `n`, each as likely as the others to within `n` ÷ 2^64; 0 below 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(n)) >> 64) as u64
    }

    /// True once in `n` times on average.
    #[inline]
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    /// A number from 0 up to and without 1, a multiple of 2^-53.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
    }

    /// One of several.
    ///
    /// # Panics
    /// When there are none.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// Brings a slice into an order drawn by chance.
    pub fn shuffle<T>(&mut self, slice: &mut [T]) {
        for last in (1..slice.len()).rev() {
            slice.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// A bijection on 64 bits that leaves no visible relation between neighbours.
#[inline]
pub const fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// The seed of one part of a whole, so that its parts draw unrelated numbers.
pub const fn derive(seed: u64, part: u64) -> u64 {
    mix(mix(seed.wrapping_add(GOLDEN_GAMMA)) ^ part.wrapping_mul(GOLDEN_GAMMA))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sequence_is_the_published_one() {
        // The first outputs of SplitMix64 from seed 1234567, as its reference code prints them.
        let mut random = Random::from_state(1_234_567);
        assert_eq!(random.next_u64(), 6_457_827_717_110_365_317);
        assert_eq!(random.next_u64(), 3_203_168_211_198_807_973);
    }

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

    #[test]
    fn every_order_of_three_is_drawn_as_often() {
        let mut random = Random::new(9);
        let mut orders = std::collections::HashMap::new();
        for _ in 0..6000 {
            let mut order = [0, 1, 2];
            random.shuffle(&mut order);
            *orders.entry(order).or_insert(0) += 1;
        }
        assert_eq!(orders.len(), 6);
        assert!(orders.values().all(|count| (880..1120).contains(count)), "{orders:?}");
    }
}
