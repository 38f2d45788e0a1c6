//! The log's bytes: a ring of 64-byte slots, and before it one line with the head.
//!
//! ```text
//!  word 0          word 1                      words 2 .. 7
//! +---------------+---------------------------+------------------------------+
//! | number   : 48 | line                 : 40 | old, new  of up to 3 words   |
//! | flags    :  8 | lane                 :  8 | of the line                  |
//! | words    :  8 | which of its words : 3 x 3|                              |
//! +---------------+---------------------------+------------------------------+
//! ```
//!
//! A slot becomes durable as a whole. Record `n` lies in slot `n mod slots`; a slot holds the
//! record that its number says, so the end of the log is where the numbers stop. The paper has a
//! torn bit per record instead, with which a record that is torn cannot be told from a whole one
//! (HWL-6), and a transaction number of 8 or 16 bits that is used again at once (HWL-3); a lane
//! has one transaction at a time, so here its first record and its commit separate them.

use outlast_sim::LineBytes;
use outlast_trace::LineAddr;

/// Words of a line that one record can hold.
pub(super) const WORDS_MAX: usize = 3;

/// The first record of its transaction.
const FIRST: u64 = 1;
/// The transaction is complete.
const COMMIT: u64 = 2;

/// One word's change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Change {
    pub(super) word: u8,
    pub(super) old: u64,
    pub(super) new: u64,
}

/// What one slot says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Record {
    pub(super) number: u64,
    pub(super) lane: u8,
    pub(super) first: bool,
    pub(super) commit: bool,
    pub(super) line: LineAddr,
    changes: [Change; WORDS_MAX],
    len: usize,
}

impl Record {
    pub(super) fn new(number: u64, lane: u8, line: LineAddr) -> Self {
        let changes = [Change::default(); WORDS_MAX];
        Self { number, lane, first: false, commit: false, line, changes, len: 0 }
    }

    pub(super) fn changes(&self) -> &[Change] {
        &self.changes[..self.len]
    }

    /// Adds a word's change: the first old value and the last new one count. False when there
    /// is no room.
    pub(super) fn add(&mut self, change: Change) -> bool {
        let held = self.changes[..self.len].iter_mut().find(|held| held.word == change.word);
        if let Some(held) = held {
            held.new = change.new;
            return true;
        }
        if self.len == WORDS_MAX {
            return false;
        }
        self.changes[self.len] = change;
        self.len += 1;
        true
    }

    pub(super) fn encode(&self) -> LineBytes {
        let first = if self.first { FIRST } else { 0 };
        let commit = if self.commit { COMMIT } else { 0 };
        let flags = first | commit;
        let which =
            (0..self.len).fold(0, |which, k| which | u64::from(self.changes[k].word) << (3 * k));
        let mut words = [0u64; 8];
        words[0] = self.number << 16 | flags << 8 | self.len as u64;
        words[1] = u64::from(self.lane) << 56 | self.line.0 << 16 | which;
        for (k, change) in self.changes().iter().enumerate() {
            words[2 + 2 * k] = change.old;
            words[3 + 2 * k] = change.new;
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
        if len > WORDS_MAX {
            return None;
        }
        let flags = word(0) >> 8 & 0xff;
        let line = LineAddr(word(1) >> 16 & 0xff_ffff_ffff);
        let mut record = Self::new(word(0) >> 16, (word(1) >> 56) as u8, line);
        record.first = flags & FIRST != 0;
        record.commit = flags & COMMIT != 0;
        for k in 0..len {
            let which = (word(1) >> (3 * k) & 7) as u8;
            record.changes[k] = Change { word: which, old: word(2 + 2 * k), new: word(3 + 2 * k) };
        }
        record.len = len;
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_back_and_coalesce() {
        let mut record = Record::new(1 << 40, 7, LineAddr((1 << 40) - 1));
        record.first = true;
        assert!(record.add(Change { word: 5, old: 1, new: 2 }));
        assert!(record.add(Change { word: 5, old: 2, new: 3 }), "the same word again");
        assert!(record.add(Change { word: 0, old: u64::MAX, new: 0 }));
        assert!(record.add(Change { word: 7, old: 8, new: 9 }));
        assert!(!record.add(Change { word: 1, old: 0, new: 1 }), "a fourth word");
        assert_eq!(record.changes()[0], Change { word: 5, old: 1, new: 3 });
        assert_eq!(Record::decode(&record.encode()), Some(record));
        assert_eq!(Record::decode(&[0xff; 64]), None);
    }
}
