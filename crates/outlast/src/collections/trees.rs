//! A directory of B+trees: what a pool with several tables has as its root object.

use std::cell::Cell;

use super::layout::{HEADER_BYTES, TREES_AT, TREES_LEN_AT, TREES_MAGIC, set_word, word};
use super::raw::{Damage, ReadRaw, Walk};
use super::{ByteTree, damaged};
use crate::{Abort, BlockKind, ByteRange, PoolOffset, RootKind, Transact};

/// Trees in a directory, at most.
pub const TREES_MAX: usize = 64;

/// A block that lists trees in an order that never changes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trees {
    root: PoolOffset,
}

impl Trees {
    /// A directory of `trees`.
    ///
    /// # Errors
    /// Those of the transaction.
    ///
    /// # Panics
    /// With more than [`TREES_MAX`] trees.
    pub fn create<T: Transact>(tx: &mut T, trees: &[ByteTree]) -> Result<Self, Abort> {
        assert!(trees.len() <= TREES_MAX, "{} trees in one directory", trees.len());
        let mut image = vec![0; HEADER_BYTES as usize + 8 * trees.len()];
        set_word(&mut image, 0, TREES_MAGIC);
        set_word(&mut image, TREES_LEN_AT, trees.len() as u64);
        for (i, tree) in trees.iter().enumerate() {
            set_word(&mut image, TREES_AT as usize + 8 * i, tree.root().0);
        }
        let root = tx.alloc(image.len() as u64, BlockKind::General)?;
        tx.store(root, &image)?;
        Ok(Self { root })
    }

    /// The trees of the directory at `root`, in the order in which they were given.
    ///
    /// # Errors
    /// [`Abort::Damaged`] when there is none, or one that names no trees.
    pub fn open<T: Transact>(tx: &mut T, root: PoolOffset) -> Result<Vec<ByteTree>, Abort> {
        let mut header = [0; HEADER_BYTES as usize];
        tx.load(root, &mut header)?;
        let len = word(&header, TREES_LEN_AT);
        if word(&header, 0) != TREES_MAGIC || len > TREES_MAX as u64 {
            return Err(damaged(root, "no directory of trees"));
        }
        let tree = |i| {
            let at = tx.load_u64(root.plus(TREES_AT + 8 * i))?;
            ByteTree::open(tx, PoolOffset(at))
        };
        (0..len).map(tree).collect()
    }

    /// Where the directory is.
    pub fn root(self) -> PoolOffset {
        self.root
    }

    /// Makes the directory the pool's root object.
    ///
    /// # Errors
    /// Those of the transaction.
    pub fn set_root<T: Transact>(self, tx: &mut T) -> Result<(), Abort> {
        tx.set_root(self.root, RootKind::Trees)
    }

    /// Follows every tree through raw memory, one after the other; `entry` is also told which
    /// tree it is in. No block is reached twice, not even from two trees. See
    /// [`walk_root`](super::walk_root).
    ///
    /// # Errors
    /// The first damage, or what `entry` reports.
    pub fn walk<R: ReadRaw>(
        root: PoolOffset,
        read: &mut R,
        block: impl FnMut(PoolOffset, u64),
        mut entry: impl FnMut(&mut R, usize, &[u8], ByteRange) -> Result<(), Damage>,
    ) -> Result<(), Damage> {
        let tree = Cell::new(0);
        let entry = |read: &mut R, key: &[u8], value| entry(read, tree.get(), key, value);
        let mut walk = Walk::new(read, block, entry);
        let bytes = |header: &[u8; _]| {
            Some(word(header, TREES_LEN_AT)).filter(|&len| len <= TREES_MAX as u64).map(|n| 8 * n)
        };
        let header = walk.claim_header(root, TREES_MAGIC, bytes)?;
        for i in 0..word(&header, TREES_LEN_AT) {
            let mut at = [0; 8];
            walk.load(root.plus(TREES_AT + 8 * i), &mut at)?;
            tree.set(i as usize);
            ByteTree::walk_in(&mut walk, PoolOffset(u64::from_le_bytes(at)))?;
        }
        Ok(())
    }
}
