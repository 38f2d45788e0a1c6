//! The order of a sorted set: the inner nodes of a sequence above leaves of scores.
//!
//! An item is two words, the member's name stands in its entry only. Items lie in their leaf in no order, behind a list of
//! their places: an insertion stores an item and a few words of that list, wherever the item belongs.
//!
//! ```text
//! leaf  512 bytes: 0 items (1 byte), 1 their places in their order (30), 32 places: bits of the score, offset of the entry
//! ```
//!
//! * **SCORES-1** Items are in the order of their scores' sortable bits, equal ones in that of their members' bytes.
//! * **SCORES-2** An entry stays where it is as long as it has an item.

use std::cmp::Ordering;

use outlast::{Abort, BlockKind, ByteRange, PoolOffset};

use super::node::{
    Child, NODE_BYTES, child_count, load_bound, load_child, load_children, store_items, sum,
};
use super::{Below, End, Header, Seq, Way, scan_below};
use crate::store::entry::Entry;
use crate::store::mem::{Mem, damaged};

/// Items of a leaf.
const ITEMS_MAX: usize = 30;
const HEAD_BYTES: usize = 32;
const ITEM_BYTES: usize = 16;
/// A leaf with fewer is joined to the next one, if that has not many.
const LEAN_ITEMS: usize = 8;
const JOINED_ITEMS_MAX: usize = 16;
/// Bytes of an entry that are fetched ahead: its head and a short name.
const ENTRY_BYTES_FETCHED: u64 = 48;

const _: () = assert!(HEAD_BYTES + ITEMS_MAX * ITEM_BYTES == NODE_BYTES);
const _: () = assert!(ITEMS_MAX < HEAD_BYTES && ITEMS_MAX < 32);

/// A place in the order, whether or not an item has it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wanted<'a> {
    /// The score's sortable bits.
    pub bits: u64,
    pub member: &'a [u8],
}

/// An item: the bits of a score, and the entry of the member that has it.
pub(crate) type Scored = (u64, PoolOffset);

/// An order by its header, which is that of a sequence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scores {
    pub at: PoolOffset,
}

/// A leaf's head.
struct Leaf {
    at: PoolOffset,
    head: [u8; HEAD_BYTES],
}

/// Where an item is, or is to be put.
struct Spot {
    way: Way,
    leaf: Leaf,
    /// In the leaf.
    index: usize,
}

impl Leaf {
    fn load(mem: &mut Mem<'_>, at: PoolOffset) -> Result<Self, Abort> {
        let mut head = [0; HEAD_BYTES];
        mem.load(at, &mut head)?;
        let leaf = Self { at, head };
        if leaf.count() > ITEMS_MAX || leaf.places().len() != leaf.count() {
            return Err(damaged(at, "a leaf of scores with an impossible list of places"));
        }
        Ok(leaf)
    }

    fn create(mem: &mut Mem<'_>, items: &[Scored]) -> Result<PoolOffset, Abort> {
        let at = mem.alloc(NODE_BYTES as u64, BlockKind::General)?;
        let mut bytes = [0; NODE_BYTES];
        bytes[0] = items.len() as u8;
        for (place, (bits, entry)) in items.iter().enumerate() {
            bytes[1 + place] = place as u8;
            let item = HEAD_BYTES + place * ITEM_BYTES;
            bytes[item..item + 8].copy_from_slice(&bits.to_le_bytes());
            bytes[item + 8..item + ITEM_BYTES].copy_from_slice(&entry.0.to_le_bytes());
        }
        mem.store(at, &bytes[..HEAD_BYTES + items.len() * ITEM_BYTES])?;
        Ok(at)
    }

    fn count(&self) -> usize {
        usize::from(self.head[0])
    }

    /// The places of its items, those that are places and none twice.
    fn places(&self) -> &[u8] {
        let places = &self.head[1..=self.count().min(ITEMS_MAX)];
        let mut seen = 0_u32;
        for place in places {
            let bit = 1_u32.checked_shl((*place).into()).unwrap_or(0);
            if usize::from(*place) >= ITEMS_MAX || seen & bit != 0 {
                return &[];
            }
            seen |= bit;
        }
        places
    }

    fn item_at(&self, place: u8) -> PoolOffset {
        self.at.plus((HEAD_BYTES + usize::from(place) * ITEM_BYTES) as u64)
    }

    fn bits(&self, mem: &mut Mem<'_>, index: usize) -> Result<u64, Abort> {
        mem.load_u64(self.item_at(self.head[1 + index]))
    }

    fn entry(&self, mem: &mut Mem<'_>, index: usize) -> Result<PoolOffset, Abort> {
        Ok(PoolOffset(mem.load_u64(self.item_at(self.head[1 + index]).plus(8))?))
    }

    fn items(&self, mem: &mut Mem<'_>) -> Result<Vec<Scored>, Abort> {
        (0..self.count())
            .map(|index| Ok((self.bits(mem, index)?, self.entry(mem, index)?)))
            .collect()
    }

    /// How an item compares to a place in the order.
    fn compare(
        &self,
        mem: &mut Mem<'_>,
        index: usize,
        wanted: Wanted<'_>,
    ) -> Result<Ordering, Abort> {
        let order = self.bits(mem, index)?.cmp(&wanted.bits);
        if order.is_ne() {
            return Ok(order);
        }
        let entry = self.entry(mem, index)?;
        Entry::load(mem, entry)?.compare_key(mem, wanted.member)
    }

    /// How many of its items come before a place in the order, or also one that has it.
    fn rank(&self, mem: &mut Mem<'_>, wanted: Wanted<'_>, or_equal: bool) -> Result<usize, Abort> {
        let (mut low, mut high) = (0, self.count());
        while low < high {
            let middle = (low + high) / 2;
            let order = self.compare(mem, middle, wanted)?;
            let is_before = order.is_lt() || or_equal && order.is_eq();
            if is_before { low = middle + 1 } else { high = middle }
        }
        Ok(low)
    }

    /// Stores the words of a new head that differ.
    fn store_head(&mut self, mem: &mut Mem<'_>, head: [u8; HEAD_BYTES]) -> Result<(), Abort> {
        let words = self.head.as_chunks::<8>().0.iter().zip(head.as_chunks::<8>().0);
        for (index, (old, new)) in words.enumerate() {
            if old != new {
                mem.store_u64(self.at.plus(index as u64 * 8), u64::from_le_bytes(*new))?;
            }
        }
        self.head = head;
        Ok(())
    }

    /// Puts an item into a leaf that has room.
    fn insert(&mut self, mem: &mut Mem<'_>, index: usize, item: Scored) -> Result<(), Abort> {
        let count = self.count();
        let used = self.head[1..=count].iter().fold(0_u32, |used, place| used | 1 << place);
        let place = used.trailing_ones() as u8;
        let at = self.item_at(place);
        mem.store_u64(at, item.0)?;
        mem.store_u64(at.plus(8), item.1.0)?;
        let mut head = self.head;
        head[0] += 1;
        head.copy_within(1 + index..=count, 2 + index);
        head[1 + index] = place;
        self.store_head(mem, head)
    }

    /// Keeps the first items only.
    fn truncate(&mut self, mem: &mut Mem<'_>, count: usize) -> Result<(), Abort> {
        let mut head = self.head;
        head[0] = count as u8;
        self.store_head(mem, head)
    }

    fn remove(&mut self, mem: &mut Mem<'_>, index: usize) -> Result<(), Abort> {
        let count = self.count();
        let mut head = self.head;
        head[0] -= 1;
        head.copy_within(2 + index..=count, 1 + index);
        self.store_head(mem, head)
    }
}

/// The way to the leaf where an item is, or is to be put.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aim {
    header: Header,
    way: Way,
    leaf: PoolOffset,
}

impl Aim {
    /// The place in the leaf behind all items before that place in the order, or also behind the one that has it.
    fn spot(self, mem: &mut Mem<'_>, wanted: Wanted<'_>, or_equal: bool) -> Result<Spot, Abort> {
        let leaf = Leaf::load(mem, self.leaf)?;
        let index = leaf.rank(mem, wanted, or_equal)?;
        Ok(Spot { way: self.way, leaf, index })
    }
}

impl Header {
    /// The way to the leaf with the place behind all items before that place in the order, or also behind the one that has
    /// it. The leaf is announced: a search looks at most of its lines, each behind the one before.
    fn aim(self, mem: &mut Mem<'_>, wanted: Wanted<'_>, or_equal: bool) -> Result<Aim, Abort> {
        let (mut node, mut way) = (self.root, Way::new());
        for level in (0..self.levels).rev() {
            let count = child_count(mem, node)?;
            // The last child that begins with something before the wanted place.
            let (mut low, mut high) = (1, count);
            while low < high {
                let middle = (low + high) / 2;
                let begins_before = match load_bound(mem, node, middle)?.cmp(&wanted.bits) {
                    Ordering::Less => true,
                    Ordering::Greater => false,
                    Ordering::Equal => {
                        let mut first = load_child(mem, node, middle)?.at;
                        for _ in 0..level {
                            first = load_child(mem, first, 0)?.at;
                        }
                        let order = Leaf::load(mem, first)?.compare(mem, 0, wanted)?;
                        order.is_lt() || or_equal && order.is_eq()
                    }
                };
                if begins_before { low = middle + 1 } else { high = middle }
            }
            node = way.go(mem, node, low - 1, count)?.at;
        }
        mem.will_read(&[ByteRange::new(node, NODE_BYTES as u64)]);
        Ok(Aim { header: self, way, leaf: node })
    }
}

impl Scores {
    pub fn create(mem: &mut Mem<'_>) -> Result<Self, Abort> {
        let root = Leaf::create(mem, &[])?;
        let header = Header { root, len: 0, levels: 0, is_sorted: true };
        Ok(Self { at: Seq::of(mem, header)?.at })
    }

    fn seq(self) -> Seq {
        Seq { at: self.at }
    }

    pub fn len(self, mem: &mut Mem<'_>) -> Result<u64, Abort> {
        self.seq().len(mem)
    }

    /// The way to the leaf where a new item is to be put, which is fetched meanwhile.
    pub fn aim(self, mem: &mut Mem<'_>, wanted: Wanted<'_>) -> Result<Aim, Abort> {
        Header::load(mem, self.at)?.aim(mem, wanted, false)
    }

    /// Puts the entry of a member where its score has it.
    pub fn insert(
        self,
        mem: &mut Mem<'_>,
        wanted: Wanted<'_>,
        entry: PoolOffset,
    ) -> Result<(), Abort> {
        let aim = self.aim(mem, wanted)?;
        self.insert_at(mem, aim, wanted, entry)
    }

    /// The same where the way was found, since when the order has not changed.
    pub fn insert_at(
        self,
        mem: &mut Mem<'_>,
        aim: Aim,
        wanted: Wanted<'_>,
        entry: PoolOffset,
    ) -> Result<(), Abort> {
        let header = aim.header;
        let Spot { way, mut leaf, index } = aim.spot(mem, wanted, false)?;
        let is_first = index == 0 && way.is_first();
        let is_last = index == leaf.count() && way.is_last();
        let item = (wanted.bits, entry);
        let mut right = None;
        if leaf.count() < ITEMS_MAX {
            leaf.insert(mem, index, item)?;
        } else {
            // A leaf at an end stays full.
            let cut = match () {
                () if is_last => ITEMS_MAX,
                () if is_first => 0,
                () => ITEMS_MAX / 2,
            };
            let mut items = leaf.items(mem)?.split_off(cut);
            leaf.truncate(mem, cut)?;
            if index < cut || is_first {
                leaf.insert(mem, index, item)?;
            } else {
                items.insert(index - cut, item);
            }
            let at = Leaf::create(mem, &items)?;
            right = Some(Child { at, items: items.len() as u64, bound: items[0].0 });
        }
        self.seq().grow(mem, &header, way.steps(), (1, right), (is_first, is_last))
    }

    /// Takes the item of that member's entry out.
    pub fn remove(
        self,
        mem: &mut Mem<'_>,
        wanted: Wanted<'_>,
        entry: PoolOffset,
    ) -> Result<(), Abort> {
        let header = Header::load(mem, self.at)?;
        let aim = header.aim(mem, wanted, true)?;
        let spot = self.find_item(mem, aim, wanted, entry)?;
        self.remove_at(mem, &header, spot)
    }

    /// The item of a member's entry.
    fn find_item(
        self,
        mem: &mut Mem<'_>,
        aim: Aim,
        wanted: Wanted<'_>,
        entry: PoolOffset,
    ) -> Result<Spot, Abort> {
        let lacks = || damaged(self.at, "an order without an item that it should have");
        let spot = aim.spot(mem, wanted, true)?;
        let index = spot.index.checked_sub(1).ok_or_else(lacks)?;
        match spot.leaf.entry(mem, index)? == entry {
            true => Ok(Spot { index, ..spot }),
            false => Err(lacks()),
        }
    }

    fn remove_at(self, mem: &mut Mem<'_>, header: &Header, spot: Spot) -> Result<(), Abort> {
        let Spot { way, mut leaf, index } = spot;
        leaf.remove(mem, index)?;
        let below = match leaf.count() {
            0 => Below::Empty,
            count if count < LEAN_ITEMS => Below::Lean(join),
            _ => Below::Sound,
        };
        self.seq().shrink(mem, header, way.steps(), (1, below))
    }

    /// Gives a member another score.
    pub fn shift(
        self,
        mem: &mut Mem<'_>,
        wanted: Wanted<'_>,
        entry: PoolOffset,
        bits: u64,
    ) -> Result<(), Abort> {
        let header = Header::load(mem, self.at)?;
        let new = Wanted { bits, ..wanted };
        // Both leaves are fetched together.
        let (aim, new_aim) = (header.aim(mem, wanted, true)?, header.aim(mem, new, false)?);
        let spot = self.find_item(mem, aim, wanted, entry)?;
        let (leaf, index) = (&spot.leaf, spot.index);
        let stays = index > 0
            && index + 1 < leaf.count()
            && leaf.bits(mem, index - 1)? < bits
            && bits < leaf.bits(mem, index + 1)?;
        if stays {
            return mem.store_u64(leaf.item_at(leaf.head[1 + index]), bits);
        }
        let to = new_aim.spot(mem, new, false)?;
        let divides_or_joins = leaf.count() <= LEAN_ITEMS || to.leaf.count() == ITEMS_MAX;
        if divides_or_joins || to.leaf.at == leaf.at {
            self.remove_at(mem, &header, spot)?;
            return self.insert(mem, new, entry);
        }
        // No node comes or goes: what lies above both leaves counts as many items as before.
        let (from, into) = (spot.way, to.way);
        let (mut leaf, mut other) = (spot.leaf, to.leaf);
        leaf.remove(mem, index)?;
        other.insert(mem, to.index, (bits, entry))?;
        for (from, into) in from.steps().iter().zip(into.steps()) {
            if (from.node, from.number) != (into.node, into.number) {
                store_items(mem, from.node, from.number, from.items.saturating_sub(1))?;
                store_items(mem, into.node, into.number, into.items + 1)?;
            }
        }
        Ok(())
    }

    /// Takes the item at an end out. `None` without items.
    pub fn pop(self, mem: &mut Mem<'_>, end: End) -> Result<Option<Scored>, Abort> {
        let header = Header::load(mem, self.at)?;
        if header.len == 0 {
            return Ok(None);
        }
        let (way, leaf) = header.way_to_end(mem, end)?;
        let leaf = Leaf::load(mem, leaf)?;
        let index = if end == End::First { 0 } else { leaf.count().saturating_sub(1) };
        if leaf.count() == 0 {
            return Err(damaged(self.at, "an order without an item that it should have"));
        }
        let item = (leaf.bits(mem, index)?, leaf.entry(mem, index)?);
        // The next one to be popped, if there is a command more.
        let next = if end == End::First { 1 } else { index.saturating_sub(1) };
        if next < leaf.count() {
            let entry = leaf.entry(mem, next)?;
            mem.will_read(&[ByteRange::new(entry, ENTRY_BYTES_FETCHED)]);
        }
        self.remove_at(mem, &header, Spot { way, leaf, index })?;
        Ok(Some(item))
    }

    /// How many items come before a place in the order, or also one that has it.
    pub fn rank(self, mem: &mut Mem<'_>, wanted: Wanted<'_>, or_equal: bool) -> Result<u64, Abort> {
        let header = Header::load(mem, self.at)?;
        let Spot { way, index, .. } =
            header.aim(mem, wanted, or_equal)?.spot(mem, wanted, or_equal)?;
        let mut before = index as u64;
        for step in way.steps() {
            before += sum(&load_children(mem, step.node)?[..step.number]);
        }
        Ok(before)
    }

    /// Shows `count` items from an index on, until `show` has seen enough.
    pub fn scan(
        self,
        mem: &mut Mem<'_>,
        from: u64,
        count: u64,
        show: &mut dyn FnMut(&mut Mem<'_>, Scored) -> Result<bool, Abort>,
    ) -> Result<(), Abort> {
        let header = Header::load(mem, self.at)?;
        let end = from.saturating_add(count).min(header.len);
        if from >= end {
            return Ok(());
        }
        scan_below(mem, header.root, header.levels, (from, end), &mut |mem, at, from, end| {
            let leaf = Leaf::load(mem, at)?;
            for index in from as usize..leaf.count().min(end as usize) {
                let item = (leaf.bits(mem, index)?, leaf.entry(mem, index)?);
                if !show(mem, item)? {
                    return Ok(false);
                }
            }
            Ok(true)
        })?;
        Ok(())
    }

    /// Frees up to `count` leaves, whatever became of their members. `true` when nothing is left.
    pub fn drop_leaves(self, mem: &mut Mem<'_>, count: usize) -> Result<bool, Abort> {
        for _ in 0..count {
            match self.seq().detach(mem, End::First)? {
                Some(leaf) => mem.free(leaf.at)?,
                None => {
                    self.seq().free_empty(mem)?;
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

/// The items of a leaf in their order, which that is checked for.
pub(in crate::store) fn leaf_items(
    mem: &mut Mem<'_>,
    at: PoolOffset,
) -> Result<Vec<Scored>, Abort> {
    let items = Leaf::load(mem, at)?.items(mem)?;
    match items.is_sorted_by_key(|item| item.0) {
        true => Ok(items),
        false => Err(damaged(at, "a leaf of scores that are out of order")),
    }
}

/// Joins a lean leaf with its right neighbour.
fn join(mem: &mut Mem<'_>, children: &mut Vec<Child>, number: usize) -> Result<(), Abort> {
    let Some(next) = children.get(number + 1).copied() else { return Ok(()) };
    let mut leaf = Leaf::load(mem, children[number].at)?;
    let right = Leaf::load(mem, next.at)?;
    if right.count() > JOINED_ITEMS_MAX || leaf.count() >= LEAN_ITEMS {
        return Ok(());
    }
    for item in right.items(mem)? {
        leaf.insert(mem, leaf.count(), item)?;
    }
    mem.free(next.at)?;
    children[number].items += next.items;
    children.remove(number + 1);
    Ok(())
}
