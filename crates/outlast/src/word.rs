//! A word that threads share, of the processor or of a model checker.

use std::sync::atomic::{AtomicU64, Ordering};

/// Of loads: they see what the thread that stored the value had seen and done before.
const LOAD: Ordering = Ordering::Acquire;
const STORE: Ordering = Ordering::Release;

/// Loads and stores of a shared word: protocols that are generic over it can be model-checked.
pub(crate) trait Word {
    fn new(value: u64) -> Self;
    /// Sees what the thread that stored the value had seen and done before.
    fn load(&self) -> u64;
    fn store(&self, value: u64);
    /// Stores the value where that is greater.
    fn raise(&self, value: u64);
}

impl Word for AtomicU64 {
    #[inline(always)]
    fn new(value: u64) -> Self {
        Self::new(value)
    }

    #[inline]
    fn load(&self) -> u64 {
        self.load(LOAD)
    }

    #[inline]
    fn store(&self, value: u64) {
        self.store(value, STORE);
    }

    fn raise(&self, value: u64) {
        self.fetch_max(value, Ordering::SeqCst);
    }
}

#[cfg(test)]
impl Word for loom::sync::atomic::AtomicU64 {
    fn new(value: u64) -> Self {
        Self::new(value)
    }

    fn load(&self) -> u64 {
        self.load(LOAD)
    }

    fn store(&self, value: u64) {
        self.store(value, STORE);
    }

    fn raise(&self, value: u64) {
        self.fetch_max(value, Ordering::SeqCst);
    }
}
