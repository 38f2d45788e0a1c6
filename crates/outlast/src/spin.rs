//! A lock that waits through the medium, so that a scheduler can run its holder.

use std::sync::{Mutex, MutexGuard, TryLockError};

use outlast_pmem::Medium;

/// A mutex for short critical sections. A panic of its holder does not poison it: what it
/// guards is volatile bookkeeping that each method leaves whole.
#[derive(Default)]
pub(crate) struct SpinLock<T>(Mutex<T>);

impl<T> SpinLock<T> {
    pub fn new(value: T) -> Self {
        Self(Mutex::new(value))
    }

    /// The lock, if it is free.
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(poisoned)) => Some(poisoned.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// Waits for the lock; the medium's scheduler may run others meanwhile.
    pub fn lock<M: Medium>(&self, medium: &M) -> MutexGuard<'_, T> {
        let mut tries = 0u32;
        loop {
            match self.try_lock() {
                Some(guard) => return guard,
                None => wait(medium, &mut tries),
            }
        }
    }
}

/// One round of waiting for another transaction, twice as long as the round before. Meanwhile that one,
/// and maybe the next ones of its lane, run with the lines that their core has.
#[inline]
pub(crate) fn wait_longer<M: Medium>(medium: &M, tries: &mut u32) {
    let rounds = if M::OBSERVED { 1 } else { 1 << *tries };
    (0..rounds).for_each(|_| medium.pause());
    *tries += 1;
}

/// One round of waiting: spin first, then let the operating system run another thread, since the
/// thread waited for may need this very core.
#[inline]
pub(crate) fn wait<M: Medium>(medium: &M, tries: &mut u32) {
    #[cfg(all(test, outlast_loom))]
    loom::thread::yield_now();
    medium.pause();
    *tries += 1;
    if !M::OBSERVED && (*tries).is_multiple_of(64) {
        std::thread::yield_now();
    }
}
