//! The B+tree: leaves of four lines, inner nodes of twelve.
//!
//! A leaf's slots are in no order; one word orders them. So an insertion announces a slot (16
//! bytes) and the order word, a removal the order word alone, and the leaf is still searched and
//! scanned in order. Every key has its first 8 bytes beside its slot, as a number, so keys of
//! up to 8 bytes are compared without leaving the node, and longer ones only where those bytes
//! are equal; a point search of longer keys compares 16 bits of their hashes first. Inner nodes
//! are sorted arrays, heads first: a search loads four lines of heads and one of children.
//!
//! A leaf of [small pairs](Placement::Inline) has its keys in two lines and its values in two
//! others, so that a search needs the former alone; a removal stores the order word, an insertion
//! a key and a value beside.
//!
//! A full node is split into itself and a fresh one, of which only the changed words are
//! announced; a separator is the shortest prefix that tells its neighbours apart. Removal is
//! lazy: a leaf is merged with a neighbour when it is down to a few keys and both fit into two
//! thirds of one, or when it is empty, and an inner node likewise, so that a key that comes back
//! does not split what was just merged.
//!
//! Invariants, checked by the walk:
//! 1. Keys ascend, through each leaf and from leaf to leaf along the links, and lie between the
//!    separators that lead to them: not below the left one, below the right one.
//! 2. Heads and slots say of each key what it is.
//! 3. All leaves are at the height that the header says, and only a leaf that is the root is
//!    empty; inner nodes have two children or more.
//! 4. An order word is a permutation of the slots.

mod before;
mod insert;
mod node;
mod pairs;
mod remove;
mod walk;

use std::cmp::Ordering;

use self::node::{Form, Leaf, SearchKey};
use super::entry::{self, Blocks, Entry};
use super::layout::*;
use super::placement::{Kept, Placement};
use super::{Chain, Dictionary, damaged};
use crate::{Abort, BlockKind, ByteRange, PoolOffset, Transact};

/// Entries behind the one that a scan visits whose lines are all fetched.
const ENTRIES_AHEAD: usize = 4;

/// A persistent B+tree with byte strings as keys, in their lexicographic order, and values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ByteTree {
    root: PoolOffset,
}

impl ByteTree {
    /// An empty tree.
    ///
    /// # Errors
    /// Those of the transaction; [`Abort::Cancelled`] for an inline placement of longer keys or
    /// values than it takes.
    pub fn create<T: Transact>(tx: &mut T, placement: Placement) -> Result<Self, Abort> {
        let (kept, [placement, key_bytes, value_bytes]) = placement.checked()?;
        let root = tx.alloc(HEADER_BYTES, BlockKind::General)?;
        let leaf = tx.alloc(LEAF_BYTES as u64, BlockKind::General)?;
        let mut header = [0; HEADER_BYTES as usize];
        set_word(&mut header, 0, TREE_MAGIC);
        set_word(&mut header, TREE_ROOT_AT, leaf.0);
        header[TREE_PLACEMENT_AT] = placement;
        header[TREE_KEY_BYTES_AT] = key_bytes;
        header[TREE_VALUE_BYTES_AT] = value_bytes;
        tx.store(root, &header)?;
        tx.store(leaf, Leaf::new(Form::of(kept)).bytes())?;
        Ok(Self { root })
    }

    /// The tree whose header is at `root`.
    ///
    /// # Errors
    /// [`Abort::Damaged`] when there is none.
    pub fn open<T: Transact>(tx: &mut T, root: PoolOffset) -> Result<Self, Abort> {
        let tree = Self { root };
        tree.header(tx)?;
        Ok(tree)
    }

    /// Where the header is, for [`Transact::set_root`].
    pub fn root(self) -> PoolOffset {
        self.root
    }

    /// Calls `visit` with up to `limit` keys and the places of their values, in the order of
    /// keys, from the first key that is not below `from` on. `visit` may load and store values
    /// but not change the tree.
    ///
    /// # Errors
    /// Those of the transaction, [`Abort::Damaged`], and whatever `visit` fails with.
    pub fn scan<T: Transact>(
        self,
        tx: &mut T,
        from: &[u8],
        limit: u64,
        mut visit: impl FnMut(&mut T, &[u8], ByteRange) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        let header = self.header(tx)?;
        let search = SearchKey::new(from);
        let mut at = self.descend(tx, &header, &search, &mut Path::default())?;
        let mut leaf = Leaf::new(Form::of(header.kept));
        leaf.read(tx, at)?;
        let mut position = lower_bound(tx, &header, &leaf, &search)?;
        let mut left = limit;
        let (mut key, mut last) = (Vec::new(), Vec::new());
        let (mut leaves, mut last_head) = (Chain::from(at), 0);
        let mut is_first = true;
        leaf.will_open(tx, position, left);
        // Entries of the leaf before this position are fetched whole.
        let mut fetched = 0;
        while left > 0 {
            if position == leaf.order().len() {
                match leaf.next() {
                    PoolOffset(0) => break,
                    next => at = next,
                }
                leaves.follow(at)?;
                leaf.read(tx, at)?;
                if position > 0 {
                    // Compared with the next one.
                    std::mem::swap(&mut key, &mut last);
                }
                position = 0;
                leaf.will_open(tx, position, left);
                fetched = 0;
                continue;
            }
            let head = leaf.head(leaf.order().slot(position));
            let (entry_bytes, value) = open_item(tx, &header, (at, &leaf), position, &mut key)?;
            let is_before = match (is_first, position) {
                (true, _) => key.as_slice() < from,
                (false, 0) => key <= last,
                (false, _) => head < last_head,
            };
            last_head = head;
            if is_before {
                // Invariant 1, also where damage has tied the leaves into a ring.
                return Err(damaged(at, "keys out of order in a tree"));
            }
            is_first = false;
            position += 1;
            left -= 1;
            if entry_bytes > 0 {
                // Neighbours are mostly as long.
                let rest = (leaf.order().len() - position).min(left as usize);
                let until = position + rest.min(ENTRIES_AHEAD);
                for position in fetched.max(position)..until {
                    let next = leaf.slot_in_order(position).at();
                    tx.will_read(&[ByteRange::new(next, entry_bytes)]);
                }
                fetched = until;
            }
            visit(tx, &key, value)?;
        }
        Ok(())
    }

    /// Adds each of these pairs whose key is not there; how many were added. Keys ascend. Those
    /// that come to lie in one leaf are announced in one call, which is what a caller with many
    /// neighbours gains over adding them one by one.
    ///
    /// # Errors
    /// As [`insert`](Dictionary::insert).
    pub fn add_ascending<'p, T: Transact>(
        self,
        tx: &mut T,
        pairs: impl IntoIterator<Item = (&'p [u8], &'p [u8])>,
    ) -> Result<u64, Abort> {
        let mut pairs = pairs.into_iter().peekable();
        let mut added = 0;
        while let Some(&(key, value)) = pairs.peek() {
            let header = self.header(tx)?;
            let Kept::Entries(blocks) = header.kept else {
                added += u64::from(self.add(tx, key, value)?);
                pairs.next();
                continue;
            };
            let mut path = Path::default();
            let at = self.descend(tx, &header, &SearchKey::new(key), &mut path)?;
            let joined = insert::join_leaf(tx, (&header, blocks), at, |tx, leaf| {
                let Some(&(key, value)) = pairs.peek() else { return Ok(None) };
                let search = SearchKey::new(key);
                let belongs = leaf.order().len() < LEAF_SLOTS
                    && self.descend(tx, &header, &search, &mut path)? == at
                    && find_in_leaf(tx, blocks, leaf, &search)?.is_none();
                if !belongs {
                    return Ok(None);
                }
                pairs.next();
                Ok(Some((search, value)))
            })?;
            added += joined;
            if joined == 0 {
                // The leaf is full, or the key is there.
                added += u64::from(self.add(tx, key, value)?);
                pairs.next();
            }
        }
        Ok(added)
    }

    #[inline(always)]
    fn header<T: Transact>(self, tx: &mut T) -> Result<Header, Abort> {
        let mut image = [0; TREE_HEADER_USED];
        tx.load(self.root, &mut image)?;
        Header::decode(&image).ok_or_else(|| damaged(self.root, "no header of a tree"))
    }

    /// The leaf where `key` belongs; the way there becomes `path`.
    #[inline]
    fn descend<T: Transact>(
        self,
        tx: &mut T,
        header: &Header,
        key: &SearchKey<'_>,
        path: &mut Path,
    ) -> Result<PoolOffset, Abort> {
        path.len = header.height;
        let mut at = header.node;
        for step in &mut path.steps[..header.height] {
            let index = node::child_index(tx, at, key)?;
            *step = Step { node: at, index };
            at = PoolOffset(tx.load_u64(at.plus((INNER_CHILDREN_AT + 8 * index) as u64))?);
        }
        Ok(at)
    }

    fn put<T: Transact>(
        self,
        tx: &mut T,
        key: &[u8],
        value: &[u8],
        replace: bool,
    ) -> Result<bool, Abort> {
        let header = self.header(tx)?;
        let search = SearchKey::new(key);
        let blocks = match header.kept {
            Kept::Entries(blocks) => blocks,
            Kept::Words(pairs) => {
                return self.put_pair(tx, &header, pairs, &search, value, replace);
            }
        };
        let mut path = Path::default();
        let at = self.descend(tx, &header, &search, &mut path)?;
        let mut leaf = Leaf::new(Form::Entries);
        leaf.read(tx, at)?;
        if let Some(found) = find_in_leaf(tx, blocks, &leaf, &search)? {
            if replace {
                let slot_at = at.plus(leaf.slot_at(found.slot) as u64);
                let place = (slot_at, leaf.slot(found.slot));
                entry::replace(tx, blocks, &found.entry, place, key, value)?;
            }
            return Ok(true);
        }
        let position = lower_bound(tx, &header, &leaf, &search)?;
        let reserved = entry::reserve(tx, blocks, key, value)?;
        let item = (search.head, Slot::new(reserved.entry, search.extra));
        entry::fill(tx, blocks, &reserved, key, value)?;
        if leaf.order().len() < LEAF_SLOTS {
            insert::into_leaf(tx, Form::Entries, at, leaf.order(), position, item)?;
        } else {
            self.split_leaf(tx, &header, (at, &leaf), &path, position, item)?;
        }
        Ok(false)
    }
}

struct Header {
    node: PoolOffset,
    height: usize,
    kept: Kept,
}

impl Header {
    #[inline(always)]
    fn decode(image: &[u8]) -> Option<Self> {
        let root = Child(word(image, TREE_ROOT_AT));
        let kept = Kept::from_bytes([
            image[TREE_PLACEMENT_AT],
            image[TREE_KEY_BYTES_AT],
            image[TREE_VALUE_BYTES_AT],
        ])?;
        let height = root.bits() as usize;
        let sound = word(image, 0) == TREE_MAGIC && height <= HEIGHT_MAX;
        sound.then_some(Self { node: root.at(), height, kept })
    }

    fn root_word(node: PoolOffset, height: usize) -> [u8; 8] {
        (node.0 | height as u64).to_le_bytes()
    }
}

/// The inner nodes on the way to a leaf, from the root down.
#[derive(Default)]
struct Path {
    steps: [Step; HEIGHT_MAX],
    len: usize,
}

impl Path {
    fn steps(&self) -> &[Step] {
        &self.steps[..self.len]
    }
}

#[derive(Clone, Copy, Default)]
struct Step {
    node: PoolOffset,
    /// Which child the way went on to.
    index: usize,
}

struct Found {
    /// Which of the leaf's slots.
    slot: usize,
    entry: Entry,
}

/// The slot of a key. Two keys of up to 8 bytes with equal heads and lengths are equal, so only
/// longer ones are looked at.
#[inline]
fn find_in_leaf<T: Transact>(
    tx: &mut T,
    blocks: Blocks,
    leaf: &Leaf,
    key: &SearchKey<'_>,
) -> Result<Option<Found>, Abort> {
    for slot in leaf.order().slots() {
        if leaf.head(slot) != key.head || leaf.slot(slot).extra() != key.extra {
            continue;
        }
        let at = leaf.slot(slot).at();
        if key.bytes.len() <= 8 {
            let entry = entry::open(tx, blocks, at)?;
            return Ok(Some(Found { slot, entry }));
        }
        if let Some(entry) = entry::open_if(tx, blocks, at, key.bytes)? {
            return Ok(Some(Found { slot, entry }));
        }
    }
    Ok(None)
}

/// The item at a position of a leaf: bytes of its entry's block, 0 without one, and where its value
/// is. `key` becomes its key.
fn open_item<T: Transact>(
    tx: &mut T,
    header: &Header,
    (at, leaf): (PoolOffset, &Leaf),
    position: usize,
    key: &mut Vec<u8>,
) -> Result<(u64, ByteRange), Abort> {
    let slot = leaf.order().slot(position);
    match header.kept {
        Kept::Entries(blocks) => {
            let entry = entry::open_with_key(tx, blocks, leaf.slot(slot).at(), key)?;
            Ok((entry.blocks(blocks).0.len, entry.value))
        }
        Kept::Words(pairs) => {
            key.clear();
            key.extend_from_slice(&pairs.key_bytes(leaf.head(slot))[..pairs.key_len()]);
            let value_at = at.plus(leaf.slot_at(slot) as u64);
            Ok((0, ByteRange::new(value_at, pairs.value_bytes.into())))
        }
    }
}

/// How many of the leaf's keys are below `key`.
fn lower_bound<T: Transact>(
    tx: &mut T,
    header: &Header,
    leaf: &Leaf,
    key: &SearchKey<'_>,
) -> Result<usize, Abort> {
    let order = leaf.order();
    let (mut low, mut high) = (0, order.len());
    while low < high {
        let middle = (low + high) / 2;
        let slot = order.slot(middle);
        let stored = leaf.slot(slot);
        let len = match header.kept {
            Kept::Entries(_) => node::length_hint(stored),
            Kept::Words(pairs) => pairs.key_len(),
        };
        let ordering = match (key.cmp_head(leaf.head(slot), len), header.kept) {
            (Some(ordering), _) => ordering,
            (None, Kept::Entries(blocks)) => {
                let entry = entry::open(tx, blocks, stored.at())?;
                entry::compare(tx, key.bytes, entry.key.at, entry.key.len)?
            }
            (None, Kept::Words(_)) => unreachable!("a key of up to 8 bytes is its head"),
        };
        match ordering {
            Ordering::Greater => low = middle + 1,
            Ordering::Equal | Ordering::Less => high = middle,
        }
    }
    Ok(low)
}

impl Dictionary for ByteTree {
    #[inline]
    fn find<T: Transact>(self, tx: &mut T, key: &[u8]) -> Result<Option<ByteRange>, Abort> {
        let header = self.header(tx)?;
        let search = SearchKey::new(key);
        let blocks = match header.kept {
            Kept::Entries(blocks) => blocks,
            Kept::Words(pairs) => return self.find_pair(tx, &header, pairs, &search),
        };
        let at = self.descend(tx, &header, &search, &mut Path::default())?;
        let mut leaf = Leaf::new(Form::Entries);
        leaf.read(tx, at)?;
        let found = find_in_leaf(tx, blocks, &leaf, &search)?;
        Ok(found.map(|found| found.entry.value))
    }

    fn insert<T: Transact>(self, tx: &mut T, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        self.put(tx, key, value, true)
    }

    fn add<T: Transact>(self, tx: &mut T, key: &[u8], value: &[u8]) -> Result<bool, Abort> {
        Ok(!self.put(tx, key, value, false)?)
    }

    fn remove<T: Transact>(self, tx: &mut T, key: &[u8]) -> Result<bool, Abort> {
        let header = self.header(tx)?;
        let search = SearchKey::new(key);
        let blocks = match header.kept {
            Kept::Entries(blocks) => blocks,
            Kept::Words(pairs) => return self.remove_pair(tx, &header, pairs, &search),
        };
        let mut path = Path::default();
        let at = self.descend(tx, &header, &search, &mut path)?;
        let mut leaf = Leaf::new(Form::Entries);
        leaf.read(tx, at)?;
        let Some(found) = find_in_leaf(tx, blocks, &leaf, &search)? else { return Ok(false) };
        entry::free(tx, blocks, &found.entry)?;
        self.remove_from_leaf(tx, &header, (at, &leaf), &path, found.slot)?;
        Ok(true)
    }

    fn for_each<T: Transact>(
        self,
        tx: &mut T,
        visit: impl FnMut(&mut T, &[u8], ByteRange) -> Result<(), Abort>,
    ) -> Result<(), Abort> {
        self.scan(tx, &[], u64::MAX, visit)
    }
}
