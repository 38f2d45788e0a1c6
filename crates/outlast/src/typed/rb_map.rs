//! An ordered map on a red-black tree.

use std::marker::PhantomData;

use super::FixedKey;
use super::map::{PMap, Structure};
use super::ordered::Ordered;
use crate::collections::{Damage, Dictionary, RbTree, ReadRaw, damaged};
use crate::{Abort, ByteRange, PoolOffset, Transact};

/// A persistent ordered map with the interface of a [`BTreeMap`](std::collections::BTreeMap), as
/// [`PBTreeMap`](super::PBTreeMap) is, on an [`RbTree`]: a line for each key, with its value if that
/// has up to 32 bytes, and few words that change with one operation.
///
/// Keys are integers of up to 8 bytes, values have at most
/// [`RB_VALUE_BYTES_MAX`](crate::collections::RB_VALUE_BYTES_MAX) bytes.
///
/// A removal may move another key's value, so a pointer to a value is good until any key is removed.
/// Its methods are [`PMap`]'s.
///
/// ```
/// use outlast::typed::{PRbMap, TypedTx};
/// use outlast::{Abort, Transact};
///
/// fn deadlines<'id>(
///     tx: &mut TypedTx<'id, '_, impl Transact>,
/// ) -> Result<PRbMap<'id, u64, u32>, Abort> {
///     let deadlines = PRbMap::new(tx)?;
///     for (at, job) in [(30, 1), (10, 2), (20, 3)] {
///         deadlines.insert(tx, &at, job)?;
///     }
///     assert_eq!(deadlines.pop_first(tx)?, Some((10, 2)));
///     assert_eq!(deadlines.last(tx)?, Some((30, 1)));
///     Ok(deadlines)
/// }
/// ```
pub type PRbMap<'id, K, V> = PMap<'id, RbWords<K>, K, V>;

/// Keys that a [`PRbMap`] can have: integers of up to 8 bytes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no key of a red-black map",
    label = "not an integer of up to 8 bytes",
    note = "`PBTreeMap` takes keys of any length"
)]
pub trait WordKey: FixedKey {}

macro_rules! word_keys {
    ($($integer:ident)*) => {$(
        impl WordKey for $integer {}
        const _: () = assert!($integer::BYTES <= 8);
    )*};
}

word_keys! { u8 u16 u32 u64 i8 i16 i32 i64 }

/// A red-black tree whose keys are `K`s: their bytes, the highest first, are the low bytes of the
/// words that the tree has as keys, and so in the same order.
pub struct RbWords<K: ?Sized> {
    root: PoolOffset,
    of: PhantomData<fn(&K)>,
}

impl<K: ?Sized> Clone for RbWords<K> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<K: ?Sized> Copy for RbWords<K> {}

/// The word of a key, or of the first bytes of something longer.
fn word_of<K: WordKey>(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[8 - K::BYTES..].copy_from_slice(&bytes[..K::BYTES]);
    u64::from_be_bytes(word)
}

/// The least word that is not below `bound`, the bytes of a key or something else to compare keys
/// with; `None` when there is none.
fn word_from<K: WordKey>(bound: &[u8]) -> Option<u64> {
    match bound.len() {
        0 => Some(0),
        // Longer bounds are a key with something behind it, and above that key.
        len if len > K::BYTES => word_of::<K>(bound).checked_add(1),
        _ => Some(word_of::<K>(bound)),
    }
}

fn bytes_of<K: WordKey>(word: &[u8; 8]) -> &[u8] {
    &word[8 - K::BYTES..]
}

impl<K: WordKey> RbWords<K> {
    fn tree<T: Transact>(self, tx: &mut T) -> Result<RbTree, Abort> {
        RbTree::open(tx, self.root)
    }

    /// The tree, if its values are as long as this one.
    fn tree_for<T: Transact>(self, tx: &mut T, value: &[u8]) -> Result<RbTree, Abort> {
        let tree = self.tree(tx)?;
        match tree.value_bytes() == value.len() as u64 {
            true => Ok(tree),
            false => Err(damaged(self.root, "a red-black tree of values of another size")),
        }
    }
}

impl<K: WordKey> Dictionary for RbWords<K> {
    #[inline]
    fn find<T: Transact>(self, tx: &mut T, key: &[u8]) -> Result<Option<ByteRange>, Abort> {
        self.tree(tx)?.find(tx, word_of::<K>(key))
    }

    fn insert<T: Transact>(self, tx: &mut T, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        self.tree_for(tx, value)?.insert(tx, word_of::<K>(key), value)
    }

    fn add<T: Transact>(self, tx: &mut T, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        self.tree_for(tx, value)?.add(tx, word_of::<K>(key), value)
    }

    fn remove<T: Transact>(self, tx: &mut T, key: &[u8]) -> Result<bool, Abort> {
        self.tree(tx)?.remove(tx, word_of::<K>(key))
    }

    fn for_each<T: Transact>(
        self,
        tx: &mut T,
        visit: impl FnMut(&mut T, &[u8], ByteRange) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        self.scan(tx, &[], u64::MAX, visit)
    }
}

impl<K: WordKey> Structure<K> for RbWords<K> {
    const NAME: &'static str = "red-black map";

    fn make<X: Transact>(tx: &mut X, value_bytes: usize) -> Result<PoolOffset, Abort> {
        RbTree::create(tx, value_bytes as u64).map(RbTree::root)
    }

    fn at(root: PoolOffset) -> Self {
        Self { root, of: PhantomData }
    }

    fn reset<X: Transact>(self, tx: &mut X) -> Result<(), Abort> {
        self.tree(tx)?.reset(tx)
    }

    fn for_each_block<R: ReadRaw>(
        root: PoolOffset,
        read: &mut R,
        block: impl FnMut(PoolOffset, u64),
    ) -> Result<(), Damage> {
        RbTree::walk(root, read, block, |_, _, _| Ok(()))
    }
}

impl<K: WordKey> Ordered for RbWords<K> {
    fn scan<X: Transact>(
        self,
        tx: &mut X,
        from: &[u8],
        limit: u64,
        mut visit: impl FnMut(&mut X, &[u8], ByteRange) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let tree = self.tree(tx)?;
        let Some(from) = word_from::<K>(from) else { return Ok(()) };
        tree.scan(tx, from, limit, |tx, key, value| {
            visit(tx, bytes_of::<K>(&key.to_be_bytes()), value)
        })
    }

    fn before<X: Transact>(
        self,
        tx: &mut X,
        bound: Option<&[u8]>,
    ) -> Result<Option<(Vec<u8>, ByteRange)>, Abort> {
        let bound = bound.and_then(word_from::<K>);
        let found = self.tree(tx)?.before(tx, bound)?;
        Ok(found.map(|(key, value)| (bytes_of::<K>(&key.to_be_bytes()).to_vec(), value)))
    }
}
