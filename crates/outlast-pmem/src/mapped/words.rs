//! Copies in and out of memory that other threads use at the same time.
//!
//! A plain `memcpy` would be a data race. Whole aligned words are therefore moved by relaxed or
//! release atomics, which are plain `mov`s on x86-64. A load takes the whole words at both ends
//! too and cuts them; a store must leave the neighbouring bytes alone and so uses the widest
//! aligned pieces (1, 2 or 4 bytes) that fit. Such a piece may race with a load of the word
//! around it; the load then sees each byte old or new, as the processor gives it. Optimistic
//! readers detect that by their version check and throw the bytes away.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

#[cfg(all(target_arch = "x86_64", not(outlast_portable), not(miri)))]
use crate::cpu::copy_words;
#[cfg(not(all(target_arch = "x86_64", not(outlast_portable), not(miri))))]
use copy_word_by_word as copy_words;

/// Copies `out.len()` bytes from `src`.
///
/// # Safety
/// - Every aligned 8-byte word that `[src, src + out.len())` touches is valid for atomic reads
///   and is written only through atomics or this module.
#[inline(always)]
pub(crate) unsafe fn copy_out(src: *const u8, out: &mut [u8]) {
    if out.len() > 64 && src.addr().is_multiple_of(8) && out.len().is_multiple_of(64) {
        // SAFETY: `src` is aligned; whole lines lie inside the range.
        return unsafe { copy_words(src, out) };
    }
    if out.len() > 64 || !(src.addr() | out.len()).is_multiple_of(8) {
        // SAFETY: as the caller vouches.
        return unsafe { copy_out_any(src, out) };
    }
    // A line, or a few whole words: worth having in the caller, which often knows how many and has
    // those that it looks at in registers.
    // SAFETY: `src` is aligned; the words lie inside the range.
    unsafe { copy_word_by_word(src, out) };
}

/// # Safety
/// As [`copy_out`].
unsafe fn copy_out_any(src: *const u8, out: &mut [u8]) {
    let skew = src.addr() % 8;
    let (mut from, mut out) = (src, out);
    if skew != 0 && !out.is_empty() {
        let head = out.len().min(8 - skew);
        let (first, rest) = out.split_at_mut(head);
        // SAFETY: `src - skew` is the aligned word that holds the first byte.
        let word = unsafe { load(src.sub(skew)) } >> (8 * skew);
        put_bytes(first, word);
        // SAFETY: `head` bytes were inside the range.
        from = unsafe { src.add(head) };
        out = rest;
    }
    let whole = out.len() / 8 * 8;
    let (words, tail) = out.split_at_mut(whole);
    // SAFETY: `from` is aligned, and `whole` bytes from there on lie inside the range.
    unsafe {
        if whole >= 64 {
            copy_words(from, words);
        } else {
            copy_word_by_word(from, words);
        }
        from = from.add(whole);
    }
    if !tail.is_empty() {
        // SAFETY: the aligned word at `from` holds the last bytes of the range.
        put_bytes(tail, unsafe { load(from) });
    }
}

/// Copies `bytes` to `dst`, aligned words in ascending order.
///
/// # Safety
/// - `[dst, dst + bytes.len())` is valid for atomic writes, and is accessed only through
///   atomics or this module.
#[inline]
pub(crate) unsafe fn copy_in(dst: *mut u8, bytes: &[u8]) {
    let skew = dst.addr() % 8;
    let (mut to, mut bytes) = (dst, bytes);
    if skew != 0 {
        let (head, rest) = bytes.split_at(bytes.len().min(8 - skew));
        // SAFETY: the head lies inside the range and in one word.
        unsafe {
            store_part(to, head);
            to = to.add(head.len());
        }
        bytes = rest;
    }
    let (lines, rest) = bytes.as_chunks::<64>();
    for line in lines {
        for (i, word) in line.as_chunks::<8>().0.iter().enumerate() {
            // SAFETY: `to` is aligned, and its next 64 bytes lie inside the range.
            unsafe { store(to.add(8 * i), u64::from_le_bytes(*word)) };
        }
        // SAFETY: as above.
        to = unsafe { to.add(64) };
    }
    let (words, tail) = rest.as_chunks::<8>();
    for word in words {
        // SAFETY: `to` is aligned, and its next 8 bytes lie inside the range.
        unsafe {
            store(to, u64::from_le_bytes(*word));
            to = to.add(8);
        }
    }
    // SAFETY: the tail is what is left of the range, less than a word at an aligned address.
    unsafe { store_part(to, tail) };
}

/// The aligned little-endian word at `at`.
///
/// # Safety
/// `src` is aligned and valid for atomic reads of `out.len()` bytes, a multiple of 8.
#[inline(always)]
unsafe fn copy_word_by_word(src: *const u8, out: &mut [u8]) {
    for (i, to) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        // SAFETY: one of the words that the caller vouches for.
        *to = unsafe { load(src.add(8 * i)) }.to_le_bytes();
    }
}

/// # Safety
/// `at` is aligned and valid for atomic reads of 8 bytes.
#[inline(always)]
unsafe fn load(at: *const u8) -> u64 {
    // SAFETY: as the caller vouches. The cast to a mutable pointer serves the signature only.
    u64::from_le(unsafe { AtomicU64::from_ptr(at.cast_mut().cast()) }.load(Ordering::Relaxed))
}

/// Stores an aligned little-endian word after all earlier stores of this thread.
///
/// # Safety
/// `at` is aligned and valid for atomic writes of 8 bytes.
#[inline(always)]
unsafe fn store(at: *mut u8, value: u64) {
    // SAFETY: as the caller vouches.
    unsafe { AtomicU64::from_ptr(at.cast()) }.store(value.to_le(), Ordering::Release);
}

/// Writes the low bytes of `word` to `out`, fewer than eight.
#[inline(always)]
fn put_bytes(out: &mut [u8], mut word: u64) {
    let (fours, rest) = out.as_chunks_mut::<4>();
    for four in fours {
        *four = (word as u32).to_le_bytes();
        word >>= 32;
    }
    for byte in rest {
        *byte = word as u8;
        word >>= 8;
    }
}

/// Stores less than a word, all of it inside one word, by the widest aligned pieces: first the
/// narrow ones that bring the address into line, then ever narrower ones.
///
/// # Safety
/// `[at, at + bytes.len())` is valid for atomic writes and lies inside one aligned word.
#[inline(always)]
unsafe fn store_part(mut at: *mut u8, mut bytes: &[u8]) {
    // SAFETY: each piece lies inside what is left of the range. `at` is a multiple of the size of
    // its piece: on the way up its lower bits have just been cleared; on the way down it is a
    // multiple of 4, or less than the piece is left and the step is not taken, since otherwise
    // the way up had taken it.
    unsafe {
        if at.addr() & 1 != 0 {
            store_piece::<1>(&mut at, &mut bytes);
        }
        if at.addr() & 2 != 0 {
            store_piece::<2>(&mut at, &mut bytes);
        }
        store_piece::<4>(&mut at, &mut bytes);
        store_piece::<2>(&mut at, &mut bytes);
        store_piece::<1>(&mut at, &mut bytes);
    }
}

/// Stores the first `N` of `bytes`, if there are as many, and steps past them.
///
/// # Safety
/// - `N` is 1, 2 or 4.
/// - If there are `N` bytes, `at` is a multiple of `N` and valid for atomic writes of them.
#[inline(always)]
unsafe fn store_piece<const N: usize>(at: &mut *mut u8, bytes: &mut &[u8]) {
    let Some((piece, rest)) = bytes.split_first_chunk::<N>() else { return };
    debug_assert!(at.addr().is_multiple_of(N), "a piece of {N} bytes at {at:?}");
    // SAFETY: as the caller vouches.
    unsafe {
        match *piece.as_slice() {
            [a] => AtomicU8::from_ptr(*at).store(a, Ordering::Release),
            [a, b] => {
                AtomicU16::from_ptr(at.cast()).store(u16::from_ne_bytes([a, b]), Ordering::Release)
            }
            [a, b, c, d] => AtomicU32::from_ptr(at.cast())
                .store(u32::from_ne_bytes([a, b, c, d]), Ordering::Release),
            _ => unreachable!("pieces have 1, 2 or 4 bytes"),
        }
        *at = at.add(N);
    }
    *bytes = rest;
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every offset and length up to a few words: the model is a byte vector. Under Miri this
    /// also proves that nothing outside the touched words is accessed.
    #[test]
    fn copies_agree_with_a_byte_vector() {
        for at in 0..16usize {
            for len in 0..=(96 - at).min(if cfg!(miri) { 24 } else { 80 }) {
                let mut memory = vec![u64::MAX; 12];
                let base = memory.as_mut_ptr().cast::<u8>();
                let bytes: Vec<u8> = (0..len as u8).collect();
                let mut model = [0xff; 96];
                model[at..at + len].copy_from_slice(&bytes);

                // SAFETY: `at + len` is at most 96, the size of the memory, which is aligned.
                unsafe { copy_in(base.add(at), &bytes) };
                let mut out = vec![0; len];
                // SAFETY: as above.
                unsafe { copy_out(base.add(at), &mut out) };
                assert_eq!(out, bytes, "at {at} len {len}");
                let mut all = [0; 96];
                // SAFETY: as above.
                unsafe { copy_out(base, &mut all) };
                assert_eq!(all, model, "at {at} len {len}");
            }
        }
    }
}
