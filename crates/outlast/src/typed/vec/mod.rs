//! A vector.

mod iter;
mod segments;

use std::marker::PhantomData;
use std::ops::RangeBounds;

pub use iter::Iter;
pub(super) use segments::Segments;
use segments::{Shape, len_at};

use super::layout::*;
use super::persist::with_bytes;
use super::pointer::{Handle, Place, free_header, handle};
use super::{PPtr, Persist, Schema, TypedTx};
use crate::collections::{damaged, set_word, word};
use crate::{Abort, BlockKind, ByteRange, PoolOffset, Transact};

/// A persistent vector, with the interface of [`Vec`]. [`get`](Self::get) and [`item`](Self::item) answer `None` past its end;
/// the methods that change an item by its number panic there, as `Vec`'s do.
///
/// Its items lie in segments, each as large as all before it together, and never move while the
/// vector grows: a push stores its item and the length, and no transaction copies the vector. An
/// empty one takes 256 bytes. A segment is one block, so a vector has at least 512 MiB of items before it is
/// [`Abort::TooLarge`], in a pool whose largest block has 536,805,376 bytes
/// ([`PoolOptions::chunk_bytes`](crate::PoolOptions::chunk_bytes)).
///
/// The handle is `Copy`, and dropping it does nothing. An item that a method returns is the caller's, to keep or to
/// free: [`set`](Self::set), [`pop`](Self::pop), [`remove`](Self::remove) and [`swap_remove`](Self::swap_remove) return the
/// old one. [`put`](Self::put), [`retain`](Self::retain), [`truncate`](Self::truncate), [`clear`](Self::clear) and
/// [`free`](Self::free) free what the items own that they drop.
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
///     assert_eq!(primes.iter(tx).sum::<Result<u64, _>>()?, 17);
///     Ok(primes)
/// }
/// ```
#[must_use = "its blocks leak unless it is stored in the pool or freed"]
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
        let at = tx.raw().alloc(VEC_HEADER_BYTES as u64, BlockKind::General)?;
        let mut image = [0; VEC_HEADER_BYTES];
        set_word(&mut image, 0, VEC_MAGIC);
        tx.raw().store(at, &image)?;
        Ok(Self { place: Place::new(at), of: PhantomData })
    }

    /// Number of items.
    ///
    /// # Errors
    /// Those of the transaction; [`Abort::Damaged`] when there is no vector any more.
    #[inline]
    pub fn len<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<u64, Abort> {
        let mut start = [0; 16];
        tx.raw().load(self.place.offset(), &mut start)?;
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
        let block = PoolOffset(tx.raw().load_u64(self.segment_at(segment)?)?);
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

    /// Sets the item at `index` and returns the old one, which is the caller's to free if it owns blocks: [`put`](Self::put)
    /// frees it.
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

    /// Sets the item at `index`, and frees what the old one owned and the new one has not in the same place.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    ///
    /// # Panics
    /// When `index` is not below the length.
    pub fn put<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        index: u64,
        item: T,
    ) -> Result<(), Abort> {
        self.set(tx, index, item)?.free_replaced(tx, &item)
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
        let len = self.len(tx)?;
        assert!(one < len && other < len, "swapping {one} and {other} of a vector of {len}");
        let [one, other] = [self.place_of(tx, one)?, self.place_of(tx, other)?];
        let bytes = T::SIZE as u64;
        tx.raw().will_write(&[one, other].map(|p| ByteRange::new(p.offset(), bytes)))?;
        let item = one.get(tx)?;
        let item = other.replace(tx, item)?;
        one.set(tx, item)
    }

    /// Adds an item behind the last.
    ///
    /// # Errors
    /// As [`len`](Self::len), [`Abort::OutOfSpace`] and [`Abort::TooLarge`].
    #[inline]
    pub fn push<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>, item: T) -> Result<(), Abort> {
        let len = self.len(tx)?;
        let (segment, place) = Self::SEGMENTS.locate(len);
        let word_at = self.segment_at(segment)?;
        let tx = tx.raw();
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

    /// Takes the last item away and returns it.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn pop<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<Option<T>, Abort> {
        let Some(last) = self.len(tx)?.checked_sub(1) else { return Ok(None) };
        let item = self.place_of(tx, last)?.get(tx)?;
        tx.raw().store_u64(len_at(self.place.offset()), last)?;
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
        shape.reserve(tx.raw(), new_len)?;
        shape.store_items(tx.raw(), len, &bytes, new_len)
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
        bytes.extend(shape.load_items(tx.raw(), index, len)?);
        shape.reserve(tx.raw(), len + 1)?;
        shape.store_items(tx.raw(), index, &bytes, len + 1)
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
        let bytes = shape.load_items(tx.raw(), index, len)?;
        let (item, behind) = bytes.split_at(T::SIZE);
        shape.store_items(tx.raw(), index, behind, len - 1)?;
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
        tx.raw().will_write(&[word, ByteRange::new(item.offset(), T::SIZE as u64)])?;
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
            let bytes = shape.load_items(tx.raw(), len, shape.len())?;
            bytes.chunks(T::SIZE).try_for_each(|item| T::decode(item).free_owned(tx))?;
        }
        let spare = shape.segments.needed(len)..VEC_SEGMENTS;
        if spare.is_empty() || shape.segment(spare.start).0 == 0 {
            return tx.raw().store_u64(len_at(shape.at), len);
        }
        for i in spare {
            if shape.segment(i).0 != 0 {
                tx.raw().free(shape.segment(i))?;
                set_word(&mut shape.image, VEC_SEGMENTS_AT + 8 * i, 0);
            }
        }
        set_word(&mut shape.image, VEC_LEN_AT, len);
        tx.raw().store(shape.at, &shape.image)
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
        free_header(tx.raw(), self.place.offset())
    }

    /// Keeps the items for which `keep` returns `true`, in their order, and frees what the others own. It loads all of
    /// them first, and stores those anew that move.
    ///
    /// # Errors
    /// As [`len`](Self::len), and those of `keep`.
    pub fn retain<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        mut keep: impl FnMut(&mut TypedTx<'id, '_, X>, T) -> Result<bool, Abort>,
    ) -> Result<(), Abort> {
        let (mut kept, mut unmoved, mut dropped) = (Vec::new(), 0, Vec::new());
        for item in self.to_vec(tx)? {
            match keep(tx, item)? {
                false => dropped.push(item),
                true if dropped.is_empty() => unmoved += 1,
                true => kept.push(item),
            }
        }
        if dropped.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        kept.iter().for_each(|item| with_bytes(item, |image| bytes.extend_from_slice(image)));
        let len = unmoved + kept.len() as u64;
        self.shape(tx)?.store_items(tx.raw(), unmoved, &bytes, len)?;
        self.truncate(tx, len)?; // segments without items
        dropped.into_iter().try_for_each(|item| item.free_owned(tx))
    }

    /// The items, first to last; backwards with `rev`. The vector cannot change meanwhile, as the
    /// iterator holds the transaction. An error is its last item.
    pub fn iter<'a, 't, X: Transact>(
        self,
        tx: &'a mut TypedTx<'id, 't, X>,
    ) -> Iter<'a, 'id, 't, T, X> {
        self.range(tx, ..)
    }

    /// The items whose numbers lie in `range`, as [`iter`](Self::iter) gives them; of a range that goes past the end those that
    /// there are.
    ///
    /// ```
    /// use outlast::typed::{PVec, TypedTx};
    /// use outlast::{Abort, Transact};
    ///
    /// /// The page of that number, of 50 items each.
    /// fn page<'id>(
    ///     tx: &mut TypedTx<'id, '_, impl Transact>,
    ///     items: PVec<'id, u64>,
    ///     number: u64,
    /// ) -> Result<Vec<u64>, Abort> {
    ///     items.range(tx, 50 * number..50 * (number + 1)).collect()
    /// }
    /// ```
    pub fn range<'a, 't, X: Transact>(
        self,
        tx: &'a mut TypedTx<'id, 't, X>,
        range: impl RangeBounds<u64>,
    ) -> Iter<'a, 'id, 't, T, X> {
        let shape = self.shape(tx);
        Iter::new(tx, shape, range)
    }

    /// The items, first to last, in volatile memory.
    ///
    /// # Errors
    /// As [`len`](Self::len).
    pub fn to_vec<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<Vec<T>, Abort> {
        self.iter(tx).collect()
    }

    fn shape<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<Shape, Abort> {
        Shape::load(tx.raw(), self.place.offset(), Self::SEGMENTS)
    }
}
