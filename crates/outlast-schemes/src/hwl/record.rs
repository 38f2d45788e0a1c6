//! The log's bytes: a ring of 64-byte slots, and before it one line with the head.
//!
//! ```text
//!  word 0          word 1                      words 2 .. 7
//! +---------------+---------------------------+------------------------------+
//! | number   : 48 | line                 : 40 | old, new  of up to 3 words   |   one line
//! | flags    :  8 | transaction          :  8 | of the line                  |
//! | words    :  8 | which of its words : 3 x 3|                              |
//! +---------------+---------------------------+------------------------------+
//! | number   : 48 | word's number        : 43 | old, new,                    |   two lines
//! | flags    :  8 | transaction          :  8 | the second word's number,    |
//! | words    :  8 |                           | its old, its new             |
//! +---------------+---------------------------+------------------------------+
//! ```
//!
//! The head line: word 0 the number of the oldest record that counts, words 1 to 7 the number
//! from which on records lie in the log's second, third, … region, 0 for one not in use.
//!
//! The paper's record of one word is 201 bits wide and its slot 512: two words of any lines fit
//! beside one header, or three of one line. That the last record of a transaction also says that
//! it is complete costs a flag.
//!
//! Memory must make a slot durable as a whole (an atomic write of 64 bytes). Record `n` lies in slot `n mod slots`; a slot holds the record that its number says, so
//! the end of the log is where the numbers stop. The paper has a torn bit per record
//! instead. Where only words are atomic, that bit cannot tell a torn record from a whole one (HWL-6).
//! Its transaction number of 8 or 16 bits is used again at once (HWL-3); here the first record and the
//! commit of each transaction separate those with the same number.

use super::config::Values;
use outlast_sim::LineBytes;
use outlast_trace::LineAddr;

/// Words of a line that one record can hold.
pub(super) const WORDS_MAX: usize = 3;

/// The first record of its transaction.
const FIRST: u64 = 1;
/// The transaction is complete.
const COMMIT: u64 = 2;
/// Two words of any lines, not up to three of one.
const TWO_LINES: u64 = 4;

/// One word's change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Change {
    pub(super) line: LineAddr,
    pub(super) word: u8,
    pub(super) old: u64,
    pub(super) new: u64,
}

impl Change {
    fn number(&self) -> u64 {
        self.line.0 << 3 | u64::from(self.word)
    }

    fn of_number(number: u64, old: u64, new: u64) -> Self {
        Self { line: LineAddr(number >> 3), word: (number & 7) as u8, old, new }
    }
}

/// What one slot says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) number: u64,
    /// The physical number of its transaction.
    pub(super) tx: u8,
    pub(super) first: bool,
    pub(super) commit: bool,
    changes: [Change; WORDS_MAX],
    len: usize,
}

impl Record {
    pub(super) fn new(number: u64, tx: u8) -> Self {
        let changes = [Change::default(); WORDS_MAX];
        Self { number, tx, first: false, commit: false, changes, len: 0 }
    }

    pub(super) fn changes(&self) -> &[Change] {
        &self.changes[..self.len]
    }

    /// Whether a word of this line is in it.
    pub(super) fn has_line(&self, line: LineAddr) -> bool {
        self.changes().iter().any(|change| change.line == line)
    }

    /// Leaves out the values that are not logged.
    pub(super) fn keep(&mut self, values: Values) {
        for change in &mut self.changes[..self.len] {
            match values {
                Values::Both => {}
                Values::Undo => change.new = 0,
                Values::Redo => change.old = 0,
            }
        }
    }

    fn is_of_two_lines(&self) -> bool {
        self.len == 2 && self.changes[0].line != self.changes[1].line
    }

    /// Adds a word's change: the first old value and the last new one count. False when there
    /// is no room.
    pub(super) fn add(&mut self, change: Change) -> bool {
        let same = |held: &&mut Change| held.line == change.line && held.word == change.word;
        if let Some(held) = self.changes[..self.len].iter_mut().find(same) {
            held.new = change.new;
            return true;
        }
        let fits = match self.len {
            0 => true,
            1 => true,
            2 => !self.is_of_two_lines() && self.changes[0].line == change.line,
            _ => false,
        };
        if fits {
            self.changes[self.len] = change;
            self.len += 1;
        }
        fits
    }

    pub(super) fn encode(&self) -> LineBytes {
        let flag = |set: bool, flag: u64| if set { flag } else { 0 };
        let two = self.is_of_two_lines();
        let flags = flag(self.first, FIRST) | flag(self.commit, COMMIT) | flag(two, TWO_LINES);
        let mut words = [0u64; 8];
        words[0] = self.number << 16 | flags << 8 | self.len as u64;
        words[1] = u64::from(self.tx) << 56;
        if two {
            let [a, b, _] = self.changes;
            words[1] |= a.number();
            words[2..7].copy_from_slice(&[a.old, a.new, b.number(), b.old, b.new]);
        } else {
            words[1] |= self.changes[0].line.0 << 16;
            for (k, change) in self.changes().iter().enumerate() {
                words[1] |= u64::from(change.word) << (3 * k);
                words[2 + 2 * k] = change.old;
                words[3 + 2 * k] = change.new;
            }
        }
        let mut bytes = [0; 64];
        for (word, into) in words.iter().zip(bytes.as_chunks_mut().0) {
            *into = word.to_le_bytes();
        }
        bytes
    }

    /// What a slot says; `None` when it cannot be a record.
    pub(super) fn decode(bytes: &[u8; 64]) -> Option<Self> {
        let word = |k: usize| u64::from_le_bytes(bytes.as_chunks().0[k]);
        let len = (word(0) & 0xff) as usize;
        let flags = word(0) >> 8 & 0xff;
        let two = flags & TWO_LINES != 0;
        if len > WORDS_MAX || (two && len != 2) {
            return None;
        }
        let mut record = Self::new(word(0) >> 16, (word(1) >> 56) as u8);
        record.first = flags & FIRST != 0;
        record.commit = flags & COMMIT != 0;
        record.len = len;
        if two {
            let first = word(1) & ((1 << 56) - 1);
            record.changes[0] = Change::of_number(first, word(2), word(3));
            record.changes[1] = Change::of_number(word(4), word(5), word(6));
            return Some(record);
        }
        let line = LineAddr(word(1) >> 16 & 0xff_ffff_ffff);
        for k in 0..len {
            let which = (word(1) >> (3 * k) & 7) as u8;
            let (old, new) = (word(2 + 2 * k), word(3 + 2 * k));
            record.changes[k] = Change { line, word: which, old, new };
        }
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FAR: LineAddr = LineAddr((1 << 40) - 1);

    fn change(line: LineAddr, word: u8, old: u64, new: u64) -> Change {
        Change { line, word, old, new }
    }

    #[test]
    fn three_words_of_a_line_share_a_record() {
        let mut record = Record::new(1 << 40, 7);
        record.first = true;
        assert!(record.add(change(FAR, 5, 1, 2)));
        assert!(record.add(change(FAR, 5, 2, 3)), "the same word again");
        assert!(record.add(change(FAR, 0, u64::MAX, 0)));
        assert!(record.add(change(FAR, 7, 8, 9)));
        assert!(!record.add(change(FAR, 1, 0, 1)), "a fourth word");
        assert_eq!(record.changes()[0], change(FAR, 5, 1, 3));
        assert_eq!(Record::decode(&record.encode()), Some(record));
        assert_eq!(Record::decode(&[0xff; 64]), None);
    }

    #[test]
    fn two_words_of_any_lines_share_a_record() {
        let mut record = Record::new(9, 255);
        record.commit = true;
        assert!(record.add(change(FAR, 7, u64::MAX, 2)));
        assert!(record.add(change(LineAddr(3), 1, 4, u64::MAX)));
        assert!(record.add(change(LineAddr(3), 1, u64::MAX, 5)), "the same word again");
        assert!(!record.add(change(LineAddr(3), 2, 0, 1)), "a third word");
        assert!(record.has_line(FAR) && record.has_line(LineAddr(3)));
        assert_eq!(Record::decode(&record.encode()), Some(record));
    }
}
