//! Leaves of pairs of words: searches load their keys and no values.

use super::super::damaged;
use super::super::layout::*;
use super::super::placement::Pairs;
use super::insert::into_leaf;
use super::node::{Form, Leaf, Order, SearchKey};
use super::{ByteTree, Header, Path};
use crate::{Abort, ByteRange, PoolOffset, Transact};

/// The order word and the keys of a leaf, copied out.
struct Keys([u8; LEAF_WORDS_NEXT_AT]);

impl Keys {
    #[inline]
    fn load<T: Transact>(tx: &mut T, at: PoolOffset) -> Result<Self, Abort> {
        let mut keys = Self([0; LEAF_WORDS_NEXT_AT]);
        tx.load(at, &mut keys.0)?;
        if at.0 == 0 || !keys.order().stays_inside() {
            return Err(damaged(at, "no leaf of a tree"));
        }
        Ok(keys)
    }

    #[inline]
    fn order(&self) -> Order {
        Order(word(&self.0, 0))
    }

    /// How many keys are below `key`, and whether the next one is `key`. Each step of the search is
    /// made whether it helps or not: half of the branches would be mispredicted.
    #[inline]
    fn search(&self, key: u64) -> (usize, bool) {
        let order = self.order();
        let len = order.len();
        // The order has no slot 15, so that this word is of the image.
        let key_in_order = |position: usize| word(&self.0, LEAF_KEYS_AT + 8 * order.slot(position));
        let mut below = 0;
        for step in [8, 4, 2, 1] {
            let next = below + step;
            let is_below = key_in_order(next - 1) < key;
            below = if (next <= len) & is_below { next } else { below };
        }
        (below, below < len && key_in_order(below) == key)
    }
}

impl ByteTree {
    /// The leaf where a key of the tree's length belongs.
    #[inline]
    fn descend_to_pair<T: Transact>(
        self,
        tx: &mut T,
        header: &Header,
        key: u64,
    ) -> Result<PoolOffset, Abort> {
        let mut at = header.node;
        for _ in 0..header.height {
            let index = child_index(tx, at, key)?;
            at = PoolOffset(tx.load_u64(at.plus((INNER_CHILDREN_AT + 8 * index) as u64))?);
        }
        Ok(at)
    }

    #[inline]
    pub(super) fn find_pair<T: Transact>(
        self,
        tx: &mut T,
        header: &Header,
        pairs: Pairs,
        search: &SearchKey<'_>,
    ) -> Result<Option<ByteRange>, Abort> {
        if pairs.key(search.bytes).is_none() {
            return Ok(None);
        }
        let at = self.descend_to_pair(tx, header, search.head)?;
        let keys = Keys::load(tx, at)?;
        let (position, is_there) = keys.search(search.head);
        if !is_there {
            return Ok(None);
        }
        let value_at = at.plus(Form::Words.slot_at(keys.order().slot(position)) as u64);
        Ok(Some(ByteRange::new(value_at, pairs.value_bytes.into())))
    }

    #[inline]
    pub(super) fn put_pair<T: Transact>(
        self,
        tx: &mut T,
        header: &Header,
        pairs: Pairs,
        search: &SearchKey<'_>,
        value: &[u8],
        replace: bool,
    ) -> Result<bool, Abort> {
        let key = pairs.key_to_insert(self.root, search.bytes)?;
        let value = pairs.value_to_insert(self.root, value)?;
        let at = self.descend_to_pair(tx, header, key)?;
        let keys = Keys::load(tx, at)?;
        let (position, is_there) = keys.search(key);
        let order = keys.order();
        if is_there {
            if replace {
                let value_at = at.plus(Form::Words.slot_at(order.slot(position)) as u64);
                tx.will_write(&[ByteRange::new(value_at, 8)])?;
                tx.store_u64(value_at, value)?;
            }
            return Ok(true);
        }
        let item = (key, Slot(value));
        if order.len() < LEAF_SLOTS {
            into_leaf(tx, Form::Words, at, order, position, item)?;
        } else {
            let (path, leaf) = self.way_to_pair(tx, header, search, at)?;
            self.split_leaf(tx, header, (at, &leaf), &path, position, item)?;
        }
        Ok(false)
    }

    #[inline]
    pub(super) fn remove_pair<T: Transact>(
        self,
        tx: &mut T,
        header: &Header,
        pairs: Pairs,
        search: &SearchKey<'_>,
    ) -> Result<bool, Abort> {
        if pairs.key(search.bytes).is_none() {
            return Ok(false);
        }
        let at = self.descend_to_pair(tx, header, search.head)?;
        let keys = Keys::load(tx, at)?;
        let (position, is_there) = keys.search(search.head);
        if !is_there {
            return Ok(false);
        }
        let mut order = keys.order();
        if super::remove::is_sparse(order.len() - 1) && header.height > 0 {
            let (path, leaf) = self.way_to_pair(tx, header, search, at)?;
            self.remove_from_leaf(tx, header, (at, &leaf), &path, order.slot(position))?;
            return Ok(true);
        }
        order.remove(position);
        tx.will_write(&[ByteRange::new(at, 8)])?;
        tx.store_u64(at, order.0)?;
        Ok(true)
    }

    /// What splitting and merging need to know: the way to a key's leaf, which is at `at`, and all of it.
    ///
    /// The search by halves that found the leaf and the one by counting that finds the way end in two
    /// leaves only where separators are out of order (invariant 1). A position in one is then none in
    /// the other.
    #[inline(never)]
    fn way_to_pair<T: Transact>(
        self,
        tx: &mut T,
        header: &Header,
        search: &SearchKey<'_>,
        at: PoolOffset,
    ) -> Result<(Path, Leaf), Abort> {
        let mut path = Path::default();
        if self.descend(tx, header, search, &mut path)? != at {
            return Err(damaged(at, "separators out of order in a tree"));
        }
        Ok((path, Leaf::load(tx, at, Form::Words)?))
    }
}

/// Which child of the inner node at `at` leads to a key of the tree's length: how many separators
/// are not above it.
#[inline]
fn child_index<T: Transact>(tx: &mut T, at: PoolOffset, key: u64) -> Result<usize, Abort> {
    let mut image = [0; INNER_CHILDREN_AT];
    tx.load(at, &mut image)?;
    let n = word(&image, 0);
    if at.0 == 0 || n > SEPARATORS_MAX as u64 {
        return Err(damaged(at, "no node of a tree"));
    }
    let mut index = 0;
    for step in [16, 8, 4, 2, 1] {
        let next = index + step;
        let is_not_above = word(&image, INNER_HEADS_AT + 8 * (next - 1)) <= key;
        index = if (next as u64 <= n) & is_not_above { next } else { index };
    }
    Ok(index)
}
