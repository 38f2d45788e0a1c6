//! A medium on the heap: no file, no assembly, runs under Miri and on every system.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use bytemuck::allocation::zeroed_slice_box;
use outlast_trace::{LineAddr, PoolOffset, word_pieces};

use crate::medium::{Medium, check_bounds, whole_lines};

/// Volatile memory behind the [`Medium`] interface. Flushes and fences do nothing: the bytes
/// live exactly as long as the value.
pub struct Heap {
    words: Box<[AtomicU64]>,
    /// In bytes. To ask the words would have Miri visit each of them, at every access.
    len: u64,
}

impl Heap {
    /// `len` zero bytes, rounded up to whole lines.
    pub fn new(len: u64) -> Self {
        let len = whole_lines(len);
        Self { words: zeroed_slice_box(len as usize / 8), len }
    }

    /// A copy of `bytes`, padded with zeros to whole lines.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        let mut heap = Self::new(bytes.len() as u64);
        let (whole, rest) = bytes.as_chunks::<8>();
        for (word, bytes) in heap.words.iter_mut().zip(whole) {
            *word.get_mut() = u64::from_le_bytes(*bytes);
        }
        if let Some(last) = heap.words.get_mut(whole.len()) {
            let mut padded = [0; 8];
            padded[..rest.len()].copy_from_slice(rest);
            *last.get_mut() = u64::from_le_bytes(padded);
        }
        heap
    }

    /// A copy of the whole content.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.len() as usize];
        self.load(PoolOffset(0), &mut bytes);
        bytes
    }

    /// The words of a range, if it begins and ends with one. None under Miri, for the same reason.
    fn whole_words(&self, at: PoolOffset, len: usize) -> Option<&[AtomicU64]> {
        let is_whole = at.is_aligned(8) && len.is_multiple_of(8) && !cfg!(miri);
        is_whole.then(|| &self.words[at.0 as usize / 8..][..len / 8])
    }
}

impl Medium for Heap {
    const OBSERVED: bool = false;

    fn has_atomic_line(&self) -> bool {
        false
    }

    fn len(&self) -> u64 {
        self.len
    }

    fn load(&self, at: PoolOffset, out: &mut [u8]) {
        check_bounds(self.len(), at, out.len() as u64);
        if let Some(words) = self.whole_words(at, out.len()) {
            for (bytes, word) in out.as_chunks_mut::<8>().0.iter_mut().zip(words) {
                *bytes = word.load(Ordering::Relaxed).to_le_bytes();
            }
            fence(Ordering::Acquire);
            return;
        }
        let mut done = 0;
        for (piece, len) in word_pieces(at, out.len()) {
            let word = self.words[piece.0 as usize / 8].load(Ordering::Relaxed).to_le_bytes();
            let from = piece.0 as usize % 8;
            out[done..done + len].copy_from_slice(&word[from..from + len]);
            done += len;
        }
        fence(Ordering::Acquire);
    }

    fn load_u64(&self, at: PoolOffset) -> u64 {
        assert!(at.is_aligned(8), "a word at {at} is not aligned");
        self.words[at.0 as usize / 8].load(Ordering::Acquire)
    }

    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        check_bounds(self.len(), at, bytes.len() as u64);
        if let Some(words) = self.whole_words(at, bytes.len()) {
            for (word, bytes) in words.iter().zip(bytes.as_chunks::<8>().0) {
                word.store(u64::from_le_bytes(*bytes), Ordering::Release);
            }
            return;
        }
        let mut done = 0;
        for (piece, len) in word_pieces(at, bytes.len()) {
            let word = &self.words[piece.0 as usize / 8];
            let from = piece.0 as usize % 8;
            // A partial word keeps its other bytes. Two threads that store to different bytes
            // of one word must not undo each other, hence the loop.
            let new = &bytes[done..done + len];
            let _ = word.fetch_update(Ordering::Release, Ordering::Relaxed, |old| {
                let mut merged = old.to_le_bytes();
                merged[from..from + len].copy_from_slice(new);
                Some(u64::from_le_bytes(merged))
            });
            done += len;
        }
    }

    fn store_u64(&self, at: PoolOffset, value: u64) {
        assert!(at.is_aligned(8), "a word at {at} is not aligned");
        self.words[at.0 as usize / 8].store(value, Ordering::Release);
    }

    fn store_nt(&self, at: PoolOffset, bytes: &[u8]) {
        assert!(at.is_aligned(8) && bytes.len().is_multiple_of(8), "streams take whole words");
        self.store(at, bytes);
    }

    fn store_line(&self, line: LineAddr, bytes: &[u8; 64]) {
        self.store(line.start(), bytes);
    }

    fn flush(&self, line: LineAddr) {
        check_bounds(self.len(), line.start(), 64);
    }

    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    fn compare_exchange_u64(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        assert!(at.is_aligned(8), "a word at {at} is not aligned");
        self.words[at.0 as usize / 8].compare_exchange(
            current,
            new,
            Ordering::SeqCst,
            Ordering::SeqCst,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unaligned_stores_keep_their_neighbours() {
        let medium = Heap::from_bytes(&[0xff; 64]);
        medium.store(PoolOffset(5), &[1, 2, 3, 4, 5, 6]);
        let mut out = [0; 8];
        medium.load(PoolOffset(4), &mut out);
        assert_eq!(out, [0xff, 1, 2, 3, 4, 5, 6, 0xff]);
    }

    #[test]
    fn bytes_come_back_in_whole_words_and_in_parts() {
        let bytes: Vec<u8> = (0..150).collect();
        let mut all = Heap::from_bytes(&bytes).to_bytes();
        assert_eq!(all.len(), 192);
        assert_eq!(all[..150], bytes);
        assert!(all[150..].iter().all(|byte| *byte == 0));
        let medium = Heap::new(192);
        for (at, len) in [(0, 192), (8, 16), (9, 24), (16, 5), (40, 0), (192, 0), (67, 61)] {
            let new: Vec<u8> = (0..len).map(|n| n as u8 ^ at as u8 ^ 0x55).collect();
            medium.store(PoolOffset(at as u64), &new);
            let mut found = vec![0; len];
            medium.load(PoolOffset(at as u64), &mut found);
            assert_eq!(found, new, "{len} bytes at {at}");
            all[at..at + len].copy_from_slice(&new);
            assert_eq!(medium.to_bytes(), all, "{len} bytes at {at}");
        }
    }

    #[test]
    #[should_panic(expected = "leaves a medium of 64 bytes")]
    fn an_access_past_the_end_panics() {
        Heap::new(64).store(PoolOffset(60), &[0; 8]);
    }
}
