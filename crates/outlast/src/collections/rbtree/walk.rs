//! Following a red-black tree through raw memory.

use super::super::layout::*;
use super::super::raw::{Damage, ReadRaw, Walk};
use super::{Node, RbTree, Side};
use crate::{ByteRange, PoolOffset};

impl RbTree {
    /// Follows the tree through raw memory; keys are told with their highest byte first. See
    /// [`walk_root`](super::super::walk_root).
    ///
    /// # Errors
    /// The first damage, or what `entry` reports.
    pub fn walk<R: ReadRaw>(
        root: PoolOffset,
        read: &mut R,
        block: impl FnMut(PoolOffset, u64),
        entry: impl FnMut(&mut R, &[u8], ByteRange) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        let mut walk = Walk::new(read, block, entry);
        let header = walk.claim_header(root, RB_MAGIC, |_| Some(0))?;
        let tree = Self::decode(root, &header)
            .ok_or(Damage::new(root, "a red-black tree's header out of range"))?;
        let mut walk = TreeWalk { walk: &mut walk, tree, last_key: None };
        let top = PoolOffset(word(&header, RB_ROOT_AT));
        walk.node(top, PoolOffset(0), true, RB_HEIGHT_MAX).map(drop)
    }
}

struct TreeWalk<'t, 'w, R, B, E> {
    walk: &'t mut Walk<'w, R, B, E>,
    tree: RbTree,
    last_key: Option<u64>,
}

impl<R, B, E> TreeWalk<'_, '_, R, B, E>
where
    R: ReadRaw,
    B: FnMut(PoolOffset, u64),
    E: FnMut(&mut R, &[u8], ByteRange) -> Result<(), Damage>,
{
    /// Visits what is below `at`; how many black nodes every way down passes.
    fn node(
        &mut self,
        at: PoolOffset,
        parent: PoolOffset,
        parent_is_red: bool,
        levels: usize,
    ) -> Result<usize, Damage> {
        if at.0 == 0 {
            return Ok(0);
        }
        if levels == 0 {
            return Err(Damage::new(at, "a red-black tree that is too high (invariant 4)"));
        }
        self.walk.claim(at, self.tree.node_bytes())?;
        let mut head = [0; RB_VALUE_AT];
        self.walk.load(at, &mut head)?;
        let node = Node::decode(&head);
        let is_red = word(&head, RB_PARENT_AT) & RB_RED != 0;
        if node.parent != parent {
            return Err(Damage::new(at, "a node that names another parent (invariant 2)"));
        }
        if is_red && parent_is_red {
            return Err(Damage::new(at, "a red node that must be black (invariant 3)"));
        }
        let left = self.node(node.child(Side::Left), at, is_red, levels - 1)?;
        if self.last_key.is_some_and(|last| last >= node.key) {
            return Err(Damage::new(at, "keys out of order (invariant 1)"));
        }
        self.last_key = Some(node.key);
        self.walk.visit(&node.key.to_be_bytes(), self.tree.value(at))?;
        let right = self.node(node.child(Side::Right), at, is_red, levels - 1)?;
        if left != right {
            return Err(Damage::new(at, "ways with more and with fewer black nodes (invariant 4)"));
        }
        Ok(left + usize::from(!is_red))
    }
}
