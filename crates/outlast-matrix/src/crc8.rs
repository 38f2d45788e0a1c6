//! The CRC-8 of a line: what tells which line is wrong.

use crate::{Line, Vector};

/// x⁸+x⁷+x⁴+x²+x+1 (0x97), the same as seals the words of a pool's metadata. It has the factor
/// x+1 and detects every error of up to three bits within 119 bits.
const POLYNOMIAL: u8 = 0x97;

/// `POWERS[n]`: x to the power of 8 n, modulo the polynomial, for n up to 64.
pub(crate) const POWERS: [u8; 65] = {
    let mut powers = [1u8; 65];
    let mut n = 1;
    while n < 65 {
        powers[n] = times(powers[n - 1], 8);
        n += 1;
    }
    powers
};

/// `IN_WORD[k][b]`: what byte k of a word adds to the CRC of the word.
static IN_WORD: [[u8; 256]; 8] = tables(1, 1);

/// `IN_LINE[j][c]`: what word j of a line, whose CRC is c, adds to the CRC of the line.
static IN_LINE: [[u8; 256]; 8] = tables(0, 8);

/// `value` times x to the power of `shift`.
pub(crate) const fn times(mut value: u8, shift: u32) -> u8 {
    let mut step = 0;
    while step < shift {
        value = if value & 0x80 != 0 { value << 1 ^ POLYNOMIAL } else { value << 1 };
        step += 1;
    }
    value
}

/// Eight tables of products: table k multiplies by x to the power of 8 (`first` + `stride` k).
const fn tables(first: usize, stride: usize) -> [[u8; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut k = 0;
    while k < 8 {
        let power = POWERS[first + stride * k];
        let mut factor = 0;
        while factor < 256 {
            let mut bit = 0;
            while bit < 8 {
                if factor >> bit & 1 == 1 {
                    tables[k][factor] ^= times(power, bit);
                }
                bit += 1;
            }
            factor += 1;
        }
        k += 1;
    }
    tables
}

/// CRC-8 of a line, read as one polynomial in which byte 0 stands for the lowest powers: the
/// remainder of the line times x⁸ by x⁸+x⁷+x⁴+x²+x+1. The line of zeros has the CRC 0.
///
/// Of all other contents of the line 1 in 256 has the same CRC. Contents that differ only within
/// eight consecutive bits never have, nor those that differ in an odd number of bits, nor in two
/// or three bits of the same or of neighbouring words up to 119 bits apart.
///
/// A remainder folded from the processor's CRC-32C would have the same probability without these
/// guarantees. Where the processor has AVX-512 and GFNI, they compute it, else tables.
#[inline]
pub fn crc8(line: &Line) -> u8 {
    Vector::best().crc8(line)
}

/// CRC-8 of a line. The words' remainders are looked up independently of each other and then
/// joined, so that no lookup waits for more than one other.
pub(crate) fn by_tables(line: &Line) -> u8 {
    let mut crc = 0;
    for (word, join) in line.iter().zip(&IN_LINE) {
        let mut of_word = 0;
        for (byte, table) in word.to_le_bytes().into_iter().zip(&IN_WORD) {
            of_word ^= table[byte as usize];
        }
        crc ^= join[of_word as usize];
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{line_from_bytes, line_to_bytes};

    /// Bit by bit, the highest powers first.
    fn by_the_book(line: &Line) -> u8 {
        let divided = |crc: u8, byte: &u8| times(crc ^ byte, 8);
        line_to_bytes(line).iter().rev().fold(0, divided)
    }

    fn flipped(bits: &[usize]) -> Line {
        let mut bytes = [0; 64];
        bits.iter().for_each(|bit| bytes[bit / 8] ^= 1 << (bit % 8));
        line_from_bytes(&bytes)
    }

    fn samples(count: usize) -> impl Iterator<Item = Line> {
        let mut random = outlast_trace::Random::new(1);
        std::iter::repeat_with(move || std::array::from_fn(|_| random.next_u64())).take(count)
    }

    #[test]
    fn the_tables_divide_as_the_book_does() {
        assert_eq!(crc8(&[0; 8]), 0);
        assert_eq!(by_the_book(&[1, 0, 0, 0, 0, 0, 0, 0]), POLYNOMIAL);
        for line in samples(200) {
            assert_eq!(by_tables(&line), by_the_book(&line));
        }
    }

    #[test]
    fn the_crc_is_linear_so_an_error_is_seen_whatever_the_content() {
        for line in samples(50) {
            let error = samples(1).next().expect("one sample");
            let wrong = std::array::from_fn(|lane| line[lane] ^ error[lane]);
            assert_eq!(crc8(&wrong), crc8(&line) ^ crc8(&error));
        }
    }

    #[test]
    fn every_error_of_an_odd_number_of_bits_is_seen() {
        // Each single bit has a CRC of an odd number of bits; an odd number of such never cancels.
        assert!((0..512).all(|bit| crc8(&flipped(&[bit])).count_ones() % 2 == 1));
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn every_error_within_eight_consecutive_bits_is_seen() {
        for start in 0..=504 {
            for pattern in 1usize..256 {
                let bits: Vec<_> =
                    (0..8).filter(|b| pattern >> b & 1 == 1).map(|b| start + b).collect();
                assert_ne!(crc8(&flipped(&bits)), 0, "{bits:?}");
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn every_error_of_up_to_three_bits_within_119_bits_is_seen() {
        for start in [0, 1, 63, 200, 393] {
            for second in start + 1..start + 119 {
                assert_ne!(crc8(&flipped(&[start, second])), 0);
                for third in second + 1..start + 119 {
                    assert_ne!(crc8(&flipped(&[start, second, third])), 0);
                }
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "slow")]
    fn one_random_error_in_256_is_missed() {
        let missed = samples(256 * 1024).filter(|error| crc8(error) == 0).count();
        assert!((900..1150).contains(&missed), "{missed} of 262144");
    }
}
