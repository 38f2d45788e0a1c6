//! The items of a vector, one after the other.

use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use super::segments::Shape;
use super::{Persist, TypedTx};
use crate::{Abort, Transact};

/// Items are loaded this many bytes at a time, or one by one if they are larger.
const LOADED_BYTES: u64 = 4096;

/// Returned by [`PVec::iter`](super::PVec::iter) and [`PVec::range`](super::PVec::range). After an error it ends.
/// `nth` and `skip` load none of the items that they pass over.
#[must_use = "an iterator loads nothing until it is asked"]
pub struct Iter<'a, 'id, 't, T, X: Transact> {
    tx: &'a mut TypedTx<'id, 't, X>,
    /// The vector's, or the error that is the first and only item.
    shape: Result<Shape, Abort>,
    /// The items still to come.
    next: u64,
    end: u64,
    /// Items loaded, from the one at `used` on still to come from the front.
    bytes: Vec<u8>,
    used: usize,
    of: PhantomData<fn() -> T>,
}

impl<'a, 'id, 't, T: Persist<'id>, X: Transact> Iter<'a, 'id, 't, T, X> {
    pub(super) fn new(
        tx: &'a mut TypedTx<'id, 't, X>,
        shape: Result<Shape, Abort>,
        range: impl RangeBounds<u64>,
    ) -> Self {
        let (next, end) = match &shape {
            Ok(shape) => within(shape.len(), range),
            Err(_) => (0, 1),
        };
        Self { tx, shape, next, end, bytes: Vec::new(), used: 0, of: PhantomData }
    }

    fn load(&mut self, from: u64, to: u64) -> Result<Vec<u8>, Abort> {
        self.shape.as_ref().map_err(Abort::clone)?.load_items(self.tx.raw(), from, to)
    }

    fn step(&mut self) -> Result<T, Abort> {
        if self.used == self.bytes.len() {
            let items = (LOADED_BYTES / T::SIZE as u64).clamp(1, self.end - self.next);
            self.bytes = self.load(self.next, self.next + items)?;
            self.used = 0;
        }
        let item = T::decode(&self.bytes[self.used..self.used + T::SIZE]);
        self.used += T::SIZE;
        self.next += 1;
        Ok(item)
    }

    fn step_back(&mut self) -> Result<T, Abort> {
        let bytes = self.load(self.end - 1, self.end)?;
        self.end -= 1;
        Ok(T::decode(&bytes))
    }

    /// Items that can be passed over, of `n`: an error cannot.
    fn passed(&self, n: usize) -> u64 {
        if self.shape.is_ok() { (n as u64).min(self.end - self.next) } else { 0 }
    }

    fn ended(&mut self, step: Result<T, Abort>) -> Option<Result<T, Abort>> {
        if step.is_err() {
            self.end = self.next;
        }
        Some(step)
    }
}

/// The part of a range that a vector of `len` items has.
fn within(len: u64, range: impl RangeBounds<u64>) -> (u64, u64) {
    let end = match range.end_bound() {
        Bound::Unbounded => len,
        Bound::Included(last) => last.saturating_add(1).min(len),
        Bound::Excluded(end) => (*end).min(len),
    };
    let start = match range.start_bound() {
        Bound::Unbounded => 0,
        Bound::Included(first) => *first,
        Bound::Excluded(before) => before.saturating_add(1),
    };
    (start.min(end), end)
}

impl<'id, T: Persist<'id>, X: Transact> Iterator for Iter<'_, 'id, '_, T, X> {
    type Item = Result<T, Abort>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.end {
            return None;
        }
        let step = self.step();
        self.ended(step)
    }

    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        let passed = self.passed(n);
        self.next += passed;
        let loaded = (self.bytes.len() - self.used) / T::SIZE;
        self.used += loaded.min(passed as usize) * T::SIZE;
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.end - self.next) as usize;
        (usize::from(left > 0), Some(left))
    }
}

impl<'id, T: Persist<'id>, X: Transact> DoubleEndedIterator for Iter<'_, 'id, '_, T, X> {
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.next == self.end {
            return None;
        }
        let step = self.step_back();
        self.ended(step)
    }

    fn nth_back(&mut self, n: usize) -> Option<Self::Item> {
        self.end -= self.passed(n);
        self.next_back()
    }
}
