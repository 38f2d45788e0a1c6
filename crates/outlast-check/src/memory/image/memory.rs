//! The flat copy of the pool.

use outlast_trace::{LineAddr, PoolOffset};

use crate::memory::history::tracker::Base;

/// Bytes, with a fingerprint of the durable content and a journal of its changes.
///
/// Two ways lead to a word: as *durable content* (through [`Base`]: kept in the fingerprint, and
/// in the journal so that a nested walk can be undone) and raw (`get`, `put`: what decisions and
/// recoveries do, which is put back soon).
#[derive(Debug)]
pub(crate) struct Memory {
    bytes: Vec<u8>,
    fingerprint: u128,
    journal: Vec<(u64, u64)>,
}

impl Memory {
    pub fn new(bytes: &[u8]) -> Self {
        let mut bytes = bytes.to_vec();
        bytes.resize(bytes.len().next_multiple_of(64), 0);
        let words = bytes.chunks_exact(8).zip(0..);
        let fingerprint = words
            .map(|(word, index)| {
                print(index, u64::from_le_bytes(word.try_into().expect("eight bytes")))
            })
            .fold(0, u128::wrapping_add);
        Self { bytes, fingerprint, journal: Vec::new() }
    }

    #[inline]
    pub fn len(&self) -> u64 {
        self.bytes.len() as u64
    }

    /// A fingerprint of the durable content; words that are zero have no part in it, so it does
    /// not change when the medium grows.
    pub fn fingerprint(&self) -> u128 {
        self.fingerprint.wrapping_add(print(u64::MAX, self.len()))
    }

    /// Accounts for durable content that was put there raw.
    pub fn adjust_fingerprint(&mut self, by: u128) {
        self.fingerprint = self.fingerprint.wrapping_add(by);
    }

    #[inline]
    pub fn bytes(&self, at: PoolOffset, len: usize) -> &[u8] {
        &self.bytes[at.0 as usize..][..len]
    }

    #[inline]
    pub fn get(&self, at: PoolOffset, out: &mut [u8]) {
        out.copy_from_slice(self.bytes(at, out.len()));
    }

    #[inline]
    pub fn put(&mut self, at: PoolOffset, bytes: &[u8]) {
        self.bytes[at.0 as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    #[inline]
    pub fn get_word(&self, index: u64) -> u64 {
        let at = index as usize * 8;
        u64::from_le_bytes(self.bytes[at..at + 8].try_into().expect("eight bytes"))
    }

    #[inline]
    pub fn put_word(&mut self, index: u64, value: u64) {
        let at = index as usize * 8;
        self.bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Replaces a line of the durable content, leaving no trace in the journal.
    pub fn set_line(&mut self, line: LineAddr, bytes: &[u8; 64]) {
        let mark = self.journal.len();
        for (word, index) in bytes.chunks_exact(8).zip(line.0 * 8..) {
            self.set_word(index, u64::from_le_bytes(word.try_into().expect("eight bytes")));
        }
        self.journal.truncate(mark);
    }

    pub fn extend(&mut self, len: u64) {
        self.bytes.resize(len as usize, 0);
    }

    pub fn truncate(&mut self, len: u64) {
        self.bytes.truncate(len as usize);
    }

    /// Forgets how the durable content came about: it cannot be undone from here.
    pub fn clear_journal(&mut self) {
        self.journal.clear();
    }

    /// Where the journal stands.
    pub fn journal_mark(&self) -> usize {
        self.journal.len()
    }

    /// Puts the durable content back to where the journal stood at `mark`.
    pub fn undo_to(&mut self, mark: usize) {
        while self.journal.len() > mark {
            let (index, old) = self.journal.pop().expect("longer than the mark");
            self.set_word(index, old);
            self.journal.pop();
        }
    }
}

impl Base for Memory {
    #[inline]
    fn word(&self, index: u64) -> u64 {
        self.get_word(index)
    }

    fn set_word(&mut self, index: u64, value: u64) {
        let old = self.get_word(index);
        let change = print(index, value).wrapping_sub(print(index, old));
        self.fingerprint = self.fingerprint.wrapping_add(change);
        self.journal.push((index, old));
        self.put_word(index, value);
    }

    fn grow(&mut self, len: u64) {
        self.extend(len);
    }
}

/// The part of one word in a fingerprint: 128 mixed bits, none for zero.
#[inline]
pub(crate) fn print(index: u64, value: u64) -> u128 {
    if value == 0 {
        return 0;
    }
    let a = mix(value ^ index.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let b = mix(a ^ index.rotate_left(32) ^ 0xd6e8_feb8_6659_fd93);
    u128::from(a) << 64 | u128::from(b)
}

/// The next number of the sequence that a state is in.
#[inline]
pub fn draw(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mix(*state)
}

/// The finaliser of MurmurHash3, a bijection that mixes well.
#[inline]
pub fn mix(mut z: u64) -> u64 {
    z = (z ^ z >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
    z = (z ^ z >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    z ^ z >> 33
}
