//! A checksum over words and lines: whether all parts of a record are of the same write.

use outlast_sim::LineBytes;

/// Of these words, then of those of these lines, in their order. No single word that differs leaves it as
/// it is.
pub(crate) fn checksum(words: &[u64], lines: &[LineBytes]) -> u64 {
    let mut sum = 0x9e37_79b9_7f4a_7c15;
    for word in words {
        sum = with_word(sum, *word);
    }
    for word in lines.as_flattened().as_chunks::<8>().0 {
        sum = with_word(sum, u64::from_le_bytes(*word));
    }
    sum
}

// Recovery of a long log spends most of its time here.
#[inline(always)]
fn with_word(sum: u64, word: u64) -> u64 {
    let mixed = (sum ^ word).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    (mixed ^ (mixed >> 29)).rotate_left(23)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_word_may_differ_or_be_elsewhere() {
        let words: Vec<u64> = (0..40).map(|n| n / 3).collect();
        let sum = checksum(&words, &[]);
        for at in 0..words.len() {
            for bit in [0, 17, 63] {
                let mut other = words.clone();
                other[at] ^= 1 << bit;
                assert_ne!(checksum(&other, &[]), sum, "word {at}, bit {bit}");
            }
        }
        let mut swapped = words.clone();
        swapped.swap(2, 3);
        assert_ne!(checksum(&swapped, &[]), sum);
        assert_ne!(checksum(&[0, 0], &[]), 0);
        let mut line = [0; 64];
        for (place, word) in line.as_chunks_mut().0.iter_mut().zip(&words[32..]) {
            *place = word.to_le_bytes();
        }
        assert_eq!(checksum(&words[..32], &[line]), sum);
    }
}
