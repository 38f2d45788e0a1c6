//! The hash of keys. Part of the durable format: it must never change.

const WORD: u64 = 0x9E37_79B9_7F4A_7C15;
const LENGTH: u64 = 0xBF58_476D_1CE4_E5B9;
const LAST: u64 = 0x94D0_49BB_1331_11EB;

/// Sixty-four well-mixed bits of `key`: one 64 × 64-bit multiplication for 8 bytes, the halves
/// of the product folded together.
#[inline]
pub(crate) fn hash_key(seed: u64, key: &[u8]) -> u64 {
    let mut state = seed ^ fold(key.len() as u64 ^ WORD, LENGTH);
    let (words, rest) = key.as_chunks::<8>();
    for bytes in words {
        state = fold(state ^ u64::from_le_bytes(*bytes), WORD).wrapping_add(LAST);
    }
    if !rest.is_empty() {
        let mut bytes = [0; 8];
        bytes[..rest.len()].copy_from_slice(rest);
        state = fold(state ^ u64::from_le_bytes(bytes), WORD).wrapping_add(LAST);
    }
    fold(state ^ LENGTH, LAST)
}

/// The same for a key of one word.
#[inline]
pub(super) fn hash_word(seed: u64, word: u64) -> u64 {
    fold(fold(seed ^ word, WORD) ^ LENGTH, LAST)
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-square of the keys over 256 cells; with 255 degrees of freedom its mean is 255 and
    /// its standard deviation 22.6.
    fn chi_square(cell: impl Fn(u64) -> usize, hashes: impl Iterator<Item = u64>) -> f64 {
        let mut cells = [0u32; 256];
        let mut n = 0;
        for hash in hashes {
            cells[cell(hash)] += 1;
            n += 1;
        }
        let expected = f64::from(n) / 256.0;
        cells.iter().map(|&c| (f64::from(c) - expected).powi(2) / expected).sum()
    }

    #[test]
    #[cfg_attr(miri, ignore = "200,000 hashes take minutes there")]
    fn numbers_and_texts_spread_over_the_bits_that_choose_segment_bucket_and_tag() {
        for shift in [56, 40, 24, 16, 0] {
            let cell = |h: u64| (h >> shift) as usize & 255;
            let hash = |key: &[u8]| hash_key(1, key);
            let le = chi_square(cell, (0..40_000u64).map(|n| hash(&n.to_le_bytes())));
            let be = chi_square(cell, (0..40_000u64).map(|n| hash(&n.to_be_bytes())));
            let text =
                chi_square(cell, (0..40_000u64).map(|n| hash(format!("user{n}").as_bytes())));
            let words = chi_square(cell, (0..40_000).map(|n| hash_word(1, n)));
            let high = chi_square(cell, (0..40_000).map(|n| hash_word(1, n << 40)));
            let all = [("le", le), ("be", be), ("text", text), ("word", words), ("high", high)];
            for (name, x) in all {
                assert!((150.0..400.0).contains(&x), "{name} keys, shift {shift}: {x}");
            }
        }
    }

    #[test]
    fn length_and_seed_count() {
        assert_ne!(hash_key(1, b"a"), hash_key(1, b"a\0"));
        assert_ne!(hash_key(1, b""), hash_key(1, b"\0"));
        assert_ne!(hash_key(1, b"a"), hash_key(2, b"a"));
    }

    #[test]
    fn the_format_is_fixed() {
        assert_eq!(hash_key(0, b""), 0xFE08_C13C_9B53_45D3);
        assert_eq!(hash_key(7, b"outlast"), 0x5110_F318_B603_124B);
        assert_eq!(hash_key(7, b"a persistent hash map"), 0x6E8D_D28B_4261_9EB2);
        assert_eq!(hash_word(7, 0), 0xE4B1_A9CC_07CA_ADBB);
        assert_eq!(hash_word(7, u64::MAX), 0x6063_FE4F_699B_19AA);
    }
}
