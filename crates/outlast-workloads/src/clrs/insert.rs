//! Insertion: full nodes are split on the way down, so that a split always finds room above it.

use outlast::{Abort, Transact};

use super::edit::Edit;
use super::{ClrsTree, DEGREE, KEYS_MAX, KEYS_MIN, Node};

impl ClrsTree {
    /// Adds a key that is not there.
    pub(super) fn insert_absent<T: Transact>(
        self,
        edit: &mut Edit,
        tx: &mut T,
        key: u64,
        value: &[u8],
    ) -> Result<(), Abort> {
        let mut node = self.top(edit, tx)?;
        if node.keys == KEYS_MAX {
            let mut above = self.new_node(edit, tx, node.height + 1)?;
            edit.set(tx, above.child(0), node.at.0)?;
            self.set_top(edit, tx, above)?;
            self.split(edit, tx, &mut above, 0)?;
            node = above;
        }
        while !node.is_leaf() {
            let (mut number, _) = self.position(edit, tx, &node, key)?;
            if self.child(edit, tx, &node, number)?.keys == KEYS_MAX {
                self.split(edit, tx, &mut node, number)?;
                number += u64::from(edit.word(tx, node.key(number))? < key);
            }
            node = self.child(edit, tx, &node, number)?;
        }
        let (number, _) = self.position(edit, tx, &node, key)?;
        self.open_gap(edit, tx, &mut node, number)?;
        edit.set(tx, node.key(number), key)?;
        edit.set_bytes(tx, self.value(&node, number).at, value)
    }

    /// Splits a full child of a node that is not full: its middle key moves up.
    fn split<T: Transact>(
        self,
        edit: &mut Edit,
        tx: &mut T,
        node: &mut Node,
        number: u64,
    ) -> Result<(), Abort> {
        let mut left = self.child(edit, tx, node, number)?;
        let mut right = self.new_node(edit, tx, left.height)?;
        self.copy_items(edit, tx, (&left, DEGREE), (&right, 0), KEYS_MIN)?;
        self.copy_children(edit, tx, (&left, DEGREE), (&right, 0), DEGREE)?;
        self.open_gap(edit, tx, node, number)?;
        self.copy_items(edit, tx, (&left, KEYS_MIN), (node, number), 1)?;
        edit.set(tx, node.child(number + 1), right.at.0)?;
        self.resize(edit, tx, &mut left, KEYS_MIN)?;
        self.resize(edit, tx, &mut right, KEYS_MIN)
    }

    /// Makes room for a key with the child behind it.
    fn open_gap<T: Transact>(
        self,
        edit: &mut Edit,
        tx: &mut T,
        node: &mut Node,
        number: u64,
    ) -> Result<(), Abort> {
        let behind = node.keys - number;
        let of = *node;
        self.copy_items(edit, tx, (&of, number), (&of, number + 1), behind)?;
        self.copy_children(edit, tx, (&of, number + 1), (&of, number + 2), behind)?;
        self.resize(edit, tx, node, of.keys + 1)
    }
}
