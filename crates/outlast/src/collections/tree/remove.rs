//! Removal, and merging what is nearly empty.

use super::super::layout::*;
use super::super::plan::Plan;
use super::node::{Form, Inner, Item, Leaf};
use super::{ByteTree, Header, Path, damaged};
use crate::{Abort, ByteRange, PoolOffset, Transact};

/// A leaf with fewer keys is sparse.
const LEAF_SPARSE: usize = 4;
/// Two leaves that have no more keys than this together become one.
const LEAF_MERGED_MAX: usize = 10;
/// An inner node with fewer children looks for a neighbour to merge with.
const INNER_SPARSE: usize = 8;
/// Two inner nodes that have no more children than this together become one.
const INNER_MERGED_MAX: usize = 22;

/// Whether a leaf of `keys` keys looks for a neighbour to merge with.
pub(super) fn is_sparse(keys: usize) -> bool {
    keys < LEAF_SPARSE
}

impl ByteTree {
    /// Takes the key in `slot` out of its leaf. Its entry is already freed.
    pub(super) fn remove_from_leaf<T: Transact>(
        self,
        tx: &mut T,
        header: &Header,
        (at, leaf): (PoolOffset, &Leaf),
        path: &Path,
        slot: usize,
    ) -> Result<(), Abort> {
        let mut order = leaf.order();
        let position = order
            .slots()
            .position(|s| s == slot)
            .ok_or_else(|| damaged(at, "a leaf that changed on the way"))?;
        order.remove(position);
        if is_sparse(order.len())
            && path.len > 0
            && self.merge_leaf(tx, header, (at, leaf), path, position)?
        {
            return Ok(());
        }
        tx.will_write(&[ByteRange::new(at, 8)])?;
        tx.store_u64(at, order.0)
    }

    /// Merges the leaf, without the key at `position`, with a neighbour under the same parent;
    /// `false` when together they have too many keys.
    fn merge_leaf<T: Transact>(
        self,
        tx: &mut T,
        header: &Header,
        (at, leaf): (PoolOffset, &Leaf),
        path: &Path,
        position: usize,
    ) -> Result<bool, Abort> {
        let step = path.steps()[path.len - 1];
        let parent = Inner::load(tx, step.node)?;
        let Neighbour { at: other_at, left: left_index } = neighbour(&parent, step.index)
            .ok_or_else(|| damaged(step.node, "a node without neighbours"))?;
        let other = Leaf::load(tx, other_at, Form::of(header.kept))?;
        let kept = leaf.order().len() - 1;
        if kept > 0 && kept + other.order().len() > LEAF_MERGED_MAX {
            return Ok(false);
        }
        let mut own = leaf.clone();
        let mut order = own.order();
        order.remove(position);
        own.set_order(order);
        let (left_at, old, mut left, right_at, right) = if left_index == step.index {
            (at, leaf, own, other_at, &other)
        } else {
            (other_at, &other, other.clone(), at, &own)
        };
        left.extend(right.items());
        left.set_next(right.next());
        tx.free(right_at)?;
        let mut plan = Plan::default();
        plan.store_changes(left_at, old.bytes(), left.bytes());
        let separator = parent.separators[left_index].1;
        if !separator.is_empty() {
            tx.free(separator.at())?;
        }
        self.remove_child(tx, header, &mut plan, path, left_index)?;
        plan.apply(tx)?;
        Ok(true)
    }

    /// Takes a separator, and the child behind it, out of the last node of the path, and goes on
    /// upwards where that leaves too few children.
    fn remove_child<T: Transact>(
        self,
        tx: &mut T,
        header: &Header,
        plan: &mut Plan,
        path: &Path,
        mut separator: usize,
    ) -> Result<(), Abort> {
        for (level, step) in path.steps().iter().enumerate().rev() {
            let mut node = Inner::load(tx, step.node)?;
            node.separators.remove(separator);
            node.children.remove(separator + 1);
            if level == 0 {
                self.store_root(tx, header, plan, step.node, &node)?;
                return Ok(());
            }
            let above = path.steps()[level - 1];
            if node.children.len() >= INNER_SPARSE {
                plan.store_changes(step.node, node.old_image(), &node.new_image());
                return Ok(());
            }
            let mut parent = Inner::load(tx, above.node)?;
            let Neighbour { at: other_at, left: left_index } = neighbour(&parent, above.index)
                .ok_or_else(|| damaged(above.node, "a node without neighbours"))?;
            let other = Inner::load(tx, other_at)?;
            let total = node.children.len() + other.children.len();
            if total > INNER_MERGED_MAX && node.children.len() >= 2 {
                plan.store_changes(step.node, node.old_image(), &node.new_image());
                return Ok(());
            }
            let (left_at, mut left, right_at, mut right) = if left_index == above.index {
                (step.node, node, other_at, other)
            } else {
                (other_at, other, step.node, node)
            };
            let between = &mut parent.separators[left_index];
            if total > INNER_MERGED_MAX {
                balance(&mut left, between, &mut right);
                plan.store_changes(left_at, left.old_image(), &left.new_image());
                plan.store_changes(right_at, right.old_image(), &right.new_image());
                plan.store_changes(above.node, parent.old_image(), &parent.new_image());
                return Ok(());
            }
            left.separators.push(*between);
            left.separators.append(&mut right.separators);
            left.children.append(&mut right.children);
            plan.store_changes(left_at, left.old_image(), &left.new_image());
            tx.free(right_at)?;
            separator = left_index;
        }
        Ok(())
    }

    /// Stores the root node, or makes its only child the root.
    fn store_root<T: Transact>(
        self,
        tx: &mut T,
        header: &Header,
        plan: &mut Plan,
        at: PoolOffset,
        node: &Inner,
    ) -> Result<(), Abort> {
        if !node.separators.is_empty() {
            plan.store_changes(at, node.old_image(), &node.new_image());
            return Ok(());
        }
        tx.free(at)?;
        let root = PoolOffset(node.children[0]);
        let word_at = self.root.plus(TREE_ROOT_AT as u64);
        plan.store(word_at, &Header::root_word(root, header.height - 1));
        Ok(())
    }
}

/// A child next to another.
struct Neighbour {
    at: PoolOffset,
    /// The index of the left one of the two, which is also that of the separator between them.
    left: usize,
}

/// The right neighbour of a child, or the left one of the last.
fn neighbour(parent: &Inner, index: usize) -> Option<Neighbour> {
    let last = parent.children.len() - 1;
    let (other, left) = match index {
        _ if index > last => return None,
        _ if index < last => (index + 1, index),
        _ => (index - 1, index - 1),
    };
    Some(Neighbour { at: PoolOffset(parent.children[other]), left })
}

/// Shares the children of two neighbours out evenly.
fn balance(left: &mut Inner, between: &mut Item, right: &mut Inner) {
    let mut separators = std::mem::take(&mut left.separators);
    separators.push(*between);
    separators.append(&mut right.separators);
    let mut children = std::mem::take(&mut left.children);
    children.append(&mut right.children);
    let half = children.len() / 2;
    right.children = children.split_off(half);
    right.separators = separators.split_off(half);
    *between = separators.pop().expect("there is one separator fewer than children");
    left.separators = separators;
    left.children = children;
}
