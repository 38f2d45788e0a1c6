//! A crit-bit tree of words: what WHISPER's ctree is.
//!
//! A pointer with its lowest bit set names an inner node: the bit that its keys differ in, and two
//! pointers. Others name leaves: the key, then the value.

use outlast::{Abort, BlockKind, PoolOffset, RootKind, Runner, Transact};

use super::fill;
use crate::Random;

const INNER: u64 = 1;

#[derive(Clone, Debug)]
pub(super) struct CritBits {
    /// The word that points to the tree.
    root: PoolOffset,
    keys: u64,
    value: Vec<u8>,
    pub(super) random: Random,
    steps: u64,
}

/// Where a search went: slots that hold the pointers, the last to a leaf.
struct Path {
    slots: Vec<(PoolOffset, u64)>,
    leaf: u64,
    key: u64,
}

fn child(node: u64, key: u64, bit: u64) -> PoolOffset {
    PoolOffset(node - INNER + 8 + 8 * (key >> bit & 1))
}

fn search<T: Transact>(tx: &mut T, root: PoolOffset, key: u64) -> Result<Path, Abort> {
    let mut slot = root;
    let mut slots = Vec::new();
    loop {
        let pointer = tx.load_u64(slot)?;
        slots.push((slot, pointer));
        if pointer & INNER == 0 {
            let found = if pointer == 0 { 0 } else { tx.load_u64(PoolOffset(pointer))? };
            return Ok(Path { slots, leaf: pointer, key: found });
        }
        let bit = tx.load_u64(PoolOffset(pointer - INNER))?;
        slot = child(pointer, key, bit);
    }
}

fn add<T: Transact>(
    tx: &mut T,
    root: PoolOffset,
    key: u64,
    value: &[u8],
    path: &Path,
) -> Result<(), Abort> {
    let leaf = tx.alloc(8 + value.len() as u64, BlockKind::General)?;
    tx.store_u64(leaf, key)?;
    tx.store(leaf.plus(8), value)?;
    if path.leaf == 0 {
        return tx.store_u64(root, leaf.0);
    }
    let bit = u64::from(63 - (key ^ path.key).leading_zeros());
    // The first slot whose node decides a lower bit gets the new node.
    let mut place = path.slots[path.slots.len() - 1];
    for &(slot, pointer) in &path.slots {
        if pointer & INNER == 0 || tx.load_u64(PoolOffset(pointer - INNER))? < bit {
            place = (slot, pointer);
            break;
        }
    }
    let node = tx.alloc(24, BlockKind::General)?;
    tx.store_u64(node, bit)?;
    tx.store_u64(child(node.0 + INNER, key, bit), leaf.0)?;
    tx.store_u64(child(node.0 + INNER, !key, bit), place.1)?;
    tx.store_u64(place.0, node.0 + INNER)
}

fn remove<T: Transact>(tx: &mut T, root: PoolOffset, path: &Path) -> Result<(), Abort> {
    tx.free(PoolOffset(path.leaf))?;
    let (slot, _) = path.slots[path.slots.len() - 1];
    let Some(&(above, node)) = path.slots.iter().rev().nth(1) else {
        return tx.store_u64(root, 0);
    };
    let left = PoolOffset(node - INNER + 8);
    let other = if slot == left { left.plus(8) } else { left };
    let sibling = tx.load_u64(other)?;
    tx.store_u64(above, sibling)?;
    tx.free(PoolOffset(node - INNER))
}

impl CritBits {
    pub(super) fn load<R: Runner>(
        keys: u64,
        value_bytes: u64,
        random: Random,
        runner: &mut R,
    ) -> Result<Self, Abort> {
        let root = runner.run(|tx| {
            let root = tx.alloc(16, BlockKind::General)?;
            tx.store_u64(root, 0)?;
            tx.set_root(root, RootKind::Opaque)?;
            Ok(root)
        })?;
        let value = vec![0; value_bytes as usize];
        let mut tree = Self { root, keys, value, random, steps: 0 };
        for _ in 0..keys / 2 {
            tree.step(runner)?;
        }
        Ok(tree)
    }

    pub(super) fn step<R: Runner>(&mut self, runner: &mut R) -> Result<(), Abort> {
        // Spread, so that the tree is not a comb.
        let key = self.random.below(self.keys).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.steps += 1;
        fill(&mut self.value, self.steps);
        let (root, value) = (self.root, &self.value);
        runner.run(|tx| {
            let path = search(tx, root, key)?;
            if path.leaf != 0 && path.key == key {
                return remove(tx, root, &path);
            }
            add(tx, root, key, value, &path)
        })
    }
}
