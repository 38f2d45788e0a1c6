//! Insertion.

use super::super::damaged;
use super::super::layout::*;
use super::RbTree;
use super::edit::{Edit, Side};
use crate::{Abort, BlockKind, PoolOffset, Transact};

/// The part of a fresh node that is stored at once.
const SMALL_BYTES: usize = 64;

impl RbTree {
    /// Puts a new node below `parent` (0: at the root).
    pub(super) fn insert_below<T: Transact>(
        self,
        tx: &mut T,
        parent: PoolOffset,
        side: Side,
        key: u64,
        value: &[u8],
    ) -> Result<(), Abort> {
        let node = tx.alloc(self.node_bytes(), BlockKind::General)?;
        let mut edit = Edit::new(tx, self);
        edit.set_fresh(node, parent);
        edit.link(parent, side, node)?;
        self.redden(&mut edit, node)?;

        let links = edit.fresh_links();
        let mut image = [0; SMALL_BYTES];
        for (at, link) in [RB_LEFT_AT, RB_RIGHT_AT, RB_PARENT_AT].into_iter().zip(links) {
            set_word(&mut image, at, link);
        }
        set_word(&mut image, RB_KEY_AT, key);
        let joins = value.len() <= SMALL_BYTES - RB_VALUE_AT;
        let end = RB_VALUE_AT + if joins { value.len() } else { 0 };
        image[RB_VALUE_AT..end].copy_from_slice(&value[..end - RB_VALUE_AT]);
        edit.tx.store(node, &image[..end])?;
        if !joins {
            edit.tx.store(self.value(node).at, value)?;
        }
        edit.apply(None).map(drop)
    }

    /// Restores invariant 3 where `node` is red and its parent may be.
    fn redden<T: Transact>(
        self,
        edit: &mut Edit<'_, T>,
        mut node: PoolOffset,
    ) -> Result<(), Abort> {
        for _ in 0..=RB_HEIGHT_MAX {
            let mut parent = edit.parent(node)?;
            if parent.0 == 0 {
                return edit.set_red(node, false);
            }
            if !edit.is_red(parent)? {
                return Ok(());
            }
            let above = edit.parent(parent)?;
            let side = edit.side(above, parent)?;
            let uncle = edit.child(above, side.other())?;
            if edit.is_red(uncle)? {
                edit.set_red(parent, false)?;
                edit.set_red(uncle, false)?;
                edit.set_red(above, true)?;
                node = above;
                continue;
            }
            if edit.side(parent, node)? != side {
                edit.rotate(parent, side)?;
                parent = node;
            }
            edit.set_red(parent, false)?;
            edit.set_red(above, true)?;
            return edit.rotate(above, side.other());
        }
        Err(damaged(self.root, "a red-black tree that is too high"))
    }
}
