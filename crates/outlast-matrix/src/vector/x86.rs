//! Lines in the registers of AVX2 and AVX-512, and the sums compiled for them.

use std::arch::x86_64::{
    __m256i, __m512i, _mm256_add_epi64, _mm256_loadu_si256, _mm256_setzero_si256,
    _mm256_storeu_si256, _mm256_sub_epi64, _mm512_add_epi64, _mm512_loadu_si512,
    _mm512_setzero_si512, _mm512_storeu_si512, _mm512_sub_epi64,
};

use super::registers::{self, Registers};
use crate::{Line, LineSet};

/// One register holds the line.
#[derive(Clone, Copy)]
struct Avx512(__m512i);

impl Registers for Avx512 {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller vouches for AVX-512F.
        Self(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn load(line: &Line) -> Self {
        // SAFETY: the caller vouches for AVX-512F; reads the 64 bytes of the line, at any address.
        Self(unsafe { _mm512_loadu_si512(line.as_ptr().cast()) })
    }

    #[inline(always)]
    fn store(self, line: &mut Line) {
        // SAFETY: `self` proves AVX-512F; writes the 64 bytes of the line, at any address.
        unsafe { _mm512_storeu_si512(line.as_mut_ptr().cast(), self.0) }
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        // SAFETY: `self` proves AVX-512F.
        Self(unsafe { _mm512_add_epi64(self.0, other.0) })
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        // SAFETY: `self` proves AVX-512F.
        Self(unsafe { _mm512_sub_epi64(self.0, other.0) })
    }
}

/// Two registers hold the line.
#[derive(Clone, Copy)]
struct Avx2(__m256i, __m256i);

impl Registers for Avx2 {
    #[inline(always)]
    unsafe fn zero() -> Self {
        // SAFETY: the caller vouches for AVX2.
        let zero = unsafe { _mm256_setzero_si256() };
        Self(zero, zero)
    }

    #[inline(always)]
    unsafe fn load(line: &Line) -> Self {
        let from: *const __m256i = line.as_ptr().cast();
        // SAFETY: the caller vouches for AVX2; reads the line's two halves, at any address.
        unsafe { Self(_mm256_loadu_si256(from), _mm256_loadu_si256(from.add(1))) }
    }

    #[inline(always)]
    fn store(self, line: &mut Line) {
        let to: *mut __m256i = line.as_mut_ptr().cast();
        // SAFETY: `self` proves AVX2; writes the line's two halves, at any address.
        unsafe {
            _mm256_storeu_si256(to, self.0);
            _mm256_storeu_si256(to.add(1), self.1);
        }
    }

    #[inline(always)]
    fn plus(self, other: Self) -> Self {
        // SAFETY: `self` proves AVX2.
        unsafe { Self(_mm256_add_epi64(self.0, other.0), _mm256_add_epi64(self.1, other.1)) }
    }

    #[inline(always)]
    fn minus(self, other: Self) -> Self {
        // SAFETY: `self` proves AVX2.
        unsafe { Self(_mm256_sub_epi64(self.0, other.0), _mm256_sub_epi64(self.1, other.1)) }
    }
}

#[target_feature(enable = "avx2")]
pub(super) fn update_avx2(consistency: &mut Line, correlation: &mut Line, old: &Line, new: &Line) {
    // SAFETY: this function is only called where there is AVX2.
    unsafe { registers::update::<Avx2>(consistency, correlation, old, new) }
}

#[target_feature(enable = "avx512f")]
pub(super) fn update_avx512(
    consistency: &mut Line,
    correlation: &mut Line,
    old: &Line,
    new: &Line,
) {
    // SAFETY: this function is only called where there is AVX-512F.
    unsafe { registers::update::<Avx512>(consistency, correlation, old, new) }
}

#[target_feature(enable = "avx2")]
pub(super) fn update_run_avx2(
    first: usize,
    old: &[Line],
    new: &[Line],
    consistency: &mut [Line],
    correlation: &mut [Line],
) {
    // SAFETY: this function is only called where there is AVX2.
    unsafe { registers::update_run::<Avx2>(first, old, new, consistency, correlation) }
}

#[target_feature(enable = "avx2")]
pub(super) fn create_avx2(
    data: &[Line],
    members: &LineSet,
    consistency: &mut [Line],
    correlation: &mut [Line],
) {
    // SAFETY: this function is only called where there is AVX2.
    unsafe { registers::create::<Avx2>(data, members, consistency, correlation) }
}

#[target_feature(enable = "avx512f")]
pub(super) fn update_run_avx512(
    first: usize,
    old: &[Line],
    new: &[Line],
    consistency: &mut [Line],
    correlation: &mut [Line],
) {
    // SAFETY: this function is only called where there is AVX-512F.
    unsafe { registers::update_run::<Avx512>(first, old, new, consistency, correlation) }
}

#[target_feature(enable = "avx512f")]
pub(super) fn create_avx512(
    data: &[Line],
    members: &LineSet,
    consistency: &mut [Line],
    correlation: &mut [Line],
) {
    // SAFETY: this function is only called where there is AVX-512F.
    unsafe { registers::create::<Avx512>(data, members, consistency, correlation) }
}
