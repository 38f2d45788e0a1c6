//! A Bloom filter over block numbers.

/// Hashes of a key.
const HASHES: u32 = 3;

/// Which keys may have been inserted since it was cleared.
#[derive(Clone, Debug)]
pub(crate) struct Bloom {
    bits: Vec<u64>,
}

impl Bloom {
    /// A filter of `bits` bits, at least 64.
    pub(crate) fn new(bits: u64) -> Self {
        Self { bits: vec![0; bits.div_ceil(64).max(1) as usize] }
    }

    fn places(&self, key: u64) -> impl Iterator<Item = (usize, u64)> + use<> {
        let bits = 64 * self.bits.len() as u64;
        (1..=HASHES).map(move |number| {
            let odd = 0x9e37_79b9_7f4a_7c15_u64.rotate_left(17 * number) | 1;
            let mixed = (key + 1).wrapping_mul(odd);
            let bit = (mixed ^ (mixed >> 32)) % bits;
            ((bit / 64) as usize, 1 << (bit % 64))
        })
    }

    pub(crate) fn insert(&mut self, key: u64) {
        for (word, bit) in self.places(key) {
            self.bits[word] |= bit;
        }
    }

    /// Whether a key may have been inserted. What was inserted always may.
    pub(crate) fn may_have(&self, key: u64) -> bool {
        self.places(key).all(|(word, bit)| self.bits[word] & bit != 0)
    }

    pub(crate) fn clear(&mut self) {
        self.bits.fill(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_inserted_is_found_and_little_else() {
        let mut filter = Bloom::new(1024);
        (0..50).for_each(|key| filter.insert(37 * key));
        assert!((0..50).all(|key| filter.may_have(37 * key)));
        let wrong = (1..2000).filter(|key| key % 37 != 0 && filter.may_have(*key)).count();
        assert!(wrong < 100, "{wrong} of 1945");
        filter.clear();
        assert!(!filter.may_have(37));
    }
}
