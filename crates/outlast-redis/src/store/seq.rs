//! Sequences: the items of a large list, or of a large sorted set in the order of their scores.
//!
//! A B+tree whose inner nodes count what is below each child, so that an item is found by its
//! index. Those of a sorted set also keep eight bytes of its order between their children: the items
//! of a sorted sequence begin with eight such bytes and are compared as bytes.
//!
//! ```text
//! header  0 root, 8 items, 16 levels above the leaves, 24 sorted (1) or not
//! node    512 bytes: 0 children or items (2 bytes), 2 bytes used (2), 8 what it holds
//! leaf    items as in a small value; one of more than 160 bytes is FE, length (4), offset (8)
//! inner   for each child: its offset, its items, its order's bound (8 bytes each)
//! ```
//!
//! * **SEQ-1** No item before a child begins with more than its bound, none of the child with less.
//! * **SEQ-2** Only the root may be empty.

use std::cmp::Ordering;

use outlast::{Abort, BlockKind, PoolOffset};

use crate::store::mem::{Mem, damaged, load_vec, store_changed};
use crate::store::size::rounded;

const NODE_BYTES: usize = 512;
const HEAD_BYTES: usize = 8;
const CHILDREN_MAX: usize = (NODE_BYTES - HEAD_BYTES) / 24;
const INLINE_MAX: usize = 160;
const LONG: u8 = 254;
const LONG_BYTES: usize = 13;
/// A leaf with less is joined to the next one, if that has no more than half.
const LEAN_BYTES: usize = 128;
const LEVELS_MAX: u64 = 16;

/// A sequence by its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seq {
    pub at: PoolOffset,
}

#[derive(Clone, Copy, Debug)]
struct Child {
    at: PoolOffset,
    items: u64,
    bound: u64,
}

/// What stands in a leaf for one item.
type Stored<'a> = &'a [u8];

/// A leaf's items.
struct Leaf {
    at: PoolOffset,
    items: usize,
    bytes: Vec<u8>,
    before: Vec<u8>,
}

/// Bytes of the stored item that begins there.
fn stored_bytes(bytes: &[u8]) -> usize {
    match bytes.first() {
        None => 0,
        Some(&LONG) => LONG_BYTES,
        Some(len) => 1 + usize::from(*len),
    }
}

impl Leaf {
    fn load(mem: &mut Mem<'_>, at: PoolOffset) -> Result<Self, Abort> {
        let head = mem.load_u64(at)?;
        let (items, used) = ((head & 0xFFFF) as usize, (head >> 16 & 0xFFFF) as usize);
        if used > NODE_BYTES - HEAD_BYTES {
            return Err(damaged(at, "a leaf that is fuller than it can be"));
        }
        let bytes = load_vec(mem, at.plus(HEAD_BYTES as u64), used)?;
        Ok(Self { at, items, before: bytes.clone(), bytes })
    }

    fn create(mem: &mut Mem<'_>, items: usize, bytes: &[u8]) -> Result<PoolOffset, Abort> {
        let at = mem.alloc(NODE_BYTES as u64, BlockKind::General)?;
        mem.store_u64(at, items as u64 | (bytes.len() as u64) << 16)?;
        mem.store(at.plus(HEAD_BYTES as u64), bytes)?;
        Ok(at)
    }

    fn store(&self, mem: &mut Mem<'_>) -> Result<(), Abort> {
        mem.store_u64(self.at, self.items as u64 | (self.bytes.len() as u64) << 16)?;
        store_changed(mem, self.at.plus(HEAD_BYTES as u64), &self.before, &self.bytes)
    }

    /// Where an item begins.
    fn place(&self, index: usize) -> usize {
        (0..index).fold(0, |at, _| at + stored_bytes(&self.bytes[at.min(self.bytes.len())..]))
    }

    fn stored(&self, at: usize) -> Stored<'_> {
        let rest = &self.bytes[at.min(self.bytes.len())..];
        &rest[..stored_bytes(rest).min(rest.len())]
    }

    fn is_over(&self) -> bool {
        self.bytes.len() > NODE_BYTES - HEAD_BYTES
    }
}

/// Bytes of an item that is stored.
fn resolve(mem: &mut Mem<'_>, stored: Stored<'_>) -> Result<Vec<u8>, Abort> {
    match stored {
        [LONG, rest @ ..] => {
            let (len, at) = long_parts(rest);
            load_vec(mem, at, len)
        }
        [_, item @ ..] => Ok(item.to_vec()),
        [] => Ok(Vec::new()),
    }
}

/// Up to `wanted` bytes of an item that is stored.
fn resolve_start(mem: &mut Mem<'_>, stored: Stored<'_>, wanted: usize) -> Result<Vec<u8>, Abort> {
    match stored {
        [LONG, rest @ ..] => {
            let (len, at) = long_parts(rest);
            load_vec(mem, at, len.min(wanted))
        }
        [_, item @ ..] => Ok(item[..item.len().min(wanted)].to_vec()),
        [] => Ok(Vec::new()),
    }
}

fn long_parts(rest: &[u8]) -> (usize, PoolOffset) {
    let len = rest.get(..4).and_then(|len| len.try_into().ok()).map_or(0, u32::from_le_bytes);
    let at = rest.get(4..12).and_then(|at| at.try_into().ok()).map_or(0, u64::from_le_bytes);
    (len as usize, PoolOffset(at))
}

fn to_stored(mem: &mut Mem<'_>, item: &[u8]) -> Result<Vec<u8>, Abort> {
    let mut stored = Vec::with_capacity(LONG_BYTES.max(item.len() + 1));
    if item.len() <= INLINE_MAX {
        stored.push(item.len() as u8);
        stored.extend_from_slice(item);
    } else {
        let at = mem.alloc(rounded(item.len() as u64), BlockKind::General)?;
        mem.store(at, item)?;
        stored.push(LONG);
        stored.extend_from_slice(&(item.len() as u32).to_le_bytes());
        stored.extend_from_slice(&at.0.to_le_bytes());
    }
    Ok(stored)
}

fn free_stored(mem: &mut Mem<'_>, stored: Stored<'_>) -> Result<(), Abort> {
    match stored {
        [LONG, rest @ ..] => mem.free(long_parts(rest).1),
        _ => Ok(()),
    }
}

/// The bytes of an item's order.
fn bound_of(item: &[u8]) -> u64 {
    item.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

fn load_children(mem: &mut Mem<'_>, at: PoolOffset) -> Result<Vec<Child>, Abort> {
    let count = (mem.load_u64(at)? & 0xFFFF) as usize;
    if count == 0 || count > CHILDREN_MAX {
        return Err(damaged(at, "an inner node with an impossible number of children"));
    }
    let bytes = load_vec(mem, at.plus(HEAD_BYTES as u64), count * 24)?;
    let words: Vec<u64> =
        bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect();
    let child =
        |words: &[u64]| Child { at: PoolOffset(words[0]), items: words[1], bound: words[2] };
    Ok(words.chunks_exact(3).map(child).collect())
}

fn children_bytes(children: &[Child]) -> Vec<u8> {
    let words = children.iter().flat_map(|child| [child.at.0, child.items, child.bound]);
    words.flat_map(u64::to_le_bytes).collect()
}

fn store_children(
    mem: &mut Mem<'_>,
    at: PoolOffset,
    old: &[Child],
    new: &[Child],
) -> Result<(), Abort> {
    if old.len() != new.len() {
        mem.store_u64(at, new.len() as u64)?;
    }
    let (old, new) = (children_bytes(old), children_bytes(new));
    store_changed(mem, at.plus(HEAD_BYTES as u64), &old, &new)
}

fn new_inner(mem: &mut Mem<'_>, children: &[Child]) -> Result<PoolOffset, Abort> {
    let at = mem.alloc(NODE_BYTES as u64, BlockKind::General)?;
    mem.store_u64(at, children.len() as u64)?;
    mem.store(at.plus(HEAD_BYTES as u64), &children_bytes(children))?;
    Ok(at)
}

fn sum(children: &[Child]) -> u64 {
    children.iter().map(|child| child.items).sum()
}

impl Seq {
    pub fn create(mem: &mut Mem<'_>, is_sorted: bool) -> Result<Self, Abort> {
        let root = Leaf::create(mem, 0, &[])?;
        let at = mem.alloc(32, BlockKind::General)?;
        for (index, word) in [root.0, 0, 0, u64::from(is_sorted)].into_iter().enumerate() {
            mem.store_u64(at.plus(index as u64 * 8), word)?;
        }
        Ok(Self { at })
    }

    fn root(self, mem: &mut Mem<'_>) -> Result<PoolOffset, Abort> {
        Ok(PoolOffset(mem.load_u64(self.at)?))
    }

    pub fn len(self, mem: &mut Mem<'_>) -> Result<u64, Abort> {
        mem.load_u64(self.at.plus(8))
    }

    fn set_len(self, mem: &mut Mem<'_>, len: u64) -> Result<(), Abort> {
        mem.store_u64(self.at.plus(8), len)
    }

    fn levels(self, mem: &mut Mem<'_>) -> Result<u64, Abort> {
        let levels = mem.load_u64(self.at.plus(16))?;
        match levels <= LEVELS_MAX {
            true => Ok(levels),
            false => Err(damaged(self.at, "a sequence of impossible height")),
        }
    }

    fn is_sorted(self, mem: &mut Mem<'_>) -> Result<bool, Abort> {
        Ok(mem.load_u64(self.at.plus(24))? != 0)
    }

    fn set_root(self, mem: &mut Mem<'_>, root: PoolOffset, levels: u64) -> Result<(), Abort> {
        mem.store_u64(self.at, root.0)?;
        mem.store_u64(self.at.plus(16), levels)
    }

    /// Puts an item before the one of that index.
    pub fn insert(self, mem: &mut Mem<'_>, index: u64, item: &[u8]) -> Result<(), Abort> {
        let (root, levels, len) = (self.root(mem)?, self.levels(mem)?, self.len(mem)?);
        let bound = if self.is_sorted(mem)? { Some(bound_of(item)) } else { None };
        let stored = to_stored(mem, item)?;
        let is_last = index == len;
        let new = insert_below(mem, root, levels, index, &stored, bound, is_last)?;
        self.set_len(mem, len + 1)?;
        if let Some(right) = new {
            let left = Child { at: root, items: len + 1 - right.items, bound: 0 };
            let root = new_inner(mem, &[left, right])?;
            self.set_root(mem, root, levels + 1)?;
        }
        Ok(())
    }

    /// Puts an item at the end.
    pub fn push(self, mem: &mut Mem<'_>, item: &[u8]) -> Result<(), Abort> {
        let len = self.len(mem)?;
        self.insert(mem, len, item)
    }

    /// Takes an item out.
    pub fn remove(self, mem: &mut Mem<'_>, index: u64) -> Result<Vec<u8>, Abort> {
        let (mut root, mut levels, len) = (self.root(mem)?, self.levels(mem)?, self.len(mem)?);
        if index >= len {
            return Err(damaged(self.at, "a sequence without the item that it should have"));
        }
        let (stored, _) = remove_below(mem, root, levels, index)?;
        self.set_len(mem, len - 1)?;
        let old = levels;
        while levels > 0 {
            let [only] = load_children(mem, root)?[..] else { break };
            mem.free(root)?;
            (root, levels) = (only.at, levels - 1);
        }
        if levels != old {
            self.set_root(mem, root, levels)?;
        }
        let item = resolve(mem, &stored)?;
        free_stored(mem, &stored)?;
        Ok(item)
    }

    /// An item.
    pub fn get(self, mem: &mut Mem<'_>, index: u64) -> Result<Option<Vec<u8>>, Abort> {
        let mut found = None;
        self.scan(mem, index, 1, &mut |item| {
            found = Some(item.to_vec());
            true
        })?;
        Ok(found)
    }

    /// Shows `count` items from an index on, until `show` has seen enough.
    pub fn scan(
        self,
        mem: &mut Mem<'_>,
        from: u64,
        count: u64,
        show: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Abort> {
        let len = self.len(mem)?;
        let end = from.saturating_add(count).min(len);
        if from < end {
            let (root, levels) = (self.root(mem)?, self.levels(mem)?);
            scan_below(mem, root, levels, from, end, show)?;
        }
        Ok(())
    }

    /// Sorted: how many items are less than this one, or also those equal to it.
    pub fn rank(self, mem: &mut Mem<'_>, wanted: &[u8], or_equal: bool) -> Result<u64, Abort> {
        let (mut node, mut levels, mut before) = (self.root(mem)?, self.levels(mem)?, 0);
        let is_before = |order: Ordering| order.is_lt() || or_equal && order.is_eq();
        let bound = bound_of(wanted);
        while levels > 0 {
            let children = load_children(mem, node)?;
            // The last child that begins with something before the wanted item.
            let (mut low, mut high) = (1, children.len());
            while low < high {
                let middle = (low + high) / 2;
                let child = children[middle];
                let begins_before = match child.bound.cmp(&bound) {
                    Ordering::Less => true,
                    Ordering::Greater => false,
                    Ordering::Equal => {
                        let first = first_below(mem, child.at, levels - 1, wanted.len() + 1)?;
                        is_before(first.as_slice().cmp(wanted))
                    }
                };
                if begins_before { low = middle + 1 } else { high = middle }
            }
            before += sum(&children[..low - 1]);
            node = children[low - 1].at;
            levels -= 1;
        }
        let leaf = Leaf::load(mem, node)?;
        let mut at = 0;
        for _ in 0..leaf.items {
            let stored = leaf.stored(at);
            // One byte more than is wanted decides the order.
            let start = resolve_start(mem, stored, wanted.len() + 1)?;
            if !is_before(start.as_slice().cmp(wanted)) {
                break;
            }
            at += stored.len();
            before += 1;
        }
        Ok(before)
    }

    /// Removes up to `count` items from the front. `true` when none is left.
    pub fn drain(self, mem: &mut Mem<'_>, count: u64) -> Result<bool, Abort> {
        let count = self.len(mem)?.min(count);
        for _ in 0..count {
            self.remove(mem, 0)?;
        }
        Ok(self.len(mem)? == 0)
    }

    /// Cuts the first `count` items off, fewer than there are: they are the sequence that is returned.
    pub fn cut_front(self, mem: &mut Mem<'_>, count: u64) -> Result<Self, Abort> {
        let (root, levels, len) = (self.root(mem)?, self.levels(mem)?, self.len(mem)?);
        if count >= len {
            return Err(damaged(self.at, "a sequence shorter than it should be"));
        }
        let is_sorted = self.is_sorted(mem)?;
        let front = match cut_below(mem, root, levels, count)? {
            Some(front) => front,
            None => return Self::create(mem, is_sorted),
        };
        self.set_len(mem, len - count)?;
        let at = mem.alloc(32, BlockKind::General)?;
        for (index, word) in
            [front.at.0, front.items, levels, u64::from(is_sorted)].into_iter().enumerate()
        {
            mem.store_u64(at.plus(index as u64 * 8), word)?;
        }
        Ok(Self { at })
    }

    /// Frees a sequence without items.
    pub fn free_empty(self, mem: &mut Mem<'_>) -> Result<(), Abort> {
        let root = self.root(mem)?;
        mem.free(root)?;
        mem.free(self.at)
    }
}

/// Up to `len` bytes of the first item below a node.
fn first_below(
    mem: &mut Mem<'_>,
    mut node: PoolOffset,
    levels: u64,
    len: usize,
) -> Result<Vec<u8>, Abort> {
    for _ in 0..levels {
        node = PoolOffset(mem.load_u64(node.plus(HEAD_BYTES as u64))?);
    }
    let leaf = Leaf::load(mem, node)?;
    resolve_start(mem, leaf.stored(0), len)
}

/// The child for an insertion before an index, and the index there.
fn child_for(children: &[Child], index: u64, bound: Option<u64>) -> (usize, u64) {
    let mut index = index;
    for (number, child) in children.iter().enumerate() {
        let next = children.get(number + 1);
        // SEQ-1: where two children meet, the bound decides.
        let goes_right = index == child.items
            && next.is_some_and(|next| bound.is_some_and(|bound| bound > next.bound));
        if index <= child.items && !goes_right || next.is_none() {
            return (number, index);
        }
        index -= child.items;
    }
    (0, index)
}

/// Inserts, and returns the new right neighbour of a node that was divided.
fn insert_below(
    mem: &mut Mem<'_>,
    node: PoolOffset,
    levels: u64,
    index: u64,
    stored: Stored<'_>,
    bound: Option<u64>,
    is_last: bool,
) -> Result<Option<Child>, Abort> {
    if levels == 0 {
        return insert_in_leaf(mem, node, index as usize, stored, bound, is_last);
    }
    let old = load_children(mem, node)?;
    let mut children = old.clone();
    let (number, below) = child_for(&children, index, bound);
    let child = children[number].at;
    let new = insert_below(mem, child, levels - 1, below, stored, bound, is_last)?;
    children[number].items += 1;
    if let Some(right) = new {
        children[number].items -= right.items;
        children.insert(number + 1, right);
    }
    if children.len() <= CHILDREN_MAX {
        store_children(mem, node, &old, &children)?;
        return Ok(None);
    }
    let cut = if is_last { children.len() - 2 } else { children.len() / 2 };
    let right = children.split_off(cut);
    store_children(mem, node, &old, &children)?;
    let at = new_inner(mem, &right)?;
    Ok(Some(Child { at, items: sum(&right), bound: right[0].bound }))
}

fn insert_in_leaf(
    mem: &mut Mem<'_>,
    node: PoolOffset,
    index: usize,
    stored: Stored<'_>,
    bound: Option<u64>,
    is_last: bool,
) -> Result<Option<Child>, Abort> {
    let mut leaf = Leaf::load(mem, node)?;
    let at = leaf.place(index);
    leaf.bytes.splice(at..at, stored.iter().copied());
    leaf.items += 1;
    if !leaf.is_over() {
        leaf.store(mem)?;
        return Ok(None);
    }
    // What is put at the end, or at the beginning, leaves a full leaf behind.
    let half = match (is_last, index) {
        (true, _) => leaf.bytes.len() - stored.len(),
        (false, 0) => stored.len(),
        _ => leaf.bytes.len() / 2,
    };
    let (mut cut, mut items) = (0, 0);
    while items + 1 < leaf.items && (items == 0 || cut < half) {
        cut += leaf.stored(cut).len();
        items += 1;
    }
    let right = leaf.bytes.split_off(cut);
    let right_items = leaf.items - items;
    leaf.items = items;
    let first = resolve(mem, &right[..stored_bytes(&right)])?;
    leaf.store(mem)?;
    let at = Leaf::create(mem, right_items, &right)?;
    // A sequence that is not sorted has no bounds.
    let right_bound = if bound.is_some() { bound_of(&first) } else { 0 };
    Ok(Some(Child { at, items: right_items as u64, bound: right_bound }))
}

/// Removes, and says whether the node is empty now.
fn remove_below(
    mem: &mut Mem<'_>,
    node: PoolOffset,
    levels: u64,
    index: u64,
) -> Result<(Vec<u8>, bool), Abort> {
    if levels == 0 {
        let mut leaf = Leaf::load(mem, node)?;
        let at = leaf.place(index as usize);
        let stored = leaf.stored(at).to_vec();
        leaf.bytes.drain(at..at + stored.len());
        leaf.items = leaf.items.saturating_sub(1);
        leaf.store(mem)?;
        return Ok((stored, leaf.items == 0));
    }
    let old = load_children(mem, node)?;
    let mut children = old.clone();
    let mut below = index;
    let mut number = 0;
    while below >= children[number].items && number + 1 < children.len() {
        below -= children[number].items;
        number += 1;
    }
    let child = children[number].at;
    let (stored, is_empty) = remove_below(mem, child, levels - 1, below)?;
    children[number].items = children[number].items.saturating_sub(1);
    if is_empty {
        // SEQ-2, but for a node that loses its last child: its parent removes that.
        mem.free(child)?;
        children.remove(number);
        if children.is_empty() {
            return Ok((stored, true));
        }
    } else if levels == 1 {
        join_leaves(mem, &mut children, number)?;
    }
    store_children(mem, node, &old, &children)?;
    Ok((stored, false))
}

/// Takes the first `count` items, fewer than there are, out of a node: they become a node of the same
/// level.
fn cut_below(
    mem: &mut Mem<'_>,
    node: PoolOffset,
    levels: u64,
    count: u64,
) -> Result<Option<Child>, Abort> {
    if count == 0 {
        return Ok(None);
    }
    if levels == 0 {
        let mut leaf = Leaf::load(mem, node)?;
        let at = leaf.place(count as usize);
        let front: Vec<u8> = leaf.bytes.drain(..at).collect();
        leaf.items = leaf.items.saturating_sub(count as usize);
        leaf.store(mem)?;
        let at = Leaf::create(mem, count as usize, &front)?;
        return Ok(Some(Child { at, items: count, bound: 0 }));
    }
    let old = load_children(mem, node)?;
    let (mut number, mut left) = (0, count);
    while left >= old[number].items && number + 1 < old.len() {
        left -= old[number].items;
        number += 1;
    }
    let mut front = old[..number].to_vec();
    let mut rest = old[number..].to_vec();
    if let Some(part) = cut_below(mem, rest[0].at, levels - 1, left)? {
        rest[0].items = rest[0].items.saturating_sub(left);
        front.push(Child { bound: rest[0].bound, ..part });
    }
    store_children(mem, node, &old, &rest)?;
    let at = new_inner(mem, &front)?;
    Ok(Some(Child { at, items: count, bound: 0 }))
}

/// Joins a lean leaf with its right neighbour.
fn join_leaves(mem: &mut Mem<'_>, children: &mut Vec<Child>, number: usize) -> Result<(), Abort> {
    let Some(next) = children.get(number + 1).copied() else { return Ok(()) };
    let mut leaf = Leaf::load(mem, children[number].at)?;
    if leaf.bytes.len() >= LEAN_BYTES {
        return Ok(());
    }
    let right = Leaf::load(mem, next.at)?;
    if right.bytes.len() > NODE_BYTES / 2 {
        return Ok(());
    }
    leaf.bytes.extend_from_slice(&right.bytes);
    leaf.items += right.items;
    leaf.store(mem)?;
    mem.free(next.at)?;
    children[number].items += next.items;
    children.remove(number + 1);
    Ok(())
}

/// Shows items from one index to another; `false` when `show` has seen enough.
fn scan_below(
    mem: &mut Mem<'_>,
    node: PoolOffset,
    levels: u64,
    from: u64,
    end: u64,
    show: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<bool, Abort> {
    if levels == 0 {
        let leaf = Leaf::load(mem, node)?;
        let mut at = leaf.place(from as usize);
        for _ in from..end.min(leaf.items as u64) {
            let stored = leaf.stored(at);
            at += stored.len();
            let goes_on = match stored {
                [LONG, ..] => show(&resolve(mem, stored)?),
                [_, item @ ..] => show(item),
                [] => false,
            };
            if !goes_on {
                return Ok(false);
            }
        }
        return Ok(true);
    }
    let mut first = 0;
    for child in load_children(mem, node)? {
        let last = first + child.items;
        if last > from && first < end {
            let (from, end) = (from.saturating_sub(first), end.min(last) - first);
            if !scan_below(mem, child.at, levels - 1, from, end, show)? {
                return Ok(false);
            }
        }
        first = last;
    }
    Ok(true)
}
