//! The items of a vector, one after the other.

use std::marker::PhantomData;

use super::segments::Shape;
use super::{Persist, TypedTx};
use crate::{Abort, Transact};

/// Items are loaded this many bytes at a time, or one by one if they are larger.
const LOADED_BYTES: u64 = 4096;

/// Returned by [`PVec::iter`](super::PVec::iter). After an error it ends.
pub struct Iter<'a, 'id, 't, T, X: Transact> {
    tx: &'a mut TypedTx<'id, 't, X>,
    shape: Shape,
    /// The items still to come.
    next: u64,
    end: u64,
    /// Items loaded, from the one at `used` on still to come from the front.
    bytes: Vec<u8>,
    used: usize,
    of: PhantomData<fn() -> T>,
}

impl<'a, 'id, 't, T: Persist<'id>, X: Transact> Iter<'a, 'id, 't, T, X> {
    pub(super) fn new(tx: &'a mut TypedTx<'id, 't, X>, shape: Shape) -> Self {
        let end = shape.len();
        Self { tx, shape, next: 0, end, bytes: Vec::new(), used: 0, of: PhantomData }
    }

    fn step(&mut self) -> Result<T, Abort> {
        if self.used == self.bytes.len() {
            let items = (LOADED_BYTES / T::SIZE as u64).clamp(1, self.end - self.next);
            self.bytes = self.shape.load_items(self.tx.raw(), self.next, self.next + items)?;
            self.used = 0;
        }
        let item = T::decode(&self.bytes[self.used..self.used + T::SIZE]);
        self.used += T::SIZE;
        self.next += 1;
        Ok(item)
    }

    fn step_back(&mut self) -> Result<T, Abort> {
        let bytes = self.shape.load_items(self.tx.raw(), self.end - 1, self.end)?;
        self.end -= 1;
        Ok(T::decode(&bytes))
    }

    fn ended(&mut self, step: Result<T, Abort>) -> Option<Result<T, Abort>> {
        if step.is_err() {
            self.end = self.next;
        }
        Some(step)
    }
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
}
