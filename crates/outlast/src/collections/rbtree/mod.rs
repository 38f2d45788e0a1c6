//! The red-black tree: a line-aligned node for each key, its value inside.
//!
//! A node's links, its colour, its key and a value of up to 32 bytes share one line, so a search
//! touches one line for each node on its way and an insertion none beside those that it changes.
//! Values of one tree are of one length, which is fixed when it is created.
//!
//! An operation first decides on all words that change, in volatile memory; then it announces
//! them in one call and stores them. Most insertions change a link and perhaps a few colours; a
//! removal of a node with two children moves its successor's key and value instead of relinking
//! six nodes.
//!
//! Invariants, checked by the walk:
//! 1. Keys ascend from left to right.
//! 2. A node's parent link names the node that has it as a child; the root's is 0.
//! 3. The root is black, and so are the children of a red node.
//! 4. All ways from a node down to where a child is missing pass equally many black nodes.

mod before;
mod edit;
mod insert;
mod remove;
mod walk;

use std::cmp::Ordering;

use self::edit::Side;
use super::layout::*;
use super::{damaged, load_value, other_length};
use crate::medium::LINE_BYTES;
use crate::{Abort, BlockKind, ByteRange, PoolOffset, Transact};

/// The longest value of a red-black tree, in bytes.
pub const RB_VALUE_BYTES_MAX: u64 = 1 << 16;

/// A persistent red-black tree from `u64` keys, in their order, to values of one length.
///
/// Every method is one operation inside the caller's transaction and calls
/// [`Transact::will_write`] at most once. Apart from what is listed, each fails with whatever
/// the transaction fails with, and with [`Abort::Damaged`] when what it reads makes no sense.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RbTree {
    root: PoolOffset,
    value_bytes: u64,
}

/// The part of a node that a search needs: links, colour and key.
#[derive(Clone, Copy)]
struct Node {
    children: [PoolOffset; 2],
    parent: PoolOffset,
    key: u64,
}

impl Node {
    #[inline]
    fn load<T: Transact>(tx: &mut T, at: PoolOffset) -> Result<Self, Abort> {
        let mut head = [0; RB_VALUE_AT];
        tx.load(at, &mut head)?;
        Ok(Self::decode(&head))
    }

    #[inline]
    fn decode(head: &[u8; RB_VALUE_AT]) -> Self {
        Self {
            children: [PoolOffset(word(head, RB_LEFT_AT)), PoolOffset(word(head, RB_RIGHT_AT))],
            parent: PoolOffset(word(head, RB_PARENT_AT) & !RB_RED),
            key: word(head, RB_KEY_AT),
        }
    }

    #[inline]
    fn child(&self, side: Side) -> PoolOffset {
        self.children[side as usize]
    }
}

/// Where a search ended.
enum Place {
    /// At the node of the key.
    Found(PoolOffset, Node),
    /// Where its node would be: below this one (0: the tree is empty), on this side.
    Missing(PoolOffset, Side),
}

impl RbTree {
    /// An empty tree for values of `value_bytes` bytes.
    ///
    /// # Errors
    /// Those of the transaction, and [`Abort::TooLarge`] for values longer than
    /// [`RB_VALUE_BYTES_MAX`].
    pub fn create<T: Transact>(tx: &mut T, value_bytes: u64) -> Result<Self, Abort> {
        if value_bytes > RB_VALUE_BYTES_MAX {
            return Err(Abort::too_large(
                "a value of a red-black tree",
                value_bytes,
                RB_VALUE_BYTES_MAX,
            ));
        }
        let root = tx.alloc(HEADER_BYTES, BlockKind::General)?;
        let mut header = [0; HEADER_BYTES as usize];
        set_word(&mut header, 0, RB_MAGIC);
        set_word(&mut header, RB_VALUE_BYTES_AT, value_bytes);
        tx.store(root, &header)?;
        Ok(Self { root, value_bytes })
    }

    /// The tree whose header is at `root`.
    ///
    /// # Errors
    /// [`Abort::Damaged`] when there is none.
    pub fn open<T: Transact>(tx: &mut T, root: PoolOffset) -> Result<Self, Abort> {
        let mut header = [0; HEADER_BYTES as usize];
        tx.load(root, &mut header)?;
        let tree = Self::decode(root, &header);
        tree.ok_or_else(|| damaged(root, "no header of a red-black tree"))
    }

    fn decode(root: PoolOffset, header: &[u8; HEADER_BYTES as usize]) -> Option<Self> {
        let value_bytes = word(header, RB_VALUE_BYTES_AT);
        let sound = word(header, 0) == RB_MAGIC && value_bytes <= RB_VALUE_BYTES_MAX;
        sound.then_some(Self { root, value_bytes })
    }

    /// Where the header is, for [`Transact::set_root`].
    pub fn root(self) -> PoolOffset {
        self.root
    }

    /// Bytes of each value.
    pub fn value_bytes(self) -> u64 {
        self.value_bytes
    }

    /// Where the value of `key` lies. The place is good until this transaction changes the tree,
    /// and the bytes may be loaded, announced and stored there.
    #[inline]
    pub fn find<T: Transact>(self, tx: &mut T, key: u64) -> Result<Option<ByteRange>, Abort> {
        Ok(match self.search(tx, key)? {
            Place::Found(at, _) => Some(self.value(at)),
            Place::Missing(..) => None,
        })
    }

    /// Copies the value of `key` to `out`, which becomes as long as the value; `false`, and `out`
    /// as it was, when there is none.
    pub fn get<T: Transact>(self, tx: &mut T, key: u64, out: &mut Vec<u8>) -> Result<bool, Abort> {
        let Some(value) = self.find(tx, key)? else { return Ok(false) };
        load_value(tx, value, out)?;
        Ok(true)
    }

    /// Sets the value of `key`; whether there was one before.
    ///
    /// # Errors
    /// Also [`Abort::Damaged`] when `value` is not as long as the tree says that its values are.
    pub fn insert<T: Transact>(self, tx: &mut T, key: u64, value: &[u8]) -> Result<bool, Abort> {
        self.put(tx, key, value, true)
    }

    /// Sets the value of `key` unless it has one; whether it was set.
    ///
    /// # Errors
    /// As [`insert`](Self::insert).
    pub fn add<T: Transact>(self, tx: &mut T, key: u64, value: &[u8]) -> Result<bool, Abort> {
        Ok(!self.put(tx, key, value, false)?)
    }

    /// Removes `key` and its value; whether there was one.
    pub fn remove<T: Transact>(self, tx: &mut T, key: u64) -> Result<bool, Abort> {
        match self.search(tx, key)? {
            Place::Found(at, node) => self.remove_node(tx, at, &node).map(|()| true),
            Place::Missing(..) => Ok(false),
        }
    }

    /// Calls `visit` with up to `limit` keys and the places of their values, in the order of
    /// keys, from the first key that is not below `from` on. `visit` may load and store values
    /// but not change the tree.
    ///
    /// # Errors
    /// Also whatever `visit` fails with.
    pub fn scan<T: Transact>(
        self,
        tx: &mut T,
        from: u64,
        limit: u64,
        mut visit: impl FnMut(&mut T, u64, ByteRange) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let mut next = match self.search(tx, from)? {
            Place::Found(at, _) => at,
            Place::Missing(PoolOffset(0), _) => return Ok(()),
            Place::Missing(parent, Side::Left) => parent,
            Place::Missing(parent, Side::Right) => successor(tx, parent)?,
        };
        let mut left = limit;
        while left > 0 && next.0 != 0 {
            let at = next;
            let node = Node::load(tx, at)?;
            if node.key < from {
                return Err(damaged(at, "keys out of order in a red-black tree"));
            }
            next = successor(tx, at)?;
            if next.0 != 0 && Node::load(tx, next)?.key <= node.key {
                return Err(damaged(next, "keys out of order in a red-black tree"));
            }
            visit(tx, node.key, self.value(at))?;
            left -= 1;
        }
        Ok(())
    }

    /// Calls `visit` with every key and the place of its value, in the order of keys; as
    /// [`scan`](Self::scan).
    ///
    /// # Errors
    /// Also whatever `visit` fails with.
    pub fn for_each<T: Transact>(
        self,
        tx: &mut T,
        visit: impl FnMut(&mut T, u64, ByteRange) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        self.scan(tx, 0, u64::MAX, visit)
    }

    /// The number of keys, counted by a walk: no operation keeps a counter that all would share.
    pub fn len<T: Transact>(self, tx: &mut T) -> Result<u64, Abort> {
        let mut keys = 0;
        self.for_each(tx, |_, _, _| {
            keys += 1;
            Ok(())
        })?;
        Ok(keys)
    }

    #[inline]
    fn search<T: Transact>(self, tx: &mut T, key: u64) -> Result<Place, Abort> {
        let mut at = PoolOffset(tx.load_u64(self.root.plus(RB_ROOT_AT as u64))?);
        let (mut parent, mut side) = (PoolOffset(0), Side::Left);
        for _ in 0..=RB_HEIGHT_MAX {
            if at.0 == 0 {
                return Ok(Place::Missing(parent, side));
            }
            side = match key.cmp(&tx.load_u64(at.plus(RB_KEY_AT as u64))?) {
                Ordering::Less => Side::Left,
                Ordering::Greater => Side::Right,
                Ordering::Equal => return Ok(Place::Found(at, Node::load(tx, at)?)),
            };
            let child = tx.load_u64(at.plus((RB_LEFT_AT + 8 * side as usize) as u64))?;
            (parent, at) = (at, PoolOffset(child));
        }
        Err(damaged(self.root, "a red-black tree that is too high"))
    }

    fn put<T: Transact>(
        self,
        tx: &mut T,
        key: u64,
        value: &[u8],
        replace: bool,
    ) -> Result<bool, Abort> {
        if value.len() as u64 != self.value_bytes {
            return Err(other_length(self.root, "a red-black tree", self.value_bytes, value.len()));
        }
        match self.search(tx, key)? {
            Place::Found(at, _) => {
                if replace && !value.is_empty() {
                    tx.will_write(&[self.value(at)])?;
                    tx.store(self.value(at).at, value)?;
                }
                Ok(true)
            }
            Place::Missing(parent, side) => {
                self.insert_below(tx, parent, side, key, value)?;
                Ok(false)
            }
        }
    }

    /// Where the value of a node lies.
    fn value(self, node: PoolOffset) -> ByteRange {
        ByteRange::new(node.plus(RB_VALUE_AT as u64), self.value_bytes)
    }

    /// Bytes of a node: a line at the least, so that every node begins one.
    fn node_bytes(self) -> u64 {
        (RB_VALUE_AT as u64 + self.value_bytes).max(LINE_BYTES)
    }
}

/// The node with the next key, or 0.
fn successor<T: Transact>(tx: &mut T, from: PoolOffset) -> Result<PoolOffset, Abort> {
    let node = Node::load(tx, from)?;
    let too_high = || damaged(from, "a red-black tree that is too high");
    if node.child(Side::Right).0 != 0 {
        let mut at = node.child(Side::Right);
        for _ in 0..=RB_HEIGHT_MAX {
            match Node::load(tx, at)?.child(Side::Left) {
                PoolOffset(0) => return Ok(at),
                left => at = left,
            }
        }
        return Err(too_high());
    }
    let (mut at, mut parent) = (from, node.parent);
    for _ in 0..=RB_HEIGHT_MAX {
        if parent.0 == 0 {
            return Ok(parent);
        }
        let above = Node::load(tx, parent)?;
        if above.child(Side::Left) == at {
            return Ok(parent);
        }
        (at, parent) = (parent, above.parent);
    }
    Err(too_high())
}
