//! The words that an operation changes, gathered before the first of them is stored.

use super::super::damaged;
use super::super::few::Few;
use super::super::layout::*;
use super::RbTree;
use crate::{Abort, ByteRange, PoolOffset, Transact};

/// Two changes at most this far apart on one line become one range: a log record's head costs as
/// much.
const GAP_BYTES_MAX: u64 = 16;

/// Which child.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left = 0,
    Right = 1,
}

impl Side {
    pub(super) fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// An operation under way: its loads see the words that it has changed so far.
pub(super) struct Edit<'t, T> {
    pub(super) tx: &'t mut T,
    tree: RbTree,
    /// A node that this transaction allocated, with its links: stored whole, never announced.
    fresh: (PoolOffset, [u64; 3]),
    changed: Few<Change>,
}

#[derive(Clone, Copy, Default)]
struct Change {
    at: PoolOffset,
    word: u64,
}

impl<'t, T: Transact> Edit<'t, T> {
    pub(super) fn new(tx: &'t mut T, tree: RbTree) -> Self {
        Self { tx, tree, fresh: (PoolOffset(0), [0; 3]), changed: Few::new() }
    }

    /// Makes `node` a red leaf below `parent`; its key and value are stored by the caller.
    pub(super) fn set_fresh(&mut self, node: PoolOffset, parent: PoolOffset) {
        self.fresh = (node, [0, 0, parent.0 | RB_RED]);
    }

    /// The links of the fresh node as they came to be.
    pub(super) fn fresh_links(&self) -> [u64; 3] {
        self.fresh.1
    }

    fn fresh_word(&mut self, at: PoolOffset) -> Option<&mut u64> {
        let (node, links) = &mut self.fresh;
        let distance = at.0.wrapping_sub(node.0);
        if node.0 == 0 { None } else { links.get_mut(distance as usize / 8) }
    }

    #[inline]
    fn load(&mut self, at: PoolOffset) -> Result<u64, Abort> {
        if let Some(word) = self.fresh_word(at) {
            return Ok(*word);
        }
        match self.changed.items().iter().find(|change| change.at == at) {
            Some(change) => Ok(change.word),
            None => self.tx.load_u64(at),
        }
    }

    #[inline]
    fn set(&mut self, at: PoolOffset, word: u64) {
        if let Some(fresh) = self.fresh_word(at) {
            *fresh = word;
            return;
        }
        match self.changed.items().iter_mut().find(|change| change.at == at) {
            Some(change) => change.word = word,
            None => self.changed.push(Change { at, word }),
        }
    }

    pub(super) fn child(&mut self, node: PoolOffset, side: Side) -> Result<PoolOffset, Abort> {
        self.load(self.there(node)?.plus(8 * side as u64)).map(PoolOffset)
    }

    pub(super) fn parent(&mut self, node: PoolOffset) -> Result<PoolOffset, Abort> {
        Ok(PoolOffset(self.parent_word(node)? & !RB_RED))
    }

    /// Which child of `parent` the node is.
    pub(super) fn side(&mut self, parent: PoolOffset, node: PoolOffset) -> Result<Side, Abort> {
        let is_left = self.child(parent, Side::Left)? == node;
        Ok(if is_left { Side::Left } else { Side::Right })
    }

    /// Whether the node is red. What is missing is black.
    pub(super) fn is_red(&mut self, node: PoolOffset) -> Result<bool, Abort> {
        Ok(node.0 != 0 && self.parent_word(node)? & RB_RED != 0)
    }

    pub(super) fn set_red(&mut self, node: PoolOffset, red: bool) -> Result<(), Abort> {
        let old = self.parent_word(node)?;
        let new = if red { old | RB_RED } else { old & !RB_RED };
        if new != old {
            self.set(node.plus(RB_PARENT_AT as u64), new);
        }
        Ok(())
    }

    /// Puts `new`, which may be 0, below `parent` (0: at the root); both links are set.
    pub(super) fn link(
        &mut self,
        parent: PoolOffset,
        side: Side,
        new: PoolOffset,
    ) -> Result<(), Abort> {
        match parent {
            PoolOffset(0) => self.set(self.tree.root.plus(RB_ROOT_AT as u64), new.0),
            _ => self.set(parent.plus(8 * side as u64), new.0),
        }
        if new.0 != 0 {
            let colour = self.parent_word(new)? & RB_RED;
            self.set(new.plus(RB_PARENT_AT as u64), parent.0 | colour);
        }
        Ok(())
    }

    /// Moves `node` down to `side`; its other child takes its place.
    pub(super) fn rotate(&mut self, node: PoolOffset, side: Side) -> Result<(), Abort> {
        let up = self.child(node, side.other())?;
        let inner = self.child(up, side)?;
        let parent = self.parent(node)?;
        let place = if parent.0 == 0 { Side::Left } else { self.side(parent, node)? };
        self.link(node, side.other(), inner)?;
        self.link(parent, place, up)?;
        self.link(up, side, node)
    }

    /// Announces the changes, and `also`, in one call, and stores them; `also` is the caller's.
    pub(super) fn apply(mut self, also: Option<ByteRange>) -> Result<&'t mut T, Abort> {
        let changed = self.changed.items();
        changed.sort_unstable_by_key(|change| change.at);
        let mut ranges = Few::<ByteRange>::new();
        let mut open: Option<ByteRange> = None;
        for change in &*changed {
            match &mut open {
                Some(range) if joins(range, change.at) => {
                    range.len = change.at.plus(8).0 - range.at.0;
                }
                _ => {
                    open.into_iter().for_each(|range| ranges.push(range));
                    open = Some(ByteRange::new(change.at, 8));
                }
            }
        }
        open.into_iter().chain(also).for_each(|range| ranges.push(range));
        self.tx.will_write(ranges.items())?;
        for change in &*changed {
            self.tx.store_u64(change.at, change.word)?;
        }
        Ok(self.tx)
    }

    fn parent_word(&mut self, node: PoolOffset) -> Result<u64, Abort> {
        self.load(self.there(node)?.plus(RB_PARENT_AT as u64))
    }

    /// A node where a sound tree has one.
    fn there(&self, node: PoolOffset) -> Result<PoolOffset, Abort> {
        match node {
            PoolOffset(0) => Err(damaged(self.tree.root, "a red-black tree without balance")),
            node => Ok(node),
        }
    }
}

/// Whether a word belongs into a range that ends before it: nodes begin with a line, so no range
/// ever covers two of them.
fn joins(range: &ByteRange, at: PoolOffset) -> bool {
    at.0 <= range.end().plus(GAP_BYTES_MAX).0 && at.line() == range.at.line()
}

/// A key and its value, to be moved.
pub(super) struct Moved {
    small: [u8; 128],
    large: Vec<u8>,
    len: usize,
}

impl Moved {
    /// Copies the key and the value of `node`.
    pub(super) fn load<T: Transact>(
        tx: &mut T,
        tree: RbTree,
        node: PoolOffset,
    ) -> Result<Self, Abort> {
        let len = 8 + tree.value_bytes as usize;
        let at = node.plus(RB_KEY_AT as u64);
        let mut moved = Self { small: [0; 128], large: Vec::new(), len };
        match moved.small.get_mut(..len) {
            Some(small) => tx.load(at, small)?,
            None => {
                // A first byte tells whether the node is there, before memory is taken for it.
                tx.load(at, &mut [0; 8])?;
                moved.large.resize(len, 0);
                tx.load(at, &mut moved.large)?;
            }
        }
        Ok(moved)
    }

    pub(super) fn bytes(&self) -> &[u8] {
        if self.large.is_empty() { &self.small[..self.len] } else { &self.large }
    }
}
