//! Lists with open ends: a sequence between two leaves that are not part of its tree.
//!
//! A push stores its item and one word, however long the list is: the first leaf is filled from its end towards its
//! beginning, the last one the other way. A full leaf becomes one of the sequence's as it stands. A pop takes from a leaf in
//! the same way, and once that is empty takes the sequence's outermost leaf.
//!
//! ```text
//! 0   the header of the sequence between the ends
//! 32  first leaf, 0 for none; the word at its beginning, if it were one of the sequence's
//! 48  the same for the last leaf
//! ```
//!
//! * **ENDS-1** The list is the items of the first leaf, those of the sequence and those of the last leaf.
//! * **ENDS-2** The word at the beginning of an open leaf is stale: its head is in the header.

use outlast::{Abort, BlockKind, PoolOffset};

use super::node::{
    Child, Head, LEAF_BYTES, Leaf, NewItem, Stored, free_stored, leaf_place, resolve, show_stored,
    stored_bytes, to_stored,
};
use super::{HEADER_BYTES, NODE_BYTES, Seq};
use crate::store::mem::{Mem, damaged};

/// Bytes of a header.
pub(in crate::store) const ENDS_BYTES: u64 = 64;
const FIRST_AT: u64 = HEADER_BYTES;
const LAST_AT: u64 = HEADER_BYTES + 16;
/// An open leaf with less is not worth a leaf of the sequence: its items go into those that are there.
const LEAN_END_BYTES: usize = 256;
/// Bytes of an item that are loaded before its length is known.
const GUESSED_BYTES: usize = 32;

/// An end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    First,
    Last,
}

/// An open leaf.
#[derive(Clone, Copy, Default, Debug)]
struct Open {
    /// 0 for none.
    leaf: u64,
    head: Head,
}

impl Open {
    fn at(self) -> PoolOffset {
        PoolOffset(self.leaf)
    }

    fn load(self, mem: &mut Mem<'_>) -> Result<Leaf, Abort> {
        Leaf::load_with(mem, self.at(), self.head)
    }
}

/// An open leaf's place, and the blocks of its items that do not lie in it, with the bytes that they use.
type OpenLeaf = (PoolOffset, Vec<(PoolOffset, u64)>);

/// A list by its header, and the parts of that which are looked at by every command.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends {
    pub at: PoolOffset,
    first: Open,
    last: Open,
    /// Items of the sequence between them.
    between: u64,
}

impl Ends {
    pub fn create(mem: &mut Mem<'_>) -> Result<Self, Abort> {
        Self::around(mem, [0; HEADER_BYTES as usize])
    }

    /// The list of a sequence that is one so far, whose header it takes over.
    pub fn of_seq(mem: &mut Mem<'_>, seq: Seq) -> Result<Self, Abort> {
        let mut header = [0; HEADER_BYTES as usize];
        mem.load(seq.at, &mut header)?;
        mem.free(seq.at)?;
        Self::around(mem, header)
    }

    fn around(mem: &mut Mem<'_>, header: [u8; HEADER_BYTES as usize]) -> Result<Self, Abort> {
        let at = mem.alloc(ENDS_BYTES, BlockKind::General)?;
        let mut bytes = [0; ENDS_BYTES as usize];
        bytes[..HEADER_BYTES as usize].copy_from_slice(&header);
        mem.store(at, &bytes)?;
        Self::of_bytes(at, &bytes)
    }

    pub fn load(mem: &mut Mem<'_>, at: PoolOffset) -> Result<Self, Abort> {
        let mut bytes = [0; ENDS_BYTES as usize];
        mem.load(at, &mut bytes)?;
        Self::of_bytes(at, &bytes)
    }

    fn of_bytes(at: PoolOffset, bytes: &[u8; ENDS_BYTES as usize]) -> Result<Self, Abort> {
        let word = |at: u64| u64::from_le_bytes(bytes.as_chunks::<8>().0[at as usize / 8]);
        let open = |place: u64| {
            let head = Head::of_word(word(place + 8), at)?;
            Ok::<_, Abort>(Open { leaf: word(place), head })
        };
        Ok(Self { at, between: word(8), first: open(FIRST_AT)?, last: open(LAST_AT)? })
    }

    fn seq(&self) -> Seq {
        Seq { at: self.at }
    }

    fn open(&mut self, end: End) -> &mut Open {
        match end {
            End::First => &mut self.first,
            End::Last => &mut self.last,
        }
    }

    fn store_head(&mut self, mem: &mut Mem<'_>, end: End) -> Result<(), Abort> {
        let (at, head) = (self.at, self.open(end).head);
        mem.store_u64(at.plus(if end == End::First { FIRST_AT } else { LAST_AT } + 8), head.word())
    }

    fn store_leaf(&mut self, mem: &mut Mem<'_>, end: End) -> Result<(), Abort> {
        let (at, leaf) = (self.at, self.open(end).leaf);
        mem.store_u64(at.plus(if end == End::First { FIRST_AT } else { LAST_AT }), leaf)
    }

    pub fn len(&self) -> u64 {
        self.first.head.items as u64 + self.between + self.last.head.items as u64
    }

    /// Puts an item at an end.
    pub fn push(&mut self, mem: &mut Mem<'_>, end: End, item: &[u8]) -> Result<(), Abort> {
        let stored = to_stored(mem, item)?;
        self.push_stored(mem, end, &stored)
    }

    fn push_stored(&mut self, mem: &mut Mem<'_>, end: End, stored: &NewItem) -> Result<(), Abort> {
        let len = stored.len();
        let room = |open: &Open| match end {
            End::First => open.head.start,
            End::Last => LEAF_BYTES - open.head.end(),
        };
        if room(self.open(end)) < len && self.open(end).head.items > 0 {
            self.close(mem, end)?;
        }
        if self.open(end).leaf == 0 {
            self.open(end).leaf = mem.alloc(NODE_BYTES as u64, BlockKind::General)?.0;
            self.store_leaf(mem, end)?;
        }
        let open = self.open(end);
        let Head { items, used, start } = open.head;
        let start = match (end, items) {
            (End::First, 0) => LEAF_BYTES - len,
            (End::First, _) => start - len,
            (End::Last, 0) => 0,
            (End::Last, _) => start,
        };
        open.head = Head { items: items + 1, used: used + len, start };
        let place = if end == End::First { start } else { start + used };
        mem.store(leaf_place(open.at(), place), stored)?;
        self.store_head(mem, end)
    }

    /// Takes the item at an end.
    pub fn pop(&mut self, mem: &mut Mem<'_>, end: End) -> Result<Vec<u8>, Abort> {
        let other = if end == End::First { End::Last } else { End::First };
        if self.open(end).head.items == 0 && self.between > 0 {
            self.take_leaf(mem, end)?;
        }
        let from = if self.open(end).head.items > 0 { end } else { other };
        let open = self.open(from);
        if open.head.items == 0 {
            return Err(damaged(self.at, "a list without the item that it should have"));
        }
        let Head { items, used, start } = open.head;
        let mut bytes = [0; LEAF_BYTES];
        let (place, len) = match end {
            End::First => (0, load_first(mem, *open, &mut bytes)?),
            End::Last => {
                mem.load(leaf_place(open.at(), start), &mut bytes[..used])?;
                let mut place = 0;
                for _ in 1..items {
                    place += stored_bytes(&bytes[place.min(used)..used]);
                }
                (place, used.saturating_sub(place))
            }
        };
        let Some(stored) =
            bytes[..used].get(place..place + len).filter(|stored| !stored.is_empty())
        else {
            return Err(damaged(open.at(), "a leaf with fewer items than it should have"));
        };
        let start = if end == End::First { start + len } else { start };
        open.head = Head { items: items - 1, used: used - len, start };
        if items == 1 {
            // The gap is as long as it can be, whatever end is pushed to next.
            open.head.start = 0;
        }
        self.store_head(mem, from)?;
        let item = resolve(mem, stored)?;
        free_stored(mem, stored)?;
        Ok(item)
    }

    /// Makes the outermost leaf of the sequence that of an end, which has no items.
    fn take_leaf(&mut self, mem: &mut Mem<'_>, end: End) -> Result<(), Abort> {
        let Some(taken) = self.seq().detach(mem, end)? else {
            return Err(damaged(self.at, "a sequence shorter than it should be"));
        };
        let head = Head::load(mem, taken.at)?;
        if head.items as u64 != taken.items {
            return Err(damaged(taken.at, "a leaf with another number of items than is counted"));
        }
        let open = self.open(end);
        let before = std::mem::replace(open, Open { leaf: taken.at.0, head });
        if before.leaf != 0 {
            mem.free(before.at())?;
        }
        self.between -= taken.items;
        self.store_leaf(mem, end)?;
        self.store_head(mem, end)
    }

    /// Makes the items of an end those of the sequence.
    fn close(&mut self, mem: &mut Mem<'_>, end: End) -> Result<(), Abort> {
        let open = std::mem::take(self.open(end));
        if open.leaf == 0 {
            return Ok(());
        }
        self.store_leaf(mem, end)?;
        self.store_head(mem, end)?;
        let items = open.head.items as u64;
        if open.head.used >= LEAN_END_BYTES || items > 0 && self.between == 0 {
            open.head.store(mem, open.at())?;
            self.seq().attach(mem, Child { at: open.at(), items, bound: 0 }, end)?;
        } else {
            let leaf = open.load(mem)?;
            let mut place = 0;
            for index in 0..items {
                let stored = leaf.stored(place);
                let to = if end == End::First { index } else { self.between + index };
                self.seq().insert_stored(mem, to, stored)?;
                place += stored.len();
            }
            mem.free(open.at())?;
        }
        self.between += items;
        Ok(())
    }

    /// Makes ends part of the sequence within which that index lies, and returns its index there.
    fn reach_between(&mut self, mem: &mut Mem<'_>, index: u64) -> Result<u64, Abort> {
        if index < self.first.head.items as u64 {
            self.close(mem, End::First)?;
        }
        let index = index - self.first.head.items as u64;
        if index > self.between {
            self.close(mem, End::Last)?;
        }
        Ok(index)
    }

    /// Puts an item before the one of that index.
    pub fn insert(&mut self, mem: &mut Mem<'_>, index: u64, item: &[u8]) -> Result<(), Abort> {
        if index == 0 {
            return self.push(mem, End::First, item);
        }
        if index >= self.len() {
            return self.push(mem, End::Last, item);
        }
        let index = self.reach_between(mem, index)?;
        self.seq().insert(mem, index, item)?;
        self.between += 1;
        Ok(())
    }

    /// Takes an item out.
    pub fn remove(&mut self, mem: &mut Mem<'_>, index: u64) -> Result<Vec<u8>, Abort> {
        if index == 0 {
            return self.pop(mem, End::First);
        }
        if index + 1 >= self.len() {
            return self.pop(mem, End::Last);
        }
        // The item itself is to be in the sequence, not only the place before it.
        let index = self.reach_between(mem, index)?;
        if index == self.between {
            self.close(mem, End::Last)?;
        }
        let item = self.seq().remove(mem, index)?;
        self.between -= 1;
        Ok(item)
    }

    /// Shows `count` items from an index on, until `show` has seen enough.
    pub fn scan(
        &self,
        mem: &mut Mem<'_>,
        from: u64,
        count: u64,
        show: &mut dyn FnMut(&[u8]) -> bool,
    ) -> Result<(), Abort> {
        let end = from.saturating_add(count).min(self.len());
        let (first, between) = (self.first.head.items as u64, self.between);
        if from < first && !show_open(mem, self.first, from, end.min(first), show)? {
            return Ok(());
        }
        let (from, end) = (from.saturating_sub(first), end.saturating_sub(first));
        if from < between && from < end {
            let mut goes_on = true;
            self.seq().scan(mem, from, end.min(between) - from, &mut |item| {
                goes_on = show(item);
                goes_on
            })?;
            if !goes_on {
                return Ok(());
            }
        }
        let (from, end) = (from.saturating_sub(between), end.saturating_sub(between));
        if from < end {
            show_open(mem, self.last, from, end, show)?;
        }
        Ok(())
    }

    /// An item.
    pub fn get(&self, mem: &mut Mem<'_>, index: u64) -> Result<Option<Vec<u8>>, Abort> {
        let mut found = None;
        self.scan(mem, index, 1, &mut |item| {
            found = Some(item.to_vec());
            false
        })?;
        Ok(found)
    }

    /// Frees the ends: only a sequence is left.
    pub fn free_ends(&mut self, mem: &mut Mem<'_>) -> Result<Seq, Abort> {
        for end in [End::First, End::Last] {
            let open = std::mem::take(self.open(end));
            if open.leaf != 0 {
                self.store_leaf(mem, end)?;
                self.store_head(mem, end)?;
                for (block, _) in open.load(mem)?.long_blocks() {
                    mem.free(block)?;
                }
                mem.free(open.at())?;
            }
        }
        Ok(self.seq())
    }

    /// The open leaves that there are.
    pub(in crate::store) fn open_leaves(&self, mem: &mut Mem<'_>) -> Result<Vec<OpenLeaf>, Abort> {
        let mut leaves = Vec::new();
        for open in [self.first, self.last].into_iter().filter(|open| open.leaf != 0) {
            let leaf = open.load(mem)?;
            if leaf.count() != leaf.items {
                return Err(damaged(
                    leaf.at,
                    "an open leaf whose bytes hold another number of items",
                ));
            }
            leaves.push((leaf.at, leaf.long_blocks()));
        }
        Ok(leaves)
    }
}

/// Loads the first item as it is stored; returns how many bytes it has.
fn load_first(mem: &mut Mem<'_>, open: Open, bytes: &mut [u8; LEAF_BYTES]) -> Result<usize, Abort> {
    let at = leaf_place(open.at(), open.head.start);
    let guessed = open.head.used.min(GUESSED_BYTES);
    mem.load(at, &mut bytes[..guessed])?;
    let len = stored_bytes(&bytes[..guessed]).min(open.head.used);
    if len > guessed {
        mem.load(at.plus(guessed as u64), &mut bytes[guessed..len])?;
    }
    Ok(len)
}

/// Shows items of an open leaf; `false` when `show` has seen enough.
fn show_open(
    mem: &mut Mem<'_>,
    open: Open,
    from: u64,
    end: u64,
    show: &mut dyn FnMut(&[u8]) -> bool,
) -> Result<bool, Abort> {
    let leaf = open.load(mem)?;
    let mut place = leaf.place(from as usize);
    for _ in from..end {
        let stored: Stored<'_> = leaf.stored(place);
        if !show_stored(mem, stored, show)? {
            return Ok(false);
        }
        place += stored.len();
    }
    Ok(true)
}
