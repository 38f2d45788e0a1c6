//! Removal: a node that is entered has a key to spare, borrowed or got by merging, so that a key can
//! go without a way back.

use outlast::{Abort, Transact};

use super::edit::Edit;
use super::{ClrsTree, DEGREE, Node, damaged};

impl ClrsTree {
    /// Removes a key that is there.
    pub(super) fn remove_present<T: Transact>(
        self,
        edit: &mut Edit,
        tx: &mut T,
        mut key: u64,
    ) -> Result<(), Abort> {
        let mut node = self.top(edit, tx)?;
        loop {
            let (number, is_here) = self.position(edit, tx, &node, key)?;
            if node.is_leaf() {
                if !is_here {
                    return Err(damaged(node.at, "a key out of place in a B-tree"));
                }
                return self.close_gap(edit, tx, &mut node, number);
            }
            node = if is_here {
                let (child, instead) = self.replace_inner(edit, tx, &mut node, number)?;
                key = instead.unwrap_or(key);
                child
            } else {
                self.with_a_key_to_spare(edit, tx, &mut node, number)?
            };
        }
    }

    /// The key of an inner node gives way to its neighbour in the order of keys, which is then the
    /// one to remove; if neither child can spare one, both become one that has the key. Returns the
    /// child to go on with, and the key to remove there if it is another.
    fn replace_inner<T: Transact>(
        self,
        edit: &mut Edit,
        tx: &mut T,
        node: &mut Node,
        number: u64,
    ) -> Result<(Node, Option<u64>), Abort> {
        for side in 0..2 {
            let child = self.child(edit, tx, node, number + side)?;
            if child.keys >= DEGREE {
                let mut leaf = child;
                while !leaf.is_leaf() {
                    let inner = if side == 0 { leaf.keys } else { 0 };
                    leaf = self.child(edit, tx, &leaf, inner)?;
                }
                let nearest = if side == 0 { leaf.keys - 1 } else { 0 };
                self.copy_items(edit, tx, (&leaf, nearest), (node, number), 1)?;
                return Ok((child, Some(edit.word(tx, node.key(number))?)));
            }
        }
        Ok((self.merge(edit, tx, node, number)?, None))
    }

    /// The child of that number, with more keys than it has to have.
    fn with_a_key_to_spare<T: Transact>(
        self,
        edit: &mut Edit,
        tx: &mut T,
        node: &mut Node,
        number: u64,
    ) -> Result<Node, Abort> {
        let mut child = self.child(edit, tx, node, number)?;
        if child.keys >= DEGREE {
            return Ok(child);
        }
        if number > 0 {
            let left = self.child(edit, tx, node, number - 1)?;
            if left.keys >= DEGREE {
                self.borrow_from_left(edit, tx, (node, number - 1), left, &mut child)?;
                return Ok(child);
            }
        }
        if number < node.keys {
            let right = self.child(edit, tx, node, number + 1)?;
            if right.keys >= DEGREE {
                self.borrow_from_right(edit, tx, (node, number), right, &mut child)?;
                return Ok(child);
            }
        }
        self.merge(edit, tx, node, number.min(node.keys - 1))
    }

    /// The key between moves down to the child, the left one's last up.
    fn borrow_from_left<T: Transact>(
        self,
        edit: &mut Edit,
        tx: &mut T,
        (node, between): (&Node, u64),
        mut left: Node,
        child: &mut Node,
    ) -> Result<(), Abort> {
        let (of, last) = (*child, left.keys - 1);
        self.copy_items(edit, tx, (&of, 0), (&of, 1), of.keys)?;
        self.copy_children(edit, tx, (&of, 0), (&of, 1), of.keys + 1)?;
        self.copy_items(edit, tx, (node, between), (&of, 0), 1)?;
        self.copy_items(edit, tx, (&left, last), (node, between), 1)?;
        self.copy_children(edit, tx, (&left, left.keys), (&of, 0), 1)?;
        self.resize(edit, tx, &mut left, last)?;
        self.resize(edit, tx, child, of.keys + 1)
    }

    /// The key between moves down to the child, the right one's first up.
    fn borrow_from_right<T: Transact>(
        self,
        edit: &mut Edit,
        tx: &mut T,
        (node, between): (&Node, u64),
        mut right: Node,
        child: &mut Node,
    ) -> Result<(), Abort> {
        let (of, from) = (*child, right);
        self.copy_items(edit, tx, (node, between), (&of, of.keys), 1)?;
        self.copy_children(edit, tx, (&from, 0), (&of, of.keys + 1), 1)?;
        self.copy_items(edit, tx, (&from, 0), (node, between), 1)?;
        self.copy_items(edit, tx, (&from, 1), (&from, 0), from.keys - 1)?;
        self.copy_children(edit, tx, (&from, 1), (&from, 0), from.keys)?;
        self.resize(edit, tx, &mut right, from.keys - 1)?;
        self.resize(edit, tx, child, of.keys + 1)
    }

    /// Two sparse children and the key between them become one, which is full. A top node that
    /// loses its last key so goes.
    fn merge<T: Transact>(
        self,
        edit: &mut Edit,
        tx: &mut T,
        node: &mut Node,
        between: u64,
    ) -> Result<Node, Abort> {
        let mut left = self.child(edit, tx, node, between)?;
        let right = self.child(edit, tx, node, between + 1)?;
        let of = left;
        self.copy_items(edit, tx, (node, between), (&of, of.keys), 1)?;
        self.copy_items(edit, tx, (&right, 0), (&of, of.keys + 1), right.keys)?;
        self.copy_children(edit, tx, (&right, 0), (&of, of.keys + 1), right.keys + 1)?;
        self.resize(edit, tx, &mut left, of.keys + 1 + right.keys)?;
        self.close_gap(edit, tx, node, between)?;
        self.free(edit, tx, right)?;
        if node.keys == 0 {
            self.set_top(edit, tx, left)?;
            self.free(edit, tx, *node)?;
        }
        Ok(left)
    }

    /// Drops a key with the child behind it.
    fn close_gap<T: Transact>(
        self,
        edit: &mut Edit,
        tx: &mut T,
        node: &mut Node,
        number: u64,
    ) -> Result<(), Abort> {
        let (of, behind) = (*node, node.keys - number - 1);
        self.copy_items(edit, tx, (&of, number + 1), (&of, number), behind)?;
        self.copy_children(edit, tx, (&of, number + 2), (&of, number + 1), behind)?;
        self.resize(edit, tx, node, of.keys - 1)
    }
}
