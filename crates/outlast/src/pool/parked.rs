//! State shared by a lane and the threads that want its batch durable: whether there is one, and the lane's
//! state while no thread uses it (HANDOFF-1, HANDOFF-4).
//!
//! It is generic over words and over the place of the state, so that a model checker goes through
//! all that threads can do to each other with it.

use std::sync::atomic::AtomicU64;

use crate::spin::SpinLock;
use crate::word::Word;

/// Where a state lies that any thread may take. Either call may fail because another one is under way.
pub(crate) trait Place<S> {
    fn empty() -> Self;
    fn try_put(&self, state: S) -> Result<(), S>;
    fn try_take(&self) -> Option<S>;
}

impl<S> Place<S> for SpinLock<Option<S>> {
    fn empty() -> Self {
        Self::new(None)
    }

    fn try_put(&self, state: S) -> Result<(), S> {
        match self.try_lock() {
            Some(mut place) => {
                *place = Some(state);
                Ok(())
            }
            None => Err(state),
        }
    }

    fn try_take(&self) -> Option<S> {
        self.try_lock()?.take()
    }
}

/// A lane's batch, as others see it.
pub(crate) struct Parked<S, W = AtomicU64, P = SpinLock<Option<S>>> {
    /// The batch that is not durable, counted from 1; 0 when there is none.
    pending: W,
    /// The last batch that is.
    durable: W,
    /// Another thread waits while the lane has a transaction.
    wanted: W,
    state: P,
    _state: std::marker::PhantomData<fn(S) -> S>,
}

impl<S, W: Word, P: Place<S>> Parked<S, W, P> {
    pub fn new() -> Self {
        Self {
            pending: W::new(0),
            durable: W::new(0),
            wanted: W::new(0),
            state: P::empty(),
            _state: std::marker::PhantomData,
        }
    }

    /// The batch that is not durable; 0 when there is none.
    #[inline]
    pub fn pending(&self) -> u64 {
        self.pending.load()
    }

    /// A thread that reads so sees all that was done for the batch before it was called durable.
    #[inline]
    pub fn is_durable(&self, batch: u64) -> bool {
        self.durable.load() >= batch
    }

    /// For the thread that has the state: a batch has its first transaction.
    #[inline]
    pub fn begun(&self, batch: u64) {
        self.pending.store(batch);
    }

    /// For the thread that has the state: the batch is durable.
    pub fn show_durable(&self, batch: u64) {
        self.durable.store(batch);
    }

    /// For the thread that has the state: the batch is over.
    pub fn ended(&self) {
        self.pending.store(0);
        self.wanted.store(0);
    }

    /// Asks the lane that runs to make its batch durable.
    pub fn want(&self) {
        self.wanted.store(1);
    }

    /// Whether the lane that runs is asked.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wanted.load() != 0
    }

    /// Leaves the state to any thread; `wait` is called before each next try.
    #[inline]
    pub fn put(&self, mut state: S, mut wait: impl FnMut()) {
        while let Err(back) = self.state.try_put(state) {
            state = back;
            wait();
        }
    }

    /// The state, if it lies there.
    #[inline]
    pub fn try_take(&self) -> Option<S> {
        self.state.try_take()
    }
}

#[cfg(all(test, not(miri)))]
mod tests {
    use loom::sync::atomic::{AtomicU64, Ordering};
    use loom::sync::{Arc, Mutex};
    use loom::thread::yield_now;

    use super::*;

    impl<S> Place<S> for Mutex<Option<S>> {
        fn empty() -> Self {
            Self::new(None)
        }

        fn try_put(&self, state: S) -> Result<(), S> {
            *self.lock().unwrap() = Some(state);
            Ok(())
        }

        fn try_take(&self) -> Option<S> {
            self.lock().unwrap().take()
        }
    }

    /// A lane's state. Two cannot have it at a time: that is what its type says.
    struct State {
        transactions: u64,
        batches: u64,
    }

    type Shared = Parked<Box<State>, AtomicU64, Mutex<Option<Box<State>>>>;

    /// Makes the batch durable: everything put off by then.
    fn commit(shared: &Shared, state: &mut State, in_place: &AtomicU64) {
        let transactions = std::mem::take(&mut state.transactions);
        if transactions == 0 {
            return;
        }
        in_place.store(in_place.load(Ordering::Relaxed) + transactions, Ordering::Relaxed);
        state.batches += 1;
        shared.show_durable(state.batches);
        shared.ended();
    }

    /// A lane that commits twice without waiting, parks in between and is given back in the end, and two
    /// that want durable what they have seen: the one that finds the state makes it so, the one that is told so
    /// finds it in place, and nothing is lost or done twice.
    #[test]
    fn a_batch_is_made_durable_once_whoever_does_it() {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(2);
        model.check(|| {
            let shared = Arc::new(Shared::new());
            let in_place = Arc::new(AtomicU64::new(0));
            // One leads at a time.
            let leading = Arc::new(Mutex::new(()));
            let waiters: Vec<_> = (0..2)
                .map(|_| {
                    let (shared, in_place, leading) =
                        (shared.clone(), in_place.clone(), leading.clone());
                    loom::thread::spawn(move || {
                        let batch = shared.pending();
                        let lead = leading.lock().unwrap();
                        match shared.try_take() {
                            Some(mut state) => {
                                commit(&shared, &mut state, &in_place);
                                shared.put(state, yield_now);
                                assert!(shared.is_durable(batch));
                            }
                            None => shared.want(),
                        }
                        drop(lead);
                        if shared.is_durable(batch) {
                            assert!(in_place.load(Ordering::Relaxed) >= batch);
                        }
                    })
                })
                .collect();
            let mut state = Box::new(State { transactions: 0, batches: 0 });
            for _ in 0..2 {
                state.transactions += 1;
                if state.transactions == 1 {
                    shared.begun(state.batches + 1);
                }
                if shared.is_wanted() {
                    commit(&shared, &mut state, &in_place);
                } else {
                    shared.put(state, yield_now);
                    state = loop {
                        if let Some(state) = shared.try_take() {
                            break state;
                        }
                        yield_now();
                    };
                }
            }
            commit(&shared, &mut state, &in_place);
            waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
            assert_eq!(in_place.load(Ordering::Relaxed), 2);
        });
    }
}
