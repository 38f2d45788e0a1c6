//! Following a B-tree through raw memory, of which no byte is trusted.
//!
//! A node is reached once at the most: its keys would have to lie between those of two places.

use outlast::collections::{Damage, ReadRaw};
use outlast::{ByteRange, PoolOffset};

use super::{
    CHILDREN_AT, ClrsTree, KEYS_AT, KEYS_MAX, KEYS_MIN, MAGIC, Node, TOP_AT, VALUE_BYTES_AT,
};
use crate::audit::damage;

/// Keys between which those of a node have to lie; nothing where there is none.
type Bounds = (Option<u64>, Option<u64>);

impl ClrsTree {
    /// Calls `block` with every block as `(offset, bytes asked of the allocator)` and `entry` with
    /// every key and the place of its value; false where there is no header of such a tree.
    pub(crate) fn walk<R: ReadRaw>(
        root: PoolOffset,
        read: &mut R,
        block: impl FnMut(PoolOffset, u64),
        entry: impl FnMut(&mut R, u64, ByteRange) -> Result<(), Damage>,
    ) -> Result<bool, Damage> {
        if word(read, root)? != MAGIC {
            return Ok(false);
        }
        let value_bytes = word(read, root.plus(VALUE_BYTES_AT))?;
        if value_bytes > super::VALUE_BYTES_MAX {
            return Err(damage(root, "a B-tree's header out of range"));
        }
        let top = PoolOffset(word(read, root.plus(TOP_AT))?);
        let mut walk = Walk { tree: Self { root, value_bytes }, read, block, entry };
        (walk.block)(root, super::HEADER_BYTES);
        let node = walk.node(top)?;
        if node.keys == 0 && !node.is_leaf() {
            return Err(damage(top, "a top node without keys (invariant 2)"));
        }
        walk.below(node, (None, None))?;
        Ok(true)
    }
}

struct Walk<'w, R, B, E> {
    tree: ClrsTree,
    read: &'w mut R,
    block: B,
    entry: E,
}

impl<R, B, E> Walk<'_, R, B, E>
where
    R: ReadRaw,
    B: FnMut(PoolOffset, u64),
    E: FnMut(&mut R, u64, ByteRange) -> Result<(), Damage>,
{
    fn node(&mut self, at: PoolOffset) -> Result<Node, Damage> {
        let node = Node::decode(at, word(self.read, at)?);
        node.ok_or(damage(at, "no node of a B-tree (invariant 2)"))
    }

    fn below(&mut self, node: Node, (low, high): Bounds) -> Result<(), Damage> {
        let at = node.at;
        let mut keys = [0; KEYS_MAX as usize];
        for (key, number) in keys.iter_mut().zip(0..node.keys) {
            *key = word(self.read, at.plus(KEYS_AT + 8 * number))?;
        }
        let keys = &keys[..node.keys as usize];
        let ascend = keys.is_sorted_by(|a, b| a < b)
            && keys.first().is_none_or(|first| low.is_none_or(|low| low < *first))
            && keys.last().is_none_or(|last| high.is_none_or(|high| *last < high));
        if !ascend {
            return Err(damage(at, "keys out of order in a B-tree (invariant 1)"));
        }
        (self.block)(at, self.tree.node_bytes(node.height));
        for number in 0..=keys.len() {
            let key = keys.get(number).copied();
            if !node.is_leaf() {
                let low = number.checked_sub(1).map_or(low, |before| Some(keys[before]));
                let child = word(self.read, at.plus(CHILDREN_AT + 8 * number as u64))?;
                let child = self.node(PoolOffset(child))?;
                if child.keys < KEYS_MIN {
                    return Err(damage(child.at, "too few keys in a node (invariant 2)"));
                }
                if child.height + 1 != node.height {
                    return Err(damage(child.at, "a child of another height (invariant 3)"));
                }
                self.below(child, (low, key.or(high)))?;
            }
            if let Some(key) = key {
                let place = self.tree.value(&node, number as u64);
                (self.entry)(self.read, key, place)?;
            }
        }
        Ok(())
    }
}

fn word<R: ReadRaw>(read: &mut R, at: PoolOffset) -> Result<u64, Damage> {
    let mut bytes = [0; 8];
    let is_inside = at.0.is_multiple_of(8) && read.read(at, &mut bytes);
    is_inside.then(|| u64::from_le_bytes(bytes)).ok_or(damage(at, "a pointer out of the pool"))
}
