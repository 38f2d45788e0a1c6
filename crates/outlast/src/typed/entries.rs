//! Operations of maps on their entries.

use std::marker::PhantomData;

use super::branded::Brand;
use super::persist::with_bytes;
use super::{Key, PPtr, Persist, TypedTx};
use crate::collections::{Dictionary, ReadRaw, damaged};
use crate::{Abort, ByteRange, PoolOffset, Transact};

/// A map's types of keys and values: it takes the ones and gives the others.
pub(super) type Pair<K, V> = (fn(&K), fn() -> V);

/// A map's untyped dictionary, with the types of its keys and values.
pub(super) struct Entries<'id, D, K: ?Sized, V> {
    pub dictionary: D,
    brand: Brand<'id>,
    of: PhantomData<Pair<K, V>>,
}

impl<D: Copy, K: ?Sized, V> Clone for Entries<'_, D, K, V> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<D: Copy, K: ?Sized, V> Copy for Entries<'_, D, K, V> {}

impl<'id, D: Dictionary, K: Key + ?Sized, V: Persist<'id>> Entries<'id, D, K, V> {
    #[inline]
    pub fn new(dictionary: D) -> Self {
        Self { dictionary, brand: PhantomData, of: PhantomData }
    }

    /// Where the value of `key` lies.
    #[inline]
    pub fn find<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        key: &K,
    ) -> Result<Option<PPtr<'id, V>>, Abort> {
        let found = key.with_bytes(|key| self.dictionary.find(tx.raw(), key))?;
        found.map(value_at).transpose()
    }

    /// Sets the value of `key` and returns the old one.
    pub fn insert<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        key: &K,
        value: V,
    ) -> Result<Option<V>, Abort> {
        if let Some(place) = self.find(tx, key)? {
            return place.replace(tx, value).map(Some);
        }
        self.add(tx, key, value)?;
        Ok(None)
    }

    /// Sets the value of `key` and frees what the old one owned and the new one has not.
    pub fn put<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        key: &K,
        value: V,
    ) -> Result<(), Abort> {
        match self.insert(tx, key, value)? {
            Some(old) => old.free_replaced(tx, &value),
            None => Ok(()),
        }
    }

    /// Sets the value of a key that has none.
    pub fn add<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        key: &K,
        value: V,
    ) -> Result<(), Abort> {
        let mut put = |key: &[u8], value: &[u8]| self.dictionary.insert(tx.raw(), key, value);
        key.with_bytes(|key| with_bytes(&value, |value| put(key, value)))?;
        Ok(())
    }

    /// Takes `key` and its value away.
    pub fn remove<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        key: &K,
    ) -> Result<Option<V>, Abort> {
        let Some(place) = self.find(tx, key)? else { return Ok(None) };
        let value = place.get(tx)?;
        key.with_bytes(|key| self.dictionary.remove(tx.raw(), key))?;
        Ok(Some(value))
    }

    /// All pairs, as the dictionary orders them.
    pub fn to_vec<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
    ) -> Result<Vec<(K::Owned, V)>, Abort> {
        let mut pairs = Vec::new();
        self.dictionary.for_each(tx.raw(), |tx, key, value| {
            let key = key_of::<K>(key, value.at)?;
            let place: PPtr<'id, V> = value_at(value)?;
            pairs.push((key, V::load(tx, super::Handle::offset(place))?));
            Ok(())
        })?;
        Ok(pairs)
    }

    /// Frees what the values own.
    pub fn free_values<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<(), Abort> {
        if !V::OWNS {
            return Ok(());
        }
        let mut values = Vec::new();
        self.dictionary.for_each(tx.raw(), |tx, _, value| {
            let place: PPtr<'id, V> = value_at(value)?;
            values.push(V::load(tx, super::Handle::offset(place))?);
            Ok(())
        })?;
        values.into_iter().try_for_each(|value| value.free_owned(tx))
    }
}

/// A value's place, if it has the size of a `V`.
pub(super) fn value_at<'id, V: Persist<'id>>(value: ByteRange) -> Result<PPtr<'id, V>, Abort> {
    if value.len != V::SIZE as u64 {
        return Err(damaged(value.at, "a value of another size than its type"));
    }
    Ok(PPtr::to(value.at))
}

/// The key that these bytes are.
pub(super) fn key_of<K: Key + ?Sized>(bytes: &[u8], value: PoolOffset) -> Result<K::Owned, Abort> {
    K::from_bytes(bytes).ok_or_else(|| damaged(value, "a value whose key is not of its type"))
}

/// Frees every block that `walk` reaches.
pub(super) fn free_walked<X: Transact, E: Into<Abort>>(
    tx: &mut X,
    walk: impl FnOnce(&mut Reading<'_, X>, &mut Vec<PoolOffset>) -> Result<(), E>,
) -> Result<(), Abort> {
    let mut blocks = Vec::new();
    let mut reading = Reading { tx, failure: None };
    let walked = walk(&mut reading, &mut blocks);
    // The structure that a failed load shows is not damaged.
    if let Some(failure) = reading.failure {
        return Err(failure);
    }
    walked.map_err(E::into)?;
    blocks.into_iter().try_for_each(|block| tx.free(block))
}

/// A transaction that is read as raw memory.
pub(super) struct Reading<'t, X> {
    tx: &'t mut X,
    failure: Option<Abort>,
}

impl<X: Transact> ReadRaw for Reading<'_, X> {
    fn read(&mut self, at: PoolOffset, out: &mut [u8]) -> bool {
        let loaded = self.tx.load(at, out);
        let inside = loaded.is_ok();
        if let Err(abort) = loaded {
            self.failure.get_or_insert(abort);
        }
        inside
    }
}

/// The place of a key in a map, whether it has a value or not. Its methods take and return values, not references into
/// the pool: `and_modify(|n| n + 1)` returns the new value, and `or_insert(0)?` is a copy. [`value`](Self::value) points to the
/// value that is there, to change it in place.
///
/// ```
/// use outlast::typed::{PHashMap, TypedTx};
/// use outlast::{Abort, Transact};
///
/// fn count<'id>(
///     tx: &mut TypedTx<'id, '_, impl Transact>,
///     words: PHashMap<'id, str, u64>,
///     word: &str,
/// ) -> Result<(), Abort> {
///     words.entry(tx, word)?.and_modify(|n| n + 1)?.or_insert(1)?;
///     Ok(())
/// }
/// ```
pub struct Entry<'a, 'id, 't, 'k, K: ?Sized, V, X: Transact, D> {
    pub(super) tx: &'a mut TypedTx<'id, 't, X>,
    pub(super) entries: EntriesOf<'id, D, K, V>,
    pub(super) key: &'k K,
    pub(super) found: Option<PPtr<'id, V>>,
}

/// Hides the module's own type from the signature of [`Entry`].
pub(super) type EntriesOf<'id, D, K, V> = Entries<'id, D, K, V>;

impl<'id, K, V, X, D> Entry<'_, 'id, '_, '_, K, V, X, D>
where
    K: Key + ?Sized,
    V: Persist<'id>,
    X: Transact,
    D: Dictionary,
{
    /// A pointer to the value, if there is one.
    pub fn value(&self) -> Option<PPtr<'id, V>> {
        self.found
    }

    /// Stores what `change` makes of the value, if there is one.
    ///
    /// # Errors
    /// Those of the transaction.
    pub fn and_modify(self, change: impl FnOnce(V) -> V) -> Result<Self, Abort> {
        if let Some(found) = self.found {
            found.update(self.tx, change)?;
        }
        Ok(self)
    }

    /// The value, which is set to `value` if there was none.
    ///
    /// # Errors
    /// As the map's `insert`.
    pub fn or_insert(self, value: V) -> Result<V, Abort> {
        self.or_insert_with(|_| Ok(value))
    }

    /// The value, which is set to what `make` returns if there was none.
    ///
    /// # Errors
    /// As the map's `insert`, and those of `make`.
    pub fn or_insert_with(
        self,
        make: impl FnOnce(&mut TypedTx<'id, '_, X>) -> Result<V, Abort>,
    ) -> Result<V, Abort> {
        match self.found {
            Some(found) => found.get(self.tx),
            None => {
                let value = make(self.tx)?;
                self.entries.add(self.tx, self.key, value)?;
                Ok(value)
            }
        }
    }
}
