//! An ordered map on a B+tree.

use super::Key;
use super::map::{PMap, Structure, placement};
use super::ordered::Ordered;
use crate::collections::{ByteTree, Damage, ReadRaw};
use crate::{Abort, ByteRange, PoolOffset, Transact};

/// A persistent ordered map, with the interface of a [`BTreeMap`](std::collections::BTreeMap) that hands
/// out copies in place of references: a [`ByteTree`] whose keys are `K`s and whose values are `V`s.
///
/// Keys are given by reference and copied. `K` may be `str` or `[u8]`; [`Key`] has the others. With `()` for `V` it is
/// a set.
///
/// Its methods are [`PMap`]'s, which also says where keys and values lie.
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
pub type PBTreeMap<'id, K, V> = PMap<'id, ByteTree, K, V>;

impl<K: Key + ?Sized> Structure<K> for ByteTree {
    const NAME: &'static str = "ordered map";

    fn make<X: Transact>(tx: &mut X, value_bytes: usize) -> Result<PoolOffset, Abort> {
        Self::create(tx, placement::<K>(value_bytes)).map(Self::root)
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

impl Ordered for ByteTree {
    fn scan<X: Transact>(
        self,
        tx: &mut X,
        from: &[u8],
        limit: u64,
        visit: impl FnMut(&mut X, &[u8], ByteRange) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        self.scan(tx, from, limit, visit)
    }

    fn before<X: Transact>(
        self,
        tx: &mut X,
        bound: Option<&[u8]>,
    ) -> Result<Option<(Vec<u8>, ByteRange)>, Abort> {
        self.before(tx, bound)
    }
}
