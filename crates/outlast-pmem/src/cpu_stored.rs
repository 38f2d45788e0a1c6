//! Streams of processors without stores past the caches: ordinary stores, word by word in ascending order. Where
//! lines are flushed one by one, the caller flushes theirs ([`STREAMS_ARE_STORES`]).

use crate::mapped::words;

/// Whether what is streamed stays in the caches until it is flushed.
pub(crate) const STREAMS_ARE_STORES: bool = true;

/// Stores `src` at `dst`.
///
/// # Safety
/// - `dst` is valid for writes of `src.len()` bytes and a multiple of 8.
/// - `src.len()` is a multiple of 8.
#[inline]
pub(crate) unsafe fn stream(dst: *mut u8, src: &[u8]) {
    // SAFETY: the caller vouches for the destination.
    unsafe { words::copy_in(dst, src) }
}

/// As [`stream`], of the eight words of a line.
///
/// # Safety
/// - `dst` is valid for writes of 64 bytes and a multiple of 16.
#[inline(always)]
pub(crate) unsafe fn stream_line_words(dst: *mut u8, words: &[u64; 8]) {
    let bytes = words.map(u64::to_ne_bytes);
    // SAFETY: the caller vouches for the destination.
    unsafe { words::copy_in(dst, bytes.as_flattened()) }
}

/// Stores 64 bytes, which other threads may see in part: no processor is said to do it at once.
///
/// # Safety
/// - `dst` is valid for writes of 64 bytes and a multiple of 64.
#[inline]
pub(crate) unsafe fn store_line_atomic(dst: *mut u8, src: &[u8; 64]) {
    // SAFETY: the caller vouches for the destination.
    unsafe { words::copy_in(dst, src) }
}
