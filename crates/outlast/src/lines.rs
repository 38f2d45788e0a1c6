//! The lines that a transaction has to do with: a small hash map that empties in no time.

use outlast_trace::LineAddr;

/// A set of lines, each with the words that matter (bit `i` is word `i` of the line). Entries
/// keep their order of insertion and are addressed by it.
pub(crate) struct LineSet {
    /// Open addressing; a slot counts only when its `round` is the current one.
    slots: Box<[Slot]>,
    round: u32,
    entries: Vec<LineEntry>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    round: u32,
    index: u32,
}

/// A line of the set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineEntry {
    pub line: LineAddr,
    /// Undo: words whose old content is kept. Redo: words that the write set holds.
    pub words: u8,
    /// Something was stored to it that is still to be flushed.
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
    fn of(line: LineAddr) -> Self {
        Self {
            line,
            words: 0,
            stored: false,
            fresh: false,
            written: 0,
            rewritten: 0,
            last: 0,
            transaction: 0,
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

const SLOTS_MIN: usize = 64;

impl Default for LineSet {
    fn default() -> Self {
        Self {
            slots: vec![Slot::default(); SLOTS_MIN].into_boxed_slice(),
            round: 1,
            entries: Vec::new(),
        }
    }
}

impl LineSet {
    pub fn clear(&mut self) {
        self.entries.clear();
        self.round = self.round.wrapping_add(1);
        if self.round == 0 {
            self.slots.fill(Slot::default());
            self.round = 1;
        }
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn entries(&self) -> &[LineEntry] {
        &self.entries
    }

    pub fn entry_mut(&mut self, index: usize) -> &mut LineEntry {
        &mut self.entries[index]
    }

    fn slot_of(&self, line: LineAddr) -> usize {
        // Fibonacci hashing: the high bits of the product are well mixed.
        let hash = line.0.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (hash >> 32) as usize & (self.slots.len() - 1)
    }

    /// The index of a line's entry.
    #[inline]
    pub fn find(&self, line: LineAddr) -> Option<usize> {
        if self.entries.is_empty() {
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
        if (self.entries.len() + 1) * 2 > self.slots.len() {
            self.double();
        }
        let mut at = self.slot_of(line);
        loop {
            let slot = self.slots[at];
            if slot.round != self.round {
                let index = self.entries.len();
                self.entries.push(LineEntry::of(line));
                self.slots[at] = Slot { round: self.round, index: index as u32 };
                return (index, true);
            }
            if self.entries[slot.index as usize].line == line {
                return (slot.index as usize, false);
            }
            at = (at + 1) & (self.slots.len() - 1);
        }
    }

    /// Takes out all entries but the first `len`.
    pub fn truncate(&mut self, len: usize) {
        // Whatever was put in later has gone already: no search goes on behind its slot.
        while self.entries.len() > len {
            let index = self.entries.len() as u32 - 1;
            let mut at = self.slot_of(self.entries[index as usize].line);
            while self.slots[at].index != index || self.slots[at].round != self.round {
                at = (at + 1) & (self.slots.len() - 1);
            }
            self.slots[at] = Slot::default();
            self.entries.pop();
        }
    }

    fn link(&mut self, index: usize) {
        let mut at = self.slot_of(self.entries[index].line);
        while self.slots[at].round == self.round {
            at = (at + 1) & (self.slots.len() - 1);
        }
        self.slots[at] = Slot { round: self.round, index: index as u32 };
    }

    #[cold]
    fn double(&mut self) {
        self.slots = vec![Slot::default(); self.slots.len() * 2].into_boxed_slice();
        self.round = 1;
        for index in 0..self.entries.len() {
            self.link(index);
        }
    }
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
            set.clear();
            assert!(set.is_empty() && set.find(LineAddr(round)).is_none());
        }
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
