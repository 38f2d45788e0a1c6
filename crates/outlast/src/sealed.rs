//! Sealed words: 56 bits of payload and 8 bits that prove them, in one 8-byte store.
//!
//! Every mutable word of a pool's metadata is sealed: the floor, lane marks, chunk directory,
//! allocation bitmaps, root, size. A sealed word is never torn, since an aligned word is atomic
//! under power failure (rule 5 of the fault model), and a flipped bit in it is always noticed:
//! the seal is a CRC-8 whose Hamming distance over 64 bits is 4.
//!
//! * **WORD-1** The all-zero word is no sealed word, at no place: what was zeroed, or never written,
//!   is not taken for a value. Fresh metadata is therefore written before anything relies on it.
//! * **WORD-2** A word of metadata is sealed for its place: a line that was written to another place
//!   does not prove itself there, but for one word in 128.

use outlast_trace::PoolOffset;

/// Bits of payload in a sealed word.
pub const PAYLOAD_BITS: u32 = 56;

/// The largest payload.
pub const PAYLOAD_MAX: u64 = (1 << PAYLOAD_BITS) - 1;

/// x⁸+x⁷+x⁴+x²+x+1 (0x97): detects every error of up to three bits in words up to 119 bits.
const POLYNOMIAL: u8 = 0x97;

/// `TABLES[k][b]`: the CRC of byte `b` followed by `k` zero bytes, so that the seven lookups of
/// one word are independent of each other.
const TABLES: [[u8; 256]; 7] = {
    let mut tables = [[0u8; 256]; 7];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u8;
        let mut k = 0;
        while k < 7 {
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 0x80 != 0 { crc << 1 ^ POLYNOMIAL } else { crc << 1 };
                bit += 1;
            }
            tables[k][byte] = crc;
            k += 1;
        }
        byte += 1;
    }
    tables
};

/// CRC-8 of the low 56 bits.
#[inline]
pub(crate) fn crc8(payload: u64) -> u8 {
    let b = payload.to_le_bytes();
    TABLES[0][b[0] as usize]
        ^ TABLES[1][b[1] as usize]
        ^ TABLES[2][b[2] as usize]
        ^ TABLES[3][b[3] as usize]
        ^ TABLES[4][b[4] as usize]
        ^ TABLES[5][b[5] as usize]
        ^ TABLES[6][b[6] as usize]
}

/// WORD-1: part of every seal, so that zeros prove nothing.
const NEVER_ZERO: u8 = 0x80;

/// WORD-2: what the seal of a word at that place has besides, in the bits below [`NEVER_ZERO`].
#[inline]
fn place_bits(at: PoolOffset) -> u64 {
    // The highest bits of the product depend on every bit of the place.
    (at.0 / 8).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 57 << PAYLOAD_BITS
}

/// The word that carries `payload`, wherever it is.
///
/// # Panics
/// When the payload has more than 56 bits.
#[inline]
pub fn seal(payload: u64) -> u64 {
    assert!(payload <= PAYLOAD_MAX, "a sealed word carries 56 bits");
    payload | u64::from(crc8(payload) ^ NEVER_ZERO) << PAYLOAD_BITS
}

/// The payload of a word, or `None` when the word was not written by [`seal`].
#[inline]
pub fn unseal(word: u64) -> Option<u64> {
    let payload = word & PAYLOAD_MAX;
    (crc8(payload) ^ NEVER_ZERO == (word >> PAYLOAD_BITS) as u8).then_some(payload)
}

/// The word that carries `payload` at that place.
///
/// # Panics
/// When the payload has more than 56 bits.
#[inline]
pub fn seal_at(payload: u64, at: PoolOffset) -> u64 {
    seal(payload) ^ place_bits(at)
}

/// The payload of a word at that place, or `None` when [`seal_at`] did not make it for there.
#[inline]
pub fn unseal_at(word: u64, at: PoolOffset) -> Option<u64> {
    unseal(without_place(word, at))
}

/// The payload sealed for a word at that place, as [`seal`] does without a place.
#[inline]
pub fn without_place(word: u64, at: PoolOffset) -> u64 {
    word ^ place_bits(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> impl Iterator<Item = u64> {
        let mut x = 0x9e37_79b9_7f4a_7c15u64;
        std::iter::successors(Some(0), move |_| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            Some(x & PAYLOAD_MAX)
        })
        .take(50)
    }

    #[test]
    fn a_sealed_word_opens() {
        for payload in samples() {
            assert_eq!(unseal(seal(payload)), Some(payload));
            let at = PoolOffset(payload & !7);
            assert_eq!(unseal_at(seal_at(payload, at), at), Some(payload));
        }
    }

    /// WORD-1 and WORD-2.
    #[test]
    fn zero_is_no_sealed_word_and_few_words_prove_themselves_elsewhere() {
        assert_eq!(unseal(0), None);
        let places = || (0..4096).map(|word| PoolOffset(8 * word));
        assert!(places().all(|at| unseal_at(0, at).is_none()));
        for payload in [0, 1, PAYLOAD_MAX] {
            let word = seal_at(payload, PoolOffset(64));
            let believed = places().filter(|at| unseal_at(word, *at).is_some()).count();
            assert!((1..=4096 / 100).contains(&believed), "{believed} of 4096");
            // Neighbouring lines always tell.
            let beside = (1..64).map(|line| PoolOffset(64 + line * 64));
            assert!(beside.take(16).all(|at| unseal_at(word, at).is_none()));
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "pure arithmetic, and minutes of it there")]
    fn one_two_or_three_flipped_bits_are_always_noticed() {
        // The code is linear, so one payload stands for all; a few more cost nothing.
        for payload in samples().take(2) {
            let word = seal(payload);
            for i in 0..64 {
                assert_eq!(unseal(word ^ 1 << i), None);
                for j in 0..i {
                    assert_eq!(unseal(word ^ 1 << i ^ 1 << j), None);
                    for k in 0..j {
                        assert_eq!(unseal(word ^ 1 << i ^ 1 << j ^ 1 << k), None);
                    }
                }
            }
        }
    }
}
