//! A first-in, first-out queue.

use std::marker::PhantomData;

use super::layout::*;
use super::pointer::{Handle, Place, free_header, handle};
use super::{Persist, Schema, TypedTx};
use crate::collections::{Chain, damaged, set_word, word};
use crate::{Abort, BlockKind, ByteRange, PoolOffset, Transact};

/// A persistent queue, with the interface of a [`VecDeque`](std::collections::VecDeque) that is
/// filled at its back and emptied at its front.
///
/// Items lie in segments of about a kilobyte, linked one to the next; a segment is freed when its
/// last item is popped. A push stores its item and one word, a pop one word.
///
/// No method waits for an item: a transaction that waited would be in the way of the one that brings it. A worker that finds the
/// queue empty ends its transaction and waits outside, for a signal of the process that pushes (a channel, a condition
/// variable), or for a while.
///
/// The handle is `Copy`, and dropping it does nothing. What [`pop_front`](Self::pop_front) returns is the caller's, to keep or
/// to free; [`retain`](Self::retain), [`clear`](Self::clear) and [`free`](Self::free) free what the items own that they drop.
///
/// ```
/// use outlast::typed::{PQueue, TypedTx};
/// use outlast::{Abort, Transact};
///
/// fn work<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<PQueue<'id, u64>, Abort> {
///     let jobs = PQueue::new(tx)?;
///     jobs.push_back(tx, 1)?;
///     jobs.push_back(tx, 2)?;
///     assert_eq!(jobs.pop_front(tx)?, Some(1));
///     assert_eq!(jobs.len(tx)?, 1);
///     Ok(jobs)
/// }
/// ```
#[must_use = "its blocks leak unless it is stored in the pool or freed"]
#[repr(transparent)]
pub struct PQueue<'id, T> {
    place: Place<'id>,
    of: PhantomData<fn() -> T>,
}

handle! {
    PQueue<T>,
    describe |schema: &mut Schema| schema.of_parts("queue", &[T::describe]),
    owns true,
    free |this: Self, tx: &mut TypedTx<'id, '_, X>| this.free(tx),
    where [T: Persist<'id>]
}

/// A header as its block describes it.
#[derive(Clone, Copy)]
struct Shape {
    at: PoolOffset,
    pushed: u64,
    last: PoolOffset,
    popped: u64,
    first: PoolOffset,
}

impl Shape {
    #[inline]
    fn load<X: Transact>(tx: &mut X, at: PoolOffset) -> Result<Self, Abort> {
        let mut header = [0; QUEUE_FIRST_AT + 8];
        tx.load(at, &mut header)?;
        let shape = Self {
            at,
            pushed: word(&header, QUEUE_PUSHED_AT),
            last: PoolOffset(word(&header, QUEUE_LAST_AT)),
            popped: word(&header, QUEUE_POPPED_AT),
            first: PoolOffset(word(&header, QUEUE_FIRST_AT)),
        };
        let possible = shape.popped == shape.pushed
            || shape.popped < shape.pushed && shape.first.0 != 0 && shape.last.0 != 0;
        if word(&header, 0) != QUEUE_MAGIC || !possible || shape.pushed == u64::MAX {
            return Err(damaged(at, "no queue"));
        }
        Ok(shape)
    }

    fn word(&self, at: usize) -> ByteRange {
        ByteRange::new(self.at.plus(at as u64), 8)
    }
}

impl<'id, T: Persist<'id>> PQueue<'id, T> {
    /// Items of a segment.
    const ITEMS: u64 = {
        assert!(T::SIZE > 0, "a queue of items without bytes");
        let items = (QUEUE_SEGMENT_BYTES - QUEUE_ITEMS_AT as usize) / T::SIZE;
        if items == 0 { 1 } else { items as u64 }
    };

    /// An empty queue.
    ///
    /// # Errors
    /// Those of the transaction.
    pub fn new<X: Transact>(tx: &mut TypedTx<'id, '_, X>) -> Result<Self, Abort> {
        let at = tx.raw().alloc(QUEUE_HEADER_BYTES as u64, BlockKind::General)?;
        let mut header = [0; QUEUE_HEADER_BYTES];
        set_word(&mut header, 0, QUEUE_MAGIC);
        tx.raw().store(at, &header)?;
        Ok(Self { place: Place::new(at), of: PhantomData })
    }

    /// Number of items.
    ///
    /// # Errors
    /// Those of the transaction; [`Abort::Damaged`] when there is no queue any more.
    pub fn len<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<u64, Abort> {
        let shape = self.shape(tx)?;
        Ok(shape.pushed - shape.popped)
    }

    /// Whether there are no items.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn is_empty<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<bool, Abort> {
        Ok(self.len(tx)? == 0)
    }

    fn shape<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<Shape, Abort> {
        Shape::load(tx.raw(), self.offset())
    }

    /// Where the item of that number lies in its segment.
    fn item_in(segment: PoolOffset, number: u64) -> PoolOffset {
        segment.plus(QUEUE_ITEMS_AT + number % Self::ITEMS * T::SIZE as u64)
    }

    /// Adds an item at the back.
    ///
    /// # Errors
    /// As [`len`](Self::len), and [`Abort::OutOfSpace`].
    pub fn push_back<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        item: T,
    ) -> Result<(), Abort> {
        let shape = self.shape(tx)?;
        let tx = tx.raw();
        let pushed = shape.word(QUEUE_PUSHED_AT);
        if !shape.pushed.is_multiple_of(Self::ITEMS) {
            let at = Self::item_in(shape.last, shape.pushed);
            tx.will_write(&[pushed, ByteRange::new(at, T::SIZE as u64)])?;
            item.store(tx, at)?;
            return tx.store_u64(pushed.at, shape.pushed + 1);
        }
        let bytes = QUEUE_ITEMS_AT + Self::ITEMS * T::SIZE as u64;
        let segment = tx.alloc(bytes, BlockKind::General)?;
        let link = match shape.last.0 {
            0 => shape.word(QUEUE_FIRST_AT),
            _ => ByteRange::new(shape.last, 8),
        };
        let last = shape.word(QUEUE_LAST_AT);
        tx.will_write(&[pushed, last, link])?;
        tx.store_u64(segment, 0)?;
        item.store(tx, Self::item_in(segment, 0))?;
        tx.store_u64(link.at, segment.0)?;
        tx.store_u64(last.at, segment.0)?;
        tx.store_u64(pushed.at, shape.pushed + 1)
    }

    /// The item at the front, if there is one.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn front<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<Option<T>, Abort> {
        let shape = self.shape(tx)?;
        if shape.pushed == shape.popped {
            return Ok(None);
        }
        T::load(tx.raw(), Self::item_in(shape.first, shape.popped)).map(Some)
    }

    /// Takes the item at the front away and returns it.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn pop_front<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<Option<T>, Abort> {
        let shape = self.shape(tx)?;
        if shape.pushed == shape.popped {
            return Ok(None);
        }
        let tx = tx.raw();
        let item = T::load(tx, Self::item_in(shape.first, shape.popped))?;
        let popped = shape.word(QUEUE_POPPED_AT);
        if !(shape.popped + 1).is_multiple_of(Self::ITEMS) {
            tx.store_u64(popped.at, shape.popped + 1)?;
            return Ok(Some(item));
        }
        let next = tx.load_u64(shape.first)?;
        tx.free(shape.first)?;
        let [first, last] = [QUEUE_FIRST_AT, QUEUE_LAST_AT].map(|at| shape.word(at));
        tx.will_write(&[last, popped, first])?;
        if next == 0 {
            tx.store_u64(last.at, 0)?;
        }
        tx.store_u64(popped.at, shape.popped + 1)?;
        tx.store_u64(first.at, next)?;
        Ok(Some(item))
    }

    /// Frees all items and what they own.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn clear<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<(), Abort> {
        if T::OWNS {
            let items = self.to_vec(tx)?;
            items.into_iter().try_for_each(|item| item.free_owned(tx))?;
        }
        let shape = self.shape(tx)?;
        let tx = tx.raw();
        let mut segment = shape.first;
        let mut segments = Chain::from(segment);
        while segment.0 != 0 {
            let next = PoolOffset(tx.load_u64(segment)?);
            tx.free(segment)?;
            segments.follow(next)?;
            segment = next;
        }
        let mut header = [0; QUEUE_HEADER_BYTES];
        set_word(&mut header, 0, QUEUE_MAGIC);
        tx.store(shape.at, &header)
    }

    /// Frees the queue, and what its items own.
    ///
    /// # Errors
    /// As [`len`](Self::len); [`Abort::BadAddress`] when it was freed before.
    pub fn free<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<(), Abort> {
        self.clear(tx)?;
        free_header(tx.raw(), self.offset())
    }

    /// Keeps the items for which `keep` returns `true`, in their order, and frees what the others own. It loads all of
    /// them first, and stores the kept ones anew if any is dropped.
    ///
    /// # Errors
    /// As [`len`](Self::len), and those of `keep`.
    pub fn retain<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        mut keep: impl FnMut(&mut TypedTx<'id, '_, X>, T) -> Result<bool, Abort>,
    ) -> Result<(), Abort> {
        let items = self.to_vec(tx)?;
        let kept = items.iter().map(|item| keep(tx, *item)).collect::<Result<Vec<_>, _>>()?;
        if kept.iter().all(|is_kept| *is_kept) {
            return Ok(());
        }
        for is_kept in kept {
            let Some(item) = self.pop_front(tx)? else { break };
            match is_kept {
                true => self.push_back(tx, item)?,
                false => item.free_owned(tx)?,
            }
        }
        Ok(())
    }

    /// The items, front to back. The queue cannot change meanwhile, as the iterator holds the
    /// transaction. An error is its last item.
    pub fn iter<'a, 't, X: Transact>(
        self,
        tx: &'a mut TypedTx<'id, 't, X>,
    ) -> Iter<'a, 'id, 't, T, X> {
        let (failure, segment, next, end) = match self.shape(tx) {
            Ok(shape) => (None, shape.first, shape.popped, shape.pushed),
            Err(abort) => (Some(abort), PoolOffset(0), 0, 1),
        };
        let segments = Chain::from(segment);
        Iter { tx, failure, segment, segments, next, end, of: PhantomData }
    }

    /// The items, front to back, in volatile memory.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn to_vec<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<Vec<T>, Abort> {
        self.iter(tx).collect()
    }
}

/// Returned by [`PQueue::iter`]. After an error it ends.
#[must_use = "an iterator loads nothing until it is asked"]
pub struct Iter<'a, 'id, 't, T, X: Transact> {
    tx: &'a mut TypedTx<'id, 't, X>,
    /// The first and only item, where there is no queue.
    failure: Option<Abort>,
    segment: PoolOffset,
    segments: Chain,
    next: u64,
    end: u64,
    of: PhantomData<fn() -> T>,
}

impl<'id, T: Persist<'id>, X: Transact> Iter<'_, 'id, '_, T, X> {
    fn step(&mut self) -> Result<T, Abort> {
        if let Some(abort) = self.failure.take() {
            return Err(abort);
        }
        let item = T::load(self.tx.raw(), PQueue::<T>::item_in(self.segment, self.next))?;
        self.next += 1;
        if self.next < self.end && self.next.is_multiple_of(PQueue::<T>::ITEMS) {
            let before = self.segment;
            self.segment = PoolOffset(self.tx.raw().load_u64(before)?);
            if self.segment.0 == 0 {
                return Err(damaged(before, "a queue with fewer segments than its items need"));
            }
            self.segments.follow(self.segment)?;
        }
        Ok(item)
    }
}

impl<'id, T: Persist<'id>, X: Transact> Iterator for Iter<'_, 'id, '_, T, X> {
    type Item = Result<T, Abort>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.end {
            return None;
        }
        let item = self.step();
        if item.is_err() {
            self.end = self.next;
        }
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.end - self.next) as usize;
        (usize::from(left > 0), Some(left))
    }
}
