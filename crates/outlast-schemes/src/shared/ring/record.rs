//! The header of a record, as memory has it.

use outlast_sim::LineBytes;

/// Words of a header that are the scheme's.
pub(crate) const WORDS: usize = 6;

/// What makes a record the last of its transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Commit {
    /// Its place among all commits, from 1 on.
    pub(crate) seq: u64,
    /// Records of its transaction, this one included.
    pub(crate) records: u64,
}

/// A record's header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Header {
    /// Its number in its ring.
    pub(crate) number: u64,
    /// How many things it has; the scheme knows which.
    pub(crate) count: u8,
    /// Whether its transaction ends with it.
    pub(crate) commit: Option<Commit>,
    /// The scheme's words.
    pub(crate) words: [u64; WORDS],
}

impl Header {
    /// Its line.
    pub(crate) fn encode(&self) -> LineBytes {
        let commit = self.commit.map_or(0, |commit| commit.seq << 24 | commit.records);
        let own = [self.number << 8 | u64::from(self.count), commit];
        let mut line = [0; 64];
        let words = own.iter().chain(&self.words);
        for (place, word) in line.as_chunks_mut::<8>().0.iter_mut().zip(words) {
            *place = word.to_le_bytes();
        }
        line
    }

    /// The header in a line. Zeroes are record 0, which no ring has.
    pub(crate) fn decode(line: &LineBytes) -> Self {
        let words = line.as_chunks::<8>().0;
        let word = |at: usize| u64::from_le_bytes(words[at]);
        let (number, count) = (word(0) >> 8, word(0) as u8);
        let commit = match word(1) {
            0 => None,
            commit => Some(Commit { seq: commit >> 24, records: commit & 0xff_ffff }),
        };
        Self { number, count, commit, words: std::array::from_fn(|at| word(2 + at)) }
    }
}
