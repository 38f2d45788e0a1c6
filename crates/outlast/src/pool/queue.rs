//! Threads that wait for a lane.

use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Sleeping threads, woken one by one as lanes are given back.
pub(crate) struct LaneQueue {
    /// The wait of a thread that names none.
    pub wait_usually: Duration,
    waiting: AtomicUsize,
    turn: Mutex<()>,
    given_back: Condvar,
}

impl LaneQueue {
    pub fn new(wait_usually: Duration) -> Self {
        let (waiting, turn, given_back) = Default::default();
        Self { wait_usually, waiting, turn, given_back }
    }

    /// Asks `take` again whenever a lane was given back, until it has an answer; `None` when there is
    /// none in time.
    pub fn wait_until<R>(
        &self,
        deadline: Option<Instant>,
        mut take: impl FnMut() -> Option<R>,
    ) -> Option<R> {
        // A thread that gives a lane back either sees this one, or this one sees the lane.
        self.waiting.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let mut turn = self.turn();
        let taken = loop {
            let taken = take();
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            turn = match left {
                _ if taken.is_some() => break taken,
                None => self.given_back.wait(turn).unwrap_or_else(PoisonError::into_inner),
                Some(left) if left.is_zero() => break None,
                Some(left) => {
                    let woken = self.given_back.wait_timeout(turn, left);
                    woken.unwrap_or_else(PoisonError::into_inner).0
                }
            };
        };
        drop(turn);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
        taken
    }

    /// A lane is free.
    pub fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // A thread that has looked and found none sleeps by the time that this one has the lock.
            drop(self.turn());
            self.given_back.notify_one();
        }
    }

    fn turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
