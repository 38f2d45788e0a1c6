//! Recovery on trial: what it would store, over a medium that stays as it is.

use std::cell::RefCell;
use std::collections::HashMap;
use std::hash::BuildHasherDefault;

use outlast_pmem::Medium;
use outlast_trace::{LineAddr, PoolOffset, word_pieces};
use rustc_hash::FxHasher;

/// A medium that keeps what is stored to itself. Takes memory for every word that differs.
pub(crate) struct Trial<'m, M> {
    below: &'m M,
    stored: RefCell<HashMap<u64, u64, BuildHasherDefault<FxHasher>>>,
}

impl<'m, M: Medium> Trial<'m, M> {
    pub fn over(below: &'m M) -> Self {
        Self { below, stored: RefCell::default() }
    }
}

impl<M: Medium> Medium for Trial<'_, M> {
    const OBSERVED: bool = M::OBSERVED;

    #[inline]
    fn planted(&self) -> u16 {
        self.below.planted()
    }

    fn has_atomic_line(&self) -> bool {
        self.below.has_atomic_line()
    }

    fn len(&self) -> u64 {
        self.below.len()
    }

    /// Words that were stored are not looked at underneath: to a crash checker that would matter.
    fn load(&self, at: PoolOffset, out: &mut [u8]) {
        let stored = self.stored.borrow();
        if stored.is_empty() {
            return self.below.load(at, out);
        }
        let (mut done, mut loaded) = (0, 0);
        for (piece, len) in word_pieces(at, out.len()) {
            if let Some(word) = stored.get(&(piece.0 / 8)) {
                if loaded < done {
                    self.below.load(at.plus(loaded as u64), &mut out[loaded..done]);
                }
                let from = piece.0 as usize % 8;
                out[done..done + len].copy_from_slice(&word.to_le_bytes()[from..from + len]);
                loaded = done + len;
            }
            done += len;
        }
        if loaded < done {
            self.below.load(at.plus(loaded as u64), &mut out[loaded..done]);
        }
    }

    fn load_u64(&self, at: PoolOffset) -> u64 {
        let stored = self.stored.borrow().get(&(at.0 / 8)).copied();
        stored.unwrap_or_else(|| self.below.load_u64(at))
    }

    fn store(&self, at: PoolOffset, bytes: &[u8]) {
        let mut done = 0;
        for (piece, len) in word_pieces(at, bytes.len()) {
            let from = piece.0 as usize % 8;
            let word = PoolOffset(piece.0 - from as u64);
            let mut content = self.load_u64(word).to_le_bytes();
            content[from..from + len].copy_from_slice(&bytes[done..done + len]);
            self.store_u64(word, u64::from_le_bytes(content));
            done += len;
        }
    }

    fn store_u64(&self, at: PoolOffset, value: u64) {
        self.stored.borrow_mut().insert(at.0 / 8, value);
    }

    fn store_nt(&self, at: PoolOffset, bytes: &[u8]) {
        self.store(at, bytes);
    }

    fn store_line(&self, line: LineAddr, bytes: &[u8; 64]) {
        self.store(line.start(), bytes);
    }

    fn flush(&self, _: LineAddr) {}

    fn fence(&self) {}

    fn compare_exchange_u64(&self, at: PoolOffset, current: u64, new: u64) -> Result<u64, u64> {
        let found = self.load_u64(at);
        if found != current {
            return Err(found);
        }
        self.store_u64(at, new);
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use outlast_pmem::Heap;

    use super::*;

    #[test]
    fn what_is_stored_is_seen_and_the_medium_stays_as_it_is() {
        let heap = Heap::from_bytes(&[1; 256]);
        let trial = Trial::over(&heap);
        trial.store(PoolOffset(62), &[9; 4]);
        trial.store_u64(PoolOffset(128), 7);
        let mut bytes = [0; 256];
        trial.load(PoolOffset(0), &mut bytes);
        let mut right = [1; 256];
        right[62..66].fill(9);
        right[128..136].copy_from_slice(&7u64.to_le_bytes());
        assert_eq!(bytes, right);
        assert_eq!(trial.compare_exchange_u64(PoolOffset(128), 8, 9), Err(7));
        assert_eq!(trial.compare_exchange_u64(PoolOffset(128), 7, 9), Ok(7));
        assert_eq!(trial.load_u64(PoolOffset(128)), 9);
        assert_eq!(heap.to_bytes(), [1; 256]);
    }
}
