//! The interface of the instruction file for processors whose flush instructions are not known:
//! ordinary stores and fences, enough for the domains `process` and `page`.

use std::sync::atomic::{Ordering, fence};

use outlast_trace::FlushKind;

/// Whether the instructions that make single lines durable are known for this processor.
pub(crate) const HAS_LINE_FLUSH: bool = false;

/// What this processor has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CpuFeatures {
    /// The best instruction that writes a line back, if there is one.
    pub flush: Option<FlushKind>,
    /// Whether a line can be stored atomically (`movdir64b`).
    pub movdir64b: bool,
}

/// What is known of this processor: nothing.
pub fn cpu_features() -> CpuFeatures {
    CpuFeatures { flush: None, movdir64b: false }
}

/// Whether this processor is known to have that instruction: no.
pub fn has_flush(_: FlushKind) -> bool {
    false
}

/// Never reached: without line flushes there is no domain that asks for one.
///
/// # Safety
/// None is needed; the signature is that of the instruction.
pub(crate) unsafe fn flush_line(kind: FlushKind, _line: *const u8) {
    unreachable!("{kind:?} on a processor without it");
}

/// Whether this processor is known to have an instruction for CRC-32C: no.
pub(crate) fn has_crc32c() -> bool {
    false
}

/// Never reached.
///
/// # Safety
/// None is needed; the signature is that of the instruction.
pub(crate) unsafe fn crc32c_step(_crc: u64, _word: u64) -> u64 {
    unreachable!("CRC-32C by an instruction that is not there");
}

/// Orders all earlier stores before all later ones.
#[inline(always)]
pub(crate) fn store_fence() {
    fence(Ordering::SeqCst);
}

/// As [`store_fence`], and orders loads.
#[inline(always)]
pub(crate) fn full_fence() {
    fence(Ordering::SeqCst);
}

/// Does nothing: a prefetch is a hint.
#[inline(always)]
pub(crate) fn prefetch_write(_line: *const u8) {}

/// As [`prefetch_write`].
#[inline(always)]
pub(crate) fn prefetch_read(_line: *const u8) {}

/// Stores `src` at `dst` with ordinary stores, word by word in ascending order.
///
/// # Safety
/// - `dst` is valid for writes of `src.len()` bytes and a multiple of 8.
/// - `src.len()` is a multiple of 8.
#[inline]
pub(crate) unsafe fn stream(dst: *mut u8, src: &[u8]) {
    // SAFETY: the caller vouches for the destination.
    unsafe { crate::mapped::words::copy_in(dst, src) }
}

/// As [`stream`], of the eight words of a line.
///
/// # Safety
/// - `dst` is valid for writes of 64 bytes and a multiple of 16.
#[inline(always)]
pub(crate) unsafe fn stream_line_words(dst: *mut u8, words: &[u64; 8]) {
    let bytes = words.map(u64::to_ne_bytes);
    // SAFETY: the caller vouches for the destination.
    unsafe { crate::mapped::words::copy_in(dst, bytes.as_flattened()) }
}

/// Stores 64 bytes with ordinary stores.
///
/// # Safety
/// - `dst` is valid for writes of 64 bytes and a multiple of 64.
#[inline]
pub(crate) unsafe fn store_line_atomic(dst: *mut u8, src: &[u8; 64]) {
    // SAFETY: the caller vouches for the destination.
    unsafe { crate::mapped::words::copy_in(dst, src) }
}
