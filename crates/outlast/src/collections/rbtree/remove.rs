//! Removal.

use super::super::damaged;
use super::super::layout::*;
use super::edit::{Edit, Moved, Side};
use super::{Node, RbTree};
use crate::{Abort, ByteRange, PoolOffset, Transact};

impl RbTree {
    /// Takes `node`, which holds what `found` says, out of the tree.
    pub(super) fn remove_node<T: Transact>(
        self,
        tx: &mut T,
        node: PoolOffset,
        found: &Node,
    ) -> Result<(), Abort> {
        let [left, right] = found.children;
        if left.0 == 0 || right.0 == 0 {
            tx.free(node)?;
            let mut edit = Edit::new(tx, self);
            self.unlink(&mut edit, node)?;
            return edit.apply(None).map(drop);
        }
        // The successor has no left child. Its key and value move up, and it goes instead.
        let mut next = right;
        for _ in 0..=RB_HEIGHT_MAX {
            match Node::load(tx, next)?.child(Side::Left) {
                PoolOffset(0) => break,
                left => next = left,
            }
        }
        let moved = Moved::load(tx, self, next)?;
        tx.free(next)?;
        let mut edit = Edit::new(tx, self);
        self.unlink(&mut edit, next)?;
        let at = node.plus(RB_KEY_AT as u64);
        let tx = edit.apply(Some(ByteRange::new(at, moved.bytes().len() as u64)))?;
        tx.store(at, moved.bytes())
    }

    /// Takes out a node with one child at most.
    fn unlink<T: Transact>(self, edit: &mut Edit<'_, T>, node: PoolOffset) -> Result<(), Abort> {
        let child = match edit.child(node, Side::Left)? {
            PoolOffset(0) => edit.child(node, Side::Right)?,
            left => left,
        };
        let parent = edit.parent(node)?;
        let side = if parent.0 == 0 { Side::Left } else { edit.side(parent, node)? };
        let was_red = edit.is_red(node)?;
        edit.link(parent, side, child)?;
        if was_red { Ok(()) } else { self.blacken(edit, child, parent, side) }
    }

    /// Restores invariant 4 where the ways through `node`, which may be missing and is or would
    /// be a child of `parent` on `side`, pass one black node less than others.
    fn blacken<T: Transact>(
        self,
        edit: &mut Edit<'_, T>,
        mut node: PoolOffset,
        mut parent: PoolOffset,
        mut side: Side,
    ) -> Result<(), Abort> {
        for _ in 0..=RB_HEIGHT_MAX {
            if edit.is_red(node)? {
                return edit.set_red(node, false);
            }
            if parent.0 == 0 {
                return Ok(());
            }
            let mut sibling = edit.child(parent, side.other())?;
            if edit.is_red(sibling)? {
                edit.set_red(sibling, false)?;
                edit.set_red(parent, true)?;
                edit.rotate(parent, side)?;
                sibling = edit.child(parent, side.other())?;
            }
            let near = edit.child(sibling, side)?;
            let mut far = edit.child(sibling, side.other())?;
            if !edit.is_red(near)? && !edit.is_red(far)? {
                edit.set_red(sibling, true)?;
                (node, parent) = (parent, edit.parent(parent)?);
                if parent.0 != 0 {
                    side = edit.side(parent, node)?;
                }
                continue;
            }
            if !edit.is_red(far)? {
                edit.set_red(near, false)?;
                edit.set_red(sibling, true)?;
                edit.rotate(sibling, side.other())?;
                (sibling, far) = (near, sibling);
            }
            let red = edit.is_red(parent)?;
            edit.set_red(sibling, red)?;
            edit.set_red(parent, false)?;
            edit.set_red(far, false)?;
            return edit.rotate(parent, side);
        }
        Err(damaged(self.root, "a red-black tree that is too high"))
    }
}
