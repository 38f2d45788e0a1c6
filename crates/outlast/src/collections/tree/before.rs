//! Backwards through a tree, and from the beginning again.

use super::super::damaged;
use super::super::layout::*;
use super::node::{Form, Inner, Leaf, SearchKey};
use super::{ByteTree, Header, Path, lower_bound, open_item};
use crate::{Abort, BlockKind, ByteRange, PoolOffset, Transact};

impl ByteTree {
    /// The tree whose header is at `root`, which is looked at when it is first used.
    pub(crate) fn at(root: PoolOffset) -> Self {
        Self { root }
    }

    /// The greatest key below `bound`, or of all without one, and the place of its value.
    pub(crate) fn before<T: Transact>(
        self,
        tx: &mut T,
        bound: Option<&[u8]>,
    ) -> Result<Option<(Vec<u8>, ByteRange)>, Abort> {
        let header = self.header(tx)?;
        let Some(bound) = bound else {
            let (at, leaf) = last_leaf(tx, &header, header.node, header.height)?;
            let keys = leaf.order().len();
            return pair_before(tx, &header, (at, &leaf), keys);
        };
        let search = SearchKey::new(bound);
        let mut path = Path::default();
        let at = self.descend(tx, &header, &search, &mut path)?;
        let leaf = Leaf::load(tx, at, Form::of(header.kept))?;
        let position = lower_bound(tx, &header, &leaf, &search)?;
        if position > 0 {
            return pair_before(tx, &header, (at, &leaf), position);
        }
        // All keys of this leaf are too great: the last leaf to the left of the way has it.
        let turn = path.steps().iter().rposition(|step| step.index > 0);
        let Some(level) = turn else { return Ok(None) };
        let step = path.steps()[level];
        let left = step.node.plus((INNER_CHILDREN_AT + 8 * (step.index - 1)) as u64);
        let left = PoolOffset(tx.load_u64(left)?);
        let (at, leaf) = last_leaf(tx, &header, left, header.height - level - 1)?;
        let keys = leaf.order().len();
        pair_before(tx, &header, (at, &leaf), keys)
    }

    /// Makes the tree empty. Its header stays; all its other blocks are freed already.
    pub(crate) fn reset<T: Transact>(self, tx: &mut T) -> Result<(), Abort> {
        let leaf = tx.alloc(LEAF_BYTES as u64, BlockKind::General)?;
        let form = Form::of(self.header(tx)?.kept);
        tx.store(leaf, Leaf::new(form).bytes())?;
        tx.store_u64(self.root.plus(TREE_ROOT_AT as u64), leaf.0)
    }
}

/// The last leaf below the node at `at`, which stands so high.
fn last_leaf<T: Transact>(
    tx: &mut T,
    header: &Header,
    at: PoolOffset,
    height: usize,
) -> Result<(PoolOffset, Leaf), Abort> {
    let mut at = at;
    for _ in 0..height {
        let node = Inner::load(tx, at)?;
        let last = node.children.last();
        at = PoolOffset(*last.ok_or_else(|| damaged(at, "a node without children"))?);
    }
    Ok((at, Leaf::load(tx, at, Form::of(header.kept))?))
}

/// The key before `position` in the leaf's order.
fn pair_before<T: Transact>(
    tx: &mut T,
    header: &Header,
    leaf: (PoolOffset, &Leaf),
    position: usize,
) -> Result<Option<(Vec<u8>, ByteRange)>, Abort> {
    let Some(position) = position.checked_sub(1) else { return Ok(None) };
    let mut key = Vec::new();
    let (_, value) = open_item(tx, header, leaf, position, &mut key)?;
    Ok(Some((key, value)))
}
