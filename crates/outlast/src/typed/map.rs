//! The common part of all maps: [`PMap`].

use std::borrow::Borrow;
use std::marker::PhantomData;

use super::entries::{Entries, Entry, Pair, free_walked};
use super::pointer::{Handle, Place, free_header, handle};
use super::{Key, PPtr, Persist, Schema, TypedTx};
use crate::collections::{Damage, Dictionary, Placement, ReadRaw, damaged};
use crate::{Abort, PoolOffset, Transact};

/// An untyped structure that a [`PMap`] with keys `K` stands on. It is a place, and looked at when
/// it is first used.
pub trait Structure<K: ?Sized>: Dictionary {
    /// Its name in schemas.
    #[doc(hidden)]
    const NAME: &'static str;

    /// An empty map, for values of `bytes` bytes.
    #[doc(hidden)]
    fn make<X: Transact>(tx: &mut X, value_bytes: usize) -> Result<PoolOffset, Abort>;

    /// The one whose header is there.
    #[doc(hidden)]
    fn at(root: PoolOffset) -> Self;

    /// Makes it empty. Its header stays; all its other blocks are freed already.
    #[doc(hidden)]
    fn reset<X: Transact>(self, tx: &mut X) -> Result<(), Abort>;

    /// Tells of each of its blocks.
    #[doc(hidden)]
    fn for_each_block<R: ReadRaw>(
        root: PoolOffset,
        read: &mut R,
        block: impl FnMut(PoolOffset, u64),
    ) -> Result<(), Damage>;
}

/// Small keys and small values lie in a map's nodes.
pub(super) fn placement<K: Key + ?Sized>(value_bytes: usize) -> Placement {
    match K::SAME_BYTES {
        Some(key_bytes) => Placement::of_lengths(key_bytes, value_bytes),
        None => Placement::Together,
    }
}

/// A persistent map from `K`s to `V`s on the structure `D`: what [`PHashMap`](super::PHashMap),
/// [`PBTreeMap`](super::PBTreeMap) and [`PRbMap`](super::PRbMap) have in common.
///
/// Keys are given by reference and copied. A key of a fixed size of up to 8 bytes lies with a value of up
/// to 8 bytes in a node of a hash map or B+tree; any other key with its value takes one block. A map with `()` as
/// its values is a set.
///
/// The handle is `Copy`, and dropping it does nothing. A value that a method returns is the caller's, to keep or to free:
/// [`insert`](Self::insert), [`remove`](Self::remove), [`pop_first`](Self::pop_first) and [`pop_last`](Self::pop_last) return
/// the old one. [`put`](Self::put), [`delete`](Self::delete), [`extend`](Self::extend), [`retain`](Self::retain),
/// [`clear`](Self::clear) and [`free`](Self::free) free what the values own that they drop.
#[must_use = "its blocks leak unless it is stored in the pool or freed"]
#[repr(transparent)]
pub struct PMap<'id, D, K: ?Sized, V> {
    pub(super) place: Place<'id>,
    pub(super) of: PhantomData<Kinds<D, K, V>>,
}

/// The variance of a map: it is one `D`, takes keys and gives values.
type Kinds<D, K, V> = (fn() -> D, Pair<K, V>);

handle! {
    PMap<D, K: ?Sized, V>,
    describe |schema: &mut Schema| schema.of_parts(D::NAME, &[K::describe, V::describe]),
    owns true,
    free |this: Self, tx: &mut TypedTx<'id, '_, X>| this.free(tx),
    where [D: Structure<K>, K: Key, V: Persist<'id>]
}

impl<'id, D, K, V> PMap<'id, D, K, V>
where
    D: Structure<K>,
    K: Key + ?Sized,
    V: Persist<'id>,
{
    /// An empty map.
    ///
    /// # Errors
    /// Those of the transaction; [`Abort::TooLarge`] for values that the structure is not
    /// made for.
    pub fn new<X: Transact>(tx: &mut TypedTx<'id, '_, X>) -> Result<Self, Abort> {
        D::make(tx.raw(), V::SIZE).map(Self::of)
    }

    pub(super) fn of(root: PoolOffset) -> Self {
        Self { place: Place::new(root), of: PhantomData }
    }

    /// The map without types.
    pub fn untyped(self) -> D {
        D::at(self.offset())
    }

    fn entries(self) -> Entries<'id, D, K, V> {
        Entries::new(self.untyped())
    }

    /// A pointer to the value of `key`, if it has one. It stays good until a key comes or goes: small
    /// values move with their neighbours.
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

    /// Sets the value of `key` and returns the old one, which is the caller's to free if it owns blocks: [`put`](Self::put)
    /// frees it.
    ///
    /// # Errors
    /// As [`value`](Self::value), [`Abort::OutOfSpace`], and [`Abort::TooLarge`] for a key of more than
    /// 65,535 bytes.
    pub fn insert<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        key: &K,
        value: V,
    ) -> Result<Option<V>, Abort> {
        self.entries().insert(tx, key, value)
    }

    /// Sets the value of `key`, and frees what the old one owned and the new one has not in the same place. So a value goes back
    /// with one number changed as well as with other text.
    ///
    /// ```
    /// use outlast::typed::{PHashMap, PString, TypedTx};
    /// use outlast::{Abort, Transact};
    ///
    /// fn rename<'id>(
    ///     tx: &mut TypedTx<'id, '_, impl Transact>,
    ///     names: PHashMap<'id, u64, PString<'id>>,
    ///     user: u64,
    ///     name: &str,
    /// ) -> Result<(), Abort> {
    ///     let name = PString::new(tx, name)?;
    ///     names.put(tx, &user, name) // and the old name's blocks are free
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`insert`](Self::insert); [`Abort::BadAddress`] where the old value's blocks were freed before.
    pub fn put<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        key: &K,
        value: V,
    ) -> Result<(), Abort> {
        self.entries().put(tx, key, value)
    }

    /// Takes `key` and its value away, and returns the value, which is the caller's to free if it owns blocks:
    /// [`delete`](Self::delete) frees it.
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

    /// Takes `key` and its value away, and frees what the value owns. Returns whether there was one.
    ///
    /// # Errors
    /// As [`value`](Self::value); [`Abort::BadAddress`] where the value's blocks were freed before.
    pub fn delete<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>, key: &K) -> Result<bool, Abort> {
        match self.remove(tx, key)? {
            Some(old) => old.free_owned(tx).map(|()| true),
            None => Ok(false),
        }
    }

    /// Sets the values of several keys, each as [`put`](Self::put) does.
    ///
    /// # Errors
    /// As `put`.
    pub fn extend<'k, X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        pairs: impl IntoIterator<Item = (&'k K, V)>,
    ) -> Result<(), Abort>
    where
        K: 'k,
    {
        pairs.into_iter().try_for_each(|(key, value)| self.put(tx, key, value))
    }

    /// Keeps the pairs for which `keep` returns `true`, and frees the others and what their values own. It loads all of
    /// them first.
    ///
    /// # Errors
    /// As [`value`](Self::value), and those of `keep`.
    pub fn retain<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
        mut keep: impl FnMut(&mut TypedTx<'id, '_, X>, &K, V) -> Result<bool, Abort>,
    ) -> Result<(), Abort> {
        for (key, value) in self.to_vec(tx)? {
            if !keep(tx, key.borrow(), value)? {
                self.delete(tx, key.borrow())?;
            }
        }
        Ok(())
    }

    /// Keys and values in volatile memory, in the order of keys where the map has one.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn to_vec<X: Transact>(
        self,
        tx: &mut TypedTx<'id, '_, X>,
    ) -> Result<Vec<(K::Owned, V)>, Abort> {
        self.entries().to_vec(tx)
    }

    /// The place of `key`, to look and then decide.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn entry<'a, 't, 'k, X: Transact>(
        self,
        tx: &'a mut TypedTx<'id, 't, X>,
        key: &'k K,
    ) -> Result<Entry<'a, 'id, 't, 'k, K, V, X, D>, Abort> {
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

    /// Frees all entries and what the values own. The map is then as a new one is.
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
            D::for_each_block(root, reading, block)
                .map_err(|damage| damaged(damage.at, damage.what))
        })
    }
}
