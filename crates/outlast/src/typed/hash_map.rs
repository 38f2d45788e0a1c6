//! A hash map.

use std::collections::VecDeque;
use std::marker::PhantomData;

use super::entries::{Entries, Entry, Pair, free_walked, key_of, value_at};
use super::pointer::{Handle, Place, free_header, handle};
use super::{Key, PPtr, Persist, Schema, TypedTx};
use crate::collections::{ByteMap, Dictionary, MapOptions, damaged};
use crate::{Abort, Transact};

/// A persistent hash map, with the interface of a [`HashMap`](std::collections::HashMap): a
/// [`ByteMap`] whose keys are `K`s and whose values are `V`s.
///
/// Keys are given by reference and copied. `K` may be `str` or `[u8]`; [`Key`] has the others.
/// A key with its value takes one block.
///
/// The handle is `Copy`, and dropping it does nothing. What a method returns is the caller's;
/// [`clear`](Self::clear) and [`free`](Self::free) also free what the values own.
///
/// ```
/// use outlast::typed::{PHashMap, TypedTx};
/// use outlast::{Abort, Transact};
///
/// fn ages<'id>(
///     tx: &mut TypedTx<'id, '_, impl Transact>,
/// ) -> Result<PHashMap<'id, str, u64>, Abort> {
///     let ages = PHashMap::new(tx)?;
///     ages.insert(tx, "Ada", 36)?;
///     assert_eq!(ages.insert(tx, "Ada", 37)?, Some(36));
///     assert!(!ages.contains_key(tx, "Alan")?);
///     Ok(ages)
/// }
/// ```
#[repr(transparent)]
pub struct PHashMap<'id, K: ?Sized, V> {
    place: Place<'id>,
    of: PhantomData<Pair<K, V>>,
}

handle! {
    PHashMap<K: ?Sized, V>,
    describe |schema: &mut Schema| schema.of_parts("hash map", &[K::describe, V::describe]),
    owns true,
    free |this: Self, tx: &mut TypedTx<'id, '_, X>| this.free(tx),
    where [K: Key, V: Persist<'id>]
}

impl<'id, K: Key + ?Sized, V: Persist<'id>> PHashMap<'id, K, V> {
    /// An empty map.
    ///
    /// # Errors
    /// Those of the transaction.
    pub fn new<X: Transact>(tx: &mut TypedTx<'id, '_, X>) -> Result<Self, Abort> {
        Self::with_options(tx, &MapOptions::default())
    }

    /// An empty map made so.
    ///
    /// # Errors
    /// Those of the transaction.
    pub fn with_options<X: Transact>(
        tx: &mut TypedTx<'id, '_, X>,
        options: &MapOptions,
    ) -> Result<Self, Abort> {
        let map = ByteMap::create(tx.raw(), options)?;
        Ok(Self { place: Place::new(map.root()), of: PhantomData })
    }

    /// The map without types.
    pub fn untyped(self) -> ByteMap {
        ByteMap::at(self.offset())
    }

    fn entries(self) -> Entries<'id, ByteMap, K, V> {
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
    ) -> Result<Entry<'a, 'id, 't, 'k, K, V, X, ByteMap>, Abort> {
        let found = self.value(tx, key)?;
        Ok(Entry { tx, entries: self.entries(), key, found })
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
        Ok(self.iter(tx).next().transpose()?.is_none())
    }

    /// Keys and values, in no order. The map cannot change meanwhile, as the iterator holds the
    /// transaction.
    pub fn iter<'a, 't, X: Transact>(
        self,
        tx: &'a mut TypedTx<'id, 't, X>,
    ) -> Iter<'a, 'id, 't, K, V, X> {
        Iter { tx, map: self.untyped(), next: Some(0), loaded: VecDeque::new() }
    }

    /// Frees all entries and what the values own, and takes new room for as many keys as a new map
    /// has.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn clear<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<(), Abort> {
        self.entries().free_values(tx)?;
        let map = self.untyped();
        self.free_blocks_but_root(tx)?;
        map.reset(tx.raw())
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
            ByteMap::walk(root, reading, block, |_, _, _| Ok(()))
                .map_err(|damage| damaged(damage.at, damage.what))
        })
    }
}

/// What [`PHashMap::iter`] returns: a segment's entries are loaded at a time. After an error it
/// ends.
pub struct Iter<'a, 'id, 't, K: Key + ?Sized, V, X: Transact> {
    tx: &'a mut TypedTx<'id, 't, X>,
    map: ByteMap,
    /// The first hash of the next segment.
    next: Option<u64>,
    loaded: VecDeque<(K::Owned, V)>,
}

impl<'id, K: Key + ?Sized, V: Persist<'id>, X: Transact> Iter<'_, 'id, '_, K, V, X> {
    fn load_segment(&mut self, hash: u64) -> Result<Option<u64>, Abort> {
        let loaded = &mut self.loaded;
        self.map.for_each_in_segment(self.tx.raw(), hash, |tx, key, value| {
            let key = key_of::<K>(key, value.at)?;
            let value: PPtr<'id, V> = value_at(value)?;
            loaded.push_back((key, V::load(tx, value.offset())?));
            Ok(())
        })
    }
}

impl<'id, K: Key + ?Sized, V: Persist<'id>, X: Transact> Iterator for Iter<'_, 'id, '_, K, V, X> {
    type Item = Result<(K::Owned, V), Abort>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.loaded.is_empty() {
            match self.load_segment(self.next?) {
                Ok(next) => self.next = next,
                Err(abort) => {
                    (self.next, self.loaded) = (None, VecDeque::new());
                    return Some(Err(abort));
                }
            }
        }
        self.loaded.pop_front().map(Ok)
    }
}
