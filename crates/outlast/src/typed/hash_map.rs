//! A hash map.

use std::collections::VecDeque;

use super::entries::{key_of, value_at};
use super::map::{PMap, Structure, placement};
use super::pointer::Handle;
use super::{Key, PPtr, Persist, TypedTx};
use crate::collections::{ByteMap, ByteMapOptions, Damage, Placement, ReadRaw};
use crate::{Abort, PoolOffset, Transact};

/// A persistent hash map, with the interface of a [`HashMap`](std::collections::HashMap) that hands out copies in place
/// of references: a [`ByteMap`] whose keys are `K`s and whose values are `V`s.
///
/// Keys are given by reference and copied. `K` may be `str` or `[u8]`; [`Key`] has the others. With `()` for `V` it is
/// a set.
///
/// Its methods are [`PMap`]'s, which also says where keys and values lie.
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
pub type PHashMap<'id, K, V> = PMap<'id, ByteMap, K, V>;

impl<K: Key + ?Sized> Structure<K> for ByteMap {
    const NAME: &'static str = "hash map";

    fn make<X: Transact>(tx: &mut X, value_bytes: usize) -> Result<PoolOffset, Abort> {
        let placement = placement::<K>(value_bytes);
        let options = ByteMapOptions { placement, ..ByteMapOptions::default() };
        Self::create(tx, &options).map(Self::root)
    }

    fn at(root: PoolOffset) -> Self {
        Self::at(root)
    }

    fn reset<X: Transact>(self, tx: &mut X) -> Result<(), Abort> {
        self.reset(tx)
    }

    fn for_each_block<R: ReadRaw>(
        root: PoolOffset,
        read: &mut R,
        block: impl FnMut(PoolOffset, u64),
    ) -> Result<(), Damage> {
        Self::walk(root, read, block, |_, _, _| Ok(()))
    }
}

impl<'id, K: Key + ?Sized, V: Persist<'id>> PHashMap<'id, K, V> {
    /// An empty map made so.
    ///
    /// # Errors
    /// Those of the transaction.
    pub fn with_options<X: Transact>(
        tx: &mut TypedTx<'id, '_, X>,
        options: &ByteMapOptions,
    ) -> Result<Self, Abort> {
        let mut options = *options;
        if options.placement == Placement::Together {
            options.placement = placement::<K>(V::SIZE);
        }
        Ok(Self::of(ByteMap::create(tx.raw(), &options)?.root()))
    }

    /// Whether there are no keys.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn is_empty<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<bool, Abort> {
        Ok(self.iter(tx).next().transpose()?.is_none())
    }

    /// Keys and values, in no order. The map cannot change meanwhile, as the iterator holds the
    /// transaction. An error is its last item.
    pub fn iter<'a, 't, X: Transact>(
        self,
        tx: &'a mut TypedTx<'id, 't, X>,
    ) -> Iter<'a, 'id, 't, K, V, X> {
        Iter { tx, map: self.untyped(), next: Some(0), loaded: VecDeque::new() }
    }
}

/// Returned by [`PHashMap::iter`]: a segment's entries are loaded at a time. After an error it
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
