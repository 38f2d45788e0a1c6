//! Numbers for new keys, acknowledged once their keys are there.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// How far the first unacknowledged number may lag behind the newest.
const WINDOW: u64 = 1 << 20;

/// YCSB's `AcknowledgedCounterGenerator`: threads take numbers for the keys they insert and
/// acknowledge them afterwards, and [`last`](Self::last) never names a key that is not inserted.
#[derive(Debug)]
pub struct InsertSequence {
    next: AtomicU64,
    limit: AtomicU64,
    acknowledged: Box<[AtomicU64]>,
    advancing: Mutex<()>,
}

impl InsertSequence {
    /// A sequence whose numbers below `start`, which is not 0, are all acknowledged.
    pub fn new(start: u64) -> Self {
        Self {
            next: AtomicU64::new(start),
            limit: AtomicU64::new(start - 1),
            acknowledged: (0..WINDOW / 64).map(|_| AtomicU64::new(0)).collect(),
            advancing: Mutex::new(()),
        }
    }

    /// Takes the next number.
    ///
    /// # Panics
    /// When a million numbers before it are taken and the first of them not acknowledged.
    pub fn take(&self) -> u64 {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        assert!(number - self.last() < WINDOW, "too many insertions are under way");
        number
    }

    /// The key of `number` is inserted.
    pub fn acknowledge(&self, number: u64) {
        let (word, bit) = self.bit(number);
        word.fetch_or(bit, Ordering::SeqCst);
        loop {
            // The thread that holds the lock sees this bit, or this thread looks again behind it.
            let Ok(advancing) = self.advancing.try_lock() else { return };
            let mut limit = self.last();
            loop {
                let (word, bit) = self.bit(limit + 1);
                if word.fetch_and(!bit, Ordering::SeqCst) & bit == 0 {
                    break;
                }
                limit += 1;
                self.limit.store(limit, Ordering::SeqCst);
            }
            drop(advancing);
            let (word, bit) = self.bit(limit + 1);
            if word.load(Ordering::SeqCst) & bit == 0 {
                return;
            }
        }
    }

    /// The last number of which it and all before it are acknowledged.
    #[inline]
    pub fn last(&self) -> u64 {
        self.limit.load(Ordering::SeqCst)
    }

    fn bit(&self, number: u64) -> (&AtomicU64, u64) {
        let place = number % WINDOW;
        (&self.acknowledged[(place / 64) as usize], 1 << (place % 64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_number_waits_for_all_before_it() {
        let sequence = InsertSequence::new(10);
        assert_eq!(sequence.last(), 9);
        let taken: Vec<_> = (0..4).map(|_| sequence.take()).collect();
        assert_eq!(taken, [10, 11, 12, 13]);
        for (acknowledged, last) in [(11, 9), (13, 9), (10, 11), (12, 13)] {
            sequence.acknowledge(acknowledged);
            assert_eq!(sequence.last(), last);
        }
    }

    #[test]
    fn threads_that_acknowledge_leave_none_behind() {
        let sequence = InsertSequence::new(1);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let number = sequence.take();
                        assert!(sequence.last() < number);
                        sequence.acknowledge(number);
                    }
                });
            }
        });
        assert_eq!(sequence.last(), 80_000);
    }
}
