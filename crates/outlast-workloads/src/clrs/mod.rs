//! A B-tree as Cormen, Leiserson, Rivest and Stein have it ("Introduction to Algorithms", chapter
//! 18): keys and values in inner nodes, too, minimum degree 4, one pass from the top down.
//!
//! The library's tree is a B+tree, whose values are in leaves. This one stands for the B-trees of
//! papers. An insertion splits full nodes on its way and a removal fills sparse ones, so neither
//! comes back to a node that it has left. Both first search, since one that changes nothing must
//! not restructure.
//!
//! ```text
//! header   magic | bytes of a value | top node
//! node     keys, height << 8 | 7 keys        the first line
//!          8 children                        the second, of inner nodes
//!          7 values                          from the next line on
//! ```
//!
//! An operation decides on all words that change in volatile memory ([`Edit`]), then announces them
//! in one call and stores them.
//!
//! Invariants, checked by the walk:
//! 1. Keys ascend, and those below a child lie between the keys beside it.
//! 2. A node has 3 to 7 keys, the top one at least 1, or none if it is a leaf.
//! 3. A child is one lower than its node; leaves have height 0.

mod edit;
mod insert;
mod remove;
#[cfg(test)]
mod tests;
mod walk;

use outlast::medium::LINE_BYTES;
use outlast::{Abort, BlockKind, ByteRange, PoolOffset, Transact};

use edit::Edit;

/// Minimum degree: a node other than the top one has at least one key less than this.
const DEGREE: u64 = 4;
const KEYS_MIN: u64 = DEGREE - 1;
const KEYS_MAX: u64 = 2 * DEGREE - 1;
/// More levels than 2^64 keys can have.
const HEIGHT_MAX: u64 = 33;

const MAGIC: u64 = u64::from_le_bytes(*b"CLRSTREE");
const HEADER_BYTES: u64 = LINE_BYTES;
const VALUE_BYTES_AT: u64 = 8;
const TOP_AT: u64 = 16;

const KEYS_AT: u64 = 8;
const CHILDREN_AT: u64 = LINE_BYTES;
const _: () = assert!(KEYS_AT + 8 * KEYS_MAX == LINE_BYTES && 8 * (KEYS_MAX + 1) == LINE_BYTES);

/// The longest value, in bytes.
pub(crate) const VALUE_BYTES_MAX: u64 = 1024;

/// A B-tree from words to values of one length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ClrsTree {
    root: PoolOffset,
    value_bytes: u64,
}

/// A node's first word, and where it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Node {
    at: PoolOffset,
    height: u64,
    keys: u64,
}

impl Node {
    fn decode(at: PoolOffset, head: u64) -> Option<Self> {
        let (keys, height) = (head & 0xff, head >> 8);
        (keys <= KEYS_MAX && height <= HEIGHT_MAX).then_some(Self { at, height, keys })
    }

    fn head(&self) -> u64 {
        self.height << 8 | self.keys
    }

    fn key(&self, number: u64) -> PoolOffset {
        self.at.plus(KEYS_AT + 8 * number)
    }

    fn child(&self, number: u64) -> PoolOffset {
        self.at.plus(CHILDREN_AT + 8 * number)
    }

    fn is_leaf(&self) -> bool {
        self.height == 0
    }

    fn values_at(&self) -> u64 {
        if self.is_leaf() { LINE_BYTES } else { 2 * LINE_BYTES }
    }
}

#[cold]
fn damaged(at: PoolOffset, what: &str) -> Abort {
    Abort::damaged(format!("{what} at {at}"))
}

impl ClrsTree {
    /// An empty tree for values of `value_bytes` bytes.
    ///
    /// # Panics
    /// For more than [`VALUE_BYTES_MAX`], which workloads refuse.
    pub(crate) fn create<T: Transact>(tx: &mut T, value_bytes: u64) -> Result<Self, Abort> {
        assert!(value_bytes <= VALUE_BYTES_MAX, "values of {value_bytes} bytes");
        let root = tx.alloc(HEADER_BYTES, BlockKind::General)?;
        let tree = Self { root, value_bytes };
        let mut edit = Edit::default();
        edit.fresh(root, HEADER_BYTES);
        let top = tree.new_node(&mut edit, tx, 0)?;
        edit.set(tx, root, MAGIC)?;
        edit.set(tx, root.plus(VALUE_BYTES_AT), value_bytes)?;
        tree.set_top(&mut edit, tx, top)?;
        edit.finish(tx)?;
        Ok(tree)
    }

    /// The tree whose header is at `root`; nothing where there is none.
    pub(crate) fn open<T: Transact>(tx: &mut T, root: PoolOffset) -> Result<Option<Self>, Abort> {
        if tx.load_u64(root)? != MAGIC {
            return Ok(None);
        }
        let value_bytes = tx.load_u64(root.plus(VALUE_BYTES_AT))?;
        Ok((value_bytes <= VALUE_BYTES_MAX).then_some(Self { root, value_bytes }))
    }

    /// Where the header is.
    pub(crate) fn root(self) -> PoolOffset {
        self.root
    }

    /// Where the value of `key` lies.
    pub(crate) fn find<T: Transact>(
        self,
        tx: &mut T,
        key: u64,
    ) -> Result<Option<ByteRange>, Abort> {
        self.search(&mut Edit::default(), tx, key)
    }

    /// Sets the value of `key`; whether there was one before.
    pub(crate) fn insert<T: Transact>(
        self,
        tx: &mut T,
        key: u64,
        value: &[u8],
    ) -> Result<bool, Abort> {
        self.put(tx, key, value, true)
    }

    /// Sets the value of `key` unless it has one; whether it was set.
    pub(crate) fn add<T: Transact>(
        self,
        tx: &mut T,
        key: u64,
        value: &[u8],
    ) -> Result<bool, Abort> {
        Ok(!self.put(tx, key, value, false)?)
    }

    fn put<T: Transact>(
        self,
        tx: &mut T,
        key: u64,
        value: &[u8],
        replace: bool,
    ) -> Result<bool, Abort> {
        if value.len() as u64 != self.value_bytes {
            return Err(damaged(self.root, "a B-tree for values of another length"));
        }
        let mut edit = Edit::default();
        let found = self.search(&mut edit, tx, key)?;
        match found {
            Some(place) if replace => edit.set_bytes(tx, place.at, value)?,
            Some(_) => {}
            None => self.insert_absent(&mut edit, tx, key, value)?,
        }
        edit.finish(tx)?;
        Ok(found.is_some())
    }

    /// Removes `key` and its value; whether there was one.
    pub(crate) fn remove<T: Transact>(self, tx: &mut T, key: u64) -> Result<bool, Abort> {
        let mut edit = Edit::default();
        if self.search(&mut edit, tx, key)?.is_none() {
            return Ok(false);
        }
        self.remove_present(&mut edit, tx, key)?;
        edit.finish(tx)?;
        Ok(true)
    }

    /// Calls `visit` with every key and the place of its value, in the order of keys.
    pub(crate) fn for_each<T: Transact>(
        self,
        tx: &mut T,
        mut visit: impl FnMut(&mut T, u64, ByteRange) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let top = self.top(&mut Edit::default(), tx)?;
        self.each_below(tx, top, &mut visit)
    }

    fn each_below<T: Transact>(
        self,
        tx: &mut T,
        node: Node,
        visit: &mut impl FnMut(&mut T, u64, ByteRange) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        for number in 0..=node.keys {
            if !node.is_leaf() {
                let child = self.child(&mut Edit::default(), tx, &node, number)?;
                self.each_below(tx, child, visit)?;
            }
            if number < node.keys {
                let key = tx.load_u64(node.key(number))?;
                visit(tx, key, self.value(&node, number))?;
            }
        }
        Ok(())
    }

    fn search<T: Transact>(
        self,
        edit: &mut Edit,
        tx: &mut T,
        key: u64,
    ) -> Result<Option<ByteRange>, Abort> {
        let mut node = self.top(edit, tx)?;
        loop {
            let (number, is_here) = self.position(edit, tx, &node, key)?;
            if is_here {
                return Ok(Some(self.value(&node, number)));
            }
            if node.is_leaf() {
                return Ok(None);
            }
            node = self.child(edit, tx, &node, number)?;
        }
    }

    /// The first key of a node that is not below `key`, and whether it is that one.
    fn position<T: Transact>(
        self,
        edit: &mut Edit,
        tx: &mut T,
        node: &Node,
        key: u64,
    ) -> Result<(u64, bool), Abort> {
        for number in 0..node.keys {
            let found = edit.word(tx, node.key(number))?;
            if found >= key {
                return Ok((number, found == key));
            }
        }
        Ok((node.keys, false))
    }

    fn top<T: Transact>(self, edit: &mut Edit, tx: &mut T) -> Result<Node, Abort> {
        let at = PoolOffset(edit.word(tx, self.root.plus(TOP_AT))?);
        let node = Node::decode(at, edit.word(tx, at)?);
        let sound = node.filter(|node| node.keys > 0 || node.is_leaf());
        sound.ok_or_else(|| damaged(at, "no top node of a B-tree"))
    }

    fn child<T: Transact>(
        self,
        edit: &mut Edit,
        tx: &mut T,
        node: &Node,
        number: u64,
    ) -> Result<Node, Abort> {
        let at = PoolOffset(edit.word(tx, node.child(number))?);
        let child = Node::decode(at, edit.word(tx, at)?);
        let sound = child.filter(|child| child.height + 1 == node.height && child.keys >= KEYS_MIN);
        sound.ok_or_else(|| damaged(at, "no node of a B-tree"))
    }

    /// Where a value of a node lies.
    fn value(self, node: &Node, number: u64) -> ByteRange {
        let at = node.at.plus(node.values_at() + self.stride() * number);
        ByteRange::new(at, self.value_bytes)
    }

    /// Bytes from a value to the next.
    fn stride(self) -> u64 {
        self.value_bytes.next_multiple_of(8)
    }

    /// Bytes of a node of this height: whole lines.
    fn node_bytes(self, height: u64) -> u64 {
        let node = Node { at: PoolOffset(0), height, keys: 0 };
        (node.values_at() + KEYS_MAX * self.stride()).next_multiple_of(LINE_BYTES)
    }

    /// A node without keys.
    fn new_node<T: Transact>(
        self,
        edit: &mut Edit,
        tx: &mut T,
        height: u64,
    ) -> Result<Node, Abort> {
        let bytes = self.node_bytes(height);
        let at = tx.alloc(bytes, BlockKind::General)?;
        edit.fresh(at, bytes);
        let node = Node { at, height, keys: 0 };
        edit.set(tx, at, node.head())?;
        Ok(node)
    }

    fn free<T: Transact>(self, edit: &mut Edit, tx: &mut T, node: Node) -> Result<(), Abort> {
        edit.forget(node.at, self.node_bytes(node.height));
        tx.free(node.at)
    }

    fn set_top<T: Transact>(self, edit: &mut Edit, tx: &mut T, node: Node) -> Result<(), Abort> {
        edit.set(tx, self.root.plus(TOP_AT), node.at.0)
    }

    /// Gives a node another number of keys.
    fn resize<T: Transact>(
        self,
        edit: &mut Edit,
        tx: &mut T,
        node: &mut Node,
        keys: u64,
    ) -> Result<(), Abort> {
        node.keys = keys;
        edit.set(tx, node.at, node.head())
    }

    /// Copies keys with their values, also within a node.
    fn copy_items<T: Transact>(
        self,
        edit: &mut Edit,
        tx: &mut T,
        (from, first): (&Node, u64),
        (to, place): (&Node, u64),
        count: u64,
    ) -> Result<(), Abort> {
        edit.copy(tx, from.key(first), to.key(place), count)?;
        let (values, places) = (self.value(from, first).at, self.value(to, place).at);
        edit.copy(tx, values, places, count * self.stride() / 8)
    }

    /// Copies children, also within a node; leaves have none.
    fn copy_children<T: Transact>(
        self,
        edit: &mut Edit,
        tx: &mut T,
        (from, first): (&Node, u64),
        (to, place): (&Node, u64),
        count: u64,
    ) -> Result<(), Abort> {
        if from.is_leaf() {
            return Ok(());
        }
        edit.copy(tx, from.child(first), to.child(place), count)
    }
}
