//! An ordered map.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::{Bound, RangeBounds};

use super::entries::{Entries, Entry, Pair, free_walked, key_of, value_at};
use super::pointer::{Handle, Place, free_header, handle};
use super::{Key, PPtr, Persist, Schema, TypedTx};
use crate::collections::{ByteTree, Dictionary, Placement, damaged};
use crate::{Abort, ByteRange, Transact};

/// A persistent ordered map, with the interface of a [`BTreeMap`](std::collections::BTreeMap): a
/// [`ByteTree`] whose keys are `K`s and whose values are `V`s.
///
/// Keys are given by reference and copied. `K` may be `str` or `[u8]`; [`Key`] has the others.
/// A key with its value takes one block.
///
/// The handle is `Copy`, and dropping it does nothing. What a method returns is the caller's;
/// [`clear`](Self::clear) and [`free`](Self::free) also free what the values own.
///
/// ```
/// use outlast::typed::{PBTreeMap, TypedTx};
/// use outlast::{Abort, Transact};
///
/// fn years<'id>(
///     tx: &mut TypedTx<'id, '_, impl Transact>,
/// ) -> Result<PBTreeMap<'id, i64, u64>, Abort> {
///     let years = PBTreeMap::new(tx)?;
///     for year in [-44, 476, 1066, 1789] {
///         years.insert(tx, &year, 0)?;
///     }
///     let between: Vec<_> = years.range(tx, -100..=1066).collect::<Result<_, _>>()?;
///     assert_eq!(between, [(-44, 0), (476, 0), (1066, 0)]);
///     assert_eq!(years.last(tx)?, Some((1789, 0)));
///     Ok(years)
/// }
/// ```
#[repr(transparent)]
pub struct PBTreeMap<'id, K: ?Sized, V> {
    place: Place<'id>,
    of: PhantomData<Pair<K, V>>,
}

handle! {
    PBTreeMap<K: ?Sized, V>,
    describe |schema: &mut Schema| schema.of_parts("ordered map", &[K::describe, V::describe]),
    owns true,
    free |this: Self, tx: &mut TypedTx<'id, '_, X>| this.free(tx),
    where [K: Key, V: Persist<'id>]
}

impl<'id, K: Key + ?Sized, V: Persist<'id>> PBTreeMap<'id, K, V> {
    /// An empty map.
    ///
    /// # Errors
    /// Those of the transaction.
    pub fn new<X: Transact>(tx: &mut TypedTx<'id, '_, X>) -> Result<Self, Abort> {
        let tree = ByteTree::create(tx.raw(), Placement::Together)?;
        Ok(Self { place: Place::new(tree.root()), of: PhantomData })
    }

    /// The map without types.
    pub fn untyped(self) -> ByteTree {
        ByteTree::at(self.offset())
    }

    fn entries(self) -> Entries<'id, ByteTree, K, V> {
        Entries::new(self.untyped())
    }

    /// A pointer to the value of `key`, if it has one. It stays good until the key is removed.
    ///
    /// # Errors
    /// Those of the transaction; [`Abort::Damaged`] when there is no such map any more.
    pub fn value<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        key: &K,
    ) -> Result<Option<PPtr<'id, V>>, Abort> {
        self.entries().find(tx, key)
    }

    /// The value of `key`, if it has one.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn get<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        key: &K,
    ) -> Result<Option<V>, Abort> {
        self.value(tx, key)?.map(|value| value.get(tx)).transpose()
    }

    /// Whether `key` has a value.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn contains_key<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        key: &K,
    ) -> Result<bool, Abort> {
        Ok(self.value(tx, key)?.is_some())
    }

    /// Sets the value of `key` and returns the old one.
    ///
    /// # Errors
    /// As [`value`](Self::value), and [`Abort::OutOfSpace`], also for a key of more than 65,535
    /// bytes.
    pub fn insert<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        key: &K,
        value: V,
    ) -> Result<Option<V>, Abort> {
        self.entries().insert(tx, key, value)
    }

    /// Takes `key` and its value away.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn remove<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        key: &K,
    ) -> Result<Option<V>, Abort> {
        self.entries().remove(tx, key)
    }

    /// Sets the values of several keys. What values that were there own is not freed.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn extend<'k, X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        pairs: impl IntoIterator<Item = (&'k K, V)>,
    ) -> Result<(), Abort>
    where
        K: 'k,
    {
        pairs.into_iter().try_for_each(|(key, value)| self.insert(tx, key, value).map(|_| ()))
    }

    /// The place of `key`, to look and then decide.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn entry<'a, 't, 'k, X: Transact>(
        self,
        tx: &'a mut TypedTx<'id, 't, X>,
        key: &'k K,
    ) -> Result<Entry<'a, 'id, 't, 'k, K, V, X, ByteTree>, Abort> {
        let found = self.value(tx, key)?;
        Ok(Entry { tx, entries: self.entries(), key, found })
    }

    /// The least key and its value.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn first<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
    ) -> Result<Option<(K::Owned, V)>, Abort> {
        let mut first = None;
        self.untyped().scan(tx.raw(), &[], 1, |tx, key, value| {
            first = Some(load_pair::<K, V, X>(tx, key, value)?);
            Ok(())
        })?;
        Ok(first)
    }

    /// The greatest key and its value.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn last<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
    ) -> Result<Option<(K::Owned, V)>, Abort> {
        let Some((key, value)) = self.untyped().before(tx.raw(), None)? else {
            return Ok(None);
        };
        load_pair::<K, V, X>(tx.raw(), &key, value).map(Some)
    }

    /// Takes the least key and its value away.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn pop_first<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
    ) -> Result<Option<(K::Owned, V)>, Abort> {
        let first = self.first(tx)?;
        self.take(tx, first)
    }

    /// Takes the greatest key and its value away.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn pop_last<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
    ) -> Result<Option<(K::Owned, V)>, Abort> {
        let last = self.last(tx)?;
        self.take(tx, last)
    }

    fn take<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        pair: Option<(K::Owned, V)>,
    ) -> Result<Option<(K::Owned, V)>, Abort> {
        if let Some((key, _)) = &pair {
            let key: &K = std::borrow::Borrow::borrow(key);
            key.with_bytes(|key| self.untyped().remove(tx.raw(), key))?;
        }
        Ok(pair)
    }

    /// Number of keys, counted by a walk: no operation keeps a counter that all would share.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn len<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<u64, Abort> {
        self.untyped().len(tx.raw())
    }

    /// Whether there are no keys.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn is_empty<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<bool, Abort> {
        Ok(self.first(tx)?.is_none())
    }

    /// Keys and values in the order of keys. The map cannot change meanwhile, as the iterator holds
    /// the transaction.
    pub fn iter<'a, 't, X: Transact>(
        self,
        tx: &'a mut TypedTx<'id, 't, X>,
    ) -> Range<'a, 'id, 't, K, V, X> {
        self.between(tx, Vec::new(), None)
    }

    /// The keys in `range` and their values, in the order of keys; backwards with `rev`. There are
    /// none where the range ends before it starts.
    pub fn range<'a, 't, X: Transact>(
        self,
        tx: &'a mut TypedTx<'id, 't, X>,
        range: impl RangeBounds<K>,
    ) -> Range<'a, 'id, 't, K, V, X> {
        let bytes = |key: &K| key.with_bytes(<[u8]>::to_vec);
        // No key lies between another and the same with a zero behind.
        let behind = |key: &K| [bytes(key), vec![0]].concat();
        let from = match range.start_bound() {
            Bound::Unbounded => Vec::new(),
            Bound::Included(key) => bytes(key),
            Bound::Excluded(key) => behind(key),
        };
        let until = match range.end_bound() {
            Bound::Unbounded => None,
            Bound::Included(key) => Some(behind(key)),
            Bound::Excluded(key) => Some(bytes(key)),
        };
        self.between(tx, from, until)
    }

    fn between<'a, 't, X: Transact>(
        self,
        tx: &'a mut TypedTx<'id, 't, X>,
        from: Vec<u8>,
        until: Option<Vec<u8>>,
    ) -> Range<'a, 'id, 't, K, V, X> {
        let loaded = VecDeque::new();
        Range { tx, tree: self.untyped(), from, until, loaded, is_over: false, of: PhantomData }
    }

    /// Frees all entries and what the values own.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn clear<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<(), Abort> {
        self.entries().free_values(tx)?;
        self.free_blocks_but_root(tx)?;
        self.untyped().reset(tx.raw())
    }

    /// Frees the map, and what its values own.
    ///
    /// # Errors
    /// As [`value`](Self::value); [`Abort::BadAddress`] when it was freed before.
    pub fn free<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<(), Abort> {
        self.entries().free_values(tx)?;
        self.free_blocks_but_root(tx)?;
        free_header(tx.raw(), self.offset())
    }

    fn free_blocks_but_root<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<(), Abort> {
        let root = self.offset();
        free_walked(tx.raw(), |reading, blocks| {
            let block = |at, _| {
                if at != root {
                    blocks.push(at)
                }
            };
            ByteTree::walk(root, reading, block, |_, _, _| Ok(()))
                .map_err(|damage| damaged(damage.at, damage.what))
        })
    }
}

fn load_pair<'id, K: Key + ?Sized, V: Persist<'id>, X: Transact>(
    tx: &mut X,
    key: &[u8],
    value: ByteRange,
) -> Result<(K::Owned, V), Abort> {
    let key = key_of::<K>(key, value.at)?;
    let value: PPtr<'id, V> = value_at(value)?;
    Ok((key, V::load(tx, value.offset())?))
}

/// Entries are loaded so many at a time.
const LOADED_ENTRIES: u64 = 30;

/// What [`PBTreeMap::iter`] and [`PBTreeMap::range`] return. After an error it ends.
pub struct Range<'a, 'id, 't, K: Key + ?Sized, V, X: Transact> {
    tx: &'a mut TypedTx<'id, 't, X>,
    tree: ByteTree,
    /// No key below these bytes was loaded or is to be.
    from: Vec<u8>,
    /// The first bytes that are no key of the range any more.
    until: Option<Vec<u8>>,
    /// Entries from the front that are still to come, with their keys' bytes.
    loaded: VecDeque<(Vec<u8>, V)>,
    is_over: bool,
    of: PhantomData<fn(&K)>,
}

impl<'id, K: Key + ?Sized, V: Persist<'id>, X: Transact> Range<'_, 'id, '_, K, V, X> {
    fn load(&mut self) -> Result<(), Abort> {
        let loaded = &mut self.loaded;
        self.tree.scan(self.tx.raw(), &self.from, LOADED_ENTRIES, |tx, key, value| {
            let value: PPtr<'id, V> = value_at(value)?;
            loaded.push_back((key.to_vec(), V::load(tx, value.offset())?));
            Ok(())
        })?;
        if let Some((key, _)) = self.loaded.back() {
            self.from.clear();
            self.from.extend_from_slice(key);
            self.from.push(0);
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Option<(K::Owned, V)>, Abort> {
        if self.loaded.is_empty() {
            self.load()?;
        }
        let Some((key, value)) = self.loaded.pop_front() else { return Ok(None) };
        if self.until.as_ref().is_some_and(|until| key >= *until) {
            return Ok(None);
        }
        Ok(Some((key_of::<K>(&key, self.tree.root())?, value)))
    }

    fn step_back(&mut self) -> Result<Option<(K::Owned, V)>, Abort> {
        let found = self.tree.before(self.tx.raw(), self.until.as_deref())?;
        let Some((key, value)) = found else { return Ok(None) };
        let first = self.loaded.front().map_or(&self.from, |(key, _)| key);
        if key < *first {
            return Ok(None);
        }
        let pair = load_pair::<K, V, X>(self.tx.raw(), &key, value)?;
        self.until = Some(key);
        Ok(Some(pair))
    }

    /// Ends the iteration where there is nothing more, or nothing more to trust.
    fn ended<T>(&mut self, step: Result<Option<T>, Abort>) -> Option<Result<T, Abort>> {
        self.is_over = !matches!(step, Ok(Some(_)));
        step.transpose()
    }
}

impl<'id, K: Key + ?Sized, V: Persist<'id>, X: Transact> Iterator for Range<'_, 'id, '_, K, V, X> {
    type Item = Result<(K::Owned, V), Abort>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let step = self.step();
        self.ended(step)
    }
}

impl<'id, K: Key + ?Sized, V: Persist<'id>, X: Transact> DoubleEndedIterator
    for Range<'_, 'id, '_, K, V, X>
{
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let step = self.step_back();
        self.ended(step)
    }
}
