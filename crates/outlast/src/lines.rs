//! The lines that a transaction has to do with: a small hash map that empties in no time.

use outlast_trace::LineAddr;

/// A set of lines, each with the words that matter (bit `i` is word `i` of the line). Entries
/// keep their order of insertion and are addressed by it.
///
/// As long as each line holds one word, the set may be one of *items*: what is stored for a line is in a
/// [payload](crate::log::Payload), and the set has its place alone.
///
/// Few lines are found through a table of bytes, which is all that a search looks at for most of
/// the lines that are not there; more through one that grows, behind a bit for each of many hashes.
pub(crate) struct LineSet {
    /// Up to [`FEW`] lines: where a line's hash points, or in the next place that was free, its
    /// index plus one.
    few: [u8; FEW_SLOTS],
    /// More lines, in the same way. A slot counts only when its `round` is the current one.
    slots: Box<[Slot]>,
    round: u32,
    /// More lines: the bits that their hashes name, and maybe others.
    hashes: [u64; HASHES / 64],
    /// The transaction of new entries.
    transaction: u16,
    /// Whether lines are not found any more.
    has_forgotten: bool,
    /// How many items the set may have; 0 when it has entries.
    items_max: usize,
    /// Those of the set and, behind them, room for more.
    entries: Box<[LineEntry]>,
    len: usize,
}

const FEW: usize = 32;
const FEW_SLOTS: usize = 4 * FEW;

/// A batch of asynchronous commits has some 250 lines.
const HASHES: usize = 4096;

#[derive(Clone, Copy, Default)]
struct Slot {
    round: u32,
    index: u32,
}

/// Where a new item is to be found.
pub(crate) struct ItemPlace(usize);

/// A line of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineEntry {
    pub line: LineAddr,
    /// Undo: words whose old content is kept. Redo: words that the write set holds.
    pub words: u8,
    /// Undo: something was stored to it that is still to be flushed.
    pub stored: bool,
    /// Something of a new block was stored to it that is still to be flushed.
    pub fresh: bool,
    /// Undo: words of older blocks stored to.
    pub written: u8,
    /// Undo: words stored to more than once.
    pub rewritten: u8,
    /// Undo: the word stored to last.
    pub last: u8,
    /// Redo: the transaction of a batch that stored to it last, counted from 0.
    pub transaction: u16,
}

impl LineEntry {
    #[inline]
    fn of(line: LineAddr, transaction: u16) -> Self {
        Self {
            line,
            words: 0,
            stored: false,
            fresh: false,
            written: 0,
            rewritten: 0,
            last: 0,
            transaction,
        }
    }

    /// The words of `mask` were stored to, in ascending order.
    #[inline]
    pub fn note_store(&mut self, mask: u8) {
        self.stored = true;
        self.rewritten |= self.written & mask;
        self.written |= mask;
        self.last = (7 - mask.leading_zeros()) as u8;
    }
}

impl Default for LineSet {
    fn default() -> Self {
        Self {
            few: [0; FEW_SLOTS],
            slots: Box::default(),
            round: 1,
            hashes: [0; HASHES / 64],
            transaction: 0,
            has_forgotten: false,
            items_max: 0,
            entries: vec![LineEntry::of(LineAddr(0), 0); FEW].into(),
            len: 0,
        }
    }
}

impl LineSet {
    #[inline]
    pub fn clear(&mut self) {
        if self.len > 0 && !self.has_forgotten {
            self.forget_places();
        }
        self.len = 0;
        self.has_forgotten = false;
        if self.transaction != 0 {
            self.transaction = 0;
        }
    }

    /// Clears the set whose lines are not found any more, if it has some. It is one of items.
    #[inline(always)]
    pub fn clear_forgotten(&mut self) {
        debug_assert!(self.has_forgotten == (self.len > 0) && self.transaction == 0);
        (self.len, self.has_forgotten, self.items_max) = (0, false, FEW);
    }

    /// Whether the set, which is empty, is one of items from now on.
    pub fn hold_items(&mut self, are_items: bool) {
        debug_assert!(self.len == 0);
        self.items_max = if are_items { FEW } else { 0 };
    }

    /// How many items it has.
    #[inline(always)]
    pub fn items(&self) -> usize {
        if self.items_max > 0 { self.len } else { 0 }
    }

    /// Whether it is a set of items.
    #[inline(always)]
    pub fn holds_items(&self) -> bool {
        self.items_max > 0
    }

    /// Adds a line as an item, if a glance shows that the set is one of items, lacks the line and has few. `put`
    /// stores what is to be stored under the item's number and tells whether it could.
    #[inline(always)]
    pub fn add_item(&mut self, line: LineAddr, put: impl FnOnce(usize) -> bool) -> bool {
        debug_assert!(!self.has_forgotten);
        let (slot, number) = (few_slot(hash(line)), self.len);
        if number < self.items_max && self.few[slot] == 0 && put(number) {
            self.few[slot] = number as u8 + 1;
            self.len = number + 1;
            return true;
        }
        false
    }

    /// The number of a line's item, where `line_of` tells the lines of items; or the place for a new one.
    pub fn find_item(
        &self,
        line: LineAddr,
        line_of: impl Fn(usize) -> LineAddr,
    ) -> Result<usize, ItemPlace> {
        debug_assert!(self.holds_items() && !self.has_forgotten);
        let mut at = few_slot(hash(line));
        while let Some(number) = usize::from(self.few[at]).checked_sub(1) {
            if line_of(number) == line {
                return Ok(number);
            }
            at = (at + 1) % FEW_SLOTS;
        }
        Err(ItemPlace(at))
    }

    /// The number of a new item at that place; `None` where the set has as many as it may have.
    pub fn add_item_at(&mut self, ItemPlace(at): ItemPlace) -> Option<usize> {
        let number = self.len;
        if number >= self.items_max {
            return None;
        }
        self.few[at] = number as u8 + 1;
        self.len = number + 1;
        Some(number)
    }

    /// The set becomes one of entries, and empty. Returns how many items it had.
    pub fn end_items(&mut self) -> usize {
        let items = self.items();
        if items > 0 {
            self.few = [0; FEW_SLOTS];
        }
        (self.len, self.items_max) = (0, 0);
        items
    }

    /// Before the set is cleared: no line is looked for any more, and none added. What is left for
    /// [`clear`](Self::clear) is little.
    #[inline]
    pub fn forget_places(&mut self) {
        if self.len > FEW {
            self.forget_slots();
        } else {
            self.few = [0; FEW_SLOTS];
        }
        self.has_forgotten = true;
    }

    /// Entries that are new from now on have this as their transaction.
    pub fn set_transaction(&mut self, transaction: u16) {
        self.transaction = transaction;
    }

    /// Whether they are found through the table of bytes.
    #[inline]
    pub fn are_few(&self) -> bool {
        self.len <= FEW
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    #[inline]
    pub fn entries(&self) -> &[LineEntry] {
        // What was stored for items is no entry's.
        &self.entries[..if self.holds_items() { 0 } else { self.len }]
    }

    #[inline]
    pub fn entry_mut(&mut self, index: usize) -> &mut LineEntry {
        &mut self.entries[index]
    }

    /// Whether the line is surely not in the set. Of lines that are not, it knows most as long as
    /// the set is small.
    #[inline]
    pub fn surely_lacks(&self, line: LineAddr) -> bool {
        match self.len <= FEW {
            true => self.few[few_slot(hash(line))] == 0,
            false => self.many_surely_lack(line),
        }
    }

    fn many_surely_lack(&self, line: LineAddr) -> bool {
        let (word, bit) = hash_bit(line);
        self.hashes[word] & bit == 0
    }

    /// The index of a line's entry.
    #[inline]
    pub fn find(&self, line: LineAddr) -> Option<usize> {
        debug_assert!(!self.has_forgotten && !self.holds_items());
        if self.len > FEW {
            return self.find_among_many(line);
        }
        let mut at = few_slot(hash(line));
        loop {
            let index = usize::from(self.few[at]).checked_sub(1)?;
            if self.entries[index].line == line {
                return Some(index);
            }
            at = (at + 1) % FEW_SLOTS;
        }
    }

    fn find_among_many(&self, line: LineAddr) -> Option<usize> {
        if self.many_surely_lack(line) {
            return None;
        }
        let mut at = self.slot_of(line);
        loop {
            let slot = self.slots[at];
            if slot.round != self.round {
                return None;
            }
            if self.entries[slot.index as usize].line == line {
                return Some(slot.index as usize);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// The index of a line's entry, a new empty one if it had none; and whether it is new.
    #[inline]
    pub fn find_or_add(&mut self, line: LineAddr) -> (usize, bool) {
        debug_assert!(!self.has_forgotten && !self.holds_items());
        if self.len >= FEW {
            return self.find_or_add_among_many(line);
        }
        let mut at = few_slot(hash(line));
        while let Some(index) = usize::from(self.few[at]).checked_sub(1) {
            if self.entries[index].line == line {
                return (index, false);
            }
            at = (at + 1) % FEW_SLOTS;
        }
        let index = self.len;
        self.few[at] = index as u8 + 1;
        self.entries[index] = LineEntry::of(line, self.transaction);
        self.len = index + 1;
        (index, true)
    }

    /// Adds a line that holds one word if a glance shows that the set lacks the line
    /// and has few. Returns its index.
    #[inline]
    pub fn add_word(&mut self, line: LineAddr, word: usize) -> Option<usize> {
        debug_assert!(!self.has_forgotten && !self.holds_items());
        let (slot, index) = (few_slot(hash(line)), self.len);
        if index >= FEW || self.few[slot] != 0 {
            return None;
        }
        self.few[slot] = index as u8 + 1;
        self.entries[index] =
            LineEntry { words: 1 << word, ..LineEntry::of(line, self.transaction) };
        self.len = index + 1;
        Some(index)
    }

    /// As [`find_or_add`](Self::find_or_add), with the entry itself, as long as that takes no more
    /// than a look.
    #[inline]
    pub fn entry_among_few(&mut self, line: LineAddr) -> Option<(usize, &mut LineEntry)> {
        if self.len >= FEW {
            return None;
        }
        let (index, _) = self.find_or_add(line);
        Some((index, &mut self.entries[index]))
    }

    #[inline(never)]
    fn find_or_add_among_many(&mut self, line: LineAddr) -> (usize, bool) {
        if let Some(index) = self.find(line) {
            return (index, false);
        }
        let index = self.len;
        if index == self.entries.len() {
            self.double();
        }
        self.entries[index] = LineEntry::of(line, self.transaction);
        self.len = index + 1;
        if self.len == FEW + 1 {
            // The few of before are among many now.
            self.few = [0; FEW_SLOTS];
            (0..self.len).for_each(|index| self.link(index));
        } else {
            self.link(index);
        }
        (index, true)
    }

    /// Takes out all entries but the first `len`.
    pub fn truncate(&mut self, len: usize) {
        if len >= self.len {
            return;
        }
        if self.len > FEW && len > FEW {
            // Whatever was put in later has gone already: no search goes on behind its slot.
            while self.len > len {
                self.len -= 1;
                let index = self.len as u32;
                let mut at = self.slot_of(self.entries[self.len].line);
                while self.slots[at].index != index || self.slots[at].round != self.round {
                    at = (at + 1) & (self.slots.len() - 1);
                }
                self.slots[at] = Slot::default();
            }
            return;
        }
        if self.len > FEW {
            self.forget_slots();
        }
        self.len = len;
        self.few = [0; FEW_SLOTS];
        for index in 0..len {
            let mut at = few_slot(hash(self.entries[index].line));
            while self.few[at] != 0 {
                at = (at + 1) % FEW_SLOTS;
            }
            self.few[at] = index as u8 + 1;
        }
    }

    fn forget_slots(&mut self) {
        self.hashes = [0; HASHES / 64];
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.slots.fill(Slot::default());
            self.round = 1;
        }
    }

    fn slot_of(&self, line: LineAddr) -> usize {
        (hash(line) >> 32) as usize & (self.slots.len() - 1)
    }

    fn link(&mut self, index: usize) {
        let (word, bit) = hash_bit(self.entries[index].line);
        self.hashes[word] |= bit;
        let mut at = self.slot_of(self.entries[index].line);
        while self.slots[at].round == self.round {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = Slot { round: self.round, index: index as u32 };
    }

    #[cold]
    fn double(&mut self) {
        let mut entries = std::mem::take(&mut self.entries).into_vec();
        entries.resize(self.len * 2, LineEntry::of(LineAddr(0), 0));
        self.entries = entries.into();
        self.slots = vec![Slot::default(); self.len * 4].into();
        self.round = 1;
        if self.len > FEW {
            (0..self.len).for_each(|index| self.link(index));
        }
    }
}

/// Fibonacci hashing: the high bits of the product are well mixed.
#[inline]
fn hash(line: LineAddr) -> u64 {
    line.0.wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// The word and the bit of `hashes` that a line names.
#[inline]
fn hash_bit(line: LineAddr) -> (usize, u64) {
    let hash = hash(line) >> (64 - HASHES.ilog2());
    (hash as usize / 64, 1 << (hash % 64))
}

#[inline]
fn few_slot(hash: u64) -> usize {
    (hash >> (64 - FEW_SLOTS.ilog2())) as usize % FEW_SLOTS
}

/// The runs of adjacent set bits of a line's word mask: `(first word, words)`.
pub(crate) fn runs(mut words: u8) -> impl Iterator<Item = (u32, u32)> {
    let mut base = 0;
    std::iter::from_fn(move || {
        (words != 0).then(|| {
            let skip = words.trailing_zeros();
            words >>= skip;
            let len = words.trailing_ones();
            words = words.checked_shr(len).unwrap_or(0);
            let first = base + skip;
            base = first + len;
            (first, len)
        })
    })
}

/// The mask of the words of one line that bytes `from..to` of it touch.
pub(crate) fn word_mask(from: usize, to: usize) -> u8 {
    debug_assert!(from < to && to <= 64);
    let (first, last) = (from / 8, (to - 1) / 8);
    (0xffu8 >> (7 - (last - first))) << first
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn behaves_like_a_map_across_growth_and_clearing() {
        let mut set = LineSet::default();
        for round in 0..3u64 {
            let mut model = HashMap::new();
            for i in 0..1000u64 {
                let line = LineAddr(i * i % 701 + round);
                let (index, new) = set.find_or_add(line);
                assert_eq!(new, !model.contains_key(&line));
                assert_eq!(*model.entry(line).or_insert(index), index);
                set.entry_mut(index).words |= 1 << (i % 8);
            }
            assert_eq!(set.entries().len(), model.len());
            assert_eq!(set.find(LineAddr(100_000)), None);
            if round == 1 {
                set.forget_places();
                assert_eq!(set.entries().len(), model.len(), "they are only not found any more");
            }
            set.clear();
            assert!(set.is_empty() && set.find(LineAddr(round)).is_none());
        }
    }

    #[test]
    fn a_word_is_added_at_a_glance_or_not_at_all() {
        let (mut set, mut glances) = (LineSet::default(), 0);
        set.set_transaction(3);
        for number in 0..2 * FEW as u64 {
            let line = LineAddr(number * number * 7);
            let at_a_glance = set.add_word(line, number as usize % 8);
            assert!(at_a_glance.is_none_or(|index| index as u64 == number));
            glances += usize::from(at_a_glance.is_some());
            assert_eq!(set.find_or_add(line), (number as usize, at_a_glance.is_none()));
            let entry = set.entries()[number as usize];
            let expected = if at_a_glance.is_some() { 1 << (number % 8) } else { 0 };
            assert_eq!(entry.words, expected);
            assert_eq!(entry.transaction, 3);
            assert_eq!(set.add_word(line, 0), None, "it is there");
        }
        assert!((FEW / 2..=FEW).contains(&glances), "{glances} of {}", 2 * FEW);
    }

    #[test]
    fn items_are_found_by_their_lines_and_end() {
        let mut set = LineSet::default();
        set.hold_items(true);
        let lines: Vec<_> = (0..FEW as u64).map(|number| LineAddr(number * number * 7)).collect();
        for (number, line) in lines.iter().enumerate() {
            let line_of = |number: usize| lines[number];
            if !set.add_item(*line, |place| place == number) {
                let Err(place) = set.find_item(*line, line_of) else { panic!("it is new") };
                assert_eq!(set.add_item_at(place), Some(number));
            }
            assert_eq!(set.find_item(*line, line_of).ok(), Some(number));
            assert!(!set.add_item(*line, |_| true) && set.entries().is_empty());
        }
        assert_eq!(set.items(), FEW);
        let Err(place) = set.find_item(LineAddr(5), |number| lines[number]) else { panic!() };
        assert_eq!(set.add_item_at(place), None, "there are as many as may be");
        assert_eq!(set.end_items(), FEW);
        assert!(!set.holds_items() && set.is_empty() && set.find(lines[0]).is_none());
        set.find_or_add(LineAddr(1));
        set.forget_places();
        set.clear_forgotten();
        assert!(set.holds_items());
    }

    #[test]
    fn what_came_last_can_be_taken_out() {
        let mut set = LineSet::default();
        let lines: Vec<_> = (0..600u64).map(|i| LineAddr(i * i * 7 % 100_003)).collect();
        for keep in [0, 1, 30, 31, 200, 599] {
            set.clear();
            let mut kept = Vec::new();
            for line in &lines {
                if set.find_or_add(*line).1 && set.entries().len() <= keep {
                    kept.push(*line);
                }
            }
            set.truncate(keep);
            assert_eq!(set.entries().len(), kept.len());
            for line in &lines {
                assert_eq!(set.find(*line), kept.iter().position(|other| other == line));
                assert!(!(set.surely_lacks(*line) && kept.contains(line)));
            }
            for line in &lines {
                set.find_or_add(*line);
            }
            assert!(lines.iter().all(|line| set.find(*line).is_some()));
        }
    }

    #[test]
    fn masks_and_runs() {
        assert_eq!(word_mask(0, 64), 0xff);
        assert_eq!(word_mask(7, 9), 0b11);
        assert_eq!(word_mask(56, 57), 0x80);
        assert_eq!(runs(0b1101_1001).collect::<Vec<_>>(), [(0, 1), (3, 2), (6, 2)]);
        assert_eq!(runs(0xff).collect::<Vec<_>>(), [(0, 8)]);
        assert_eq!(runs(0).collect::<Vec<_>>(), []);
    }
}
