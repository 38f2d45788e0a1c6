//! A lane's write-combining buffer: non-temporal stores on their way past the caches.
//!
//! Each buffered word may leave at any time and in any order until its lane's fence (rule 10);
//! a line of a 64-byte direct store leaves whole (rule 5). What leaves is handed to the caller.

use crate::cache::LineBytes;
use outlast_trace::{LineAddr, Random};

/// A part of a line on its way to memory: the words whose bits are set in `words`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Leaving {
    pub(crate) line: LineAddr,
    pub(crate) words: u8,
    pub(crate) data: LineBytes,
    /// Whether this was all that the buffer held of the line.
    pub(crate) last: bool,
}

#[derive(Clone, Debug)]
struct Buffered {
    line: LineAddr,
    words: u8,
    /// Whether the words leave together.
    whole: bool,
    data: LineBytes,
}

/// The lines that one lane is streaming, oldest first.
#[derive(Clone, Debug)]
pub(crate) struct WcBuffer {
    lines: Vec<Buffered>,
    capacity: usize,
}

impl WcBuffer {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { lines: Vec::with_capacity(capacity), capacity }
    }

    /// The lines that are here, oldest first.
    #[cfg(test)]
    pub(crate) fn held(&self) -> impl Iterator<Item = LineAddr> + '_ {
        self.lines.iter().map(|buffered| buffered.line)
    }

    /// The line that has been here longest.
    pub(crate) fn oldest(&self) -> Option<LineAddr> {
        self.lines.first().map(|buffered| buffered.line)
    }

    /// One of the lines that are here.
    pub(crate) fn any(&self, rng: &mut Random) -> Option<LineAddr> {
        let drawn = rng.below(self.lines.len() as u64) as usize;
        self.lines.get(drawn).map(|buffered| buffered.line)
    }

    pub(crate) fn is_full(&self) -> bool {
        self.lines.len() >= self.capacity
    }

    pub(crate) fn holds(&self, line: LineAddr) -> bool {
        self.find(line).is_some()
    }

    /// Whether the line is here as separate words, which more words may join.
    pub(crate) fn holds_words_of(&self, line: LineAddr) -> bool {
        self.find(line).is_some_and(|at| !self.lines[at].whole)
    }

    /// Puts words of a line beside those that are here already.
    pub(crate) fn put_words(&mut self, line: LineAddr, at: usize, bytes: &[u8]) {
        let index = match self.find(line) {
            Some(index) => index,
            None => {
                self.lines.push(Buffered { line, words: 0, whole: false, data: [0; 64] });
                self.lines.len() - 1
            }
        };
        let buffered = &mut self.lines[index];
        debug_assert!(!buffered.whole, "words may not join a direct store");
        buffered.data[at..at + bytes.len()].copy_from_slice(bytes);
        buffered.words |= word_mask(at, bytes.len());
    }

    /// Puts a line in that will leave whole.
    pub(crate) fn put_line(&mut self, line: LineAddr, data: &LineBytes) {
        debug_assert!(!self.holds(line), "{line} left before its direct store");
        self.lines.push(Buffered { line, words: u8::MAX, whole: true, data: *data });
    }

    /// Lets one word of the line go, drawn by `rng`, or the whole line where it is one.
    pub(crate) fn let_go(&mut self, line: LineAddr, rng: &mut Random) -> Option<Leaving> {
        let index = self.find(line)?;
        let buffered = &mut self.lines[index];
        let words = if buffered.whole { u8::MAX } else { any_bit(buffered.words, rng) };
        buffered.words &= !words;
        let last = buffered.words == 0;
        let leaving = Leaving { line, words, data: buffered.data, last };
        if last {
            self.lines.remove(index);
        }
        Some(leaving)
    }

    /// Which words of the line are here, and the line with them.
    pub(crate) fn words_of(&self, line: LineAddr) -> Option<(u8, LineBytes)> {
        self.find(line).map(|at| (self.lines[at].words, self.lines[at].data))
    }

    /// Takes the line out if all its words are here.
    pub(crate) fn take_complete(&mut self, line: LineAddr) -> Option<Leaving> {
        let index = self.find(line).filter(|&at| self.lines[at].words == u8::MAX)?;
        Some(self.take(index))
    }

    /// Takes the line out that has been here longest.
    pub(crate) fn take_oldest(&mut self) -> Option<Leaving> {
        (!self.lines.is_empty()).then(|| self.take(0))
    }

    fn take(&mut self, index: usize) -> Leaving {
        let Buffered { line, words, data, .. } = self.lines.remove(index);
        Leaving { line, words, data, last: true }
    }

    fn find(&self, line: LineAddr) -> Option<usize> {
        self.lines.iter().position(|buffered| buffered.line == line)
    }
}

/// The words that `len` bytes from byte `at` of a line on touch, as bits.
pub(crate) fn word_mask(at: usize, len: usize) -> u8 {
    let (first, end) = (at / 8, (at + len).div_ceil(8));
    (((1u32 << end) - 1) & !((1u32 << first) - 1)) as u8
}

fn any_bit(bits: u8, rng: &mut Random) -> u8 {
    let mut left = bits;
    for _ in 0..rng.below(u64::from(bits.count_ones())) {
        left &= left - 1;
    }
    left & left.wrapping_neg()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_name_the_words_touched() {
        assert_eq!(word_mask(0, 64), 0xff);
        assert_eq!(word_mask(8, 16), 0b110);
        assert_eq!(word_mask(7, 2), 0b11);
        assert_eq!(word_mask(63, 1), 0x80);
        assert_eq!(word_mask(16, 0), 0);
    }

    #[test]
    fn words_leave_one_by_one_in_orders_that_differ_and_lines_whole() {
        let mut orders = std::collections::BTreeSet::new();
        for seed in 0..50 {
            let mut rng = Random::from_state(seed);
            let mut buffer = WcBuffer::new(2);
            buffer.put_words(LineAddr(3), 8, &[7; 24]);
            buffer.put_line(LineAddr(4), &[9; 64]);
            let mut order = Vec::new();
            while let Some(leaving) = buffer.let_go(LineAddr(3), &mut rng) {
                assert_eq!(leaving.words.count_ones(), 1);
                assert_eq!(leaving.last, order.len() == 2);
                order.push(leaving.words);
            }
            assert_eq!(order.iter().fold(0, |all, word| all | word), 0b1110);
            orders.insert(order);
            let leaving = buffer.let_go(LineAddr(4), &mut rng).unwrap();
            assert_eq!((leaving.words, leaving.data), (0xff, [9; 64]));
            assert_eq!(buffer.oldest(), None);
        }
        assert_eq!(orders.len(), 6, "all orders of three words");
    }
}
