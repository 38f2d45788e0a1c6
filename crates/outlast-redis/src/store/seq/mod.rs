//! Sequences: the items of a large list, or of a large sorted set in the order of their scores.
//!
//! A B+tree whose inner nodes count what is below each child, so that an item is found by its
//! index. Those of a sorted set also keep eight bytes of its order between their children: the items
//! of a sorted sequence begin with eight such bytes and are compared as bytes.
//!
//! ```text
//! header  0 root, 0 for none, 8 items, 16 levels above the leaves, 24 sorted (1) or not
//! node    512 bytes: 0 children or items (2 bytes), 2 bytes used (2), 8 what it holds
//!         (4 of a leaf: the gap before its items)
//! leaf    items as in a small value; one of more than 160 bytes is FE, length (4), offset (8)
//! inner   for each child: its offset, its items, its order's bound (8 bytes each)
//! ```
//!
//! * **SEQ-1** No item before a child begins with more than its bound, none of the child with less.
//! * **SEQ-2** Only the root may be empty.
//!
//! An insertion or a removal goes down once and remembers its way. Where no node is divided or emptied, each inner node
//! of the way is read by single words and gets one word stored: its child's count.
//!
//! A list keeps its [ends] apart, so that a push or a pop does not go down at all. The order of a sorted set has leaves of
//! [scores].

use std::cmp::Ordering;

use outlast::{Abort, BlockKind, PoolOffset};

use crate::store::mem::{Mem, damaged};
pub(super) use ends::ENDS_BYTES;
pub(crate) use ends::{End, Ends};
pub(super) use node::{NODE_BYTES, Parts, parts};
pub(super) use scores::leaf_items;
pub(crate) use scores::{Scores, Wanted};

use node::{
    CHILDREN_MAX, Child, Head, LEAF_BYTES, Leaf, Stored, bound_of, child_count, compare,
    free_stored, leaf_place, load_bound, load_child, load_children, new_inner, resolve,
    show_stored, store_children, store_items, sum, to_stored,
};

mod ends;
mod node;
mod scores;
#[cfg(test)]
mod tests;

/// A leaf with less is joined to the next one, if that has not much.
const LEAN_BYTES: usize = 128;
const JOINED_BYTES_MAX: usize = 256;
/// Children that a node keeps, or leaves to its new neighbour, where items come at that end only.
const LEFT_AT_END: usize = 2;
const LEVELS_MAX: usize = 16;

/// Bytes of a header.
pub(super) const HEADER_BYTES: u64 = 32;

/// A sequence's root, the levels above its leaves, and how many items it says it has.
pub(super) fn shape(mem: &mut Mem<'_>, at: PoolOffset) -> Result<(PoolOffset, usize, u64), Abort> {
    let Header { root, len, levels, .. } = Header::load(mem, at)?;
    Ok((root, levels, len))
}

/// A sequence by its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Seq {
    pub at: PoolOffset,
}

/// The header's fields.
#[derive(Clone, Copy, Debug)]
struct Header {
    root: PoolOffset,
    len: u64,
    levels: usize,
    is_sorted: bool,
}

/// An inner node on the way to a leaf, and the child through which that goes.
#[derive(Clone, Copy, Debug)]
struct Step {
    node: PoolOffset,
    number: usize,
    /// Items of that child.
    items: u64,
    is_last: bool,
}

/// The inner nodes on the way from the root to a leaf.
#[derive(Clone, Copy, Debug)]
struct Way {
    steps: [Step; LEVELS_MAX],
    len: usize,
}

/// The state in which a removal leaves a child.
#[derive(Clone, Copy)]
enum Below {
    /// It stays.
    Sound,
    /// It has little left, and may be joined with its right neighbour by this function.
    Lean(fn(&mut Mem<'_>, &mut Vec<Child>, usize) -> Result<(), Abort>),
    /// It has nothing left, and is freed.
    Empty,
    /// It is no longer part of the sequence.
    Taken,
}

/// Where an item is, or is to be put.
struct Spot {
    way: Way,
    leaf: Leaf,
    /// In the leaf.
    index: usize,
}

impl Way {
    fn new() -> Self {
        let none = Step { node: PoolOffset(0), number: 0, items: 0, is_last: true };
        Self { steps: [none; LEVELS_MAX], len: 0 }
    }

    /// Notes a step, and returns the child.
    fn go(
        &mut self,
        mem: &mut Mem<'_>,
        node: PoolOffset,
        number: usize,
        count: usize,
    ) -> Result<Child, Abort> {
        let child = load_child(mem, node, number)?;
        let step = Step { node, number, items: child.items, is_last: number + 1 == count };
        self.steps[self.len] = step;
        self.len += 1;
        Ok(child)
    }

    fn steps(&self) -> &[Step] {
        &self.steps[..self.len]
    }

    /// Whether it leads to the first leaf.
    fn is_first(&self) -> bool {
        self.steps().iter().all(|step| step.number == 0)
    }

    /// Whether it leads to the last leaf.
    fn is_last(&self) -> bool {
        self.steps().iter().all(|step| step.is_last)
    }
}

impl Spot {
    /// Whether nothing of the sequence comes before it.
    fn is_first(&self) -> bool {
        self.index == 0 && self.way.is_first()
    }

    /// Whether nothing of the sequence comes behind it.
    fn is_end(&self) -> bool {
        self.index >= self.leaf.items && self.way.is_last()
    }
}

impl Header {
    fn load(mem: &mut Mem<'_>, at: PoolOffset) -> Result<Self, Abort> {
        let mut bytes = [0; 32];
        mem.load(at, &mut bytes)?;
        let word = |index: usize| bytes.as_chunks::<8>().0[index];
        let [root, len, levels, sorted] = [0, 1, 2, 3].map(|index| u64::from_le_bytes(word(index)));
        match usize::try_from(levels) {
            Ok(levels) if levels <= LEVELS_MAX => {
                Ok(Self { root: PoolOffset(root), len, levels, is_sorted: sorted != 0 })
            }
            _ => Err(damaged(at, "a sequence of impossible height")),
        }
    }

    /// The way to the place before the item of an index: the end of a leaf rather than the start of the next, unless
    /// `is_item` asks for the item itself.
    fn find_index(&self, mem: &mut Mem<'_>, index: u64, is_item: bool) -> Result<Spot, Abort> {
        let (mut node, mut index, mut way) = (self.root, index, Way::new());
        // Within the children that are gone through already.
        let mut len = self.len;
        for _ in 0..self.levels {
            let count = child_count(mem, node)?;
            let child = if index == 0 {
                way.go(mem, node, 0, count)?
            } else if index + 1 >= len {
                let child = way.go(mem, node, count - 1, count)?;
                index = index.saturating_sub(len.saturating_sub(child.items));
                child
            } else {
                let mut number = 0;
                loop {
                    let items = load_child(mem, node, number)?.items;
                    if index < items + u64::from(!is_item) || number + 1 == count {
                        break;
                    }
                    (index, number) = (index - items, number + 1);
                }
                way.go(mem, node, number, count)?
            };
            (node, len) = (child.at, child.items);
        }
        Ok(Spot { way, leaf: Leaf::load(mem, node)?, index: index as usize })
    }

    /// The way to the leaf at an end, and that leaf.
    fn way_to_end(&self, mem: &mut Mem<'_>, end: End) -> Result<(Way, PoolOffset), Abort> {
        let (mut node, mut way) = (self.root, Way::new());
        for _ in 0..self.levels {
            let count = child_count(mem, node)?;
            let number = if end == End::First { 0 } else { count - 1 };
            node = way.go(mem, node, number, count)?.at;
        }
        Ok((way, node))
    }

    /// Sorted: the way to the place behind all items that are less than this one, or also those equal to it.
    fn find(&self, mem: &mut Mem<'_>, wanted: &[u8], or_equal: bool) -> Result<Spot, Abort> {
        let is_before = |order: Ordering| order.is_lt() || or_equal && order.is_eq();
        let (mut node, mut way) = (self.root, Way::new());
        let bound = bound_of(wanted);
        for level in (0..self.levels).rev() {
            let count = child_count(mem, node)?;
            // The last child that begins with something before the wanted item.
            let (mut low, mut high) = (1, count);
            while low < high {
                let middle = (low + high) / 2;
                let begins_before = match load_bound(mem, node, middle)?.cmp(&bound) {
                    Ordering::Less => true,
                    Ordering::Greater => false,
                    Ordering::Equal => {
                        let child = load_child(mem, node, middle)?;
                        is_before(compare_first(mem, child.at, level, wanted)?)
                    }
                };
                if begins_before { low = middle + 1 } else { high = middle }
            }
            node = way.go(mem, node, low - 1, count)?.at;
        }
        let leaf = Leaf::load(mem, node)?;
        let (mut at, mut index) = (0, 0);
        while index < leaf.items {
            let stored = leaf.stored(at);
            if !is_before(compare(mem, stored, wanted)?) {
                break;
            }
            (at, index) = (at + stored.len(), index + 1);
        }
        Ok(Spot { way, leaf, index })
    }
}

impl Seq {
    pub fn create(mem: &mut Mem<'_>, is_sorted: bool) -> Result<Self, Abort> {
        let root = Leaf::create(mem, 0, &[])?;
        Self::of(mem, Header { root, len: 0, levels: 0, is_sorted })
    }

    fn of(mem: &mut Mem<'_>, header: Header) -> Result<Self, Abort> {
        let Header { root, len, levels, is_sorted } = header;
        let at = mem.alloc(HEADER_BYTES, BlockKind::General)?;
        let words = [root.0, len, levels as u64, u64::from(is_sorted)];
        for (index, word) in words.into_iter().enumerate() {
            mem.store_u64(at.plus(index as u64 * 8), word)?;
        }
        Ok(Self { at })
    }

    pub fn len(self, mem: &mut Mem<'_>) -> Result<u64, Abort> {
        mem.load_u64(self.at.plus(8))
    }

    fn set_len(self, mem: &mut Mem<'_>, len: u64) -> Result<(), Abort> {
        mem.store_u64(self.at.plus(8), len)
    }

    fn set_root(self, mem: &mut Mem<'_>, root: PoolOffset, levels: usize) -> Result<(), Abort> {
        mem.store_u64(self.at, root.0)?;
        mem.store_u64(self.at.plus(16), levels as u64)
    }

    /// Puts an item before the one of that index.
    pub fn insert(self, mem: &mut Mem<'_>, index: u64, item: &[u8]) -> Result<(), Abort> {
        let header = Header::load(mem, self.at)?;
        if header.is_sorted {
            return self.insert_sorted(mem, item);
        }
        let stored = to_stored(mem, item)?;
        self.insert_stored(mem, index, &stored)
    }

    /// The same for an item as leaves have it, in a sequence that is not sorted.
    fn insert_stored(self, mem: &mut Mem<'_>, index: u64, stored: Stored<'_>) -> Result<(), Abort> {
        let mut header = Header::load(mem, self.at)?;
        if header.root.0 == 0 {
            header.root = Leaf::create(mem, 0, &[])?;
            self.set_root(mem, header.root, 0)?;
        }
        let spot = header.find_index(mem, index, false)?;
        self.insert_at(mem, &header, spot, stored)
    }

    /// Puts an item where its order has it.
    pub fn insert_sorted(self, mem: &mut Mem<'_>, item: &[u8]) -> Result<(), Abort> {
        let header = Header::load(mem, self.at)?;
        let spot = header.find(mem, item, false)?;
        let stored = to_stored(mem, item)?;
        self.insert_at(mem, &header, spot, &stored)
    }

    /// Puts an item at the end, behind which it belongs if the sequence is sorted.
    pub fn push(self, mem: &mut Mem<'_>, item: &[u8]) -> Result<(), Abort> {
        let header = Header::load(mem, self.at)?;
        if header.root.0 == 0 {
            return self.insert(mem, header.len, item);
        }
        let stored = to_stored(mem, item)?;
        let (way, at) = header.way_to_end(mem, End::Last)?;
        let head = Head::load(mem, at)?;
        if head.end() + stored.len() > LEAF_BYTES {
            let leaf = Leaf::load_with(mem, at, head)?;
            let spot = Spot { index: leaf.items, way, leaf };
            return self.insert_at(mem, &header, spot, &stored);
        }
        // The leaf's items need not be looked at.
        mem.store(leaf_place(at, head.end()), &stored)?;
        let used = head.used + stored.len();
        Head { items: head.items + 1, used, ..head }.store(mem, at)?;
        self.grow(mem, &header, way.steps(), (1, None), (false, true))
    }

    fn insert_at(
        self,
        mem: &mut Mem<'_>,
        header: &Header,
        spot: Spot,
        stored: Stored<'_>,
    ) -> Result<(), Abort> {
        let ends = (spot.is_first(), spot.is_end());
        let Spot { way, mut leaf, index } = spot;
        let place = leaf.place(index);
        let new = match leaf.insert(mem, place, stored)? {
            true => None,
            false => {
                // What is put at the end, or at the beginning, leaves a full leaf behind.
                let half = match (ends.1, index) {
                    (true, _) => leaf.used() - stored.len(),
                    (false, 0) => stored.len(),
                    _ => leaf.used() / 2,
                };
                let (at, items, first) = leaf.divide(mem, half)?;
                // A sequence that is not sorted has no bounds.
                let bound = if header.is_sorted { bound_of(&first) } else { 0 };
                Some(Child { at, items: items as u64, bound })
            }
        };
        self.grow(mem, header, way.steps(), (1, new), ends)
    }

    /// There are `added` items more below the last of these steps, and a new right neighbour of its child where that was
    /// divided. `ends` tells whether they are the sequence's first or last ones.
    fn grow(
        self,
        mem: &mut Mem<'_>,
        header: &Header,
        steps: &[Step],
        (added, mut new): (u64, Option<Child>),
        ends: (bool, bool),
    ) -> Result<(), Abort> {
        for step in steps.iter().rev() {
            let items = step.items + added;
            new = match new {
                None => {
                    store_items(mem, step.node, step.number, items)?;
                    None
                }
                Some(right) => {
                    let old = load_children(mem, step.node)?;
                    let mut children = old.clone();
                    children[step.number].items = items.saturating_sub(right.items);
                    children.insert(step.number + 1, right);
                    store_or_divide(mem, step.node, &old, children, ends)?
                }
            };
        }
        let len = header.len + added;
        self.set_len(mem, len)?;
        if let Some(right) = new {
            let left = Child { at: header.root, items: len - right.items, bound: 0 };
            let root = new_inner(mem, &[left, right])?;
            self.set_root(mem, root, header.levels + 1)?;
        }
        Ok(())
    }

    /// Takes an item out.
    pub fn remove(self, mem: &mut Mem<'_>, index: u64) -> Result<Vec<u8>, Abort> {
        let header = Header::load(mem, self.at)?;
        if index >= header.len {
            return Err(damaged(self.at, "a sequence without the item that it should have"));
        }
        let spot = header.find_index(mem, index, true)?;
        self.remove_at(mem, &header, spot)
    }

    /// Takes an item out of the order.
    pub fn remove_sorted(self, mem: &mut Mem<'_>, item: &[u8]) -> Result<(), Abort> {
        let header = Header::load(mem, self.at)?;
        let mut spot = header.find(mem, item, true)?;
        let lacks = || damaged(self.at, "a sorted sequence without an item that it should have");
        spot.index = spot.index.checked_sub(1).ok_or_else(lacks)?;
        let found = spot.leaf.stored(spot.leaf.place(spot.index));
        if !compare(mem, found, item)?.is_eq() {
            return Err(lacks());
        }
        self.remove_at(mem, &header, spot).map(drop)
    }

    fn remove_at(self, mem: &mut Mem<'_>, header: &Header, spot: Spot) -> Result<Vec<u8>, Abort> {
        let Spot { way, mut leaf, index } = spot;
        let stored = leaf.remove(mem, index)?;
        let below = match () {
            () if leaf.items == 0 => Below::Empty,
            () if leaf.used() < LEAN_BYTES => Below::Lean(join_leaves),
            () => Below::Sound,
        };
        self.shrink(mem, header, way.steps(), (1, below))?;
        let item = resolve(mem, &stored)?;
        free_stored(mem, &stored)?;
        Ok(item)
    }

    /// There are `gone` items less below the last of these steps, which leaves its child as it says.
    fn shrink(
        self,
        mem: &mut Mem<'_>,
        header: &Header,
        steps: &[Step],
        (gone, mut below): (u64, Below),
    ) -> Result<(), Abort> {
        for step in steps.iter().rev() {
            let items = step.items.saturating_sub(gone);
            if let Below::Sound = below {
                store_items(mem, step.node, step.number, items)?;
                continue;
            }
            let old = load_children(mem, step.node)?;
            let mut children = old.clone();
            children[step.number].items = items;
            match below {
                Below::Lean(join) => join(mem, &mut children, step.number)?,
                Below::Taken => drop(children.remove(step.number)),
                // SEQ-2.
                _ => mem.free(children.remove(step.number).at)?,
            }
            below = if children.is_empty() { Below::Empty } else { Below::Sound };
            if !children.is_empty() {
                store_children(mem, step.node, &old, &children)?;
            }
        }
        self.set_len(mem, header.len.saturating_sub(gone))?;
        let (mut root, mut levels) = (header.root, header.levels);
        match below {
            Below::Taken => (root, levels) = (PoolOffset(0), 0),
            Below::Empty if levels > 0 => {
                mem.free(root)?;
                (root, levels) = (PoolOffset(0), 0);
            }
            _ => {}
        }
        while levels > 0 && child_count(mem, root)? == 1 {
            let only = load_child(mem, root, 0)?;
            mem.free(root)?;
            (root, levels) = (only.at, levels - 1);
        }
        if (root, levels) != (header.root, header.levels) {
            self.set_root(mem, root, levels)?;
        }
        Ok(())
    }

    /// Puts a leaf at an end of a sequence that is not sorted. Its items count as the sequence's from here on.
    fn attach(self, mem: &mut Mem<'_>, leaf: Child, end: End) -> Result<(), Abort> {
        let header = Header::load(mem, self.at)?;
        let ends = (end == End::First, end == End::Last);
        if header.len == 0 {
            if header.root.0 != 0 {
                mem.free(header.root)?;
            }
            self.set_root(mem, leaf.at, 0)?;
            return self.set_len(mem, leaf.items);
        }
        let (way, only) = header.way_to_end(mem, end)?;
        let Some((last, above)) = way.steps().split_last() else {
            let only = Child { at: only, items: header.len, bound: 0 };
            let children = if ends.0 { [leaf, only] } else { [only, leaf] };
            let root = new_inner(mem, &children)?;
            self.set_root(mem, root, 1)?;
            return self.set_len(mem, header.len + leaf.items);
        };
        let old = load_children(mem, last.node)?;
        let mut children = old.clone();
        children.insert(if ends.0 { 0 } else { old.len() }, leaf);
        let new = store_or_divide(mem, last.node, &old, children, ends)?;
        self.grow(mem, &header, above, (leaf.items, new), ends)
    }

    /// Takes the leaf at an end of the sequence out. `None` without items.
    fn detach(self, mem: &mut Mem<'_>, end: End) -> Result<Option<Child>, Abort> {
        let header = Header::load(mem, self.at)?;
        if header.len == 0 {
            return Ok(None);
        }
        let (way, at) = header.way_to_end(mem, end)?;
        let items = way.steps().last().map_or(header.len, |step| step.items);
        self.shrink(mem, &header, way.steps(), (items, Below::Taken))?;
        Ok(Some(Child { at, items, bound: 0 }))
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
        let header = Header::load(mem, self.at)?;
        let end = from.saturating_add(count).min(header.len);
        if from < end {
            scan_below(mem, header.root, header.levels, (from, end), &mut |mem, at, from, end| {
                show_leaf(mem, at, (from, end), show)
            })?;
        }
        Ok(())
    }

    /// Sorted: how many items are less than this one, or also those equal to it.
    pub fn rank(self, mem: &mut Mem<'_>, wanted: &[u8], or_equal: bool) -> Result<u64, Abort> {
        let header = Header::load(mem, self.at)?;
        let Spot { way, index, .. } = header.find(mem, wanted, or_equal)?;
        let mut before = index as u64;
        for step in way.steps() {
            before += sum(&load_children(mem, step.node)?[..step.number]);
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
        let header = Header::load(mem, self.at)?;
        let Header { root, len, levels, is_sorted } = header;
        if count >= len {
            return Err(damaged(self.at, "a sequence shorter than it should be"));
        }
        let front = match cut_below(mem, root, levels, count)? {
            Some(front) => front,
            None => return Self::create(mem, is_sorted),
        };
        self.set_len(mem, len - count)?;
        Self::of(mem, Header { root: front.at, len: front.items, levels, is_sorted })
    }

    /// Frees a sequence without items.
    pub fn free_empty(self, mem: &mut Mem<'_>) -> Result<(), Abort> {
        let root = Header::load(mem, self.at)?.root;
        if root.0 != 0 {
            mem.free(root)?;
        }
        mem.free(self.at)
    }
}

/// How the first item below a node compares to another.
fn compare_first(
    mem: &mut Mem<'_>,
    mut node: PoolOffset,
    levels: usize,
    wanted: &[u8],
) -> Result<Ordering, Abort> {
    for _ in 0..levels {
        node = load_child(mem, node, 0)?.at;
    }
    let leaf = Leaf::load(mem, node)?;
    compare(mem, leaf.stored(0), wanted)
}

/// Stores the children of an inner node, one more than it had. Returns its new right neighbour, if it was divided.
fn store_or_divide(
    mem: &mut Mem<'_>,
    node: PoolOffset,
    old: &[Child],
    mut children: Vec<Child>,
    (is_first, is_last): (bool, bool),
) -> Result<Option<Child>, Abort> {
    if children.len() <= CHILDREN_MAX {
        store_children(mem, node, old, &children)?;
        return Ok(None);
    }
    let cut = match () {
        () if is_last => children.len() - LEFT_AT_END,
        () if is_first => LEFT_AT_END,
        () => children.len() / 2,
    };
    let right = children.split_off(cut);
    store_children(mem, node, old, &children)?;
    let at = new_inner(mem, &right)?;
    Ok(Some(Child { at, items: sum(&right), bound: right[0].bound }))
}

/// Takes the first `count` items, fewer than there are, out of a node: they become a node of the same
/// level.
fn cut_below(
    mem: &mut Mem<'_>,
    node: PoolOffset,
    levels: usize,
    count: u64,
) -> Result<Option<Child>, Abort> {
    if count == 0 {
        return Ok(None);
    }
    if levels == 0 {
        let mut leaf = Leaf::load(mem, node)?;
        let front = leaf.remove_front(mem, count as usize)?;
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
    let right = Leaf::load(mem, next.at)?;
    if right.used() > JOINED_BYTES_MAX || leaf.used() >= LEAN_BYTES {
        return Ok(());
    }
    leaf.append(mem, &right)?;
    mem.free(next.at)?;
    children[number].items += next.items;
    children.remove(number + 1);
    Ok(())
}

/// Shows a leaf, and the indexes of items in it: from the first to the end.
type ShowLeaf<'s> = dyn FnMut(&mut Mem<'_>, PoolOffset, u64, u64) -> Result<bool, Abort> + 's;

/// Shows the leaves with items from one index to another; `false` when `show` has seen enough.
fn scan_below(
    mem: &mut Mem<'_>,
    node: PoolOffset,
    levels: usize,
    (from, end): (u64, u64),
    show: &mut ShowLeaf<'_>,
) -> Result<bool, Abort> {
    if levels == 0 {
        return show(mem, node, from, end);
    }
    let mut first = 0;
    for number in 0..child_count(mem, node)? {
        if first >= end {
            break;
        }
        let child = load_child(mem, node, number)?;
        let last = first + child.items;
        if last > from {
            let range = (from.saturating_sub(first), end.min(last) - first);
            if !scan_below(mem, child.at, levels - 1, range, show)? {
                return Ok(false);
            }
        }
        first = last;
    }
    Ok(true)
}

/// Shows items of a leaf; `false` when `show` has seen enough.
fn show_leaf(
    mem: &mut Mem<'_>,
    at: PoolOffset,
    (from, end): (u64, u64),
    show: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<bool, Abort> {
    let leaf = Leaf::load(mem, at)?;
    let mut at = leaf.place(from as usize);
    for _ in from..end.min(leaf.items as u64) {
        let stored = leaf.stored(at);
        at += stored.len();
        if !show_stored(mem, stored, show)? {
            return Ok(false);
        }
    }
    Ok(true)
}
