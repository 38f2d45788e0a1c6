//! A vector.

use std::marker::PhantomData;

use super::layout::*;
use super::persist::with_bytes;
use super::pointer::{Handle, Place, handle};
use super::{PPtr, Persist, Schema, TypedTx};
use crate::collections::{damaged, set_word, word};
use crate::{Abort, BlockKind, ByteRange, LINE_BYTES, PoolOffset, Transact};

/// A persistent vector, with the interface of [`Vec`].
///
/// Its items lie in segments, each as large as all before it together, and never move while the
/// vector grows: a push stores its item and the length, and no transaction copies the vector. An
/// empty one takes 256 bytes.
///
/// The handle is `Copy`, and dropping it does nothing. What a method returns is the caller's;
/// [`truncate`](Self::truncate), [`clear`](Self::clear) and [`free`](Self::free) also free what
/// the items own that they drop.
///
/// ```
/// use outlast::typed::{PVec, TypedTx};
/// use outlast::{Abort, Transact};
///
/// fn primes<'id>(tx: &mut TypedTx<'id, '_, impl Transact>) -> Result<PVec<'id, u64>, Abort> {
///     let primes = PVec::new(tx)?;
///     primes.extend(tx, [2, 3, 5, 8])?;
///     assert_eq!(primes.pop(tx)?, Some(8));
///     primes.push(tx, 7)?;
///     assert_eq!(primes.iter(tx)?.sum::<Result<u64, _>>()?, 17);
///     Ok(primes)
/// }
/// ```
#[repr(transparent)]
pub struct PVec<'id, T> {
    place: Place<'id>,
    of: PhantomData<fn() -> T>,
}

handle! {
    PVec<T>,
    describe |schema: &mut Schema| schema.of_parts("vector", &[T::describe]),
    owns true,
    free |this: Self, tx: &mut TypedTx<'id, '_, X>| this.free(tx),
    where [T: Persist<'id>]
}

/// Items that a vector's segments hold: the place of an item follows from its index.
#[derive(Clone, Copy)]
struct Segments {
    item_bytes: u64,
    /// Items of the first segment: 2 to the power of this.
    first_bits: u32,
}

impl Segments {
    const fn of(item_bytes: usize) -> Self {
        let line = LINE_BYTES as usize;
        let first = if item_bytes < line { line / item_bytes } else { 1 };
        Self { item_bytes: item_bytes as u64, first_bits: first.ilog2() }
    }

    /// The segment of an item, and its place there.
    #[inline]
    fn locate(self, index: u64) -> (usize, u64) {
        match (index >> self.first_bits).checked_ilog2() {
            None => (0, index),
            Some(doublings) => {
                (doublings as usize + 1, index - (1 << (self.first_bits + doublings)))
            }
        }
    }

    /// Items of a segment.
    fn items(self, segment: usize) -> u64 {
        1 << (self.first_bits + (segment as u32).saturating_sub(1))
    }

    /// Segments that so many items need.
    fn needed(self, len: u64) -> usize {
        if len == 0 { 0 } else { self.locate(len - 1).0 + 1 }
    }
}

/// Where a vector's length is stored.
fn len_at(header: PoolOffset) -> PoolOffset {
    header.plus(VEC_LEN_AT as u64)
}

/// A vector's header, loaded for an operation that touches more than one item.
struct Shape {
    at: PoolOffset,
    image: [u8; VEC_HEADER_BYTES],
    segments: Segments,
    /// Segments that the operation has allocated: these words have to be stored.
    grown_from: usize,
    grown_to: usize,
}

impl Shape {
    fn load<X: Transact>(tx: &mut X, at: PoolOffset, segments: Segments) -> Result<Self, Abort> {
        let mut image = [0; VEC_HEADER_BYTES];
        tx.load(at, &mut image)?;
        let shape = Self { at, image, segments, grown_from: 0, grown_to: 0 };
        let possible = segments.needed(shape.len()) <= VEC_SEGMENTS
            && (0..segments.needed(shape.len())).all(|i| shape.segment(i).0 != 0);
        if word(&shape.image, 0) != VEC_MAGIC || !possible {
            return Err(damaged(at, "no vector"));
        }
        Ok(shape)
    }

    fn len(&self) -> u64 {
        word(&self.image, VEC_LEN_AT)
    }

    fn segment(&self, segment: usize) -> PoolOffset {
        PoolOffset(word(&self.image, VEC_SEGMENTS_AT + 8 * segment))
    }

    /// Takes the segments that `len` items need and that are not there.
    fn reserve<X: Transact>(&mut self, tx: &mut X, len: u64) -> Result<(), Abort> {
        let needed = self.segments.needed(len);
        if needed > VEC_SEGMENTS {
            return Err(Abort::OutOfSpace { bytes: len.saturating_mul(self.segments.item_bytes) });
        }
        self.grown_from = (0..needed).find(|&i| self.segment(i).0 == 0).unwrap_or(needed);
        self.grown_to = needed;
        for i in self.grown_from..needed {
            let bytes = self.segments.items(i).checked_mul(self.segments.item_bytes);
            let bytes = bytes.ok_or(Abort::OutOfSpace { bytes: u64::MAX })?;
            let block = tx.alloc(bytes, BlockKind::General)?;
            set_word(&mut self.image, VEC_SEGMENTS_AT + 8 * i, block.0);
        }
        Ok(())
    }

    /// The ranges in which the items from `from` to `to` lie, in order.
    fn pieces(&self, from: u64, to: u64) -> Vec<ByteRange> {
        let mut pieces = Vec::new();
        let mut next = from;
        while next < to {
            let (segment, place) = self.segments.locate(next);
            let items = (self.segments.items(segment) - place).min(to - next);
            let bytes = self.segments.item_bytes;
            let at = self.segment(segment).plus(place * bytes);
            pieces.push(ByteRange::new(at, items * bytes));
            next += items;
        }
        pieces
    }

    fn load_items<X: Transact>(&self, tx: &mut X, from: u64, to: u64) -> Result<Vec<u8>, Abort> {
        let mut bytes = vec![0; ((to - from) * self.segments.item_bytes) as usize];
        let mut rest = &mut bytes[..];
        for piece in self.pieces(from, to) {
            let (now, later) = rest.split_at_mut(piece.len as usize);
            tx.load(piece.at, now)?;
            rest = later;
        }
        Ok(bytes)
    }

    /// Announces and stores these items from `from` on, the words of new segments, and the length.
    fn store_items<X: Transact>(
        &self,
        tx: &mut X,
        from: u64,
        mut items: &[u8],
        len: u64,
    ) -> Result<(), Abort> {
        let count = items.len() as u64 / self.segments.item_bytes;
        let pieces = self.pieces(from, from + count);
        let grown = self.grown_from..self.grown_to.max(self.grown_from);
        let words = VEC_SEGMENTS_AT + 8 * grown.start..VEC_SEGMENTS_AT + 8 * grown.end;
        let words_at = self.at.plus(words.start as u64);
        let mut announced = vec![ByteRange::new(len_at(self.at), 8)];
        if !words.is_empty() {
            announced.push(ByteRange::new(words_at, words.len() as u64));
        }
        let is_new = |piece: &&ByteRange| {
            grown.clone().any(|i| self.segment(i) <= piece.at && piece.at < self.end_of(i))
        };
        announced.extend(pieces.iter().filter(|piece| !is_new(piece)));
        tx.will_write(&announced)?;
        for piece in pieces {
            let (now, later) = items.split_at(piece.len as usize);
            tx.store(piece.at, now)?;
            items = later;
        }
        if !words.is_empty() {
            tx.store(words_at, &self.image[words])?;
        }
        tx.store_u64(len_at(self.at), len)
    }

    fn end_of(&self, segment: usize) -> PoolOffset {
        self.segment(segment).plus(self.segments.items(segment) * self.segments.item_bytes)
    }
}

impl<'id, T: Persist<'id>> PVec<'id, T> {
    const SEGMENTS: Segments = {
        assert!(T::SIZE > 0, "a vector of items without bytes");
        Segments::of(T::SIZE)
    };

    /// An empty vector.
    ///
    /// # Errors
    /// Those of the transaction.
    pub fn new<X: Transact>(tx: &mut TypedTx<'id, '_, X>) -> Result<Self, Abort> {
        let at = tx.untyped().alloc(VEC_HEADER_BYTES as u64, BlockKind::General)?;
        let mut image = [0; VEC_HEADER_BYTES];
        set_word(&mut image, 0, VEC_MAGIC);
        tx.untyped().store(at, &image)?;
        Ok(Self { place: Place::new(at), of: PhantomData })
    }

    /// Number of items.
    ///
    /// # Errors
    /// Those of the transaction; [`Abort::Damaged`] when there is no vector any more.
    #[inline]
    pub fn len<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<u64, Abort> {
        let mut start = [0; 16];
        tx.untyped().load(self.place.offset(), &mut start)?;
        if word(&start, 0) != VEC_MAGIC {
            return Err(damaged(self.place.offset(), "no vector"));
        }
        Ok(word(&start, VEC_LEN_AT))
    }

    /// Whether there are no items.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn is_empty<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<bool, Abort> {
        Ok(self.len(tx)? == 0)
    }

    /// A pointer to the item at `index`, if there is one. It stays good until that item is popped
    /// or others are moved over it.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    #[inline]
    pub fn item<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        index: u64,
    ) -> Result<Option<PPtr<'id, T>>, Abort> {
        if index >= self.len(tx)? {
            return Ok(None);
        }
        self.place_of(tx, index).map(Some)
    }

    /// Where an item lies whose segment is there.
    #[inline]
    fn place_of<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        index: u64,
    ) -> Result<PPtr<'id, T>, Abort> {
        let (segment, place) = Self::SEGMENTS.locate(index);
        let block = PoolOffset(tx.untyped().load_u64(self.segment_at(segment)?)?);
        Ok(PPtr::to(block.plus(place * T::SIZE as u64)))
    }

    fn segment_at(self, segment: usize) -> Result<PoolOffset, Abort> {
        if segment >= VEC_SEGMENTS {
            return Err(damaged(self.place.offset(), "a vector longer than any"));
        }
        Ok(self.place.offset().plus((VEC_SEGMENTS_AT + 8 * segment) as u64))
    }

    /// The item at `index`, if there is one.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    #[inline]
    pub fn get<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        index: u64,
    ) -> Result<Option<T>, Abort> {
        self.item(tx, index)?.map(|item| item.get(tx)).transpose()
    }

    /// The first item, if there is one.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn first<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<Option<T>, Abort> {
        self.get(tx, 0)
    }

    /// The last item, if there is one.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn last<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<Option<T>, Abort> {
        match self.len(tx)?.checked_sub(1) {
            Some(last) => self.place_of(tx, last)?.get(tx).map(Some),
            None => Ok(None),
        }
    }

    /// Sets the item at `index` and returns the old one.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    ///
    /// # Panics
    /// When `index` is not below the length.
    pub fn set<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        index: u64,
        item: T,
    ) -> Result<T, Abort> {
        self.existing(tx, index)?.replace(tx, item)
    }

    fn existing<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        index: u64,
    ) -> Result<PPtr<'id, T>, Abort> {
        match self.item(tx, index)? {
            Some(item) => Ok(item),
            None => panic!("item {index} of a vector of {}", self.len(tx)?),
        }
    }

    /// Exchanges two items.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    ///
    /// # Panics
    /// When an index is not below the length.
    pub fn swap<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        one: u64,
        other: u64,
    ) -> Result<(), Abort> {
        let [one, other] = [self.existing(tx, one)?, self.existing(tx, other)?];
        let bytes = T::SIZE as u64;
        tx.untyped().will_write(&[one, other].map(|p| ByteRange::new(p.offset(), bytes)))?;
        let item = one.get(tx)?;
        let item = other.replace(tx, item)?;
        one.set(tx, item)
    }

    /// Adds an item behind the last.
    ///
    /// # Errors
    /// As [`len`](Self::len), and [`Abort::OutOfSpace`].
    #[inline]
    pub fn push<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>, item: T) -> Result<(), Abort> {
        let len = self.len(tx)?;
        let (segment, place) = Self::SEGMENTS.locate(len);
        let word_at = self.segment_at(segment)?;
        let tx = tx.untyped();
        let mut block = PoolOffset(tx.load_u64(word_at)?);
        let word = ByteRange::new(len_at(self.place.offset()), 8);
        if block.0 == 0 {
            let bytes = Self::SEGMENTS.items(segment) * T::SIZE as u64;
            block = tx.alloc(bytes, BlockKind::General)?;
            tx.will_write(&[word, ByteRange::new(word_at, 8)])?;
            tx.store_u64(word_at, block.0)?;
        } else {
            let at = block.plus(place * T::SIZE as u64);
            tx.will_write(&[word, ByteRange::new(at, T::SIZE as u64)])?;
        }
        item.store(tx, block.plus(place * T::SIZE as u64))?;
        tx.store_u64(word.at, len + 1)
    }

    /// Takes the last item away.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn pop<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<Option<T>, Abort> {
        let Some(last) = self.len(tx)?.checked_sub(1) else { return Ok(None) };
        let item = self.place_of(tx, last)?.get(tx)?;
        tx.untyped().store_u64(len_at(self.place.offset()), last)?;
        Ok(Some(item))
    }

    /// Adds items behind the last.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    pub fn extend<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        items: impl IntoIterator<Item = T>,
    ) -> Result<(), Abort> {
        let mut bytes = Vec::new();
        for item in items {
            with_bytes(&item, |image| bytes.extend_from_slice(image));
        }
        if bytes.is_empty() {
            return Ok(());
        }
        let mut shape = self.shape(tx)?;
        let len = shape.len();
        let new_len = len + (bytes.len() / T::SIZE) as u64;
        shape.reserve(tx.untyped(), new_len)?;
        shape.store_items(tx.untyped(), len, &bytes, new_len)
    }

    /// Puts an item at `index` and moves those from there on up by one, which takes as long as
    /// there are.
    ///
    /// # Errors
    /// As [`push`](Self::push).
    ///
    /// # Panics
    /// When `index` is above the length.
    pub fn insert<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        index: u64,
        item: T,
    ) -> Result<(), Abort> {
        let mut shape = self.shape(tx)?;
        let len = shape.len();
        assert!(index <= len, "inserting at {index} into a vector of {len}");
        let mut bytes = vec![0; T::SIZE];
        item.encode(&mut bytes);
        bytes.extend(shape.load_items(tx.untyped(), index, len)?);
        shape.reserve(tx.untyped(), len + 1)?;
        shape.store_items(tx.untyped(), index, &bytes, len + 1)
    }

    /// Takes the item at `index` away and moves those behind it down by one, which takes as long as
    /// there are.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    ///
    /// # Panics
    /// When `index` is not below the length.
    pub fn remove<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>, index: u64) -> Result<T, Abort> {
        let shape = self.shape(tx)?;
        let len = shape.len();
        assert!(index < len, "removing {index} from a vector of {len}");
        let bytes = shape.load_items(tx.untyped(), index, len)?;
        let (item, behind) = bytes.split_at(T::SIZE);
        shape.store_items(tx.untyped(), index, behind, len - 1)?;
        Ok(T::decode(item))
    }

    /// Takes the item at `index` away and puts the last one there.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    ///
    /// # Panics
    /// When `index` is not below the length.
    pub fn swap_remove<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        index: u64,
    ) -> Result<T, Abort> {
        let item = self.existing(tx, index)?;
        let word = ByteRange::new(len_at(self.place.offset()), 8);
        tx.untyped().will_write(&[word, ByteRange::new(item.offset(), T::SIZE as u64)])?;
        let last = self.pop(tx)?.expect("there is an item");
        // The last item's place is still the vector's, where it is the one removed.
        item.replace(tx, last)
    }

    /// Keeps the first `len` items and frees what the others own; then segments that none is left
    /// in. Does nothing when there are no more than `len`.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn truncate<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        len: u64,
    ) -> Result<(), Abort> {
        let mut shape = self.shape(tx)?;
        if len > shape.len() {
            return Ok(());
        }
        if T::OWNS {
            let bytes = shape.load_items(tx.untyped(), len, shape.len())?;
            bytes.chunks(T::SIZE).try_for_each(|item| T::decode(item).free_owned(tx))?;
        }
        for i in shape.segments.needed(len)..VEC_SEGMENTS {
            if shape.segment(i).0 != 0 {
                tx.untyped().free(shape.segment(i))?;
                set_word(&mut shape.image, VEC_SEGMENTS_AT + 8 * i, 0);
            }
        }
        set_word(&mut shape.image, VEC_LEN_AT, len);
        tx.untyped().store(shape.at, &shape.image)
    }

    /// Frees what the items own, and everything but the header.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn clear<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<(), Abort> {
        self.truncate(tx, 0)
    }

    /// Frees the vector, and what its items own.
    ///
    /// # Errors
    /// As [`len`](Self::len); [`Abort::BadAddress`] when it was freed before.
    pub fn free<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<(), Abort> {
        self.clear(tx)?;
        tx.untyped().free(self.place.offset())
    }

    /// The items, first to last. The vector cannot change meanwhile, as the iterator holds the
    /// transaction.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn iter<'a, 't, X: Transact>(
        self,
        tx: &'a mut TypedTx<'id, 't, X>,
    ) -> Result<Iter<'a, 'id, 't, T, X>, Abort> {
        let shape = self.shape(tx)?;
        let len = shape.len();
        Ok(Iter { tx, shape, next: 0, len, bytes: Vec::new(), used: 0, of: PhantomData })
    }

    /// The items, first to last, in volatile memory.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn to_vec<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<Vec<T>, Abort> {
        self.iter(tx)?.collect()
    }

    fn shape<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<Shape, Abort> {
        Shape::load(tx.untyped(), self.place.offset(), Self::SEGMENTS)
    }
}

/// Items are loaded this many bytes at a time, or one by one if they are larger.
const LOADED_BYTES: u64 = 4096;

/// What [`PVec::iter`] returns. After an error it ends.
pub struct Iter<'a, 'id, 't, T, X: Transact> {
    tx: &'a mut TypedTx<'id, 't, X>,
    shape: Shape,
    next: u64,
    len: u64,
    /// Items loaded, from the one at `used` on still to come.
    bytes: Vec<u8>,
    used: usize,
    of: PhantomData<fn() -> T>,
}

impl<'id, T: Persist<'id>, X: Transact> Iterator for Iter<'_, 'id, '_, T, X> {
    type Item = Result<T, Abort>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.next == self.len {
            return None;
        }
        if self.used == self.bytes.len() {
            let items = (LOADED_BYTES / T::SIZE as u64).clamp(1, self.len - self.next);
            match self.shape.load_items(self.tx.untyped(), self.next, self.next + items) {
                Ok(bytes) => (self.bytes, self.used) = (bytes, 0),
                Err(abort) => {
                    self.len = self.next;
                    return Some(Err(abort));
                }
            }
        }
        let item = T::decode(&self.bytes[self.used..self.used + T::SIZE]);
        self.used += T::SIZE;
        self.next += 1;
        Some(Ok(item))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = (self.len - self.next) as usize;
        (usize::from(left > 0), Some(left))
    }
}
