//! A checksum over words: whether all parts of a record are of the same write.

/// Of these words, in their order. No single word that differs leaves it as it is.
pub(crate) fn checksum(words: impl Iterator<Item = u64>) -> u64 {
    words.fold(0x9e37_79b9_7f4a_7c15, |sum: u64, word| {
        let mixed = (sum ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        (mixed ^ (mixed >> 29)).rotate_left(23)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_may_differ_or_be_elsewhere() {
        let words: Vec<u64> = (0..40).map(|n| n / 3).collect();
        let sum = checksum(words.iter().copied());
        for at in 0..words.len() {
            for bit in [0, 17, 63] {
                let mut other = words.clone();
                other[at] ^= 1 << bit;
                assert_ne!(checksum(other.into_iter()), sum, "word {at}, bit {bit}");
            }
        }
        let mut swapped = words.clone();
        swapped.swap(2, 3);
        assert_ne!(checksum(swapped.into_iter()), sum);
        assert_ne!(checksum([0, 0].into_iter()), 0);
    }
}
