//! Operations of maps in the order of their keys: both ends, ranges, iterators.

use std::collections::VecDeque;
use std::marker::PhantomData;
use std::ops::Bound;

use super::entries::{key_of, value_at};
use super::map::{PMap, Structure};
use super::pointer::Handle;
use super::{Key, KeyRange, PPtr, Persist, TypedTx};
use crate::collections::{Dictionary, damaged};
use crate::{Abort, ByteRange, PoolOffset, Transact};

/// A structure that keeps its keys in order.
pub trait Ordered: Dictionary {
    /// Calls `visit` with up to `limit` keys and the places of their values, in the order of keys,
    /// from the first key that is not below `from` on.
    #[doc(hidden)]
    fn scan<X: Transact>(
        self,
        tx: &mut X,
        from: &[u8],
        limit: u64,
        visit: impl FnMut(&mut X, &[u8], ByteRange) -> Result<(), Abort>,
    ) -> Result<(), Abort>;

    /// The greatest key below `bound`, or of all without one, and the place of its value.
    #[doc(hidden)]
    fn before<X: Transact>(
        self,
        tx: &mut X,
        bound: Option<&[u8]>,
    ) -> Result<Option<(Vec<u8>, ByteRange)>, Abort>;
}

impl<'id, D, K, V> PMap<'id, D, K, V>
where
    D: Structure<K> + Ordered,
    K: Key + ?Sized,
    V: Persist<'id>,
{
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

    /// Takes the least key and its value away, and returns both. What the value owns is the caller's, to keep or to free.
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

    /// Takes the greatest key and its value away, and returns both. What the value owns is the caller's, to keep or to free.
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

    /// Whether there are no keys.
    ///
    /// # Errors
    /// As [`value`](Self::value).
    pub fn is_empty<X: Transact>(self, tx: &mut TypedTx<'id, '_, X>) -> Result<bool, Abort> {
        Ok(self.first(tx)?.is_none())
    }

    /// Keys and values in the order of keys. The map cannot change meanwhile, as the iterator holds
    /// the transaction. An error is its last item.
    pub fn iter<'a, 't, X: Transact>(
        self,
        tx: &'a mut TypedTx<'id, 't, X>,
    ) -> Range<'a, 'id, 't, D, K, V, X> {
        self.between(tx, Vec::new(), None)
    }

    /// The keys in `range` and their values, in the order of keys; backwards with `rev`. There are
    /// none where the range ends before it starts.
    ///
    /// Numbers and tuples are given as they are, text and bytes by reference: `1..=9`, `(user, 0)..=(user, u64::MAX)`,
    /// `"a".."b"`. A pair of [`Bound`]s leaves out a first key. For all keys that begin alike there is
    /// [`prefix`](Self::prefix).
    ///
    /// ```
    /// use std::ops::Bound;
    ///
    /// use outlast::typed::{PBTreeMap, TypedTx};
    /// use outlast::{Abort, Transact};
    ///
    /// fn between<'id>(
    ///     tx: &mut TypedTx<'id, '_, impl Transact>,
    ///     by_key: PBTreeMap<'id, str, u64>,
    ///     from: &str,
    ///     to: &str,
    /// ) -> Result<Vec<(String, u64)>, Abort> {
    ///     by_key.range(tx, from..to).collect()
    /// }
    ///
    /// /// The first ten behind the last one that was shown.
    /// fn more<'id>(
    ///     tx: &mut TypedTx<'id, '_, impl Transact>,
    ///     by_key: PBTreeMap<'id, str, u64>,
    ///     last: &str,
    /// ) -> Result<Vec<(String, u64)>, Abort> {
    ///     by_key.range(tx, (Bound::Excluded(last), Bound::Unbounded)).take(10).collect()
    /// }
    /// ```
    pub fn range<'a, 't, X: Transact>(
        self,
        tx: &'a mut TypedTx<'id, 't, X>,
        range: impl KeyRange<K>,
    ) -> Range<'a, 'id, 't, D, K, V, X> {
        let bytes = |key: &K| key.with_bytes(<[u8]>::to_vec);
        // No key lies between another and the same with a zero behind.
        let behind = |key: &K| [bytes(key), vec![0]].concat();
        let (from, until) = range.bounds();
        let from = match from {
            Bound::Unbounded => Vec::new(),
            Bound::Included(key) => bytes(key),
            Bound::Excluded(key) => behind(key),
        };
        let until = match until {
            Bound::Unbounded => None,
            Bound::Included(key) => Some(behind(key)),
            Bound::Excluded(key) => Some(bytes(key)),
        };
        self.between(tx, from, until)
    }

    /// The keys that begin with `prefix` and their values, in the order of keys; backwards with `rev`. For keys of bytes:
    /// `str`, `[u8]` and `[u8; N]`.
    ///
    /// ```
    /// use outlast::typed::{PBTreeMap, TypedTx};
    /// use outlast::{Abort, Transact};
    ///
    /// fn of_disks<'id>(
    ///     tx: &mut TypedTx<'id, '_, impl Transact>,
    /// ) -> Result<PBTreeMap<'id, str, u64>, Abort> {
    ///     let metrics = PBTreeMap::new(tx)?;
    ///     metrics.extend(tx, [("cpu", 1), ("disk.0", 2), ("disk.1", 3), ("disks", 4)])?;
    ///     let disks: Vec<_> = metrics.prefix(tx, "disk.").collect::<Result<_, _>>()?;
    ///     assert_eq!(disks, [("disk.0".to_owned(), 2), ("disk.1".to_owned(), 3)]);
    ///     Ok(metrics)
    /// }
    /// ```
    pub fn prefix<'a, 't, X: Transact>(
        self,
        tx: &'a mut TypedTx<'id, 't, X>,
        prefix: impl AsRef<[u8]>,
    ) -> Range<'a, 'id, 't, D, K, V, X>
    where
        K: AsRef<[u8]>,
    {
        let prefix = prefix.as_ref();
        // The first bytes above all that begin so: the last byte that can be raised is, and those behind it go.
        let raised = prefix.iter().rposition(|byte| *byte < u8::MAX);
        let until = raised.map(|last| {
            let mut until = prefix[..=last].to_vec();
            until[last] += 1;
            until
        });
        self.between(tx, prefix.to_vec(), until)
    }

    fn between<'a, 't, X: Transact>(
        self,
        tx: &'a mut TypedTx<'id, 't, X>,
        from: Vec<u8>,
        until: Option<Vec<u8>>,
    ) -> Range<'a, 'id, 't, D, K, V, X> {
        let loaded = VecDeque::new();
        let (root, tree) = (self.offset(), self.untyped());
        Range { tx, root, tree, from, until, loaded, is_over: false, of: PhantomData }
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

/// Entries that are loaded at a time.
const LOADED_ENTRIES: u64 = 30;

/// Returned by [`PMap::iter`], [`PMap::range`] and [`PMap::prefix`] of a map in order. After an error it ends.
pub struct Range<'a, 'id, 't, D, K: Key + ?Sized, V, X: Transact> {
    tx: &'a mut TypedTx<'id, 't, X>,
    root: PoolOffset,
    tree: D,
    /// No key below these bytes was loaded or is to be.
    from: Vec<u8>,
    /// The first bytes that are no key of the range any more.
    until: Option<Vec<u8>>,
    /// Entries from the front that are still to come, with their keys' bytes.
    loaded: VecDeque<(Vec<u8>, V)>,
    is_over: bool,
    of: PhantomData<fn(&K)>,
}

impl<'id, D: Structure<K> + Ordered, K: Key + ?Sized, V: Persist<'id>, X: Transact>
    Range<'_, 'id, '_, D, K, V, X>
{
    fn load(&mut self) -> Result<(), Abort> {
        let (loaded, from, root) = (&mut self.loaded, &self.from, self.root);
        self.tree.scan(self.tx.raw(), from, LOADED_ENTRIES, |tx, key, value| {
            // Else an iteration over damaged keys would come by the same ones for ever.
            let ascends =
                loaded.back().map_or(key >= from.as_slice(), |(last, _)| key > last.as_slice());
            if !ascends {
                return Err(damaged(root, "keys out of order in a map"));
            }
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
        Ok(Some((key_of::<K>(&key, self.root)?, value)))
    }

    fn step_back(&mut self) -> Result<Option<(K::Owned, V)>, Abort> {
        let found = self.tree.before(self.tx.raw(), self.until.as_deref())?;
        let Some((key, value)) = found else { return Ok(None) };
        if self.until.as_ref().is_some_and(|until| key >= *until) {
            return Err(damaged(self.root, "keys out of order in a map"));
        }
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

impl<'id, D: Structure<K> + Ordered, K: Key + ?Sized, V: Persist<'id>, X: Transact> Iterator
    for Range<'_, 'id, '_, D, K, V, X>
{
    type Item = Result<(K::Owned, V), Abort>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let step = self.step();
        self.ended(step)
    }
}

impl<'id, D: Structure<K> + Ordered, K: Key + ?Sized, V: Persist<'id>, X: Transact>
    DoubleEndedIterator for Range<'_, 'id, '_, D, K, V, X>
{
    fn next_back(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let step = self.step_back();
        self.ended(step)
    }
}
