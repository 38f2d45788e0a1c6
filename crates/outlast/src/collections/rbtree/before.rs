//! Backwards through a tree, and from the beginning again.

use super::super::damaged;
use super::super::layout::RB_ROOT_AT;
use super::{Node, RB_HEIGHT_MAX, RbTree, Side};
use crate::{Abort, ByteRange, PoolOffset, Transact};

impl RbTree {
    /// The greatest key below `bound`, or of all without one, and the place of its value.
    pub(crate) fn before<T: Transact>(
        self,
        tx: &mut T,
        bound: Option<u64>,
    ) -> Result<Option<(u64, ByteRange)>, Abort> {
        let mut at = PoolOffset(tx.load_u64(self.root.plus(RB_ROOT_AT as u64))?);
        let mut found = None;
        for _ in 0..=RB_HEIGHT_MAX {
            if at.0 == 0 {
                return Ok(found);
            }
            let node = Node::load(tx, at)?;
            let is_below = bound.is_none_or(|bound| node.key < bound);
            if is_below {
                found = Some((node.key, self.value(at)));
            }
            at = node.child(if is_below { Side::Right } else { Side::Left });
        }
        Err(damaged(self.root, "a red-black tree that is too high"))
    }

    /// Makes the tree empty. Its header stays; all its nodes are freed already.
    pub(crate) fn reset<T: Transact>(self, tx: &mut T) -> Result<(), Abort> {
        tx.store_u64(self.root.plus(RB_ROOT_AT as u64), 0)
    }
}
