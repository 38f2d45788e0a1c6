//! Sealed words: 56 bits of payload and 8 bits that prove them, in one 8-byte store.
//!
//! Every mutable word of a pool's metadata is sealed: the floor, lane marks, chunk directory,
//! allocation bitmaps, root, size. A sealed word is never torn, since an aligned word is atomic
//! under power failure (rule 5 of the fault model), and a flipped bit in it is always noticed:
//! the seal is a CRC-8 whose Hamming distance over 64 bits is 4. The all-zero word is the seal
//! of zero, so that fresh space needs no initialisation.

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

/// The word that carries `payload`.
///
/// # Panics
/// When the payload has more than 56 bits.
#[inline]
pub fn seal(payload: u64) -> u64 {
    assert!(payload <= PAYLOAD_MAX, "a sealed word carries 56 bits");
    payload | u64::from(crc8(payload)) << PAYLOAD_BITS
}

/// The payload of a word, or `None` when the word was not written by [`seal`].
#[inline]
pub fn unseal(word: u64) -> Option<u64> {
    let payload = word & PAYLOAD_MAX;
    (crc8(payload) == (word >> PAYLOAD_BITS) as u8).then_some(payload)
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
    fn a_sealed_word_opens_and_zero_seals_itself() {
        assert_eq!(seal(0), 0);
        for payload in samples() {
            assert_eq!(unseal(seal(payload)), Some(payload));
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
