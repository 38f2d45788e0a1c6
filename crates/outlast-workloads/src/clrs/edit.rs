//! Words that an operation changes, in volatile memory until all of them are known.

use outlast::medium::LINE_BYTES;
use outlast::{Abort, ByteRange, PoolOffset, Transact};

const WORDS: usize = LINE_BYTES as usize / 8;

/// The lines that an operation has read, as they were and as they are to be.
#[derive(Default)]
pub(super) struct Edit {
    lines: Vec<Line>,
}

struct Line {
    at: PoolOffset,
    /// Nothing of a line of a new block.
    before: Option<[u64; WORDS]>,
    now: [u64; WORDS],
}

impl Edit {
    /// Begins a new block, all zero.
    pub(super) fn fresh(&mut self, at: PoolOffset, bytes: u64) {
        let lines = (0..bytes / LINE_BYTES).map(|number| Line {
            at: at.plus(number * LINE_BYTES),
            before: None,
            now: [0; WORDS],
        });
        self.lines.extend(lines);
    }

    /// Drops what there is to store to a block that is given back.
    pub(super) fn forget(&mut self, at: PoolOffset, bytes: u64) {
        self.lines.retain(|line| !(at.0..at.0 + bytes).contains(&line.at.0));
    }

    pub(super) fn word<T: Transact>(&mut self, tx: &mut T, at: PoolOffset) -> Result<u64, Abort> {
        let (line, word) = self.place(tx, at)?;
        Ok(self.lines[line].now[word])
    }

    pub(super) fn set<T: Transact>(
        &mut self,
        tx: &mut T,
        at: PoolOffset,
        value: u64,
    ) -> Result<(), Abort> {
        let (line, word) = self.place(tx, at)?;
        self.lines[line].now[word] = value;
        Ok(())
    }

    /// Sets as many whole words as the bytes take.
    pub(super) fn set_bytes<T: Transact>(
        &mut self,
        tx: &mut T,
        at: PoolOffset,
        bytes: &[u8],
    ) -> Result<(), Abort> {
        for (chunk, number) in bytes.chunks(8).zip(0..) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.set(tx, at.plus(8 * number), u64::from_le_bytes(word))?;
        }
        Ok(())
    }

    /// Copies words; the places may overlap.
    pub(super) fn copy<T: Transact>(
        &mut self,
        tx: &mut T,
        from: PoolOffset,
        to: PoolOffset,
        words: u64,
    ) -> Result<(), Abort> {
        let mut one = |number: u64| {
            let word = self.word(tx, from.plus(8 * number))?;
            self.set(tx, to.plus(8 * number), word)
        };
        match to > from {
            true => (0..words).rev().try_for_each(&mut one),
            false => (0..words).try_for_each(&mut one),
        }
    }

    /// Announces and stores what has changed.
    pub(super) fn finish<T: Transact>(self, tx: &mut T) -> Result<(), Abort> {
        let mut changed = Vec::new();
        for line in &self.lines {
            let differs =
                |word: usize| line.before.is_none_or(|before| before[word] != line.now[word]);
            let mut word = 0;
            while word < WORDS {
                let from = word;
                while word < WORDS && differs(word) {
                    word += 1;
                }
                if word > from {
                    changed.push((line, from..word));
                }
                word += 1;
            }
        }
        let range = |(line, words): &(&Line, std::ops::Range<usize>)| {
            ByteRange::new(line.at.plus(8 * words.start as u64), 8 * words.len() as u64)
        };
        let older = changed.iter().filter(|(line, _)| line.before.is_some());
        let announced: Vec<ByteRange> = older.map(range).collect();
        if !announced.is_empty() {
            tx.will_write(&announced)?;
        }
        for part in &changed {
            let (line, words) = part;
            let bytes: Vec<u8> =
                line.now[words.clone()].iter().flat_map(|word| word.to_le_bytes()).collect();
            tx.store(range(part).at, &bytes)?;
        }
        Ok(())
    }

    /// The line that a word lies in, read at first use, and the word's number there.
    fn place<T: Transact>(&mut self, tx: &mut T, at: PoolOffset) -> Result<(usize, usize), Abort> {
        let start = PoolOffset(at.0 - at.0 % LINE_BYTES);
        let word = (at.0 % LINE_BYTES / 8) as usize;
        if let Some(line) = self.lines.iter().position(|line| line.at == start) {
            return Ok((line, word));
        }
        let mut bytes = [0; LINE_BYTES as usize];
        tx.load(start, &mut bytes)?;
        let words = bytes.as_chunks::<8>().0;
        let now = std::array::from_fn(|number| u64::from_le_bytes(words[number]));
        self.lines.push(Line { at: start, before: Some(now), now });
        Ok((self.lines.len() - 1, word))
    }
}
