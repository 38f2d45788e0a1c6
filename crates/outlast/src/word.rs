//! A word that threads share, of the processor or of a model checker.

use std::sync::atomic::{AtomicU64, Ordering};

/// What loads and stores need: protocols that are generic over it can be model-checked.
pub(crate) trait Word {
    fn new(value: u64) -> Self;
    /// Sees what whoever stored the value had seen and done before.
    fn load(&self) -> u64;
    fn store(&self, value: u64);
}

impl Word for AtomicU64 {
    fn new(value: u64) -> Self {
        Self::new(value)
    }

    #[inline]
    fn load(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    #[inline]
    fn store(&self, value: u64) {
        self.store(value, Ordering::Release);
    }
}

#[cfg(test)]
impl Word for loom::sync::atomic::AtomicU64 {
    fn new(value: u64) -> Self {
        Self::new(value)
    }

    fn load(&self) -> u64 {
        self.load(Ordering::Acquire)
    }

    fn store(&self, value: u64) {
        self.store(value, Ordering::Release);
    }
}
