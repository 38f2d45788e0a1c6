//! Nodes of a sequence: leaves in volatile memory, and children by single words.
//!
//! A leaf that was an [end](super::ends) of a list has a gap before its items; its head says how long.

use outlast::{Abort, BlockKind, PoolOffset};

use crate::store::mem::{Mem, damaged, load_vec, store_changed};
use crate::store::size::rounded;

pub(in crate::store) const NODE_BYTES: usize = 512;
const HEAD_BYTES: usize = 8;
/// Bytes of a leaf's items.
pub(super) const LEAF_BYTES: usize = NODE_BYTES - HEAD_BYTES;
const CHILD_BYTES: usize = 24;
pub(super) const CHILDREN_MAX: usize = LEAF_BYTES / CHILD_BYTES;
const INLINE_MAX: usize = 160;
const LONG: u8 = 254;
const LONG_BYTES: usize = 13;
/// A leaf as it is before it is divided has one item more than fits.
const OVERFULL_BYTES: usize = LEAF_BYTES + 1 + INLINE_MAX;

/// An inner node's item for a child.
#[derive(Clone, Copy, Debug)]
pub(super) struct Child {
    pub at: PoolOffset,
    pub items: u64,
    pub bound: u64,
}

/// The bytes of one item in a leaf.
pub(super) type Stored<'a> = &'a [u8];

/// The head of a leaf.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Head {
    pub items: usize,
    /// Bytes of the items.
    pub used: usize,
    /// Bytes of the gap before them.
    pub start: usize,
}

impl Head {
    /// As it stands in a leaf, or for an end of a list in its header.
    pub fn word(self) -> u64 {
        self.items as u64 | (self.used as u64) << 16 | (self.start as u64) << 32
    }

    /// The head in a word of a leaf, or of a header.
    pub fn of_word(word: u64, at: PoolOffset) -> Result<Self, Abort> {
        let part = |shift: u32| (word >> shift & 0xFFFF) as usize;
        let head = Self { items: part(0), used: part(16), start: part(32) };
        match head.end() > LEAF_BYTES {
            true => Err(damaged(at, "a leaf that is fuller than it can be")),
            false => Ok(head),
        }
    }

    pub fn load(mem: &mut Mem<'_>, leaf: PoolOffset) -> Result<Self, Abort> {
        Self::of_word(mem.load_u64(leaf)?, leaf)
    }

    pub fn store(self, mem: &mut Mem<'_>, leaf: PoolOffset) -> Result<(), Abort> {
        mem.store_u64(leaf, self.word())
    }

    /// The bytes up to the last item's end.
    pub fn end(self) -> usize {
        self.start + self.used
    }
}

/// The bytes of a leaf from one of its place on.
pub(super) fn leaf_place(leaf: PoolOffset, place: usize) -> PoolOffset {
    leaf.plus((HEAD_BYTES + place) as u64)
}

/// An item that is to be stored in a leaf.
pub(super) struct NewItem {
    bytes: [u8; 1 + INLINE_MAX],
    len: usize,
}

impl std::ops::Deref for NewItem {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

/// Bytes of the stored item that begins there.
pub(super) fn stored_bytes(bytes: &[u8]) -> usize {
    match bytes.first() {
        None => 0,
        Some(&LONG) => LONG_BYTES,
        Some(len) => 1 + usize::from(*len),
    }
}

/// What a node leads to.
pub(in crate::store) enum Parts {
    Leaf {
        items: u64,
        /// Blocks of items that do not lie in the leaf, with the bytes that they use.
        long: Vec<(PoolOffset, u64)>,
    },
    /// Children, and how many items each is said to have.
    Inner(Vec<(PoolOffset, u64)>),
}

/// The parts of a node `levels` above the leaves.
pub(in crate::store) fn parts(
    mem: &mut Mem<'_>,
    at: PoolOffset,
    levels: usize,
) -> Result<Parts, Abort> {
    if levels > 0 {
        let children = load_children(mem, at)?;
        return Ok(Parts::Inner(children.iter().map(|child| (child.at, child.items)).collect()));
    }
    let leaf = Leaf::load(mem, at)?;
    match leaf.count() == leaf.items {
        true => Ok(Parts::Leaf { items: leaf.items as u64, long: leaf.long_blocks() }),
        false => Err(damaged(at, "a leaf whose bytes hold another number of items")),
    }
}

/// A leaf's items.
pub(super) struct Leaf {
    pub at: PoolOffset,
    pub items: usize,
    used: usize,
    /// Bytes of the gap before the items.
    start: usize,
    bytes: [u8; OVERFULL_BYTES],
}

impl Leaf {
    pub fn load(mem: &mut Mem<'_>, at: PoolOffset) -> Result<Self, Abort> {
        let head = Head::load(mem, at)?;
        Self::load_with(mem, at, head)
    }

    /// A leaf whose head is known.
    pub fn load_with(mem: &mut Mem<'_>, at: PoolOffset, head: Head) -> Result<Self, Abort> {
        let Head { items, used, start } = head;
        let mut bytes = [0; OVERFULL_BYTES];
        mem.load(leaf_place(at, start), &mut bytes[..used])?;
        Ok(Self { at, items, used, start, bytes })
    }

    pub fn create(mem: &mut Mem<'_>, items: usize, bytes: &[u8]) -> Result<PoolOffset, Abort> {
        let at = mem.alloc(NODE_BYTES as u64, BlockKind::General)?;
        Head { items, used: bytes.len(), start: 0 }.store(mem, at)?;
        mem.store(leaf_place(at, 0), bytes)?;
        Ok(at)
    }

    /// The items in its bytes.
    fn all(&self) -> impl Iterator<Item = Stored<'_>> {
        let mut place = 0;
        std::iter::from_fn(move || {
            let stored = self.stored(place);
            place += stored.len();
            (!stored.is_empty()).then_some(stored)
        })
    }

    /// How many items its bytes hold.
    pub fn count(&self) -> usize {
        self.all().count()
    }

    /// Blocks of items that do not lie in the leaf, with the bytes that they use.
    pub fn long_blocks(&self) -> Vec<(PoolOffset, u64)> {
        let long = self.all().filter_map(|stored| match stored {
            [LONG, rest @ ..] => Some(long_parts(rest)),
            _ => None,
        });
        long.map(|(len, block)| (block, len as u64)).collect()
    }

    fn store_head(&self, mem: &mut Mem<'_>) -> Result<(), Abort> {
        Head { items: self.items, used: self.used, start: self.start }.store(mem, self.at)
    }

    /// Stores all items without a gap before them.
    fn store_all(&mut self, mem: &mut Mem<'_>) -> Result<(), Abort> {
        self.start = 0;
        self.store_head(mem)?;
        mem.store(self.place_at(0), &self.bytes[..self.used])
    }

    /// Where an item begins.
    pub fn place(&self, index: usize) -> usize {
        (0..index).fold(0, |at, _| at + stored_bytes(&self.bytes[at.min(self.used)..self.used]))
    }

    pub fn stored(&self, at: usize) -> Stored<'_> {
        let rest = &self.bytes[at.min(self.used)..self.used];
        &rest[..stored_bytes(rest).min(rest.len())]
    }

    /// Bytes of its items.
    pub fn used(&self) -> usize {
        self.used
    }

    fn place_at(&self, place: usize) -> PoolOffset {
        leaf_place(self.at, self.start + place)
    }

    /// Puts an item in. If there is room it is stored; else the leaf is overfull, and is to be divided.
    pub fn insert(
        &mut self,
        mem: &mut Mem<'_>,
        place: usize,
        stored: Stored<'_>,
    ) -> Result<bool, Abort> {
        let (place, len, old) = (place.min(self.used), stored.len(), self.used);
        self.bytes.copy_within(place..old, place + len);
        self.bytes[place..place + len].copy_from_slice(stored);
        (self.items, self.used) = (self.items + 1, old + len);
        if self.used > LEAF_BYTES {
            return Ok(false);
        }
        if self.start + self.used > LEAF_BYTES {
            self.store_all(mem)?;
            return Ok(true);
        }
        self.store_head(mem)?;
        // The bytes that stood from the place on are those behind the item now.
        let (before, now) = (&self.bytes[place + len..self.used], &self.bytes[place..self.used]);
        store_changed(mem, self.place_at(place), before, now)?;
        Ok(true)
    }

    /// Divides an overfull leaf: it keeps the first items, and those from about `half` of its bytes on are the
    /// new leaf's. Returns that, how many items it has, and the first of them.
    pub fn divide(
        &mut self,
        mem: &mut Mem<'_>,
        half: usize,
    ) -> Result<(PoolOffset, usize, Vec<u8>), Abort> {
        let (mut cut, mut items) = (0, 0);
        while items + 1 < self.items && (items == 0 || cut < half) {
            cut += self.stored(cut).len();
            items += 1;
        }
        let right = self.bytes[cut..self.used].to_vec();
        let right_items = self.items - items;
        (self.items, self.used) = (items, cut);
        let first = resolve(mem, &right[..stored_bytes(&right).min(right.len())])?;
        if self.start + cut > LEAF_BYTES {
            self.store_all(mem)?;
        } else {
            let before = Self::load(mem, self.at)?;
            self.store_head(mem)?;
            store_changed(mem, self.place_at(0), &before.bytes[..before.used], &self.bytes[..cut])?;
        }
        Ok((Self::create(mem, right_items, &right)?, right_items, first))
    }

    /// Takes an item out, and returns what stood for it.
    pub fn remove(&mut self, mem: &mut Mem<'_>, index: usize) -> Result<Vec<u8>, Abort> {
        let place = self.place(index);
        let stored = self.stored(place).to_vec();
        self.cut(mem, place, stored.len(), 1)?;
        Ok(stored)
    }

    /// Takes the first items out, and returns what stood for them.
    pub fn remove_front(&mut self, mem: &mut Mem<'_>, items: usize) -> Result<Vec<u8>, Abort> {
        let front = self.bytes[..self.place(items)].to_vec();
        self.cut(mem, 0, front.len(), items)?;
        Ok(front)
    }

    fn cut(
        &mut self,
        mem: &mut Mem<'_>,
        place: usize,
        len: usize,
        items: usize,
    ) -> Result<(), Abort> {
        let end = self.used;
        self.items = self.items.saturating_sub(items);
        self.used = end - len;
        self.store_head(mem)?;
        let (before, now) = (&self.bytes[place..end], &self.bytes[place + len..end]);
        store_changed(mem, self.place_at(place), before, now)?;
        self.bytes.copy_within(place + len..end, place);
        Ok(())
    }

    /// Appends the items of another leaf, for which there is room.
    pub fn append(&mut self, mem: &mut Mem<'_>, right: &Self) -> Result<(), Abort> {
        let end = self.used + right.used;
        self.bytes[self.used..end].copy_from_slice(&right.bytes[..right.used]);
        let place = self.place_at(self.used);
        (self.items, self.used) = (self.items + right.items, end);
        if self.start + end > LEAF_BYTES {
            return self.store_all(mem);
        }
        mem.store(place, &right.bytes[..right.used])?;
        self.store_head(mem)
    }
}

/// Bytes of an item that is stored.
pub(super) fn resolve(mem: &mut Mem<'_>, stored: Stored<'_>) -> Result<Vec<u8>, Abort> {
    resolve_start(mem, stored, usize::MAX)
}

/// Up to `wanted` bytes of an item that is stored.
pub(super) fn resolve_start(
    mem: &mut Mem<'_>,
    stored: Stored<'_>,
    wanted: usize,
) -> Result<Vec<u8>, Abort> {
    match stored {
        [LONG, rest @ ..] => {
            let (len, at) = long_parts(rest);
            load_vec(mem, at, len.min(wanted))
        }
        [_, item @ ..] => Ok(item[..item.len().min(wanted)].to_vec()),
        [] => Ok(Vec::new()),
    }
}

/// How an item that is stored compares to another.
pub(super) fn compare(
    mem: &mut Mem<'_>,
    stored: Stored<'_>,
    wanted: &[u8],
) -> Result<std::cmp::Ordering, Abort> {
    Ok(match stored {
        // One byte more than is wanted decides the order.
        [LONG, ..] => resolve_start(mem, stored, wanted.len() + 1)?.as_slice().cmp(wanted),
        [_, item @ ..] => item.cmp(wanted),
        [] => [].as_slice().cmp(wanted),
    })
}

/// Shows an item that is stored.
pub(super) fn show_stored(
    mem: &mut Mem<'_>,
    stored: Stored<'_>,
    show: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<bool, Abort> {
    Ok(match stored {
        [LONG, ..] => show(&resolve(mem, stored)?),
        [_, item @ ..] => show(item),
        [] => false,
    })
}

fn long_parts(rest: &[u8]) -> (usize, PoolOffset) {
    let len = rest.get(..4).and_then(|len| len.try_into().ok()).map_or(0, u32::from_le_bytes);
    let at = rest.get(4..12).and_then(|at| at.try_into().ok()).map_or(0, u64::from_le_bytes);
    (len as usize, PoolOffset(at))
}

pub(super) fn to_stored(mem: &mut Mem<'_>, item: &[u8]) -> Result<NewItem, Abort> {
    let mut bytes = [0; 1 + INLINE_MAX];
    let len = if item.len() <= INLINE_MAX {
        bytes[0] = item.len() as u8;
        bytes[1..=item.len()].copy_from_slice(item);
        1 + item.len()
    } else {
        let at = mem.alloc(rounded(item.len() as u64), BlockKind::General)?;
        mem.store(at, item)?;
        bytes[0] = LONG;
        bytes[1..5].copy_from_slice(&(item.len() as u32).to_le_bytes());
        bytes[5..LONG_BYTES].copy_from_slice(&at.0.to_le_bytes());
        LONG_BYTES
    };
    Ok(NewItem { bytes, len })
}

pub(super) fn free_stored(mem: &mut Mem<'_>, stored: Stored<'_>) -> Result<(), Abort> {
    match stored {
        [LONG, rest @ ..] => mem.free(long_parts(rest).1),
        _ => Ok(()),
    }
}

/// The bytes of an item's order.
pub(super) fn bound_of(item: &[u8]) -> u64 {
    item.first_chunk().map_or(0, |bytes| u64::from_be_bytes(*bytes))
}

/// Children of an inner node.
pub(super) fn child_count(mem: &mut Mem<'_>, node: PoolOffset) -> Result<usize, Abort> {
    match (mem.load_u64(node)? & 0xFFFF) as usize {
        count @ 1..=CHILDREN_MAX => Ok(count),
        _ => Err(damaged(node, "an inner node with an impossible number of children")),
    }
}

fn child_at(node: PoolOffset, number: usize) -> PoolOffset {
    node.plus((HEAD_BYTES + number * CHILD_BYTES) as u64)
}

/// One child, without its bound.
pub(super) fn load_child(
    mem: &mut Mem<'_>,
    node: PoolOffset,
    number: usize,
) -> Result<Child, Abort> {
    let at = child_at(node, number);
    Ok(Child { at: PoolOffset(mem.load_u64(at)?), items: mem.load_u64(at.plus(8))?, bound: 0 })
}

/// The bound of one child.
pub(super) fn load_bound(mem: &mut Mem<'_>, node: PoolOffset, number: usize) -> Result<u64, Abort> {
    mem.load_u64(child_at(node, number).plus(16))
}

/// Stores how many items a child has.
pub(super) fn store_items(
    mem: &mut Mem<'_>,
    node: PoolOffset,
    number: usize,
    items: u64,
) -> Result<(), Abort> {
    mem.store_u64(child_at(node, number).plus(8), items)
}

pub(super) fn load_children(mem: &mut Mem<'_>, node: PoolOffset) -> Result<Vec<Child>, Abort> {
    let count = child_count(mem, node)?;
    let mut bytes = [0; LEAF_BYTES];
    let bytes = &mut bytes[..count * CHILD_BYTES];
    mem.load(node.plus(HEAD_BYTES as u64), bytes)?;
    let word = |word: &[u8; 8]| u64::from_le_bytes(*word);
    let child = |words: &[[u8; 8]]| Child {
        at: PoolOffset(word(&words[0])),
        items: word(&words[1]),
        bound: word(&words[2]),
    };
    Ok(bytes.as_chunks::<8>().0.chunks_exact(3).map(child).collect())
}

fn children_bytes(children: &[Child]) -> Vec<u8> {
    let words = children.iter().flat_map(|child| [child.at.0, child.items, child.bound]);
    words.flat_map(u64::to_le_bytes).collect()
}

pub(super) fn store_children(
    mem: &mut Mem<'_>,
    node: PoolOffset,
    old: &[Child],
    new: &[Child],
) -> Result<(), Abort> {
    if old.len() != new.len() {
        mem.store_u64(node, new.len() as u64)?;
    }
    let (old, new) = (children_bytes(old), children_bytes(new));
    store_changed(mem, node.plus(HEAD_BYTES as u64), &old, &new)
}

pub(super) fn new_inner(mem: &mut Mem<'_>, children: &[Child]) -> Result<PoolOffset, Abort> {
    let at = mem.alloc(NODE_BYTES as u64, BlockKind::General)?;
    mem.store_u64(at, children.len() as u64)?;
    mem.store(at.plus(HEAD_BYTES as u64), &children_bytes(children))?;
    Ok(at)
}

pub(super) fn sum(children: &[Child]) -> u64 {
    children.iter().map(|child| child.items).sum()
}
