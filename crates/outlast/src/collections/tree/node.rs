//! Images of nodes, and searching them.

use std::cmp::Ordering;

use super::super::entry;
use super::super::hash::hash_key;
use super::super::layout::*;
use super::super::placement::{Kept, key_word};
use super::damaged;
use crate::medium::LINE_BYTES;
use crate::{Abort, ByteRange, PoolOffset, Transact};

/// A key with what nodes keep of it.
pub(super) struct SearchKey<'k> {
    pub(super) bytes: &'k [u8],
    pub(super) head: u64,
    /// The 24 bits of its slot.
    pub(super) extra: u32,
}

impl<'k> SearchKey<'k> {
    #[inline]
    pub(super) fn new(bytes: &'k [u8]) -> Self {
        let hash = if bytes.len() > 8 { hash_key(0, bytes) as u32 & 0xFFFF } else { 0 };
        Self { bytes, head: key_word(bytes), extra: bytes.len().min(255) as u32 | hash << 8 }
    }

    /// Compares this key with one of which only the head and the length (up to 255) are known;
    /// `None` when that does not decide.
    ///
    /// Of two keys with equal heads, one of them with up to 8 bytes, that one is a prefix of the
    /// other or the other way round, up to zero bytes at the end: the shorter one comes first.
    #[inline]
    pub(super) fn cmp_head(&self, head: u64, len: usize) -> Option<Ordering> {
        match self.head.cmp(&head) {
            Ordering::Equal if self.bytes.len() <= 8 || len <= 8 => {
                Some(self.bytes.len().min(255).cmp(&len))
            }
            Ordering::Equal => None,
            unequal => Some(unequal),
        }
    }
}

/// The length of a slot's key, as far as it is below 255.
#[inline]
pub(super) fn length_hint(slot: Slot) -> usize {
    slot.extra() as usize & 0xFF
}

/// Which slots of a leaf hold keys, in the order of the keys, and which are free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Order(pub(super) u64);

impl Order {
    /// No keys; slot 0 is taken first.
    pub(super) const EMPTY: Self = Self(0xEDCB_A987_6543_2100);

    #[inline]
    pub(super) fn len(self) -> usize {
        (self.0 & 15) as usize
    }

    /// The slot of the key at `position`; from `len` on, a free slot.
    #[inline]
    pub(super) fn slot(self, position: usize) -> usize {
        (self.0 >> (4 * position + 4) & 15) as usize
    }

    /// The slots in use, in the order of their keys.
    #[inline]
    pub(super) fn slots(self) -> impl Iterator<Item = usize> {
        (0..self.len()).map(move |position| self.slot(position))
    }

    /// Takes the first free slot for a key at `position`; returns it.
    pub(super) fn insert(&mut self, position: usize) -> usize {
        let len = self.len();
        assert!(position <= len && len < LEAF_SLOTS, "a leaf has room where it is inserted");
        let slot = self.slot(len);
        let word = self.0 & !15;
        let below = word & nibbles(position + 1);
        let moved = (word & nibbles(len + 1) & !nibbles(position + 1)) << 4;
        let above = word & !nibbles(len + 2);
        let count = len as u64 + 1;
        self.0 = count | below | moved | above | (slot as u64) << (4 * position + 4);
        slot
    }

    /// Frees the slot of the key at `position`.
    pub(super) fn remove(&mut self, position: usize) {
        let (len, slot) = (self.len(), self.slot(position));
        assert!(position < len, "a leaf removes a key that it has");
        let word = self.0 & !15;
        let below = word & nibbles(position + 1);
        let moved = (word & nibbles(len + 1) & !nibbles(position + 2)) >> 4;
        let above = word & !nibbles(len + 1);
        self.0 = (len as u64 - 1) | below | moved | above | (slot as u64) << (4 * len);
    }

    /// Frees the slots from `len` on.
    pub(super) fn truncate(&mut self, len: usize) {
        assert!(len <= self.len(), "truncation does not add keys");
        self.0 = self.0 & !15 | len as u64;
    }

    /// Whether every place names a slot that a leaf has.
    #[inline]
    pub(super) fn stays_inside(self) -> bool {
        let all_ones = self.0 & self.0 >> 1 & self.0 >> 2 & self.0 >> 3;
        all_ones & 0x1111_1111_1111_1110 == 0
    }

    /// Whether the word is a permutation of the slots (invariant 4).
    pub(super) fn is_sound(self) -> bool {
        let slots = (0..LEAF_SLOTS).fold(0, |set, i| set | 1u32 << self.slot(i));
        slots == (1 << LEAF_SLOTS) - 1
    }
}

/// The lowest `n` nibbles.
#[inline]
fn nibbles(n: usize) -> u64 {
    1u64.checked_shl(4 * n as u32).map_or(u64::MAX, |bit| bit - 1)
}

/// Where in a leaf things are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Form {
    /// Each head before its slot.
    Entries,
    /// Heads apart from values, which are where slots would be.
    Words,
}

impl Form {
    #[inline]
    pub(super) fn of(kept: Kept) -> Self {
        match kept {
            Kept::Entries(_) => Self::Entries,
            Kept::Words(_) => Self::Words,
        }
    }

    #[inline]
    pub(super) fn head_at(self, slot: usize) -> usize {
        match self {
            Self::Entries => LEAF_SLOTS_AT + 16 * slot,
            Self::Words => LEAF_KEYS_AT + 8 * slot,
        }
    }

    #[inline]
    pub(super) fn slot_at(self, slot: usize) -> usize {
        match self {
            Self::Entries => LEAF_SLOTS_AT + 16 * slot + 8,
            Self::Words => LEAF_VALUES_AT + 8 * slot,
        }
    }

    fn next_at(self) -> usize {
        match self {
            Self::Entries => LEAF_NEXT_AT,
            Self::Words => LEAF_WORDS_NEXT_AT,
        }
    }
}

/// A leaf, copied out.
#[derive(Clone)]
pub(super) struct Leaf {
    image: [u8; LEAF_BYTES],
    form: Form,
}

impl Leaf {
    pub(super) fn new(form: Form) -> Self {
        let mut image = [0; LEAF_BYTES];
        set_word(&mut image, 0, Order::EMPTY.0);
        Self { image, form }
    }

    pub(super) fn from_image(image: [u8; LEAF_BYTES], form: Form) -> Self {
        Self { image, form }
    }

    #[inline]
    pub(super) fn load<T: Transact>(tx: &mut T, at: PoolOffset, form: Form) -> Result<Self, Abort> {
        let mut leaf = Self::new(form);
        leaf.read(tx, at)?;
        Ok(leaf)
    }

    /// Becomes the leaf at `at`.
    #[inline]
    pub(super) fn read<T: Transact>(&mut self, tx: &mut T, at: PoolOffset) -> Result<(), Abort> {
        tx.load(at, &mut self.image)?;
        if at.0 == 0 || !self.order().stays_inside() {
            return Err(damaged(at, "no leaf of a tree"));
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> &[u8; LEAF_BYTES] {
        &self.image
    }

    #[inline]
    pub(super) fn order(&self) -> Order {
        Order(word(&self.image, 0))
    }

    pub(super) fn set_order(&mut self, order: Order) {
        set_word(&mut self.image, 0, order.0);
    }

    pub(super) fn next(&self) -> PoolOffset {
        PoolOffset(word(&self.image, self.form.next_at()))
    }

    pub(super) fn set_next(&mut self, next: PoolOffset) {
        set_word(&mut self.image, self.form.next_at(), next.0);
    }

    #[inline]
    pub(super) fn head(&self, slot: usize) -> u64 {
        word(&self.image, self.form.head_at(slot))
    }

    #[inline]
    pub(super) fn slot(&self, slot: usize) -> Slot {
        Slot(word(&self.image, self.slot_at(slot)))
    }

    /// Where in the leaf a slot is.
    #[inline]
    pub(super) fn slot_at(&self, slot: usize) -> usize {
        self.form.slot_at(slot)
    }

    #[inline]
    pub(super) fn slot_in_order(&self, position: usize) -> Slot {
        self.slot(self.order().slot(position))
    }

    /// Announces that as many entries from a position on are opened next, in the leaf behind it as well
    /// where it has fewer.
    pub(super) fn will_open<T: Transact>(&self, tx: &mut T, position: usize, entries: u64) {
        let order = self.order();
        if ((order.len() - position) as u64) < entries && self.next().0 != 0 {
            tx.will_read(&[ByteRange::new(self.next(), LEAF_BYTES as u64)]);
        }
        if self.form == Form::Words {
            return;
        }
        for position in (position..order.len()).take(entries as usize) {
            tx.will_read(&[ByteRange::new(self.slot_in_order(position).at(), LINE_BYTES)]);
        }
    }

    /// The head and the slot of each key, in order.
    pub(super) fn items(&self) -> impl Iterator<Item = Item> {
        self.order().slots().map(|slot| (self.head(slot), self.slot(slot)))
    }

    /// Adds an item at `position`.
    pub(super) fn insert(&mut self, position: usize, (head, slot): Item) {
        let mut order = self.order();
        let free = order.insert(position);
        self.set_order(order);
        set_word(&mut self.image, self.form.head_at(free), head);
        set_word(&mut self.image, self.form.slot_at(free), slot.0);
    }

    /// Adds items behind the last.
    pub(super) fn extend(&mut self, items: impl IntoIterator<Item = Item>) {
        for item in items {
            self.insert(self.order().len(), item);
        }
    }
}

/// The head and the slot of a key or of a separator.
pub(super) type Item = (u64, Slot);

/// An inner node, taken apart.
#[derive(Clone)]
pub(super) struct Inner {
    image: [u8; INNER_BYTES],
    pub(super) separators: Vec<Item>,
    /// One more than separators.
    pub(super) children: Vec<u64>,
}

impl Inner {
    /// A node for a fresh block.
    pub(super) fn new(separators: Vec<Item>, children: Vec<u64>) -> Self {
        Self { image: [0; INNER_BYTES], separators, children }
    }

    /// Takes an image apart; `None` when its count is impossible.
    pub(super) fn from_image(image: [u8; INNER_BYTES]) -> Option<Self> {
        let n = word(&image, 0);
        if !(1..=SEPARATORS_MAX as u64).contains(&n) {
            return None;
        }
        let n = n as usize;
        let item = |i| {
            let head = word(&image, INNER_HEADS_AT + 8 * i);
            (head, Slot(word(&image, INNER_SEPARATORS_AT + 8 * i)))
        };
        let separators = (0..n).map(item).collect();
        let children = (0..=n).map(|i| word(&image, INNER_CHILDREN_AT + 8 * i)).collect();
        Some(Self { image, separators, children })
    }

    pub(super) fn load<T: Transact>(tx: &mut T, at: PoolOffset) -> Result<Self, Abort> {
        let mut image = [0; INNER_BYTES];
        tx.load(at, &mut image)?;
        Self::from_image(image).ok_or_else(|| damaged(at, "no node of a tree"))
    }

    /// The image from which this node was taken apart.
    pub(super) fn old_image(&self) -> &[u8; INNER_BYTES] {
        &self.image
    }

    /// The image now. What lies behind the last separator stays as it was.
    pub(super) fn new_image(&self) -> [u8; INNER_BYTES] {
        let mut image = self.image;
        set_word(&mut image, 0, self.separators.len() as u64);
        for (i, (head, slot)) in self.separators.iter().enumerate() {
            set_word(&mut image, INNER_HEADS_AT + 8 * i, *head);
            set_word(&mut image, INNER_SEPARATORS_AT + 8 * i, slot.0);
        }
        for (i, child) in self.children.iter().enumerate() {
            set_word(&mut image, INNER_CHILDREN_AT + 8 * i, *child);
        }
        image
    }
}

/// Which child of the inner node at `at` leads to `key`: how many separators are not above it.
#[inline]
pub(super) fn child_index<T: Transact>(
    tx: &mut T,
    at: PoolOffset,
    key: &SearchKey<'_>,
) -> Result<usize, Abort> {
    let mut image = [0; INNER_CHILDREN_AT];
    tx.load(at, &mut image)?;
    let n = word(&image, 0);
    if at.0 == 0 || n > SEPARATORS_MAX as u64 {
        return Err(damaged(at, "no node of a tree"));
    }
    let n = n as usize;
    let head_at = |i: usize| word(&image, INNER_HEADS_AT + 8 * i);
    // Without a branch on each comparison, all 31 cost less than a search that mispredicts.
    let below = (0..n).map(|i| usize::from(head_at(i) < key.head)).sum::<usize>();
    let equal = (below..n).take_while(|&i| head_at(i) == key.head).count();
    let (mut low, mut high) = (below, below + equal);
    while low < high {
        let middle = (low + high) / 2;
        let slot_at = at.plus((INNER_SEPARATORS_AT + 8 * middle) as u64);
        let separator = Slot(tx.load_u64(slot_at)?);
        if cmp_separator(tx, key, (head_at(middle), separator))? == Ordering::Less {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    Ok(low)
}

fn cmp_separator<T: Transact>(
    tx: &mut T,
    key: &SearchKey<'_>,
    (head, separator): Item,
) -> Result<Ordering, Abort> {
    if let Some(ordering) = key.cmp_head(head, length_hint(separator)) {
        return Ok(ordering);
    }
    let len = tx.load_u64(separator.at())? & 0xFFFF_FFFF;
    entry::compare(tx, key.bytes, separator.at().plus(SEPARATOR_TEXT_AT), len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_word_does_what_a_vector_does() {
        let mut random = outlast_trace::Random::new(1);
        let mut draw = |n: usize| random.below(n as u64) as usize;
        let mut order = Order::EMPTY;
        let mut model: Vec<usize> = Vec::new();
        for _ in 0..10_000 {
            if draw(2) == 0 && model.len() < LEAF_SLOTS {
                let position = draw(model.len() + 1);
                let slot = order.insert(position);
                assert!(!model.contains(&slot), "slot {slot} was taken");
                model.insert(position, slot);
            } else if !model.is_empty() {
                let position = draw(model.len());
                order.remove(position);
                model.remove(position);
            }
            if draw(100) == 0 {
                let len = draw(model.len() + 1);
                order.truncate(len);
                model.truncate(len);
            }
            assert!(order.is_sound() && order.stays_inside());
            assert_eq!(order.slots().collect::<Vec<_>>(), model);
        }
    }

    #[test]
    fn a_place_outside_the_leaf_is_noticed_wherever_it_is() {
        for position in 0..LEAF_SLOTS {
            assert!(!Order(Order::EMPTY.0 | 15 << (4 * position + 4)).stays_inside());
        }
        assert!(Order(Order::EMPTY.0 | 15).stays_inside(), "a full leaf");
    }

    #[test]
    fn heads_and_lengths_compare_as_the_keys_do() {
        let keys: [&[u8]; 10] = [
            b"",
            b"\0",
            b"\0\0",
            b"a",
            b"a\0",
            b"a\0\0\0\0\0\0\0",
            b"a\0\0\0\0\0\0\0\0",
            b"ab",
            b"abcdefgh",
            b"abcdefghi",
        ];
        for a in keys {
            for b in keys {
                let stored = SearchKey::new(b);
                let len = length_hint(Slot::new(PoolOffset(16), stored.extra));
                let decided = SearchKey::new(a).cmp_head(stored.head, len);
                match decided {
                    Some(ordering) => assert_eq!(ordering, a.cmp(b), "{a:?} and {b:?}"),
                    None => assert!(a.len() > 8 && b.len() > 8),
                }
            }
        }
    }
}
