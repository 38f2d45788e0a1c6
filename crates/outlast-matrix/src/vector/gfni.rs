//! CRC-8 by products of bits and matrices: GFNI multiplies each byte by an 8 × 8 matrix of bits,
//! and to multiply by a power of x modulo a polynomial is such a matrix.

use std::arch::x86_64::{
    __m128i, __m512i, _mm_cvtsi128_si64, _mm_gf2p8affine_epi64_epi8, _mm_set1_epi64x,
    _mm_srli_epi64, _mm_unpackhi_epi64, _mm_xor_si128, _mm256_castsi256_si128,
    _mm256_extracti128_si256, _mm256_xor_si256, _mm512_castsi512_si256, _mm512_cvtepi64_epi8,
    _mm512_extracti64x4_epi64, _mm512_gf2p8affine_epi64_epi8, _mm512_loadu_si512,
    _mm512_set1_epi64, _mm512_shuffle_i64x2, _mm512_srli_epi64, _mm512_unpackhi_epi64,
    _mm512_unpacklo_epi64, _mm512_xor_si512,
};

use crate::Line;
use crate::crc8::{POWERS, times};

/// What multiplies each byte of word j by its word's power of x, x to the power of 64 j + 8.
const WORDS: Line = {
    let mut matrices = [0; 8];
    let mut j = 0;
    while j < 8 {
        matrices[j] = matrix(POWERS[8 * j + 1]);
        j += 1;
    }
    matrices
};

/// The matrix that multiplies by `factor`. The instruction takes the row of the lowest result bit
/// from the highest byte.
const fn matrix(factor: u8) -> u64 {
    let mut matrix = 0;
    let mut bit = 0;
    while bit < 8 {
        let product = times(factor, bit);
        let mut row = 0;
        while row < 8 {
            matrix |= (product as u64 >> row & 1) << (8 * (7 - row) + bit);
            row += 1;
        }
        bit += 1;
    }
    matrix
}

/// CRC-8 of a line.
#[target_feature(enable = "avx512f,avx2,gfni")]
pub(super) fn crc8(line: &Line) -> u8 {
    // SAFETY: this function is only called where there is AVX-512F; reads the 64 bytes of a line, at
    // any address.
    crc8_of(unsafe { _mm512_loadu_si512(line.as_ptr().cast()) })
}

/// CRC-8 of a line in a register.
#[inline]
#[target_feature(enable = "avx512f,avx2,gfni")]
pub(super) fn crc8_of(line: __m512i) -> u8 {
    // SAFETY: this function is only called where there is AVX-512F; reads 64 bytes.
    let words = unsafe { _mm512_loadu_si512(WORDS.as_ptr().cast()) };
    let line = _mm512_gf2p8affine_epi64_epi8::<0>(line, words);
    // Adds the words up.
    let half = _mm256_xor_si256(_mm512_castsi512_si256(line), _mm512_extracti64x4_epi64::<1>(line));
    let quarter = _mm_xor_si128(_mm256_castsi256_si128(half), _mm256_extracti128_si256::<1>(half));
    let word = _mm_xor_si128(quarter, _mm_unpackhi_epi64(quarter, quarter));
    // Adds the bytes up, the upper half of them times the power that they are above the lower.
    let word = folded::<32>(word, const { matrix(POWERS[4]) });
    let word = folded::<16>(word, const { matrix(POWERS[2]) });
    let word = folded::<8>(word, const { matrix(POWERS[1]) });
    _mm_cvtsi128_si64(word) as u8
}

/// CRC-8 of each line.
#[target_feature(enable = "avx512f,avx2,gfni")]
pub(super) fn crc8_each(lines: &[Line], crcs: &mut [u8]) {
    let (eights, rest) = lines.as_chunks::<8>();
    let (eight_crcs, rest_crcs) = crcs.as_chunks_mut::<8>();
    for (lines, crcs) in eights.iter().zip(eight_crcs) {
        *crcs = crc8_of_eight(lines);
    }
    for (line, crc) in rest.iter().zip(rest_crcs) {
        *crc = crc8(line);
    }
}

/// CRC-8 of eight lines: their words are added up by twos, so that each step halves the registers.
#[inline]
#[target_feature(enable = "avx512f,avx2,gfni")]
fn crc8_of_eight(lines: &[Line; 8]) -> [u8; 8] {
    // SAFETY: this function is only called where there is AVX-512F; reads 64 bytes.
    let words = unsafe { _mm512_loadu_si512(WORDS.as_ptr().cast()) };
    let product = |line: usize| {
        // SAFETY: as above; reads the 64 bytes of a line, at any address.
        let line = unsafe { _mm512_loadu_si512(lines[line].as_ptr().cast()) };
        _mm512_gf2p8affine_epi64_epi8::<0>(line, words)
    };
    // Word by word of `a` and `b` in turn; then by halves and by quarters.
    let two = |a: __m512i, b: __m512i| {
        _mm512_xor_si512(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b))
    };
    let four = |ab: __m512i, cd: __m512i| {
        let even = _mm512_shuffle_i64x2::<0b10_00_10_00>(ab, cd);
        _mm512_xor_si512(even, _mm512_shuffle_i64x2::<0b11_01_11_01>(ab, cd))
    };
    let first = four(two(product(0), product(1)), two(product(2), product(3)));
    let second = four(two(product(4), product(5)), two(product(6), product(7)));
    // Word i is what is left of line i.
    let word = four(first, second);
    let word = folded_each::<32>(word, const { matrix(POWERS[4]) });
    let word = folded_each::<16>(word, const { matrix(POWERS[2]) });
    let word = folded_each::<8>(word, const { matrix(POWERS[1]) });
    (_mm_cvtsi128_si64(_mm512_cvtepi64_epi8(word)) as u64).to_le_bytes()
}

/// As [`folded`], for each of eight words.
#[inline]
#[target_feature(enable = "avx512f,avx2,gfni")]
fn folded_each<const BITS: u32>(words: __m512i, matrix: u64) -> __m512i {
    let above = _mm512_srli_epi64::<BITS>(words);
    let above = _mm512_gf2p8affine_epi64_epi8::<0>(above, _mm512_set1_epi64(matrix as i64));
    _mm512_xor_si512(words, above)
}

/// The low word's lower `BITS` bits plus those above, multiplied by `matrix`. What is above is of
/// no use any more.
#[inline]
#[target_feature(enable = "avx512f,avx2,gfni")]
fn folded<const BITS: i32>(word: __m128i, matrix: u64) -> __m128i {
    let above = _mm_srli_epi64::<BITS>(word);
    let above = _mm_gf2p8affine_epi64_epi8::<0>(above, _mm_set1_epi64x(matrix as i64));
    _mm_xor_si128(word, above)
}
