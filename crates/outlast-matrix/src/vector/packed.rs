//! Changes of single words of a line, packed: those that change, one behind the other.

#[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
use std::arch::x86_64::{
    __m512i, __mmask8, _mm512_add_epi64, _mm512_loadu_si512, _mm512_mask_test_epi64_mask,
    _mm512_maskz_compress_epi64, _mm512_maskz_expand_epi64, _mm512_maskz_mov_epi64,
    _mm512_storeu_si512, _mm512_sub_epi64, _mm512_xor_si512,
};

#[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
use super::gfni;
use crate::Line;
use crate::crc8::by_tables;

/// Words of the longest packed change with what stands before it.
pub(super) const ENTRY_WORDS: usize = 9;

/// [`Vector::difference`](super::Vector::difference) word by word.
pub(super) fn difference(old: &Line, new: &Line, mask: u8, growth: &mut Line) -> (u8, u8) {
    let (mut flipped, mut changed, mut len) = ([0; 8], 0, 0);
    for word in 0..8 {
        flipped[word] = (old[word] ^ new[word]) & u64::from(mask >> word & 1).wrapping_neg();
        let is_changed = u8::from(flipped[word] != 0);
        changed |= is_changed << word;
        // What does not change is overwritten by the next one.
        growth[len & 7] = new[word].wrapping_sub(old[word]);
        len += usize::from(is_changed);
    }
    (changed, if changed == 0 { 0 } else { by_tables(&flipped) })
}

/// [`Vector::pack_each`](super::Vector::pack_each), by what packs one line.
#[inline(always)]
pub(super) fn each(
    heads: &[u64],
    old: &[Line],
    new: &[Line],
    out: &mut [u64],
    difference: impl Fn(&Line, &Line, u8, &mut Line) -> (u8, u8),
) -> usize {
    let mut len = 0;
    for ((head, old), new) in heads.iter().zip(old).zip(new) {
        let entry = out[len..].first_chunk_mut::<ENTRY_WORDS>();
        let [to, growth @ ..] = entry.expect("room for a whole entry for each line");
        let (changed, crc) = difference(old, new, *head as u8, growth);
        *to = head & !0xffff | u64::from(crc) << 8 | u64::from(changed);
        len += if changed == 0 { 0 } else { 1 + changed.count_ones() as usize };
    }
    len
}

/// [`Vector::add_packed`](super::Vector::add_packed) word by word.
pub(super) fn add(sums: [&mut Line; 2], mask: u8, growth: &Line) {
    let [first, second] = sums;
    let (mut rest, mut next) = (mask, 0);
    while rest != 0 {
        let word = rest.trailing_zeros() as usize;
        first[word] = first[word].wrapping_add(growth[next]);
        second[word] = second[word].wrapping_add(growth[next]);
        rest &= rest - 1;
        next += 1;
    }
}

#[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
#[inline]
#[target_feature(enable = "avx512f")]
fn load(line: &Line) -> __m512i {
    // SAFETY: this function is only called where there is AVX-512F; reads the 64 bytes of the line, at
    // any address.
    unsafe { _mm512_loadu_si512(line.as_ptr().cast()) }
}

#[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
#[inline]
#[target_feature(enable = "avx512f")]
fn store(line: &mut Line, content: __m512i) {
    // SAFETY: this function is only called where there is AVX-512F; writes the 64 bytes of the line, at
    // any address.
    unsafe { _mm512_storeu_si512(line.as_mut_ptr().cast(), content) }
}

/// What is flipped, and the mask of the words in which something is.
#[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
#[inline]
#[target_feature(enable = "avx512f")]
fn pack(old: &Line, new: &Line, mask: u8, growth: &mut Line) -> (__m512i, __mmask8) {
    let (old, new) = (load(old), load(new));
    let flipped = _mm512_maskz_mov_epi64(mask, _mm512_xor_si512(old, new));
    let changed = _mm512_mask_test_epi64_mask(mask, flipped, flipped);
    store(growth, _mm512_maskz_compress_epi64(changed, _mm512_sub_epi64(new, old)));
    (flipped, changed)
}

#[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
#[target_feature(enable = "avx512f")]
pub(super) fn difference_avx512(old: &Line, new: &Line, mask: u8, growth: &mut Line) -> (u8, u8) {
    let (flipped, changed) = pack(old, new, mask, growth);
    let mut content = [0; 8];
    store(&mut content, flipped);
    (changed, by_tables(&content))
}

#[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
#[inline]
#[target_feature(enable = "avx512f,avx2,gfni")]
pub(super) fn difference_gfni(old: &Line, new: &Line, mask: u8, growth: &mut Line) -> (u8, u8) {
    let (flipped, changed) = pack(old, new, mask, growth);
    (changed, gfni::crc8_of(flipped))
}

#[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
#[target_feature(enable = "avx512f,avx2,gfni,popcnt")]
pub(super) fn each_gfni(heads: &[u64], old: &[Line], new: &[Line], out: &mut [u64]) -> usize {
    each(heads, old, new, out, |old, new, mask, growth| difference_gfni(old, new, mask, growth))
}

#[cfg(all(target_arch = "x86_64", not(outlast_portable)))]
#[target_feature(enable = "avx512f")]
pub(super) fn add_avx512(sums: [&mut Line; 2], mask: u8, growth: &Line) {
    let growth = _mm512_maskz_expand_epi64(mask, load(growth));
    for sum in sums {
        let grown = _mm512_add_epi64(load(sum), growth);
        store(sum, grown);
    }
}
